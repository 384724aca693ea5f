#include "http/message.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A run of bytes inside the head. */
struct span {
  const char *data;
  size_t length;
};

static int bad(struct api_error *error, const char *message) {
  return api_fail(error, 400, "bad_request", NULL, "%s", message);
}

/* RFC 9110, 5.6.2. */
static bool is_token_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct span span) {
  for (size_t i = 0; i < span.length; i++)
    if (!is_token_character(span.data[i])) return false;
  return span.length > 0;
}

static bool equals(struct span span, const char *text) {
  return span.length == strlen(text) && strncasecmp(span.data, text, span.length) == 0;
}

/* The next line without its CRLF; the caller has made sure that there is one. False if it holds a bare CR or LF or
 * another control character. */
static bool next_line(const char **cursor, const char *end, struct span *line) {
  const char *start = *cursor, *at = start;
  while (at + 1 < end && !(at[0] == '\r' && at[1] == '\n')) {
    unsigned char c = (unsigned char)*at++;
    if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
  }
  *line = (struct span){start, (size_t)(at - start)};
  *cursor = at + 2;
  return at + 1 < end;
}

static enum http_method method_of(struct span name) {
  /* Methods are case-sensitive. */
  static const struct {
    const char *name;
    enum http_method method;
  } methods[] = {
      {"GET", HTTP_GET}, {"HEAD", HTTP_HEAD}, {"POST", HTTP_POST}, {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS}};
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    if (name.length == strlen(methods[i].name) && memcmp(name.data, methods[i].name, name.length) == 0)
      return methods[i].method;
  return HTTP_OTHER;
}

/* origin-form, absolute-form or asterisk-form (RFC 9112, 3.2) to a path. */
static int parse_target(struct http_head *head, struct span target, struct api_error *error) {
  for (size_t i = 0; i < target.length; i++)
    if ((unsigned char)target.data[i] <= ' ' || (unsigned char)target.data[i] >= 0x7f)
      return bad(error, "the request target holds a character that must be percent-encoded");
  static const char scheme[] = "http://";
  size_t prefix = sizeof scheme - 1;
  bool asterisk = target.length == 1 && target.data[0] == '*' && head->method == HTTP_OPTIONS;
  if (target.length > prefix && strncasecmp(target.data, scheme, prefix) == 0) {
    const char *slash = memchr(target.data + prefix, '/', target.length - prefix);
    target = slash ? (struct span){slash, target.length - (size_t)(slash - target.data)} : (struct span){"/", 1};
  } else if (target.length == 0 || (target.data[0] != '/' && !asterisk)) {
    return bad(error, "the request target must be a path");
  }
  const char *query = memchr(target.data, '?', target.length);
  head->path = strndup(target.data, query ? (size_t)(query - target.data) : target.length);
  if (query) head->query = strndup(query + 1, target.length - (size_t)(query + 1 - target.data));
  return head->path && !head->query == !query ? 0 : api_fail_memory(error);
}

static int parse_request_line(struct http_head *head, struct span line, struct api_error *error) {
  const char *first = memchr(line.data, ' ', line.length);
  const char *last = memrchr(line.data, ' ', line.length);
  if (!first || first == last) return bad(error, "the request line must be METHOD TARGET HTTP/1.1");
  struct span method = {line.data, (size_t)(first - line.data)};
  struct span target = {first + 1, (size_t)(last - first - 1)};
  struct span version = {last + 1, line.length - (size_t)(last + 1 - line.data)};
  if (!is_token(method)) return bad(error, "the request line must be METHOD TARGET HTTP/1.1");
  if (version.length != 8 || memcmp(version.data, "HTTP/", 5) != 0 || version.data[6] != '.')
    return bad(error, "the request line must be METHOD TARGET HTTP/1.1");
  if (memcmp(version.data, "HTTP/1.", 7) != 0 || version.data[7] < '0' || version.data[7] > '9')
    return api_fail(error, 505, "http_version", NULL, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  head->version = version.data[7] == '0' ? 10 : 11;
  head->keep_alive = head->version == 11;
  head->method = method_of(method);
  return parse_target(head, target, error);
}

static int parse_length(struct http_head *head, struct span value, struct api_error *error) {
  if (head->has_length) return bad(error, "Content-Length is given twice");
  if (value.length == 0 || value.length > 18) return bad(error, "Content-Length is not a number of bytes");
  head->length = 0;
  for (size_t i = 0; i < value.length; i++) {
    if (value.data[i] < '0' || value.data[i] > '9') return bad(error, "Content-Length is not a number of bytes");
    head->length = head->length * 10 + (uint64_t)(value.data[i] - '0');
  }
  head->has_length = true;
  return 0;
}

/* A comma-separated list of connection options. */
static void parse_connection(struct http_head *head, struct span value) {
  const char *at = value.data, *end = value.data + value.length;
  while (at < end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    while (at < stop && (*at == ' ' || *at == '\t')) at++;
    const char *trimmed = stop;
    while (trimmed > at && (trimmed[-1] == ' ' || trimmed[-1] == '\t')) trimmed--;
    struct span option = {at, (size_t)(trimmed - at)};
    if (equals(option, "close")) head->keep_alive = false;
    if (equals(option, "keep-alive") && head->version == 10) head->keep_alive = true;
    at = stop + 1;
  }
}

/* Which of two such headers counts, two programs could see differently. */
static int keep_once(struct span value, const char *name, char **kept, struct api_error *error) {
  if (*kept) return api_fail(error, 400, "bad_request", NULL, "%s is given twice", name);
  *kept = strndup(value.data, value.length);
  return *kept ? 0 : api_fail_memory(error);
}

static int parse_header(struct http_head *head, struct span line, struct api_error *error) {
  const char *colon = memchr(line.data, ':', line.length);
  if (!colon) return bad(error, "a header has no colon");
  struct span name = {line.data, (size_t)(colon - line.data)};
  if (!is_token(name)) return bad(error, "a header's name holds a space or another character that it must not");
  const char *start = colon + 1, *end = line.data + line.length;
  while (start < end && (*start == ' ' || *start == '\t')) start++;
  while (end > start && (end[-1] == ' ' || end[-1] == '\t')) end--;
  struct span value = {start, (size_t)(end - start)};
  if (equals(name, "Host")) {
    return keep_once(value, "Host", &head->host, error);
  } else if (equals(name, "Content-Length")) {
    return parse_length(head, value, error);
  } else if (equals(name, "Transfer-Encoding")) {
    if (head->chunked || !equals(value, "chunked"))
      return api_fail(error, 501, "transfer_encoding", NULL, "the only Transfer-Encoding understood is chunked");
    head->chunked = true;
  } else if (equals(name, "Connection")) {
    parse_connection(head, value);
  } else if (equals(name, "Expect")) {
    if (!equals(value, "100-continue"))
      return api_fail(error, 417, "expectation_failed", NULL, "the only expectation understood is 100-continue");
    head->expect_continue = head->version == 11;
  } else if (equals(name, "Authorization")) {
    return keep_once(value, "Authorization", &head->authorization, error);
  } else if (equals(name, "X-Api-Key")) {
    return keep_once(value, "X-Api-Key", &head->api_key, error);
  } else if (equals(name, "Origin")) {
    return keep_once(value, "Origin", &head->origin, error);
  } else if (equals(name, "If-None-Match")) {
    return keep_once(value, "If-None-Match", &head->if_none_match, error);
  } else if (equals(name, "Anthropic-Version")) {
    head->anthropic = true;
  } else if (equals(name, "Access-Control-Request-Method")) {
    head->asks_method = true;
  }
  return 0;
}

int http_head_parse(struct http_head *head, const char *bytes, size_t length, size_t max_headers,
                    struct api_error *error) {
  *head = (struct http_head){0};
  const char *cursor = bytes, *end = bytes + length;
  struct span line = {0};
  if (!next_line(&cursor, end, &line)) {
    bad(error, "the request line holds a control character");
    goto failed;
  }
  if (parse_request_line(head, line, error)) goto failed;
  for (size_t count = 0;; count++) {
    if (!next_line(&cursor, end, &line)) {
      bad(error, "a header holds a control character or a line that does not end with CR LF");
      goto failed;
    }
    if (line.length == 0) break;
    if (count == max_headers) {
      api_fail(error, 431, "headers_too_large", NULL, "the request has more than %zu headers", max_headers);
      goto failed;
    }
    if (parse_header(head, line, error)) goto failed;
  }
  if (head->chunked && (head->has_length || head->version == 10)) {
    bad(error, "Transfer-Encoding is given together with Content-Length or in HTTP/1.0");
    goto failed;
  }
  if (head->version == 11 && !head->host) {
    bad(error, "HTTP/1.1 needs a Host header");
    goto failed;
  }
  return 0;
failed:
  http_head_free(head);
  return -1;
}

void http_head_free(struct http_head *head) {
  free(head->path);
  free(head->query);
  free(head->host);
  free(head->authorization);
  free(head->api_key);
  free(head->origin);
  free(head->if_none_match);
  head->path = head->query = head->host = head->authorization = head->api_key = head->origin = head->if_none_match =
      NULL;
}

static int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool http_decode_path(char *path) {
  char *out = path;
  for (const char *in = path; *in; in++) {
    if (*in != '%') {
      *out++ = *in;
      continue;
    }
    int high = hexadecimal(in[1]), low = high < 0 ? -1 : hexadecimal(in[2]);
    if (low < 0 || high * 16 + low == 0) return false;
    *out++ = (char)(high * 16 + low);
    in += 2;
  }
  *out = '\0';
  return true;
}

/* The size at the start of a chunk's line; an extension after it is ignored. */
static int parse_chunk_size(struct chunk_decoder *decoder, struct api_error *error) {
  size_t digits = 0;
  uint64_t size = 0;
  while (digits < decoder->line_length && hexadecimal(decoder->line[digits]) >= 0) {
    if (digits == 15) return bad(error, "a chunk of the body is too large");
    size = size * 16 + (uint64_t)hexadecimal(decoder->line[digits++]);
  }
  size_t rest = digits;
  while (rest < decoder->line_length && (decoder->line[rest] == ' ' || decoder->line[rest] == '\t')) rest++;
  if (digits == 0 || (rest < decoder->line_length && decoder->line[rest] != ';'))
    return bad(error, "the size of a chunk of the body is not hexadecimal");
  decoder->left = size;
  decoder->state = size ? CHUNK_DATA : CHUNK_TRAILER;
  return 0;
}

/* Takes one byte of a size line or of the empty line after data. */
static int take_line_byte(struct chunk_decoder *decoder, char byte, struct api_error *error) {
  bool ends = decoder->line_length > 0 && decoder->line[decoder->line_length - 1] == '\r';
  if (ends != (byte == '\n')) return bad(error, "a line of the chunked body does not end with CR LF");
  if (!ends) {
    if (decoder->line_length == sizeof decoder->line) return bad(error, "a line of the chunked body is too long");
    decoder->line[decoder->line_length++] = byte;
    return 0;
  }
  decoder->line_length--;
  int result = 0;
  if (decoder->state == CHUNK_SIZE)
    result = parse_chunk_size(decoder, error);
  else if (decoder->line_length > 0)
    result = bad(error, "a chunk of the body is longer than its size");
  else
    decoder->state = CHUNK_SIZE;
  decoder->line_length = 0;
  return result;
}

/* Trailers are skipped; the body ends with an empty line. */
static int take_trailer_byte(struct chunk_decoder *decoder, char byte, struct api_error *error) {
  if (++decoder->trailer_length > HTTP_MAX_TRAILERS)
    return bad(error, "the trailers of the chunked body are too large");
  if (decoder->trailer_return != (byte == '\n')) return bad(error, "a trailer does not end with CR LF");
  decoder->trailer_return = byte == '\r';
  if (byte == '\n') {
    if (decoder->trailer_line == 0) decoder->state = CHUNK_DONE;
    decoder->trailer_line = 0;
  } else if (byte != '\r') {
    decoder->trailer_line++;
  }
  return 0;
}

int chunk_decode(struct chunk_decoder *decoder, const char *bytes, size_t length, size_t *used, const char **data,
                 size_t *data_length, struct api_error *error) {
  size_t at = 0;
  *data = bytes;
  *data_length = 0;
  while (at < length && decoder->state != CHUNK_DONE) {
    if (decoder->state == CHUNK_DATA) {
      size_t run = length - at < decoder->left ? length - at : (size_t)decoder->left;
      *data = bytes + at;
      *data_length = run;
      decoder->left -= run;
      if (decoder->left == 0) decoder->state = CHUNK_DATA_END;
      at += run;
      break;
    }
    char byte = bytes[at++];
    int result = decoder->state == CHUNK_TRAILER ? take_trailer_byte(decoder, byte, error)
                                                 : take_line_byte(decoder, byte, error);
    if (result) return -1;
  }
  *used = at;
  return 0;
}

const char *http_reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status >= 500 ? "Internal Server Error" : "Error";
  }
}
