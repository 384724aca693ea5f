#include "grammar/parse_closure.h"

#include <stdlib.h>
#include <string.h>

/* A configuration on its way. */
struct item {
  uint32_t state, stack;
  uint32_t fresh; /* of the stack's tops: pushed since the last byte */
};

struct visited {
  struct item item;
  uint32_t stamp; /* of the closure that it belongs to */
};

struct parse_closure {
  struct item *work;
  size_t work_count, work_capacity;
  struct visited *visited; /* hash table with linear probing */
  size_t visited_count, visited_capacity;
  uint32_t stamp;
  parse_configuration *found;
  size_t found_count, found_capacity;
  bool complete;
};

struct parse_closure *parse_closure_create(void) {
  struct parse_closure *closure = calloc(1, sizeof *closure);
  if (!closure) return NULL;
  closure->visited_capacity = 64;
  closure->visited = calloc(closure->visited_capacity, sizeof *closure->visited);
  if (closure->visited) return closure;
  free(closure);
  return NULL;
}

void parse_closure_free(struct parse_closure *closure) {
  if (!closure) return;
  free(closure->work);
  free(closure->visited);
  free(closure->found);
  free(closure);
}

void parse_closure_clear(struct parse_closure *closure) {
  closure->work_count = closure->visited_count = closure->found_count = 0;
  closure->complete = false;
  if (++closure->stamp == 0) {
    memset(closure->visited, 0, closure->visited_capacity * sizeof *closure->visited);
    closure->stamp = 1;
  }
}

static bool fail_memory(struct parse_states *states) {
  kj_fail_memory(&states->failure, "the states of a grammar");
  return false;
}

static bool fail_ambiguous(struct parse_states *states) {
  kj_fail(&states->failure, KJ_UNSUPPORTED,
          "the grammar is too ambiguous: the text so far can be read in more than %d ways", (int)PARSE_MAX_WAYS);
  return false;
}

bool parse_closure_keep(struct parse_states *states, parse_configuration configuration) {
  struct parse_closure *closure = states->closure;
  if (closure->found_count == closure->found_capacity) {
    size_t capacity = closure->found_capacity ? closure->found_capacity * 2 : 64;
    parse_configuration *grown = realloc(closure->found, capacity * sizeof *grown);
    if (!grown) return fail_memory(states);
    closure->found = grown;
    closure->found_capacity = capacity;
  }
  closure->found[closure->found_count++] = configuration;
  /* Those that are found twice are not taken out yet. */
  return closure->found_count <= (size_t)PARSE_MAX_WAYS * 4 || fail_ambiguous(states);
}

static size_t hash(struct item item) {
  uint64_t value = (item.state * 0x9e3779b97f4a7c15u) ^ (item.stack * 0xc2b2ae3d27d4eb4fu) ^ item.fresh;
  return (size_t)((value ^ (value >> 29)) * 0xbf58476d1ce4e5b9u >> 20);
}

static bool equal(struct item a, struct item b) {
  return a.state == b.state && a.stack == b.stack && a.fresh == b.fresh;
}

static struct visited *slot_of(struct visited *table, size_t capacity, struct item item, uint32_t stamp) {
  for (size_t slot = hash(item) & (capacity - 1);; slot = (slot + 1) & (capacity - 1))
    if (table[slot].stamp != stamp || equal(table[slot].item, item)) return &table[slot];
}

static bool grow_visited(struct parse_states *states) {
  struct parse_closure *closure = states->closure;
  if (closure->visited_count >= (size_t)PARSE_MAX_WAYS * 4) return fail_ambiguous(states);
  size_t capacity = closure->visited_capacity * 2;
  struct visited *grown = calloc(capacity, sizeof *grown);
  if (!grown) return fail_memory(states);
  for (size_t i = 0; i < closure->visited_capacity; i++) {
    struct visited *old = &closure->visited[i];
    if (old->stamp == closure->stamp) *slot_of(grown, capacity, old->item, closure->stamp) = *old;
  }
  free(closure->visited);
  closure->visited = grown;
  closure->visited_capacity = capacity;
  return true;
}

static bool later(struct parse_states *states, uint32_t state, uint32_t stack, uint32_t fresh) {
  struct parse_closure *closure = states->closure;
  if (stack == AUTOMATON_NONE) return false;
  if (states->grammar->states[state].kind == AUTOMATON_READ)
    return parse_closure_keep(states, (parse_configuration)state << 32 | stack);
  struct item item = {state, stack, fresh};
  struct visited *visited = slot_of(closure->visited, closure->visited_capacity, item, closure->stamp);
  if (visited->stamp == closure->stamp) return true;
  *visited = (struct visited){item, closure->stamp};
  if (++closure->visited_count * 2 > closure->visited_capacity && !grow_visited(states)) return false;
  if (closure->work_count == closure->work_capacity) {
    size_t capacity = closure->work_capacity ? closure->work_capacity * 2 : 64;
    struct item *grown = realloc(closure->work, capacity * sizeof *grown);
    if (!grown) return fail_memory(states);
    closure->work = grown;
    closure->work_capacity = capacity;
  }
  closure->work[closure->work_count++] = item;
  return true;
}

static bool end_round(struct parse_states *states, struct item item) {
  struct parse_stack top = states->stacks[item.stack];
  uint32_t number = top.label - PARSE_SITE;
  const struct automaton_site *site = &states->grammar->sites[number];
  /* A round without a byte: whatever it leads to can be had without it (grammar/compile.c). */
  if (item.fresh > 0) return true;
  uint32_t rounds = top.rounds + 1;
  bool unbounded = site->maximum == GRAMMAR_UNBOUNDED;
  if (unbounded && rounds > site->minimum) rounds = site->minimum;
  if (rounds >= site->minimum && !later(states, site->after, top.below, 0)) return false;
  if (!unbounded && rounds >= site->maximum) return true;
  return later(states, site->body, parse_stack_push(states, top.below, top.label, rounds), 1);
}

static bool follow(struct parse_states *states, struct item item) {
  const struct grammar *grammar = states->grammar;
  const struct automaton_state *state = &grammar->states[item.state];
  switch (state->kind) {
    case AUTOMATON_FORK:
      for (uint32_t i = 0; i < state->count; i++)
        if (!later(states, grammar->targets[state->first + i], item.stack, item.fresh)) return false;
      return true;
    case AUTOMATON_CALL:
      return later(states, state->target, parse_stack_push(states, item.stack, state->first, 0), item.fresh + 1);
    case AUTOMATON_ROUNDS: {
      const struct automaton_site *site = &grammar->sites[state->first];
      if (site->minimum == 0 && !later(states, site->after, item.stack, item.fresh)) return false;
      return later(states, site->body, parse_stack_push(states, item.stack, PARSE_SITE + state->first, 0),
                   item.fresh + 1);
    }
    case AUTOMATON_ROUND:
      return end_round(states, item);
    default:
      if (item.stack == 0) {
        states->closure->complete = true;
        return true;
      }
      return later(states, states->stacks[item.stack].label, states->stacks[item.stack].below,
                   item.fresh > 0 ? item.fresh - 1 : 0);
  }
}

bool parse_closure_add(struct parse_states *states, uint32_t automaton_state, uint32_t stack) {
  struct parse_closure *closure = states->closure;
  if (!later(states, automaton_state, stack, 0)) return false;
  while (closure->work_count > 0) {
    if (++states->work > PARSE_MAX_WORK) {
      kj_fail(&states->failure, KJ_UNSUPPORTED, "the grammar is too ambiguous: one token would take too long to find");
      return false;
    }
    if (!follow(states, closure->work[--closure->work_count])) return false;
  }
  return true;
}

void parse_closure_complete(struct parse_closure *closure, bool complete) { closure->complete = complete; }

static int by_value(const void *a, const void *b) {
  parse_configuration left = *(const parse_configuration *)a, right = *(const parse_configuration *)b;
  return left < right ? -1 : left > right;
}

static void sort(parse_configuration *values, size_t count) {
  if (count > 32) {
    qsort(values, count, sizeof *values, by_value);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    parse_configuration value = values[i];
    size_t at = i;
    for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
    values[at] = value;
  }
}

const parse_configuration *parse_closure_result(struct parse_closure *closure, uint32_t *count, bool *complete) {
  size_t kept = 0;
  sort(closure->found, closure->found_count);
  for (size_t i = 0; i < closure->found_count; i++)
    if (kept == 0 || closure->found[kept - 1] != closure->found[i]) closure->found[kept++] = closure->found[i];
  *count = (uint32_t)kept;
  *complete = closure->complete;
  return closure->found;
}
