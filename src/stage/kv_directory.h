/* The directories that KV blocks lie in: ROOT/IDENTITY/KEY.kv, identity and key in hexadecimal digits.
 *
 * A stage has its own subdirectory of the root, named by its identity (stage/kv_identity.h), so that blocks of another
 * model or of other layers are never mixed up with its own. Only one process uses a subdirectory at a time: it holds a
 * lock (flock on the file `lock`), which ends with the process however it ends. Files and directories are for their
 * owner alone: they tell what people have written.
 */
#ifndef KAIJU_STAGE_KV_DIRECTORY_H
#define KAIJU_STAGE_KV_DIRECTORY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/block_key.h"
#include "stage/kv_file.h"

struct kv_directory {
  int descriptor, lock; /* -1: not open */
  char path[PATH_MAX];  /* of the subdirectory */
};

enum { KV_FILE_NAME = BLOCK_KEY_BYTES + BLOCK_KEY_BYTES + sizeof ".part" }; /* two digits a byte */
void kv_file_name(char name[KV_FILE_NAME], const struct block_key *key);    /* "KEY.kv" */
void kv_part_name(char name[KV_FILE_NAME], const struct block_key *key);    /* "KEY.part": while it is written */

/* Creates the root, though not what it lies in, unless it is there; an error if it is no directory to write to. */
int kv_root_prepare(const char *root, struct kj_error *error);

/* Creates, opens and locks the subdirectory. KJ_REFUSED if another process has it. */
int kv_directory_open(struct kv_directory *directory, const char *root, const uint8_t identity[KV_FILE_IDENTITY],
                      struct kj_error *error);
void kv_directory_close(struct kv_directory *directory);

struct kv_listed {
  struct block_key key;
  int64_t used; /* nanoseconds of the file's time of change */
};
/* The blocks in the directory, longest unused first; the caller frees *files. Reads names and sizes only. Removes what
 * cannot be a block: leftovers of writing, and files of another size. */
int kv_directory_list(const struct kv_directory *directory, uint64_t file_bytes, struct kv_listed **files,
                      size_t *count, struct kj_error *error);

/* Removes subdirectories of other identities that no process uses, longest unused first, until all of them together
 * take no more than `allowed` bytes. Returns how many they take then. */
uint64_t kv_root_limit_others(const char *root, const uint8_t identity[KV_FILE_IDENTITY], uint64_t allowed);

#endif
