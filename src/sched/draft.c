#include "sched/draft.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/random.h>

#include "stage/ledger.h"

enum {
  SHORTEST = 2, /* tokens of the runs in the index */
  LONGEST = 4,
  RUNS = LONGEST - SHORTEST + 1,
  CANDIDATES = 64, /* occurrences that are compared, latest first */
  AGREEMENT = 64,  /* tokens that are compared of each; whoever agrees in as many is taken at once */
  KINDS = 5,       /* of agreement: by how much the chance differs */
  PROBE = 2,       /* tokens of a proposal that is only to learn */
  FIRST_CAPACITY = 256
};

/* How much the chance follows the latest outcome, and what it is at least and at most. */
static const double ADAPTATION = 0.2, LEAST_CHANCE = 0.05, MOST_CHANCE = 0.995;
/* A probe is due after as many tokens that were not proposed as would have given this many accepted ones. */
static const double PROBE_AFTER = 4;

/* Places are counts of tokens: place p is between tokens[p - 1] and tokens[p]. */
struct draft {
  uint32_t *latest[RUNS];      /* [2 · capacity] hash table: the latest place before which a run occurs; 0: empty */
  uint32_t *earlier;           /* [capacity] the place before which the same run of LONGEST occurred before; 0: none */
  uint32_t capacity;           /* a power of two */
  uint32_t indexed;            /* places up to here are in the index */
  uint32_t source, source_end; /* the last proposal was copied from `source`, for the place `source_end` */
  uint32_t agreement;          /* tokens that agreed for it */
  double chance[KINDS];        /* that a token is accepted if all before it are */
  uint64_t seed;               /* of the hashes: decides nothing, but nobody can prepare tokens that collide */
  double missed;               /* tokens that would have been accepted, had they been proposed, since the last probe */
};

int draft_create(struct draft **result, struct kj_error *error) {
  struct draft *draft = *result = calloc(1, sizeof *draft);
  if (!draft) return kj_fail_memory(error, "the draft of a sequence");
  /* Without randomness any seed does. */
  if (getrandom(&draft->seed, sizeof draft->seed, GRND_NONBLOCK) < 0) draft->seed = token_hash_start();
  static const double guess[KINDS] = {0.25, 0.4, 0.6, 0.8, 0.9};
  for (int i = 0; i < KINDS; i++) draft->chance[i] = guess[i];
  return 0;
}

static void free_index(struct draft *draft) {
  for (int i = 0; i < RUNS; i++) free(draft->latest[i]);
  free(draft->earlier);
}

void draft_free(struct draft *draft) {
  if (!draft) return;
  free_index(draft);
  free(draft);
}

/* Of the tokens; what was learned of chances stays. */
static void forget(struct draft *draft) {
  free_index(draft);
  for (int i = 0; i < RUNS; i++) draft->latest[i] = NULL;
  draft->earlier = NULL;
  draft->capacity = draft->indexed = draft->source = draft->source_end = 0;
}

static double *chance_of(struct draft *draft, uint32_t agreement) {
  int kind = agreement < 3 ? 0 : agreement < 4 ? 1 : agreement < 8 ? 2 : agreement < 16 ? 3 : 4;
  return &draft->chance[kind];
}

/* Makes room for `count` places; an index that grows is built anew. */
static bool reserve(struct draft *draft, uint32_t count) {
  if (count <= draft->capacity) return true;
  uint64_t capacity = FIRST_CAPACITY;
  while (capacity < count) capacity *= 2;
  if (capacity > UINT32_MAX / 2) return false;
  struct draft grown = *draft;
  bool complete = true;
  for (int i = 0; i < RUNS; i++) {
    grown.latest[i] = calloc(2 * capacity, sizeof *grown.latest[i]);
    complete = complete && grown.latest[i];
  }
  grown.earlier = malloc(capacity * sizeof *grown.earlier);
  if (!complete || !grown.earlier) {
    free_index(&grown);
    return false;
  }
  free_index(draft);
  grown.capacity = (uint32_t)capacity;
  grown.indexed = 0;
  *draft = grown;
  return true;
}

/* Where the run of `length` tokens before `place` stands in its table, or would stand. */
static uint32_t *slot(struct draft *draft, const uint32_t *tokens, uint32_t place, uint32_t length) {
  const uint32_t *run = tokens + place - length;
  uint32_t *table = draft->latest[length - SHORTEST], mask = 2 * draft->capacity - 1;
  uint64_t hash = draft->seed;
  for (uint32_t i = 0; i < length; i++) hash = token_hash_extend(hash, run[i]);
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
    uint32_t same = 0;
    while (table[i] != 0 && same < length && tokens[table[i] - length + same] == run[same]) same++;
    if (table[i] == 0 || same == length) return &table[i];
  }
}

/* The place before `count` is left out until something has followed it. */
static void index_up_to(struct draft *draft, const uint32_t *tokens, uint32_t count) {
  while (draft->indexed + 1 < count) {
    uint32_t place = ++draft->indexed;
    for (uint32_t length = SHORTEST; length <= LONGEST && length <= place; length++) {
      uint32_t *latest = slot(draft, tokens, place, length);
      if (length == LONGEST) draft->earlier[place] = *latest;
      *latest = place;
    }
  }
}

static uint32_t agreement(const uint32_t *tokens, uint32_t count, uint32_t place) {
  uint32_t same = 0;
  while (same < AGREEMENT && same < place && tokens[place - 1 - same] == tokens[count - 1 - same]) same++;
  return same;
}

/* The place whose preceding tokens agree most with the last ones; the latest of equals, but the one that is being
 * copied from comes first. Sets what agrees; 0 if not even SHORTEST tokens do. */
static uint32_t find_source(struct draft *draft, const uint32_t *tokens, uint32_t count, uint32_t *agreed) {
  uint32_t best = 0;
  *agreed = 0;
  if (draft->source > 0) {
    uint32_t place = draft->source + (count - draft->source_end);
    uint32_t same = agreement(tokens, count, place);
    if (same >= LONGEST) {
      best = place;
      *agreed = same;
    }
  }
  for (uint32_t length = LONGEST; length == LONGEST || (length >= SHORTEST && best == 0); length--) {
    uint32_t place = length <= count ? *slot(draft, tokens, count, length) : 0;
    for (uint32_t i = 0; place != 0 && i < CANDIDATES && *agreed < AGREEMENT; i++) {
      uint32_t same = agreement(tokens, count, place);
      if (same > *agreed) {
        best = place;
        *agreed = same;
      }
      place = length == LONGEST ? draft->earlier[place] : 0;
    }
  }
  return best;
}

uint32_t draft_propose(struct draft *draft, const uint32_t *tokens, uint32_t count, uint32_t limit, double worth,
                       uint32_t *proposal) {
  if (count < draft->source_end) forget(draft);
  if (limit == 0 || count < SHORTEST || !reserve(draft, count)) return 0;
  index_up_to(draft, tokens, count);
  uint32_t agreed, source = find_source(draft, tokens, count, &agreed);
  draft->source = source;
  draft->source_end = count;
  draft->agreement = agreed;
  if (source == 0) return 0;

  uint32_t length = 0;
  double chance = 1;
  for (; length < limit; length++) {
    chance *= *chance_of(draft, agreed + length);
    if (chance < worth) break;
  }
  if (length == 0) {
    draft->missed += *chance_of(draft, agreed);
    if (draft->missed < PROBE_AFTER) return 0;
    length = limit < PROBE ? limit : PROBE;
  }
  draft->missed = 0;
  /* A run that reaches the end goes on with itself: what repeats is proposed as often as wanted. */
  for (uint32_t i = 0; i < length; i++)
    proposal[i] = source + i < count ? tokens[source + i] : proposal[source + i - count];
  return length;
}

void draft_learn(struct draft *draft, uint32_t proposed, uint32_t accepted) {
  for (uint32_t i = 0; i < proposed && i <= accepted; i++) {
    double *chance = chance_of(draft, draft->agreement + i);
    *chance += ADAPTATION * ((i < accepted ? 1 : 0) - *chance);
    if (*chance < LEAST_CHANCE) *chance = LEAST_CHANCE;
    if (*chance > MOST_CHANCE) *chance = MOST_CHANCE;
  }
}
