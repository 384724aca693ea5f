#include "http/model_names.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

struct model_names {
  size_t count;
  char **names;
};

static int add(struct model_names *names, const char *name, size_t length, struct kj_error *error) {
  if (length == 0) return kj_fail(error, KJ_INVALID, "a name of the model is empty");
  if (!utf8_valid(name, length, NULL)) return kj_fail(error, KJ_INVALID, "a name of the model is not UTF-8");
  char *copy = strndup(name, length);
  if (!copy) return kj_fail_memory(error, "the names of the model");
  if (model_names_find(names, copy)) {
    free(copy);
    return kj_fail(error, KJ_INVALID, "the model has the name \"%.*s\" twice", length < 200 ? (int)length : 200, name);
  }
  names->names[names->count++] = copy;
  return 0;
}

int model_names_create(struct model_names **result, const char *own, const char *aliases, struct kj_error *error) {
  *result = NULL;
  size_t most = 2;
  for (const char *c = aliases ? aliases : ""; *c; c++) most += *c == ',';
  struct model_names *names = calloc(1, sizeof *names);
  if (names) names->names = calloc(most, sizeof *names->names);
  if (!names || !names->names) {
    free(names);
    return kj_fail_memory(error, "the names of the model");
  }
  /* The directory's name is what it is. */
  names->names[0] = strdup(own);
  names->count = names->names[0] != NULL;
  int code = names->count ? 0 : kj_fail_memory(error, "the names of the model");
  for (const char *at = aliases; !code && at;) {
    size_t length = strcspn(at, ",");
    code = add(names, at, length, error);
    at = at[length] ? at + length + 1 : NULL;
  }
  if (code) {
    model_names_free(names);
    return code;
  }
  *result = names;
  return 0;
}

void model_names_free(struct model_names *names) {
  if (!names) return;
  for (size_t i = 0; i < names->count; i++) free(names->names[i]);
  free(names->names);
  free(names);
}

size_t model_names_count(const struct model_names *names) { return names->count; }

const char *model_names_at(const struct model_names *names, size_t index) { return names->names[index]; }

const char *model_names_find(const struct model_names *names, const char *name) {
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->names[i], name) == 0) return names->names[i];
  return NULL;
}
