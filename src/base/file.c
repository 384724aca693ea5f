#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int file_open(int *descriptor, struct stat *status, const char *path, struct kj_error *error) {
  *descriptor = -1;
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return kj_fail_errno(error, "open", path);
  int code = 0;
  if (fstat(opened, status) != 0)
    code = kj_fail_errno(error, "examine", path);
  else if (!S_ISREG(status->st_mode))
    code = kj_fail(error, KJ_INVALID, "%s: is not a regular file", path);
  if (code)
    close(opened);
  else
    *descriptor = opened;
  return code;
}

int file_check_private(const struct stat *status, const char *path, const char *secret, struct kj_error *error) {
  if (!(status->st_mode & (S_IRWXG | S_IRWXO))) return 0;
  return kj_fail(error, KJ_INVALID,
                 "%s: others may read the %s (permissions %04o); run `chmod 600 %s`, and make new ones if someone may "
                 "have seen them",
                 path, secret, (unsigned)(status->st_mode & 07777), path);
}

int file_read(int descriptor, void *bytes, size_t length, const char *path, struct kj_error *error) {
  for (size_t done = 0; done < length;) {
    ssize_t count = pread(descriptor, (char *)bytes + done, length - done, (off_t)done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return kj_fail_errno(error, "read", path);
    if (count == 0) return kj_fail(error, KJ_IO, "%s: became shorter while it was read", path);
    done += (size_t)count;
  }
  return 0;
}

int file_write(int descriptor, const void *bytes, size_t length, const char *path, struct kj_error *error) {
  for (size_t done = 0; done < length;) {
    ssize_t count = write(descriptor, (const char *)bytes + done, length - done);
    if (count < 0 && errno != EINTR) return kj_fail_errno(error, "write", path);
    if (count > 0) done += (size_t)count;
  }
  return 0;
}
