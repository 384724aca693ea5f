/* A whole cluster in one process: the lead's engine and its nodes, each on a thread of its own, over loopback.
 *
 * Everything here gives its failures back as text (`struct kj_error`), so that it can be used off cmocka's thread.
 */
#ifndef KAIJU_TESTS_CLUSTER_IN_THREADS_H
#define KAIJU_TESTS_CLUSTER_IN_THREADS_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "sched/engine.h"
#include "stage/node.h"

enum {
  CLUSTER_MOST_NODES = 3,
  CLUSTER_MOST_TOKENS = 128, /* of an answer */
  CLUSTER_PATIENCE = 120     /* seconds without any event after which it counts as hanging */
};

struct thread_node {
  struct node_options options;
  char address[64];
  struct node *node;
  pthread_t thread;
};

struct thread_cluster {
  struct thread_node nodes[CLUSTER_MOST_NODES];
  const char *addresses[CLUSTER_MOST_NODES];
  size_t node_count; /* that run */
  struct engine *engine;
  bool running;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  /* Under the mutex. */
  bool ready;
  int code;
  struct kj_error error;
  uint64_t events; /* of all clients */
  uint32_t active; /* clients that wait for their last event */
};

/* What a client asks for and what it gets; the answer is guarded by the cluster's mutex until the last event. */
struct thread_client {
  struct thread_cluster *cluster;
  uint64_t id;
  uint32_t cancel_after;     /* tokens; 0: never */
  uint32_t cancel_prefilled; /* tokens of the prompt; 0: never */
  struct sampled answer[CLUSTER_MOST_TOKENS];
  uint32_t count, finals;
  uint32_t scored; /* tokens of the prompt that came with their scores */
  uint64_t scores; /* all of these, mixed to one number */
  enum finish finish;
  uint32_t prompt_tokens, prefilled, cached_tokens, drafted, accepted;
  const char *wrong; /* what was against the rules, or NULL */
  char error[1000];
};

static void *thread_node_run(void *context) {
  struct thread_node *node = context;
  node_run(node->node, NULL);
  return NULL;
}

static inline int thread_node_start(struct thread_node *node, struct kj_error *error) {
  char bound[sizeof node->address];
  bool again = node->address[0] != 0; /* the engine still reads it */
  node->options.listen = again ? node->address : "127.0.0.1:0";
  int code = node_create(&node->node, &node->options, bound, sizeof bound, error);
  if (code) return code;
  if (!again) memcpy(node->address, bound, sizeof bound);
  if (pthread_create(&node->thread, NULL, thread_node_run, node) == 0) return 0;
  node_destroy(node->node);
  return kj_fail_memory(error, "a thread");
}

static inline void thread_node_stop(struct thread_node *node) {
  node_stop(node->node);
  pthread_join(node->thread, NULL);
  node_destroy(node->node);
}

static void thread_cluster_ready(void *context) {
  struct thread_cluster *cluster = context;
  pthread_mutex_lock(&cluster->mutex);
  cluster->ready = true;
  pthread_cond_broadcast(&cluster->changed);
  pthread_mutex_unlock(&cluster->mutex);
}

static void *thread_cluster_run(void *context) {
  struct thread_cluster *cluster = context;
  int code = engine_run(cluster->engine, thread_cluster_ready, cluster, &cluster->error);
  pthread_mutex_lock(&cluster->mutex);
  cluster->code = code;
  cluster->ready = true;
  pthread_cond_broadcast(&cluster->changed);
  pthread_mutex_unlock(&cluster->mutex);
  return NULL;
}

/* Waits for a change, with the mutex held; false if there was none for too long. */
static inline bool thread_cluster_wait(struct thread_cluster *cluster) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += CLUSTER_PATIENCE;
  return pthread_cond_timedwait(&cluster->changed, &cluster->mutex, &until) != ETIMEDOUT;
}

/* Ends all of it; what was started of a cluster that could not be started, too. */
static inline int thread_cluster_stop(struct thread_cluster *cluster, struct kj_error *error) {
  if (cluster->running) {
    engine_stop(cluster->engine);
    pthread_join(cluster->thread, NULL);
  }
  int code = cluster->code;
  if (code && error) *error = cluster->error;
  engine_destroy(cluster->engine);
  while (cluster->node_count > 0) thread_node_stop(&cluster->nodes[--cluster->node_count]);
  pthread_cond_destroy(&cluster->changed);
  pthread_mutex_destroy(&cluster->mutex);
  return code;
}

/* `options` without addresses; nodes[i].options are set by the caller. Returns when the first token has gone round. */
static inline int thread_cluster_start(struct thread_cluster *cluster, struct engine_options options, size_t node_count,
                                       struct kj_error *error) {
  int code = 0;
  pthread_mutex_init(&cluster->mutex, NULL);
  pthread_cond_init(&cluster->changed, NULL);
  while (!code && cluster->node_count < node_count) {
    struct thread_node *node = &cluster->nodes[cluster->node_count];
    code = thread_node_start(node, error);
    if (!code) cluster->addresses[cluster->node_count++] = node->address;
  }
  options.nodes = cluster->addresses;
  options.node_count = node_count;
  if (!code) code = engine_create(&cluster->engine, &options, error);
  if (!code && pthread_create(&cluster->thread, NULL, thread_cluster_run, cluster) != 0)
    code = kj_fail_memory(error, "a thread");
  if (!code) {
    cluster->running = true;
    pthread_mutex_lock(&cluster->mutex);
    while (!cluster->ready && thread_cluster_wait(cluster)) continue;
    code = cluster->ready ? cluster->code : KJ_TIMEOUT;
    if (code && error) *error = cluster->error;
    pthread_mutex_unlock(&cluster->mutex);
  }
  if (code) thread_cluster_stop(cluster, NULL);
  return code;
}

/* What the engine promises of every event. */
static inline const char *thread_client_rule(const struct thread_client *client, const struct engine_event *event) {
  if (client->finals > 0) return "an event after the last one";
  if (event->has_token && client->count == CLUSTER_MOST_TOKENS) return "more tokens than were asked for";
  if (event->has_score && (event->has_token || client->count > 0)) return "a score of the prompt after it";
  if (event->completion_tokens != client->count + event->has_token) return "the count of tokens";
  if (event->prefilled > event->prompt_tokens) return "more of the prompt than there is";
  if (event->cached_tokens >= event->prompt_tokens) return "a prompt that is cached to its last token";
  if (event->draft_accepted > event->drafted_tokens) return "more accepted than drafted";
  if ((event->finish == FINISH_ERROR) != (event->error != NULL)) return "an error without its reason";
  return NULL;
}

static void thread_client_event(void *context, const struct engine_event *event) {
  struct thread_client *client = context;
  struct thread_cluster *cluster = client->cluster;
  pthread_mutex_lock(&cluster->mutex);
  const char *wrong = thread_client_rule(client, event);
  if (wrong) client->wrong = wrong;
  if (event->has_token && client->count < CLUSTER_MOST_TOKENS) client->answer[client->count++] = event->sampled;
  if (event->has_score) {
    uint32_t bits;
    memcpy(&bits, &event->sampled.logprob, sizeof bits);
    client->scored++;
    client->scores = (client->scores ^ bits ^ ((uint64_t)event->sampled.token << 32)) * 0x9e3779b97f4a7c15u;
  }
  client->prompt_tokens = event->prompt_tokens;
  client->prefilled = event->prefilled;
  client->cached_tokens = event->cached_tokens;
  client->drafted = event->drafted_tokens;
  client->accepted = event->draft_accepted;
  if (event->error) snprintf(client->error, sizeof client->error, "%s", event->error->message);
  if (event->finish != FINISH_NONE) {
    client->finish = event->finish;
    client->finals++;
    cluster->active--;
  }
  bool cancel =
      event->finish == FINISH_NONE && ((client->cancel_after && client->count >= client->cancel_after) ||
                                       (client->cancel_prefilled && event->prefilled >= client->cancel_prefilled));
  cluster->events++;
  pthread_cond_broadcast(&cluster->changed);
  pthread_mutex_unlock(&cluster->mutex);
  if (cancel) engine_cancel(cluster->engine, event->request);
}

/* `request` without a callback. */
static inline int thread_client_submit(struct thread_client *client, struct thread_cluster *cluster,
                                       struct request request, struct kj_error *error) {
  client->cluster = cluster;
  request.on_event = thread_client_event;
  request.context = client;
  pthread_mutex_lock(&cluster->mutex);
  cluster->active++;
  pthread_mutex_unlock(&cluster->mutex);
  int code = engine_submit(cluster->engine, &request, &client->id, error);
  if (!code) return 0;
  pthread_mutex_lock(&cluster->mutex);
  cluster->active--;
  pthread_mutex_unlock(&cluster->mutex);
  return code;
}

#endif
