/* Small checkpoints for tests: safetensors files and configs in a directory of their own.
 *
 * The bytes of a tensor are a pattern of its name and position (`pattern_seed`, `pattern_byte`), so that a test can
 * tell whether a pointer points where it should. Failures to write end the test.
 */
#ifndef KAIJU_TESTS_CHECKPOINT_FILES_H
#define KAIJU_TESTS_CHECKPOINT_FILES_H

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "unit/unit.h"

/* Fails with the message itself where it does not contain `part`. */
#define assert_message(error, part)                                                                    \
  do {                                                                                                 \
    if (!strstr((error).message, (part))) fail_msg("'%s' does not say '%s'", (error).message, (part)); \
  } while (0)

struct directory {
  char path[64];
};

static inline void directory_create(struct directory *directory) {
  snprintf(directory->path, sizeof directory->path, "/tmp/kaiju-test-XXXXXX");
  assert_non_null(mkdtemp(directory->path));
}

static inline int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status, (void)type, (void)walk;
  return remove(path);
}

static inline void directory_remove(struct directory *directory) {
  assert_int_equal(nftw(directory->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline const char *directory_file(const struct directory *directory, const char *name) {
  static char path[400];
  snprintf(path, sizeof path, "%s/%s", directory->path, name);
  return path;
}

static inline void write_bytes(const struct directory *directory, const char *name, const void *bytes, size_t length) {
  FILE *file = fopen(directory_file(directory, name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static inline void write_text(const struct directory *directory, const char *name, const char *text) {
  write_bytes(directory, name, text, strlen(text));
}

static inline uint32_t pattern_seed(const char *tensor) {
  uint32_t seed = 2166136261u;
  for (; *tensor; tensor++) seed = (seed ^ (uint8_t)*tensor) * 16777619u;
  return seed;
}

static inline uint8_t pattern_byte(uint32_t seed, size_t position) {
  return (uint8_t)((seed ^ (uint32_t)position * 2654435761u) >> 13);
}

/* A safetensors file being put together. Zero-initialise. */
struct shard_writer {
  struct buffer header, data;
};

static inline void append_length(struct buffer *file, uint64_t length) {
  uint8_t field[8];
  for (unsigned i = 0; i < 8; i++) field[i] = (uint8_t)(length >> 8 * i);
  buffer_append(file, field, sizeof field);
}

static inline void shard_add(struct shard_writer *writer, const char *name, const char *dtype, size_t dimensions,
                             const size_t *shape) {
  size_t bytes = !strcmp(dtype, "U8") ? 1 : !strcmp(dtype, "F32") || !strcmp(dtype, "U32") ? 4 : 2;
  buffer_append_format(&writer->header, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", writer->header.length ? ',' : '{',
                       name, dtype);
  for (size_t i = 0; i < dimensions; i++) {
    buffer_append_format(&writer->header, "%s%zu", i ? "," : "", shape[i]);
    bytes *= shape[i];
  }
  buffer_append_format(&writer->header, "],\"data_offsets\":[%zu,%zu]}", writer->data.length,
                       writer->data.length + bytes);
  uint32_t seed = pattern_seed(name);
  uint8_t *pattern = malloc(bytes + 1);
  assert_non_null(pattern);
  for (size_t i = 0; i < bytes; i++) pattern[i] = pattern_byte(seed, i);
  buffer_append(&writer->data, pattern, bytes);
  free(pattern);
}

/* Writes the file and makes the writer empty again. */
static inline void shard_write(struct shard_writer *writer, const struct directory *directory, const char *name) {
  struct buffer file = {0};
  buffer_append_text(&writer->header, writer->header.length ? "}" : "{}");
  append_length(&file, writer->header.length);
  buffer_append(&file, writer->header.data, writer->header.length);
  buffer_append(&file, writer->data.data, writer->data.length);
  assert_false(buffer_failed(&file));
  write_bytes(directory, name, file.data, file.length);
  buffer_free(&file);
  buffer_free(&writer->header);
  buffer_free(&writer->data);
}

#endif
