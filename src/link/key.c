#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "link/link.h"

enum { DIGITS = LINK_KEY_BYTES * 2 };

static int malformed(const char *path, struct kj_error *error) {
  return kj_fail(error, KJ_INVALID,
                 "%s: not a cluster key: the file must hold %d hexadecimal digits and nothing else; make one with "
                 "`kaiju keygen`",
                 path, DIGITS);
}

int link_key_load(const char *path, uint8_t key[LINK_KEY_BYTES], struct kj_error *error) {
  char text[DIGITS + 3]; /* the digits, "\r\n", and one byte too many */
  struct stat status;
  int file;
  int code = file_open(&file, &status, path, error);
  if (code) return code;
  code = file_check_private(&status, path, "cluster's keys", error);
  if (code) goto done;
  size_t length = (uint64_t)status.st_size < sizeof text ? (size_t)status.st_size : sizeof text, end = length;
  code = file_read(file, text, length, path, error);
  if (code) goto done;
  if (end > 0 && text[end - 1] == '\n') end--;
  if (end > 0 && end < length && text[end - 1] == '\r') end--;
  size_t decoded = 0;
  if (end != DIGITS || sodium_hex2bin(key, LINK_KEY_BYTES, text, DIGITS, NULL, &decoded, NULL) != 0 ||
      decoded != LINK_KEY_BYTES)
    code = malformed(path, error);
done:
  sodium_memzero(text, sizeof text);
  if (code) sodium_memzero(key, LINK_KEY_BYTES);
  close(file);
  return code;
}

int link_key_create(const char *path, struct kj_error *error) {
  if (sodium_init() < 0) return kj_fail(error, KJ_INTERNAL, "the system has no source of random numbers");
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    if (errno != EEXIST) return kj_fail_errno(error, "create", path);
    return kj_fail(error, KJ_IO, "%s: exists already and is not overwritten; remove it first if it is no longer used",
                   path);
  }
  uint8_t key[LINK_KEY_BYTES];
  char text[DIGITS + 1];
  randombytes_buf(key, sizeof key);
  sodium_bin2hex(text, sizeof text, key, sizeof key);
  text[DIGITS] = '\n';
  int code = file_write(file, text, sizeof text, path, error);
  if (!code && fsync(file) != 0 && errno != EINVAL) code = kj_fail_errno(error, "write", path);
  if (close(file) != 0 && !code) code = kj_fail_errno(error, "write", path);
  if (code) unlink(path);
  sodium_memzero(key, sizeof key);
  sodium_memzero(text, sizeof text);
  return code;
}
