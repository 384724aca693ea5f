#include "text/json_pointer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  char letter = (char)(digit | 0x20);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* %XX of a URI, in place. */
static void decode_percent(char *text) {
  char *out = text;
  for (const char *in = text; *in; in++) {
    int high = in[0] == '%' ? hexadecimal(in[1]) : -1, low = high >= 0 ? hexadecimal(in[2]) : -1;
    bool escaped = low >= 0 && (high || low);
    *out++ = escaped ? (char)(high * 16 + low) : *in;
    if (escaped) in += 2;
  }
  *out = '\0';
}

/* One name of a pointer, unescaped in place; returns what follows it. */
static char *next_name(char *pointer) {
  char *end = pointer + strcspn(pointer, "/"), *out = pointer;
  char *rest = *end ? end + 1 : NULL;
  *end = '\0';
  for (const char *in = pointer; *in; in++) {
    bool escaped = in[0] == '~' && (in[1] == '0' || in[1] == '1');
    *out++ = (char)(!escaped ? *in : in[1] == '1' ? '/' : '~');
    if (escaped) in++;
  }
  *out = '\0';
  return rest;
}

static json_t *element(const json_t *array, const char *name) {
  size_t digits = strspn(name, "0123456789");
  bool is_index = digits > 0 && !name[digits] && (name[0] != '0' || digits == 1) && digits < 10;
  return is_index ? json_array_get(array, strtoul(name, NULL, 10)) : NULL;
}

json_t *json_pointer_resolve(const json_t *root, const char *reference) {
  if (reference[0] != '#') return NULL;
  /* What is reached may be changed by whom the document belongs to. */
  json_t *at = (json_t *)(uintptr_t)root;
  if (!reference[1]) return at;
  char *copy = strdup(reference + 1);
  if (!copy) return NULL;
  decode_percent(copy);
  if (copy[0] != '/') at = NULL;
  for (char *name = copy + 1; at && name;) {
    char *rest = next_name(name);
    at = json_is_array(at) ? element(at, name) : json_object_get(at, name);
    name = rest;
  }
  free(copy);
  return at;
}
