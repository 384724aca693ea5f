/* A node: waits for a lead, takes the layers it is given, and computes micro-batches until it is told to end.
 *
 * It serves one lead at a time, the first; another one is turned away until that one's link is gone. When a link is
 * lost the epoch is over: the node keeps its weights, forgets its KV cache and waits for the next assignment; the same
 * one again costs no loading. See docs/protocol.md.
 */
#ifndef KAIJU_STAGE_NODE_H
#define KAIJU_STAGE_NODE_H

#include "base/cpus.h"
#include "base/error.h"
#include "stage/stage.h"

struct node;

struct node_options {
  const char *model;           /* checkpoint directory */
  const char *listen;          /* "host:port" */
  uint32_t threads;            /* 0: one per CPU */
  const struct cpu_list *cpus; /* of the threads (base/threads.h), or NULL; borrowed while the node is created */
  bool huge_pages;             /* move the weights out of the page cache into huge pages */
  const char *isa;             /* "auto", … (compute/backend.h) */
  uint64_t memory;             /* what it may use; 0: what is available now */
  double bandwidth;            /* bytes a second; 0: unknown */
  const char *provider;        /* link/link.h */
  const uint8_t *key;          /* or NULL */
  double deadline;             /* seconds of silence on a link; 0: 10 */
  const char *kv_disk;         /* directory for KV blocks that outlive the process (stage/kv_store.h), or NULL */
  uint64_t kv_disk_size;       /* bytes it may take; 0: STORE_DEFAULT_SIZE */
  /* Called while layers are read in; may be NULL. */
  void (*on_progress)(void *context, uint32_t done, uint32_t total);
  void *context;
};

/* Opens the checkpoint's configuration, looks for a directory to keep blocks in if one is given, and listens; `bound`
 * gets the address. */
int node_create(struct node **node, const struct node_options *options, char *bound, size_t bound_size,
                struct kj_error *error);
/* Serves until node_stop (0) or until a lead says that the cluster could not be formed (an error with its reason). */
int node_run(struct node *node, struct kj_error *error);
/* Safe from any thread, not from a signal handler. */
void node_stop(struct node *node);
void node_destroy(struct node *node);

#endif
