// links: model
/* A safetensors file in memory: every tensor that the header describes must lie within it, and all of them cover it. */
#include <stdlib.h>
#include <string.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size) {
  struct safetensors *file = NULL;
  struct kj_error error;
  if (safetensors_parse(&file, "fuzz", data, size, &error)) return;
  uint64_t bytes = 0;
  volatile uint8_t sink = 0;
  for (size_t i = 0; i < safetensors_count(file); i++) {
    const struct safetensors_tensor *tensor = safetensors_at(file, i);
    const uint8_t *begin = safetensors_data(file, tensor);
    if (safetensors_find(file, tensor->name) != tensor) abort();
    for (uint64_t j = 0; j < tensor->bytes; j++) sink = (uint8_t)(sink ^ begin[j]);
    bytes += tensor->bytes;
  }
  if (bytes > size) abort();
  safetensors_close(file);
}

/* Once as it is, and once with a length field that ends the header after its last brace: inserted bytes would otherwise
 * never get past the check of that field. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse(data, size);
  const uint8_t *end = size > 8 ? memrchr(data + 8, '}', size - 8) : NULL;
  uint8_t *copy = end ? malloc(size) : NULL;
  if (!copy) return 0;
  memcpy(copy, data, size);
  for (unsigned i = 0; i < 8; i++) copy[i] = (uint8_t)((uint64_t)(end + 1 - (data + 8)) >> 8 * i);
  parse(copy, size);
  free(copy);
  return 0;
}
