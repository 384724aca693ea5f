#include "cmd/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* A process has one set of signals, so their watcher is a global of the program. */
static struct {
  pthread_mutex_t mutex;
  void (*handle)(void *context, int signal);
  void *context;
} watcher = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void watched_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
}

void signals_block(void) {
  sigset_t set;
  watched_signals(&set);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
}

static void *watch_thread(void *argument) {
  (void)argument;
  sigset_t set;
  watched_signals(&set);
  for (;;) {
    int number;
    if (sigwait(&set, &number) != 0) continue;
    pthread_mutex_lock(&watcher.mutex);
    if (watcher.handle) watcher.handle(watcher.context, number);
    pthread_mutex_unlock(&watcher.mutex);
  }
  return NULL;
}

int signals_watch(void (*handle)(void *context, int signal), void *context, struct kj_error *error) {
  pthread_mutex_lock(&watcher.mutex);
  watcher.handle = handle;
  watcher.context = context;
  pthread_mutex_unlock(&watcher.mutex);
  pthread_t thread;
  if (pthread_create(&thread, NULL, watch_thread, NULL) != 0)
    return kj_fail(error, KJ_MEMORY, "cannot start the thread that waits for signals");
  pthread_detach(thread);
  return 0;
}

void signals_unwatch(void) {
  pthread_mutex_lock(&watcher.mutex);
  watcher.handle = NULL;
  pthread_mutex_unlock(&watcher.mutex);
}
