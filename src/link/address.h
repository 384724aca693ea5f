/* "host:port" and socket addresses. An IPv6 address is written in brackets: "[::1]:7000". */
#ifndef KAIJU_LINK_ADDRESS_H
#define KAIJU_LINK_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/error.h"

enum {
  ADDRESS_TEXT = 128, /* longest text, with its NUL */
  ADDRESS_MAX = 8     /* addresses kept of one name */
};

struct address {
  struct sockaddr_storage socket;
  socklen_t length;
};

/* Looks the host up (this can take as long as the name server does). At least one address on success. */
int address_resolve(const char *text, struct address addresses[ADDRESS_MAX], size_t *count, struct kj_error *error);

/* Splits an address into what getaddrinfo with NUMERICHOST and NUMERICSERV takes. */
void address_numeric(const struct address *address, char host[ADDRESS_TEXT], char port[8]);

/* Writes "host:port" in digits. */
void address_format(const struct address *address, char text[ADDRESS_TEXT]);

unsigned address_port(const struct address *address);
/* Same family, host and port? */
bool address_equal(const struct address *a, const struct address *b);

bool address_is_loopback(const struct address *address);

#endif
