/* The names that the one model goes by: its own, and aliases for clients that insist on one. */
#ifndef KAIJU_HTTP_MODEL_NAMES_H
#define KAIJU_HTTP_MODEL_NAMES_H

#include <stddef.h>

#include "base/error.h"

struct model_names;

/* `aliases`: "NAME,NAME" or NULL. KJ_INVALID for an empty name, one that is there already, or one that is no text. */
int model_names_create(struct model_names **names, const char *own, const char *aliases, struct kj_error *error);
void model_names_free(struct model_names *names); /* NULL is allowed */

size_t model_names_count(const struct model_names *names);
/* The model's own name is the first. */
const char *model_names_at(const struct model_names *names, size_t index);
/* The name that a client knows it by, or NULL. */
const char *model_names_find(const struct model_names *names, const char *name);

#endif
