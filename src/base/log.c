#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Set once by main before any thread starts, then only read. */
static enum log_level lowest_level = LOG_INFO;

void log_set_level(enum log_level level) { lowest_level = level; }

void log_write(enum log_level level, const char *format, ...) {
  static const char *const names[] = {"debug", "info", "warning", "error"};
  if (level < lowest_level) return;
  char line[2048];
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  size_t used = strftime(line, sizeof line, "%H:%M:%S ", &local);
  used += (size_t)snprintf(line + used, sizeof line - used, "%s ", names[level]);
  va_list arguments;
  va_start(arguments, format);
  int written = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
  va_end(arguments);
  if (written > 0) used += (size_t)written < sizeof line - used - 1 ? (size_t)written : sizeof line - used - 2;
  line[used++] = '\n';
  /* One write a line keeps lines of several threads and processes whole. */
  ssize_t ignored = write(STDERR_FILENO, line, used);
  (void)ignored;
}
