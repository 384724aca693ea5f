#include "stage/ledger.h"

#include <stdlib.h>
#include <string.h>

struct block_record {
  uint64_t start_hash; /* of the sequence's tokens before this block */
  uint64_t end_hash;   /* of its tokens up to the block's last, once all positions are written */
  uint32_t filled;     /* positions written, from the block's first */
  uint32_t mark;       /* number of the batch that last wrote to it */
  uint32_t tokens[KV_BLOCK];
};

struct ledger {
  uint32_t blocks;
  uint32_t batch; /* number of the batch being admitted, to find blocks that two spans write */
  struct block_record records[];
};

int ledger_create(struct ledger **ledger, uint32_t blocks, struct kj_error *error) {
  *ledger = calloc(1, sizeof **ledger + (size_t)blocks * sizeof(struct block_record));
  if (!*ledger) return kj_fail_memory(error, "the ledger of KV blocks");
  (*ledger)->blocks = blocks;
  return 0;
}

void ledger_destroy(struct ledger *ledger) { free(ledger); }

void ledger_reset(struct ledger *ledger) {
  ledger->batch = 0;
  memset(ledger->records, 0, ledger->blocks * sizeof(struct block_record));
}

static uint64_t hash_tokens(uint64_t hash, const uint32_t *tokens, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) hash = token_hash_extend(hash, tokens[i]);
  return hash;
}

/* Walks the blocks that hold the positions before the span's first and compares what they hold with the span's claim.
 */
static int check_prefix(const struct ledger *ledger, const struct span *span, uint32_t index, struct kj_error *error) {
  uint64_t hash = token_hash_start();
  uint32_t position = 0;
  for (uint32_t i = 0; position < span->first_position; i++) {
    const struct block_record *record = &ledger->records[span->blocks[i]];
    uint32_t needed = span->first_position - position < KV_BLOCK ? span->first_position - position : KV_BLOCK;
    if (record->filled < needed || record->start_hash != hash)
      return kj_fail(
          error, KJ_INVALID,
          "span %u: KV block %u does not hold the positions %u to %u of this sequence: the KV cache is out of "
          "step with the lead",
          index, span->blocks[i], position, position + needed - 1);
    hash = needed == KV_BLOCK ? record->end_hash : hash_tokens(hash, record->tokens, needed);
    position += needed;
  }
  if (hash != span->prefix_hash)
    return kj_fail(
        error, KJ_INVALID,
        "span %u: the KV cache holds %u positions with token hash %016llx, the lead expects %016llx: out of step",
        index, span->first_position, (unsigned long long)hash, (unsigned long long)span->prefix_hash);
  return 0;
}

static int check_table(const struct ledger *ledger, const struct span *span, uint32_t index, struct kj_error *error) {
  uint64_t end = (uint64_t)span->first_position + span->tokens;
  if (span->tokens == 0) return kj_fail(error, KJ_INVALID, "span %u has no tokens", index);
  if (span->block_count != kv_blocks_for(end))
    return kj_fail(error, KJ_INVALID, "span %u ends before position %llu and names %u KV blocks", index,
                   (unsigned long long)end, span->block_count);
  for (uint32_t i = 0; i < span->block_count; i++)
    if (span->blocks[i] >= ledger->blocks)
      return kj_fail(error, KJ_INVALID, "span %u names KV block %u of %u", index, span->blocks[i], ledger->blocks);
  return 0;
}

/* Marks the blocks that the span writes; one that is marked already is written twice in this batch. */
static int mark_written(struct ledger *ledger, const struct span *span, uint32_t index, struct kj_error *error) {
  for (uint32_t i = span->first_position / KV_BLOCK; i < span->block_count; i++) {
    struct block_record *record = &ledger->records[span->blocks[i]];
    if (record->mark == ledger->batch)
      return kj_fail(error, KJ_INVALID, "span %u writes KV block %u, which this batch writes already", index,
                     span->blocks[i]);
    record->mark = ledger->batch;
  }
  return 0;
}

/* A block that is written in this batch cannot be part of another span's prefix. */
static int check_reads(const struct ledger *ledger, const struct span *span, uint32_t index, struct kj_error *error) {
  for (uint32_t i = 0; i < span->first_position / KV_BLOCK; i++)
    if (ledger->records[span->blocks[i]].mark == ledger->batch)
      return kj_fail(error, KJ_INVALID, "span %u reads KV block %u, which this batch writes", index, span->blocks[i]);
  return 0;
}

static void record_span(struct ledger *ledger, const struct span *span) {
  uint64_t hash = span->prefix_hash;
  for (uint32_t i = 0; i < span->tokens; i++) {
    uint32_t position = span->first_position + i, slot = position % KV_BLOCK;
    struct block_record *record = &ledger->records[span->blocks[position / KV_BLOCK]];
    if (slot == 0) record->start_hash = hash;
    record->tokens[slot] = span->token_ids[i];
    record->filled = slot + 1;
    hash = token_hash_extend(hash, span->token_ids[i]);
    if (record->filled == KV_BLOCK) record->end_hash = hash;
  }
}

int ledger_admit(struct ledger *ledger, const struct batch *batch, struct kj_error *error) {
  int code;
  if (++ledger->batch == 0) {
    for (uint32_t i = 0; i < ledger->blocks; i++) ledger->records[i].mark = 0;
    ledger->batch = 1;
  }
  for (uint32_t i = 0; i < batch->span_count; i++) {
    if ((code = check_table(ledger, &batch->spans[i], i, error))) return code;
    if ((code = check_prefix(ledger, &batch->spans[i], i, error))) return code;
    if ((code = mark_written(ledger, &batch->spans[i], i, error))) return code;
  }
  for (uint32_t i = 0; i < batch->span_count; i++)
    if ((code = check_reads(ledger, &batch->spans[i], i, error))) return code;
  for (uint32_t i = 0; i < batch->span_count; i++) record_span(ledger, &batch->spans[i]);
  return 0;
}

int ledger_check_block(const struct ledger *ledger, uint32_t block, uint64_t prefix_hash,
                       const uint32_t tokens[KV_BLOCK], struct kj_error *error) {
  if (block >= ledger->blocks) return kj_fail(error, KJ_INVALID, "KV block %u of %u is named", block, ledger->blocks);
  const struct block_record *record = &ledger->records[block];
  if (record->filled == KV_BLOCK && record->start_hash == prefix_hash &&
      memcmp(record->tokens, tokens, sizeof record->tokens) == 0)
    return 0;
  return kj_fail(error, KJ_INVALID,
                 "KV block %u does not hold the tokens that the lead says: the KV cache is out of step", block);
}

void ledger_restore(struct ledger *ledger, uint32_t block, uint64_t prefix_hash, const uint32_t tokens[KV_BLOCK]) {
  struct block_record *record = &ledger->records[block];
  record->start_hash = prefix_hash;
  record->end_hash = hash_tokens(prefix_hash, tokens, KV_BLOCK);
  record->filled = KV_BLOCK;
  memcpy(record->tokens, tokens, sizeof record->tokens);
}
