#include "http/page.h"

#include <string.h>

#include "http/page_files.h"

static const char headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-cache\r\n";

static const struct page_file *find(const char *path) {
  for (size_t i = 0; i < page_file_count; i++)
    if (strcmp(page_files[i].path, path) == 0) return &page_files[i];
  return NULL;
}

bool page_has(const char *path) { return find(path) != NULL; }

/* If-None-Match (RFC 9110, 13.1.2): a list of tags, which proxies may have marked as weak, or a star. */
static bool client_has(const char *list, const char *tag) {
  if (!list) return false;
  return strcmp(list, "*") == 0 || strstr(list, tag) != NULL;
}

void page_respond(struct connection *connection, const struct http_head *head) {
  const struct page_file *file = find(head->path);
  struct buffer lines = {0};
  buffer_append_text(&lines, headers);
  buffer_append_format(&lines, "ETag: %s\r\n", file->entity_tag);
  if (client_has(head->if_none_match, file->entity_tag))
    connection_respond(connection, 304, NULL, buffer_text(&lines), NULL, 0);
  else
    connection_respond(connection, 200, file->type, buffer_text(&lines), file->bytes, file->size);
  buffer_free(&lines);
}
