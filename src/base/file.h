/* Reading regular files, and writing. */
#ifndef KAIJU_BASE_FILE_H
#define KAIJU_BASE_FILE_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

/* Opens a file for reading; the caller closes *descriptor. KJ_INVALID for what is no regular file: a pipe or a device
 * is not waited for. *descriptor is -1 on an error. */
int file_open(int *descriptor, struct stat *status, const char *path, struct kj_error *error);

/* KJ_INVALID unless the file is its owner's alone; `secret` names what is in it, for the message. */
int file_check_private(const struct stat *status, const char *path, const char *secret, struct kj_error *error);

/* Reads the first `length` bytes. KJ_IO also where the file has fewer: it has changed since it was measured. */
int file_read(int descriptor, void *bytes, size_t length, const char *path, struct kj_error *error);

/* Writes all bytes where the descriptor stands. */
int file_write(int descriptor, const void *bytes, size_t length, const char *path, struct kj_error *error);

#endif
