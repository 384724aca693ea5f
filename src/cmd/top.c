#include <errno.h>
#include <event2/event.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/fetch.h"
#include "cmd/terminal.h"
#include "cmd/top_sample.h"
#include "cmd/top_view.h"
#include "http/api_keys.h"

static const char manual[] =
    "Usage: kaiju top [URL] [options]\n"
    "\n"
    "Shows what the cluster behind the server at URL (default: http://127.0.0.1:8080) is doing, refreshed until q or\n"
    "Ctrl-C: requests, tokens a second, latencies, the KV cache, and of every node its layers, memory and time.\n"
    "All of it comes from the server's /metrics. Without a terminal on standard output it is as with --once.\n"
    "\n"
    "  --api-key-file FILE    the key to send, the first of the file, to a server that needs one\n"
    "  --interval S           seconds between two refreshes (default: 1)\n"
    "  --once                 print what one interval shows, and end\n"
    "  --help                 this text\n";

enum { WINDOW_SECONDS = 60, PIPE_COLUMNS = 120, SIGNALS = 4 };

struct flags {
  const char *url;
  double interval;
  bool once;
  bool has_key;
  char key[API_KEY_MAX + 1];
};

struct top {
  const struct flags *flags;
  bool once;
  struct event_base *base;
  struct fetcher *fetcher;
  struct event *tick, *keys, *signals[SIGNALS];
  struct terminal terminal;
  bool fetching, away; /* away: the server did not answer the last time */
  size_t rounds;       /* answers that were shown, or waited with */

  /* Moments; what is not NULL belongs to the same run of the server. */
  struct top_sample *now, *before, *spare;
  struct top_sample *window; /* WINDOW_SECONDS of them, at least a second apart; a ring */
  size_t window_count, window_next;

  char problem[1100];
  int code;
  struct kj_error *error;
};

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct flags *flags = context;
  char *end = NULL;
  switch (option) {
    case 'i':
      flags->interval = strtod(value, &end);
      if (end == value || *end || !(flags->interval >= 0.1 && flags->interval <= 3600))
        return kj_fail(error, KJ_INVALID, "--interval \"%s\": a number of seconds from 0.1 to 3600 is needed", value);
      return 0;
    case 'k':
      flags->has_key = true;
      return api_keys_first(value, flags->key, error) ? kj_fail_context(error, "--api-key-file") : 0;
    case 'o':
      flags->once = true;
      return 0;
    default:
      return command_unknown_option(error);
  }
}

static int take_arguments(void *context, int count, char **arguments, struct kj_error *error) {
  struct flags *flags = context;
  if (count > 1) return kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", arguments[1]);
  if (count == 1) flags->url = arguments[0];
  return 0;
}

/* The oldest moment that is kept, or NULL. */
static const struct top_sample *window_start(const struct top *top) {
  if (top->window_count == 0) return NULL;
  return &top->window[top->window_count < WINDOW_SECONDS ? 0 : top->window_next];
}

static void keep_in_window(struct top *top, const struct top_sample *sample) {
  size_t last = (top->window_next + WINDOW_SECONDS - 1) % WINDOW_SECONDS;
  if (top->window_count > 0 && sample->uptime < top->window[last].uptime + 1) return;
  top->window[top->window_next] = *sample;
  top->window_next = (top->window_next + 1) % WINDOW_SECONDS;
  if (top->window_count < WINDOW_SECONDS) top->window_count++;
}

static void draw(struct top *top) {
  size_t columns = PIPE_COLUMNS, rows = 0;
  bool screen = terminal_size(&columns, &rows);
  struct top_view view = {.url = fetcher_url(top->fetcher),
                          .now = top->away ? NULL : top->now,
                          .before = top->before,
                          .window = window_start(top),
                          .problem = top->problem};
  struct buffer text = {0};
  /* The last column stays free: behind it a terminal would have to wrap. */
  top_view_write(&view, screen ? columns - 1 : columns, &text);
  if (top->once)
    fputs(buffer_text(&text), stdout);
  else
    terminal_draw(buffer_text(&text), rows);
  buffer_free(&text);
}

/* An answer, or its absence, has been taken in. */
static void show(struct top *top) {
  top->rounds++;
  if (!top->once) {
    draw(top);
    return;
  }
  if (top->rounds < 2) return;
  draw(top);
  event_base_loopbreak(top->base);
}

static void report(struct top *top, const struct kj_error *error) {
  if (top->once) {
    top->code = error->code;
    *top->error = *error;
    event_base_loopbreak(top->base);
    return;
  }
  top->away = true;
  snprintf(top->problem, sizeof top->problem, "%s; trying again", error->message);
  draw(top);
}

/* Why the engine is not ready is said by /health, in the shape of an API error. */
static void on_health(void *context, int status, const char *body, size_t length, const struct kj_error *error) {
  struct top *top = context;
  top->fetching = false;
  if (error) {
    report(top, error);
    return;
  }
  json_t *answer = status == 200 ? NULL : json_loadb(body, length, 0, NULL);
  const char *reason = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
  snprintf(top->problem, sizeof top->problem, "%s", reason ? reason : "");
  json_decref(answer);
  show(top);
}

static void take_sample(struct top *top) {
  struct top_sample *read = top->spare;
  bool follows = top->now && top_sample_follows(read, top->now);
  top->spare = top->before ? top->before : calloc(1, sizeof *top->spare);
  top->before = top->now;
  top->now = read;
  if (!follows && top->before) {
    free(top->before);
    top->before = NULL;
    top->window_count = top->window_next = 0;
  }
}

static void on_metrics(void *context, int status, const char *body, size_t length, const struct kj_error *error) {
  struct top *top = context;
  struct kj_error problem;
  top->fetching = false;
  if (!error && status != 200) {
    kj_fail(&problem, KJ_REFUSED, "%s/metrics answers with status %d%s", fetcher_url(top->fetcher), status,
            status != 401         ? ""
            : top->flags->has_key ? ": the API key is not one of the server's"
                                  : ": it needs an API key, see --api-key-file");
    error = &problem;
  } else if (!error && (!top->spare || top_sample_parse(top->spare, body, length, &problem))) {
    if (!top->spare) kj_fail_memory(&problem, "a moment of the cluster");
    kj_fail_context(&problem, "%s", fetcher_url(top->fetcher));
    error = &problem;
  }
  if (error) {
    report(top, error);
    return;
  }
  take_sample(top);
  top->away = false;
  top->problem[0] = '\0';
  bool ready = strcmp(top->now->state, "ready") == 0;
  if (ready || fetch(top->fetcher, "/health", on_health, top, &problem))
    show(top);
  else
    top->fetching = true;
  if (!top->once) keep_in_window(top, top->now);
}

static void on_tick(evutil_socket_t descriptor, short what, void *context) {
  (void)descriptor, (void)what;
  struct top *top = context;
  struct kj_error error;
  if (top->fetching) return;
  top->fetching = true;
  if (fetch(top->fetcher, "/metrics", on_metrics, top, &error)) {
    top->fetching = false;
    report(top, &error);
  }
}

static void on_key(evutil_socket_t descriptor, short what, void *context) {
  (void)what;
  struct top *top = context;
  char keys[64];
  ssize_t count = read((int)descriptor, keys, sizeof keys);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0 || memchr(keys, 'q', (size_t)count) || memchr(keys, 'Q', (size_t)count))
    event_base_loopbreak(top->base);
}

static void on_signal(evutil_socket_t number, short what, void *context) {
  (void)what;
  struct top *top = context;
  if (number != SIGWINCH)
    event_base_loopbreak(top->base);
  else if (!top->once)
    draw(top);
}

static int build(struct top *top, struct kj_error *error) {
  static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
  double seconds = floor(top->flags->interval);
  struct timeval interval = {.tv_sec = (time_t)seconds,
                             .tv_usec = (suseconds_t)((top->flags->interval - seconds) * 1e6)};
  top->base = event_base_new();
  top->spare = calloc(1, sizeof *top->spare);
  top->window = calloc(WINDOW_SECONDS, sizeof *top->window);
  if (!top->base || !top->spare || !top->window) return kj_fail_memory(error, "the view of a cluster");
  int code = fetcher_create(&top->fetcher, top->base, top->flags->url, error);
  if (!code && top->flags->has_key) code = fetcher_set_key(top->fetcher, top->flags->key, error);
  if (code) return code;
  top->tick = event_new(top->base, -1, EV_PERSIST, on_tick, top);
  bool failed = !top->tick || event_add(top->tick, &interval);
  for (size_t i = 0; i < SIGNALS && !failed; i++) {
    top->signals[i] = evsignal_new(top->base, numbers[i], on_signal, top);
    failed = !top->signals[i] || event_add(top->signals[i], NULL);
  }
  return failed ? kj_fail_memory(error, "the view of a cluster") : 0;
}

static int watch_keys(struct top *top, struct kj_error *error) {
  if (!top->terminal.has_keys) return 0;
  top->keys = event_new(top->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_key, top);
  if (top->keys && event_add(top->keys, NULL) == 0) return 0;
  return kj_fail(error, KJ_IO, "cannot wait for keys");
}

static void release(struct top *top) {
  if (top->tick) event_free(top->tick);
  if (top->keys) event_free(top->keys);
  for (size_t i = 0; i < SIGNALS; i++)
    if (top->signals[i]) event_free(top->signals[i]);
  fetcher_free(top->fetcher);
  if (top->base) event_base_free(top->base);
  free(top->now);
  free(top->before);
  free(top->spare);
  free(top->window);
}

static int run(void *context, struct kj_error *error) {
  const struct flags *flags = context;
  struct top top = {.flags = flags, .error = error};
  size_t columns, rows;
  top.once = flags->once || !terminal_size(&columns, &rows);
  signal(SIGPIPE, SIG_IGN);
  top.code = build(&top, error);
  if (!top.code && !top.once) {
    terminal_enter(&top.terminal);
    top.code = watch_keys(&top, error);
  }
  if (!top.code) {
    on_tick(-1, 0, &top);
    event_base_dispatch(top.base);
  }
  terminal_leave(&top.terminal);
  release(&top);
  return top.code;
}

int cmd_top(int argc, char **argv) {
  static const struct option known[] = {{"api-key-file", required_argument, NULL, 'k'},
                                        {"interval", required_argument, NULL, 'i'},
                                        {"once", no_argument, NULL, 'o'},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"top", manual, "", known, take, take_arguments, run};
  struct flags flags = {.url = "http://127.0.0.1:8080", .interval = 1};
  int status = command_main(&command, &flags, argc, argv);
  sodium_memzero(flags.key, sizeof flags.key);
  return status;
}
