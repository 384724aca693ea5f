#include "stage/node.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "link/link.h"
#include "link/message.h"
#include "model/plan.h"
#include "stage/kv_directory.h"
#include "stage/kv_identity.h"

enum {
  WAITING_UPSTREAMS = 8 /* previous stages that have connected before our own assignment came */
};

/* A link of a previous stage, and the assignment it is for. */
struct upstream {
  uint64_t link, session, epoch;
  uint32_t stage;
};

struct node {
  struct node_options options;
  struct checkpoint *checkpoint;
  struct checkpoint_identity identity; /* of the configuration; the shards' follow with the layers */
  struct threads *threads;
  struct backend *backend;
  size_t backend_rows;
  struct stage *stage; /* kept over epochs */
  struct stage_options stage_options;
  struct kv_store *store; /* of the stage; NULL without options.kv_disk */
  struct link_hub *hub;
  uint64_t session; /* of this process */

  uint64_t lead_session;     /* of the lead's process */
  uint64_t lead, downstream; /* links; 0: none. The last node's downstream is the lead. */
  struct upstream waiting[WAITING_UPSTREAMS];
  struct upstream upstream;         /* the one in use; stage 1's is the lead */
  struct message_assign assignment; /* shards are not kept */
  bool assigned, downstream_up, ready;
  uint64_t next_number;
  double warm_seconds, last_finished_at;
  double sending_reported; /* of the downstream link's statistics */
  struct kj_error stop_reason;
  bool told_to_stop;

  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool woken, stop; /* under mutex */
};

static void wake(void *context) {
  struct node *node = context;
  pthread_mutex_lock(&node->mutex);
  node->woken = true;
  pthread_cond_signal(&node->wake);
  pthread_mutex_unlock(&node->mutex);
}

void node_stop(struct node *node) {
  pthread_mutex_lock(&node->mutex);
  node->stop = node->woken = true;
  pthread_cond_signal(&node->wake);
  pthread_mutex_unlock(&node->mutex);
}

static bool stopping(struct node *node) {
  pthread_mutex_lock(&node->mutex);
  bool stop = node->stop;
  pthread_mutex_unlock(&node->mutex);
  return stop;
}

static int send_message(struct node *node, uint64_t link, enum message_type type, struct buffer *payload,
                        struct kj_error *error) {
  int code = buffer_failed(payload) ? kj_fail_memory(error, "a message") : 0;
  struct link_part part = {payload->data, payload->length};
  if (!code) code = link_send(node->hub, link, (uint16_t)type, node->assignment.epoch, &part, 1, error);
  buffer_free(payload);
  return code;
}

static int send_introduction(struct node *node, uint64_t link, enum message_role role, struct kj_error *error) {
  struct message_introduce introduction = {.role = role,
                                           .session = role == ROLE_UPSTREAM ? node->assignment.session : node->session,
                                           .epoch = node->assignment.epoch,
                                           .stage = node->assignment.stage,
                                           .memory = node->options.memory,
                                           .bandwidth = node->options.bandwidth,
                                           .threads = (uint32_t)threads_count(node->threads)};
  snprintf(introduction.version, sizeof introduction.version, "%s", KAIJU_VERSION);
  snprintf(introduction.engine, sizeof introduction.engine, "%s", node->backend->operations->describe(node->backend));
  gethostname(introduction.host, sizeof introduction.host - 1);
  memcpy(introduction.config_hash, node->identity.config, sizeof introduction.config_hash);
  struct buffer payload = {0};
  message_encode_introduce(&payload, &introduction);
  return send_message(node, link, MESSAGE_INTRODUCE, &payload, error);
}

/* Ends the epoch: the neighbours' links are closed, the KV cache is forgotten, the weights stay. */
static void end_epoch(struct node *node) {
  if (node->downstream && node->downstream != node->lead) link_close(node->hub, node->downstream);
  if (node->upstream.link && node->upstream.link != node->lead) link_close(node->hub, node->upstream.link);
  node->downstream = 0;
  node->upstream = (struct upstream){0};
  node->assigned = node->downstream_up = node->ready = false;
  node->next_number = 0;
  node->last_finished_at = 0;
  node->sending_reported = 0;
  if (node->stage) stage_reset(node->stage);
}

/* Tells the lead why the epoch cannot go on, and ends it here. */
static void fail_epoch(struct node *node, const struct kj_error *error) {
  log_warning("%s", error->message);
  struct message_fail failure = {.code = (uint32_t)error->code};
  snprintf(failure.reason, sizeof failure.reason, "%s", error->message);
  struct buffer payload = {0};
  message_encode_fail(&payload, &failure);
  if (node->lead)
    send_message(node, node->lead, MESSAGE_FAIL, &payload, NULL);
  else
    buffer_free(&payload);
  end_epoch(node);
}

/* The shards that both sides have must be the same. */
static int compare_shards(struct node *node, const struct message_assign *assign, struct kj_error *error) {
  struct checkpoint_identity own = {0};
  int code = checkpoint_identity(node->checkpoint, assign->first_layer, assign->layer_count, false, &own, error);
  for (size_t i = 0; i < own.shard_count && !code; i++) {
    for (uint32_t j = 0; j < assign->shard_count && !code; j++) {
      if (strcmp(own.shards[i].name, assign->shards[j].name) != 0) continue;
      if (memcmp(own.shards[i].hash, assign->shards[j].hash, CHECKPOINT_HASH) == 0) continue;
      char here[2 * CHECKPOINT_HASH + 1], there[2 * CHECKPOINT_HASH + 1];
      sodium_bin2hex(here, sizeof here, own.shards[i].hash, CHECKPOINT_HASH);
      sodium_bin2hex(there, sizeof there, assign->shards[j].hash, CHECKPOINT_HASH);
      code = kj_fail(error, KJ_REFUSED, "shard %s differs: %s at this node, %s at the lead; copy the checkpoint again",
                     own.shards[i].name, here, there);
    }
  }
  checkpoint_identity_free(&own);
  return code;
}

static bool on_layers_warm(void *context, uint32_t done, uint32_t total) {
  struct node *node = context;
  struct message_progress progress = {done, total};
  struct buffer payload = {0};
  message_encode_progress(&payload, &progress);
  if (node->options.on_progress) node->options.on_progress(node->options.context, done, total);
  /* A lead that has gone meanwhile needs no layers. */
  return send_message(node, node->lead, MESSAGE_PROGRESS, &payload, NULL) == 0 && !stopping(node);
}

/* The engine's scratch memory follows the batch size, which the lead chooses. */
static int open_backend(struct node *node, size_t rows, struct kj_error *error) {
  if (node->backend && node->backend_rows >= rows) return 0;
  if (node->backend) node->backend->operations->destroy(node->backend);
  node->backend = NULL;
  node->backend_rows = rows;
  return backend_cpu_create(&node->backend, node->options.isa, node->threads, rows,
                            plan_max_columns(checkpoint_config(node->checkpoint)), error);
}

static bool same_stage(const struct stage_options *a, const struct stage_options *b) {
  return a->first_layer == b->first_layer && a->layer_count == b->layer_count && a->kv_blocks == b->kv_blocks &&
         a->max_batch_tokens == b->max_batch_tokens;
}

static int load_stage(struct node *node, const struct message_assign *assign, struct kj_error *error) {
  struct stage_options options = {.checkpoint = node->checkpoint,
                                  .first_layer = assign->first_layer,
                                  .layer_count = assign->layer_count,
                                  .kv_blocks = assign->kv_blocks,
                                  .max_batch_tokens = assign->max_batch_tokens,
                                  .huge_page_threads = node->options.huge_pages ? node->threads : NULL};
  if (node->stage && same_stage(&options, &node->stage_options)) return 0; /* warm, and forgotten by end_epoch */
  double begin = clock_seconds();
  kv_store_close(node->store);
  stage_close(node->stage);
  node->store = NULL;
  node->stage = NULL;
  int code = open_backend(node, assign->max_batch_tokens, error);
  if (code) return code;
  options.backend = node->backend;
  node->stage_options = options;
  log_info("loading layers %u to %u", assign->first_layer, assign->first_layer + assign->layer_count - 1);
  if ((code = stage_open(&node->stage, &options, error))) return code;
  if ((code = stage_warm(node->stage, on_layers_warm, node, error))) {
    stage_close(node->stage);
    node->stage = NULL;
    return code;
  }
  node->warm_seconds = clock_seconds() - begin;
  log_info("%u layers are warm after %.1f s: peak memory %.2f GB of %.2f GB that this node may use",
           assign->layer_count, node->warm_seconds, (double)memory_peak() * 1e-9, (double)node->options.memory * 1e-9);
  return 0;
}

static int open_store(struct node *node, const struct message_assign *assign, struct kj_error *error) {
  if (!node->options.kv_disk || node->store) return 0;
  struct kv_store_options options = {.root = node->options.kv_disk,
                                     .limit = node->options.kv_disk_size,
                                     .first_layer = assign->first_layer,
                                     .layer_count = assign->layer_count,
                                     .payload_bytes = stage_block_bytes(node->stage),
                                     .notify = wake,
                                     .context = node};
  int code = kv_identity(options.identity, node->checkpoint, node->backend, assign->first_layer, assign->layer_count,
                         false, error);
  return code ? code : kv_store_open(&node->store, &options, error);
}

static int send_keys(struct node *node, struct block_key *keys, size_t count, struct kj_error *error) {
  struct message_inventory inventory = {
      .capacity = kv_store_capacity(node->store), .count = (uint32_t)count, .keys = keys};
  memcpy(inventory.identity, kv_store_identity(node->store), sizeof inventory.identity);
  struct buffer payload = {0};
  message_encode_inventory(&payload, &inventory);
  return send_message(node, node->lead, MESSAGE_INVENTORY, &payload, error);
}

/* Tells the lead all that lies on this node's disk. */
static int send_inventory(struct node *node, struct kj_error *error) {
  if (!node->store) return 0;
  struct block_key *keys;
  size_t count, sent = 0;
  int code = kv_store_inventory(node->store, &keys, &count, error);
  if (code) return code;
  do {
    size_t part = count - sent < MESSAGE_MAX_KEYS ? count - sent : MESSAGE_MAX_KEYS;
    code = send_keys(node, keys + sent, part, error);
    sent += part;
  } while (!code && sent < count);
  free(keys);
  return code;
}

/* Tells the lead what was written since. A lead that is not there yet is told with the inventory. */
static void report_written(struct node *node) {
  enum { MOST = 64 };
  struct block_key keys[MOST];
  size_t count;
  while (node->store && node->ready && (count = kv_store_take_written(node->store, keys, MOST)) > 0)
    send_keys(node, keys, count, NULL); /* a link that has gone is reported as LINK_DOWN */
}

/* Lets frames as large as the assignment's micro-batches through. */
static void allow_work(struct node *node, uint64_t link) {
  link_set_limit(node->hub, link,
                 message_limit(node->assignment.max_batch_tokens, checkpoint_config(node->checkpoint)->hidden,
                               node->assignment.kv_blocks));
}

/* Puts the upstream link to use that has connected for this assignment, if it is there. */
static void match_upstream(struct node *node) {
  if (!node->assigned) return;
  if (node->assignment.stage == 1) {
    node->upstream.link = node->lead;
    return;
  }
  for (size_t i = 0; i < WAITING_UPSTREAMS; i++) {
    struct upstream *waiting = &node->waiting[i];
    if (!waiting->link || waiting->session != node->assignment.session || waiting->epoch != node->assignment.epoch ||
        waiting->stage + 1 != node->assignment.stage)
      continue;
    if (node->upstream.link) link_close(node->hub, node->upstream.link);
    node->upstream = *waiting;
    *waiting = (struct upstream){0};
    allow_work(node, node->upstream.link);
  }
}

static int report_ready(struct node *node, struct kj_error *error) {
  match_upstream(node);
  if (!node->assigned || node->ready || !node->downstream_up || !node->upstream.link) return 0;
  node->ready = true;
  struct message_ready ready = {.peak_memory = memory_peak(), .seconds = node->warm_seconds};
  struct buffer payload = {0};
  message_encode_ready(&payload, &ready);
  return send_message(node, node->lead, MESSAGE_READY, &payload, error);
}

static int check_assignment(const struct node *node, const struct message_assign *assign, struct kj_error *error) {
  uint32_t layers = checkpoint_config(node->checkpoint)->layers;
  if (assign->stage == 0 || assign->stage >= assign->stage_count || assign->layer_count == 0 ||
      (uint64_t)assign->first_layer + assign->layer_count > layers)
    return kj_fail(error, KJ_INVALID, "an assignment of layers %u to %u as stage %u of %u; the model has %u layers",
                   assign->first_layer, assign->first_layer + assign->layer_count - 1, assign->stage,
                   assign->stage_count, layers);
  return 0;
}

static int take_assignment(struct node *node, const struct link_event *frame, struct kj_error *error) {
  struct message_assign assign;
  int code = message_decode_assign(&assign, frame->payload, frame->length, error);
  if (code) return code;
  end_epoch(node);
  node->assignment = assign;
  node->assignment.shards = NULL;
  code = check_assignment(node, &assign, error);
  if (!code) code = compare_shards(node, &assign, error);
  if (!code) code = load_stage(node, &assign, error);
  if (!code) code = open_store(node, &assign, error);
  if (!code) code = send_inventory(node, error);
  message_free_assign(&assign);
  if (code) return code;
  node->assigned = true;
  allow_work(node, node->lead);
  if (node->assignment.stage + 1 == node->assignment.stage_count) {
    node->downstream = node->lead;
    node->downstream_up = true;
  } else {
    struct kj_error reason;
    if (link_connect(node->hub, node->assignment.next, &node->downstream, &reason)) {
      node->downstream = 0;
      /* Whatever it is, a name server's hiccup too: worth another epoch. */
      return kj_fail(error, KJ_NETWORK, "the next stage: %s", reason.message);
    }
  }
  return report_ready(node, error);
}

static int pass_on(struct node *node, struct message_work *work, struct kj_error *error) {
  bool last = node->downstream == node->lead;
  struct buffer head = {0};
  size_t rows = work->batch.tokens;
  if (last) {
    struct message_result result = {.number = work->number,
                                    .hidden = work->hidden,
                                    .outputs = work->batch.outputs,
                                    .timing_count = work->timing_count};
    memcpy(result.timings, work->timings, sizeof result.timings);
    stage_pack_outputs(&work->batch, work->hidden, work->rows);
    rows = work->batch.outputs;
    message_encode_result(&head, &result);
  } else {
    message_encode_work(&head, work);
  }
  int code = buffer_failed(&head) ? kj_fail_memory(error, "a message") : 0;
  const struct link_part parts[] = {{head.data, head.length}, {work->rows, rows * work->hidden * sizeof(float)}};
  if (!code)
    code = link_send(node->hub, node->downstream, last ? MESSAGE_RESULT : MESSAGE_WORK, node->assignment.epoch, parts,
                     2, error);
  buffer_free(&head);
  return code;
}

/* Seconds that frames were on their way downstream since the last call. */
static float transfer_seconds(struct node *node) {
  struct link_statistics statistics;
  if (!link_statistics(node->hub, node->downstream, &statistics)) return 0;
  return (float)link_sending_since(&statistics, &node->sending_reported);
}

static int compute(struct node *node, const struct link_event *frame, struct kj_error *error) {
  if (!node->ready || frame->link != node->upstream.link)
    return kj_fail(error, KJ_INVALID, "a micro-batch from %s, which is not the previous stage", frame->peer);
  double begin = clock_seconds();
  struct message_work work;
  const struct stage_options *options = &node->stage_options;
  int code = message_decode_work(&work, frame->payload, frame->length, checkpoint_config(node->checkpoint)->hidden,
                                 options->kv_blocks, options->max_batch_tokens, error);
  if (code) return code;
  if (work.number != node->next_number)
    code = kj_fail(error, KJ_INVALID, "micro-batch %llu came instead of %llu", (unsigned long long)work.number,
                   (unsigned long long)node->next_number);
  node->next_number++;
  if (!code) code = stage_forward(node->stage, &work.batch, work.rows, error);
  if (!code) {
    double end = clock_seconds();
    if (work.timing_count < MESSAGE_MAX_STAGES)
      work.timings[work.timing_count++] = (struct stage_timing){
          .compute = (float)(end - begin),
          .wait = node->last_finished_at > 0 ? (float)(begin - node->last_finished_at) : 0,
          .transfer = transfer_seconds(node),
      };
    node->last_finished_at = end;
    code = pass_on(node, &work, error);
  }
  message_free_work(&work);
  return code;
}

/* Keeps, restores and drops KV blocks, and has the stages behind do the same. */
static int take_blocks(struct node *node, const struct link_event *frame, struct kj_error *error) {
  if (!node->ready || frame->link != node->upstream.link)
    return kj_fail(error, KJ_INVALID, "orders about KV blocks from %s, which is not the previous stage", frame->peer);
  double begin = clock_seconds();
  struct message_blocks blocks;
  int code = message_decode_blocks(&blocks, frame->payload, frame->length, node->stage_options.kv_blocks, error);
  if (code) return code;
  /* Sent on first: the stages' disks work at the same time. */
  const struct link_part part = {frame->payload, frame->length};
  if (node->downstream != node->lead)
    code = link_send(node->hub, node->downstream, MESSAGE_BLOCKS, node->assignment.epoch, &part, 1, error);
  uint32_t done = 0;
  if (!code) code = stage_blocks(node->stage, node->store, blocks.operations, blocks.count, &done, error);
  /* All files that are damaged cost one epoch, not one each. */
  const uint8_t *payload;
  for (uint32_t i = done + 1; code && node->store && i < blocks.count; i++)
    if (blocks.operations[i].action == BLOCK_RESTORE) kv_store_read(node->store, &blocks.operations[i], &payload, NULL);
  message_free_blocks(&blocks);
  /* Neither computing nor waiting. */
  if (node->last_finished_at > 0) node->last_finished_at += clock_seconds() - begin;
  return code;
}

static void turn_away(struct node *node, const struct link_event *frame) {
  log_warning("a second lead, at %s, is turned away: this node serves another one", frame->peer);
  struct message_fail busy = {.code = KJ_REFUSED, .reason = "this node serves another lead"};
  struct buffer payload = {0};
  message_encode_fail(&payload, &busy);
  send_message(node, frame->link, MESSAGE_FAIL, &payload, NULL);
  link_close(node->hub, frame->link);
}

/* A lead has introduced itself. The first one stays until its link is gone; only its own next epoch may replace it. */
static int welcome_lead(struct node *node, const struct link_event *frame, const struct message_introduce *lead,
                        struct kj_error *error) {
  if (node->lead && node->lead != frame->link && lead->session != node->lead_session) {
    turn_away(node, frame);
    return 0;
  }
  if (node->lead && node->lead != frame->link) {
    uint64_t old = node->lead;
    end_epoch(node);
    link_close(node->hub, old);
  }
  node->lead = frame->link;
  node->lead_session = lead->session;
  node->assignment.epoch = lead->epoch;
  if (memcmp(lead->config_hash, node->identity.config, sizeof lead->config_hash) == 0) return 0;
  char here[2 * MESSAGE_HASH + 1], there[2 * MESSAGE_HASH + 1];
  sodium_bin2hex(here, sizeof here, node->identity.config, MESSAGE_HASH);
  sodium_bin2hex(there, sizeof there, lead->config_hash, MESSAGE_HASH);
  return kj_fail(error, KJ_REFUSED,
                 "the lead at %s serves another checkpoint: its configuration is %s, this node's (%s) is %s",
                 frame->peer, there, node->options.model, here);
}

static int welcome_upstream(struct node *node, const struct link_event *frame, const struct message_introduce *peer,
                            struct kj_error *error) {
  size_t oldest = 0;
  for (size_t i = 0; i < WAITING_UPSTREAMS; i++) {
    if (!node->waiting[i].link) {
      oldest = i;
      break;
    }
    if (node->waiting[i].link < node->waiting[oldest].link) oldest = i;
  }
  if (node->waiting[oldest].link) link_close(node->hub, node->waiting[oldest].link);
  node->waiting[oldest] = (struct upstream){frame->link, peer->session, peer->epoch, peer->stage};
  return report_ready(node, error);
}

static int handle_introduction(struct node *node, const struct link_event *frame, struct kj_error *error) {
  struct message_introduce peer;
  int code = message_decode_introduce(&peer, frame->payload, frame->length, error);
  if (code) return code;
  switch (peer.role) {
    case ROLE_LEAD:
      return welcome_lead(node, frame, &peer, error);
    case ROLE_UPSTREAM:
      return welcome_upstream(node, frame, &peer, error);
    case ROLE_NODE:
      return 0; /* the next stage answers our connection */
  }
  return 0;
}

static int handle_frame(struct node *node, const struct link_event *frame, struct kj_error *error) {
  if (frame->type == MESSAGE_INTRODUCE) return handle_introduction(node, frame, error);
  bool from_lead = frame->link == node->lead;
  if (frame->type == MESSAGE_ASSIGN && from_lead) return take_assignment(node, frame, error);
  if (frame->type == MESSAGE_STOP && from_lead) {
    struct message_fail stop;
    int code = message_decode_fail(&stop, frame->payload, frame->length, error);
    if (code) return code;
    node->told_to_stop = true;
    kj_fail(&node->stop_reason, stop.code ? (enum kj_code)stop.code : KJ_INTERNAL, "the lead ended the cluster: %s",
            stop.reason);
    return 0;
  }
  if (frame->type == MESSAGE_WORK || frame->type == MESSAGE_BLOCKS) {
    if (frame->epoch != node->assignment.epoch) return 0; /* of an epoch that is over */
    return frame->type == MESSAGE_WORK ? compute(node, frame, error) : take_blocks(node, frame, error);
  }
  return kj_fail(error, KJ_INVALID, "%s sent a message of type %u, which it may not", frame->peer, frame->type);
}

static void forget_waiting(struct node *node, uint64_t link) {
  for (size_t i = 0; i < WAITING_UPSTREAMS; i++)
    if (node->waiting[i].link == link) node->waiting[i] = (struct upstream){0};
}

static bool is_neighbour(const struct node *node, uint64_t link) {
  return link == node->lead || link == node->upstream.link || link == node->downstream;
}

static int handle_down(struct node *node, const struct link_event *event, struct kj_error *error) {
  forget_waiting(node, event->link);
  if (event->link == node->lead) {
    log_info("the lead has gone: %s; waiting for the next one", event->error.message);
    bool was_downstream = node->downstream == node->lead, was_upstream = node->upstream.link == node->lead;
    if (was_downstream) node->downstream = 0;
    if (was_upstream) node->upstream.link = 0;
    node->lead = 0;
    end_epoch(node);
    return 0;
  }
  if (event->link != node->downstream && event->link != node->upstream.link) return 0;
  const char *which = event->link == node->downstream ? "next" : "previous";
  if (event->link == node->downstream)
    node->downstream = 0;
  else
    node->upstream.link = 0;
  return kj_fail(error, event->error.code, "the link to the %s stage: %s", which, event->error.message);
}

static int handle_up(struct node *node, const struct link_event *event, struct kj_error *error) {
  if (event->accepted) return send_introduction(node, event->link, ROLE_NODE, error);
  if (event->link != node->downstream) return 0;
  allow_work(node, event->link);
  int code = send_introduction(node, event->link, ROLE_UPSTREAM, error);
  node->downstream_up = !code;
  return code ? code : report_ready(node, error);
}

/* Permanent faults of this node's own: it would fail in the same way for every lead. */
static bool own_fault(enum kj_code code) { return code == KJ_NOT_FOUND || code == KJ_UNSUPPORTED || code == KJ_IO; }

static int handle_event(struct node *node, struct link_event *event, struct kj_error *error) {
  struct kj_error problem = {0};
  int code = 0;
  bool assigning = event->kind == LINK_FRAME && event->type == MESSAGE_ASSIGN;
  bool neighbour = is_neighbour(node, event->link); /* before a link that is down is forgotten */
  switch (event->kind) {
    case LINK_UP:
      code = handle_up(node, event, &problem);
      break;
    case LINK_FRAME:
      code = handle_frame(node, event, &problem);
      break;
    case LINK_DOWN:
      code = handle_down(node, event, &problem);
      break;
  }
  if (!code) return 0;
  if (!neighbour && !is_neighbour(node, event->link)) { /* a mistake of somebody else's is not this epoch's business */
    log_warning("%s: %s", event->peer, problem.message);
    link_close(node->hub, event->link);
    forget_waiting(node, event->link);
    return 0;
  }
  fail_epoch(node, &problem);
  if (node->backend && !(assigning && own_fault((enum kj_code)code))) return 0;
  if (error) *error = problem;
  return code;
}

int node_run(struct node *node, struct kj_error *error) {
  while (!stopping(node)) {
    struct link_event event;
    while (!stopping(node) && link_next(node->hub, &event)) {
      int code = handle_event(node, &event, error);
      link_event_free(&event);
      if (code) return code;
      if (node->told_to_stop) {
        if (error) *error = node->stop_reason;
        return node->stop_reason.code;
      }
      report_written(node);
    }
    report_written(node);
    pthread_mutex_lock(&node->mutex);
    while (!node->woken) pthread_cond_wait(&node->wake, &node->mutex);
    node->woken = false;
    pthread_mutex_unlock(&node->mutex);
  }
  return 0;
}

static int open_node(struct node *node, char *bound, size_t bound_size, struct kj_error *error) {
  struct node_options *options = &node->options;
  int code = options->kv_disk ? kv_root_prepare(options->kv_disk, error) : 0;
  if (code) return kj_fail_context(error, "--kv-disk");
  if ((code = checkpoint_open(&node->checkpoint, options->model, error))) return code;
  if ((code = checkpoint_identity(node->checkpoint, 0, 0, false, &node->identity, error))) return code;
  if ((code = threads_create_on(&node->threads, options->threads, options->cpus, error))) return code;
  /* One row until the lead says how large its micro-batches are: an instruction set that is missing shows now. */
  if ((code = open_backend(node, 1, error))) return code;
  struct link_options link = {.provider = options->provider,
                              .key = options->key,
                              .deadline = options->deadline,
                              .notify = wake,
                              .context = node};
  if ((code = link_hub_open(&node->hub, &link, error))) return code;
  return link_listen(node->hub, options->listen, bound, bound_size, error);
}

int node_create(struct node **result, const struct node_options *options, char *bound, size_t bound_size,
                struct kj_error *error) {
  *result = NULL;
  struct node *node = calloc(1, sizeof *node);
  if (!node) return kj_fail_memory(error, "a node");
  node->options = *options;
  if (!node->options.isa) node->options.isa = "auto";
  /* Measured once: later the weights themselves have taken what was available. */
  if (!node->options.memory) node->options.memory = memory_available();
  pthread_mutex_init(&node->mutex, NULL);
  pthread_cond_init(&node->wake, NULL);
  randombytes_buf(&node->session, sizeof node->session);
  int code = open_node(node, bound, bound_size, error);
  if (code)
    node_destroy(node);
  else
    *result = node;
  return code;
}

void node_destroy(struct node *node) {
  if (!node) return;
  if (node->hub) link_hub_close(node->hub);
  kv_store_close(node->store);
  stage_close(node->stage);
  if (node->backend) node->backend->operations->destroy(node->backend);
  threads_destroy(node->threads);
  checkpoint_identity_free(&node->identity);
  checkpoint_close(node->checkpoint);
  pthread_cond_destroy(&node->wake);
  pthread_mutex_destroy(&node->mutex);
  free(node);
}
