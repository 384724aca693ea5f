/* The command-line options that every command with an engine has (serve, run, bench): their parsing and their manual.
 */
#ifndef KAIJU_CMD_ENGINE_FLAGS_H
#define KAIJU_CMD_ENGINE_FLAGS_H

#include <getopt.h>
#include <limits.h>

#include "base/cpus.h"
#include "base/error.h"
#include "link/link.h"
#include "model/plan.h"
#include "sched/engine.h"

enum {
  FLAG_NODES = 1000,
  FLAG_SPLIT,
  FLAG_CTX,
  FLAG_PARALLEL,
  FLAG_KV_TOKENS,
  FLAG_QUEUE,
  FLAG_CHUNK,
  FLAG_MICRO_BATCHES,
  FLAG_DRAFT,
  FLAG_KV_DISK,
  FLAG_KV_DISK_SIZE,
  FLAG_THREADS,
  FLAG_PIN,
  FLAG_HUGE_PAGES,
  FLAG_CPU,
  FLAG_MEMORY,
  FLAG_BANDWIDTH,
  FLAG_KEY_FILE,
  FLAG_PROVIDER,
  FLAG_CONNECT_TIMEOUT,
  FLAG_RECOVERY_TIMEOUT,
  FLAG_DEADLINE,
  FLAG_STEP_TIMEOUT
};

#define ENGINE_LONG_OPTIONS                                                                                           \
  {"nodes", required_argument, NULL, FLAG_NODES}, {"split", required_argument, NULL, FLAG_SPLIT},                     \
      {"ctx", required_argument, NULL, FLAG_CTX}, {"parallel", required_argument, NULL, FLAG_PARALLEL},               \
      {"kv-tokens", required_argument, NULL, FLAG_KV_TOKENS}, {"queue", required_argument, NULL, FLAG_QUEUE},         \
      {"chunk", required_argument, NULL, FLAG_CHUNK}, {"micro-batches", required_argument, NULL, FLAG_MICRO_BATCHES}, \
      {"draft", required_argument, NULL, FLAG_DRAFT}, {"kv-disk", required_argument, NULL, FLAG_KV_DISK},             \
      {"kv-disk-size", required_argument, NULL, FLAG_KV_DISK_SIZE},                                                   \
      {"threads", required_argument, NULL, FLAG_THREADS}, {"pin", required_argument, NULL, FLAG_PIN},                 \
      {"huge-pages", no_argument, NULL, FLAG_HUGE_PAGES}, {"cpu", required_argument, NULL, FLAG_CPU},                 \
      {"memory", required_argument, NULL, FLAG_MEMORY}, {"bandwidth", required_argument, NULL, FLAG_BANDWIDTH},       \
      {"key-file", required_argument, NULL, FLAG_KEY_FILE}, {"provider", required_argument, NULL, FLAG_PROVIDER},     \
      {"connect-timeout", required_argument, NULL, FLAG_CONNECT_TIMEOUT},                                             \
      {"recovery-timeout", required_argument, NULL, FLAG_RECOVERY_TIMEOUT},                                           \
      {"step-timeout", required_argument, NULL, FLAG_STEP_TIMEOUT}, {                                                 \
    "deadline", required_argument, NULL, FLAG_DEADLINE                                                                \
  }

#define ENGINE_FLAGS_MANUAL                                                                                          \
  "  --nodes HOST:PORT,...  the other nodes (kaiju node), by addresses that all of them can reach, in the order of " \
  "stages\n"                                                                                                         \
  "  --split N,N,...        layers of each node, the lead first; default: the fastest split that fits\n"             \
  "  --ctx N                tokens of a sequence at most (default: the model's maximum, or 32768 if that is less)\n" \
  "  --parallel N           sequences that run at once (default: 4); more wait\n"                                    \
  "  --kv-tokens N          tokens in the KV cache, of running sequences and of the prefix cache together\n"         \
  "                         (default: --parallel times --ctx)\n"                                                     \
  "  --queue N              requests that may wait (default: 256); more are refused\n"                               \
  "  --chunk N              tokens of a micro-batch at most (default: 512)\n"                                        \
  "  --micro-batches N      that running sequences are dealt into, to keep every node busy (default: one for each "  \
  "node)\n"                                                                                                          \
  "  --draft N              tokens that are guessed ahead from a sequence's own text, and verified; the answer is "  \
  "the\n"                                                                                                            \
  "                         same with and without (default: up to 16; 0: none)\n"                                    \
  "  --kv-disk DIR          keep the prefix cache in DIR, over restarts; every node needs a directory of its own\n"  \
  "  --kv-disk-size SIZE    bytes it may take in DIR (default: 32GiB)\n"                                             \
  "  --threads N            compute threads (default: one per CPU)\n"                                                \
  "  --pin LIST             CPUs to keep to, one a compute thread: 0-3,8 (default: the system chooses)\n"            \
  "  --huge-pages           copy the weights from the page cache into huge pages: decodes faster, starts slower\n"   \
  "  --cpu NAME             auto, reference, avx2, avxvnni, avx512, neon or neon-i8mm (default: auto)\n"             \
  "  --memory SIZE          memory ceiling of this machine, for example 240GB (default: what is available)\n"        \
  "  --bandwidth SIZE       memory bytes that this machine reads a second, for the automatic split (400GB)\n"        \
  "  --key-file FILE        the cluster's key (make one with: kaiju keygen); without it, loopback only\n"            \
  "  --provider NAME        tcp or verbs (RDMA); default: verbs where there is a device, else tcp\n"                 \
  "  --connect-timeout S    seconds to wait for the nodes at start (default: 30)\n"                                  \
  "  --recovery-timeout S   seconds that a request waits for a node that was lost (default: 60)\n"                   \
  "  --deadline S           seconds of silence after which a node counts as lost (default: 10)\n"                    \
  "  --step-timeout S       seconds after which a step that does not come back counts as lost (default: 120)\n"

struct engine_flags {
  struct engine_options options; /* its pointers lead into this struct and into argv */
  char *node_list;               /* owned */
  const char *nodes[ENGINE_MAX_NODES];
  uint32_t split[PLAN_MAX_NODES];
  uint8_t key[LINK_KEY_BYTES];
  struct cpu_list cpus;
  char shipped[PATH_MAX]; /* the model that is used when none is named */
};

void engine_flags_init(struct engine_flags *flags);
void engine_flags_free(struct engine_flags *flags);

/* Takes one option of the list above; 0, or KJ_INVALID with the option's name in the message. */
int engine_flags_take(struct engine_flags *flags, int flag, const char *value, struct kj_error *error);

/* After parsing, before any thread is started: the shipped model where none was named; keeps the process to its CPUs.
 */
int engine_flags_prepare(struct engine_flags *flags, struct kj_error *error);

#endif
