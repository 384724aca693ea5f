#include "grammar/parse_states.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/parse_closure.h"

/* So much of it is a unit of work. */
enum { WORK_EDGES = 16, WORK_CLASSES = 16 };

static uint32_t fail_memory(struct parse_states *states) {
  kj_fail_memory(&states->failure, "the states of a grammar");
  return PARSE_FAILED;
}

size_t parse_states_bytes(const struct parse_states *states) {
  return states->state_count * (sizeof *states->states + states->class_count * sizeof *states->table) +
         states->configuration_count * sizeof *states->configurations + states->stack_count * sizeof *states->stacks +
         (states->state_slot_count + states->stack_slot_count) * sizeof *states->state_slots +
         parse_closure_bytes(states);
}

/* Makes room for `extra` elements more, within the bound of all memory. */
static bool reserve(struct parse_states *states, void **array, size_t count, size_t *capacity, size_t extra,
                    size_t size) {
  if (count + extra <= *capacity) return true;
  if (parse_states_bytes(states) + extra * size > PARSE_MAX_BYTES) {
    kj_fail(&states->failure, KJ_UNSUPPORTED,
            "the grammar is too ambiguous: a token would take more than %d MiB to find", (int)(PARSE_MAX_BYTES >> 20));
    return false;
  }
  size_t wanted = *capacity ? *capacity * 2 : extra > 8 ? extra * 64 : 512;
  if (wanted < count + extra) wanted = count + extra;
  void *grown = realloc(*array, wanted * size);
  if (!grown) {
    fail_memory(states);
    return false;
  }
  *array = grown;
  *capacity = wanted;
  return true;
}

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
  return value ^ (value >> 29);
}

static uint64_t hash_stack(uint32_t below, uint32_t label, uint32_t rounds) {
  return mix(((uint64_t)below << 32 | label) ^ mix(rounds));
}

static uint64_t hash_state(const parse_configuration *configurations, uint32_t count, bool complete) {
  uint64_t value = count * 2u + complete;
  for (uint32_t i = 0; i < count; i++) value = mix(value ^ configurations[i]) + configurations[i];
  return mix(value);
}

/* Doubles a hash table once it is half full; the caller enters everything anew. */
static bool grow_slots(struct parse_states *states, uint32_t **slots, size_t *slot_count, size_t count) {
  if ((count + 1) * 2 <= *slot_count) return false;
  size_t wanted = *slot_count ? *slot_count * 2 : 512;
  uint32_t *grown = calloc(wanted, sizeof *grown);
  if (!grown) {
    fail_memory(states);
    return false; /* the table stays as it is: it is never filled to the last slot, see the callers */
  }
  free(*slots);
  *slots = grown;
  *slot_count = wanted;
  return true;
}

static void enter_stack(struct parse_states *states, uint32_t number) {
  const struct parse_stack *stack = &states->stacks[number];
  size_t slot = hash_stack(stack->below, stack->label, stack->rounds) & (states->stack_slot_count - 1);
  while (states->stack_slots[slot]) slot = (slot + 1) & (states->stack_slot_count - 1);
  states->stack_slots[slot] = number;
}

uint32_t parse_stack_push(struct parse_states *states, uint32_t below, uint32_t label, uint32_t rounds) {
  size_t mask = states->stack_slot_count - 1;
  for (size_t slot = hash_stack(below, label, rounds) & mask; states->stack_slots[slot]; slot = (slot + 1) & mask) {
    uint32_t number = states->stack_slots[slot];
    const struct parse_stack *stack = &states->stacks[number];
    if (stack->below == below && stack->label == label && stack->rounds == rounds) return number;
  }
  if (!reserve(states, (void **)&states->stacks, states->stack_count, &states->stack_capacity, 1,
               sizeof *states->stacks))
    return AUTOMATON_NONE;
  if (grow_slots(states, &states->stack_slots, &states->stack_slot_count, states->stack_count))
    for (uint32_t i = 1; i < states->stack_count; i++) enter_stack(states, i);
  if ((size_t)states->stack_count + 2 > states->stack_slot_count) return AUTOMATON_NONE;
  states->stacks[states->stack_count] = (struct parse_stack){below, label, rounds, 0};
  enter_stack(states, states->stack_count);
  return states->stack_count++;
}

static void enter_state(struct parse_states *states, uint32_t number) {
  const struct parse_state *state = &states->states[number];
  const parse_configuration *configurations = state->count > 0 ? states->configurations + state->first : NULL;
  size_t slot = hash_state(configurations, state->count, state->complete) & (states->state_slot_count - 1);
  while (states->state_slots[slot]) slot = (slot + 1) & (states->state_slot_count - 1);
  states->state_slots[slot] = number;
}

bool parse_states_work(struct parse_states *states, size_t amount) {
  states->work += amount;
  if (states->work <= PARSE_MAX_WORK) return true;
  kj_fail(&states->failure, KJ_UNSUPPORTED, "the grammar is too ambiguous: one token would take too long to find");
  return false;
}

/* Appends a state with an empty row of the table. */
static uint32_t append_state(struct parse_states *states, const parse_configuration *configurations, uint32_t count,
                             bool complete) {
  size_t row = states->class_count;
  if (!reserve(states, (void **)&states->states, states->state_count, &states->state_capacity, 1,
               sizeof *states->states) ||
      !reserve(states, (void **)&states->table, states->state_count * row, &states->table_capacity, row,
               sizeof *states->table) ||
      !reserve(states, (void **)&states->configurations, states->configuration_count, &states->configuration_capacity,
               count, sizeof *states->configurations))
    return PARSE_FAILED;
  uint32_t number = states->state_count++;
  states->states[number] = (struct parse_state){.first = states->configuration_count,
                                                .count = count,
                                                .mask = UINT32_MAX,
                                                .run = PARSE_NO_RUN,
                                                .complete = complete};
  memset(states->table + number * row, 0, row * sizeof *states->table);
  if (count > 0)
    memcpy(states->configurations + states->configuration_count, configurations, count * sizeof *configurations);
  states->configuration_count += count;
  return number;
}

/* The number of the state that the closure has found. */
static uint32_t intern(struct parse_states *states) {
  uint32_t count;
  bool complete;
  const parse_configuration *configurations = parse_closure_result(states->closure, &count, &complete);
  if (!parse_states_work(states, 1 + count)) return PARSE_FAILED;
  if (count == 0 && !complete) return PARSE_DEAD;
  if (count > PARSE_MAX_WAYS) {
    kj_fail(&states->failure, KJ_UNSUPPORTED,
            "the grammar is too ambiguous: the text so far can be read in more than %d ways", (int)PARSE_MAX_WAYS);
    return PARSE_FAILED;
  }
  size_t mask = states->state_slot_count - 1;
  for (size_t slot = hash_state(configurations, count, complete) & mask; states->state_slots[slot];
       slot = (slot + 1) & mask) {
    const struct parse_state *state = &states->states[states->state_slots[slot]];
    if (state->count == count && state->complete == complete &&
        (count == 0 || !memcmp(states->configurations + state->first, configurations, count * sizeof *configurations)))
      return states->state_slots[slot];
  }
  if (!parse_states_work(states, states->class_count / WORK_CLASSES)) return PARSE_FAILED;
  uint32_t number = append_state(states, configurations, count, complete);
  if (number == PARSE_FAILED) return PARSE_FAILED;
  if (grow_slots(states, &states->state_slots, &states->state_slot_count, states->state_count))
    for (uint32_t i = PARSE_FIRST; i < number; i++) enter_state(states, i);
  if ((size_t)states->state_count + 2 > states->state_slot_count) {
    states->state_count--;
    return PARSE_FAILED;
  }
  enter_state(states, number);
  return number;
}

/* Empty tables, with the numbers that mean no state and the empty stack. */
static bool begin(struct parse_states *states) {
  grow_slots(states, &states->state_slots, &states->state_slot_count, 0);
  grow_slots(states, &states->stack_slots, &states->stack_slot_count, 0);
  if (!states->state_slots || !states->stack_slots) return false;
  if (!reserve(states, (void **)&states->stacks, 0, &states->stack_capacity, 1, sizeof *states->stacks) ||
      !reserve(states, (void **)&states->configurations, 0, &states->configuration_capacity, 1,
               sizeof *states->configurations))
    return false;
  states->stacks[0] = (struct parse_stack){0};
  states->stack_count = 1;
  append_state(states, NULL, 0, false);
  append_state(states, NULL, 0, false);
  return states->state_count == PARSE_FIRST;
}

int parse_states_create(struct parse_states **result, const struct grammar *grammar, struct kj_error *error) {
  *result = NULL;
  struct parse_states *states = calloc(1, sizeof *states);
  if (!states) return kj_fail_memory(error, "the states of a grammar");
  states->grammar = grammar;
  states->class_count = grammar->byte_class_count;
  if (!parse_closures_create(states) || !begin(states)) {
    parse_states_free(states);
    return kj_fail_memory(error, "the states of a grammar");
  }
  *result = states;
  return 0;
}

static void free_tables(struct parse_states *states) {
  free(states->table);
  free(states->states);
  free(states->configurations);
  free(states->stacks);
  free(states->state_slots);
  free(states->stack_slots);
  free(states->path);
}

void parse_states_free(struct parse_states *states) {
  if (!states) return;
  free_tables(states);
  parse_closures_free(states);
  free(states);
}

void parse_states_begin_step(struct parse_states *states) { states->work = 0; }

uint32_t parse_states_of(struct parse_states *states, uint32_t automaton_state, uint32_t stack) {
  parse_closure_clear(states->closure);
  return parse_closure_add(states, automaton_state, stack) ? intern(states) : PARSE_FAILED;
}

uint32_t parse_states_start(struct parse_states *states) { return parse_states_of(states, states->grammar->start, 0); }

/* Bytes that lead the same way. */
struct byte_range {
  uint8_t low, high;
};

/* Finds the edge that takes the byte, and narrows `same` to the bytes that it takes, too, or that no edge takes. */
static const struct automaton_edge *edge_of(const struct grammar *grammar, const struct automaton_state *reads,
                                            uint8_t byte, struct byte_range *same) {
  for (uint32_t i = 0; i < reads->count; i++) {
    const struct automaton_edge *edge = &grammar->edges[reads->first + i];
    if (edge->high < byte) {
      if (edge->high >= same->low) same->low = (uint8_t)(edge->high + 1);
    } else if (edge->low > byte) {
      if (edge->low <= same->high) same->high = (uint8_t)(edge->low - 1);
      return NULL; /* edges are sorted */
    } else {
      if (edge->low > same->low) same->low = edge->low;
      if (edge->high < same->high) same->high = edge->high;
      return edge;
    }
  }
  return NULL;
}

uint32_t parse_states_step(struct parse_states *states, uint32_t number, uint8_t byte) {
  const struct grammar *grammar = states->grammar;
  struct parse_state state = states->states[number];
  struct byte_range same = {0, UINT8_MAX};
  parse_closure_clear(states->closure);
  for (uint32_t i = 0; i < state.count; i++) {
    parse_configuration configuration = states->configurations[state.first + i];
    const struct automaton_state *reads = &grammar->states[configuration >> 32];
    if (!parse_states_work(states, 1 + reads->count / WORK_EDGES)) return PARSE_FAILED;
    const struct automaton_edge *edge = edge_of(grammar, reads, byte, &same);
    if (edge && !parse_closure_add(states, edge->target, (uint32_t)configuration)) return PARSE_FAILED;
  }
  uint32_t next = intern(states), *row = states->table + (size_t)number * states->class_count;
  for (unsigned class = grammar->byte_class[same.low]; class <= grammar->byte_class[same.high]; class ++)
    row[class] = next;
  return next;
}

uint32_t parse_states_without(struct parse_states *states, uint32_t number, uint32_t index) {
  struct parse_state state = states->states[number];
  parse_closure_clear(states->closure);
  for (uint32_t i = 0; i < state.count; i++)
    if (i != index && !parse_closure_keep(states, states->configurations[state.first + i])) return PARSE_FAILED;
  return intern(states);
}

/* A number of rounds with which a repetition goes the same way over the next `longest` bytes, of which every round
 * takes at least one. */
static uint32_t canonical_rounds(const struct automaton_site *site, uint32_t rounds, uint32_t longest) {
  if (rounds < site->minimum && site->minimum - rounds > longest) return 0;
  bool enough = rounds + 1 >= site->minimum;
  bool far = site->maximum == GRAMMAR_UNBOUNDED || site->maximum - rounds > longest;
  if (enough && far) return site->minimum > 0 ? site->minimum - 1 : 0;
  return rounds;
}

/* The stack with canonical numbers of rounds; AUTOMATON_NONE after a failure. */
static uint32_t canonical_stack(struct parse_states *states, uint32_t stack, uint32_t longest) {
  size_t depth = 0;
  for (uint32_t top = stack; top != 0 && !states->stacks[top].canonical; top = states->stacks[top].below) {
    if (!reserve(states, (void **)&states->path, depth, &states->path_capacity, 1, sizeof *states->path))
      return AUTOMATON_NONE;
    states->path[depth++] = top;
  }
  while (depth > 0) {
    uint32_t number = states->path[--depth];
    struct parse_stack top = states->stacks[number];
    uint32_t below = top.below ? states->stacks[top.below].canonical : 0, rounds = top.rounds;
    if (top.label >= PARSE_SITE)
      rounds = canonical_rounds(&states->grammar->sites[top.label - PARSE_SITE], rounds, longest);
    uint32_t canonical = parse_stack_push(states, below, top.label, rounds);
    if (canonical == AUTOMATON_NONE) return AUTOMATON_NONE;
    states->stacks[number].canonical = canonical;
    states->stacks[canonical].canonical = canonical;
  }
  return stack ? states->stacks[stack].canonical : 0;
}

uint32_t parse_states_canonical(struct parse_states *states, uint32_t number, uint32_t longest) {
  struct parse_state state = states->states[number];
  if (state.canonical) return state.canonical;
  parse_closure_clear(states->closure);
  for (uint32_t i = 0; i < state.count; i++) {
    parse_configuration configuration = states->configurations[state.first + i];
    uint32_t stack = canonical_stack(states, (uint32_t)configuration, longest);
    if (stack == AUTOMATON_NONE || !parse_closure_keep(states, (configuration >> 32) << 32 | stack))
      return PARSE_FAILED;
  }
  parse_closure_complete(states->closure, state.complete);
  uint32_t canonical = intern(states);
  if (canonical == PARSE_FAILED) return PARSE_FAILED;
  states->states[number].canonical = canonical;
  states->states[canonical].canonical = canonical;
  return canonical;
}

/* Copies a stack of the old tables into the new ones; what lies below a stack has a lower number than it. */
static bool copy_stacks(struct parse_states *states, const struct parse_states *old, uint32_t *renamed) {
  for (uint32_t i = old->stack_count - 1; i > 0; i--)
    if (renamed[i]) renamed[old->stacks[i].below] = 1;
  renamed[0] = 0;
  for (uint32_t i = 1; i < old->stack_count; i++) {
    if (!renamed[i]) continue;
    const struct parse_stack *stack = &old->stacks[i];
    renamed[i] = parse_stack_push(states, renamed[stack->below], stack->label, stack->rounds);
    if (renamed[i] == AUTOMATON_NONE) return false;
  }
  return true;
}

int parse_states_collect(struct parse_states *states, uint32_t *live[], size_t count, struct kj_error *error) {
  struct parse_states old = *states, made = {.grammar = old.grammar, .class_count = old.class_count};
  made.closure = old.closure;
  made.part = old.part;
  made.known = old.known;
  parse_closure_forget(&made);
  uint32_t *renamed = calloc(old.stack_count, sizeof *renamed);
  bool whole = renamed && begin(&made);
  for (size_t i = 0; i < count && whole; i++) {
    const struct parse_state *state = &old.states[*live[i]];
    for (uint32_t j = 0; j < state->count; j++) renamed[(uint32_t)old.configurations[state->first + j]] = 1;
  }
  whole = whole && copy_stacks(&made, &old, renamed);
  uint32_t *numbers = calloc(count ? count : 1, sizeof *numbers);
  whole = whole && numbers;
  for (size_t i = 0; i < count && whole; i++) {
    const struct parse_state *state = &old.states[*live[i]];
    parse_closure_clear(made.closure);
    for (uint32_t j = 0; j < state->count && whole; j++) {
      parse_configuration configuration = old.configurations[state->first + j];
      whole = parse_closure_keep(&made, (configuration >> 32) << 32 | renamed[(uint32_t)configuration]);
    }
    parse_closure_complete(made.closure, state->complete);
    numbers[i] = whole ? intern(&made) : PARSE_FAILED;
    whole = numbers[i] != PARSE_FAILED;
  }
  for (size_t i = 0; i < count && whole; i++) *live[i] = numbers[i];
  free(numbers);
  free(renamed);
  if (whole) {
    free_tables(&old);
    *states = made;
    return 0;
  }
  free_tables(&made);
  return kj_fail_memory(error, "the states of a grammar");
}

int grammar_matches_within(const struct grammar *grammar, const char *text, size_t length, size_t *work) {
  struct parse_states *states;
  if (parse_states_create(&states, grammar, NULL)) return -1;
  uint32_t state = parse_states_start(states);
  for (size_t i = 0; i < length && state >= PARSE_FIRST; i++) {
    state = parse_states_next(states, state, (uint8_t)text[i]);
    size_t taken = states->work + 1;
    parse_states_begin_step(states);
    if (taken > *work) state = PARSE_FAILED;
    *work -= taken > *work ? *work : taken;
    uint32_t *live[] = {&state};
    if (state >= PARSE_FIRST && parse_states_bytes(states) > PARSE_COLLECT_BYTES &&
        parse_states_collect(states, live, 1, NULL))
      state = PARSE_FAILED;
  }
  int result = state == PARSE_FAILED ? -1 : state != PARSE_DEAD && states->states[state].complete;
  parse_states_free(states);
  return result;
}

int grammar_matches(const struct grammar *grammar, const char *text, size_t length) {
  size_t work = SIZE_MAX;
  return grammar_matches_within(grammar, text, length, &work);
}
