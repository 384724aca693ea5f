/* Logits of every position of token sequences, for the oracle tests.
 *
 *   logits MODEL SPLIT CHUNK ISA THREADS
 *
 * SPLIT is "12" or "8,4": the layers are computed by so many stages, each with its own KV pool, as nodes would. Reads
 * lines of token ids separated by spaces; writes for each the logits [tokens, vocabulary] as raw little-endian f32.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/plan.h"
#include "stage/ledger.h"
#include "stage/stage.h"

enum { MAX_TOKENS = 4096, BLOCKS = MAX_TOKENS / KV_BLOCK };

struct run {
  struct stage *stages[PLAN_MAX_NODES];
  size_t stage_count;
  struct head *head;
  const struct config *config;
  uint32_t chunk;
  float *hidden, *logits;
};

static int run_line(struct run *run, const uint32_t *tokens, uint32_t count, struct kj_error *error) {
  uint32_t blocks[BLOCKS];
  for (uint32_t i = 0; i < BLOCKS; i++) blocks[i] = BLOCKS - 1 - i;
  uint64_t hash = token_hash_start();
  for (uint32_t done = 0; done < count; done += run->chunk) {
    uint32_t size = count - done < run->chunk ? count - done : run->chunk;
    struct span span = {.first_position = done,
                        .tokens = size,
                        .outputs = size,
                        .block_count = (done + size + KV_BLOCK - 1) / KV_BLOCK,
                        .blocks = blocks,
                        .token_ids = tokens + done,
                        .prefix_hash = hash};
    struct batch batch = {.span_count = 1, .tokens = size, .outputs = size, .spans = &span};
    int code = head_embed(run->head, tokens + done, size, run->hidden, error);
    for (size_t i = 0; i < run->stage_count && !code; i++)
      code = stage_forward(run->stages[i], &batch, run->hidden, error);
    if (!code) code = head_logits(run->head, run->hidden, size, run->logits, error);
    if (code) return code;
    fwrite(run->logits, sizeof(float), (size_t)size * run->config->vocabulary, stdout);
    for (uint32_t i = 0; i < size; i++) hash = token_hash_extend(hash, tokens[done + i]);
  }
  return 0;
}

static int open_run(struct run *run, char **argv, struct checkpoint *checkpoint, struct threads *threads,
                    struct backend **backend, struct kj_error *error) {
  uint32_t split[PLAN_MAX_NODES];
  run->config = checkpoint_config(checkpoint);
  run->chunk = (uint32_t)atoi(argv[3]);
  int code = plan_parse_split(argv[2], split, &run->stage_count, error);
  if (!code) code = backend_cpu_create(backend, argv[4], threads, run->chunk, plan_max_columns(run->config), error);
  if (!code) code = head_open(&run->head, checkpoint, *backend, run->chunk, error);
  uint32_t first = 0;
  for (size_t i = 0; i < run->stage_count && !code; i++) {
    struct stage_options options = {checkpoint, *backend, first, split[i], BLOCKS, run->chunk, NULL};
    code = stage_open(&run->stages[i], &options, error);
    first += split[i];
  }
  if (!code && first != run->config->layers) code = kj_fail(error, KJ_INVALID, "the split has %u layers", first);
  run->hidden = malloc((size_t)run->chunk * run->config->hidden * sizeof(float));
  run->logits = malloc((size_t)run->chunk * run->config->vocabulary * sizeof(float));
  return code;
}

int main(int argc, char **argv) {
  struct kj_error error = {0};
  struct checkpoint *checkpoint = NULL;
  struct threads *threads = NULL;
  struct backend *backend = NULL;
  struct run run = {0};
  if (argc != 6) return 2;
  int code = checkpoint_open(&checkpoint, argv[1], &error);
  if (!code) code = threads_create(&threads, (size_t)atoi(argv[5]), &error);
  if (!code) code = open_run(&run, argv, checkpoint, threads, &backend, &error);
  char *line = NULL;
  size_t capacity = 0;
  while (!code && getline(&line, &capacity, stdin) > 0) {
    uint32_t tokens[MAX_TOKENS], count = 0;
    for (char *word = strtok(line, " \n"); word && count < MAX_TOKENS; word = strtok(NULL, " \n"))
      tokens[count++] = (uint32_t)strtoul(word, NULL, 10);
    code = run_line(&run, tokens, count, &error);
  }
  if (code) fprintf(stderr, "logits: %s\n", error.message);
  free(line);
  for (size_t i = 0; i < run.stage_count; i++) stage_close(run.stages[i]);
  head_close(run.head);
  if (backend) backend->operations->destroy(backend);
  threads_destroy(threads);
  checkpoint_close(checkpoint);
  free(run.hidden);
  free(run.logits);
  return code ? 1 : 0;
}
