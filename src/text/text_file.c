#include "text/text_file.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

int text_file_read(const char *path, size_t limit, struct buffer *text, struct kj_error *error) {
  struct stat status;
  char *bytes = NULL;
  int descriptor = -1, code = file_open(&descriptor, &status, path, error);
  if (code) return code;
  size_t length = (size_t)status.st_size;
  if (length > limit) {
    code = kj_fail(error, KJ_INVALID, "%s: larger than %zu bytes", path, limit);
    goto done;
  }
  bytes = malloc(length ? length : 1);
  code = bytes ? file_read(descriptor, bytes, length, path, error) : kj_fail_memory(error, path);
  if (code) goto done;
  buffer_append(text, bytes, length);
  if (buffer_failed(text)) code = kj_fail_memory(error, path);
done:
  free(bytes);
  close(descriptor);
  return code;
}
