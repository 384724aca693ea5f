#include "grammar/token_slice.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/class_ranges.h"
#include "grammar/vocabulary_parts.h"
#include "text/utf8.h"

enum { WORTH_A_SLICE = 2048 }; /* tokens: fewer are tried one by one in no time */

static struct token_slice *keep(struct token_slice *slice) {
  if (slice) atomic_fetch_add(&slice->references, 1);
  return slice;
}

void token_slice_release(struct token_slice *slice) {
  if (!slice || atomic_fetch_sub(&slice->references, 1) != 1) return;
  for (size_t i = 0; i <= SLICE_BITMAPS; i++) free(slice->bitmaps[i]);
  free(slice->long_tokens);
  free(slice->long_lengths);
  free(slice->runs);
  token_tree_free(&slice->rest);
  free(slice);
}

struct class_test {
  bool ascii[128];
  const struct code_range *ranges;
  size_t count;
};

/* The end of a token that has only whole characters of the class. */
struct run_of {
  uint32_t begin;      /* in bytes */
  uint32_t characters; /* in it */
};

static struct run_of end_of(const struct class_test *test, const struct sorted_token *token) {
  struct run_of run = {.begin = token->length};
  while (run.begin > 0) {
    uint32_t start = run.begin - 1, code_point = token->bytes[start];
    while (start > 0 && run.begin - start < 4 && (token->bytes[start] & 0xc0) == 0x80) start--;
    if (code_point < 0x80) {
      if (!test->ascii[code_point]) break;
    } else if (utf8_read((const char *)token->bytes + start, run.begin - start, &code_point) != run.begin - start ||
               !class_ranges_contain(test->ranges, test->count, code_point)) {
      break;
    }
    run.begin = start;
    run.characters++;
  }
  return run;
}

/* Enters for every node of the token what follows it. `path` are the token's nodes. */
static void enter_run(uint8_t *runs, const uint32_t *path, const struct sorted_token *token, struct run_of run) {
  enum { MOST = UINT8_MAX - 1 };
  uint32_t characters = 0;
  for (uint32_t i = token->length; i-- > 0;) {
    /* The node of byte i; behind it come `characters` characters, unless it lies within one. */
    uint8_t *entry = &runs[path[i]];
    bool within = i + 1 < token->length && (token->bytes[i + 1] & 0xc0) == 0x80;
    if (i + 1 < run.begin || within || characters > MOST - 1)
      *entry = UINT8_MAX;
    else if (*entry < characters + 1)
      *entry = (uint8_t)(characters + 1);
    characters += i >= run.begin && (token->bytes[i] & 0xc0) != 0x80;
  }
}

static void find_runs(uint8_t *runs, const struct token_vocabulary *vocabulary, const struct run_of *ends) {
  const struct token_tree *tree = &vocabulary->tree;
  uint32_t path[TOKEN_MAX_BYTES], token = 0;
  for (uint32_t i = 0; i < tree->node_count; i++) {
    path[tree->nodes[i].depth] = i;
    for (; token < tree->nodes[i + 1].first_token; token++)
      enter_run(runs, path, &vocabulary->sorted[token], ends[token]);
  }
  for (uint32_t i = 0; i < tree->node_count; i++)
    if (runs[i] == UINT8_MAX) runs[i] = 0;
}

/* Lists the tokens of more than SLICE_BITMAPS characters, short ones first (a counting sort). */
static void list_long(struct token_slice *slice, const struct token_vocabulary *vocabulary, const uint32_t *lengths) {
  uint32_t begins[TOKEN_MAX_BYTES + 2] = {0};
  for (uint32_t i = 0; i < vocabulary->tree.token_count; i++)
    if (lengths[i] > SLICE_BITMAPS) begins[lengths[i] + 1]++;
  for (size_t i = 1; i < TOKEN_MAX_BYTES + 2; i++) begins[i] += begins[i - 1];
  for (uint32_t i = 0; i < vocabulary->tree.token_count; i++) {
    if (lengths[i] <= SLICE_BITMAPS) continue;
    uint32_t place = begins[lengths[i]]++;
    slice->long_tokens[place] = vocabulary->sorted[i].id;
    slice->long_lengths[place] = lengths[i];
  }
}

/* Enters the tokens by their numbers of characters: lengths[i] of the i-th in sorted order. */
static int fill(struct token_slice *slice, const struct token_vocabulary *vocabulary, const uint32_t *lengths,
                struct kj_error *error) {
  size_t words = ((size_t)vocabulary->size + 63) / 64, token_count = vocabulary->tree.token_count, rest_count = 0;
  struct sorted_token *rest = calloc(token_count + 1, sizeof *rest);
  bool whole = rest != NULL;
  for (size_t i = 0; i <= SLICE_BITMAPS; i++) {
    slice->bitmaps[i] = calloc(words, sizeof *slice->bitmaps[i]);
    whole = whole && slice->bitmaps[i];
  }
  for (size_t i = 0; i < token_count; i++) slice->long_count += lengths[i] > SLICE_BITMAPS;
  slice->long_tokens = calloc(slice->long_count + 1, sizeof *slice->long_tokens);
  slice->long_lengths = calloc(slice->long_count + 1, sizeof *slice->long_lengths);
  if (!whole || !slice->long_tokens || !slice->long_lengths) {
    free(rest);
    return kj_fail_memory(error, "the tokens of a class");
  }
  for (size_t i = 0; i < token_count; i++) {
    uint32_t id = vocabulary->sorted[i].id;
    if (lengths[i] == 0) {
      rest[rest_count++] = vocabulary->sorted[i];
      continue;
    }
    size_t place = lengths[i] <= SLICE_BITMAPS ? lengths[i] - 1 : SLICE_BITMAPS;
    slice->bitmaps[place][id / 64] |= (uint64_t)1 << id % 64;
    if (lengths[i] > slice->longest) slice->longest = lengths[i];
  }
  for (size_t i = 1; i <= SLICE_BITMAPS; i++)
    for (size_t word = 0; word < words; word++) slice->bitmaps[i][word] |= slice->bitmaps[i - 1][word];
  list_long(slice, vocabulary, lengths);
  int code = token_tree_build(&slice->rest, rest, rest_count, error);
  free(rest);
  return code;
}

static int build(struct token_slice **result, const struct token_vocabulary *vocabulary,
                 const struct code_range *ranges, size_t count, struct kj_error *error) {
  *result = NULL;
  struct class_test test = {.ranges = ranges, .count = count};
  for (uint32_t i = 0; i < 128; i++) test.ascii[i] = class_ranges_contain(ranges, count, i);
  size_t count_of_tokens = vocabulary->tree.token_count;
  uint32_t *lengths = calloc(count_of_tokens + 1, sizeof *lengths), members = 0;
  struct run_of *ends = calloc(count_of_tokens + 1, sizeof *ends);
  struct token_slice *slice = NULL;
  int code = lengths && ends ? 0 : kj_fail_memory(error, "the tokens of a class");
  for (size_t i = 0; i < count_of_tokens && !code; i++) {
    ends[i] = end_of(&test, &vocabulary->sorted[i]);
    lengths[i] = ends[i].begin == 0 ? ends[i].characters : 0;
    members += lengths[i] > 0;
  }
  if (members >= WORTH_A_SLICE && !code) {
    slice = calloc(1, sizeof *slice);
    if (slice) atomic_init(&slice->references, 1);
    if (slice) slice->runs = calloc((size_t)vocabulary->tree.node_count + 1, 1);
    if (!slice || !slice->runs) {
      code = kj_fail_memory(error, "the tokens of a class");
    } else {
      slice->members = members;
      slice->wide = count_of_tokens - members <= count_of_tokens / SLICE_WIDE;
      find_runs(slice->runs, vocabulary, ends);
      if (slice->wide) code = fill(slice, vocabulary, lengths, error);
    }
  }
  free(lengths);
  free(ends);
  if (code)
    token_slice_release(slice);
  else
    *result = slice;
  return code;
}

int token_slice_get(struct token_slice **slice, struct token_vocabulary *vocabulary, const struct code_range *ranges,
                    size_t count, struct kj_error *error) {
  int code = 0;
  size_t size = count * sizeof *ranges;
  *slice = NULL;
  if (count == 0) return 0;
  pthread_mutex_lock(&vocabulary->mutex);
  struct kept_slice *place = &vocabulary->slices[0];
  for (size_t i = 0; i < VOCABULARY_SLICES; i++) {
    struct kept_slice *kept = &vocabulary->slices[i];
    if (kept->ranges && kept->count == count && !memcmp(kept->ranges, ranges, size)) {
      *slice = keep(kept->slice);
      kept->used = ++vocabulary->clock;
      goto done;
    }
    if (kept->used < place->used) place = kept;
  }
  struct code_range *copy = malloc(size);
  code = copy ? build(slice, vocabulary, ranges, count, error) : kj_fail_memory(error, "the tokens of a class");
  if (code) {
    free(copy);
    goto done;
  }
  memcpy(copy, ranges, size);
  free(place->ranges);
  token_slice_release(place->slice);
  *place = (struct kept_slice){copy, count, keep(*slice), ++vocabulary->clock};
done:
  pthread_mutex_unlock(&vocabulary->mutex);
  return code;
}

void token_slice_add(const struct token_slice *slice, uint32_t characters, uint64_t *bits, size_t words) {
  if (characters == 0) return;
  bool all = characters >= slice->longest;
  size_t place = all ? SLICE_BITMAPS : characters <= SLICE_BITMAPS ? characters - 1 : SLICE_BITMAPS - 1;
  const uint64_t *bitmap = slice->bitmaps[place];
  for (size_t i = 0; i < words; i++) bits[i] |= bitmap[i];
  if (all || characters <= SLICE_BITMAPS) return;
  for (uint32_t i = 0; i < slice->long_count && slice->long_lengths[i] <= characters; i++)
    bits[slice->long_tokens[i] / 64] |= (uint64_t)1 << slice->long_tokens[i] % 64;
}
