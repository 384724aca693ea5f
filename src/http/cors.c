#include "http/cors.h"

#include <stdlib.h>
#include <string.h>

struct cors {
  bool all;
  char **origins; /* as browsers write them: lower case, without the scheme's own port */
  size_t count;
};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool is_scheme(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!(text[i] >= 'a' && text[i] <= 'z') && (i == 0 || !(text[i] && strchr("0123456789+-.", text[i])))) return false;
  return length > 0;
}

/* A host and a port, without checking that the host can exist: letters, digits, and what IPv6 addresses have. */
static bool is_authority(const char *text) {
  const char *host_end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":");
  if (!host_end || host_end == text) return false;
  for (const char *at = text; at < host_end; at++) {
    bool word = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || strchr("-._", *at);
    if (!word && !(*text == '[' && (at == text || *at == ':'))) return false;
  }
  if (*host_end == ']') host_end++;
  if (*host_end == '\0') return true;
  size_t digits = strspn(host_end + 1, "0123456789");
  return *host_end == ':' && digits > 0 && digits <= 5 && host_end[1 + digits] == '\0' && atoi(host_end + 1) <= 65535;
}

/* Cuts a port that browsers leave out. */
static void cut_own_port(char *origin) {
  static const char *const own[][2] = {{"http://", ":80"}, {"https://", ":443"}};
  size_t length = strlen(origin);
  for (size_t i = 0; i < 2; i++) {
    size_t port = strlen(own[i][1]);
    if (strncmp(origin, own[i][0], strlen(own[i][0])) == 0 && length > port &&
        strcmp(origin + length - port, own[i][1]) == 0)
      origin[length - port] = '\0';
  }
}

static int add_origin(struct cors *cors, const char *text, size_t length, struct kj_error *error) {
  char *origin = strndup(text, length);
  if (!origin) return kj_fail_memory(error, "the list of origins");
  for (char *c = origin; *c; c++) *c = lower(*c);
  const char *separator = strstr(origin, "://");
  if (!separator || !is_scheme(origin, (size_t)(separator - origin)) || !is_authority(separator + 3)) {
    free(origin);
    return kj_fail(error, KJ_INVALID,
                   "\"%.*s\" is no origin: scheme, host and port of the page are needed, such as https://app.example "
                   "or http://localhost:3000, or * alone for every page",
                   (int)(length < 200 ? length : 200), text);
  }
  cut_own_port(origin);
  cors->origins[cors->count++] = origin;
  return 0;
}

int cors_create(struct cors **result, const char *list, struct kj_error *error) {
  *result = NULL;
  struct cors *cors = calloc(1, sizeof *cors);
  if (!cors) return kj_fail_memory(error, "the list of origins");
  cors->all = strcmp(list, "*") == 0;
  size_t entries = 1;
  for (const char *c = list; *c; c++) entries += *c == ',';
  cors->origins = calloc(entries, sizeof *cors->origins);
  int code = cors->origins ? 0 : kj_fail_memory(error, "the list of origins");
  for (const char *at = list; !code && !cors->all; at++) {
    size_t length = strcspn(at, ",");
    code = add_origin(cors, at, length, error);
    at += length;
    if (*at == '\0') break;
  }
  if (code) {
    cors_free(cors);
    return code;
  }
  *result = cors;
  return 0;
}

void cors_free(struct cors *cors) {
  if (!cors) return;
  for (size_t i = 0; i < cors->count; i++) free(cors->origins[i]);
  free(cors->origins);
  free(cors);
}

bool cors_allows(const struct cors *cors, const char *origin) {
  if (!cors || !origin) return false;
  for (size_t i = 0; i < cors->count; i++)
    if (strcmp(cors->origins[i], origin) == 0) return true;
  return cors->all;
}

void cors_write(const struct cors *cors, const char *origin, struct buffer *lines) {
  if (!cors) return;
  if (!cors->all) buffer_append_text(lines, "Vary: Origin\r\n");
  if (!cors_allows(cors, origin)) return;
  buffer_append_format(lines, "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: Retry-After\r\n",
                       cors->all ? "*" : origin);
}

void cors_write_preflight(const struct cors *cors, const char *origin, const char *methods, struct buffer *lines) {
  if (!cors_allows(cors, origin)) return;
  /* The star stands for every header but Authorization. */
  buffer_append_format(lines,
                       "Access-Control-Allow-Methods: %s\r\nAccess-Control-Allow-Headers: Authorization, *\r\n"
                       "Access-Control-Max-Age: 600\r\n",
                       methods);
}
