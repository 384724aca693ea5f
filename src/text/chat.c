#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "text/jinja.h"
#include "text/text_file.h"

enum { LONGEST_FILE = 32 * 1024 * 1024, VARIABLES_MAXIMUM = 256 };

struct chat_template {
  struct jinja_template *initial;
  struct jinja_template *tool_use; /* NULL: the other one serves */
  json_t *tokens;                  /* an object: bos_token and its like, name to text */
};

void chat_template_free(struct chat_template *chat) {
  if (!chat) return;
  jinja_free(chat->initial);
  jinja_free(chat->tool_use);
  json_decref(chat->tokens);
  free(chat);
}

bool chat_template_mentions(const struct chat_template *chat, const char *text) {
  return jinja_mentions(chat->initial, text) || (chat->tool_use && jinja_mentions(chat->tool_use, text));
}

static int create(struct chat_template **chat, struct kj_error *error) {
  *chat = calloc(1, sizeof **chat);
  if (*chat) (*chat)->tokens = json_object();
  if (*chat && (*chat)->tokens) return 0;
  chat_template_free(*chat);
  *chat = NULL;
  return kj_fail_memory(error, "a chat template");
}

int chat_template_parse(struct chat_template **chat, const char *name, const char *source, size_t length,
                        struct kj_error *error) {
  int code = create(chat, error);
  if (code) return code;
  code = jinja_compile(&(*chat)->initial, name, source, length, error);
  if (code) {
    chat_template_free(*chat);
    *chat = NULL;
  }
  return code;
}

/* The whole of DIRECTORY/NAME, KJ_NOT_FOUND if there is no such file. */
static int read_file(const char *directory, const char *name, struct buffer *text, struct kj_error *error) {
  struct buffer path = {0};
  buffer_append_format(&path, "%s/%s", directory, name);
  int code = buffer_failed(&path) ? kj_fail_memory(error, "a path")
                                  : text_file_read(buffer_text(&path), LONGEST_FILE, text, error);
  buffer_free(&path);
  return code;
}

/* A JSON file that may be missing: *json is then NULL. */
static int read_json(const char *directory, const char *name, json_t **json, struct kj_error *error) {
  struct buffer text = {0};
  *json = NULL;
  int code = read_file(directory, name, &text, error);
  if (!code) {
    json_error_t problem;
    *json = json_loadb(buffer_text(&text), text.length, JSON_ALLOW_NUL, &problem);
    if (!json_is_object(*json)) {
      json_decref(*json);
      *json = NULL;
      code = kj_fail(error, KJ_INVALID, "%s/%s: %s (line %d)", directory, name,
                     problem.text[0] ? problem.text : "not a JSON object", problem.line);
    }
  }
  buffer_free(&text);
  return code == KJ_NOT_FOUND ? 0 : code;
}

/* Keeps the special tokens of a configuration, each a text or an object with its text as `content`. */
static int keep_tokens(struct chat_template *chat, const json_t *config, struct kj_error *error) {
  static const char *const NAMES[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    json_t *token = json_object_get(config, NAMES[i]);
    if (json_is_object(token)) token = json_object_get(token, "content");
    if (!json_is_string(token) || json_object_get(chat->tokens, NAMES[i])) continue;
    if (json_object_set(chat->tokens, NAMES[i], token)) return kj_fail_memory(error, "the special tokens");
  }
  return 0;
}

static int compile_json(struct jinja_template **template, const char *directory, const char *which,
                        const json_t *source, struct kj_error *error) {
  if (!json_is_string(source)) {
    return kj_fail(error, KJ_INVALID, "%s/tokenizer_config.json: %s is not a text", directory, which);
  }
  return jinja_compile(template, which, json_string_value(source), json_string_length(source), error);
}

/* The templates of tokenizer_config.json: one text, or a list of objects with a name and a template. */
static int compile_config(struct chat_template *chat, const char *directory, const json_t *config,
                          struct kj_error *error) {
  const json_t *source = json_object_get(config, "chat_template");
  if (!source || json_is_null(source)) {
    return kj_fail(error, KJ_NOT_FOUND, "%s: no chat template in chat_template.jinja or tokenizer_config.json",
                   directory);
  }
  if (!json_is_array(source)) return compile_json(&chat->initial, directory, "chat_template", source, error);
  int code = 0;
  for (size_t i = 0; !code && i < json_array_size(source); i++) {
    const json_t *entry = json_array_get(source, i);
    const char *name = json_string_value(json_object_get(entry, "name"));
    struct jinja_template **template = !name                           ? NULL
                                       : strcmp(name, "default") == 0  ? &chat->initial
                                       : strcmp(name, "tool_use") == 0 ? &chat->tool_use
                                                                       : NULL;
    if (!template || *template) continue;
    code = compile_json(template, directory, name, json_object_get(entry, "template"), error);
  }
  if (!code && !chat->initial) {
    code = kj_fail(error, KJ_INVALID, "%s/tokenizer_config.json: no chat template is named \"default\"", directory);
  }
  return code;
}

static int compile_file(struct jinja_template **template, const char *directory, const char *name,
                        struct kj_error *error) {
  struct buffer text = {0};
  int code = read_file(directory, name, &text, error);
  if (!code) code = jinja_compile(template, name, buffer_text(&text), text.length, error);
  buffer_free(&text);
  return code;
}

int chat_template_load(struct chat_template **chat, const char *directory, struct kj_error *error) {
  json_t *config = NULL, *tokens = NULL;
  struct chat_template *made = NULL;
  *chat = NULL;
  int code = create(&made, error);
  if (!code) code = read_json(directory, "tokenizer_config.json", &config, error);
  if (!code) code = keep_tokens(made, config, error);
  /* Older checkpoints name their tokens here only. */
  if (!code) code = read_json(directory, "special_tokens_map.json", &tokens, error);
  if (!code) code = keep_tokens(made, tokens, error);
  if (code) goto done;
  code = compile_file(&made->initial, directory, "chat_template.jinja", error);
  if (code == KJ_NOT_FOUND) {
    code = compile_config(made, directory, config, error);
  } else if (!code) {
    code = compile_file(&made->tool_use, directory, "additional_chat_templates/tool_use.jinja", error);
    if (code == KJ_NOT_FOUND) code = 0;
  }
  if (code && code != KJ_NOT_FOUND && error) kj_fail_context(error, "%s", directory);
done:
  json_decref(config);
  json_decref(tokens);
  if (code) {
    chat_template_free(made);
    return code;
  }
  *chat = made;
  return 0;
}

static json_t *first_member(json_t *message, const char *const *names) {
  for (; *names; names++) {
    json_t *member = json_object_get(message, *names);
    if (member && !json_is_null(member)) return member;
  }
  return NULL;
}

/* One message as Transformers hands it to a template; a new reference, NULL when out of memory. */
static json_t *prepare_message(json_t *message) {
  static const char *const REASONING[] = {"reasoning_content", "thinking", "reasoning", NULL};
  if (!json_is_object(message)) return json_incref(message);
  json_t *reasoning = first_member(message, REASONING);
  json_t *prepared = json_object();
  bool failed = !prepared;
  /* A new name goes first, one that is there keeps its place. */
  if (reasoning && !json_object_get(message, "thinking"))
    failed |= json_object_set(prepared, "thinking", reasoning) != 0;
  const char *name;
  json_t *member;
  json_object_foreach(message, name, member) {
    if (!json_is_null(member)) failed |= json_object_set(prepared, name, member) != 0;
  }
  if (reasoning) failed |= json_object_set(prepared, "reasoning_content", reasoning) != 0;
  if (!failed) return prepared;
  json_decref(prepared);
  return NULL;
}

static json_t *prepare_messages(const json_t *messages) {
  json_t *prepared = json_array();
  for (size_t i = 0; i < json_array_size(messages); i++) {
    json_t *message = prepare_message(json_array_get(messages, i));
    if (message && !json_array_append_new(prepared, message)) continue;
    json_decref(prepared);
    return NULL;
  }
  return prepared;
}

static bool add_members(struct jinja_variable *variables, size_t *count, const json_t *object) {
  /* Jansson's iteration wants a pointer to what it does not change. */
  json_t *members = (json_t *)(uintptr_t)object;
  const char *name;
  json_t *value;
  json_object_foreach(members, name, value) {
    if (*count == VARIABLES_MAXIMUM) return false;
    variables[(*count)++] = (struct jinja_variable){name, value};
  }
  return true;
}

int chat_template_render(const struct chat_template *chat, const json_t *messages, const json_t *tools,
                         const json_t *extra, bool add_generation_prompt, struct buffer *out, struct kj_error *error) {
  struct jinja_variable variables[VARIABLES_MAXIMUM + 4];
  size_t count = 0;
  variables[count++] = (struct jinja_variable){"documents", NULL};
  if (!add_members(variables, &count, chat->tokens) || !add_members(variables, &count, extra)) {
    return kj_fail(error, KJ_INVALID, "more than %d variables for the chat template", VARIABLES_MAXIMUM);
  }
  json_t *prepared = prepare_messages(messages);
  if (!prepared) return kj_fail_memory(error, "the messages");
  variables[count++] = (struct jinja_variable){"messages", prepared};
  variables[count++] = (struct jinja_variable){"tools", tools};
  variables[count++] = (struct jinja_variable){"add_generation_prompt", json_boolean(add_generation_prompt)};
  const struct jinja_template *template = chat->tool_use && tools ? chat->tool_use : chat->initial;
  int code = jinja_render(template, variables, count, out, error);
  json_decref(prepared);
  return code;
}
