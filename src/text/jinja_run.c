#include "text/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* `located`: the message begins with the template's name and the line. */
static void fail(struct run *run, enum kj_code code, bool located, const char *format, va_list arguments) {
  if (run->failed) return;
  run->failed = true;
  run->code = code;
  char reason[900];
  vsnprintf(reason, sizeof reason, format, arguments);
  if (located)
    kj_fail(run->error, code, "%s line %u: %s", run->name, run->line, reason);
  else
    kj_fail(run->error, code, "%s", reason);
}

void run_fail(struct run *run, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(run, KJ_INVALID, true, format, arguments);
  va_end(arguments);
}

void run_fail_plain(struct run *run, enum kj_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail(run, code, false, format, arguments);
  va_end(arguments);
}

void *run_allocate(struct run *run, size_t count, size_t size) {
  void *piece = run->failed ? NULL : arena_allocate(&run->arena, count, size);
  if (!piece) run_fail(run, "the template needs more memory than the %d MiB it may use", JINJA_MEMORY / (1024 * 1024));
  return piece;
}

void *run_grow(struct run *run, void *items, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return items;
  size_t more = *capacity ? *capacity * 2 : 4;
  void *grown = run_allocate(run, more, size);
  if (!grown) return NULL;
  if (count) memcpy(grown, items, count * size);
  *capacity = more;
  return grown;
}

bool run_step(struct run *run, uint64_t steps) {
  if (run->failed) return false;
  run->steps += steps;
  if (run->steps <= JINJA_STEPS) return true;
  run_fail(run, "the template does not end: stopped after %d steps", JINJA_STEPS);
  return false;
}

bool run_enter(struct run *run) {
  if (run->failed) return false;
  if (run->depth >= run->depth_limit) {
    run_fail(run, "the template nests calls or values more than %u deep", run->depth_limit);
    return false;
  }
  run->depth++;
  return true;
}
