/* Errors as values.
 *
 * A function that can fail returns 0 on success and one of the codes below otherwise, and describes the failure in
 * the `struct kj_error` that its last parameter points to. The message is written for the person who runs Kaiju: what
 * was wrong, where, and what to do. `error` may be NULL where only the code matters.
 */
#ifndef KAIJU_BASE_ERROR_H
#define KAIJU_BASE_ERROR_H

enum kj_code {
  KJ_OK = 0,
  KJ_INVALID,     /* the input breaks a rule of its format or of the command line */
  KJ_UNSUPPORTED, /* valid input that Kaiju cannot serve; the message names the feature */
  KJ_NOT_FOUND,   /* a file, tensor, address or device that should exist does not */
  KJ_MEMORY,      /* out of memory, or a plan that exceeds a memory ceiling */
  KJ_IO,          /* a system call on a file failed */
  KJ_NETWORK,     /* a connection failed, was refused or was lost */
  KJ_REFUSED,     /* a peer refused us or we refused it: key, protocol version or checkpoint differ */
  KJ_TIMEOUT,     /* a deadline passed */
  KJ_BUSY,        /* no room at present: worth another try later */
  KJ_CANCELLED,   /* the person or client who asked for it no longer wants it */
  KJ_INTERNAL     /* an invariant of Kaiju itself does not hold: a bug */
};

struct kj_error {
  enum kj_code code;
  char message[1000];
};

/* Fills `error` (if not NULL) and returns `code`, so that a failing path reads `return kj_fail(error, …);`. */
int kj_fail(struct kj_error *error, enum kj_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message that is already there; returns the error's code. */
int kj_fail_context(struct kj_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Out of memory: same as kj_fail with KJ_MEMORY and the name of what was being allocated. */
int kj_fail_memory(struct kj_error *error, const char *what);

/* KJ_IO (or KJ_NOT_FOUND for ENOENT) with the path, what was tried ("open", "map"…) and strerror(errno). */
int kj_fail_errno(struct kj_error *error, const char *what, const char *path);

#endif
