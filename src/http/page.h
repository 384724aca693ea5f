/* The page at "/" and its files, from the binary.
 *
 * They are the same for everybody and hold nothing of the server's, so no key is needed for them; what the page then
 * asks for needs one as everywhere. The content security policy lets the page load and reach only this server, run only
 * scripts that are files of its own, and turn text into elements only through its sanitizer.
 */
#ifndef KAIJU_HTTP_PAGE_H
#define KAIJU_HTTP_PAGE_H

#include <stdbool.h>

#include "http/connection.h"

/* Is there a file of the page at this path? */
bool page_has(const char *path);

/* Responds with the file at head->path, which page_has; with 304 if the client has it already. */
void page_respond(struct connection *connection, const struct http_head *head);

#endif
