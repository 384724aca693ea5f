/* Small files of a checkpoint, read whole. */
#ifndef KAIJU_TEXT_TEXT_FILE_H
#define KAIJU_TEXT_TEXT_FILE_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends the file's bytes. KJ_NOT_FOUND if there is none, KJ_INVALID if it has more than `limit` bytes. */
int text_file_read(const char *path, size_t limit, struct buffer *text, struct kj_error *error);

#endif
