/* Values as text: as str() and repr() of Python write them, and as JSON the way Python's json.dumps does. */
#ifndef KAIJU_TEXT_JINJA_PRINT_H
#define KAIJU_TEXT_JINJA_PRINT_H

#include "base/buffer.h"
#include "text/jinja_value.h"

void print_string(struct run *run, struct value value, struct buffer *out); /* str(value); nothing for undefined */
void print_repr(struct run *run, struct value value, struct buffer *out);
void print_float(double number, struct buffer *out); /* the shortest text that reads back as the same number */
/* str(value) as a text; a string is returned as it is, safety included. */
const struct text *value_to_text(struct run *run, struct value value);

struct json_style {
  bool ascii;                   /* characters beyond ASCII as \uXXXX */
  bool sorted;                  /* keys in order */
  const struct text *indent;    /* what a level is indented by; NULL for one line */
  const struct text *separator; /* between items and after a key */
  const struct text *colon;
};
/* Fails for what JSON has no form for. */
void print_json(struct run *run, struct value value, const struct json_style *style, struct buffer *out);

#endif
