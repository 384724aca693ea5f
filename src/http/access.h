/* Whether a request is answered at all, from its head alone: keys, and, where there are none, what a browser says about
 * the page that sends it.
 */
#ifndef KAIJU_HTTP_ACCESS_H
#define KAIJU_HTTP_ACCESS_H

#include <stdbool.h>

#include "http/api_error.h"
#include "http/api_keys.h"
#include "http/cors.h"
#include "http/message.h"

struct access {
  const struct api_keys *keys; /* or NULL: none is needed */
  const struct cors *cors;     /* or NULL */
  bool open;                   /* without keys: to everybody, pages in browsers included */
  bool has_page;               /* http/page.h: its files need no key */
};

/* 0, or -1 and a 401 or 403.
 *
 * With keys: "Authorization: Bearer KEY" or "X-Api-Key: KEY" must hold one. /health, /openapi.json, the page's files
 * and preflights need none.
 *
 * Without keys and not open, the server is meant for programs of its own machine. A page that its browser has fetched
 * from elsewhere is none of them, but could send requests here: in its own name (a POST with a foreign Origin), or
 * after its name's address was changed to this machine's (a foreign Host). Both are refused, unless the list of
 * origins has them. Programs other than browsers send no Origin, and a Host that they were told.
 */
int access_check(const struct access *access, const struct http_head *head, struct api_error *error);

#endif
