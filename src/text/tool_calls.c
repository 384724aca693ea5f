#include <stdlib.h>

#include "text/tool_calls_parts.h"

int tool_calls_create(struct tool_calls **calls, enum tool_form form, const struct tool_schemas *schemas,
                      tool_event_handler *handler, void *context, struct kj_error *error) {
  *calls = calloc(1, sizeof **calls);
  if (!*calls) return kj_fail_memory(error, "the reader of tool calls");
  **calls = (struct tool_calls){.form = form, .schemas = schemas, .handler = handler, .context = context};
  return 0;
}

void tool_calls_free(struct tool_calls *calls) {
  if (!calls) return;
  struct buffer *const buffers[] = {&calls->pending, &calls->name, &calls->out, &calls->parameter, &calls->value,
                                    &calls->given,   &calls->raw,  &calls->key, &calls->member,    &calls->arguments};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) buffer_free(buffers[i]);
  free(calls);
}

size_t tool_calls_count(const struct tool_calls *calls) { return calls->count; }

bool tool_calls_failed(const struct tool_calls *calls) {
  return calls->failed || calls->pending.failed || calls->name.failed || calls->out.failed || calls->parameter.failed ||
         calls->value.failed || calls->given.failed || calls->raw.failed || calls->key.failed || calls->member.failed ||
         calls->arguments.failed;
}

enum match tool_match(const struct tool_calls *calls, struct tool_rest rest, size_t from, const char *tag) {
  size_t length = strlen(tag), have = rest.length - from;
  if (memcmp(rest.text + from, tag, have < length ? have : length) != 0) return MATCH_NO;
  if (have >= length) return MATCH_FULL;
  return calls->final ? MATCH_NO : MATCH_PARTIAL;
}

static bool trimmed_from_names(char byte) { return byte == ' ' || byte == '"' || byte == '\''; }

enum match tool_match_name(const struct tool_calls *calls, struct tool_rest rest, size_t from, const char *tag,
                           struct tool_name *name) {
  enum match match = tool_match(calls, rest, from, tag);
  if (match != MATCH_FULL) return match;
  size_t begin = from + strlen(tag), end = begin;
  for (; end < rest.length && rest.text[end] != '>'; end++)
    if ((unsigned char)rest.text[end] < 0x20 || rest.text[end] == '<' || end - begin == TOOL_NAME_MAXIMUM)
      return MATCH_NO;
  if (end == rest.length) return calls->final ? MATCH_NO : MATCH_PARTIAL;
  name->end = end + 1;
  while (begin < end && trimmed_from_names(rest.text[begin])) begin++;
  while (begin < end && trimmed_from_names(rest.text[end - 1])) end--;
  name->text = rest.text + begin;
  name->length = end - begin;
  return begin < end ? MATCH_FULL : MATCH_NO;
}

void tool_emit(struct tool_calls *calls, enum tool_event_kind kind, const char *bytes, size_t length) {
  if (kind != TOOL_END && !length) return;
  if (kind == TOOL_TEXT) calls->text_before = true;
  if (kind == TOOL_ARGUMENTS) calls->has_arguments = true;
  struct tool_event event = {
      .kind = kind, .call = kind == TOOL_TEXT ? 0 : calls->count - 1, .bytes = bytes, .length = length};
  calls->handler(calls->context, &event);
}

void tool_emit_out(struct tool_calls *calls) {
  tool_emit(calls, TOOL_ARGUMENTS, buffer_text(&calls->out), calls->out.length);
  calls->failed |= calls->out.failed;
  buffer_clear(&calls->out);
}

void tool_begin(struct tool_calls *calls, const char *name, size_t length) {
  buffer_clear(&calls->name);
  buffer_append(&calls->name, name, length);
  calls->count++;
  calls->has_arguments = false;
  tool_emit(calls, TOOL_BEGIN, buffer_text(&calls->name), calls->name.length);
}

void tool_end(struct tool_calls *calls) {
  tool_emit(calls, TOOL_END, NULL, 0);
  calls->text_before = false;
  calls->place = TOOL_AFTER_CALL;
}

/* The beginning of a call. */
struct head {
  size_t length;         /* up to and with the function's tag, or up to the object */
  struct tool_name name; /* of an object: empty */
};

/* Characters that tools are named with: the name of a call without a block stands in any text. */
static bool is_plain_name(const struct tool_name *name) {
  for (size_t i = 0; i < name->length; i++) {
    char byte = name->text[i], letter = (char)(byte | 0x20);
    bool plain = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' ||
                 byte == '.' || byte == ':' || byte == '/';
    if (!plain) return false;
  }
  return true;
}

static bool is_known(struct tool_calls *calls, const struct tool_name *name) {
  buffer_clear(&calls->name);
  buffer_append(&calls->name, name->text, name->length);
  return tool_schemas_know(calls->schemas, buffer_text(&calls->name));
}

/* A call that begins at `from`, in a block. */
static enum match match_call(const struct tool_calls *calls, struct tool_rest rest, size_t from, struct head *head) {
  struct tool_rest inner = {rest.text + from, rest.length - from};
  size_t at = from + tool_leading_space(inner, TOOL_SPACE_MAXIMUM);
  if (at == rest.length) return calls->final ? MATCH_NO : MATCH_PARTIAL;
  head->length = at;
  head->name = (struct tool_name){0};
  if (rest.text[at] == '{') return MATCH_FULL;
  enum match match = tool_match_name(calls, rest, at, TOOL_TAG_FUNCTION, &head->name);
  if (match == MATCH_FULL) head->length = head->name.end;
  return match;
}

/* Skips white space. MATCH_FULL: something else follows. */
static enum match skip_space(const struct tool_calls *calls, struct tool_rest rest, size_t *at) {
  *at += tool_leading_space((struct tool_rest){rest.text + *at, rest.length - *at}, TOOL_SPACE_MAXIMUM);
  if (*at < rest.length) return MATCH_FULL;
  return calls->final ? MATCH_NO : MATCH_PARTIAL;
}

/* {"name": "NAME" of a known tool: a call in the JSON form without its block. */
static enum match match_bare_json(struct tool_calls *calls, struct tool_rest rest, size_t from, struct head *head) {
  static const char *const TOKENS[] = {"{", "\"name\"", ":", "\""};
  size_t at = from;
  for (size_t i = 0; i < sizeof TOKENS / sizeof *TOKENS; i++) {
    enum match match = skip_space(calls, rest, &at);
    if (match == MATCH_FULL) match = tool_match(calls, rest, at, TOKENS[i]);
    if (match != MATCH_FULL) return match;
    at += strlen(TOKENS[i]);
  }
  size_t end = at;
  while (end < rest.length && rest.text[end] != '"' && end - at < TOOL_NAME_MAXIMUM) end++;
  if (end == rest.length) return calls->final ? MATCH_NO : MATCH_PARTIAL;
  const struct tool_name name = {rest.text + at, end - at, end};
  *head = (struct head){.length = from};
  return rest.text[end] == '"' && is_plain_name(&name) && is_known(calls, &name) ? MATCH_FULL : MATCH_NO;
}

static enum match match_head(struct tool_calls *calls, struct tool_rest rest, size_t from, bool line_begins,
                             struct head *head) {
  if (rest.text[from] == '{') return match_bare_json(calls, rest, from, head);
  enum match match = tool_match(calls, rest, from, TOOL_TAG_BLOCK);
  if (match == MATCH_FULL) return match_call(calls, rest, from + strlen(TOOL_TAG_BLOCK), head);
  if (match == MATCH_PARTIAL || calls->form != TOOL_FORM_XML) return match;
  match = tool_match_name(calls, rest, from, TOOL_TAG_FUNCTION, &head->name);
  if (match != MATCH_FULL) return match;
  if (!is_known(calls, &head->name) && !(line_begins && is_plain_name(&head->name))) return MATCH_NO;
  head->length = head->name.end;
  return MATCH_FULL;
}

/* Begins the call; `length` bytes of the rest belong to its head. */
static void begin_call(struct tool_calls *calls, struct tool_rest rest, size_t from, const struct head *head) {
  calls->at += head->length;
  if (head->name.length)
    tool_begin_function(calls, &head->name);
  else
    tool_begin_json(calls, rest.text + from, head->length - from);
}

/* The white space between text and a call, without what the template puts there. */
static void emit_space_before_call(struct tool_calls *calls, const char *space, size_t length) {
  if (calls->form == TOOL_FORM_XML || !calls->text_before) return;
  tool_emit(calls, TOOL_TEXT, space, space[length - 1] == '\n' ? length - 1 : length);
}

static bool step_text(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  if (!rest.length) return false;
  size_t space = tool_leading_space(rest, TOOL_SPACE_MAXIMUM), used = space;
  bool line_begins = !calls->text_before || memchr(rest.text, '\n', space);
  bool may_begin = space < rest.length && (rest.text[space] == '<' ||
                                           (calls->form == TOOL_FORM_JSON && line_begins && rest.text[space] == '{'));
  if (space == TOOL_SPACE_MAXIMUM) {
    tool_emit(calls, TOOL_TEXT, rest.text, space);
  } else if (space == rest.length) {
    if (!calls->final) return false;
    if (calls->text_before || !calls->count) tool_emit(calls, TOOL_TEXT, rest.text, space);
  } else if (!may_begin) {
    used++;
    while (used < rest.length && rest.text[used] != '<' && !json_space(rest.text[used])) used++;
    tool_emit(calls, TOOL_TEXT, rest.text, used);
  } else {
    struct head head = {0};
    enum match match = match_head(calls, rest, space, line_begins, &head);
    if (match == MATCH_PARTIAL) return false;
    if (match == MATCH_FULL) {
      if (space) emit_space_before_call(calls, rest.text, space);
      begin_call(calls, rest, space, &head);
      return true;
    }
    tool_emit(calls, TOOL_TEXT, rest.text, ++used);
  }
  calls->at += used;
  return true;
}

static bool step_after_call(struct tool_calls *calls) {
  struct tool_rest rest = tool_rest(calls);
  size_t space = tool_leading_space(rest, TOOL_SPACE_MAXIMUM);
  if (space == rest.length && !calls->final) return false;
  enum match end = tool_match(calls, rest, space, TOOL_TAG_BLOCK_END);
  struct head head = {0};
  enum match call = end == MATCH_NO ? match_call(calls, rest, space, &head) : MATCH_NO;
  if (end == MATCH_PARTIAL || call == MATCH_PARTIAL) return false;
  if (call == MATCH_FULL) {
    begin_call(calls, rest, space, &head);
    return true;
  }
  if (end == MATCH_FULL) calls->at += space + strlen(TOOL_TAG_BLOCK_END);
  /* A bracket too many behind an object, or a comma between two. */
  bool stray = calls->is_json && space < rest.length && (rest.text[space] == '}' || rest.text[space] == ',');
  if (end == MATCH_NO && stray) {
    calls->at += space + 1;
    return true;
  }
  calls->place = TOOL_IN_TEXT;
  return true;
}

static bool step(struct tool_calls *calls) {
  switch (calls->place) {
    case TOOL_IN_FUNCTION:
      return tool_step_function(calls);
    case TOOL_IN_PARAMETER:
      return tool_step_parameter(calls);
    case TOOL_IN_FUNCTION_JSON:
      return tool_step_function_json(calls);
    case TOOL_IN_JSON:
      return tool_step_json(calls);
    case TOOL_IN_BROKEN_JSON:
      return tool_step_broken_json(calls);
    case TOOL_AFTER_CALL:
      return step_after_call(calls);
    default:
      return step_text(calls);
  }
}

static void run(struct tool_calls *calls) {
  while (!tool_calls_failed(calls) && step(calls)) continue;
  buffer_consume(&calls->pending, calls->at);
  calls->at = 0;
}

void tool_calls_push(struct tool_calls *calls, const char *text, size_t length) {
  buffer_append(&calls->pending, text, length);
  run(calls);
}

void tool_calls_finish(struct tool_calls *calls, bool cut) {
  if (cut && calls->place != TOOL_IN_TEXT && calls->place != TOOL_AFTER_CALL) {
    if (calls->place == TOOL_IN_JSON && !calls->named) {
      struct tool_rest rest = tool_rest(calls);
      tool_emit(calls, TOOL_TEXT, buffer_text(&calls->raw), calls->raw.length);
      tool_emit(calls, TOOL_TEXT, rest.text, rest.length);
    } else if (!calls->has_arguments)
      tool_emit(calls, TOOL_ARGUMENTS, "{", 1);
    return;
  }
  calls->final = true;
  run(calls);
}
