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

/* What a configuration leads to without a byte: found[first … first + count), sorted. */
struct known_closure {
  uint32_t state, stack; /* state AUTOMATON_NONE: an empty slot */
  uint32_t first, count;
  bool complete;
};

struct parse_closures {
  struct known_closure *slots; /* hash table with linear probing */
  size_t slot_count, count;
  parse_configuration *found;
  size_t found_count, found_capacity;
};

static struct parse_closure *create(void) {
  struct parse_closure *closure = calloc(1, sizeof *closure);
  if (!closure) return NULL;
  closure->visited_capacity = 512;
  closure->visited = calloc(closure->visited_capacity, sizeof *closure->visited);
  if (closure->visited) return closure;
  free(closure);
  return NULL;
}

static void free_closure(struct parse_closure *closure) {
  if (!closure) return;
  free(closure->work);
  free(closure->visited);
  free(closure->found);
  free(closure);
}

bool parse_closures_create(struct parse_states *states) {
  states->closure = create();
  states->part = create();
  states->known = calloc(1, sizeof *states->known);
  return states->closure && states->part && states->known;
}

void parse_closure_forget(struct parse_states *states) {
  free(states->known->slots);
  free(states->known->found);
  *states->known = (struct parse_closures){0};
}

void parse_closures_free(struct parse_states *states) {
  free_closure(states->closure);
  free_closure(states->part);
  if (states->known) parse_closure_forget(states);
  free(states->known);
}

size_t parse_closure_bytes(const struct parse_states *states) {
  return states->known->slot_count * sizeof *states->known->slots +
         states->known->found_count * sizeof *states->known->found;
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

static bool keep(struct parse_states *states, struct parse_closure *closure, parse_configuration configuration) {
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

bool parse_closure_keep(struct parse_states *states, parse_configuration configuration) {
  return keep(states, states->closure, configuration);
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
  struct parse_closure *closure = states->part;
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
  struct parse_closure *closure = states->part;
  if (stack == AUTOMATON_NONE) return false;
  if (states->grammar->states[state].kind == AUTOMATON_READ)
    return keep(states, closure, (parse_configuration)state << 32 | stack);
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

/* The number of complete rounds after one more; those beyond the minimum of an unbounded repetition are not counted. */
static uint32_t rounds_after(const struct automaton_site *site, uint32_t rounds) {
  bool counted = site->maximum != GRAMMAR_UNBOUNDED || rounds < site->minimum;
  return counted ? rounds + 1 : rounds;
}

static bool end_round(struct parse_states *states, struct item item) {
  struct parse_stack top = states->stacks[item.stack];
  uint32_t number = top.label - PARSE_SITE;
  const struct automaton_site *site = &states->grammar->sites[number];
  /* A round without a byte: whatever it leads to can be had without it (grammar/compile.c). */
  if (item.fresh > 0) return true;
  uint32_t rounds = rounds_after(site, top.rounds);
  if (rounds >= site->minimum && !later(states, site->after, top.below, 0)) return false;
  if (rounds >= site->maximum) return true;
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
        states->part->complete = true;
        return true;
      }
      return later(states, states->stacks[item.stack].label, states->stacks[item.stack].below,
                   item.fresh > 0 ? item.fresh - 1 : 0);
  }
}

static int by_value(const void *a, const void *b) {
  parse_configuration left = *(const parse_configuration *)a, right = *(const parse_configuration *)b;
  return left < right ? -1 : left > right;
}

static void sort(parse_configuration *values, size_t count) {
  size_t sorted = 1;
  while (sorted < count && values[sorted - 1] <= values[sorted]) sorted++;
  if (sorted >= count) return;
  if (count > 64) {
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

void parse_closure_complete(struct parse_closure *closure, bool complete) { closure->complete = complete; }

static struct known_closure *known_slot(const struct parse_closures *known, uint32_t state, uint32_t stack) {
  struct item item = {state, stack, 0};
  for (size_t slot = hash(item) & (known->slot_count - 1);; slot = (slot + 1) & (known->slot_count - 1)) {
    struct known_closure *closure = &known->slots[slot];
    if (closure->state == AUTOMATON_NONE || (closure->state == state && closure->stack == stack)) return closure;
  }
}

static bool grow_known(struct parse_closures *known) {
  struct parse_closures grown = *known;
  grown.slot_count = known->slot_count ? known->slot_count * 2 : 256;
  grown.slots = malloc(grown.slot_count * sizeof *grown.slots);
  if (!grown.slots) return false;
  for (size_t i = 0; i < grown.slot_count; i++) grown.slots[i].state = AUTOMATON_NONE;
  for (size_t i = 0; i < known->slot_count; i++)
    if (known->slots[i].state != AUTOMATON_NONE)
      *known_slot(&grown, known->slots[i].state, known->slots[i].stack) = known->slots[i];
  free(known->slots);
  *known = grown;
  return true;
}

/* Remembers what states->part has found. */
static const struct known_closure *remember(struct parse_states *states, uint32_t state, uint32_t stack) {
  struct parse_closures *known = states->known;
  uint32_t count;
  bool complete;
  const parse_configuration *found = parse_closure_result(states->part, &count, &complete);
  if ((known->count + 1) * 2 > known->slot_count && !grow_known(known)) return NULL;
  if (known->found_count + count > known->found_capacity) {
    size_t capacity = known->found_capacity * 2 > known->found_count + count ? known->found_capacity * 2
                                                                             : known->found_count + count + 256;
    parse_configuration *grown = realloc(known->found, capacity * sizeof *grown);
    if (!grown) return NULL;
    known->found = grown;
    known->found_capacity = capacity;
  }
  if (count > 0) memcpy(known->found + known->found_count, found, count * sizeof *found);
  struct known_closure *slot = known_slot(known, state, stack);
  *slot = (struct known_closure){state, stack, (uint32_t)known->found_count, count, complete};
  known->found_count += count;
  known->count++;
  return slot;
}

static const struct known_closure *find(struct parse_states *states, uint32_t state, uint32_t stack) {
  if (states->known->slot_count > 0) {
    const struct known_closure *slot = known_slot(states->known, state, stack);
    if (slot->state != AUTOMATON_NONE) return slot;
  }
  parse_closure_clear(states->part);
  if (!later(states, state, stack, 0)) return NULL;
  while (states->part->work_count > 0) {
    if (!parse_states_work(states, 1)) return NULL;
    if (!follow(states, states->part->work[--states->part->work_count])) return NULL;
  }
  if (parse_states_bytes(states) > PARSE_MAX_BYTES) {
    kj_fail(&states->failure, KJ_UNSUPPORTED,
            "the grammar is too ambiguous: a token would take more than %d MiB to find", (int)(PARSE_MAX_BYTES >> 20));
    return NULL;
  }
  const struct known_closure *slot = remember(states, state, stack);
  if (!slot) fail_memory(states);
  return slot;
}

bool parse_closure_add(struct parse_states *states, uint32_t automaton_state, uint32_t stack) {
  const struct automaton_state *state = &states->grammar->states[automaton_state];
  if (stack == AUTOMATON_NONE) return false;
  if (state->kind == AUTOMATON_READ)
    return parse_closure_keep(states, (parse_configuration)automaton_state << 32 | stack);
  if (state->kind == AUTOMATON_ROUND && !states->grammar->sites[state->first].nullable) {
    /* What is behind the repetition is the same after every round: it is remembered for all of them. */
    const struct automaton_site *site = &states->grammar->sites[state->first];
    struct parse_stack top = states->stacks[stack];
    uint32_t rounds = rounds_after(site, top.rounds);
    if (rounds >= site->minimum && !parse_closure_add(states, site->after, top.below)) return false;
    return rounds >= site->maximum ||
           parse_closure_add(states, site->body, parse_stack_push(states, top.below, top.label, rounds));
  }
  const struct known_closure *known = find(states, automaton_state, stack);
  if (!known) return false;
  struct parse_closure *closure = states->closure;
  closure->complete = closure->complete || known->complete;
  if (!parse_states_work(states, known->count)) return false;
  for (uint32_t i = 0; i < known->count; i++)
    if (!parse_closure_keep(states, states->known->found[known->first + i])) return false;
  return true;
}
