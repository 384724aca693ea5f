/* JSON as models write it, to JSON: control characters and wrong escapes in strings, and what Python has in its place.
 */
#include "text/tool_calls_parts.h"

void tool_mend_begin(struct tool_calls *calls) {
  calls->scanner = (struct json_scanner){0};
  calls->single_quoted = false;
  calls->python_word = NULL;
}

static bool take_all(struct tool_calls *calls, tool_taker *take, const char *text, size_t length) {
  bool taken = true;
  for (size_t i = 0; i < length; i++) taken = take(calls, text[i]) && taken;
  return taken;
}

static bool mend_control(struct tool_calls *calls, char byte, tool_taker *take) {
  struct buffer escaped = {0};
  json_escape(&escaped, &byte, 1);
  bool taken = take_all(calls, take, buffer_text(&escaped), escaped.length);
  calls->failed |= escaped.failed;
  buffer_free(&escaped);
  return taken;
}

static bool mend_in_string(struct tool_calls *calls, char byte, tool_taker *take) {
  bool is_control = (unsigned char)byte < 0x20;
  if (calls->scanner.place == SCAN_ESCAPE) {
    /* The backslash has been taken: the quote of a Python string follows it as a code point. */
    if (calls->single_quoted && byte == '\'') return take_all(calls, take, "u0027", 5);
    /* \d of a regular expression: the backslash stands for itself. */
    if ((is_control || !strchr("\"\\/bfnrtu", byte)) && !take(calls, '\\')) return false;
  }
  if (calls->scanner.place == SCAN_STRING) {
    if (is_control) return mend_control(calls, byte, take);
    if (calls->single_quoted && byte == '"') return take_all(calls, take, "\\\"", 2);
    if (calls->single_quoted && byte == '\'') {
      calls->single_quoted = false;
      return take(calls, '"');
    }
  }
  return take(calls, byte);
}

/* Each has as many letters as what JSON has in its place. */
static const char *python_word(char first) {
  return first == 'T' ? "True" : first == 'F' ? "False" : first == 'N' ? "None" : NULL;
}

bool tool_mend(struct tool_calls *calls, char byte, tool_taker *take) {
  const struct json_scanner *scanner = &calls->scanner;
  switch (scanner->place) {
    case SCAN_STRING:
    case SCAN_ESCAPE:
    case SCAN_HEXADECIMAL:
      return mend_in_string(calls, byte, take);
    case SCAN_LITERAL:
      if (!calls->python_word) return take(calls, byte);
      return byte == calls->python_word[scanner->count] && take(calls, scanner->letters[scanner->count]);
    case SCAN_VALUE:
    case SCAN_FIRST_ITEM:
      if (!json_space(byte)) calls->python_word = python_word(byte);
      if (calls->python_word) return take(calls, (char)(byte | 0x20));
      break;
    case SCAN_FIRST_KEY:
    case SCAN_KEY:
      break;
    default:
      return take(calls, byte);
  }
  if (byte != '\'') return take(calls, byte);
  calls->single_quoted = take(calls, '"');
  return calls->single_quoted;
}
