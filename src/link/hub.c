#include "link/hub.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"

static void wake(struct link_hub *hub) {
  uint64_t one = 1;
  ssize_t ignored = write(hub->wake, &one, sizeof one); /* fails only if a wake-up is pending anyway */
  (void)ignored;
}

struct segment *hub_take_segment(struct link_hub *hub) {
  pthread_mutex_lock(&hub->mutex);
  struct segment *segment = hub->spare;
  if (segment) {
    hub->spare = segment->next;
    hub->spare_count--;
  }
  pthread_mutex_unlock(&hub->mutex);
  if (!segment) return segment_create();
  segment->next = NULL; /* it is a list of its own from here on, not the head of the spare ones */
  return segment;
}

void hub_give_segments(struct link_hub *hub, struct segment *segments) {
  if (!segments) return;
  pthread_mutex_lock(&hub->mutex);
  while (segments) {
    struct segment *next = segments->next;
    segments->next = hub->spare;
    hub->spare = segments;
    hub->spare_count++;
    segments = next;
  }
  pthread_mutex_unlock(&hub->mutex);
}

/* The hub's thread: releasing a segment takes back its registration. */
static void free_spare_segments(struct link_hub *hub, size_t keep) {
  for (;;) {
    pthread_mutex_lock(&hub->mutex);
    struct segment *segment = hub->spare_count > keep ? hub->spare : NULL;
    if (segment) {
      hub->spare = segment->next;
      hub->spare_count--;
    }
    pthread_mutex_unlock(&hub->mutex);
    if (!segment) return;
    segment_free(segment);
  }
}

static void free_event(struct event_node *node) {
  link_event_free(&node->event);
  free(node);
}

void hub_raise(struct link_hub *hub, struct connection *connection, struct event_node *node) {
  node->event.link = connection->id;
  node->event.accepted = connection->accepted;
  memcpy(node->event.peer, connection->peer, sizeof node->event.peer);
  node->next = NULL;
  pthread_mutex_lock(&hub->mutex);
  bool wanted = !connection->quiet;
  if (wanted) {
    *hub->events_tail = node;
    hub->events_tail = &node->next;
    hub->raised = true;
  }
  pthread_mutex_unlock(&hub->mutex);
  if (!wanted) free_event(node);
}

/* Under the mutex. */
static struct connection *find(struct link_hub *hub, uint64_t link) {
  struct connection *connection = hub->connections;
  while (connection && connection->id != link) connection = connection->next;
  return connection;
}

/* Under the mutex. False if there are too many, or the hub is closing. */
static bool add_connection(struct link_hub *hub, struct connection *connection) {
  if (hub->connection_count >= HUB_CONNECTIONS || hub->stopping) return false;
  connection->id = hub->next_id++;
  connection->next = hub->connections;
  hub->connections = connection;
  hub->connection_count++;
  return true;
}

/* The first connection, for the hub's thread: others only ever put new ones in front of it. */
static struct connection *first_connection(struct link_hub *hub) {
  pthread_mutex_lock(&hub->mutex);
  struct connection *connection = hub->connections;
  pthread_mutex_unlock(&hub->mutex);
  return connection;
}

/* Strangers, those that are being told why they are refused included. */
static size_t half_open(struct link_hub *hub) {
  size_t count = 0;
  for (const struct connection *item = first_connection(hub); item; item = item->next)
    count += item->accepted && (item->state < STATE_UP || item->state == STATE_REFUSING);
  return count;
}

static void answer_request(struct link_hub *hub, struct fabric_event *event, uint64_t now) {
  char peer[ADDRESS_TEXT];
  address_format(&event->peer, peer);
  struct connection *connection = half_open(hub) < HUB_HALF_OPEN ? connection_create(hub, true) : NULL;
  pthread_mutex_lock(&hub->mutex);
  bool added = connection && add_connection(hub, connection);
  pthread_mutex_unlock(&hub->mutex);
  if (!added) {
    log_warning("connection turned away: %s: too many connections", peer);
    if (connection) connection_destroy(connection);
    request_reject(event->request);
    return;
  }
  memcpy(connection->peer, peer, sizeof peer);
  connection_accept(connection, event->request, now);
}

/* Takes at most so many completions; true if there may be more. */
static bool take_completions(struct link_hub *hub, size_t most) {
  for (; most > 0; most--) {
    struct transfer *transfer = fabric_next_completion(hub->fabric);
    if (!transfer) return false;
    connection_completed(transfer->owner, transfer, clock_nanoseconds());
  }
  return true;
}

/* The same of events. */
static bool take_events(struct link_hub *hub, size_t most) {
  for (; most > 0; most--) {
    struct fabric_event event;
    if (!fabric_next_event(hub->fabric, &event)) return false;
    uint64_t now = clock_nanoseconds();
    if (event.kind == EVENT_REQUEST) {
      answer_request(hub, &event, now);
    } else if (event.kind == EVENT_CONNECTED) {
      connection_connected(event.owner, now);
    } else {
      struct connection *connection = event.owner;
      struct endpoint *endpoint = connection->endpoint;
      take_completions(hub, HUB_TRANSFERS); /* its last words come before the news that it is gone */
      if (connection->endpoint == endpoint) connection_lost(connection, event.reason);
    }
  }
  return true;
}

/* Does what link_listen asks for. */
static void serve_listen(struct link_hub *hub) {
  pthread_mutex_lock(&hub->mutex);
  struct listen_request *request = hub->listen;
  hub->listen = NULL;
  pthread_mutex_unlock(&hub->mutex);
  if (!request) return;
  int code = KJ_NOT_FOUND;
  for (size_t i = 0; i < request->count && code; i++)
    code = fabric_listen(hub->fabric, &request->addresses[i], &request->bound, &request->error);
  if (!code) hub->listening = true;
  pthread_mutex_lock(&hub->mutex);
  request->code = code;
  request->done = true;
  pthread_cond_broadcast(&hub->answered);
  pthread_mutex_unlock(&hub->mutex);
}

static void remove_dead(struct link_hub *hub) {
  struct connection *dead = NULL;
  pthread_mutex_lock(&hub->mutex);
  for (struct connection **link = &hub->connections; *link;) {
    struct connection *connection = *link;
    if (connection->state != STATE_DEAD) {
      link = &connection->next;
      continue;
    }
    *link = connection->next;
    hub->connection_count--;
    connection->next = dead;
    dead = connection;
  }
  pthread_mutex_unlock(&hub->mutex);
  while (dead) {
    struct connection *connection = dead;
    dead = connection->next;
    connection_destroy(connection);
  }
}

static uint64_t advance_all(struct link_hub *hub) {
  uint64_t next = UINT64_MAX, now = clock_nanoseconds();
  for (struct connection *connection = first_connection(hub); connection; connection = connection->next) {
    uint64_t wanted = connection_advance(connection, now);
    if (wanted < next) next = wanted;
  }
  return next;
}

/* Now and then, ends connections that never became one of the hub's. Returns when to call it again. */
static uint64_t sweep(struct link_hub *hub) {
  if (!hub->listening) return UINT64_MAX;
  uint64_t now = clock_nanoseconds();
  if (now < hub->next_sweep) return hub->next_sweep;
  if (hub->next_sweep != 0) fabric_drop_silent(hub->fabric);
  hub->next_sweep = now + (hub->deadline < hub_patience ? hub->deadline : hub_patience);
  return hub->next_sweep;
}

/* True once: when the hub has been asked to close. */
static bool begin_stopping(struct link_hub *hub, bool stopping) {
  pthread_mutex_lock(&hub->mutex);
  bool begin = hub->stopping && !stopping;
  for (struct connection *item = begin ? hub->connections : NULL; item; item = item->next) {
    item->close_requested = true;
    item->quiet = true;
    item->up = false;
  }
  pthread_mutex_unlock(&hub->mutex);
  return begin;
}

static void tell_owner(struct link_hub *hub) {
  pthread_mutex_lock(&hub->mutex);
  bool raised = hub->raised;
  hub->raised = false;
  pthread_mutex_unlock(&hub->mutex);
  if (raised && hub->notify) hub->notify(hub->context);
}

static void sleep_until(struct link_hub *hub, uint64_t next) {
  struct pollfd descriptors[FABRIC_POLL + 1];
  size_t count = fabric_sleep(hub->fabric, descriptors);
  if (count == 0) return;
  descriptors[count++] = (struct pollfd){.fd = hub->wake, .events = POLLIN};
  uint64_t now = clock_nanoseconds();
  int timeout = -1;
  if (next != UINT64_MAX) {
    uint64_t milliseconds = next > now ? (next - now + 999999) / 1000000 : 0;
    timeout = milliseconds < 60000 ? (int)milliseconds : 60000;
  }
  poll(descriptors, count, timeout);
  if (descriptors[count - 1].revents) {
    uint64_t ignored;
    ssize_t length = read(hub->wake, &ignored, sizeof ignored);
    (void)length;
  }
}

static void *run(void *argument) {
  /* A peer that never stops sending, or strangers who never stop coming, must not keep the thread from the others. */
  enum { EVENTS_A_TURN = 32, COMPLETIONS_A_TURN = 32 };
  struct link_hub *hub = argument;
  bool stopping = false;
  for (;;) {
    serve_listen(hub);
    bool more = take_events(hub, EVENTS_A_TURN);
    if (take_completions(hub, COMPLETIONS_A_TURN)) more = true;
    if (begin_stopping(hub, stopping)) stopping = true;
    uint64_t next = advance_all(hub), next_sweep = sweep(hub);
    remove_dead(hub);
    free_spare_segments(hub, HUB_SPARE_SEGMENTS);
    tell_owner(hub);
    if (stopping && !first_connection(hub)) return NULL; /* the connections' own deadlines bound this */
    if (!more) sleep_until(hub, next < next_sweep ? next : next_sweep);
  }
}

static int start_thread(struct link_hub *hub, struct kj_error *error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals, SIGPIPE among them, are not for this thread */
  int status = pthread_create(&hub->thread, NULL, run, hub);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status) return kj_fail(error, KJ_MEMORY, "cannot start the thread for links: %s", strerror(status));
  hub->started = true;
  return 0;
}

static int read_options(struct link_hub *hub, const struct link_options *options, struct kj_error *error) {
  double deadline = options->deadline == 0 ? 10 : options->deadline;
  double heartbeat = options->heartbeat == 0 ? fmin(1, deadline / 4) : options->heartbeat;
  if (!(heartbeat > 0) || !(deadline > heartbeat) || !(deadline < 1e6))
    return kj_fail(error, KJ_INVALID,
                   "heartbeats every %g s and a deadline of %g s: both must be positive, and the deadline longer",
                   heartbeat, deadline);
  hub->heartbeat = (uint64_t)(heartbeat * 1e9);
  hub->deadline = (uint64_t)(deadline * 1e9);
  hub->notify = options->notify;
  hub->context = options->context;
  hub->has_key = options->key != NULL;
  if (options->key) memcpy(hub->key, options->key, LINK_KEY_BYTES);
  return 0;
}

int link_hub_open(struct link_hub **result, const struct link_options *options, struct kj_error *error) {
  *result = NULL;
  if (sodium_init() < 0) return kj_fail(error, KJ_INTERNAL, "the system has no source of random numbers");
  struct link_hub *hub = calloc(1, sizeof *hub);
  if (!hub) return kj_fail_memory(error, "the hub of the links");
  pthread_mutex_init(&hub->mutex, NULL);
  pthread_cond_init(&hub->answered, NULL);
  hub->events_tail = &hub->events;
  hub->next_id = 1;
  hub->wake = -1;
  int code = read_options(hub, options, error);
  /* RDMA has no loopback addresses, and without a key there are only those. */
  const char *provider = options->provider || options->key ? options->provider : "tcp";
  if (!code) code = fabric_open(&hub->fabric, provider, error);
  if (!code) {
    memcpy(hub->provider, fabric_provider(hub->fabric), strlen(fabric_provider(hub->fabric)) + 1);
    hub->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hub->wake < 0) code = kj_fail(error, KJ_IO, "cannot make an event descriptor: %s", strerror(errno));
  }
  if (!code) code = start_thread(hub, error);
  if (code)
    link_hub_close(hub);
  else
    *result = hub;
  return code;
}

void link_hub_close(struct link_hub *hub) {
  if (!hub) return;
  if (hub->started) {
    pthread_mutex_lock(&hub->mutex);
    hub->stopping = true;
    pthread_mutex_unlock(&hub->mutex);
    wake(hub);
    pthread_join(hub->thread, NULL);
  }
  while (hub->events) {
    struct event_node *node = hub->events;
    hub->events = node->next;
    free_event(node);
  }
  free_spare_segments(hub, 0);
  fabric_close(hub->fabric);
  if (hub->wake >= 0) close(hub->wake);
  pthread_cond_destroy(&hub->answered);
  pthread_mutex_destroy(&hub->mutex);
  sodium_memzero(hub->key, sizeof hub->key);
  free(hub);
}

const char *link_hub_provider(const struct link_hub *hub) { return hub->provider; }

/* Resolves an address, and checks that it may be used without a key. */
static int resolve(const struct link_hub *hub, const char *text, struct address *addresses, size_t *count,
                   struct kj_error *error) {
  int code = address_resolve(text, addresses, count, error);
  for (size_t i = 0; i < *count && !code && !hub->has_key; i++)
    if (!address_is_loopback(&addresses[i]))
      code = kj_fail(error, KJ_INVALID,
                     "%s: without a cluster key only loopback addresses such as 127.0.0.1 may be used; make a key with "
                     "`kaiju keygen`, copy it to every node and pass it with --key-file",
                     text);
  return code;
}

int link_listen(struct link_hub *hub, const char *address, char *bound, size_t bound_size, struct kj_error *error) {
  struct address addresses[ADDRESS_MAX];
  struct listen_request request = {.addresses = addresses};
  int code = resolve(hub, address, addresses, &request.count, error);
  if (code) return code;
  pthread_mutex_lock(&hub->mutex);
  while (hub->listen) pthread_cond_wait(&hub->answered, &hub->mutex);
  hub->listen = &request;
  wake(hub);
  while (!request.done) pthread_cond_wait(&hub->answered, &hub->mutex);
  pthread_mutex_unlock(&hub->mutex);
  if (request.code) {
    if (error) *error = request.error;
    return request.code;
  }
  char text[ADDRESS_TEXT];
  address_format(&request.bound, text);
  if (bound_size) {
    strncpy(bound, text, bound_size - 1);
    bound[bound_size - 1] = '\0';
  }
  return 0;
}

int link_connect(struct link_hub *hub, const char *address, uint64_t *link, struct kj_error *error) {
  *link = 0;
  struct connection *connection = connection_create(hub, false);
  if (!connection) return kj_fail_memory(error, "a connection");
  int code = resolve(hub, address, connection->addresses, &connection->address_count, error);
  if (!code) {
    strncpy(connection->peer, address, sizeof connection->peer - 1);
    connection->until = clock_nanoseconds() + hub->deadline;
    pthread_mutex_lock(&hub->mutex);
    bool added = add_connection(hub, connection);
    if (added) *link = connection->id;
    pthread_mutex_unlock(&hub->mutex);
    if (!added)
      code = kj_fail(error, KJ_NETWORK, "%s: this process has %d connections already", address, HUB_CONNECTIONS);
  }
  if (code)
    connection_destroy(connection);
  else
    wake(hub);
  return code;
}

void link_set_limit(struct link_hub *hub, uint64_t link, size_t bytes) {
  pthread_mutex_lock(&hub->mutex);
  struct connection *connection = find(hub, link);
  if (connection) {
    uint64_t frames = LINK_WAITING_FRAMES * hub_cost(bytes);
    connection->limit = bytes;
    connection->bound = frames > HUB_LEAST_BOUND ? frames : HUB_LEAST_BOUND;
  }
  pthread_mutex_unlock(&hub->mutex);
}

/* Under the mutex: may a frame of this length be sent? */
static int check_send(struct link_hub *hub, uint64_t link, uint64_t length, struct connection **result,
                      struct kj_error *error) {
  struct connection *connection = find(hub, link);
  *result = connection;
  if (!connection || !connection->up)
    return kj_fail(error, KJ_NETWORK, "link %llu%s%s is not up", (unsigned long long)link, connection ? " to " : "",
                   connection ? connection->peer : "");
  if (length > connection->limit)
    return kj_fail(error, KJ_INVALID, "%s: a frame of %llu bytes is beyond the link's limit of %llu", connection->peer,
                   (unsigned long long)length, (unsigned long long)connection->limit);
  if (connection->queued + hub_cost(length) > connection->bound)
    return kj_fail(error, KJ_NETWORK, "%s: %llu bytes wait to be sent already", connection->peer,
                   (unsigned long long)connection->queued);
  return 0;
}

/* Copies header and parts into segments. NULL: out of memory. */
static struct segment *fill_segments(struct link_hub *hub, const struct frame_header *header,
                                     const struct link_part *parts, size_t part_count, struct segment **last) {
  struct segment *first = hub_take_segment(hub);
  if (!first) return NULL;
  struct segment *segment = first;
  segment->begins_frame = true;
  segment->length = FRAME_HEADER;
  frame_write_header(header, segment->bytes);
  for (size_t i = 0; i < part_count; i++) {
    const uint8_t *bytes = parts[i].data;
    for (size_t left = parts[i].length; left > 0;) {
      if (segment->length == FRAME_SEGMENT) {
        segment->next = hub_take_segment(hub);
        if (!segment->next) {
          hub_give_segments(hub, first);
          return NULL;
        }
        segment = segment->next;
        segment->begins_frame = false;
        segment->length = 0;
      }
      size_t room = FRAME_SEGMENT - segment->length;
      size_t count = left < room ? left : room;
      memcpy(segment->bytes + segment->length, bytes, count);
      segment->length += count;
      bytes += count;
      left -= count;
    }
  }
  *last = segment;
  return first;
}

int link_send(struct link_hub *hub, uint64_t link, uint16_t type, uint64_t epoch, const struct link_part *parts,
              size_t part_count, struct kj_error *error) {
  struct frame_header header = {.type = type, .epoch = epoch};
  if (type >= FRAME_CONTROL_TYPES) return kj_fail(error, KJ_INVALID, "frame type %u belongs to the link itself", type);
  for (size_t i = 0; i < part_count; i++)
    if (!checked_add(header.length, parts[i].length, &header.length))
      return kj_fail(error, KJ_INVALID, "the parts of a frame are too long");
  struct connection *connection = NULL;
  pthread_mutex_lock(&hub->mutex);
  int code = check_send(hub, link, header.length, &connection, error);
  pthread_mutex_unlock(&hub->mutex);
  if (code) return code;

  struct segment *last = NULL;
  struct segment *first = fill_segments(hub, &header, parts, part_count, &last);
  if (!first) return kj_fail_memory(error, "a frame to be sent");
  pthread_mutex_lock(&hub->mutex);
  code = check_send(hub, link, header.length, &connection, error); /* it may have gone down meanwhile */
  if (!code) {
    if (!connection->sending_since) connection->sending_since = clock_nanoseconds();
    *connection->queue_tail = first;
    connection->queue_tail = &last->next;
    connection->queued += hub_cost(header.length);
  }
  pthread_mutex_unlock(&hub->mutex);
  if (code)
    hub_give_segments(hub, first);
  else
    wake(hub);
  return code;
}

/* Under the mutex: takes the events of a link out of the queue. */
static struct event_node *take_events_of(struct link_hub *hub, uint64_t link) {
  struct event_node *taken = NULL;
  struct event_node **item = &hub->events;
  while (*item) {
    struct event_node *node = *item;
    if (node->event.link != link) {
      item = &node->next;
      continue;
    }
    *item = node->next;
    node->next = taken;
    taken = node;
  }
  hub->events_tail = item;
  return taken;
}

void link_close(struct link_hub *hub, uint64_t link) {
  pthread_mutex_lock(&hub->mutex);
  struct connection *connection = find(hub, link);
  if (connection) {
    connection->close_requested = true;
    connection->quiet = true;
    connection->up = false;
  }
  struct event_node *dropped = take_events_of(hub, link);
  pthread_mutex_unlock(&hub->mutex);
  while (dropped) {
    struct event_node *node = dropped;
    dropped = node->next;
    free_event(node);
  }
  wake(hub);
}

bool link_next(struct link_hub *hub, struct link_event *event) {
  pthread_mutex_lock(&hub->mutex);
  struct event_node *node = hub->events;
  if (node) {
    hub->events = node->next;
    if (!hub->events) hub->events_tail = &hub->events;
    struct connection *connection = node->event.kind == LINK_FRAME ? find(hub, node->event.link) : NULL;
    if (connection) connection->unread -= hub_cost(node->event.length);
  }
  pthread_mutex_unlock(&hub->mutex);
  if (!node) return false;
  *event = node->event;
  free(node);
  return true;
}

void link_event_free(struct link_event *event) {
  free(event->payload);
  event->payload = NULL;
  event->length = 0;
}

bool link_statistics(struct link_hub *hub, uint64_t link, struct link_statistics *statistics) {
  pthread_mutex_lock(&hub->mutex);
  struct connection *connection = find(hub, link);
  if (connection)
    *statistics = connection->statistics;
  else
    *statistics = (struct link_statistics){0};
  pthread_mutex_unlock(&hub->mutex);
  return connection != NULL;
}
