#include "stage/kv_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "model/plan.h"
#include "stage/block_map.h"
#include "stage/kv_directory.h"

struct held {
  struct block_key key;
  uint64_t used; /* rises with every use */
};

/* A block on its way to the disk. */
struct write {
  struct write *next;
  struct block_key key;
  bool dropped;
  uint8_t file[]; /* header, payload, room for the checksum */
};

struct kv_store {
  struct kv_store_options options;
  struct kv_directory directory;
  size_t file_bytes;
  uint32_t capacity;
  uint8_t *read; /* a file; NULL before the first */

  pthread_t thread;
  bool started;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t changed;
  bool closing;
  struct write *first, *last, *current; /* queue, and what is being written */
  uint32_t waiting;                     /* prepared, queued or being written */
  struct held *held;                    /* [held_room], held_count of them */
  uint32_t held_count, held_room;
  uint64_t clock;          /* of struct held */
  struct block_map places; /* of the keys in held */
  struct block_key *written;
  size_t written_count, written_room;

  uint64_t others; /* bytes of other subdirectories; the store's thread only, once that runs */
  bool failing;    /* the last write failed; the store's thread only */
};

static int hold(struct kv_store *store, const struct block_key *key, struct kj_error *error) {
  if (store->held_count == store->held_room) {
    uint32_t room = store->held_room ? 2 * store->held_room : 256;
    struct held *larger = realloc(store->held, room * sizeof *larger);
    if (!larger) return kj_fail_memory(error, "the list of KV blocks on disk");
    store->held = larger;
    store->held_room = room;
  }
  int code = block_map_put(&store->places, key, store->held_count, error);
  if (!code) store->held[store->held_count++] = (struct held){*key, ++store->clock};
  return code;
}

/* True if it was held. */
static bool let_go(struct kv_store *store, const struct block_key *key) {
  uint32_t place = block_map_find(&store->places, key);
  if (place == BLOCK_MAP_NONE) return false;
  struct held *last = &store->held[--store->held_count];
  block_map_remove(&store->places, key);
  if (place != store->held_count) {
    store->held[place] = *last;
    block_map_put(&store->places, &last->key, place, NULL); /* it is there: cannot fail */
  }
  return true;
}

/* No more than the disk has room for: a full disk would take no block, and none would ever be dropped for it. */
static void limit_to_disk(struct kv_store *store, uint64_t own) {
  struct statvfs disk;
  struct kv_store_options *options = &store->options;
  if (fstatvfs(store->directory.descriptor, &disk) == 0) {
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize, room = own + free_bytes - free_bytes / 16;
    if (room < store->file_bytes) room = store->file_bytes;
    if (room < options->limit) {
      log_info("%s: KV blocks may take %.2f GB, not %.2f GB: no more is free", options->root, (double)room * 1e-9,
               (double)options->limit * 1e-9);
      options->limit = room;
    }
  }
  uint64_t capacity = options->limit / store->file_bytes;
  store->capacity = capacity < MESSAGE_MAX_DISK_BLOCKS ? (uint32_t)capacity : MESSAGE_MAX_DISK_BLOCKS;
}

static int take_inventory(struct kv_store *store, struct kj_error *error) {
  struct kv_listed *files;
  size_t count;
  int code = kv_directory_list(&store->directory, store->file_bytes, &files, &count, error);
  if (code) return code;
  limit_to_disk(store, count * (uint64_t)store->file_bytes);
  size_t beyond = count > store->capacity ? count - store->capacity : 0;
  for (size_t i = 0; i < count && !code; i++) {
    char name[KV_FILE_NAME];
    kv_file_name(name, &files[i].key);
    if (i < beyond)
      unlinkat(store->directory.descriptor, name, 0);
    else
      code = hold(store, &files[i].key, error);
  }
  free(files);
  if (code) return code;
  store->others = kv_root_limit_others(store->options.root, store->options.identity,
                                       store->options.limit - store->held_count * (uint64_t)store->file_bytes);
  return 0;
}

/* Writes a file under the name for parts, syncs it and gives it its own. */
static int write_file(struct kv_store *store, struct write *write, struct kj_error *error) {
  char part[KV_FILE_NAME], name[KV_FILE_NAME], path[PATH_MAX + KV_FILE_NAME];
  int directory = store->directory.descriptor, code;
  kv_part_name(part, &write->key);
  kv_file_name(name, &write->key);
  snprintf(path, sizeof path, "%s/%s", store->directory.path, part);
  kv_file_seal(write->file, store->file_bytes);
  int descriptor = openat(directory, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return kj_fail_errno(error, "create", path);
  code = file_write(descriptor, write->file, store->file_bytes, path, error);
  if (!code && fdatasync(descriptor)) code = kj_fail_errno(error, "write", path);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (close(descriptor) && !code) code = kj_fail_errno(error, "write", path);
  if (!code && renameat(directory, part, directory, name)) code = kj_fail_errno(error, "rename", path);
  if (code) unlinkat(directory, part, 0);
  return code;
}

static void note_written(struct kv_store *store, const struct block_key *key) {
  if (store->written_count == store->written_room) {
    size_t room = store->written_room ? 2 * store->written_room : 64;
    struct block_key *larger = realloc(store->written, room * sizeof *larger);
    if (!larger) return; /* it is told with the next inventory */
    store->written = larger;
    store->written_room = room;
  }
  store->written[store->written_count++] = *key;
}

/* After a write, under the mutex. */
static void finish_write(struct kv_store *store, struct write *write, int code) {
  char name[KV_FILE_NAME];
  if (!code && !write->dropped && hold(store, &write->key, NULL) == 0) {
    note_written(store, &write->key);
  } else if (!code) {
    kv_file_name(name, &write->key);
    unlinkat(store->directory.descriptor, name, 0);
  }
  store->current = NULL;
  store->waiting--;
  pthread_cond_broadcast(&store->changed);
}

/* Subdirectories of others give way as this one grows. */
static void make_room(struct kv_store *store, uint64_t held) {
  uint64_t own = (held + 1) * store->file_bytes;
  if (store->others > 0 && own + store->others > store->options.limit)
    store->others = kv_root_limit_others(store->options.root, store->options.identity, store->options.limit - own);
}

static void *write_queue(void *context) {
  struct kv_store *store = context;
  pthread_mutex_lock(&store->mutex);
  for (;;) {
    while (!store->first && !store->closing) pthread_cond_wait(&store->changed, &store->mutex);
    if (!store->first) break;
    struct write *write = store->current = store->first;
    struct kj_error error = {0};
    int code = KJ_CANCELLED;
    store->first = write->next;
    if (!store->first) store->last = NULL;
    uint64_t held = store->held_count;
    bool dropped = write->dropped;
    pthread_mutex_unlock(&store->mutex);
    if (!dropped) {
      make_room(store, held);
      code = write_file(store, write, &error);
      if (code && !store->failing) log_warning("KV blocks are not kept: %s", error.message);
      store->failing = code != 0;
    }
    pthread_mutex_lock(&store->mutex);
    finish_write(store, write, code);
    pthread_mutex_unlock(&store->mutex);
    free(write);
    if (!code && store->options.notify) store->options.notify(store->options.context);
    pthread_mutex_lock(&store->mutex);
  }
  pthread_mutex_unlock(&store->mutex);
  return NULL;
}

static int check_options(struct kv_store *store, struct kj_error *error) {
  struct kv_store_options *options = &store->options;
  uint64_t bytes = kv_file_bytes(options->payload_bytes);
  if (!options->limit) options->limit = STORE_DEFAULT_SIZE;
  if (bytes == 0 || bytes > SIZE_MAX / 2 || bytes > options->limit)
    return kj_fail(error, KJ_INVALID,
                   "--kv-disk-size: a KV block takes %" PRIu64 " bytes on disk, and %" PRIu64 " are allowed", bytes,
                   options->limit);
  store->file_bytes = (size_t)bytes;
  return 0;
}

int kv_store_open(struct kv_store **result, const struct kv_store_options *options, struct kj_error *error) {
  *result = NULL;
  if (sodium_init() < 0) return kj_fail(error, KJ_INTERNAL, "libsodium cannot be initialised");
  struct kv_store *store = calloc(1, sizeof *store);
  if (!store) return kj_fail_memory(error, "the store of KV blocks");
  store->options = *options;
  store->directory = (struct kv_directory){.descriptor = -1, .lock = -1};
  pthread_mutex_init(&store->mutex, NULL);
  pthread_cond_init(&store->changed, NULL);
  int code = check_options(store, error);
  if (!code) code = kv_directory_open(&store->directory, options->root, options->identity, error);
  if (!code) code = take_inventory(store, error);
  if (!code && pthread_create(&store->thread, NULL, write_queue, store))
    code = kj_fail(error, KJ_MEMORY, "a thread to write KV blocks cannot be started");
  store->started = !code;
  if (code)
    kv_store_close(store);
  else
    *result = store;
  return code;
}

void kv_store_close(struct kv_store *store) {
  if (!store) return;
  if (store->started) {
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    pthread_join(store->thread, NULL);
  }
  kv_directory_close(&store->directory);
  block_map_free(&store->places);
  free(store->held);
  free(store->written);
  free(store->read);
  pthread_cond_destroy(&store->changed);
  pthread_mutex_destroy(&store->mutex);
  free(store);
}

const uint8_t *kv_store_identity(const struct kv_store *store) { return store->options.identity; }

uint32_t kv_store_capacity(const struct kv_store *store) { return store->capacity; }

static int compare_use(const void *a, const void *b) {
  const struct held *first = a, *second = b;
  return first->used < second->used ? -1 : 1; /* never equal */
}

/* Under the mutex. */
static void wait_for_writes(struct kv_store *store) {
  while (store->first || store->current) pthread_cond_wait(&store->changed, &store->mutex);
}

int kv_store_inventory(struct kv_store *store, struct block_key **keys, size_t *count, struct kj_error *error) {
  pthread_mutex_lock(&store->mutex);
  wait_for_writes(store);
  size_t held_count = store->held_count;
  struct held *held = malloc((held_count + 1) * sizeof *held);
  if (held && held_count) memcpy(held, store->held, held_count * sizeof *held);
  store->written_count = 0;
  pthread_mutex_unlock(&store->mutex);
  *count = 0;
  *keys = malloc((held_count + 1) * sizeof **keys);
  if (!held || !*keys) {
    free(held);
    free(*keys);
    *keys = NULL;
    return kj_fail_memory(error, "the list of KV blocks on disk");
  }
  qsort(held, held_count, sizeof *held, compare_use);
  for (size_t i = 0; i < held_count; i++) (*keys)[i] = held[i].key;
  *count = held_count;
  free(held);
  return 0;
}

size_t kv_store_take_written(struct kv_store *store, struct block_key *keys, size_t most) {
  pthread_mutex_lock(&store->mutex);
  size_t count = store->written_count < most ? store->written_count : most;
  if (count) memcpy(keys, store->written, count * sizeof *keys);
  store->written_count -= count;
  if (store->written_count)
    memmove(store->written, store->written + count, store->written_count * sizeof *store->written);
  pthread_mutex_unlock(&store->mutex);
  return count;
}

/* Under the mutex: the write of this key that is not dropped, or NULL. */
static struct write *find_write(const struct kv_store *store, const struct block_key *key) {
  if (store->current && !store->current->dropped && block_key_equal(&store->current->key, key)) return store->current;
  for (struct write *write = store->first; write; write = write->next)
    if (!write->dropped && block_key_equal(&write->key, key)) return write;
  return NULL;
}

/* Under the mutex. */
static bool wanted(struct kv_store *store, const struct block_key *key) {
  uint32_t place = block_map_find(&store->places, key);
  if (place != BLOCK_MAP_NONE) store->held[place].used = ++store->clock;
  if (place != BLOCK_MAP_NONE || find_write(store, key)) return false;
  if (store->held_count + (uint64_t)store->waiting >= store->capacity) return false;
  return store->waiting < 2 || (store->waiting + (uint64_t)1) * store->file_bytes <= PLAN_KV_QUEUE_BYTES;
}

static struct kv_file_header header_of(const struct kv_store *store, const struct block_operation *operation) {
  struct kv_file_header header = {.first_layer = store->options.first_layer,
                                  .layer_count = store->options.layer_count,
                                  .payload_bytes = store->options.payload_bytes,
                                  .previous = operation->previous,
                                  .prefix_hash = operation->prefix_hash};
  memcpy(header.identity, store->options.identity, sizeof header.identity);
  memcpy(header.tokens, operation->tokens, sizeof header.tokens);
  return header;
}

uint8_t *kv_store_prepare(struct kv_store *store, const struct block_operation *operation) {
  pthread_mutex_lock(&store->mutex);
  bool take = wanted(store, &operation->key);
  store->waiting += take;
  pthread_mutex_unlock(&store->mutex);
  struct write *write = take ? malloc(sizeof *write + store->file_bytes) : NULL;
  if (take && !write) {
    pthread_mutex_lock(&store->mutex);
    store->waiting--;
    pthread_mutex_unlock(&store->mutex);
  }
  if (!write) return NULL;
  *write = (struct write){.key = operation->key};
  struct kv_file_header header = header_of(store, operation);
  kv_file_encode_header(write->file, &header);
  return write->file + KV_FILE_HEADER;
}

void kv_store_submit(struct kv_store *store, uint8_t *payload) {
  struct write *write = (struct write *)(void *)(payload - KV_FILE_HEADER - offsetof(struct write, file));
  pthread_mutex_lock(&store->mutex);
  if (store->last)
    store->last->next = write;
  else
    store->first = write;
  store->last = write;
  pthread_cond_broadcast(&store->changed);
  pthread_mutex_unlock(&store->mutex);
}

void kv_store_drop(struct kv_store *store, const struct block_key *key) {
  char name[KV_FILE_NAME];
  kv_file_name(name, key);
  pthread_mutex_lock(&store->mutex);
  struct write *write = find_write(store, key);
  if (write) write->dropped = true;
  if (let_go(store, key)) unlinkat(store->directory.descriptor, name, 0);
  pthread_mutex_unlock(&store->mutex);
}

void kv_store_flush(struct kv_store *store) {
  pthread_mutex_lock(&store->mutex);
  wait_for_writes(store);
  pthread_mutex_unlock(&store->mutex);
}

static int read_file(struct kv_store *store, const char *name, const struct kv_file_header *expected,
                     struct kj_error *error) {
  struct stat status;
  int descriptor = openat(store->directory.descriptor, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0)
    return kj_fail(error, errno == ENOENT ? KJ_NOT_FOUND : KJ_IO, "it cannot be opened: %s", strerror(errno));
  int code = fstat(descriptor, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_size != store->file_bytes
                 ? kj_fail(error, KJ_INVALID, "it is no file of %zu bytes", store->file_bytes)
                 : file_read(descriptor, store->read, store->file_bytes, name, error);
  if (!code) code = kv_file_check(store->read, store->file_bytes, expected, error);
  /* What is in use is the last to go when the directory is opened again. */
  if (!code) futimens(descriptor, NULL);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
  return code;
}

int kv_store_read(struct kv_store *store, const struct block_operation *operation, const uint8_t **payload,
                  struct kj_error *error) {
  char name[KV_FILE_NAME];
  struct kv_file_header expected = header_of(store, operation);
  kv_file_name(name, &operation->key);
  if (!store->read) store->read = malloc(store->file_bytes);
  if (!store->read) return kj_fail_memory(error, "a KV block from the disk");
  pthread_mutex_lock(&store->mutex);
  uint32_t place = block_map_find(&store->places, &operation->key);
  if (place != BLOCK_MAP_NONE) store->held[place].used = ++store->clock;
  pthread_mutex_unlock(&store->mutex);
  int code = place == BLOCK_MAP_NONE ? kj_fail(error, KJ_NOT_FOUND, "this KV block is not kept here")
                                     : read_file(store, name, &expected, error);
  if (!code) {
    *payload = store->read + KV_FILE_HEADER;
    return 0;
  }
  kv_store_drop(store, &operation->key);
  return kj_fail_context(error, "the KV block %s/%s, kept no longer", store->directory.path, name);
}
