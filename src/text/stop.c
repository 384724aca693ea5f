#include "text/stop.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

enum { STOP_LENGTH_LIMIT = 1 << 20 }; /* bytes of all stop strings together */

/* A prefix of some stop string. Node 0 is the empty one. */
struct node {
  uint32_t text, depth;               /* the prefix is watch->text[text … text + depth - 1] */
  uint32_t first_child, next_sibling; /* 0: none */
  uint32_t suffix;                    /* the longest proper suffix that is a prefix too */
  uint32_t match;                     /* length of the longest stop string that ends here, 0 if none does */
};

struct stop_watch {
  struct node *nodes;
  uint32_t count;
  struct buffer text;
  uint32_t state; /* the node of what is held back */
  bool stopped;
};

static char last_byte(const struct stop_watch *watch, uint32_t node) {
  return watch->text.data[watch->nodes[node].text + watch->nodes[node].depth - 1];
}

static uint32_t child_of(const struct stop_watch *watch, uint32_t node, char byte) {
  uint32_t child = watch->nodes[node].first_child;
  while (child && last_byte(watch, child) != byte) child = watch->nodes[child].next_sibling;
  return child;
}

static void insert(struct stop_watch *watch, const char *stop, uint32_t length) {
  uint32_t text = (uint32_t)watch->text.length, node = 0;
  buffer_append(&watch->text, stop, length);
  if (buffer_failed(&watch->text)) return;
  for (uint32_t depth = 1; depth <= length; depth++) {
    uint32_t child = child_of(watch, node, stop[depth - 1]);
    if (!child) {
      child = watch->count++;
      watch->nodes[child] = (struct node){.text = text, .depth = depth, .next_sibling = watch->nodes[node].first_child};
      watch->nodes[node].first_child = child;
    }
    node = child;
  }
  watch->nodes[node].match = length;
}

/* The node reached from `node` by `byte`. */
static uint32_t advance(const struct stop_watch *watch, uint32_t node, char byte) {
  for (;;) {
    uint32_t child = child_of(watch, node, byte);
    if (child || !node) return child;
    node = watch->nodes[node].suffix;
  }
}

/* Suffix links, breadth first, so that shorter prefixes have theirs already. */
static bool link_suffixes(struct stop_watch *watch) {
  uint32_t *queue = malloc(watch->count * sizeof *queue), begin = 0, end = 0;
  if (!queue) return false;
  for (queue[end++] = 0; begin < end; begin++) {
    uint32_t node = queue[begin];
    for (uint32_t child = watch->nodes[node].first_child; child; child = watch->nodes[child].next_sibling) {
      struct node *linked = &watch->nodes[child];
      linked->suffix = node ? advance(watch, watch->nodes[node].suffix, last_byte(watch, child)) : 0;
      if (!linked->match) linked->match = watch->nodes[linked->suffix].match;
      queue[end++] = child;
    }
  }
  free(queue);
  return true;
}

int stop_watch_create(struct stop_watch **watch, const char *const *stops, size_t count, struct kj_error *error) {
  size_t total = 0;
  *watch = NULL;
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(stops[i]), offset;
    if (!length) return kj_fail(error, KJ_INVALID, "stop string %zu is empty", i);
    if (!utf8_valid(stops[i], length, &offset))
      return kj_fail(error, KJ_INVALID, "stop string %zu is not UTF-8 at byte %zu", i, offset);
    if (length > STOP_LENGTH_LIMIT - total)
      return kj_fail(error, KJ_INVALID, "the stop strings have more than %d bytes together", STOP_LENGTH_LIMIT);
    total += length;
  }
  struct stop_watch *made = calloc(1, sizeof *made);
  if (!made) return kj_fail_memory(error, "the stop strings");
  made->nodes = calloc(total + 1, sizeof *made->nodes);
  made->count = 1;
  for (size_t i = 0; made->nodes && i < count; i++) insert(made, stops[i], (uint32_t)strlen(stops[i]));
  if (!made->nodes || buffer_failed(&made->text) || !link_suffixes(made)) {
    stop_watch_free(made);
    return kj_fail_memory(error, "the stop strings");
  }
  *watch = made;
  return 0;
}

void stop_watch_free(struct stop_watch *watch) {
  if (!watch) return;
  free(watch->nodes);
  buffer_free(&watch->text);
  free(watch);
}

/* Releases the first `count` bytes of what is held back. */
static void release(const struct stop_watch *watch, uint32_t count, struct buffer *out) {
  if (count) buffer_append(out, watch->text.data + watch->nodes[watch->state].text, count);
}

bool stop_watch_push(struct stop_watch *watch, char byte, struct buffer *out) {
  if (watch->stopped) return true;
  uint32_t held = watch->nodes[watch->state].depth;
  uint32_t next = advance(watch, watch->state, byte);
  uint32_t match = watch->nodes[next].match, keep = match ? match : watch->nodes[next].depth;
  if (keep) {
    release(watch, held + 1 - keep, out);
  } else {
    release(watch, held, out);
    buffer_append(out, &byte, 1);
  }
  watch->state = next;
  watch->stopped = match > 0;
  return watch->stopped;
}

void stop_watch_finish(struct stop_watch *watch, struct buffer *out) {
  if (watch->stopped) return;
  release(watch, watch->nodes[watch->state].depth, out);
  watch->state = 0;
}

bool stop_watch_stopped(const struct stop_watch *watch) { return watch->stopped; }

const char *stop_watch_match(const struct stop_watch *watch, size_t *length) {
  const struct node *node = &watch->nodes[watch->state];
  *length = watch->stopped ? node->match : 0;
  return watch->stopped ? watch->text.data + node->text + node->depth - node->match : NULL;
}
