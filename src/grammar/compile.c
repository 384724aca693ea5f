#include "grammar/compile.h"

#include <stdlib.h>
#include <string.h>

enum {
  COPY_WEIGHT = 40, /* an expression that is used in several places is called if it weighs more */
  TOO_HEAVY = 255,
  UNROLLED = 4 /* rounds of a class or literal that are copied and not counted */
};

static uint32_t fail(struct compilation *compilation, int code) {
  if (!compilation->code) compilation->code = code;
  return AUTOMATON_NONE;
}

uint32_t compile_fail_size(struct compilation *compilation) {
  if (compilation->code) return AUTOMATON_NONE;
  return fail(compilation,
              kj_fail(compilation->error, KJ_UNSUPPORTED,
                      "the grammar compiles to more than %d states, which is too large", (int)GRAMMAR_MAX_STATES));
}

static bool reserve(struct compilation *compilation, void **array, size_t count, size_t *capacity, size_t extra,
                    size_t size) {
  if (compilation->code) return false;
  if (count + extra > (size_t)GRAMMAR_MAX_STATES * 2) {
    compile_fail_size(compilation);
    return false;
  }
  if (count + extra <= *capacity) return true;
  size_t wanted = *capacity ? *capacity * 2 : 64;
  if (wanted < count + extra) wanted = count + extra;
  void *grown = realloc(*array, wanted * size);
  if (!grown) {
    fail(compilation, kj_fail_memory(compilation->error, "the automaton of a grammar"));
    return false;
  }
  *array = grown;
  *capacity = wanted;
  return true;
}

#define RESERVE(compilation, array, count, capacity, extra)                                    \
  reserve(compilation, (void **)&(compilation)->grammar->array, (compilation)->grammar->count, \
          &(compilation)->capacity, extra, sizeof *(compilation)->grammar->array)

uint32_t compile_state(struct compilation *compilation, struct automaton_state state) {
  struct grammar *grammar = compilation->grammar;
  if (grammar->state_count >= GRAMMAR_MAX_STATES) return compile_fail_size(compilation);
  if (!RESERVE(compilation, states, state_count, state_capacity, 1)) return AUTOMATON_NONE;
  grammar->states[grammar->state_count] = state;
  return grammar->state_count++;
}

static struct automaton_state state_of(enum automaton_kind kind, uint32_t first, uint32_t count) {
  return (struct automaton_state){
      .kind = (uint8_t)kind, .first = first, .count = count, .loop_class = AUTOMATON_NONE, .loop_site = AUTOMATON_NONE};
}

uint32_t compile_read(struct compilation *compilation, const struct automaton_edge *edges, size_t count) {
  struct grammar *grammar = compilation->grammar;
  if (!RESERVE(compilation, edges, edge_count, edge_capacity, count)) return AUTOMATON_NONE;
  uint32_t first = grammar->edge_count;
  memcpy(grammar->edges + first, edges, count * sizeof *edges);
  grammar->edge_count += (uint32_t)count;
  return compile_state(compilation, state_of(AUTOMATON_READ, first, (uint32_t)count));
}

uint32_t compile_fork(struct compilation *compilation, const uint32_t *targets, size_t count) {
  struct grammar *grammar = compilation->grammar;
  if (!RESERVE(compilation, targets, target_count, target_capacity, count)) return AUTOMATON_NONE;
  uint32_t first = grammar->target_count;
  if (count > 0) memcpy(grammar->targets + first, targets, count * sizeof *targets);
  grammar->target_count += (uint32_t)count;
  return compile_state(compilation, state_of(AUTOMATON_FORK, first, (uint32_t)count));
}

static uint32_t compile(struct compilation *compilation, grammar_expression handle, uint32_t next, struct loop loop);

/* What a copy of the expression costs, or TOO_HEAVY: more than COPY_WEIGHT, or recursive. `depth` bounds the search. */
static uint8_t weigh(struct compilation *compilation, grammar_expression handle, unsigned depth) {
  uint8_t *known = &compilation->weight[handle];
  if (*known) return *known;
  if (depth > COPY_WEIGHT) return TOO_HEAVY;
  *known = TOO_HEAVY; /* while it is being weighed: whoever finds it here is recursive */
  const struct grammar_builder *builder = compilation->builder;
  const struct expression *expression = &builder->expressions[handle];
  uint32_t count, weight = 1;
  const uint32_t *parts = expression_parts(builder, expression, &count);
  bool repeats = expression->kind == EXPRESSION_REPEAT;
  if (expression->kind == EXPRESSION_BYTES) weight = expression->count;
  if (expression->kind == EXPRESSION_CLASS) weight = 1 + expression->count;
  if (expression->kind == EXPRESSION_UNTIL || expression->kind == EXPRESSION_WITHOUT) weight = 4 * expression->count;
  for (uint32_t i = 0; i < count && weight <= COPY_WEIGHT; i++) weight += weigh(compilation, parts[i], depth + 1);
  if (repeats && expression->maximum <= UNROLLED) weight *= expression->maximum;
  *known = weight <= COPY_WEIGHT ? (uint8_t)(weight ? weight : 1) : TOO_HEAVY;
  return *known;
}

/* Leads to the entry of an expression that is compiled once, and comes back to `next`. */
static uint32_t call(struct compilation *compilation, grammar_expression handle, uint32_t next) {
  struct grammar *grammar = compilation->grammar;
  uint32_t *entry = &compilation->entry[handle];
  if (*entry == AUTOMATON_NONE) {
    uint32_t unknown = AUTOMATON_NONE;
    *entry = compile_fork(compilation, &unknown, 1); /* its target follows when it is compiled */
    if (compilation->code) return AUTOMATON_NONE;
    compilation->waiting[compilation->waiting_count++] = handle;
  }
  /* A call with nothing after it needs no place on the stack: recursion at the end costs none. */
  if (grammar->states[next].kind == AUTOMATON_RETURN) return *entry;
  struct automaton_state state = state_of(AUTOMATON_CALL, next, 0);
  state.target = *entry;
  return compile_state(compilation, state);
}

static uint32_t compile_choice(struct compilation *compilation, const struct expression *expression, uint32_t next,
                               struct loop loop) {
  const struct grammar_builder *builder = compilation->builder;
  const uint32_t *parts = builder->parts + expression->first;
  uint32_t *targets = calloc(expression->count + 1, sizeof *targets), count = 0, result = AUTOMATON_NONE;
  struct literal *literals = calloc(expression->count, sizeof *literals);
  size_t literal_count = 0;
  if (!targets || !literals) {
    fail(compilation, kj_fail_memory(compilation->error, "the automaton of a grammar"));
    goto done;
  }
  for (uint32_t i = 0; i < expression->count && !compilation->code; i++) {
    const struct expression *part = &builder->expressions[parts[i]];
    if (part->kind == EXPRESSION_BYTES && part->count > 0)
      literals[literal_count++] = (struct literal){builder->bytes + part->first, part->count};
    else if (part->productive)
      targets[count++] = compile(compilation, parts[i], next, loop);
  }
  if (literal_count > 0) targets[count++] = compile_literals(compilation, literals, literal_count, next);
  if (compilation->code) goto done;
  result = count == 1 ? targets[0] : compile_fork(compilation, targets, count);
done:
  free(targets);
  free(literals);
  return result;
}

static uint32_t compile_counted(struct compilation *compilation, const struct expression *expression, bool nullable,
                                uint32_t next) {
  struct grammar *grammar = compilation->grammar;
  if (!RESERVE(compilation, sites, site_count, site_capacity, 1)) return AUTOMATON_NONE;
  uint32_t site = grammar->site_count++;
  /* Rounds without a byte are left out when the automaton runs: where they exist, they stand for all that are missing.
   */
  grammar->sites[site] = (struct automaton_site){.minimum = nullable ? 0 : expression->minimum,
                                                 .maximum = expression->maximum,
                                                 .after = next,
                                                 .nullable = nullable};
  uint32_t end = compile_state(compilation, state_of(AUTOMATON_ROUND, site, 0));
  if (compilation->code) return AUTOMATON_NONE;
  uint32_t body = compile(compilation, expression->part, end, (struct loop){true, site});
  grammar->sites[site].body = body;
  return compile_state(compilation, state_of(AUTOMATON_ROUNDS, site, 0));
}

static uint32_t compile_unrolled(struct compilation *compilation, const struct expression *expression, uint32_t next) {
  uint32_t follows = next;
  for (uint32_t i = expression->maximum; i > 0 && !compilation->code; i--) {
    uint32_t round = compile(compilation, expression->part, follows, (struct loop){0});
    uint32_t targets[] = {round, next};
    follows = i > expression->minimum && !compilation->code ? compile_fork(compilation, targets, 2) : round;
  }
  return follows;
}

static uint32_t compile_repeat(struct compilation *compilation, const struct expression *expression, uint32_t next) {
  struct grammar *grammar = compilation->grammar;
  const struct expression *part = &compilation->builder->expressions[expression->part];
  if (!part->productive) return next; /* no round at all is the only way */
  bool simple = part->kind == EXPRESSION_CLASS || (part->kind == EXPRESSION_BYTES && part->count <= UNROLLED);
  uint32_t minimum = part->nullable ? 0 : expression->minimum;
  if (expression->maximum == 1 || (simple && expression->maximum <= UNROLLED))
    return compile_unrolled(compilation, expression, next);
  if (expression->maximum != GRAMMAR_UNBOUNDED || minimum > 1)
    return compile_counted(compilation, expression, part->nullable, next);
  uint32_t targets[] = {AUTOMATON_NONE, next}, fork = compile_fork(compilation, targets, 2);
  if (compilation->code) return AUTOMATON_NONE;
  uint32_t body = compile(compilation, expression->part, fork, (struct loop){true, AUTOMATON_NONE});
  if (compilation->code) return AUTOMATON_NONE;
  grammar->targets[grammar->states[fork].first] = body;
  return minimum > 0 ? body : fork;
}

/* The expression itself, in place. */
static uint32_t compile_here(struct compilation *compilation, grammar_expression handle, uint32_t next,
                             struct loop loop) {
  const struct grammar_builder *builder = compilation->builder;
  const struct expression *expression = &builder->expressions[handle];
  const char *bytes = builder->bytes + expression->first;
  switch (expression->kind) {
    case EXPRESSION_BYTES:
      return compile_literal(compilation, bytes, expression->count, next);
    case EXPRESSION_CLASS:
      return compile_class(compilation, builder->ranges + expression->first, expression->count, next, loop);
    case EXPRESSION_SEQUENCE:
      for (uint32_t i = expression->count; i > 0 && !compilation->code; i--)
        next = compile(compilation, builder->parts[expression->first + i - 1], next, (struct loop){0});
      return next;
    case EXPRESSION_CHOICE:
      return compile_choice(compilation, expression, next, loop);
    case EXPRESSION_REPEAT:
      return compile_repeat(compilation, expression, next);
    case EXPRESSION_UNTIL:
    case EXPRESSION_WITHOUT:
      return compile_stop(compilation, bytes, expression->count, expression->kind == EXPRESSION_WITHOUT, next);
    default:
      return compile(compilation, expression->part, next, loop);
  }
}

static uint32_t compile(struct compilation *compilation, grammar_expression handle, uint32_t next, struct loop loop) {
  const struct expression *expression = &compilation->builder->expressions[handle];
  if (compilation->code) return AUTOMATON_NONE;
  bool shared = expression->kind == EXPRESSION_RULE || expression->uses > 1;
  if (shared && weigh(compilation, handle, 0) > COPY_WEIGHT) return call(compilation, handle, next);
  return compile_here(compilation, handle, next, loop);
}

static int compile_all(struct compilation *compilation, grammar_expression root) {
  struct grammar *grammar = compilation->grammar;
  uint32_t end = compile_state(compilation, state_of(AUTOMATON_RETURN, 0, 0));
  if (!compilation->code) grammar->start = compile(compilation, root, end, (struct loop){0});
  while (compilation->waiting_count > 0 && !compilation->code) {
    uint32_t handle = compilation->waiting[--compilation->waiting_count];
    const struct expression *expression = &compilation->builder->expressions[handle];
    uint32_t inside = expression->kind == EXPRESSION_RULE
                          ? compile(compilation, expression->part, end, (struct loop){0})
                          : compile_here(compilation, handle, end, (struct loop){0});
    if (!compilation->code) grammar->targets[grammar->states[compilation->entry[handle]].first] = inside;
  }
  if (!compilation->code) compile_byte_classes(grammar);
  return compilation->code;
}

int automaton_compile(const struct grammar_builder *builder, grammar_expression root, struct grammar **result,
                      struct kj_error *error) {
  struct grammar *grammar = calloc(1, sizeof *grammar);
  if (!grammar) return kj_fail_memory(error, "a grammar");
  atomic_init(&grammar->references, 1);
  struct compilation compilation = {.builder = builder, .grammar = grammar, .error = error};
  size_t count = builder->expression_count;
  compilation.entry = malloc(count * sizeof *compilation.entry);
  compilation.waiting = malloc(count * sizeof *compilation.waiting);
  compilation.weight = calloc(count, 1);
  grammar->ranges = malloc((builder->range_count + 1) * sizeof *grammar->ranges);
  int code = 0;
  if (!compilation.entry || !compilation.waiting || !compilation.weight || !grammar->ranges) {
    code = kj_fail_memory(error, "a grammar");
  } else {
    for (size_t i = 0; i < count; i++) compilation.entry[i] = AUTOMATON_NONE;
    grammar->range_count = (uint32_t)builder->range_count;
    if (builder->range_count > 0)
      memcpy(grammar->ranges, builder->ranges, builder->range_count * sizeof *grammar->ranges);
    code = compile_all(&compilation, root);
  }
  free(compilation.entry);
  free(compilation.waiting);
  free(compilation.weight);
  if (code)
    grammar_release(grammar);
  else
    *result = grammar;
  return code;
}
