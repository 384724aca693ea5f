/* A safetensors file: named tensors in one file, described by a JSON header at its start.
 *
 * Format (https://github.com/huggingface/safetensors): 8 bytes, little-endian, the header's length N, at most 100 MB;
 * N bytes of JSON, `{"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …}`, which may end in
 * spaces and may have a "__metadata__" object of strings; then the data, to which the offsets refer. The tensors cover
 * the data exactly: no hole, no overlap, nothing after the last one. The tensors need not be aligned.
 *
 * Every field is checked before anything is returned, so that a tensor's bytes always lie within the file and equal
 * shape × type. What breaks a rule is KJ_INVALID, and the message names the file and the tensor.
 */
#ifndef KAIJU_MODEL_SAFETENSORS_H
#define KAIJU_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  SAFETENSORS_MAX_DIMENSIONS = 8,
  SAFETENSORS_MAX_HEADER = 100000000, /* bytes of JSON */
  SAFETENSORS_DIGEST = 8
};

/* The types that Kaiju computes with; all others of the format have valid sizes but are of no use here. */
enum safetensors_type { SAFETENSORS_F32, SAFETENSORS_F16, SAFETENSORS_BF16, SAFETENSORS_U32, SAFETENSORS_OTHER };

struct safetensors_tensor {
  const char *name;
  const char *dtype; /* as the format spells it: "BF16" */
  enum safetensors_type type;
  uint32_t dimensions;
  uint64_t shape[SAFETENSORS_MAX_DIMENSIONS];
  uint64_t begin, bytes; /* begin counts from the start of the file */
};

struct safetensors;

/* Reads and checks the header; no byte of data is read or mapped, and the file is closed again. */
int safetensors_open(struct safetensors **file, const char *path, struct kj_error *error);
/* The same for a file that lies in memory, which must outlive *file. `name` is used in messages. */
int safetensors_parse(struct safetensors **file, const char *name, const void *bytes, size_t length,
                      struct kj_error *error);
void safetensors_close(struct safetensors *file); /* NULL is allowed; ends the mapping */

size_t safetensors_count(const struct safetensors *file);
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t index); /* sorted by name */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name); /* or NULL */
const char *safetensors_path(const struct safetensors *file);
uint64_t safetensors_file_bytes(const struct safetensors *file);
/* [SAFETENSORS_DIGEST]: the first bytes of BLAKE2b-256 over the header (length field included) and the file's size as
 * 8 little-endian bytes. */
const uint8_t *safetensors_digest(const struct safetensors *file);

/* Maps the file for reading, once; KJ_IO if it is no longer the file whose header was read. */
int safetensors_map(struct safetensors *file, struct kj_error *error);
/* Whether the range lies within this file's mapping. */
bool safetensors_maps(const struct safetensors *file, const void *begin, size_t bytes);
/* Maps whole pages of the mapping again, over whatever memory has taken their place since. KJ_IO if the file is no
 * longer the same: then that memory stays. */
int safetensors_map_again(struct safetensors *file, void *begin, size_t bytes, struct kj_error *error);
/* The bytes of a tensor of this file, which must be mapped (or parsed from memory). */
const void *safetensors_data(const struct safetensors *file, const struct safetensors_tensor *tensor);

#endif
