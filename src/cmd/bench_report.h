/* What `kaiju bench` prints: its measurements next to what the machine's memory could give. */
#ifndef KAIJU_CMD_BENCH_REPORT_H
#define KAIJU_CMD_BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cmd/bench_measure.h"
#include "cmd/number.h"

/* What decoding reads of a model, on all stages together. */
struct bench_model {
  uint64_t common_bytes;        /* weights that every step reads: all but experts and embedding */
  uint64_t expert_bytes;        /* weights of all experts of all layers */
  uint32_t experts, chosen;     /* of a layer; chosen for a token */
  uint64_t kv_bytes_a_position; /* of all layers */
};
int bench_model_read(struct bench_model *model, const char *directory, struct kj_error *error);

enum { BENCH_MAX_DECODES = CMD_MAX_LIST * CMD_MAX_LIST };

struct bench_report {
  const char *model; /* directory */
  char engine[64];   /* "cpu avx512, 2 threads" */
  size_t cpus;       /* that the process may use */
  uint32_t rounds;
  struct bench_model weights;
  struct bench_prefill prefills[CMD_MAX_LIST];
  size_t prefill_count;
  struct bench_decode decodes[BENCH_MAX_DECODES];
  size_t decode_count;
  double read_before, read_after; /* bytes a second that the threads read of this machine's memory */
  double ready_seconds;           /* from opening the checkpoint to ready */
  uint64_t peak_memory;           /* of this process, without the buffer of the read speed */
};

/* Mean number of different experts of a layer that a step of `streams` tokens needs, if each token chooses its own
 * independently and all are equally likely: E (1 - (1 - k/E)^streams). */
double bench_distinct_experts(const struct bench_model *model, uint32_t streams);

void bench_print(const struct bench_report *report);
int bench_print_json(const struct bench_report *report, struct kj_error *error);

#endif
