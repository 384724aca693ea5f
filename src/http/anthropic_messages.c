#include "http/anthropic_messages.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "http/fields.h"

/* The turn that is being gathered. */
struct turn {
  const char *role; /* NULL: none */
  bool begun;       /* it has text, were it empty, a thought or a call */
  struct buffer text, thought;
  json_t *calls; /* or NULL */
};

struct conversation {
  json_t *messages;
  json_t *tool_names; /* id of a call to its tool's name: there are templates that want it beside the result */
  struct turn turn;
  struct api_error *error;
};

static json_t *take_text(struct buffer *text) {
  json_t *value = buffer_failed(text) ? NULL : json_stringn(buffer_text(text), text->length);
  buffer_clear(text);
  return value;
}

/* Ends the turn: it becomes a message. */
static int end_turn(struct conversation *conversation) {
  struct turn *turn = &conversation->turn;
  if (!turn->begun) return 0;
  turn->begun = false;
  json_t *thought = turn->thought.length ? take_text(&turn->thought) : NULL;
  json_t *message = json_pack("{s:s, s:o, s:o*, s:o*}", "role", turn->role, "content", take_text(&turn->text),
                              "reasoning_content", thought, "tool_calls", turn->calls);
  turn->calls = NULL;
  return json_array_append_new(conversation->messages, message) ? api_fail_memory(conversation->error) : 0;
}

/* What follows is of this role: the same turn, or a new one. */
static int take_turn(struct conversation *conversation, const char *role) {
  struct turn *turn = &conversation->turn;
  if (turn->role && strcmp(turn->role, role) != 0 && end_turn(conversation)) return -1;
  turn->role = role;
  return 0;
}

/* What comes next in the text begins a line. */
static void separate(struct buffer *text) {
  if (text->length > 0 && text->data[text->length - 1] != '\n') buffer_append_text(text, "\n");
}

static void add_text(struct buffer *text, const char *piece, bool own_line) {
  if (piece[0] && own_line) separate(text);
  buffer_append_text(text, piece);
}

static int required_string(const json_t *block, const char *path, const char *name, const char **value,
                           struct api_error *error) {
  struct fields fields = {.object = block, .path = path, .error = error};
  *value = NULL;
  field_string(&fields, name, value);
  if (fields.failed) return -1;
  if (*value) return 0;
  char field[160];
  field_path(&fields, name, field);
  return api_fail(error, 400, "missing_field", field, "'%s' is required: a string", field);
}

/* The block's type; NULL and an error if it has none. */
static const char *block_type(const json_t *block, const char *path, struct api_error *error) {
  const char *type = NULL;
  if (!json_is_object(block))
    api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(block));
  else
    required_string(block, path, "type", &type, error);
  return type;
}

static int refuse_block(const char *type, const char *path, const char *taken, struct api_error *error) {
  char field[160];
  path_join(field, path, ".type");
  return api_fail(error, 400, "unsupported_content", field, "'%s' is '%.100s': here the model takes blocks of type %s",
                  field, type, taken);
}

/* Appends the text of a string or of an array of text blocks, each on lines of its own. */
static int join_texts(const json_t *content, const char *path, struct buffer *text, struct api_error *error) {
  if (json_is_string(content)) {
    add_text(text, json_string_value(content), true);
    return 0;
  }
  if (!json_is_array(content))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be a string or an array of blocks, not %s", path,
                    json_type_name(content));
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *block = json_array_get(content, i);
    const char *piece = NULL;
    char block_path[160];
    snprintf(block_path, sizeof block_path, "%.120s[%zu]", path, i);
    const char *type = block_type(block, block_path, error);
    if (!type) return -1;
    if (strcmp(type, "text") != 0) return refuse_block(type, block_path, "'text'", error);
    if (required_string(block, block_path, "text", &piece, error)) return -1;
    add_text(text, piece, true);
  }
  return 0;
}

static int add_result(struct conversation *conversation, const json_t *block, const char *path) {
  struct api_error *error = conversation->error;
  struct fields fields = {.object = block, .path = path, .error = error};
  const char *id = NULL;
  bool failed = false;
  if (end_turn(conversation) || required_string(block, path, "tool_use_id", &id, error)) return -1;
  field_boolean(&fields, "is_error", &failed);
  if (fields.failed) return -1;
  char content_path[160];
  path_join(content_path, path, ".content");
  const json_t *content = field_any(&fields, "content");
  struct buffer text = {0}, shown = {0};
  int result = content ? join_texts(content, content_path, &text, error) : 0;
  if (!result) {
    /* Templates know no results that are errors: the text has to say so. */
    if (failed && strncmp(buffer_text(&text), "Error", 5) != 0) buffer_append_text(&shown, "Error: ");
    buffer_append(&shown, buffer_text(&text), text.length);
    shown.failed |= text.failed;
    json_t *message = json_pack("{s:s, s:s, s:O*, s:o}", "role", "tool", "tool_call_id", id, "name",
                                json_object_get(conversation->tool_names, id), "content", take_text(&shown));
    if (json_array_append_new(conversation->messages, message)) result = api_fail_memory(error);
  }
  buffer_free(&text);
  buffer_free(&shown);
  return result;
}

static int add_user_block(struct conversation *conversation, const json_t *block, const char *path) {
  const char *type = block_type(block, path, conversation->error), *piece = NULL;
  if (!type) return -1;
  if (strcmp(type, "tool_result") == 0) return add_result(conversation, block, path);
  if (strcmp(type, "text") != 0) return refuse_block(type, path, "'text' and 'tool_result'", conversation->error);
  if (required_string(block, path, "text", &piece, conversation->error)) return -1;
  conversation->turn.begun = true;
  add_text(&conversation->turn.text, piece, true);
  return 0;
}

static int add_call(struct conversation *conversation, const json_t *block, const char *path) {
  struct api_error *error = conversation->error;
  struct fields fields = {.object = block, .path = path, .error = error};
  const char *id = NULL, *name = NULL;
  if (required_string(block, path, "id", &id, error) || required_string(block, path, "name", &name, error)) return -1;
  const json_t *input = field_value(&fields, "input", JSON_OBJECT, "an object");
  if (fields.failed) return -1;
  struct turn *turn = &conversation->turn;
  if (!turn->calls) turn->calls = json_array();
  json_t *arguments = input ? json_incref((json_t *)input) : json_object();
  json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name", name,
                           "arguments", arguments);
  if (json_array_append_new(turn->calls, call) ||
      json_object_set(conversation->tool_names, id, json_object_get(block, "name")))
    return api_fail_memory(error);
  return 0;
}

/* `begins`: no text of this message has come yet. */
static int add_assistant_block(struct conversation *conversation, const json_t *block, const char *path, bool begins) {
  struct turn *turn = &conversation->turn;
  const char *type = block_type(block, path, conversation->error), *piece = NULL;
  if (!type) return -1;
  turn->begun = true;
  if (strcmp(type, "tool_use") == 0) return add_call(conversation, block, path);
  if (strcmp(type, "redacted_thinking") == 0) return 0;
  bool thought = strcmp(type, "thinking") == 0;
  if (!thought && strcmp(type, "text") != 0)
    return refuse_block(type, path, "'text', 'thinking' and 'tool_use'", conversation->error);
  if (required_string(block, path, thought ? "thinking" : "text", &piece, conversation->error)) return -1;
  add_text(thought ? &turn->thought : &turn->text, piece, thought || begins);
  return 0;
}

static int add_blocks(struct conversation *conversation, const json_t *content, const char *path) {
  bool assistant = strcmp(conversation->turn.role, "assistant") == 0;
  size_t count = json_array_size(content);
  if (count == 0 && !assistant)
    return api_fail(conversation->error, 400, "invalid_value", path, "'%s' is empty: it needs at least one block",
                    path);
  if (count == 0) conversation->turn.begun = true;
  size_t before = conversation->turn.text.length;
  int failed = 0;
  for (size_t i = 0; !failed && i < count; i++) {
    const json_t *block = json_array_get(content, i);
    char block_path[160];
    snprintf(block_path, sizeof block_path, "%.100s[%zu]", path, i);
    failed = assistant ? add_assistant_block(conversation, block, block_path, conversation->turn.text.length == before)
                       : add_user_block(conversation, block, block_path);
  }
  return failed;
}

static int add_message(struct conversation *conversation, const json_t *message, const char *path) {
  struct api_error *error = conversation->error;
  static const char *const roles[] = {"user", "assistant", "system"};
  const char *asked = NULL, *role = NULL;
  char field[160];
  if (!json_is_object(message))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(message));
  if (required_string(message, path, "role", &asked, error)) return -1;
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (strcmp(asked, roles[i]) == 0) role = roles[i];
  path_join(field, path, ".role");
  if (!role)
    return api_fail(error, 400, "invalid_value", field, "'%s' is '%.100s': it must be user, assistant or system", field,
                    asked);
  if (take_turn(conversation, role)) return -1;
  const json_t *content = json_object_get(message, "content");
  path_join(field, path, ".content");
  if (!content || json_is_null(content))
    return api_fail(error, 400, "missing_field", field, "'%s' is required: a string or an array of blocks", field);
  bool system = strcmp(role, "system") == 0;
  if (json_is_array(content) && !system) return add_blocks(conversation, content, field);
  conversation->turn.begun = true;
  return join_texts(content, field, &conversation->turn.text, error);
}

static int add_system(struct conversation *conversation, const json_t *system) {
  if (!system || json_is_null(system)) return 0;
  if (take_turn(conversation, "system")) return -1;
  conversation->turn.begun = true;
  return join_texts(system, "system", &conversation->turn.text, conversation->error);
}

/* Whether the answer goes on from the turn at the end, if that is the assistant's. */
static int check_end(const struct conversation *conversation, size_t last, bool *continues) {
  const struct turn *turn = &conversation->turn;
  *continues = turn->begun && strcmp(turn->role, "assistant") == 0;
  if (!*continues) return 0;
  char path[64];
  snprintf(path, sizeof path, "messages[%zu].content", last);
  if (turn->calls)
    return api_fail(conversation->error, 400, "invalid_value", path,
                    "'%s' calls tools and nothing follows: send their results in a user message", path);
  if (turn->thought.length > 0)
    return api_fail(conversation->error, 400, "unsupported", path,
                    "'%s' has a thought and nothing follows: an answer can go on from text only", path);
  return 0;
}

static int translate(struct conversation *conversation, const json_t *request, bool *continues) {
  struct api_error *error = conversation->error;
  const json_t *messages = json_object_get(request, "messages");
  if (!messages || json_is_null(messages))
    return api_fail(error, 400, "missing_field", "messages",
                    "'messages' is required: an array of {\"role\", \"content\"}");
  if (!json_is_array(messages))
    return api_fail(error, 400, "invalid_type", "messages", "'messages' must be an array, not %s",
                    json_type_name(messages));
  size_t count = json_array_size(messages);
  if (count == 0)
    return api_fail(error, 400, "invalid_value", "messages", "'messages' is empty: it needs at least one message");
  if (!conversation->messages || !conversation->tool_names) return api_fail_memory(error);
  if (add_system(conversation, json_object_get(request, "system"))) return -1;
  for (size_t i = 0; i < count; i++) {
    char path[64];
    snprintf(path, sizeof path, "messages[%zu]", i);
    if (add_message(conversation, json_array_get(messages, i), path)) return -1;
  }
  return check_end(conversation, count - 1, continues) ? -1 : end_turn(conversation);
}

json_t *anthropic_messages(const json_t *request, bool *continues, struct api_error *error) {
  struct conversation conversation = {.messages = json_array(), .tool_names = json_object(), .error = error};
  *continues = false;
  if (translate(&conversation, request, continues)) {
    json_decref(conversation.messages);
    conversation.messages = NULL;
  }
  json_decref(conversation.tool_names);
  json_decref(conversation.turn.calls);
  buffer_free(&conversation.turn.text);
  buffer_free(&conversation.turn.thought);
  return conversation.messages;
}
