#include "unit/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/unit.h"

void http_reply_free(struct http_reply *reply) {
  free(reply->headers);
  buffer_free(&reply->body);
  *reply = (struct http_reply){0};
}

const char *http_reply_header(const struct http_reply *reply, const char *name) {
  static char value[512];
  size_t length = strlen(name);
  for (const char *line = strstr(reply->headers, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, length) != 0 || line[2 + length] != ':') continue;
    const char *start = line + 3 + length;
    while (*start == ' ') start++;
    snprintf(value, sizeof value, "%.*s", (int)strcspn(start, "\r"), start);
    return value;
  }
  return NULL;
}

int client_connect(uint16_t port) {
  int client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct timeval patience = {.tv_sec = 20};
  assert_true(client >= 0);
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
  return client;
}

void client_close(int client) { close(client); }

bool client_send(int client, const void *bytes, size_t length) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t sent = send(client, at, length, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    length -= (size_t)sent;
  }
  return true;
}

void client_send_request(int client, const char *method, const char *path, const char *body) {
  struct buffer request = {0};
  buffer_append_format(&request, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path);
  if (body) buffer_append_format(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
  buffer_append_text(&request, "\r\n");
  if (body) buffer_append_text(&request, body);
  assert_true(client_send(client, request.data, request.length));
  buffer_free(&request);
}

/* Appends at least one byte; false at the end of the connection. */
static bool receive(int client, struct buffer *bytes) {
  char piece[16384];
  ssize_t got = recv(client, piece, sizeof piece, 0);
  if (got <= 0) return false;
  buffer_append(bytes, piece, (size_t)got);
  return true;
}

bool client_read_until(int client, const char *text, struct buffer *seen) {
  while (!strstr(buffer_text(seen), text))
    if (!receive(client, seen)) return false;
  return true;
}

bool client_is_closed(int client) {
  char byte[4096];
  ssize_t got = 0;
  do got = recv(client, byte, sizeof byte, 0);
  while (got > 0);
  return got == 0;
}

/* Reads exactly `length` bytes of `bytes` from `at` on. */
static bool fill(int client, struct buffer *bytes, size_t length) {
  while (bytes->length < length)
    if (!receive(client, bytes)) return false;
  return true;
}

static bool read_chunks(int client, struct buffer *bytes, struct buffer *body) {
  for (size_t at = 0;;) {
    while (!strstr(buffer_text(bytes) + at, "\r\n"))
      if (!receive(client, bytes)) return false;
    size_t size = strtoul(bytes->data + at, NULL, 16);
    at = (size_t)(strstr(bytes->data + at, "\r\n") - bytes->data) + 2;
    if (!fill(client, bytes, at + size + 2)) return false;
    buffer_append(body, bytes->data + at, size);
    assert_memory_equal(bytes->data + at + size, "\r\n", 2);
    at += size + 2;
    if (size == 0) {
      assert_int_equal(at, bytes->length);
      return true;
    }
  }
}

bool client_read(int client, bool has_body, struct http_reply *reply) {
  struct buffer bytes = {0};
  *reply = (struct http_reply){0};
  bool complete = client_read_until(client, "\r\n\r\n", &bytes);
  if (complete) {
    size_t head = (size_t)(strstr(bytes.data, "\r\n\r\n") - bytes.data) + 4;
    reply->headers = strndup(bytes.data, head);
    assert_int_equal(sscanf(reply->headers, "HTTP/1.1 %d ", &reply->status), 1);
    buffer_consume(&bytes, head);
    const char *length = http_reply_header(reply, "Content-Length");
    if (has_body && length) {
      size_t size = strtoul(length, NULL, 10);
      complete = fill(client, &bytes, size);
      buffer_append(&reply->body, buffer_text(&bytes), bytes.length < size ? bytes.length : size);
    } else if (has_body && http_reply_header(reply, "Transfer-Encoding")) {
      complete = read_chunks(client, &bytes, &reply->body);
    }
  }
  buffer_free(&bytes);
  return complete;
}

struct http_reply client_ask(uint16_t port, const char *method, const char *path, const char *body) {
  struct http_reply reply;
  int client = client_connect(port);
  client_send_request(client, method, path, body);
  assert_true(client_read(client, strcmp(method, "HEAD") != 0, &reply));
  client_close(client);
  return reply;
}

json_t *http_reply_json(const struct http_reply *reply) {
  json_error_t error;
  json_t *value = json_loadb(buffer_text(&reply->body), reply->body.length, 0, &error);
  if (!value) fail_msg("%s: %s", error.text, buffer_text(&reply->body));
  return value;
}

json_t *http_reply_events(const struct http_reply *reply) {
  json_t *events = json_array();
  for (const char *at = buffer_text(&reply->body); *at;) {
    const char *end = strstr(at, "\n\n");
    assert_non_null(end);
    if (*at != ':') {
      if (strncmp(at, "event: ", 7) == 0) at = strchr(at, '\n') + 1;
      assert_memory_equal(at, "data: ", 6);
      json_t *value = strncmp(at + 6, "[DONE]", 6) == 0 ? json_string("[DONE]")
                                                        : json_loadb(at + 6, (size_t)(end - at - 6), 0, NULL);
      assert_non_null(value);
      json_array_append_new(events, value);
    }
    at = end + 2;
  }
  return events;
}
