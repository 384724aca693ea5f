#include "cmd/number.h"

#include <inttypes.h>
#include <stdbool.h>

static bool parse_digits(const char *text, uint64_t *value) {
  *value = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
        __builtin_add_overflow(*value, (uint64_t)(*text - '0'), value))
      return false;
  }
  return true;
}

int cmd_number(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *value,
               struct kj_error *error) {
  uint64_t number;
  if (!parse_digits(text, &number) || number < least || number > most)
    return kj_fail(error, KJ_INVALID, "%s \"%.80s\": a whole number from %" PRIu32 " to %" PRIu32 " is needed", option,
                   text, least, most);
  *value = (uint32_t)number;
  return 0;
}

int cmd_number64(const char *option, const char *text, uint64_t *value, struct kj_error *error) {
  if (parse_digits(text, value)) return 0;
  return kj_fail(error, KJ_INVALID, "%s \"%.80s\": a whole number below 2^64 is needed", option, text);
}
