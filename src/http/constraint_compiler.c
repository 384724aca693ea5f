#include "http/constraint_compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/json_value.h"
#include "grammar/tool_grammar.h"

struct kept {
  char *key; /* NULL: free */
  struct grammar_masks *masks;
  uint64_t used; /* when, in constraints */
};

struct constraint_compiler {
  const struct tokenizer *tokenizer;
  const struct config *config;
  struct token_vocabulary *vocabulary; /* NULL until it is needed */
  struct kept kept[CONSTRAINTS_KEPT];
  uint64_t count;
};

int constraint_compiler_create(struct constraint_compiler **compiler, const struct tokenizer *tokenizer,
                               const struct config *config, struct kj_error *error) {
  *compiler = calloc(1, sizeof **compiler);
  if (!*compiler) return kj_fail_memory(error, "the HTTP server");
  (*compiler)->tokenizer = tokenizer;
  (*compiler)->config = config;
  return 0;
}

static void forget(struct kept *kept) {
  free(kept->key);
  grammar_masks_release(kept->masks);
  *kept = (struct kept){0};
}

void constraint_compiler_destroy(struct constraint_compiler *compiler) {
  if (!compiler) return;
  for (size_t i = 0; i < CONSTRAINTS_KEPT; i++) forget(&compiler->kept[i]);
  token_vocabulary_release(compiler->vocabulary);
  free(compiler);
}

/* What is wrong with a constraint, at its place in the request. */
static int fail_at(struct api_error *error, const struct kj_error *cause, const char *path) {
  api_fail_from(error, cause);
  if (cause->code != KJ_INVALID && cause->code != KJ_UNSUPPORTED) return -1;
  error->code = cause->code == KJ_INVALID ? "invalid_value" : "unsupported";
  snprintf(error->param, sizeof error->param, "%s", path);
  return -1;
}

/* The expression of a constraint other than tool calls; `path` leaves with the place of an error. */
static int build(struct grammar_builder *builder, const struct output_constraint *constraint,
                 char path[JSON_SCHEMA_PATH], grammar_expression *expression, struct kj_error *error) {
  const json_t *value = constraint->value;
  struct json_schema_options options = {0};
  if (constraint->kind == CONSTRAINT_JSON_SCHEMA)
    return json_schema_compile(builder, value, &options, path, expression, error);
  *expression = constraint->kind == CONSTRAINT_GRAMMAR
                    ? gbnf_expression(builder, json_string_value(value), json_string_length(value))
                    : json_values_make(builder).object;
  return 0;
}

static struct tool_grammar_options calls_of(const struct output_constraint *constraint,
                                            const struct constraint_setting *setting) {
  bool wanted = constraint->kind == CONSTRAINT_TOOL_CALLS;
  return (struct tool_grammar_options){.form = setting->tool_form,
                                       .tools = setting->tools,
                                       .allowed = wanted ? constraint->value : NULL,
                                       .only_one = constraint->only_one || setting->only_one_call,
                                       .thought = setting->thought};
}

static int tool_calls(const struct output_constraint *constraint, const struct constraint_setting *setting,
                      struct grammar **grammar, struct api_error *error) {
  struct tool_grammar_options options = calls_of(constraint, setting);
  struct kj_error cause;
  if (setting->tool_form == TOOL_FORM_NONE)
    return api_fail(error, 400, "unsupported", constraint->path,
                    "'%s' wants a call, but this model's chat template has no notation for calls that is known",
                    constraint->path);
  return tool_grammar_create(grammar, &options, &cause) ? fail_at(error, &cause, constraint->path) : 0;
}

/* The form of an answer binds the answer: a model that is offered tools may call them before it. */
static bool may_call(const struct output_constraint *constraint, const struct constraint_setting *setting) {
  return (constraint->kind == CONSTRAINT_JSON_OBJECT || constraint->kind == CONSTRAINT_JSON_SCHEMA) &&
         json_array_size(setting->tools) > 0 && setting->tool_form != TOOL_FORM_NONE;
}

static int create(const struct output_constraint *constraint, const struct constraint_setting *setting,
                  bool plain_calls, struct grammar **grammar, char path[JSON_SCHEMA_PATH], struct kj_error *error) {
  struct grammar_builder *builder = NULL;
  grammar_expression expression = 0, calls = 0;
  memcpy(path, constraint->path, JSON_SCHEMA_PATH);
  int code = grammar_builder_create(&builder, error);
  if (!code) code = build(builder, constraint, path, &expression, error);
  if (!code && may_call(constraint, setting)) {
    struct tool_grammar_options options = calls_of(constraint, setting);
    struct kj_error none;
    /* Tools that the model cannot name are no reason to refuse the answer. */
    if (tool_grammar_expression(builder, &options, plain_calls, &calls, &none) == 0)
      expression = GRAMMAR_CHOICE(builder, expression, calls);
  }
  if (!code) {
    code = grammar_finish(builder, thought_first(builder, setting->thought, expression), grammar, error);
    if (code) kj_fail_context(error, "'%s'", path);
  }
  grammar_builder_free(builder);
  return code;
}

int constraint_grammar(const struct output_constraint *constraint, const struct constraint_setting *setting,
                       struct grammar **grammar, struct api_error *error) {
  _Static_assert(sizeof constraint->path == JSON_SCHEMA_PATH && sizeof error->param == JSON_SCHEMA_PATH, "paths");
  *grammar = NULL;
  if (constraint->kind == CONSTRAINT_TOOL_CALLS) return tool_calls(constraint, setting, grammar, error);
  struct kj_error cause;
  char path[JSON_SCHEMA_PATH];
  int code = create(constraint, setting, false, grammar, path, &cause);
  if (code && may_call(constraint, setting)) code = create(constraint, setting, true, grammar, path, &cause);
  return code ? fail_at(error, &cause, path) : 0;
}

/* All that the grammar depends on, as text; NULL without memory. */
static char *key_of(const struct output_constraint *constraint, const struct constraint_setting *setting) {
  bool calls = constraint->kind == CONSTRAINT_TOOL_CALLS || may_call(constraint, setting);
  json_t *key = json_pack("[i, b, i, b, i, O?, O?]", (int)constraint->kind, constraint->only_one,
                          (int)setting->tool_form, setting->only_one_call, (int)setting->thought, constraint->value,
                          calls ? (json_t *)setting->tools : NULL);
  char *text = key ? json_dumps(key, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(key);
  return text;
}

static int make_masks(struct constraint_compiler *compiler, struct grammar *grammar, struct grammar_masks **masks,
                      struct api_error *error) {
  const struct config *config = compiler->config;
  struct kj_error cause;
  if (!compiler->vocabulary &&
      token_vocabulary_create(&compiler->vocabulary, compiler->tokenizer, config->vocabulary, &cause))
    return api_fail_from(error, &cause);
  return grammar_masks_create(masks, grammar, compiler->vocabulary, config->generation.eos,
                              config->generation.eos_count, &cause)
             ? api_fail_from(error, &cause)
             : 0;
}

/* The entry with the key, or, with NULL, the one that was used longest ago. */
static struct kept *find(struct constraint_compiler *compiler, const char *key) {
  struct kept *oldest = &compiler->kept[0];
  for (size_t i = 0; i < CONSTRAINTS_KEPT; i++) {
    struct kept *kept = &compiler->kept[i];
    if (key && kept->key && strcmp(kept->key, key) == 0) return kept;
    if (kept->used < oldest->used) oldest = kept;
  }
  return key ? NULL : oldest;
}

int constraint_compile(struct constraint_compiler *compiler, const struct output_constraint *constraint,
                       const struct constraint_setting *setting, struct grammar_masks **masks,
                       struct api_error *error) {
  char *key = key_of(constraint, setting);
  if (!key) return api_fail_memory(error);
  struct kept *kept = find(compiler, key);
  struct grammar *grammar = NULL;
  int code = 0;
  if (!kept) {
    struct grammar_masks *made = NULL;
    code = constraint_grammar(constraint, setting, &grammar, error);
    if (!code) code = make_masks(compiler, grammar, &made, error);
    if (code) goto done;
    kept = find(compiler, NULL);
    forget(kept);
    *kept = (struct kept){.key = key, .masks = made};
    key = NULL;
  }
  kept->used = ++compiler->count;
  *masks = grammar_masks_keep(kept->masks);
done:
  grammar_release(grammar);
  free(key);
  return code;
}
