#include "stage/kv_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

_Static_assert((int)KV_FILE_IDENTITY == (int)BLOCK_KEY_BYTES, "names of both kinds have as many digits");
enum { DIGITS = 2 * BLOCK_KEY_BYTES };
static const char lock_name[] = "lock", suffix[] = ".kv", part_suffix[] = ".part";

static void name_with(char name[KV_FILE_NAME], const uint8_t *bytes, const char *ending) {
  sodium_bin2hex(name, KV_FILE_NAME, bytes, BLOCK_KEY_BYTES);
  strcpy(name + DIGITS, ending);
}

void kv_file_name(char name[KV_FILE_NAME], const struct block_key *key) { name_with(name, key->bytes, suffix); }
void kv_part_name(char name[KV_FILE_NAME], const struct block_key *key) { name_with(name, key->bytes, part_suffix); }

/* True if the name is hexadecimal digits as sodium_bin2hex writes them, with this ending. */
static bool parse_name(const char *name, const char *ending, uint8_t bytes[BLOCK_KEY_BYTES]) {
  size_t length;
  if (strlen(name) != DIGITS + strlen(ending) || strcmp(name + DIGITS, ending) != 0) return false;
  if (strspn(name, "0123456789abcdef") < DIGITS) return false;
  return sodium_hex2bin(bytes, BLOCK_KEY_BYTES, name, DIGITS, NULL, &length, NULL) == 0 && length == BLOCK_KEY_BYTES;
}

int kv_root_prepare(const char *root, struct kj_error *error) {
  if (mkdir(root, 0700) && errno != EEXIST) return kj_fail_errno(error, "create", root);
  if (faccessat(AT_FDCWD, root, R_OK | W_OK | X_OK, AT_EACCESS)) return kj_fail_errno(error, "write to", root);
  int descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return kj_fail_errno(error, "open", root);
  close(descriptor);
  return 0;
}

/* Opens the directory's lock file and locks it; -1 with errno, EWOULDBLOCK if another process holds it and `mode` is
 * LOCK_NB. */
static int take_lock(int directory, int mode) {
  int lock = openat(directory, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return -1;
  int failed;
  do failed = flock(lock, LOCK_EX | mode);
  while (failed && errno == EINTR);
  if (!failed) return lock;
  int reason = errno;
  close(lock);
  errno = reason;
  return -1;
}

static int open_locked(struct kv_directory *directory, struct kj_error *error) {
  if (mkdir(directory->path, 0700) && errno != EEXIST) return kj_fail_errno(error, "create", directory->path);
  directory->descriptor = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (directory->descriptor < 0) return kj_fail_errno(error, "open", directory->path);
  directory->lock = take_lock(directory->descriptor, LOCK_NB);
  if (directory->lock >= 0) return 0;
  if (errno != EWOULDBLOCK) return kj_fail_errno(error, "lock", directory->path);
  return kj_fail(error, KJ_REFUSED,
                 "%s is in use by another process that has the same layers of the same model: give each process a "
                 "directory of its own",
                 directory->path);
}

int kv_directory_open(struct kv_directory *directory, const char *root, const uint8_t identity[KV_FILE_IDENTITY],
                      struct kj_error *error) {
  char name[KV_FILE_NAME];
  *directory = (struct kv_directory){.descriptor = -1, .lock = -1};
  int code = kv_root_prepare(root, error);
  if (code) return code;
  name_with(name, identity, "");
  if (snprintf(directory->path, sizeof directory->path, "%s/%s", root, name) >= (int)sizeof directory->path)
    return kj_fail(error, KJ_INVALID, "%.200s…: the path is too long", root);
  int root_descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* Whoever looks at the subdirectories of others holds this one, so that nobody is refused because of that look. */
  int root_lock = root_descriptor < 0 ? -1 : take_lock(root_descriptor, 0);
  code = root_lock < 0 ? kj_fail_errno(error, "lock", root) : open_locked(directory, error);
  if (code) kv_directory_close(directory);
  if (root_lock >= 0) close(root_lock);
  if (root_descriptor >= 0) close(root_descriptor);
  return code;
}

void kv_directory_close(struct kv_directory *directory) {
  if (directory->descriptor >= 0) close(directory->descriptor);
  if (directory->lock >= 0) close(directory->lock);
  directory->descriptor = directory->lock = -1;
}

/* Reading a directory needs a descriptor of its own. */
static DIR *open_listing(int directory) {
  int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = copy < 0 ? NULL : fdopendir(copy);
  if (!listing && copy >= 0) close(copy);
  return listing;
}

static int64_t time_of(const struct stat *status) {
  return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

static int compare_age(const void *a, const void *b) {
  const struct kv_listed *first = a, *second = b;
  if (first->used != second->used) return first->used < second->used ? -1 : 1;
  return memcmp(first->key.bytes, second->key.bytes, BLOCK_KEY_BYTES); /* not as the directory happens to list them */
}

/* 1: a block; 0: something else, removed if it is a leftover. */
static int examine(int directory, const char *name, uint64_t file_bytes, struct kv_listed *listed) {
  uint8_t ignored[BLOCK_KEY_BYTES];
  struct stat status;
  if (parse_name(name, part_suffix, ignored)) {
    unlinkat(directory, name, 0);
    return 0;
  }
  if (!parse_name(name, suffix, listed->key.bytes)) return 0;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW)) return 0;
  if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != file_bytes) {
    unlinkat(directory, name, 0);
    return 0;
  }
  listed->used = time_of(&status);
  return 1;
}

int kv_directory_list(const struct kv_directory *directory, uint64_t file_bytes, struct kv_listed **result,
                      size_t *count, struct kj_error *error) {
  struct kv_listed *files = NULL, listed;
  struct dirent *entry;
  size_t room = 0;
  int code = 0;
  *result = NULL;
  *count = 0;
  DIR *listing = open_listing(directory->descriptor);
  if (!listing) return kj_fail_errno(error, "list", directory->path);
  while (!code && (entry = readdir(listing))) {
    if (!examine(directory->descriptor, entry->d_name, file_bytes, &listed)) continue;
    if (*count == room) {
      room = room ? 2 * room : 256;
      struct kv_listed *larger = realloc(files, room * sizeof *files);
      if (!larger) {
        code = kj_fail_memory(error, "the list of KV blocks on disk");
        break;
      }
      files = larger;
    }
    files[(*count)++] = listed;
  }
  closedir(listing);
  if (code) {
    free(files);
    *count = 0;
    return code;
  }
  if (*count) qsort(files, *count, sizeof *files, compare_age);
  *result = files;
  return 0;
}

/* Another identity's subdirectory, which no process uses. */
struct other {
  uint8_t identity[KV_FILE_IDENTITY];
  uint64_t bytes;
  int64_t used; /* time of its newest file */
};

static int open_other(int root, const uint8_t identity[KV_FILE_IDENTITY]) {
  char name[KV_FILE_NAME];
  name_with(name, identity, "");
  return openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Visits a subdirectory under its lock: measures it or, with `remove`, removes its blocks. False if it is in use or
 * cannot be read. */
static bool visit_other(int root, struct other *other, bool remove) {
  int directory = open_other(root, other->identity);
  int lock = directory < 0 ? -1 : take_lock(directory, LOCK_NB);
  DIR *listing = lock < 0 ? NULL : open_listing(directory);
  struct dirent *entry;
  struct stat status;
  uint8_t key[BLOCK_KEY_BYTES];
  bool done = listing != NULL;
  other->bytes = 0;
  while (listing && (entry = readdir(listing))) {
    if (!parse_name(entry->d_name, suffix, key) && !parse_name(entry->d_name, part_suffix, key)) continue;
    if (remove) {
      done = unlinkat(directory, entry->d_name, 0) == 0 && done;
    } else if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      other->bytes += (uint64_t)status.st_size;
      if (time_of(&status) > other->used) other->used = time_of(&status);
    }
  }
  if (listing) closedir(listing);
  if (lock >= 0) close(lock);
  if (directory >= 0) close(directory);
  return done;
}

/* Removes the longest unused of them and takes it off the list. */
static void remove_oldest(int root, const char *path, struct other *others, size_t *count) {
  char name[KV_FILE_NAME];
  size_t oldest = 0;
  for (size_t i = 1; i < *count; i++)
    if (others[i].used < others[oldest].used) oldest = i;
  name_with(name, others[oldest].identity, "");
  uint64_t bytes = others[oldest].bytes;
  if (visit_other(root, &others[oldest], true))
    log_info("%s/%s: KV blocks of another model or other layers, unused for longest, are removed: %.2f GB", path, name,
             (double)bytes * 1e-9);
  others[oldest] = others[--*count];
}

uint64_t kv_root_limit_others(const char *path, const uint8_t identity[KV_FILE_IDENTITY], uint64_t allowed) {
  enum { MOST = 1024 };
  struct other *others = calloc(MOST, sizeof *others);
  size_t count = 0;
  uint64_t total = 0;
  int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int lock = root < 0 ? -1 : take_lock(root, 0);
  DIR *listing = lock < 0 ? NULL : open_listing(root);
  struct dirent *entry;
  while (others && listing && count < MOST && (entry = readdir(listing))) {
    struct other *other = &others[count];
    *other = (struct other){0};
    if (!parse_name(entry->d_name, "", other->identity)) continue;
    if (memcmp(other->identity, identity, KV_FILE_IDENTITY) == 0) continue;
    if (!visit_other(root, other, false) || other->bytes == 0) continue;
    total += other->bytes;
    count++;
  }
  while (count > 0 && total > allowed) {
    remove_oldest(root, path, others, &count);
    total = 0;
    for (size_t i = 0; i < count; i++) total += others[i].bytes;
  }
  if (listing) closedir(listing);
  if (lock >= 0) close(lock);
  if (root >= 0) close(root);
  free(others);
  return total;
}
