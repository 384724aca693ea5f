#include "http/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
  struct kept *next_in_bucket;
  struct kept *newer, *older; /* by last use */
  struct response_text text;
  char id[];
};

struct response_store {
  pthread_mutex_t lock;
  size_t max_count, max_bytes;
  size_t count, bytes;
  struct kept *newest, *oldest;
  size_t bucket_count; /* a power of two */
  struct kept *buckets[];
};

/* FNV-1a. Ids are drawn by the server: nobody can choose some that collide. */
static struct kept **bucket_of(struct response_store *store, const char *id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *id; id++) hash = (hash ^ (unsigned char)*id) * 0x100000001b3;
  return &store->buckets[hash & (store->bucket_count - 1)];
}

static struct kept **find(struct response_store *store, const char *id) {
  struct kept **link = bucket_of(store, id);
  while (*link && strcmp((*link)->id, id) != 0) link = &(*link)->next_in_bucket;
  return link;
}

static size_t size_of(const char *id, const struct response_text *text) {
  return sizeof(struct kept) + strlen(id) + 1 + text->response.capacity + text->items.capacity;
}

static void unlink_use(struct response_store *store, struct kept *kept) {
  if (kept->newer)
    kept->newer->older = kept->older;
  else
    store->newest = kept->older;
  if (kept->older)
    kept->older->newer = kept->newer;
  else
    store->oldest = kept->newer;
}

static void link_newest(struct response_store *store, struct kept *kept) {
  kept->newer = NULL;
  kept->older = store->newest;
  if (store->newest)
    store->newest->newer = kept;
  else
    store->oldest = kept;
  store->newest = kept;
}

static void forget(struct response_store *store, struct kept **link) {
  struct kept *kept = *link;
  *link = kept->next_in_bucket;
  unlink_use(store, kept);
  store->count--;
  store->bytes -= size_of(kept->id, &kept->text);
  response_text_free(&kept->text);
  free(kept);
}

struct response_store *response_store_create(size_t max_count, size_t max_bytes) {
  size_t buckets = 1;
  while (buckets < max_count && buckets < 1 << 16) buckets *= 2;
  struct response_store *store = calloc(1, sizeof *store + buckets * sizeof store->buckets[0]);
  if (!store) return NULL;
  pthread_mutex_init(&store->lock, NULL);
  store->max_count = max_count;
  store->max_bytes = max_bytes;
  store->bucket_count = buckets;
  return store;
}

void response_store_free(struct response_store *store) {
  if (!store) return;
  while (store->oldest) forget(store, find(store, store->oldest->id));
  pthread_mutex_destroy(&store->lock);
  free(store);
}

void response_store_put(struct response_store *store, const char *id, struct response_text *text) {
  size_t id_size = strlen(id) + 1;
  size_t size = size_of(id, text);
  bool whole = !buffer_failed(&text->response) && !buffer_failed(&text->items);
  struct kept *kept = NULL;
  if (whole && store->max_count > 0 && size <= store->max_bytes) kept = malloc(sizeof *kept + id_size);
  if (!kept) {
    response_text_free(text);
    return;
  }
  kept->text = *text;
  *text = (struct response_text){0};
  memcpy(kept->id, id, id_size);
  pthread_mutex_lock(&store->lock);
  struct kept **link = find(store, id);
  if (*link) forget(store, link);
  while (store->oldest && (store->count >= store->max_count || store->bytes > store->max_bytes - size))
    forget(store, find(store, store->oldest->id));
  link = bucket_of(store, id);
  kept->next_in_bucket = *link;
  *link = kept;
  link_newest(store, kept);
  store->count++;
  store->bytes += size;
  pthread_mutex_unlock(&store->lock);
}

bool response_store_get(struct response_store *store, const char *id, bool response, bool items,
                        struct response_text *text) {
  pthread_mutex_lock(&store->lock);
  struct kept *kept = *find(store, id);
  if (kept) {
    unlink_use(store, kept);
    link_newest(store, kept);
    if (response) buffer_append(&text->response, kept->text.response.data, kept->text.response.length);
    if (items) buffer_append(&text->items, kept->text.items.data, kept->text.items.length);
    text->input_count = kept->text.input_count;
  }
  pthread_mutex_unlock(&store->lock);
  return kept && !buffer_failed(&text->response) && !buffer_failed(&text->items);
}

bool response_store_delete(struct response_store *store, const char *id) {
  pthread_mutex_lock(&store->lock);
  struct kept **link = find(store, id);
  bool found = *link != NULL;
  if (found) forget(store, link);
  pthread_mutex_unlock(&store->lock);
  return found;
}

size_t response_store_count(struct response_store *store) {
  pthread_mutex_lock(&store->lock);
  size_t count = store->count;
  pthread_mutex_unlock(&store->lock);
  return count;
}

size_t response_store_bytes(struct response_store *store) {
  pthread_mutex_lock(&store->lock);
  size_t bytes = store->bytes;
  pthread_mutex_unlock(&store->lock);
  return bytes;
}
