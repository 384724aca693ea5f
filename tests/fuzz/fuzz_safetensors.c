// links: model
/* A safetensors file in memory: every tensor that the header describes must lie within it, and all of them cover it. */
#include <stdlib.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct safetensors *file = NULL;
  struct kj_error error;
  if (safetensors_parse(&file, "fuzz", data, size, &error)) return 0;
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
  return 0;
}
