#include "cmd/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

enum { WIDEST_BAR = 20, NARROWEST_BAR = 4 };

/* Seconds between two lines in a log. */
static const double LOG_INTERVAL = 2;

static size_t terminal_columns(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* "name ███░░ 3/5 " in at most `columns` columns, the name cut where it must be. */
static void append_bar(struct buffer *line, const char *name, uint32_t done, uint32_t total, size_t columns) {
  char numbers[32];
  size_t taken = (size_t)snprintf(numbers, sizeof numbers, " %u/%u ", done, total);
  size_t name_length = strlen(name);
  size_t left = columns > taken + 2 ? columns - taken - 2 : 0;
  size_t width = left > name_length + NARROWEST_BAR ? left - name_length : NARROWEST_BAR;
  if (width > WIDEST_BAR) width = WIDEST_BAR;
  if (name_length + width > left) name_length = left > width ? left - width : 0;
  buffer_append(line, name, name_length);
  buffer_append_text(line, " ");
  size_t full = total ? (size_t)done * width / total : width;
  for (size_t i = 0; i < width; i++) buffer_append_text(line, i < full ? "█" : "░");
  buffer_append_text(line, numbers);
}

static void append_part(struct buffer *line, const char *name, uint32_t done, uint32_t total, size_t nodes) {
  if (isatty(STDERR_FILENO)) {
    append_bar(line, name, done, total, (terminal_columns() - 1) / nodes);
  } else {
    buffer_append_format(line, "%s%s%s%u of %u", line->length ? ", " : "", name, *name ? " " : "", done, total);
  }
}

/* Is this news to show: on a terminal always, in a log not more often than is useful? */
static bool due(struct progress *progress, uint64_t done, uint64_t total) {
  double now = clock_seconds();
  if (done == progress->layers) return false;
  if (!isatty(STDERR_FILENO) && done < total && now - progress->at < LOG_INTERVAL) return false;
  progress->layers = done;
  progress->at = now;
  return true;
}

static void show(struct buffer *line, bool finished) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K%s%s", buffer_text(line), finished ? "\n" : "");
  else
    log_info("layers warm: %s", buffer_text(line));
  buffer_free(line);
}

void progress_layers(struct progress *progress, uint32_t done, uint32_t total) {
  if (!due(progress, done, total)) return;
  struct buffer line = {0};
  append_part(&line, "", done, total, 1);
  show(&line, done == total);
}

void progress_cluster(void *context, const struct engine_status *status) {
  uint64_t done = 0, total = 0;
  for (size_t i = 0; i < status->node_count; i++) {
    done += status->nodes[i].layers_warm;
    total += status->nodes[i].layer_count;
  }
  if (status->state != ENGINE_LOADING || !due(context, done, total)) return;
  struct buffer line = {0};
  for (size_t i = 0; i < status->node_count; i++) {
    const struct engine_node_status *node = &status->nodes[i];
    append_part(&line, node->name, node->layers_warm, node->layer_count, status->node_count);
  }
  show(&line, done == total);
}
