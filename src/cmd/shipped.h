/* The model that is served when none is named: the one that ships with Kaiju. */
#ifndef KAIJU_CMD_SHIPPED_H
#define KAIJU_CMD_SHIPPED_H

#include <stddef.h>

#include "base/error.h"

/* The directory of kaiju-mini: ../share/kaiju/models beside an installed program, ../models beside one in build/. */
int shipped_model(char *path, size_t size, struct kj_error *error);

#endif
