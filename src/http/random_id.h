/* Ids that no other answer or call has, in any conversation: a prefix and 24 random hexadecimal digits. */
#ifndef KAIJU_HTTP_RANDOM_ID_H
#define KAIJU_HTTP_RANDOM_ID_H

#include <stddef.h>

/* -1 if the system has no random bytes or `size` is too small. */
int random_id(char *id, size_t size, const char *prefix);

#endif
