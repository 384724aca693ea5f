#include "cmd/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool parse_digits(const char *text, size_t length, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
        __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value))
      return false;
  }
  return length > 0;
}

int cmd_number(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *value,
               struct kj_error *error) {
  uint64_t number;
  if (!parse_digits(text, strlen(text), &number) || number < least || number > most)
    return kj_fail(error, KJ_INVALID, "%s \"%.80s\": a whole number from %" PRIu32 " to %" PRIu32 " is needed", option,
                   text, least, most);
  *value = (uint32_t)number;
  return 0;
}

int cmd_number64(const char *option, const char *text, uint64_t *value, struct kj_error *error) {
  if (parse_digits(text, strlen(text), value)) return 0;
  return kj_fail(error, KJ_INVALID, "%s \"%.80s\": a whole number below 2^64 is needed", option, text);
}

int cmd_number_list(const char *option, const char *text, uint32_t least, uint32_t most, struct cmd_list *list,
                    struct kj_error *error) {
  struct cmd_list read = {0};
  for (const char *item = text;; item++) {
    size_t length = strcspn(item, ",");
    uint64_t number;
    if (!parse_digits(item, length, &number) || number < least || number > most)
      return kj_fail(error, KJ_INVALID,
                     "%s \"%.80s\": whole numbers from %" PRIu32 " to %" PRIu32 ", separated by commas, are needed",
                     option, text, least, most);
    if (read.count == CMD_MAX_LIST) return kj_fail(error, KJ_INVALID, "%s: more than %d numbers", option, CMD_MAX_LIST);
    read.values[read.count++] = (uint32_t)number;
    item += length;
    if (!*item) break;
  }
  *list = read;
  return 0;
}

int cmd_seconds(const char *option, const char *text, double *seconds, struct kj_error *error) {
  char *end;
  double number = strtod(text, &end);
  if (end == text || *end || !isfinite(number) || number <= 0 || number > 1e6)
    return kj_fail(error, KJ_INVALID, "%s \"%s\": a number of seconds above 0 is needed", option, text);
  *seconds = number;
  return 0;
}
