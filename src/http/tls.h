/* TLS for accepted connections: OpenSSL under libevent's bufferevents, TLS 1.2 and 1.3 with the library's own choice of
 * ciphers. HTTP/1.1 is what it speaks inside.
 */
#ifndef KAIJU_HTTP_TLS_H
#define KAIJU_HTTP_TLS_H

#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/error.h"

struct tls;

/* PEM files: the server's certificate, followed by those that lead to a root, and its private key without a passphrase.
 * Files that cannot be read or understood, a key that everybody may read and one of another certificate are errors with
 * the file's name. */
int tls_create(struct tls **tls, const char *certificate_file, const char *key_file, struct kj_error *error);
void tls_free(struct tls *tls); /* NULL is allowed */

/* The stream of an accepted client, which it owns; NULL, with the descriptor as it was, without memory.
 * BEV_EVENT_CONNECTED comes after the handshake. */
struct bufferevent *tls_accept(const struct tls *tls, struct event_base *base, int descriptor);
/* Tells the peer that nothing more is sent. Does nothing to a stream without TLS. */
void tls_close_notify(struct bufferevent *stream);

#endif
