#include "grammar/known_pattern.h"

#include <stddef.h>
#include <string.h>

#define SECONDS "\\d+(?:[.,]\\d+)?S"
#define TIME "T(?:\\d+H(?:\\d+M)?(?:" SECONDS ")?|\\d+M(?:" SECONDS ")?|" SECONDS ")"

const char *known_pattern(const char *pattern) {
  static const struct {
    const char *written, *without;
  } PATTERNS[] = {
      /* zod 4.0: email */
      {"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
       "^(?:[A-Za-z0-9_'+-]+\\.)*[A-Za-z0-9_'+-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$"},
      /* zod 4: duration */
      {"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$",
       "^P(?:\\d+W|(?:\\d+Y(?:\\d+M)?(?:\\d+D)?|\\d+M(?:\\d+D)?|\\d+D)(?:" TIME ")?|" TIME ")$"},
      /* pydantic 2: Decimal */
      {"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "^[+-]?(?:\\d+\\.?\\d*|\\.\\d+)$"},
  };
  for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
    if (strcmp(PATTERNS[i].written, pattern) == 0) return PATTERNS[i].without;
  return pattern;
}
