#include "link/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Splits "host:port" at its last colon; brackets around the host are dropped. */
static int split(const char *text, char host[ADDRESS_TEXT], char port[8], struct kj_error *error) {
  const char *colon = strrchr(text, ':');
  const char *start = text, *end = colon;
  bool bracketed = colon && text[0] == '[' && colon > text + 1 && colon[-1] == ']';
  if (bracketed) {
    start++;
    end--;
  }
  if (!colon || end <= start || colon[1] == '\0')
    return kj_fail(error, KJ_INVALID, "%.200s: not an address: write HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000",
                   text);
  if (!bracketed && memchr(start, ':', (size_t)(end - start)))
    return kj_fail(error, KJ_INVALID, "%.200s: write an IPv6 address in brackets, such as [::1]:7000", text);
  if ((size_t)(end - start) >= ADDRESS_TEXT || strlen(text) >= ADDRESS_TEXT)
    return kj_fail(error, KJ_INVALID, "%.60s…: an address has at most %d characters", text, ADDRESS_TEXT - 1);
  size_t digits = strspn(colon + 1, "0123456789");
  unsigned value = 0;
  for (size_t i = 0; i < digits && i < 6; i++) value = value * 10 + (unsigned)(colon[1 + i] - '0');
  if (digits > 5 || colon[1 + digits] != '\0' || value > 65535)
    return kj_fail(error, KJ_INVALID, "%.200s: the port must be a number from 0 to 65535", text);
  snprintf(host, ADDRESS_TEXT, "%.*s", (int)(end - start), start);
  snprintf(port, 8, "%u", value);
  return 0;
}

int address_resolve(const char *text, struct address addresses[ADDRESS_MAX], size_t *count, struct kj_error *error) {
  *count = 0;
  char host[ADDRESS_TEXT], port[8];
  int code = split(text, host, port, error);
  if (code) return code;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  int status = getaddrinfo(host, port, &hints, &found);
  if (status != 0)
    return kj_fail(error, KJ_NOT_FOUND, "%s: cannot find the host %s: %s", text, host, gai_strerror(status));
  for (const struct addrinfo *item = found; item && *count < ADDRESS_MAX; item = item->ai_next) {
    if (item->ai_family != AF_INET && item->ai_family != AF_INET6) continue;
    struct address *address = &addresses[(*count)++];
    *address = (struct address){.length = item->ai_addrlen};
    memcpy(&address->socket, item->ai_addr, item->ai_addrlen);
  }
  freeaddrinfo(found);
  if (*count == 0) return kj_fail(error, KJ_NOT_FOUND, "%s: the host %s has no IPv4 or IPv6 address", text, host);
  return 0;
}

void address_numeric(const struct address *address, char host[ADDRESS_TEXT], char port[8]) {
  if (getnameinfo((const struct sockaddr *)&address->socket, address->length, host, ADDRESS_TEXT, port, 8,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    snprintf(host, ADDRESS_TEXT, "unknown");
    snprintf(port, 8, "0");
  }
}

void address_format(const struct address *address, char text[ADDRESS_TEXT]) {
  char host[ADDRESS_TEXT], port[8];
  address_numeric(address, host, port);
  bool brackets = address->socket.ss_family == AF_INET6;
  snprintf(text, ADDRESS_TEXT, brackets ? "[%.100s]:%s" : "%.100s:%s", host, port);
}

unsigned address_port(const struct address *address) {
  if (address->socket.ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)&address->socket)->sin_port);
  if (address->socket.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)&address->socket)->sin6_port);
  return 0;
}

bool address_equal(const struct address *a, const struct address *b) {
  if (a->socket.ss_family != b->socket.ss_family || address_port(a) != address_port(b)) return false;
  if (a->socket.ss_family == AF_INET)
    return ((const struct sockaddr_in *)&a->socket)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)&b->socket)->sin_addr.s_addr;
  return memcmp(&((const struct sockaddr_in6 *)&a->socket)->sin6_addr,
                &((const struct sockaddr_in6 *)&b->socket)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

bool address_is_loopback(const struct address *address) {
  if (address->socket.ss_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->socket.ss_family == AF_INET6) {
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&address->socket)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
  }
  return false;
}
