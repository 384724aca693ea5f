#include <stdlib.h>
#include <string.h>

#include "grammar/class_ranges.h"
#include "grammar/compile.h"
#include "text/utf8.h"

static uint32_t fail_memory(struct compilation *compilation) {
  if (!compilation->code) compilation->code = kj_fail_memory(compilation->error, "the automaton of a grammar");
  return AUTOMATON_NONE;
}

uint32_t compile_literal(struct compilation *compilation, const char *bytes, size_t length, uint32_t next) {
  for (size_t i = length; i > 0 && !compilation->code; i--) {
    uint8_t byte = (uint8_t)bytes[i - 1];
    struct automaton_edge edge = {byte, byte, next};
    next = compile_read(compilation, &edge, 1);
  }
  return next;
}

static int by_bytes(const void *a, const void *b) {
  const struct literal *left = a, *right = b;
  size_t shorter = left->length < right->length ? left->length : right->length;
  int order = memcmp(left->bytes, right->bytes, shorter);
  if (order) return order;
  return left->length < right->length ? -1 : left->length > right->length;
}

/* The tree of sorted literals that agree in their first `depth` bytes and are all longer or as long. */
static uint32_t compile_tree(struct compilation *compilation, const struct literal *literals, size_t count,
                             size_t depth, uint32_t next) {
  const struct literal *last = &literals[count - 1];
  size_t begin = depth;
  while (depth < literals->length && depth < last->length && literals->bytes[depth] == last->bytes[depth]) depth++;
  size_t ended = 0, edge_count = 0;
  while (ended < count && literals[ended].length == depth) ended++;
  struct automaton_edge *edges = NULL;
  uint32_t state = next;
  if (ended < count) {
    size_t distinct = 1;
    for (size_t i = ended + 1; i < count; i++) distinct += literals[i].bytes[depth] != literals[i - 1].bytes[depth];
    edges = calloc(distinct, sizeof *edges);
    if (!edges) return fail_memory(compilation);
    for (size_t first = ended, end; first < count && !compilation->code; first = end) {
      uint8_t byte = (uint8_t)literals[first].bytes[depth];
      for (end = first + 1; end < count && (uint8_t)literals[end].bytes[depth] == byte;) end++;
      uint32_t below = compile_tree(compilation, literals + first, end - first, depth + 1, next);
      edges[edge_count++] = (struct automaton_edge){byte, byte, below};
    }
    if (!compilation->code) state = compile_read(compilation, edges, edge_count);
    free(edges);
    uint32_t targets[] = {next, state};
    if (ended > 0 && !compilation->code) state = compile_fork(compilation, targets, 2);
  }
  return compile_literal(compilation, literals->bytes + begin, depth - begin, state);
}

uint32_t compile_literals(struct compilation *compilation, struct literal *literals, size_t count, uint32_t next) {
  if (compilation->code) return AUTOMATON_NONE;
  qsort(literals, count, sizeof *literals, by_bytes);
  return compile_tree(compilation, literals, count, 0, next);
}

/* Compiles spans of UTF-8; tails[n] reads any n continuation bytes. */
struct class_compilation {
  struct compilation *compilation;
  uint32_t tails[4];
};

static uint32_t tail(struct class_compilation *class, unsigned length) {
  if (class->tails[length] != AUTOMATON_NONE) return class->tails[length];
  struct automaton_edge edge = {0x80, 0xbf, tail(class, length - 1)};
  return class->tails[length] = compile_read(class->compilation, &edge, 1);
}

static bool takes_any_tail(const struct utf8_span *span, unsigned level) {
  for (unsigned i = level; i < 4 && i < span->length; i++)
    if (span->low[i] != 0x80 || span->high[i] != 0xbf) return false;
  return true;
}

/* Spans that agree in all bytes before `level`; those with the same byte there lie together. */
static uint32_t compile_spans(struct class_compilation *class, const struct utf8_span *spans, size_t count,
                              unsigned level) {
  struct automaton_edge edges[256];
  size_t edge_count = 0;
  for (size_t first = 0, end; first < count && !class->compilation->code; first = end) {
    const struct utf8_span *span = &spans[first];
    uint32_t target;
    end = first + 1;
    if (level >= 3 || takes_any_tail(span, level + 1)) {
      target = tail(class, span->length - level - 1);
    } else {
      while (end < count && spans[end].low[level] == span->low[level]) end++;
      target = compile_spans(class, span, end - first, level + 1);
    }
    struct automaton_edge *last = edge_count > 0 ? &edges[edge_count - 1] : NULL;
    if (last && last->target == target && last->high + 1 == span->low[level])
      last->high = span->high[level];
    else
      edges[edge_count++] = (struct automaton_edge){span->low[level], span->high[level], target};
  }
  return class->compilation->code ? AUTOMATON_NONE : compile_read(class->compilation, edges, edge_count);
}

/* The number of the class among those that are repeated. */
static uint32_t note_class(struct compilation *compilation, const struct code_range *ranges, size_t count) {
  struct grammar *grammar = compilation->grammar;
  /* Only expressions of the builder are noted; others are made while compiling and stand for one state alone. */
  const struct code_range *known = compilation->builder->ranges;
  for (uint32_t i = 0; i < grammar->class_count; i++) {
    const struct automaton_class *class = &grammar->classes[i];
    if (class->count == count && !memcmp(grammar->ranges + class->first, ranges, count * sizeof *ranges)) return i;
  }
  if (grammar->class_count >= AUTOMATON_CLASSES) return AUTOMATON_NONE;
  uint32_t first;
  if (known && ranges >= known && ranges < known + compilation->builder->range_count) {
    first = (uint32_t)(ranges - known);
  } else {
    struct code_range *grown = realloc(grammar->ranges, (grammar->range_count + count + 1) * sizeof *grown);
    if (!grown) return fail_memory(compilation);
    grammar->ranges = grown;
    first = grammar->range_count;
    memcpy(grown + first, ranges, count * sizeof *ranges);
    grammar->range_count += (uint32_t)count;
  }
  grammar->classes[grammar->class_count] = (struct automaton_class){first, (uint32_t)count};
  return grammar->class_count++;
}

uint32_t compile_class(struct compilation *compilation, const struct code_range *ranges, size_t count, uint32_t next,
                       struct loop loop) {
  struct class_compilation class = {compilation, {next, AUTOMATON_NONE, AUTOMATON_NONE, AUTOMATON_NONE}};
  struct utf8_span *spans = calloc(count ? count : 1, UTF8_SPANS * sizeof *spans);
  size_t span_count = 0;
  if (!spans) return fail_memory(compilation);
  for (size_t i = 0; i < count; i++) span_count += class_range_spans(ranges[i], spans + span_count);
  uint32_t state = compile_spans(&class, spans, span_count, 0);
  free(spans);
  if (!loop.repeated || compilation->code) return state;
  uint32_t noted = note_class(compilation, ranges, count);
  if (compilation->code) return AUTOMATON_NONE;
  compilation->grammar->states[state].loop_class = noted;
  compilation->grammar->states[state].loop_site = loop.site;
  return state;
}

struct stop {
  uint32_t characters[GRAMMAR_MAX_STOP];
  uint32_t failure[GRAMMAR_MAX_STOP]; /* [i] the longest end of the first i characters that is a beginning, too */
  uint32_t states[GRAMMAR_MAX_STOP];  /* after the first i characters */
  uint32_t count;
};

static void read_stop(struct stop *stop, const char *text, size_t length) {
  for (size_t at = 0; at < length;) at += utf8_read(text + at, length - at, &stop->characters[stop->count++]);
  for (uint32_t i = 1, matched = 0; i < stop->count; i++) {
    stop->failure[i] = matched;
    while (matched > 0 && stop->characters[i] != stop->characters[matched]) matched = stop->failure[matched];
    if (stop->characters[i] == stop->characters[matched]) matched++;
  }
}

/* The state after the first `matched` characters: a character that goes on with the stop, or with a shorter beginning
 * of it, or any other one, which begins anew. */
static uint32_t compile_stop_state(struct compilation *compilation, const struct stop *stop, uint32_t matched,
                                   uint32_t complete, struct code_range *special, uint32_t *targets) {
  size_t special_count = 0, target_count = 0;
  for (uint32_t state = matched;; state = stop->failure[state]) {
    uint32_t character = stop->characters[state];
    bool seen = false;
    for (size_t i = 0; i < special_count; i++) seen = seen || special[i].first == character;
    uint32_t target = state + 1 == stop->count ? complete : stop->states[state + 1];
    struct code_range range = {character, character};
    if (!seen) special[special_count++] = range;
    if (!seen && target != AUTOMATON_NONE)
      targets[target_count++] = compile_class(compilation, &range, 1, target, (struct loop){0});
    if (state == 0) break;
  }
  size_t others = class_ranges_normalize(special, special_count, true);
  targets[target_count++] =
      compile_class(compilation, special, others, stop->states[0], (struct loop){matched == 0, AUTOMATON_NONE});
  if (compilation->code) return AUTOMATON_NONE;
  return compile_fork(compilation, targets, target_count);
}

uint32_t compile_stop(struct compilation *compilation, const char *text, size_t length, bool without, uint32_t next) {
  struct stop *stop = calloc(1, sizeof *stop);
  struct code_range *special = calloc(GRAMMAR_MAX_STOP + 2, sizeof *special);
  uint32_t *targets = calloc(GRAMMAR_MAX_STOP + 2, sizeof *targets), result = AUTOMATON_NONE;
  if (!stop || !special || !targets) {
    fail_memory(compilation);
    goto done;
  }
  read_stop(stop, text, length);
  for (uint32_t i = 0; i < stop->count && !compilation->code; i++) {
    uint32_t ways[] = {AUTOMATON_NONE, next};
    stop->states[i] = compile_fork(compilation, ways, without ? 2 : 1);
  }
  for (uint32_t i = 0; i < stop->count && !compilation->code; i++) {
    uint32_t state = compile_stop_state(compilation, stop, i, without ? AUTOMATON_NONE : next, special, targets);
    if (compilation->code) break;
    compilation->grammar->targets[compilation->grammar->states[stop->states[i]].first] = state;
  }
  if (!compilation->code) result = stop->states[0];
done:
  free(stop);
  free(special);
  free(targets);
  return result;
}

void compile_byte_classes(struct grammar *grammar) {
  bool begins[257] = {true};
  for (uint32_t i = 0; i < grammar->edge_count; i++) {
    begins[grammar->edges[i].low] = true;
    begins[grammar->edges[i].high + 1] = true;
  }
  uint32_t count = 0;
  for (unsigned byte = 0; byte < 256; byte++) {
    count += begins[byte];
    grammar->byte_class[byte] = (uint8_t)(count - 1);
  }
  grammar->byte_class_count = count;
}
