#include "cmd/fetch.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_SECONDS = 5, MAX_HEADERS = 64 << 10, MAX_BODY = 4 << 20, DEFAULT_PORT = 8080 };

struct fetcher {
  struct evhttp_connection *connection;
  char url[400], host[300], prefix[200]; /* the prefix of every path */
  char *authorization;                   /* header, or NULL */
  struct evhttp_request *request;        /* in work */
  fetch_done *done;
  void *context;
  int failure; /* enum evhttp_request_error, or -1: no connection */
};

static int take_url(struct fetcher *fetcher, const char *url, int *port, struct kj_error *error) {
  char whole[700];
  int length = snprintf(whole, sizeof whole, "%s%s", strstr(url, "://") ? "" : "http://", url);
  struct evhttp_uri *uri = length < (int)sizeof whole ? evhttp_uri_parse(whole) : NULL;
  const char *scheme = uri ? evhttp_uri_get_scheme(uri) : NULL, *host = uri ? evhttp_uri_get_host(uri) : NULL;
  int code = 0;
  if (!scheme || !host || !*host || strlen(host) >= sizeof fetcher->host) {
    code = kj_fail(error, KJ_INVALID, "\"%.200s\": a URL like http://127.0.0.1:8080 is needed", url);
  } else if (strcmp(scheme, "http") != 0) {
    code = kj_fail(error, KJ_UNSUPPORTED, "\"%.200s\": only http is spoken here, not %.20s", url, scheme);
  } else {
    const char *path = evhttp_uri_get_path(uri);
    size_t kept = path ? strlen(path) : 0;
    while (kept > 0 && path[kept - 1] == '/') kept--;
    *port = evhttp_uri_get_port(uri) >= 0 ? evhttp_uri_get_port(uri) : DEFAULT_PORT;
    if (kept >= sizeof fetcher->prefix) code = kj_fail(error, KJ_INVALID, "\"%.200s\": its path is too long", url);
    snprintf(fetcher->prefix, sizeof fetcher->prefix, "%.*s", (int)kept, path ? path : "");
    snprintf(fetcher->url, sizeof fetcher->url, "http://%.290s:%d", host, *port);
    /* An IPv6 address has brackets in a URL and none where it is looked up. */
    size_t brackets = host[0] == '[' ? 1 : 0;
    snprintf(fetcher->host, sizeof fetcher->host, "%.*s", (int)(strlen(host) - 2 * brackets), host + brackets);
  }
  if (uri) evhttp_uri_free(uri);
  return code;
}

int fetcher_create(struct fetcher **result, struct event_base *base, const char *url, struct kj_error *error) {
  *result = NULL;
  int port = 0;
  struct fetcher *fetcher = calloc(1, sizeof *fetcher);
  if (!fetcher) return kj_fail_memory(error, "an HTTP client");
  int code = take_url(fetcher, url, &port, error);
  if (!code) {
    fetcher->connection = evhttp_connection_base_new(base, NULL, fetcher->host, (uint16_t)port);
    if (!fetcher->connection) code = kj_fail_memory(error, "an HTTP client");
  }
  if (code) {
    fetcher_free(fetcher);
    return code;
  }
  evhttp_connection_set_timeout(fetcher->connection, TIMEOUT_SECONDS);
  evhttp_connection_set_max_headers_size(fetcher->connection, MAX_HEADERS);
  evhttp_connection_set_max_body_size(fetcher->connection, MAX_BODY);
  *result = fetcher;
  return 0;
}

void fetcher_free(struct fetcher *fetcher) {
  if (!fetcher) return;
  if (fetcher->request) evhttp_cancel_request(fetcher->request);
  if (fetcher->connection) evhttp_connection_free(fetcher->connection);
  free(fetcher->authorization);
  free(fetcher);
}

int fetcher_set_key(struct fetcher *fetcher, const char *key, struct kj_error *error) {
  free(fetcher->authorization);
  if (asprintf(&fetcher->authorization, "Bearer %s", key) >= 0) return 0;
  fetcher->authorization = NULL;
  return kj_fail_memory(error, "an HTTP client");
}

const char *fetcher_url(const struct fetcher *fetcher) { return fetcher->url; }

static void on_error(enum evhttp_request_error reason, void *context) {
  struct fetcher *fetcher = context;
  fetcher->failure = (int)reason;
}

static void on_answer(struct evhttp_request *request, void *context) {
  struct fetcher *fetcher = context;
  int status = request ? evhttp_request_get_response_code(request) : 0;
  struct kj_error error = {0};
  fetcher->request = NULL;
  if (status == 0) {
    if (fetcher->failure == EVREQ_HTTP_TIMEOUT)
      kj_fail(&error, KJ_TIMEOUT, "%s does not answer within %d s", fetcher->url, TIMEOUT_SECONDS);
    else if (fetcher->failure >= 0)
      kj_fail(&error, KJ_NETWORK, "what %s answers is no HTTP, or too long", fetcher->url);
    else
      kj_fail(&error, KJ_NETWORK, "nobody answers at %s: is the server running there?", fetcher->url);
    fetcher->done(fetcher->context, 0, "", 0, &error);
    return;
  }
  struct evbuffer *body = evhttp_request_get_input_buffer(request);
  size_t length = evbuffer_get_length(body);
  const char *bytes = length ? (const char *)evbuffer_pullup(body, -1) : "";
  fetcher->done(fetcher->context, status, bytes ? bytes : "", bytes ? length : 0, NULL);
}

int fetch(struct fetcher *fetcher, const char *path, fetch_done *done, void *context, struct kj_error *error) {
  char whole[300];
  snprintf(whole, sizeof whole, "%s%.90s", fetcher->prefix, path);
  struct evhttp_request *request = evhttp_request_new(on_answer, fetcher);
  if (!request) return kj_fail_memory(error, "an HTTP request");
  evhttp_request_set_error_cb(request, on_error);
  struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Host", fetcher->url + strlen("http://"));
  if (fetcher->authorization) evhttp_add_header(headers, "Authorization", fetcher->authorization);
  fetcher->done = done;
  fetcher->context = context;
  fetcher->failure = -1;
  fetcher->request = request;
  /* On failure the request is gone, and on_answer may have been called or not. */
  if (evhttp_make_request(fetcher->connection, request, EVHTTP_REQ_GET, whole) == 0) return 0;
  fetcher->request = NULL;
  return kj_fail(error, KJ_NETWORK, "no request can be made to %s", fetcher->url);
}
