#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "model/plan.h"

int plan_parse_split(const char *text, uint32_t *split, size_t *count, struct kj_error *error) {
  size_t parts = 0;
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ",");
    uint64_t value = 0;
    bool digits = length > 0;
    for (size_t i = 0; i < length && digits; i++) {
      digits = isdigit((unsigned char)at[i]);
      if (digits) value = value * 10 + (uint64_t)(at[i] - '0');
      if (value > UINT32_MAX) digits = false;
    }
    if (!digits)
      return kj_fail(error, KJ_INVALID, "split \"%.80s\": part %zu (\"%.*s\") is not a number of layers", text,
                     parts + 1, length > 40 ? 40 : (int)length, at);
    if (parts == PLAN_MAX_NODES)
      return kj_fail(error, KJ_INVALID, "split \"%.80s\": more than %d parts", text, PLAN_MAX_NODES);
    split[parts++] = (uint32_t)value;
    at += length;
    if (!*at) break;
  }
  *count = parts;
  return 0;
}

/* Units by name, without regard to case. "GB" are 10⁹ bytes, "GiB" and a bare number are what they say. */
static bool unit_bytes(const char *text, size_t length, double *bytes) {
  static const char letters[] = "KMGTP";
  if (length == 0 || (length == 1 && toupper((unsigned char)text[0]) == 'B')) {
    *bytes = 1;
    return true;
  }
  const char *letter = strchr(letters, toupper((unsigned char)text[0]));
  if (!letter || toupper((unsigned char)text[length - 1]) != 'B') return false;
  bool binary = length == 3 && toupper((unsigned char)text[1]) == 'I';
  if (length != 2 && !binary) return false;
  *bytes = 1;
  for (const char *l = letters; l <= letter; l++) *bytes *= binary ? 1024 : 1000;
  return true;
}

/* A decimal number and a unit, exact for whole numbers of bytes below 2⁶³. Not strtod: no sign, hexadecimal, "inf",
 * or decimal comma. */
static bool parse_amount(const char *text, size_t length, uint64_t *bytes) {
  size_t i = 0;
  uint64_t whole = 0;
  double fraction = 0, place = 0.1, unit;
  while (i < length && isdigit((unsigned char)text[i])) {
    uint64_t digit = (uint64_t)(text[i++] - '0');
    if (__builtin_mul_overflow(whole, (uint64_t)10, &whole) || __builtin_add_overflow(whole, digit, &whole))
      return false;
  }
  if (i == 0) return false;
  if (i < length && text[i] == '.') {
    size_t begin = ++i;
    for (; i < length && isdigit((unsigned char)text[i]); i++, place /= 10) fraction += place * (text[i] - '0');
    if (i == begin) return false;
  }
  while (i < length && text[i] == ' ') i++;
  if (!unit_bytes(text + i, length - i, &unit)) return false;
  uint64_t scaled;
  if (__builtin_mul_overflow(whole, (uint64_t)unit, &scaled)) return false;
  return !__builtin_add_overflow(scaled, (uint64_t)(fraction * unit + 0.5), bytes) && *bytes > 0 && *bytes <= INT64_MAX;
}

int plan_parse_size(const char *text, uint64_t *bytes, struct kj_error *error) {
  if (parse_amount(text, strlen(text), bytes)) return 0;
  return kj_fail(error, KJ_INVALID, "\"%.80s\" is not a size: write for example 256GB, 1.5TB or 512MiB", text);
}

int plan_parse_node(const char *text, struct plan_node *node, struct kj_error *error) {
  memset(node, 0, sizeof *node);
  const char *equals = strrchr(text, '=');
  if (!equals || equals == text)
    return kj_fail(error, KJ_INVALID, "node \"%.80s\" is not of the form NAME=MEMORY[,BANDWIDTH]", text);
  size_t name_length = (size_t)(equals - text);
  if (name_length >= sizeof node->name)
    return kj_fail(error, KJ_INVALID, "node \"%.80s\": a name has at most %zu bytes", text, sizeof node->name - 1);
  for (size_t i = 0; i < name_length; i++)
    if (text[i] < ' ' || text[i] > '~')
      return kj_fail(error, KJ_INVALID, "node \"%.80s\", byte %zu: a name consists of printable ASCII characters", text,
                     i);
  memcpy(node->name, text, name_length);

  const char *memory = equals + 1, *comma = strchr(memory, ',');
  size_t memory_length = comma ? (size_t)(comma - memory) : strlen(memory);
  if (!parse_amount(memory, memory_length, &node->memory))
    return kj_fail(error, KJ_INVALID, "node \"%s\": \"%.*s\" is not a size: write for example 256GB or 512MiB",
                   node->name, memory_length > 80 ? 80 : (int)memory_length, memory);
  if (!comma) return 0;
  const char *bandwidth = comma + 1;
  size_t length = strlen(bandwidth);
  if (length > 2 && !strcmp(bandwidth + length - 2, "/s")) length -= 2;
  uint64_t bytes;
  if (!parse_amount(bandwidth, length, &bytes))
    return kj_fail(error, KJ_INVALID, "node \"%s\": \"%.80s\" is not a bandwidth: write for example 800GB/s",
                   node->name, bandwidth);
  node->bandwidth = (double)bytes;
  return 0;
}
