#include "grammar/tool_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_parts.h"
#include "grammar/tool_grammar_xml.h"

/* An object with the names of an array, new; NULL without memory. */
static json_t *set_of(const json_t *names) {
  json_t *set = json_object(), *name = NULL;
  bool failed = !set;
  size_t index = 0;
  json_array_foreach(names, index, name) {
    if (json_is_string(name)) failed |= json_object_set_new(set, json_string_value(name), json_true()) != 0;
  }
  if (!failed) return set;
  json_decref(set);
  return NULL;
}

/* Names are required that `properties` does not have. */
static bool requires_others(const struct flat_schema *flat) {
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)flat->required, name, value) {
    if (!json_object_get(flat->properties, name)) return true;
  }
  return false;
}

/* What is said about the arguments: an object of what the schema names. */
static void read_parameters(struct schema_compiler *compiler, struct flat_schema *flat, const json_t *parameters) {
  flat_schema_begin(flat, "parameters");
  if (parameters && !json_is_null(parameters)) flat_schema_add(compiler, flat, parameters, "parameters", 0);
  flat->types = TYPE_OBJECT;
  flat->values = NULL;
  if (!flat->additional && !flat->by_pattern && json_object_size(flat->properties) && !requires_others(flat))
    flat->additional = json_false();
}

static grammar_expression json_call(struct schema_compiler *compiler, const char *name,
                                    const struct flat_schema *parameters) {
  struct grammar_builder *builder = compiler->values.builder;
  return GRAMMAR_SEQUENCE(
      builder, grammar_text(builder, "{\"name\": "), json_value_string(&compiler->values, name, strlen(name)),
      grammar_text(builder, ", \"arguments\": "), schema_flat(compiler, parameters), grammar_text(builder, "}"));
}

/* One call without <tool_call>; `plain`: whatever its schema says. `work`: of all calls so far. */
static grammar_expression call_of(const struct json_values *values, enum tool_form form, const char *name,
                                  const json_t *schema, bool plain, size_t *work) {
  struct grammar_builder *builder = values->builder;
  struct schema_compiler compiler;
  struct flat_schema parameters;
  struct kj_error error = {0};
  char path[JSON_SCHEMA_PATH];
  if (schema_compiler_begin(&compiler, values, schema, "parameters", true, &error))
    return grammar_fail(builder, KJ_MEMORY, "%s", error.message);
  compiler.work = *work;
  read_parameters(&compiler, &parameters, plain ? NULL : schema);
  grammar_expression call = form == TOOL_FORM_XML ? tool_grammar_xml_call(&compiler, name, &parameters)
                                                  : json_call(&compiler, name, &parameters);
  schema_compiler_run(&compiler);
  *work = compiler.work;
  if (!schema_compiler_end(&compiler, path, &error)) return call;
  if (!plain && error.code == KJ_UNSUPPORTED) return call_of(values, form, name, schema, true, work);
  return grammar_fail(builder, error.code, "%s", error.message);
}

int tool_grammar_expression(struct grammar_builder *builder, const struct tool_grammar_options *options, bool plain,
                            grammar_expression *expression, struct kj_error *error) {
  size_t index = 0, count = 0, work = 0;
  json_t *tool = NULL;
  json_t *allowed = set_of(options->allowed);
  grammar_expression *calls = calloc(json_array_size(options->tools) + 1, sizeof *calls);
  if (!allowed || !calls) {
    json_decref(allowed);
    free(calls);
    return kj_fail_memory(error, "the grammar of the tools");
  }
  struct json_values values = json_values_make(builder);
  json_array_foreach(options->tools, index, tool) {
    const json_t *function = json_object_get(tool, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    bool is_written = name && *name && (options->form != TOOL_FORM_XML || tool_grammar_xml_name(name));
    if (is_written && (!options->allowed || json_object_get(allowed, name)))
      calls[count++] = call_of(&values, options->form, name, json_object_get(function, "parameters"), plain, &work);
  }
  if (count > 0) {
    grammar_expression call =
        GRAMMAR_SEQUENCE(builder, grammar_text(builder, "<tool_call>\n"), grammar_choice(builder, calls, count),
                         grammar_text(builder, "\n</tool_call>"));
    grammar_expression next = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "\n"), call);
    *expression =
        options->only_one ? call : GRAMMAR_SEQUENCE(builder, call, grammar_repeat(builder, next, 0, GRAMMAR_UNBOUNDED));
  }
  free(calls);
  json_decref(allowed);
  return count > 0
             ? 0
             : kj_fail(error, KJ_INVALID, "there is no tool that may be called and whose name the model can write");
}

static int create(struct grammar **grammar, const struct tool_grammar_options *options, bool plain,
                  struct kj_error *error) {
  struct grammar_builder *builder = NULL;
  grammar_expression calls = 0;
  int result = grammar_builder_create(&builder, error);
  if (!result) result = tool_grammar_expression(builder, options, plain, &calls, error);
  if (!result) result = grammar_finish(builder, thought_first(builder, options->thought, calls), grammar, error);
  grammar_builder_free(builder);
  return result;
}

int tool_grammar_create(struct grammar **grammar, const struct tool_grammar_options *options, struct kj_error *error) {
  *grammar = NULL;
  int result = create(grammar, options, false, error);
  /* Too much together, or no arguments that any tool's schema allows. */
  return result == KJ_UNSUPPORTED || result == KJ_INVALID ? create(grammar, options, true, error) : result;
}
