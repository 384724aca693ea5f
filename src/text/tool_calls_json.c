/* Calls in the JSON form, from the object's bracket on. */
#include <stdlib.h>

#include "text/tool_calls_parts.h"

void tool_begin_json(struct tool_calls *calls, const char *head, size_t length) {
  buffer_clear(&calls->raw);
  buffer_append(&calls->raw, head, length);
  buffer_clear(&calls->arguments);
  tool_mend_begin(calls);
  calls->reading = TOOL_MEMBER_NONE;
  calls->named = calls->complete = calls->has_arguments = false;
  calls->is_json = true;
  calls->place = TOOL_IN_JSON;
}

/* What the arguments come to that were not passed on as they came: a string may hold them once more encoded. */
static void emit_arguments(struct tool_calls *calls, const char *text, size_t length) {
  json_t *value = json_loadb(text, length, JSON_DECODE_ANY, NULL);
  const char *inner = json_string_value(value);
  size_t space = inner ? strspn(inner, " \t\r\n") : 0;
  if (inner && inner[space] == '{' && json_text_whole(inner, json_string_length(value)))
    tool_emit(calls, TOOL_ARGUMENTS, inner, json_string_length(value));
  else if (json_is_null(value) || (inner && !inner[space]))
    tool_emit(calls, TOOL_ARGUMENTS, "{}", 2);
  else
    tool_emit(calls, TOOL_ARGUMENTS, text, length);
  json_decref(value);
}

static bool begin_named(struct tool_calls *calls, const json_t *name) {
  if (!json_is_string(name) || json_string_length(name) == 0) return false;
  tool_begin(calls, json_string_value(name), json_string_length(name));
  calls->named = true;
  buffer_clear(&calls->raw);
  return true;
}

static bool key_is(const struct tool_calls *calls, const char *name) {
  return strcmp(buffer_text(&calls->key), name) == 0;
}

/* The arguments can be passed on as they come. */
static bool is_streamed(const struct tool_calls *calls) {
  return calls->reading == TOOL_MEMBER_ARGUMENTS && calls->named && buffer_text(&calls->member)[0] == '{';
}

static void begin_member(struct tool_calls *calls) {
  buffer_clear(&calls->member);
  if (key_is(calls, "name") && !calls->named)
    calls->reading = TOOL_MEMBER_NAME;
  else if ((key_is(calls, "arguments") || key_is(calls, "parameters")) && !calls->complete)
    calls->reading = TOOL_MEMBER_ARGUMENTS;
}

static void end_member(struct tool_calls *calls) {
  enum tool_member reading = calls->reading;
  const char *text = buffer_text(&calls->member);
  size_t length = calls->member.length;
  if (reading == TOOL_MEMBER_NAME) {
    json_t *name = json_loadb(text, length, JSON_DECODE_ANY, NULL);
    if (begin_named(calls, name) && calls->complete)
      emit_arguments(calls, buffer_text(&calls->arguments), calls->arguments.length);
    json_decref(name);
  } else if (reading == TOOL_MEMBER_ARGUMENTS) {
    if (is_streamed(calls))
      tool_emit_out(calls);
    else if (calls->named)
      emit_arguments(calls, text, length);
    else
      buffer_append(&calls->arguments, text, length);
    calls->complete = true;
  }
  calls->reading = TOOL_MEMBER_NONE;
}

/* Of arguments that are passed on, `member` has the first byte only. */
static void keep(struct tool_calls *calls, char byte) {
  if (!calls->member.length || !is_streamed(calls)) buffer_append(&calls->member, &byte, 1);
  if (is_streamed(calls)) buffer_append(&calls->out, &byte, 1);
}

/* One byte of the object. */
static bool take(struct tool_calls *calls, char byte) {
  struct json_scanner *scanner = &calls->scanner;
  bool before_value = scanner->depth == 1 && scanner->place == SCAN_VALUE && !json_space(byte);
  bool before_key = scanner->depth == 1 && (scanner->place == SCAN_FIRST_KEY || scanner->place == SCAN_KEY);
  bool in_key = scanner->depth == 1 && scanner->place == SCAN_STRING && scanner->is_key;
  if (!json_scanner_push(scanner, byte)) return false;
  if (before_key) buffer_clear(&calls->key);
  if (in_key && scanner->place == SCAN_STRING) buffer_append(&calls->key, &byte, 1);
  if (before_value) begin_member(calls);
  if (calls->reading == TOOL_MEMBER_NONE) return true;
  bool ended =
      scanner->depth == 0 || (scanner->depth == 1 && (scanner->place == SCAN_AFTER || scanner->place == SCAN_KEY));
  /* Only a number is ended by a byte that is not part of it. */
  bool is_part = !ended || (scanner->depth == 1 && scanner->place == SCAN_AFTER && !json_space(byte));
  if (is_part) keep(calls, byte);
  if (ended) end_member(calls);
  return true;
}

/* {"function": {"name", "arguments"}}, or the same with the text of the call's object. */
static void read_whole(struct tool_calls *calls) {
  const char *object = strchr(buffer_text(&calls->raw), '{');
  json_t *call = object ? json_loads(object, 0, NULL) : NULL;
  const json_t *function = json_object_get(call, "function");
  const json_t *name = json_is_object(function) ? json_object_get(function, "name") : function;
  const json_t *arguments = json_object_get(json_is_object(function) ? function : call, "arguments");
  if (begin_named(calls, name) && !calls->complete) {
    char *text = arguments ? json_dumps(arguments, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (text) emit_arguments(calls, text, strlen(text));
    calls->complete = text != NULL;
    free(text);
  } else if (calls->named) {
    emit_arguments(calls, buffer_text(&calls->arguments), calls->arguments.length);
  }
  json_decref(call);
}

/* The end of the object, or of what there is of it. */
static void end_json(struct tool_calls *calls) {
  if (!calls->named) read_whole(calls);
  if (!calls->named) {
    tool_emit(calls, TOOL_TEXT, buffer_text(&calls->raw), calls->raw.length);
    calls->place = TOOL_IN_TEXT;
    return;
  }
  if (is_streamed(calls)) {
    /* The outer object's bracket is not theirs. */
    bool closed = json_scanner_close(&calls->scanner, &calls->out);
    if (closed && calls->out.length) calls->out.data[--calls->out.length] = '\0';
    tool_emit_out(calls);
  } else if (calls->reading == TOOL_MEMBER_ARGUMENTS && calls->member.length) {
    end_member(calls);
  }
  if (!calls->has_arguments) tool_emit(calls, TOOL_ARGUMENTS, "{}", 2);
  tool_end(calls);
}

/* The scanner refuses the next byte. */
static bool step_refused(struct tool_calls *calls) {
  enum match match = tool_match(calls, tool_rest(calls), 0, TOOL_TAG_BLOCK_END);
  if (match == MATCH_PARTIAL) return false;
  if (match == MATCH_FULL || !calls->named)
    end_json(calls);
  else
    calls->place = TOOL_IN_BROKEN_JSON;
  return true;
}

bool tool_step_json(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  bool refused = false, whole = false;
  size_t used = 0;
  while (used < rest.length && !whole) {
    refused = !tool_mend(calls, rest.text[used], take);
    if (refused) break;
    if (!calls->named) buffer_append(&calls->raw, rest.text + used, 1);
    used++;
    whole = json_scanner_whole(&calls->scanner);
  }
  calls->at += used;
  if (calls->out.length) tool_emit_out(calls);
  if (refused) return step_refused(calls);
  if (!whole && !calls->final) return false;
  end_json(calls);
  return true;
}

/* Nothing can be made of it: arguments that have begun go on as they are, up to the end of the block. */
bool tool_step_broken_json(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  size_t length = 0;
  while (length < rest.length && (length == 0 || rest.text[length] != '<')) length++;
  enum match match = rest.length ? tool_match(calls, rest, 0, TOOL_TAG_BLOCK_END) : MATCH_NO;
  if (match == MATCH_PARTIAL || (!rest.length && !calls->final)) return false;
  if (match == MATCH_FULL || !rest.length) {
    if (!calls->has_arguments) tool_emit(calls, TOOL_ARGUMENTS, "{}", 2);
    tool_end(calls);
    return true;
  }
  if (is_streamed(calls)) tool_emit(calls, TOOL_ARGUMENTS, rest.text, length);
  calls->at += length;
  return true;
}
