/* The main loop of tools that answer a JSON value a line on standard input with one a line on standard output. */
#ifndef KAIJU_TESTS_JSON_LINES_H
#define KAIJU_TESTS_JSON_LINES_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

/* A new value, or NULL and the error. The request is NULL where the line is no JSON. */
typedef json_t *json_line_answer(json_t *request, struct kj_error *error);

/* The exit status: 1, with the reason on standard error, at the first line without an answer. */
static inline int json_lines(json_line_answer *answer_to) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length = 0;
  int status = 0;
  while (!status && (length = getline(&line, &capacity, stdin)) > 0) {
    struct kj_error error = {.message = "not a request, or a text that is not UTF-8"};
    json_t *request = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, NULL), *answer = answer_to(request, &error);
    if (answer) {
      json_dumpf(answer, stdout, JSON_COMPACT);
      putchar('\n');
      fflush(stdout);
    } else {
      fprintf(stderr, "no answer: %s\n", error.message);
      status = 1;
    }
    json_decref(answer);
    json_decref(request);
  }
  free(line);
  return status;
}

#endif
