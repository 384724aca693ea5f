/* Calls in the XML form, behind <function=NAME>. */
#include "text/tool_calls_parts.h"
#include "text/tool_value.h"

/* A string is passed on while it arrives: all others need the whole value to know what it is. */
static bool is_streamed(const struct tool_calls *calls) { return calls->types == TYPE_STRING && !calls->ignored; }

void tool_begin_function(struct tool_calls *calls, const struct tool_name *name) {
  tool_begin(calls, name->text, name->length);
  buffer_clear(&calls->given);
  calls->members = 0;
  calls->is_json = false;
  calls->place = TOOL_IN_FUNCTION;
}

static void end_function(struct tool_calls *calls) {
  if (!calls->is_json) {
    buffer_append_text(&calls->out, calls->members ? "}" : "{}");
    tool_emit_out(calls);
  }
  tool_end(calls);
}

static bool is_given(const struct tool_calls *calls, const char *name) {
  const char *at = buffer_text(&calls->given), *end = at + calls->given.length;
  for (; at < end; at += strlen(at) + 1)
    if (strcmp(at, name) == 0) return true;
  return false;
}

static void write_key(struct tool_calls *calls) {
  buffer_append_text(&calls->out, calls->members++ ? ",\"" : "{\"");
  json_escape(&calls->out, buffer_text(&calls->parameter), calls->parameter.length);
  buffer_append_text(&calls->out, "\":");
}

static void begin_parameter(struct tool_calls *calls, const struct tool_name *name) {
  buffer_clear(&calls->parameter);
  buffer_append(&calls->parameter, name->text, name->length);
  const char *parameter = buffer_text(&calls->parameter);
  calls->ignored = calls->is_json || is_given(calls, parameter);
  if (!calls->ignored) buffer_append(&calls->given, parameter, calls->parameter.length + 1);
  calls->types = tool_schemas_types(calls->schemas, buffer_text(&calls->name), parameter);
  calls->value_begun = false;
  buffer_clear(&calls->value);
  calls->at += name->end;
  calls->place = TOOL_IN_PARAMETER;
  if (!is_streamed(calls)) return;
  write_key(calls);
  buffer_append_text(&calls->out, "\"");
  tool_emit_out(calls);
}

static void end_parameter(struct tool_calls *calls) {
  calls->place = TOOL_IN_FUNCTION;
  if (calls->ignored) return;
  if (is_streamed(calls)) {
    buffer_append_text(&calls->out, "\"");
  } else {
    write_key(calls);
    tool_value_append(&calls->out, calls->types, buffer_text(&calls->value), calls->value.length);
  }
  tool_emit_out(calls);
}

/* Uses up `length` bytes of the value. */
static void add_to_value(struct tool_calls *calls, size_t length) {
  const char *text = tool_rest(calls).text;
  calls->at += length;
  if (calls->ignored) return;
  if (!is_streamed(calls)) {
    buffer_append(&calls->value, text, length);
    return;
  }
  json_escape(&calls->out, text, length);
  tool_emit_out(calls);
}

bool tool_step_function(struct tool_calls *calls) {
  static const char *const ENDS[] = {TOOL_TAG_FUNCTION_END, TOOL_TAG_BLOCK_END, TOOL_TAG_BLOCK, TOOL_TAG_FUNCTION};
  struct tool_rest rest = tool_rest(calls);
  size_t space = tool_leading_space(rest, rest.length);
  calls->at += space;
  rest = tool_rest(calls);
  if (!rest.length) {
    if (!calls->final) return false;
    end_function(calls);
    return true;
  }
  if (rest.text[0] == '{' && !calls->has_arguments) {
    tool_mend_begin(calls);
    calls->is_json = true;
    calls->place = TOOL_IN_FUNCTION_JSON;
    return true;
  }
  struct tool_name name;
  enum match match = tool_match_name(calls, rest, 0, TOOL_TAG_PARAMETER, &name);
  if (match == MATCH_FULL) begin_parameter(calls, &name);
  for (size_t i = 0; match == MATCH_NO && i < sizeof ENDS / sizeof *ENDS; i++) {
    match = tool_match(calls, rest, 0, ENDS[i]);
    if (match != MATCH_FULL) continue;
    if (i == 0) calls->at += strlen(ENDS[i]);
    end_function(calls);
  }
  if (match == MATCH_PARTIAL) return false;
  if (match == MATCH_NO) calls->at++;
  return true;
}

/* Is there, after white space, the end of the text or one of the tags? */
static enum match match_next(const struct tool_calls *calls, struct tool_rest rest, size_t from,
                             const char *const *tags) {
  struct tool_rest behind = {rest.text + from, rest.length - from};
  size_t space = tool_leading_space(behind, TOOL_SPACE_MAXIMUM);
  if (space == TOOL_SPACE_MAXIMUM) return MATCH_FULL;
  if (space == behind.length) return calls->final ? MATCH_FULL : MATCH_PARTIAL;
  for (; *tags; tags++) {
    enum match match = tool_match(calls, behind, space, *tags);
    if (match != MATCH_NO) return match;
  }
  return MATCH_NO;
}

/* Does the value end at `from`, where a tag begins? The text of a tag may as well be part of the value, when someone
 * writes about calls: it is a tag where what follows is a call's, too. */
static enum match match_value_end(struct tool_calls *calls, struct tool_rest rest, size_t from, size_t *length) {
  static const char *const AFTER_VALUE[] = {TOOL_TAG_PARAMETER, TOOL_TAG_FUNCTION_END, TOOL_TAG_BLOCK_END,
                                            TOOL_TAG_BLOCK,     TOOL_TAG_FUNCTION,     NULL};
  static const char *const AFTER_FUNCTION[] = {TOOL_TAG_BLOCK_END, TOOL_TAG_BLOCK, TOOL_TAG_FUNCTION, NULL};
  static const char *const AFTER_BLOCK[] = {TOOL_TAG_BLOCK, NULL};
  static const struct {
    const char *tag, *const *next;
  } TAGS[] = {{TOOL_TAG_PARAMETER_END, AFTER_VALUE},
              {TOOL_TAG_FUNCTION_END, AFTER_FUNCTION},
              {TOOL_TAG_BLOCK_END, AFTER_BLOCK}};
  for (size_t i = 0; i < sizeof TAGS / sizeof *TAGS; i++) {
    enum match match = tool_match(calls, rest, from, TAGS[i].tag);
    if (match == MATCH_NO) continue;
    *length = i == 0 ? strlen(TAGS[i].tag) : 0;
    return match == MATCH_PARTIAL ? match : match_next(calls, rest, from + strlen(TAGS[i].tag), TAGS[i].next);
  }
  struct tool_name name;
  *length = 0;
  enum match match = tool_match_name(calls, rest, from, TOOL_TAG_PARAMETER, &name);
  if (match != MATCH_FULL) return match;
  buffer_clear(&calls->key);
  buffer_append(&calls->key, name.text, name.length);
  const char *parameter = buffer_text(&calls->key);
  bool is_next =
      !is_given(calls, parameter) && tool_schemas_know_parameter(calls->schemas, buffer_text(&calls->name), parameter);
  return is_next ? MATCH_FULL : MATCH_NO;
}

bool tool_step_parameter(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  if (!calls->value_begun && rest.length) {
    calls->value_begun = true;
    if (rest.text[0] == '\n') {
      calls->at++;
      return true;
    }
  }
  size_t plain = 0;
  while (plain < rest.length && rest.text[plain] != '<' && rest.text[plain] != '\n') plain++;
  if (plain) add_to_value(calls, plain);
  rest = tool_rest(calls);
  size_t newline = rest.length && rest.text[0] == '\n';
  if (newline == rest.length) {
    if (!calls->final) return false;
    calls->at += newline;
    end_parameter(calls);
    return true;
  }
  size_t tag = 0;
  enum match match = rest.text[newline] == '<' ? match_value_end(calls, rest, newline, &tag) : MATCH_NO;
  if (match == MATCH_PARTIAL) return false;
  if (match == MATCH_FULL) {
    calls->at += newline + tag;
    end_parameter(calls);
  } else {
    add_to_value(calls, newline ? newline : 1);
  }
  return true;
}

static bool take_function_json(struct tool_calls *calls, char byte) {
  if (!json_scanner_push(&calls->scanner, byte)) return false;
  buffer_append(&calls->out, &byte, 1);
  return true;
}

bool tool_step_function_json(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  bool goes_on = true;
  size_t used = 0;
  while (goes_on && used < rest.length) {
    goes_on = tool_mend(calls, rest.text[used], take_function_json);
    if (!goes_on) break;
    used++;
    goes_on = !json_scanner_whole(&calls->scanner);
  }
  calls->at += used;
  if (goes_on && !calls->final) {
    tool_emit_out(calls);
    return false;
  }
  if (!json_scanner_whole(&calls->scanner)) json_scanner_close(&calls->scanner, &calls->out);
  tool_emit_out(calls);
  calls->place = TOOL_IN_FUNCTION;
  return true;
}
