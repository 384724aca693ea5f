#include "sched/cluster.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

_Static_assert((int)LINK_WAITING_FRAMES > (int)PLAN_MAX_IN_FLIGHT,
               "all that is in flight may wait at one link: a slow stage is no failure");

/* Seconds between attempts to reach a node, and, rising from there, between epochs that fail one after the other. */
static const double RETRY_INTERVAL = 0.5, LONGEST_RETRY_INTERVAL = 5;

/* The result of a micro-batch that is on its way. */
struct expected {
  uint64_t number;
  uint32_t outputs;
};

struct cluster {
  struct cluster_options options;
  struct link_hub *hub;
  uint64_t session, epoch;
  struct cluster_node *nodes;
  size_t count;
  bool introduced, assigned, ready; /* reported, of the current epoch */
  bool failed;                      /* reported; nothing more happens until cluster_begin */
  double retry_interval;            /* before the next epoch */
  uint32_t hidden;
  struct expected *expected; /* ring: results that are to come, the next one first */
  uint32_t expected_first, expected_count;
  struct disk_index *disk_index; /* borrowed; or NULL */
};

int cluster_open(struct cluster **result, const struct cluster_options *options, struct kj_error *error) {
  *result = NULL;
  struct cluster *cluster = calloc(1, sizeof *cluster);
  if (!cluster) return kj_fail_memory(error, "the cluster");
  cluster->options = *options;
  cluster->count = options->count;
  cluster->nodes = calloc(options->count, sizeof *cluster->nodes);
  cluster->expected = calloc(PLAN_MAX_IN_FLIGHT, sizeof *cluster->expected);
  if (!cluster->nodes || !cluster->expected) {
    cluster_close(cluster);
    return kj_fail_memory(error, "the cluster");
  }
  for (size_t i = 0; i < options->count; i++) cluster->nodes[i].address = options->addresses[i];
  int code = link_hub_open(&cluster->hub, &options->link, error);
  if (code) {
    cluster_close(cluster);
    return code;
  }
  cluster->retry_interval = RETRY_INTERVAL;
  randombytes_buf(&cluster->session, sizeof cluster->session);
  *result = cluster;
  return 0;
}

void cluster_close(struct cluster *cluster) {
  if (!cluster) return;
  if (cluster->hub) link_hub_close(cluster->hub);
  free(cluster->expected);
  free(cluster->nodes);
  free(cluster);
}

uint64_t cluster_epoch(const struct cluster *cluster) { return cluster->epoch; }
const char *cluster_provider(const struct cluster *cluster) { return link_hub_provider(cluster->hub); }

const struct cluster_node *cluster_nodes(const struct cluster *cluster, size_t *count) {
  *count = cluster->count;
  return cluster->nodes;
}

bool cluster_statistics(struct cluster *cluster, size_t node, struct link_statistics *statistics) {
  return cluster->nodes[node].link && link_statistics(cluster->hub, cluster->nodes[node].link, statistics);
}

static void forget_node(struct cluster_node *node) {
  node->up = node->introduced = node->ready = node->told_to_stop = false;
  node->layers_warm = 0;
  node->link = 0;
}

void cluster_begin(struct cluster *cluster) {
  for (size_t i = 0; i < cluster->count; i++) {
    if (cluster->nodes[i].link) link_close(cluster->hub, cluster->nodes[i].link);
    forget_node(&cluster->nodes[i]);
    cluster->nodes[i].retry_at = cluster->epoch ? clock_seconds() + cluster->retry_interval : 0;
  }
  if (cluster->epoch) cluster->retry_interval = fmin(2 * cluster->retry_interval, LONGEST_RETRY_INTERVAL);
  cluster->epoch++;
  cluster->introduced = cluster->assigned = cluster->ready = cluster->failed = false;
  cluster->expected_count = 0;
}

static struct cluster_node *find_node(struct cluster *cluster, uint64_t link) {
  for (size_t i = 0; i < cluster->count; i++)
    if (cluster->nodes[i].link == link && link) return &cluster->nodes[i];
  return NULL;
}

static void fail(struct cluster *cluster, struct cluster_event *event, const struct kj_error *error) {
  cluster->failed = true;
  event->kind = CLUSTER_FAILED;
  event->error = *error;
}

/* The node could not be reached; it is tried again. */
static void miss(struct cluster_node *node, struct cluster_event *event, const struct kj_error *error) {
  char reason[sizeof node->unreached];
  snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, error->message);
  node->retry_at = clock_seconds() + RETRY_INTERVAL;
  event->kind = CLUSTER_UNREACHED;
  event->error = *error;
  event->news = strcmp(node->unreached, reason) != 0;
  memcpy(node->unreached, reason, sizeof reason);
}

static int introduce(struct cluster *cluster, const struct cluster_node *node, struct kj_error *error) {
  struct message_introduce introduction = cluster->options.introduction;
  introduction.role = ROLE_LEAD;
  introduction.session = cluster->session;
  introduction.epoch = cluster->epoch;
  struct buffer payload = {0};
  message_encode_introduce(&payload, &introduction);
  int code = buffer_failed(&payload) ? kj_fail_memory(error, "a message") : 0;
  if (!code)
    code = link_send(cluster->hub, node->link, MESSAGE_INTRODUCE, cluster->epoch,
                     &(struct link_part){payload.data, payload.length}, 1, error);
  buffer_free(&payload);
  return code;
}

static int check_introduction(const struct cluster *cluster, const struct cluster_node *node, struct kj_error *error) {
  const struct message_introduce *theirs = &node->introduction, *ours = &cluster->options.introduction;
  if (theirs->role != ROLE_NODE) return kj_fail(error, KJ_REFUSED, "this is another lead, not a node (kaiju node)");
  if (memcmp(theirs->config_hash, ours->config_hash, sizeof ours->config_hash) != 0) {
    char here[2 * MESSAGE_HASH + 1], there[2 * MESSAGE_HASH + 1];
    sodium_bin2hex(here, sizeof here, ours->config_hash, MESSAGE_HASH);
    sodium_bin2hex(there, sizeof there, theirs->config_hash, MESSAGE_HASH);
    return kj_fail(error, KJ_REFUSED, "another checkpoint: its configuration is %s, here it is %s", there, here);
  }
  for (size_t i = 0; i < cluster->count; i++)
    if (&cluster->nodes[i] != node && cluster->nodes[i].introduced &&
        cluster->nodes[i].introduction.session == theirs->session)
      return kj_fail(error, KJ_REFUSED, "this is the same node as %s", cluster->nodes[i].address);
  return 0;
}

static bool all(const struct cluster *cluster, bool (*is)(const struct cluster_node *node)) {
  for (size_t i = 0; i < cluster->count; i++)
    if (!is(&cluster->nodes[i])) return false;
  return true;
}

static bool node_introduced(const struct cluster_node *node) { return node->introduced; }
static bool node_ready(const struct cluster_node *node) { return node->ready; }

static int handle_result(struct cluster *cluster, const struct cluster_node *node, const struct link_event *frame,
                         struct cluster_event *event, struct kj_error *error) {
  if (!cluster->ready || node != &cluster->nodes[cluster->count - 1])
    return kj_fail(error, KJ_INVALID, "a result that nobody waits for");
  if (cluster->expected_count == 0) return kj_fail(error, KJ_INVALID, "a result, with no micro-batch on its way");
  const struct expected *next = &cluster->expected[cluster->expected_first];
  int code =
      message_decode_result(&event->result, frame->payload, frame->length, cluster->hidden, next->outputs, error);
  if (code) return code;
  if (event->result.number != next->number) {
    code = kj_fail(error, KJ_INVALID, "the result of micro-batch %llu instead of %llu",
                   (unsigned long long)event->result.number, (unsigned long long)next->number);
    message_free_result(&event->result);
    return code;
  }
  cluster->expected_first = (cluster->expected_first + 1) % PLAN_MAX_IN_FLIGHT;
  cluster->expected_count--;
  event->kind = CLUSTER_RESULT;
  return 0;
}

static int handle_inventory(struct cluster *cluster, const struct cluster_node *node, const struct link_event *frame,
                            struct kj_error *error) {
  struct message_inventory inventory;
  int code = message_decode_inventory(&inventory, frame->payload, frame->length, error);
  if (code) return code;
  uint32_t stage = (uint32_t)(node - cluster->nodes) + 1;
  if (!cluster->assigned) {
    code = kj_fail(error, KJ_INVALID, "an inventory without an assignment");
  } else if (cluster->disk_index) {
    disk_index_identify(cluster->disk_index, stage, inventory.identity);
    code = disk_index_add(cluster->disk_index, stage, inventory.capacity, inventory.keys, inventory.count, error);
  }
  message_free_inventory(&inventory);
  return code;
}

static int handle_frame(struct cluster *cluster, struct cluster_node *node, const struct link_event *frame,
                        struct cluster_event *event, struct kj_error *error) {
  struct message_progress progress;
  struct message_ready ready;
  struct message_fail failure;
  int code = 0;
  bool of_the_epoch = frame->type != MESSAGE_INTRODUCE && frame->type != MESSAGE_FAIL;
  if (of_the_epoch && frame->epoch != cluster->epoch) return 0;
  switch (frame->type) {
    case MESSAGE_INTRODUCE:
      code = message_decode_introduce(&node->introduction, frame->payload, frame->length, error);
      if (!code) code = check_introduction(cluster, node, error);
      node->introduced = !code;
      return code;
    case MESSAGE_PROGRESS:
      code = message_decode_progress(&progress, frame->payload, frame->length, error);
      if (!code) node->layers_warm = progress.done;
      return code;
    case MESSAGE_READY:
      code = message_decode_ready(&ready, frame->payload, frame->length, error);
      if (code || !cluster->assigned) return code ? code : kj_fail(error, KJ_INVALID, "ready without an assignment");
      node->ready = true;
      node->peak_memory = ready.peak_memory;
      return 0;
    case MESSAGE_RESULT:
      return handle_result(cluster, node, frame, event, error);
    case MESSAGE_INVENTORY:
      return handle_inventory(cluster, node, frame, error);
    case MESSAGE_FAIL:
      code = message_decode_fail(&failure, frame->payload, frame->length, error);
      if (code) return code;
      return kj_fail(error, failure.code ? (enum kj_code)failure.code : KJ_INTERNAL, "%s", failure.reason);
    default:
      return kj_fail(error, KJ_INVALID, "a message of unknown type %u", frame->type);
  }
}

/* Says which node an error is about. A node that has lost a neighbour knows an accepted link by a port that means
 * nothing to a person: the neighbours' names say which hop it is. */
static void add_sender(const struct cluster *cluster, const struct cluster_node *node, const struct link_event *frame,
                       struct kj_error *error) {
  size_t index = (size_t)(node - cluster->nodes);
  if (frame->type == MESSAGE_FAIL && (error->code == KJ_NETWORK || error->code == KJ_TIMEOUT))
    kj_fail_context(error, "node %s (between %s and %s)", node->address,
                    index > 0 ? cluster->nodes[index - 1].address : "the lead",
                    index + 1 < cluster->count ? cluster->nodes[index + 1].address : "the lead");
  else
    kj_fail_context(error, "node %s", node->address);
}

static void handle_event(struct cluster *cluster, struct link_event *link, struct cluster_event *event) {
  struct cluster_node *node = find_node(cluster, link->link);
  if (!node || cluster->failed) return;
  struct kj_error error = {0};
  switch (link->kind) {
    case LINK_UP:
      node->up = true;
      /* A link that has gone meanwhile is reported as LINK_DOWN. */
      if (introduce(cluster, node, &error) && error.code != KJ_NETWORK) fail(cluster, event, &error);
      return;
    case LINK_FRAME:
      if (handle_frame(cluster, node, link, event, &error)) {
        add_sender(cluster, node, link, &error);
        fail(cluster, event, &error);
      }
      return;
    case LINK_DOWN:
      forget_node(node);
      miss(node, event, &link->error);
      if (cluster->introduced || link->error.code == KJ_REFUSED || link->error.code == KJ_UNSUPPORTED)
        fail(cluster, event, &link->error);
      return;
  }
}

/* Connects to every node that is down and due. */
static void connect_due(struct cluster *cluster, struct cluster_event *event) {
  double now = clock_seconds();
  for (size_t i = 0; i < cluster->count && event->kind == CLUSTER_NOTHING; i++) {
    struct cluster_node *node = &cluster->nodes[i];
    if (node->link || node->retry_at > now) continue;
    struct kj_error error;
    if (link_connect(cluster->hub, node->address, &node->link, &error)) {
      node->link = 0;
      miss(node, event, &error);
      if (error.code == KJ_INVALID || error.code == KJ_REFUSED) fail(cluster, event, &error);
    }
  }
}

void cluster_poll(struct cluster *cluster, struct cluster_event *event) {
  *event = (struct cluster_event){.kind = CLUSTER_NOTHING};
  struct link_event link;
  while (event->kind == CLUSTER_NOTHING && link_next(cluster->hub, &link)) {
    handle_event(cluster, &link, event);
    link_event_free(&link);
  }
  if (event->kind != CLUSTER_NOTHING || cluster->failed) return;
  if (cluster->epoch > 0) connect_due(cluster, event);
  if (event->kind != CLUSTER_NOTHING) return;
  if (!cluster->introduced && all(cluster, node_introduced)) {
    cluster->introduced = true;
    event->kind = CLUSTER_INTRODUCED;
  } else if (!cluster->ready && cluster->assigned && all(cluster, node_ready)) {
    cluster->ready = true;
    cluster->retry_interval = RETRY_INTERVAL;
    event->kind = CLUSTER_READY;
  }
}

double cluster_next_retry(const struct cluster *cluster) {
  double next = INFINITY;
  if (cluster->failed) return next;
  for (size_t i = 0; i < cluster->count; i++)
    if (!cluster->nodes[i].link && cluster->nodes[i].retry_at < next) next = cluster->nodes[i].retry_at;
  return next;
}

static int assign_node(struct cluster *cluster, size_t index, struct message_assign *assign, struct kj_error *error) {
  struct buffer payload = {0};
  message_encode_assign(&payload, assign);
  int code = buffer_failed(&payload) ? kj_fail_memory(error, "a message") : 0;
  if (!code)
    code = link_send(cluster->hub, cluster->nodes[index].link, MESSAGE_ASSIGN, cluster->epoch,
                     &(struct link_part){payload.data, payload.length}, 1, error);
  buffer_free(&payload);
  return code;
}

int cluster_assign(struct cluster *cluster, const struct plan *plan, const struct checkpoint_identity *identity,
                   uint32_t max_batch_tokens, uint32_t hidden, struct kj_error *error) {
  int code = 0;
  cluster->hidden = hidden;
  size_t limit = message_limit(max_batch_tokens, hidden, plan->kv_blocks);
  struct message_shard *shards = calloc(identity->shard_count + 1, sizeof *shards);
  if (!shards) return kj_fail_memory(error, "the shards' identities");
  for (size_t i = 0; i < identity->shard_count; i++) {
    snprintf(shards[i].name, sizeof shards[i].name, "%s", identity->shards[i].name);
    memcpy(shards[i].hash, identity->shards[i].hash, sizeof shards[i].hash);
  }
  for (size_t i = 0; i < cluster->count && !code; i++) {
    struct message_assign assign = {
        .session = cluster->session,
        .epoch = cluster->epoch,
        .stage = (uint32_t)i + 1,
        .stage_count = (uint32_t)cluster->count + 1,
        .first_layer = plan->stages[i + 1].first_layer,
        .layer_count = plan->stages[i + 1].layer_count,
        .kv_blocks = plan->kv_blocks,
        .max_batch_tokens = max_batch_tokens,
        .shard_count = (uint32_t)identity->shard_count,
        .shards = shards,
    };
    if (i + 1 < cluster->count) snprintf(assign.next, sizeof assign.next, "%s", cluster->nodes[i + 1].address);
    link_set_limit(cluster->hub, cluster->nodes[i].link, limit);
    code = assign_node(cluster, i, &assign, error);
  }
  free(shards);
  cluster->assigned = !code;
  return code;
}

void cluster_expect(struct cluster *cluster, uint64_t number, uint32_t outputs) {
  uint32_t place = (cluster->expected_first + cluster->expected_count++) % PLAN_MAX_IN_FLIGHT;
  cluster->expected[place] = (struct expected){number, outputs};
}

int cluster_send(struct cluster *cluster, const struct message_work *work, struct kj_error *error) {
  struct buffer head = {0};
  message_encode_work(&head, work);
  int code = buffer_failed(&head) ? kj_fail_memory(error, "a message") : 0;
  const struct link_part parts[] = {{head.data, head.length},
                                    {work->rows, (size_t)work->batch.tokens * work->hidden * sizeof(float)}};
  if (!code) code = link_send(cluster->hub, cluster->nodes[0].link, MESSAGE_WORK, cluster->epoch, parts, 2, error);
  buffer_free(&head);
  return code;
}

void cluster_use_disk_index(struct cluster *cluster, struct disk_index *index) { cluster->disk_index = index; }

int cluster_send_blocks(struct cluster *cluster, struct block_operation *operations, size_t count,
                        struct kj_error *error) {
  int code = 0;
  for (size_t sent = 0; sent < count && !code; sent += MESSAGE_MAX_BLOCK_OPERATIONS) {
    size_t part = count - sent < MESSAGE_MAX_BLOCK_OPERATIONS ? count - sent : MESSAGE_MAX_BLOCK_OPERATIONS;
    struct message_blocks blocks = {.count = (uint32_t)part, .operations = operations + sent};
    struct buffer payload = {0};
    message_encode_blocks(&payload, &blocks);
    code = buffer_failed(&payload) ? kj_fail_memory(error, "a message") : 0;
    if (!code)
      code = link_send(cluster->hub, cluster->nodes[0].link, MESSAGE_BLOCKS, cluster->epoch,
                       &(struct link_part){payload.data, payload.length}, 1, error);
    buffer_free(&payload);
  }
  return code;
}

/* Only what tells which nodes can be reached still matters. */
static void notice_links(struct cluster *cluster) {
  struct link_event link;
  while (link_next(cluster->hub, &link)) {
    struct cluster_node *node = find_node(cluster, link.link);
    if (node && link.kind == LINK_UP) node->up = introduce(cluster, node, NULL) == 0;
    if (node && link.kind == LINK_DOWN) forget_node(node);
    link_event_free(&link);
  }
}

bool cluster_stop(struct cluster *cluster, const struct kj_error *reason) {
  struct message_fail stop = {.code = (uint32_t)reason->code};
  snprintf(stop.reason, sizeof stop.reason, "%s", reason->message);
  struct buffer payload = {0};
  message_encode_fail(&payload, &stop);
  notice_links(cluster);
  bool all_told = true;
  for (size_t i = 0; i < cluster->count && !buffer_failed(&payload); i++) {
    struct cluster_node *node = &cluster->nodes[i];
    if (node->up && !node->told_to_stop) {
      link_send(cluster->hub, node->link, MESSAGE_STOP, cluster->epoch,
                &(struct link_part){payload.data, payload.length}, 1, NULL);
      node->told_to_stop = true;
    }
    all_told &= !node->link || node->up;
  }
  buffer_free(&payload);
  return all_told;
}
