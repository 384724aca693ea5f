/* Directories for stores of KV blocks, and blocks to keep in them. */
#ifndef KAIJU_TESTS_KV_DIRECTORIES_H
#define KAIJU_TESTS_KV_DIRECTORIES_H

#include <dirent.h>

#include "link/message.h"
#include "unit/model/checkpoint_files.h"

/* Block `number` of a sequence; its payload follows from it, too. */
static inline struct block_operation block_of(enum block_action action, uint32_t number) {
  struct block_operation operation = {
      .action = action, .previous = {{(uint8_t)number, (uint8_t)(number >> 8)}}, .prefix_hash = number * 77u};
  for (uint32_t i = 0; i < KV_BLOCK; i++) operation.tokens[i] = number * 1000 + i;
  operation.key = block_key_extend(&operation.previous, operation.tokens);
  return operation;
}

/* How many names in the directory end so; -1 if it is not there. With `path`, one of them is left there. */
static inline int count_files(const char *directory, const char *ending, char *path, size_t size) {
  DIR *listing = opendir(directory);
  struct dirent *entry;
  int count = 0;
  if (!listing) return -1;
  while ((entry = readdir(listing))) {
    size_t length = strlen(entry->d_name);
    if (length < strlen(ending) || strcmp(entry->d_name + length - strlen(ending), ending) != 0) continue;
    if (path) snprintf(path, size, "%s/%s", directory, entry->d_name);
    count++;
  }
  closedir(listing);
  return count;
}

#endif
