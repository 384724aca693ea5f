/* The head of an HTTP/1.1 request (RFC 9112) and the framing of its body, from bytes.
 *
 * Pure functions without sockets. Parsing is strict where lenience lets two programs read one byte stream as different
 * requests: bare line feeds, folded headers, spaces before a colon, repeated or malformed lengths, a length together
 * with chunks, and transfer codings other than chunked are refused.
 */
#ifndef KAIJU_HTTP_MESSAGE_H
#define KAIJU_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/api_error.h"

enum { HTTP_DEFAULT_HEAD = 32 * 1024, HTTP_DEFAULT_HEADERS = 100, HTTP_MAX_TRAILERS = 32 * 1024 };

enum http_method {
  HTTP_GET = 1,
  HTTP_HEAD = 2,
  HTTP_POST = 4,
  HTTP_OPTIONS = 8,
  HTTP_DELETE = 16,
  HTTP_OTHER = 32 /* a method that no route has */
};

struct http_head {
  enum http_method method;
  char *path;  /* as sent, without the query; "*" for OPTIONS *; owned */
  char *query; /* what was sent behind "?"; NULL without; owned */
  int version; /* 10 or 11 */
  bool keep_alive;
  bool expect_continue;
  bool chunked;
  bool has_length;
  uint64_t length;
  /* Headers that say who asks whom, and what the client has, as sent; NULL without; owned. */
  char *host, *authorization, *api_key /* X-Api-Key */, *origin, *if_none_match;
  bool anthropic;   /* has Anthropic-Version: is of a client of that API */
  bool asks_method; /* has Access-Control-Request-Method: with OPTIONS and an origin, a preflight */
};

/* Parses bytes[0, length), which end with the empty line. 0, or -1 and a 400, 417, 431, 501, 503 or 505. */
int http_head_parse(struct http_head *head, const char *bytes, size_t length, size_t max_headers,
                    struct api_error *error);
void http_head_free(struct http_head *head);

/* Decodes a chunked body as its bytes arrive. Zero-initialise. */
struct chunk_decoder {
  enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_DONE } state;
  uint64_t left;  /* CHUNK_DATA: bytes that are still to come */
  char line[256]; /* CHUNK_SIZE, CHUNK_DATA_END: the line so far */
  size_t line_length;
  size_t trailer_length; /* of all trailer lines, bounded by HTTP_MAX_TRAILERS */
  size_t trailer_line;   /* bytes of the trailer line so far */
  bool trailer_return;   /* the last byte was its CR */
};

/* Consumes bytes up to the end of the body: *used of them, and data[0, *data_length) within them is the next run of
 * body data (call again with the rest while *used < length). 0, or -1 and a 400. */
int chunk_decode(struct chunk_decoder *decoder, const char *bytes, size_t length, size_t *used, const char **data,
                 size_t *data_length, struct api_error *error);

/* "OK" for 200, and so on. */
const char *http_reason(int status);

/* Resolves %XX in place; false if one is malformed or stands for NUL. */
bool http_decode_path(char *path);

#endif
