/* A small blocking HTTP client for tests; every wait ends after 20 seconds with a failed test. */
#ifndef KAIJU_TESTS_HTTP_CLIENT_H
#define KAIJU_TESTS_HTTP_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct http_reply {
  int status;
  char *headers; /* status line and headers */
  struct buffer body;
};
void http_reply_free(struct http_reply *reply);
/* The header's value, or NULL; in a buffer that the next call overwrites. */
const char *http_reply_header(const struct http_reply *reply, const char *name);

int client_connect(uint16_t port);
/* Bytes as they are. False if the server has closed. */
bool client_send(int client, const void *bytes, size_t length);
/* A request with Host and Content-Length; `body` may be NULL. */
void client_send_request(int client, const char *method, const char *path, const char *body);
/* Reads one response. `has_body` false after HEAD. False if the connection ends before it is complete. */
bool client_read(int client, bool has_body, struct http_reply *reply);
/* Reads until `text` has come. Appends all that was read to `seen`. False if the connection ends first. */
bool client_read_until(int client, const char *text, struct buffer *seen);
/* True once the server has closed; what it still sends is dropped. */
bool client_is_closed(int client);
void client_close(int client);

/* One request on a connection of its own. */
struct http_reply client_ask(uint16_t port, const char *method, const char *path, const char *body);
/* The JSON of the body; fails the test if it is none. */
json_t *http_reply_json(const struct http_reply *reply);
/* The data of a stream's events as a JSON array; the last one, "[DONE]", as the string. */
json_t *http_reply_events(const struct http_reply *reply);

#endif
