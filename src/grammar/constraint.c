#include "grammar/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/class_ranges.h"
#include "grammar/mask.h"

enum {
  SLICED_CLASSES = 8,  /* of a grammar at most: each takes a few milliseconds to prepare, once for a vocabulary */
  LEAST_CHARACTERS = 8 /* of a class that may be worth a slice */
};

struct constraint {
  struct token_constraint base;
  struct grammar_masks *masks;
  uint32_t state;                  /* PARSE_FAILED: not used yet */
  struct constraint *next, **link; /* among the masks' users, once used */
};

static size_t characters_of(const struct grammar *grammar, uint32_t number) {
  const struct automaton_class *class = &grammar->classes[number];
  size_t characters = 0;
  for (uint32_t i = 0; i < class->count; i++)
    characters += (size_t)grammar->ranges[class->first + i].last - grammar->ranges[class->first + i].first + 1;
  return characters;
}

/* Prepares the grammar's widest classes. */
static int get_slices(struct grammar_masks *masks, struct kj_error *error) {
  const struct grammar *grammar = masks->grammar;
  bool done[AUTOMATON_CLASSES] = {false};
  int code = 0;
  for (int i = 0; i < SLICED_CLASSES && !code; i++) {
    uint32_t widest = AUTOMATON_NONE;
    for (uint32_t j = 0; j < grammar->class_count; j++)
      if (!done[j] && (widest == AUTOMATON_NONE || characters_of(grammar, j) > characters_of(grammar, widest)))
        widest = j;
    if (widest == AUTOMATON_NONE || characters_of(grammar, widest) < LEAST_CHARACTERS) break;
    done[widest] = true;
    const struct automaton_class *class = &grammar->classes[widest];
    code =
        token_slice_get(&masks->slices[widest], masks->vocabulary, grammar->ranges + class->first, class->count, error);
    masks->sliced = masks->sliced || masks->slices[widest];
  }
  return code;
}

int grammar_masks_create(struct grammar_masks **result, struct grammar *grammar, struct token_vocabulary *vocabulary,
                         const uint32_t *end_tokens, size_t end_count, struct kj_error *error) {
  *result = NULL;
  struct grammar_masks *masks = calloc(1, sizeof *masks);
  if (!masks) return kj_fail_memory(error, "the masks of a grammar");
  atomic_init(&masks->references, 1);
  masks->grammar = grammar_keep(grammar);
  masks->vocabulary = token_vocabulary_keep(vocabulary);
  masks->collect_at = PARSE_COLLECT_BYTES;
  masks->words = ((size_t)vocabulary->size + 63) / 64;
  masks->end_tokens = calloc(end_count + 1, sizeof *end_tokens);
  masks->path = calloc((size_t)vocabulary->tree.longest + 2, sizeof *masks->path);
  int code = masks->end_tokens && masks->path ? 0 : kj_fail_memory(error, "the masks of a grammar");
  for (size_t i = 0; i < end_count && !code; i++)
    if (end_tokens[i] < vocabulary->size) masks->end_tokens[masks->end_count++] = end_tokens[i];
  if (!code) code = parse_states_create(&masks->states, grammar, error);
  if (!code) code = get_slices(masks, error);
  if (code)
    grammar_masks_release(masks);
  else
    *result = masks;
  return code;
}

struct grammar_masks *grammar_masks_keep(struct grammar_masks *masks) {
  atomic_fetch_add(&masks->references, 1);
  return masks;
}

void grammar_masks_release(struct grammar_masks *masks) {
  if (!masks || atomic_fetch_sub(&masks->references, 1) != 1) return;
  for (size_t i = 0; i < AUTOMATON_CLASSES; i++) token_slice_release(masks->slices[i]);
  for (size_t i = 0; i < masks->kept_capacity; i++) free(masks->kept[i].bits);
  free(masks->kept);
  parse_states_free(masks->states);
  free(masks->path);
  free(masks->end_tokens);
  token_vocabulary_release(masks->vocabulary);
  grammar_release(masks->grammar);
  free(masks);
}

/* Gives back memory of states that no constraint is in any more, once there are many. */
static int collect(struct grammar_masks *masks, struct kj_error *error) {
  if (parse_states_bytes(masks->states) < masks->collect_at) return 0;
  size_t count = 0;
  for (struct constraint *user = masks->users; user; user = user->next) count++;
  uint32_t **live = calloc(count + 1, sizeof *live);
  if (!live) return kj_fail_memory(error, "the states of a grammar");
  count = 0;
  for (struct constraint *user = masks->users; user; user = user->next) live[count++] = &user->state;
  int code = parse_states_collect(masks->states, live, count, error);
  free(live);
  if (code) return code;
  mask_forget(masks);
  /* Where much is in use there is no point in looking soon again. */
  masks->collect_at = parse_states_bytes(masks->states) * 2;
  if (masks->collect_at < PARSE_COLLECT_BYTES) masks->collect_at = PARSE_COLLECT_BYTES;
  return 0;
}

/* No constraint is in any state: what a text has found that led far astray is of no use to the next one. */
static void give_back(struct grammar_masks *masks) {
  if (parse_states_bytes(masks->states) <= PARSE_KEPT_BYTES) return;
  if (parse_states_collect(masks->states, NULL, 0, NULL)) return; /* it is used as it is, then */
  mask_forget(masks);
  masks->collect_at = PARSE_COLLECT_BYTES;
}

/* Before every use: the constraint has a state. */
static int enter(struct constraint *constraint, struct kj_error *error) {
  struct grammar_masks *masks = constraint->masks;
  int code = collect(masks, error);
  if (code || constraint->state != PARSE_FAILED) return code;
  parse_states_begin_step(masks->states);
  constraint->state = parse_states_start(masks->states);
  if (constraint->state == PARSE_FAILED) {
    if (error) *error = masks->states->failure;
    return masks->states->failure.code;
  }
  constraint->next = masks->users;
  constraint->link = &masks->users;
  if (masks->users) masks->users->link = &constraint->next;
  masks->users = constraint;
  return 0;
}

static int allowed(struct token_constraint *base, uint32_t vocabulary, const uint64_t **bits, struct kj_error *error) {
  struct constraint *constraint = (struct constraint *)base;
  struct kj_error own;
  if (!error) error = &own;
  if (vocabulary != constraint->masks->vocabulary->size)
    return kj_fail(error, KJ_INTERNAL, "a mask of %u tokens was asked for, the constraint has %u", vocabulary,
                   constraint->masks->vocabulary->size);
  int code = enter(constraint, error);
  if (code) return code;
  *bits = mask_of(constraint->masks, constraint->state, error);
  return *bits ? 0 : error->code;
}

static int accept(struct token_constraint *base, uint32_t token, struct kj_error *error) {
  struct constraint *constraint = (struct constraint *)base;
  struct grammar_masks *masks = constraint->masks;
  const struct token_vocabulary *vocabulary = masks->vocabulary;
  int code = enter(constraint, error);
  if (code) return code;
  parse_states_begin_step(masks->states);
  uint32_t state = constraint->state;
  bool empty = token >= vocabulary->size || vocabulary->offsets[token] == vocabulary->offsets[token + 1];
  for (uint32_t i = empty ? 0 : vocabulary->offsets[token];
       !empty && i < vocabulary->offsets[token + 1] && state >= PARSE_FIRST; i++)
    state = parse_states_next(masks->states, state, vocabulary->bytes[i]);
  if (state == PARSE_FAILED) {
    if (error) *error = masks->states->failure;
    return masks->states->failure.code;
  }
  if (empty || state == PARSE_DEAD)
    return kj_fail(error, KJ_INVALID, "token %u does not continue the text within the grammar", token);
  constraint->state = state;
  return 0;
}

static void release(struct token_constraint *base) {
  struct constraint *constraint = (struct constraint *)base;
  if (constraint->link) {
    *constraint->link = constraint->next;
    if (constraint->next) constraint->next->link = constraint->link;
    if (!constraint->masks->users) give_back(constraint->masks);
  }
  grammar_masks_release(constraint->masks);
  free(constraint);
}

int constraint_create(struct token_constraint **result, struct grammar_masks *masks, struct kj_error *error) {
  static const struct token_constraint_operations operations = {allowed, accept, release};
  struct constraint *constraint = calloc(1, sizeof *constraint);
  *result = NULL;
  if (!constraint) return kj_fail_memory(error, "a constraint");
  constraint->base.operations = &operations;
  constraint->masks = grammar_masks_keep(masks);
  *result = &constraint->base;
  return 0;
}
