/* The lead's view of the other nodes: connecting, introducing, assigning layers, and the epochs.
 *
 * An epoch goes: every node connected and introduced (CLUSTER_INTRODUCED) → cluster_assign → every node ready
 * (CLUSTER_READY) → micro-batches out, results in. Anything that goes wrong with any node is reported once as
 * CLUSTER_FAILED; the caller then calls cluster_begin for the next epoch, which drops what is left of the old one. Used
 * by the engine's thread alone; nothing here waits for a node, though looking up a name may take as long as the name
 * server.
 */
#ifndef KAIJU_SCHED_CLUSTER_H
#define KAIJU_SCHED_CLUSTER_H

#include "base/error.h"
#include "link/link.h"
#include "link/message.h"
#include "model/checkpoint.h"
#include "model/plan.h"
#include "sched/disk_index.h"

struct cluster;

struct cluster_options {
  const char *const *addresses; /* of stages 1…count; borrowed */
  size_t count;                 /* at least 1 */
  struct link_options link;
  struct message_introduce introduction; /* the lead's own; session and epoch are filled in here */
};

enum cluster_event_kind {
  CLUSTER_NOTHING,
  CLUSTER_INTRODUCED, /* all nodes are connected and known: cluster_assign is next */
  CLUSTER_READY,      /* all nodes have their layers warm */
  CLUSTER_RESULT,     /* `result` holds a micro-batch's outcome; release with message_free_result */
  CLUSTER_UNREACHED,  /* a node could not be reached; it is tried again: no failure yet; `news` if for another reason */
  CLUSTER_FAILED      /* the epoch is over; `error` says why; KJ_REFUSED and the like will not pass by themselves */
};

struct cluster_event {
  enum cluster_event_kind kind;
  struct message_result result;
  bool news;
  struct kj_error error;
};

struct cluster_node {
  const char *address;
  struct message_introduce introduction; /* once introduced */
  bool up;                               /* the link; not only being made */
  bool introduced, ready, told_to_stop;
  uint32_t layers_warm;
  uint64_t peak_memory;
  uint64_t link;       /* 0: none */
  double retry_at;     /* clock; when to connect again */
  char unreached[200]; /* why it could not be reached the last time */
};

int cluster_open(struct cluster **cluster, const struct cluster_options *options, struct kj_error *error);
/* Tells the nodes nothing: they see the links close and wait for the next lead. */
void cluster_close(struct cluster *cluster);

/* Ends the epoch, if any, and starts to connect for the next one. */
void cluster_begin(struct cluster *cluster);
uint64_t cluster_epoch(const struct cluster *cluster);
const char *cluster_provider(const struct cluster *cluster);

/* Gives every node its layers. `identity` is that of all shards the lead has. */
int cluster_assign(struct cluster *cluster, const struct plan *plan, const struct checkpoint_identity *identity,
                   uint32_t max_batch_tokens, uint32_t hidden, struct kj_error *error);

/* Handles what has arrived and retries what is due; call until it says CLUSTER_NOTHING. */
void cluster_poll(struct cluster *cluster, struct cluster_event *event);
/* Clock time at which cluster_poll has something to retry; INFINITY if never. */
double cluster_next_retry(const struct cluster *cluster);

/* Sends a micro-batch with the lead's hidden states [tokens, hidden] to stage 1. */
int cluster_send(struct cluster *cluster, const struct message_work *work, struct kj_error *error);
/* Results come in the order of these calls, each with that number of rows; at most PLAN_MAX_IN_FLIGHT are waited for.
 * Called before cluster_send's micro-batch can come back. */
void cluster_expect(struct cluster *cluster, uint64_t number, uint32_t outputs);

/* Has what nodes say of their disks added to the index (borrowed, or NULL: not wanted), from the next assignment on. */
void cluster_use_disk_index(struct cluster *cluster, struct disk_index *index);
/* Sends orders about KV blocks to stage 1, which passes them on: every node carries them out after the micro-batches
 * sent before and before those sent later. Any count. */
int cluster_send_blocks(struct cluster *cluster, struct block_operation *operations, size_t count,
                        struct kj_error *error);

/* Tells every node that is connected to end, because the cluster could not be formed. False while connections are still
 * being made: call again when something has arrived, so that no node is left waiting. */
bool cluster_stop(struct cluster *cluster, const struct kj_error *reason);

const struct cluster_node *cluster_nodes(const struct cluster *cluster, size_t *count);
bool cluster_statistics(struct cluster *cluster, size_t node, struct link_statistics *statistics);

#endif
