#include "text/tool_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/json_scanner.h"
#include "text/python_literal.h"
#include "text/tool_schemas.h"

static bool is(const char *text, size_t length, const char *word) {
  return length == strlen(word) && memcmp(text, word, length) == 0;
}

static bool is_in_any_case(const char *text, size_t length, const char *word) {
  return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

static bool append_boolean(struct buffer *out, bool may_be_string, const char *text, size_t length) {
  /* Where TRUE may be a string it is one: neither JSON nor Python writes a boolean that way. */
  bool yes =
      may_be_string ? is(text, length, "true") || is(text, length, "True") : is_in_any_case(text, length, "true");
  bool no =
      may_be_string ? is(text, length, "false") || is(text, length, "False") : is_in_any_case(text, length, "false");
  if (yes || no) buffer_append_text(out, yes ? "true" : "false");
  return yes || no;
}

static bool append_number(struct buffer *out, unsigned types, const char *text, size_t length) {
  if (!length || !json_begins_number(text[0]) || !json_text_whole(text, length)) return false;
  bool is_integer = true;
  for (size_t i = 0; i < length; i++) is_integer &= text[i] != '.' && text[i] != 'e' && text[i] != 'E';
  if (types & TYPE_NUMBER || is_integer) {
    buffer_append(out, text, length);
    return true;
  }
  /* The buffer ends the text for strtod. */
  struct buffer copy = {0};
  buffer_append(&copy, text, length);
  double value = strtod(buffer_text(&copy), NULL);
  buffer_free(&copy);
  /* Beyond 2^53 a double no longer says which integer was meant. */
  if (!(fabs(value) <= 9007199254740992.0) || value != trunc(value)) return false;
  buffer_append_format(out, "%lld", (long long)value);
  return true;
}

static bool append_container(struct buffer *out, unsigned types, const char *text, size_t length) {
  if (!length) return false;
  bool may_open = (types & TYPE_OBJECT && text[0] == '{') || (types & TYPE_ARRAY && (text[0] == '[' || text[0] == '('));
  if (!may_open) return false;
  if (!json_text_whole(text, length)) return python_literal_to_json(text, length, out);
  buffer_append(out, text, length);
  return true;
}

void tool_value_append(struct buffer *out, unsigned types, const char *text, size_t length) {
  const char *value = text;
  size_t size = length;
  while (size && json_space(value[0])) value++, size--;
  while (size && json_space(value[size - 1])) size--;
  if (types & TYPE_NULL && (is(value, size, "null") || is(value, size, "None"))) {
    buffer_append_text(out, "null");
    return;
  }
  if (types & TYPE_BOOLEAN && append_boolean(out, types & TYPE_STRING, value, size)) return;
  if (types & (TYPE_INTEGER | TYPE_NUMBER) && append_number(out, types, value, size)) return;
  if (types & (TYPE_OBJECT | TYPE_ARRAY) && append_container(out, types, value, size)) return;
  buffer_append(out, "\"", 1);
  json_escape(out, text, length);
  buffer_append(out, "\"", 1);
}
