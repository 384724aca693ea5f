#include "cmd/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/log.h"

enum { BAR_WIDTH = 20 };

static void append_bar(struct buffer *line, const char *label, uint32_t done, uint32_t total) {
  buffer_append_format(line, "%s ", label);
  uint32_t full = total ? done * BAR_WIDTH / total : BAR_WIDTH;
  for (uint32_t i = 0; i < BAR_WIDTH; i++) buffer_append_text(line, i < full ? "█" : "░");
  buffer_append_format(line, " %u/%u  ", done, total);
}

static void show(struct buffer *line, bool finished) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K%s%s", buffer_text(line), finished ? "\n" : "");
  else
    log_info("layers warm: %s", buffer_text(line));
  buffer_free(line);
}

void progress_layers(const char *label, uint32_t done, uint32_t total) {
  struct buffer line = {0};
  if (isatty(STDERR_FILENO))
    append_bar(&line, label, done, total);
  else
    buffer_append_format(&line, "%s %u of %u", label, done, total);
  show(&line, done == total);
}

void progress_cluster(void *context, const struct engine_status *status) {
  uint64_t *shown = context; /* layers shown so far, so that a line is printed only for news */
  uint64_t done = 0, total = 0;
  for (size_t i = 0; i < status->node_count; i++) {
    done += status->nodes[i].layers_warm;
    total += status->nodes[i].layer_count;
  }
  if (done == *shown || status->state != ENGINE_LOADING) return;
  *shown = done;
  struct buffer line = {0};
  for (size_t i = 0; i < status->node_count; i++) {
    const struct engine_node_status *node = &status->nodes[i];
    if (isatty(STDERR_FILENO))
      append_bar(&line, node->name, node->layers_warm, node->layer_count);
    else
      buffer_append_format(&line, "%s%s %u of %u", i ? ", " : "", node->name, node->layers_warm, node->layer_count);
  }
  show(&line, done == total);
}
