/* What the mask of a step costs (grammar/constraint.h): walks texts of bench/grammar/ token by token through their
 * grammars and takes the CPU time of every mask, with the masks' memory growing as in use, and with nothing known
 * before (cold).
 *
 *   grammar TOKENIZER_DIRECTORY VOCABULARY CORPUS_DIRECTORY [PART_OF_A_NAME]
 *
 * VOCABULARY is the number of the model's logits, 151936 for Qwen3. Prints a Markdown table. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "grammar/constraint.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/pattern.h"
#include "grammar/tool_grammar.h"
#include "text/text_file.h"
#include "text/tokenizer.h"

enum { FILE_LIMIT = 1 << 20, COLD_STEPS = 300, RANDOM_WALKS = 4, RANDOM_STEPS = 100 };

struct bench {
  const char *corpus, *only;
  struct tokenizer *tokenizer;
  struct token_vocabulary *vocabulary;
  uint32_t size, end;
};

struct sample {
  double *seconds;
  size_t count;
};

static void fail(const char *what, const struct kj_error *error) {
  fprintf(stderr, "grammar: %s: %s\n", what, error->message);
  exit(1);
}

/* CPU time: what other programs do on the machine must not count. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

static void print_sample(struct sample *sample) {
  qsort(sample->seconds, sample->count, sizeof *sample->seconds, by_value);
  printf(" %.0f / %.0f / %.0f |", sample->seconds[sample->count / 2] * 1e6,
         sample->seconds[(sample->count * 99) / 100] * 1e6, sample->seconds[sample->count - 1] * 1e6);
}

static struct grammar_masks *masks_of(const struct bench *bench, struct grammar *grammar) {
  struct grammar_masks *masks;
  struct kj_error error;
  if (grammar_masks_create(&masks, grammar, bench->vocabulary, &bench->end, 1, &error)) fail("masks", &error);
  return masks;
}

static void accept(struct token_constraint *constraint, uint32_t token, size_t index) {
  struct kj_error error;
  if (!constraint->operations->accept(constraint, token, &error)) return;
  fprintf(stderr, "grammar: token %zu of the sample: ", index);
  fail("accept", &error);
}

static double time_mask(const struct bench *bench, struct token_constraint *constraint, uint32_t token, size_t index) {
  const uint64_t *bits;
  struct kj_error error;
  double begin = now();
  if (constraint->operations->allowed(constraint, bench->size, &bits, &error)) fail("mask", &error);
  double seconds = now() - begin;
  if (!(bits[token / 64] >> token % 64 & 1)) {
    size_t length;
    const char *bytes = tokenizer_bytes(bench->tokenizer, token, &length);
    fprintf(stderr, "grammar: token %zu of the sample, \"%.*s\", is not allowed\n", index, (int)length, bytes);
    exit(1);
  }
  return seconds;
}

/* One walk; `tokens` ends with the end token. */
static void walk(const struct bench *bench, struct grammar_masks *masks, const struct token_list *tokens,
                 struct sample *sample) {
  struct token_constraint *constraint;
  struct kj_error error;
  if (constraint_create(&constraint, masks, &error)) fail("constraint", &error);
  for (size_t i = 0; i < tokens->count; i++) {
    double seconds = time_mask(bench, constraint, tokens->ids[i], i), begin = now();
    if (i + 1 < tokens->count) accept(constraint, tokens->ids[i], i);
    sample->seconds[sample->count++] = seconds + (now() - begin);
  }
  token_constraint_release(constraint);
}

/* Every step by itself, with masks that know nothing. */
static void walk_cold(const struct bench *bench, struct grammar *grammar, const struct token_list *tokens,
                      struct sample *sample) {
  size_t stride = tokens->count / COLD_STEPS + 1;
  for (size_t step = 0; step < tokens->count; step += stride) {
    struct grammar_masks *masks = masks_of(bench, grammar);
    struct token_constraint *constraint;
    if (constraint_create(&constraint, masks, NULL)) exit(1);
    for (size_t i = 0; i < step; i++) accept(constraint, tokens->ids[i], i);
    sample->seconds[sample->count++] = time_mask(bench, constraint, tokens->ids[step], step);
    token_constraint_release(constraint);
    grammar_masks_release(masks);
  }
}

/* Tokens drawn from all that are allowed: texts that nobody would write, with masks that know nothing at the beginning.
 */
static void walk_randomly(const struct bench *bench, struct grammar *grammar, struct sample *sample) {
  uint64_t random = 1;
  for (int walk = 0; walk < RANDOM_WALKS; walk++) {
    struct grammar_masks *masks = masks_of(bench, grammar);
    struct token_constraint *constraint;
    struct kj_error error;
    if (constraint_create(&constraint, masks, &error)) fail("constraint", &error);
    for (int step = 0; step < RANDOM_STEPS; step++) {
      const uint64_t *bits;
      double begin = now();
      if (constraint->operations->allowed(constraint, bench->size, &bits, &error)) fail("random walk", &error);
      double seconds = now() - begin;
      random = random * 6364136223846793005u + 1442695040888963407u;
      uint32_t token = (uint32_t)((random >> 33) % bench->size);
      for (uint32_t i = 0; i < bench->size && (token == bench->end || !(bits[token / 64] >> token % 64 & 1)); i++)
        token = (token + 1) % bench->size;
      sample->seconds[sample->count++] = seconds;
      if (token == bench->end || !(bits[token / 64] >> token % 64 & 1)) break;
      accept(constraint, token, (size_t)step);
    }
    token_constraint_release(constraint);
    grammar_masks_release(masks);
  }
}

static void measure(const struct bench *bench, const char *name, struct grammar *grammar, double compiled,
                    const char *text, size_t length) {
  struct token_list tokens = {0};
  struct kj_error error;
  if (bench->only && !strstr(name, bench->only)) {
    grammar_release(grammar);
    return;
  }
  if (tokenizer_encode(bench->tokenizer, text, length, false, &tokens, &error) ||
      token_list_push(&tokens, bench->end, &error))
    fail(name, &error);
  struct sample first = {calloc(tokens.count, sizeof(double)), 0}, again = {calloc(tokens.count, sizeof(double)), 0},
                cold = {calloc(tokens.count, sizeof(double)), 0},
                wild = {calloc((size_t)RANDOM_WALKS * RANDOM_STEPS, sizeof(double)), 0};
  if (!first.seconds || !again.seconds || !cold.seconds || !wild.seconds) exit(1);
  double begin = now();
  struct grammar_masks *masks = masks_of(bench, grammar);
  double prepared = now() - begin;
  walk(bench, masks, &tokens, &first);
  walk(bench, masks, &tokens, &again);
  walk_cold(bench, grammar, &tokens, &cold);
  walk_randomly(bench, grammar, &wild);
  printf("| %s | %zu | %.1f + %.1f |", name, tokens.count, compiled * 1e3, prepared * 1e3);
  print_sample(&first);
  print_sample(&again);
  print_sample(&cold);
  print_sample(&wild);
  printf("\n");
  grammar_masks_release(masks);
  grammar_release(grammar);
  token_list_free(&tokens);
  free(first.seconds);
  free(again.seconds);
  free(cold.seconds);
  free(wild.seconds);
}

static void read_file(const struct bench *bench, const char *name, struct buffer *content) {
  struct buffer path = {0};
  struct kj_error error;
  buffer_append_format(&path, "%s/%s", bench->corpus, name);
  if (text_file_read(buffer_text(&path), FILE_LIMIT, content, &error)) fail(name, &error);
  buffer_free(&path);
}

static void measure_gbnf(const struct bench *bench, const char *name, const char *file, const char *text_file) {
  struct buffer source = {0}, text = {0};
  struct grammar *grammar = NULL;
  struct kj_error error;
  read_file(bench, file, &source);
  read_file(bench, text_file, &text);
  double begin = now();
  if (gbnf_compile(source.data, source.length, &grammar, &error)) fail(file, &error);
  measure(bench, name, grammar, now() - begin, text.data, text.length);
  buffer_free(&source);
  buffer_free(&text);
}

static struct grammar *compile_schema(const json_t *schema) {
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  struct kj_error error;
  char path[JSON_SCHEMA_PATH] = "schema";
  grammar_expression root = 0;
  struct json_schema_options options = {0};
  if (grammar_builder_create(&builder, &error) || json_schema_compile(builder, schema, &options, path, &root, &error) ||
      grammar_finish(builder, root, &grammar, &error))
    fail(path, &error);
  grammar_builder_free(builder);
  return grammar;
}

static json_t *load_schema(const struct bench *bench, const char *file) {
  struct buffer source = {0};
  json_error_t reason;
  read_file(bench, file, &source);
  json_t *schema = json_loads(buffer_text(&source), 0, &reason);
  buffer_free(&source);
  if (schema) return schema;
  fprintf(stderr, "grammar: %s: %s\n", file, reason.text);
  exit(1);
}

static void measure_schema(const struct bench *bench, const char *name, json_t *schema, const char *text) {
  double begin = now();
  struct grammar *grammar = compile_schema(schema);
  measure(bench, name, grammar, now() - begin, text, strlen(text));
  json_decref(schema);
}

static void measure_schema_file(const struct bench *bench, const char *name, const char *file, const char *text_file) {
  struct buffer text = {0};
  read_file(bench, text_file, &text);
  while (text.length > 0 && text.data[text.length - 1] == '\n') text.data[--text.length] = 0;
  measure_schema(bench, name, load_schema(bench, file), text.data);
  buffer_free(&text);
}

/* A value out of a thousand that share beginnings. */
static void measure_enum(const struct bench *bench) {
  static const char *const WORDS[] = {"account", "billing", "catalog", "delivery", "engine",
                                      "invoice", "partner", "payment", "product",  "shipment"};
  json_t *values = json_array();
  for (int i = 0; i < 1000; i++)
    json_array_append_new(values, json_sprintf("%s.%s_%s", WORDS[i / 100], WORDS[i / 10 % 10], WORDS[i % 10]));
  json_t *schema = json_pack("{s:{s:{s:s,s:o}},s:s,s:[s],s:b}", "properties", "event", "type", "string", "enum", values,
                             "type", "object", "required", "event", "additionalProperties", 0);
  measure_schema(bench, "schema, an enum of 1000 values", schema, "{\"event\": \"payment.invoice_partner\"}");
}

/* Bounds that are never far away. */
static void measure_lengths(const struct bench *bench) {
  json_t *schema = json_pack("{s:s,s:{s:s,s:i,s:i},s:i,s:i}", "type", "array", "items", "type", "string", "minLength",
                             3, "maxLength", 60, "minItems", 2, "maxItems", 8);
  measure_schema(bench, "schema, short strings with length bounds", schema,
                 "[\"The quick brown fox jumps over the lazy dog, and then rests.\", \"abc\", "
                 "\"Ein Satz mit Umlauten: größer, schöner, über den Fluss.\", \"日本語の文字列も長さがあります\"]");
}

static void measure_pattern(const struct bench *bench) {
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  struct kj_error error;
  static const char PATTERN[] = "^(https?|ftp)://[a-z0-9.-]{1,63}(:[0-9]{1,5})?(/[^\\s?#]*)?(\\?[^\\s#]*)?(#\\S*)?$";
  double begin = now();
  if (grammar_builder_create(&builder, &error)) fail("pattern", &error);
  grammar_expression parts[] = {grammar_text(builder, "\""),
                                pattern_compile(builder, PATTERN, strlen(PATTERN), PATTERN_IN_JSON_STRING),
                                grammar_text(builder, "\"")};
  if (grammar_finish(builder, grammar_sequence(builder, parts, 3), &grammar, &error)) fail("pattern", &error);
  grammar_builder_free(builder);
  static const char TEXT[] =
      "\"https://static.example.org:8443/assets/images/2024/11/header-large_v2.final.webp?width=1280"
      "&height=720&fit=cover&token=eyJhbGciOiJIUzI1NiJ9#top-of-the-page\"";
  measure(bench, "pattern of an address", grammar, now() - begin, TEXT, strlen(TEXT));
}

static void measure_tool_xml(const struct bench *bench) {
  struct buffer content = {0}, text = {0};
  struct grammar *grammar = NULL;
  struct kj_error error;
  json_t *tools = json_pack("[{s:s,s:{s:s,s:o}}]", "type", "function", "function", "name", "write_file", "parameters",
                            load_schema(bench, "tool.schema.json"));
  struct tool_grammar_options options = {.form = TOOL_FORM_XML, .tools = tools};
  read_file(bench, "c.txt", &content);
  buffer_append_format(&text,
                       "<tool_call>\n<function=write_file>\n<parameter=path>\nsrc/list/reverse.c\n</parameter>\n"
                       "<parameter=content>\n%s</parameter>\n<parameter=mode>\ncreate\n</parameter>\n</function>\n"
                       "</tool_call>",
                       buffer_text(&content));
  double begin = now();
  if (tool_grammar_create(&grammar, &options, &error)) fail("tools", &error);
  measure(bench, "tool call in XML with a file", grammar, now() - begin, text.data, text.length);
  buffer_free(&content);
  buffer_free(&text);
  json_decref(tools);
}

int main(int argc, char **argv) {
  struct kj_error error;
  struct bench bench = {0};
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: grammar TOKENIZER_DIRECTORY VOCABULARY CORPUS_DIRECTORY [PART_OF_A_NAME]\n");
    return 2;
  }
  bench.size = (uint32_t)strtoul(argv[2], NULL, 10);
  bench.corpus = argv[3];
  bench.only = argc == 5 ? argv[4] : NULL;
  if (tokenizer_load(&bench.tokenizer, argv[1], &error)) fail(argv[1], &error);
  if (!tokenizer_find(bench.tokenizer, "<|im_end|>", &bench.end)) bench.end = bench.size - 1;
  double begin = now();
  if (token_vocabulary_create(&bench.vocabulary, bench.tokenizer, bench.size, &error)) fail("vocabulary", &error);
  printf("vocabulary of %u, prepared in %.0f ms\n\n", bench.size, (now() - begin) * 1e3);
  printf("| grammar | tokens | compiled + prepared, ms | first walk, µs | again | cold | random |\n");
  printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  measure_gbnf(&bench, "GBNF, any JSON", "json.gbnf", "json.txt");
  measure_gbnf(&bench, "GBNF, C", "c.gbnf", "c.txt");
  measure_schema_file(&bench, "schema of a tool that writes a file", "tool.schema.json", "tool.txt");
  measure_schema_file(&bench, "schema with patterns, formats, bounds, recursion", "record.schema.json", "record.txt");
  measure_enum(&bench);
  measure_lengths(&bench);
  measure_pattern(&bench);
  measure_tool_xml(&bench);
  token_vocabulary_release(bench.vocabulary);
  tokenizer_free(bench.tokenizer);
  return 0;
}
