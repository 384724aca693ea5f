#include "http/api_keys.h"

#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

enum { DIGEST = 32, FILE_LIMIT = 8 << 20 };

struct api_keys {
  uint8_t secret[crypto_generichash_KEYBYTES];
  size_t count;
  uint8_t digests[][DIGEST];
};

/* One key of a file's text. */
struct key_line {
  const char *key;
  size_t length, number; /* of the line, from 1 */
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* What is wrong with a key, or NULL. */
static const char *key_fault(const char *key, size_t length) {
  if (length > API_KEY_MAX) return "a key is longer than 512 characters";
  for (size_t i = 0; i < length; i++) {
    if (is_blank(key[i])) return "more than one word stands there: one key a line, a comment begins with '#'";
    if (key[i] <= ' ' || key[i] > '~') return "a key holds a character that is not visible ASCII";
  }
  return NULL;
}

/* The next key from *cursor on; 1, 0 at the end of the text, or -1 and *fault about line->number. */
static int next_key(const char **cursor, const char *end, struct key_line *line, const char **fault) {
  while (*cursor < end) {
    const char *start = *cursor, *newline = memchr(start, '\n', (size_t)(end - start));
    const char *stop = newline ? newline : end;
    *cursor = newline ? newline + 1 : end;
    line->number++;
    for (const char *at = start; at < stop; at++)
      if (*at == '#' && (at == start || is_blank(at[-1]))) stop = at;
    while (start < stop && is_blank(*start)) start++;
    while (stop > start && is_blank(stop[-1])) stop--;
    if (start == stop) continue;
    line->key = start;
    line->length = (size_t)(stop - start);
    *fault = key_fault(line->key, line->length);
    return *fault ? -1 : 1;
  }
  return 0;
}

/* The number of keys in *count. */
static int count_keys(const char *name, const char *text, size_t length, size_t *count, struct kj_error *error) {
  const char *cursor = text, *fault = NULL;
  struct key_line line = {0};
  int found;
  *count = 0;
  while ((found = next_key(&cursor, text + length, &line, &fault)) > 0) ++*count;
  if (found < 0) return kj_fail(error, KJ_INVALID, "%s: line %zu: %s", name, line.number, fault);
  if (*count == 0) return kj_fail(error, KJ_INVALID, "%s: holds no API key: one a line is needed", name);
  if (*count > API_KEYS_MAX)
    return kj_fail(error, KJ_INVALID, "%s: holds %zu API keys: at most %d are taken", name, *count, API_KEYS_MAX);
  return 0;
}

static void digest_key(const struct api_keys *keys, const char *key, size_t length, uint8_t digest[DIGEST]) {
  crypto_generichash(digest, DIGEST, (const uint8_t *)key, length, keys->secret, sizeof keys->secret);
}

int api_keys_parse(struct api_keys **result, const char *name, const char *text, size_t length,
                   struct kj_error *error) {
  size_t count;
  *result = NULL;
  int code = count_keys(name, text, length, &count, error);
  if (code) return code;
  if (sodium_init() < 0) return kj_fail(error, KJ_INTERNAL, "the system has no source of random numbers");
  struct api_keys *keys = calloc(1, sizeof *keys + count * DIGEST);
  if (!keys) return kj_fail_memory(error, "the API keys");
  crypto_generichash_keygen(keys->secret);
  const char *cursor = text, *fault = NULL;
  struct key_line line = {0};
  while (keys->count < count && next_key(&cursor, text + length, &line, &fault) > 0)
    digest_key(keys, line.key, line.length, keys->digests[keys->count++]);
  *result = keys;
  return 0;
}

/* The file's text with a NUL behind it; the caller wipes and frees it. */
static int read_file(const char *path, char **text, size_t *length, struct kj_error *error) {
  struct stat status;
  int file;
  *text = NULL;
  *length = 0;
  int code = file_open(&file, &status, path, error);
  if (code) return code;
  code = file_check_private(&status, path, "API keys", error);
  if (!code && status.st_size > FILE_LIMIT) {
    code = kj_fail(error, KJ_INVALID, "%s: is larger than any file of API keys", path);
  } else if (!code) {
    *length = (size_t)status.st_size;
    *text = calloc(1, *length + 1);
    code = *text ? file_read(file, *text, *length, path, error) : kj_fail_memory(error, "the API keys");
  }
  if (code) {
    free(*text);
    *text = NULL;
  }
  close(file);
  return code;
}

int api_keys_load(struct api_keys **keys, const char *path, struct kj_error *error) {
  char *text;
  size_t length;
  *keys = NULL;
  int code = read_file(path, &text, &length, error);
  if (code) return code;
  code = api_keys_parse(keys, path, text, length, error);
  sodium_memzero(text, length);
  free(text);
  return code;
}

int api_keys_first(const char *path, char key[API_KEY_MAX + 1], struct kj_error *error) {
  char *text;
  size_t length, count;
  int code = read_file(path, &text, &length, error);
  if (code) return code;
  code = count_keys(path, text, length, &count, error);
  const char *cursor = text, *fault = NULL;
  struct key_line line = {0};
  if (!code && next_key(&cursor, text + length, &line, &fault) > 0) {
    memcpy(key, line.key, line.length);
    key[line.length] = '\0';
  }
  sodium_memzero(text, length);
  free(text);
  return code;
}

void api_keys_free(struct api_keys *keys) {
  if (!keys) return;
  sodium_memzero(keys->secret, sizeof keys->secret);
  free(keys);
}

bool api_keys_contain(const struct api_keys *keys, const char *key, size_t length) {
  uint8_t digest[DIGEST];
  int found = 0;
  digest_key(keys, key, length, digest);
  /* All of them, whether one was found or not. */
  for (size_t i = 0; i < keys->count; i++) found |= sodium_memcmp(digest, keys->digests[i], DIGEST) == 0;
  return found != 0;
}

bool api_key_from_authorization(const char *value, const char **key, size_t *length) {
  static const char scheme[] = "Bearer";
  size_t prefix = sizeof scheme - 1;
  if (strncasecmp(value, scheme, prefix) != 0 || value[prefix] != ' ') return false;
  while (value[prefix] == ' ') prefix++;
  *key = value + prefix;
  *length = strlen(*key);
  return *length > 0 && !strpbrk(*key, " \t");
}
