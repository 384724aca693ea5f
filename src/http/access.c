#include "http/access.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/page.h"

enum { HOST_MAX = 256 };

/* What load balancers and browsers must be able to ask without a key. Bodies are not read from strangers. */
static bool needs_no_key(const struct access *access, const struct http_head *head) {
  if (head->chunked || head->length > 0) return false;
  if (head->method == HTTP_OPTIONS) return head->origin && head->asks_method;
  if (!(head->method & (HTTP_GET | HTTP_HEAD))) return false;
  if (strcmp(head->path, "/health") == 0 || strcmp(head->path, "/openapi.json") == 0) return true;
  return access->has_page && page_has(head->path);
}

static int check_key(const struct api_keys *keys, const struct http_head *head, struct api_error *error) {
  const char *key = NULL;
  size_t length = 0;
  if (!head->authorization && !head->api_key)
    return api_fail(error, 401, "invalid_api_key", NULL,
                    "this server needs an API key: send it as 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'");
  bool right = head->api_key && api_keys_contain(keys, head->api_key, strlen(head->api_key));
  bool bearer = head->authorization && api_key_from_authorization(head->authorization, &key, &length);
  if (bearer) right |= api_keys_contain(keys, key, length);
  if (right) return 0;
  if (head->authorization && !bearer && !head->api_key)
    return api_fail(error, 401, "invalid_api_key", NULL, "the Authorization header must be 'Bearer KEY'");
  return api_fail(error, 401, "invalid_api_key", NULL, "the API key is not one of this server's");
}

/* The host of "host:port" or "[address]:port" without port and brackets; false for what is none. */
static bool split_host(const char *authority, char host[HOST_MAX]) {
  bool bracket = *authority == '[';
  const char *start = authority + bracket;
  size_t length = strcspn(start, bracket ? "]" : ":");
  if (length >= HOST_MAX || (bracket && start[length] != ']')) return false;
  memcpy(host, start, length);
  host[length] = '\0';
  return true;
}

static bool is_localhost(const char *host) {
  static const char name[] = "localhost";
  size_t length = strlen(host), own = sizeof name - 1;
  if (length < own || strcasecmp(host + length - own, name) != 0) return false;
  return length == own || host[length - own - 1] == '.';
}

static bool is_address(const char *host, bool *loopback) {
  struct in_addr v4;
  struct in6_addr v6;
  if (inet_pton(AF_INET, host, &v4) == 1) {
    *loopback = ntohl(v4.s_addr) >> 24 == 127;
    return true;
  }
  *loopback = inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
  return inet_pton(AF_INET6, host, &v6) == 1;
}

/* A page is fetched by its address, or by a name that only this machine or its network gives: the name server of a
 * stranger has no say in it. */
static bool host_is_near(const char *authority) {
  char host[HOST_MAX];
  bool loopback;
  if (!split_host(authority, host)) return false;
  return !strchr(host, '.') || is_localhost(host) || is_address(host, &loopback);
}

static bool origin_is_local(const char *origin) {
  char host[HOST_MAX];
  bool loopback = false;
  const char *separator = strstr(origin, "://");
  if (!separator || !split_host(separator + 3, host)) return false;
  return is_localhost(host) || (is_address(host, &loopback) && loopback);
}

static int check_page(const struct access *access, const struct http_head *head, struct api_error *error) {
  if (cors_allows(access->cors, head->origin)) return 0;
  if (head->host && !host_is_near(head->host))
    return api_fail(error, 403, "host_not_allowed", NULL,
                    "this server has no API key and is meant for its own machine, not for '%.200s': start it with "
                    "--api-key-file or, where the network is trusted, with --insecure",
                    head->host);
  bool reads = head->method & (HTTP_GET | HTTP_HEAD | HTTP_OPTIONS);
  if (!reads && head->origin && !origin_is_local(head->origin))
    return api_fail(error, 403, "origin_not_allowed", NULL,
                    "pages of '%.200s' may not use this server: start it with --cors-origin or --api-key-file",
                    head->origin);
  return 0;
}

int access_check(const struct access *access, const struct http_head *head, struct api_error *error) {
  if (access->keys) return needs_no_key(access, head) ? 0 : check_key(access->keys, head, error);
  return access->open ? 0 : check_page(access, head, error);
}
