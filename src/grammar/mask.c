#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

static void set(uint64_t *bits, uint32_t token) { bits[token / 64] |= (uint64_t)1 << token % 64; }

/* A configuration that can read many characters of a class for which there is a slice. */
struct run {
  const struct token_slice *slice; /* NULL: none */
  uint32_t index;                  /* of the configuration in its state */
  uint32_t characters;             /* how many */
};

static struct run find_run(const struct grammar_masks *masks, const struct parse_state *state) {
  struct run best = {0};
  const struct parse_states *states = masks->states;
  for (uint32_t i = 0; i < state->count; i++) {
    parse_configuration configuration = states->configurations[state->first + i];
    const struct automaton_state *reads = &masks->grammar->states[configuration >> 32];
    if (reads->loop_class == AUTOMATON_NONE || !masks->slices[reads->loop_class]) continue;
    struct run run = {masks->slices[reads->loop_class], i, PARSE_NO_RUN - 1};
    if (reads->loop_site != AUTOMATON_NONE) {
      const struct automaton_site *site = &masks->grammar->sites[reads->loop_site];
      if (site->maximum != GRAMMAR_UNBOUNDED)
        run.characters = site->maximum - states->stacks[(uint32_t)configuration].rounds;
    }
    if (!best.slice || run.slice->members > best.slice->members ||
        (run.slice == best.slice && run.characters > best.characters))
      best = run;
  }
  return best;
}

/* Which characters may follow each other in the state, and how many; found once. */
static const struct parse_state *with_run(struct grammar_masks *masks, uint32_t number) {
  struct parse_state *state = &masks->states->states[number];
  if (state->run != PARSE_NO_RUN) return state;
  struct run run = find_run(masks, state);
  state->runs = run.slice ? run.slice->runs : NULL;
  state->run = run.characters;
  return state;
}

/* Sets the bits of the tree's tokens that may follow in the state. */
static bool walk(struct grammar_masks *masks, const struct token_tree *tree, uint32_t state, uint64_t *bits) {
  struct parse_states *states = masks->states;
  const struct token_node *nodes = tree->nodes;
  const uint8_t *byte_class = masks->grammar->byte_class;
  const uint32_t *table = states->table;
  uint32_t *path = masks->path; /* [depth] the state before the byte at that depth */
  size_t class_count = states->class_count;
  bool whole = tree == &masks->vocabulary->tree;
  path[0] = state;
  for (uint32_t i = 0; i < tree->node_count;) {
    const struct token_node *node = &nodes[i];
    uint32_t from = path[node->depth], next = table[from * class_count + byte_class[node->byte]];
    if (next == PARSE_FAILED) {
      next = parse_states_step(states, from, node->byte);
      if (next == PARSE_FAILED) return false;
      table = states->table;
    }
    if (next == PARSE_DEAD) {
      i = node->end;
      continue;
    }
    path[node->depth + 1] = next;
    uint32_t end = i + 1;
    if (whole && masks->sliced) {
      /* Where everything behind the node are characters that may follow each other, nothing has to be tried. */
      const struct parse_state *reached = with_run(masks, next);
      if (reached->runs && reached->runs[i] && reached->runs[i] - 1u <= reached->run) end = node->end;
    }
    for (uint32_t token = node->first_token; token < nodes[end].first_token; token++) set(bits, tree->tokens[token]);
    i = end;
  }
  return true;
}

/* Can tokens of the slice with more characters than the run may have be ruled out at once? So it is if their first
 * character leads nowhere but into the run, neither in the state's other configurations nor behind the run. 1, 0, or -1
 * after a failure. */
static int run_is_alone(struct grammar_masks *masks, uint32_t number, struct run run) {
  struct parse_states *states = masks->states;
  const struct grammar *grammar = masks->grammar;
  parse_configuration configuration = states->configurations[states->states[number].first + run.index];
  const struct automaton_state *reads = &grammar->states[configuration >> 32];
  uint32_t others = parse_states_without(states, number, run.index);
  uint32_t behind =
      parse_states_of(states, grammar->sites[reads->loop_site].after, states->stacks[(uint32_t)configuration].below);
  if (others == PARSE_FAILED || behind == PARSE_FAILED) return -1;
  for (uint32_t i = 0; i < reads->count; i++) {
    const struct automaton_edge *edge = &grammar->edges[reads->first + i];
    for (unsigned byte = edge->low; byte <= edge->high; byte++) {
      if (byte > edge->low && grammar->byte_class[byte] == grammar->byte_class[byte - 1]) continue;
      uint32_t beside = parse_states_next(states, others, (uint8_t)byte);
      uint32_t after = parse_states_next(states, behind, (uint8_t)byte);
      if (beside == PARSE_FAILED || after == PARSE_FAILED) return -1;
      if (beside != PARSE_DEAD || after != PARSE_DEAD) return 0;
    }
  }
  return 1;
}

static bool find(struct grammar_masks *masks, uint32_t number, uint64_t *bits) {
  struct parse_state state = masks->states->states[number];
  struct run run = find_run(masks, &state);
  const struct token_tree *tree = &masks->vocabulary->tree;
  if (run.slice && run.slice->wide) {
    token_slice_add(run.slice, run.characters, bits, masks->words);
    int rest_only = run.characters >= run.slice->longest ? 1 : run_is_alone(masks, number, run);
    if (rest_only < 0) return false;
    if (rest_only) tree = &run.slice->rest;
  }
  if (!walk(masks, tree, number, bits)) return false;
  /* An end token that is not marked special has bytes, but it ends the answer wherever it comes. */
  for (size_t i = 0; i < masks->end_count; i++) {
    uint32_t token = masks->end_tokens[i];
    if (state.complete)
      set(bits, token);
    else
      bits[token / 64] &= ~((uint64_t)1 << token % 64);
  }
  return true;
}

/* A place for one mask more, or the one that was not used for the longest time. */
static struct kept_mask *place(struct grammar_masks *masks, struct kj_error *error) {
  size_t bytes = masks->words * sizeof(uint64_t), limit = MASK_CACHE_BYTES / bytes;
  if (limit < 4) limit = 4;
  if (masks->kept_count >= limit) {
    struct kept_mask *oldest = &masks->kept[0];
    for (size_t i = 1; i < masks->kept_count; i++)
      if (masks->kept[i].used < oldest->used) oldest = &masks->kept[i];
    if (oldest->state != PARSE_FAILED) masks->states->states[oldest->state].mask = UINT32_MAX;
    return oldest;
  }
  if (masks->kept_count == masks->kept_capacity) {
    size_t capacity = masks->kept_capacity ? masks->kept_capacity * 2 : 16;
    struct kept_mask *grown = realloc(masks->kept, capacity * sizeof *grown);
    if (!grown) goto fail;
    memset(grown + masks->kept_capacity, 0, (capacity - masks->kept_capacity) * sizeof *grown);
    masks->kept = grown;
    masks->kept_capacity = capacity;
  }
  struct kept_mask *kept = &masks->kept[masks->kept_count];
  if (!kept->bits && !(kept->bits = malloc(bytes))) goto fail;
  masks->kept_count++;
  return kept;
fail:
  kj_fail_memory(error, "a mask of tokens");
  return NULL;
}

const uint64_t *mask_of(struct grammar_masks *masks, uint32_t state, struct kj_error *error) {
  struct parse_states *states = masks->states;
  parse_states_begin_step(states);
  uint32_t canonical = parse_states_canonical(states, state, masks->vocabulary->tree.longest);
  if (canonical == PARSE_FAILED) goto fail;
  struct kept_mask *kept = NULL;
  if (states->states[canonical].mask != UINT32_MAX) {
    kept = &masks->kept[states->states[canonical].mask];
  } else {
    if (!(kept = place(masks, error))) return NULL;
    kept->state = PARSE_FAILED; /* until the mask is whole */
    memset(kept->bits, 0, masks->words * sizeof *kept->bits);
    if (!find(masks, canonical, kept->bits)) goto fail;
    kept->state = canonical;
    states->states[canonical].mask = (uint32_t)(kept - masks->kept);
  }
  kept->used = ++masks->clock;
  return kept->bits;
fail:
  if (error) *error = states->failure;
  return NULL;
}

void mask_forget(struct grammar_masks *masks) { masks->kept_count = 0; /* their memory stays */ }
