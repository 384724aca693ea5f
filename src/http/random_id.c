#include "http/random_id.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int random_id(char *id, size_t size, const char *prefix) {
  unsigned char random[12];
  size_t length = strlen(prefix);
  if (size < length + 2 * sizeof random + 1 || getentropy(random, sizeof random) != 0) return -1;
  memcpy(id, prefix, length + 1);
  for (size_t i = 0; i < sizeof random; i++) snprintf(id + length + 2 * i, 3, "%02x", random[i]);
  return 0;
}
