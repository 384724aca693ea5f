/* Compiling and rendering a template in one step, for the tests of what templates mean. */
#ifndef KAIJU_TESTS_TEMPLATE_CHECK_H
#define KAIJU_TESTS_TEMPLATE_CHECK_H

#include <stdio.h>

#include "text/jinja.h"
#include "unit/unit.h"

/* What went wrong is in `error`; the text is the caller's to free. */
static inline int render_text(const char *source, const char *variables_json, struct buffer *out,
                              struct kj_error *error) {
  struct jinja_template *template = NULL;
  struct jinja_variable variables[16];
  size_t count = 0;
  json_t *json = json_loads(variables_json ? variables_json : "{}", 0, NULL);
  assert_non_null(json);
  const char *name;
  json_t *value;
  json_object_foreach(json, name, value) {
    assert_true(count < 16);
    variables[count++] = (struct jinja_variable){name, value};
  }
  int code = jinja_compile(&template, "test.jinja", source, strlen(source), error);
  if (!code) code = jinja_render(template, variables, count, out, error);
  jinja_free(template);
  json_decref(json);
  return code;
}

static inline void expect_text(const char *source, const char *variables_json, const char *expected) {
  struct buffer out = {0};
  struct kj_error error = {0};
  if (render_text(source, variables_json, &out, &error)) fail_msg("%s: %s", source, error.message);
  assert_string_equal(buffer_text(&out), expected);
  buffer_free(&out);
}

/* The failure has this code, its message begins with `where` and goes on with something that contains `reason`. */
static inline void expect_failure(const char *source, const char *variables_json, int code, const char *where,
                                  const char *reason) {
  struct buffer out = {0};
  struct kj_error error = {0};
  buffer_append_text(&out, "before");
  int got = render_text(source, variables_json, &out, &error);
  if (got != code) fail_msg("%s: code %d, %s", source, got, error.message);
  if (strncmp(error.message, where, strlen(where)) != 0 || !strstr(error.message + strlen(where), reason)) {
    fail_msg("%s: message is: %s", source, error.message);
  }
  assert_string_equal(buffer_text(&out), "before");
  buffer_free(&out);
}

#endif
