/* Reads Prometheus' text format (version 0.0.4), sample by sample, without allocating.
 *
 *   # comments, HELP and TYPE lines, empty lines
 *   name{label="value",…} value [timestamp]
 *
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats/. The text comes from outside: what breaks the
 * format or a bound below is an error with its line, never read past or cut silently.
 */
#ifndef KAIJU_CMD_EXPOSITION_H
#define KAIJU_CMD_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { EXPOSITION_MAX_LABELS = 16, EXPOSITION_MAX_TEXT = 2048 /* bytes of a sample's name and labels */ };

struct exposition_label {
  const char *name, *value;
};

struct exposition_sample {
  const char *name;
  struct exposition_label labels[EXPOSITION_MAX_LABELS];
  size_t label_count;
  double value;                   /* may be infinite or NaN */
  char text[EXPOSITION_MAX_TEXT]; /* that the pointers above lead into; escapes are resolved */
};

struct exposition_reader {
  const char *at, *end;
  size_t line; /* of the sample that was read last, from 1 */
};

/* `text` is borrowed and need not end with NUL. */
struct exposition_reader exposition_read(const char *text, size_t length);
/* The next sample, or *found false at the end; valid until the next call. */
int exposition_next(struct exposition_reader *reader, struct exposition_sample *sample, bool *found,
                    struct kj_error *error);
/* The value of a label, or NULL. */
const char *exposition_label(const struct exposition_sample *sample, const char *name);

#endif
