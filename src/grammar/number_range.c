#include "grammar/number_range.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_value.h"

enum {
  SAFE_DIGITS = 15,     /* two different decimals of so many digits are two different doubles */
  WHOLE_DIGITS = 18,    /* before the point */
  FRACTION_DIGITS = 25, /* of a bound */
  TEXT = 48
};

int number_compare(const json_t *left, const json_t *right) {
  if (json_is_integer(left) && json_is_integer(right)) {
    json_int_t a = json_integer_value(left), b = json_integer_value(right);
    return (a > b) - (a < b);
  }
  double a = json_number_value(left), b = json_number_value(right);
  return (a > b) - (a < b);
}

static grammar_expression digits(struct grammar_builder *builder, uint32_t minimum, uint32_t maximum) {
  return grammar_repeat(builder, grammar_class(builder, &(struct code_range){'0', '9'}, 1, false), minimum, maximum);
}

static grammar_expression digit_from(struct grammar_builder *builder, char first, char last) {
  return grammar_class(builder, &(struct code_range){(uint32_t)first, (uint32_t)last}, 1, false);
}

static grammar_expression nothing(struct grammar_builder *builder) { return grammar_choice(builder, NULL, 0); }

/* Digits between two numbers of as many digits; a side is tight while the digits so far are those of the bound. */
struct digit_range {
  struct grammar_builder *builder;
  const char *low, *high;
};

static grammar_expression digits_between(const struct digit_range *range, bool low_tight, bool high_tight) {
  struct grammar_builder *builder = range->builder;
  size_t left = strlen(range->low);
  low_tight &= strspn(range->low, "0") < left;
  high_tight &= strspn(range->high, "9") < left;
  if (!low_tight && !high_tight) return digits(builder, (uint32_t)left, (uint32_t)left);
  char low = low_tight ? *range->low : '0', high = high_tight ? *range->high : '9';
  const struct digit_range rest = {builder, range->low + 1, range->high + 1};
  if (low == high)
    return GRAMMAR_SEQUENCE(builder, digit_from(builder, low, low), digits_between(&rest, low_tight, high_tight));
  grammar_expression parts[3];
  size_t count = 0;
  if (low_tight)
    parts[count++] = GRAMMAR_SEQUENCE(builder, digit_from(builder, low, low), digits_between(&rest, true, false));
  char first = (char)(low + low_tight), last = (char)(high - high_tight);
  if (first <= last)
    parts[count++] = GRAMMAR_SEQUENCE(builder, digit_from(builder, first, last),
                                      digits(builder, (uint32_t)left - 1, (uint32_t)left - 1));
  if (high_tight)
    parts[count++] = GRAMMAR_SEQUENCE(builder, digit_from(builder, high, high), digits_between(&rest, false, true));
  return grammar_choice(builder, parts, count);
}

/* Numbers without a sign from `low` to `high`. */
static grammar_expression magnitudes(struct grammar_builder *builder, uint64_t low, uint64_t high) {
  grammar_expression parts[20];
  size_t count = 0;
  uint64_t first = 0, last = 9;
  while (low <= high && first <= high) {
    uint64_t from = low > first ? low : first, to = high < last ? high : last;
    if (from <= to) {
      char low_text[TEXT], high_text[TEXT];
      snprintf(low_text, sizeof low_text, "%llu", (unsigned long long)from);
      snprintf(high_text, sizeof high_text, "%llu", (unsigned long long)to);
      parts[count++] = digits_between(&(struct digit_range){builder, low_text, high_text}, true, true);
    }
    if (last == UINT64_MAX) break;
    first = last + 1;
    last = last > UINT64_MAX / 10 ? UINT64_MAX : last * 10 + 9;
  }
  return grammar_choice(builder, parts, count);
}

static grammar_expression negative(struct grammar_builder *builder, grammar_expression magnitude) {
  return GRAMMAR_SEQUENCE(builder, grammar_text(builder, "-"), magnitude);
}

/* The least integer that the bound allows; false: none of 64 bits. */
static bool least_integer(struct number_bound bound, int64_t *least) {
  *least = INT64_MIN;
  if (!bound.value) return true;
  if (json_is_integer(bound.value)) {
    *least = json_integer_value(bound.value);
    return !bound.exclusive || !__builtin_add_overflow(*least, 1, least);
  }
  double value = json_real_value(bound.value), whole = ceil(value);
  if (bound.exclusive && whole == value) whole += 1;
  if (whole >= 0x1p63) return false;
  if (whole > -0x1p63) *least = (int64_t)whole;
  return true;
}

static bool greatest_integer(struct number_bound bound, int64_t *greatest) {
  *greatest = INT64_MAX;
  if (!bound.value) return true;
  if (json_is_integer(bound.value)) {
    *greatest = json_integer_value(bound.value);
    return !bound.exclusive || !__builtin_sub_overflow(*greatest, 1, greatest);
  }
  double value = json_real_value(bound.value), whole = floor(value);
  if (bound.exclusive && whole == value) whole -= 1;
  if (whole < -0x1p63) return false;
  if (whole < 0x1p63) *greatest = (int64_t)whole;
  return true;
}

grammar_expression number_range_integers(struct grammar_builder *builder, struct number_bound minimum,
                                         struct number_bound maximum) {
  int64_t low = 0, high = 0;
  if (!least_integer(minimum, &low) || !greatest_integer(maximum, &high) || low > high) return nothing(builder);
  grammar_expression parts[2];
  size_t count = 0;
  if (low < 0)
    parts[count++] = negative(builder, magnitudes(builder, high < 0 ? 0 - (uint64_t)high : 1, 0 - (uint64_t)low));
  if (high >= 0) parts[count++] = magnitudes(builder, low > 0 ? (uint64_t)low : 0, (uint64_t)high);
  return grammar_choice(builder, parts, count);
}

/* A bound, written out. */
struct decimal {
  bool given, exclusive, negative;
  uint64_t whole;
  unsigned whole_digits, fraction_digits; /* 0 whole digits: 0 */
  char fraction[FRACTION_DIGITS + 1];     /* padded with zeros */
};

static bool is_zero(const struct decimal *decimal) { return !decimal->whole && !decimal->fraction_digits; }

/* digits · 10^exponent, `digits` without zeros at its end. False if it has too many. */
static bool write_out(struct decimal *decimal, const char *digits, long exponent) {
  size_t count = strlen(digits);
  memset(decimal->fraction, '0', FRACTION_DIGITS);
  decimal->fraction[FRACTION_DIGITS] = '\0';
  if (strspn(digits, "0") == count) return true;
  long before = (long)count + exponent; /* digits before the point */
  if (before > WHOLE_DIGITS || exponent < -FRACTION_DIGITS) return false;
  if (decimal->exclusive && count > SAFE_DIGITS) return false;
  for (long i = 0; i < before; i++)
    decimal->whole = decimal->whole * 10 + (uint64_t)(i < (long)count ? digits[i] - '0' : 0);
  decimal->whole_digits = before > 0 ? (unsigned)before : 0;
  decimal->fraction_digits = exponent < 0 ? (unsigned)-exponent : 0;
  for (long i = before < 0 ? 0 : before; i < (long)count; i++) decimal->fraction[i - before] = digits[i];
  return true;
}

static bool read_bound(struct decimal *decimal, struct number_bound bound) {
  *decimal = (struct decimal){.given = bound.value != NULL, .exclusive = bound.exclusive};
  char text[TEXT] = "0", mantissa[TEXT];
  long exponent = 0;
  if (json_is_integer(bound.value)) {
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(bound.value));
  } else if (bound.value) {
    double value = json_real_value(bound.value);
    for (int precision = SAFE_DIGITS - 1; precision <= 16; precision++) {
      snprintf(text, sizeof text, "%.*e", precision, value);
      if (strtod(text, NULL) == value) break;
    }
  }
  size_t count = 0;
  bool behind_point = false;
  const char *at = text;
  decimal->negative = *at == '-';
  for (at += decimal->negative; *at && *at != 'e'; at++) {
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    exponent -= behind_point;
    if (count || *at != '0') mantissa[count++] = *at;
  }
  if (*at) exponent += strtol(at + 1, NULL, 10);
  while (count && mantissa[count - 1] == '0') count--, exponent++;
  mantissa[count] = '\0';
  decimal->negative &= count > 0;
  return write_out(decimal, mantissa, exponent);
}

/* Fractions between two, `low` and `high` digits behind the point; NULL: no bound. */
struct fraction_range {
  struct grammar_builder *builder;
  const struct decimal *low, *high;
  unsigned digits; /* of a fraction at most */
};

/* The digits from `at` on. */
static grammar_expression fraction_from(const struct fraction_range *range, unsigned at, bool low_tight,
                                        bool high_tight) {
  struct grammar_builder *builder = range->builder;
  if (!low_tight && !high_tight && at) return digits(builder, 0, range->digits - at);
  const char *low_rest = low_tight ? range->low->fraction + at : "",
             *high_rest = high_tight ? range->high->fraction + at : "";
  bool low_met = !low_rest[strspn(low_rest, "0")], high_met = !high_rest[strspn(high_rest, "0")];
  /* To end here is to go on with zeros. */
  bool may_end =
      !(low_tight && (!low_met || range->low->exclusive)) && !(high_tight && high_met && range->high->exclusive);
  grammar_expression parts[5];
  size_t count = 0;
  if (may_end) parts[count++] = grammar_text(builder, "");
  if (at < range->digits) {
    grammar_expression point = grammar_text(builder, at ? "" : ".");
    char low = low_tight ? *low_rest : '0', high = high_tight ? *high_rest : '9';
    char first = (char)(low + low_tight), last = (char)(high - high_tight);
    if (low_tight && high_tight && low == high) {
      parts[count++] =
          GRAMMAR_SEQUENCE(builder, point, digit_from(builder, low, low), fraction_from(range, at + 1, true, true));
    } else if (low <= high) {
      if (low_tight)
        parts[count++] =
            GRAMMAR_SEQUENCE(builder, point, digit_from(builder, low, low), fraction_from(range, at + 1, true, false));
      if (first <= last)
        parts[count++] = GRAMMAR_SEQUENCE(builder, point, digit_from(builder, first, last),
                                          fraction_from(range, at + 1, false, false));
      if (high_tight)
        parts[count++] = GRAMMAR_SEQUENCE(builder, point, digit_from(builder, high, high),
                                          fraction_from(range, at + 1, false, true));
    }
  }
  return grammar_choice(builder, parts, count);
}

/* Numbers without a sign between two, neither of which is negative. */
static grammar_expression decimals_between(struct grammar_builder *builder, const struct decimal *low,
                                           const struct decimal *high, unsigned fraction_digits) {
  const uint64_t most = 999999999999999999u;
  const struct fraction_range range = {builder, low, high, fraction_digits};
  if (high->given && low->whole > high->whole) return nothing(builder);
  if (high->given && low->whole == high->whole)
    return GRAMMAR_SEQUENCE(builder, magnitudes(builder, low->whole, low->whole), fraction_from(&range, 0, true, true));
  grammar_expression parts[3];
  size_t count = 0;
  parts[count++] =
      GRAMMAR_SEQUENCE(builder, magnitudes(builder, low->whole, low->whole), fraction_from(&range, 0, true, false));
  uint64_t last = high->given ? high->whole - 1 : most;
  if (low->whole + 1 <= last)
    parts[count++] =
        GRAMMAR_SEQUENCE(builder, magnitudes(builder, low->whole + 1, last), fraction_from(&range, 0, false, false));
  if (high->given)
    parts[count++] =
        GRAMMAR_SEQUENCE(builder, magnitudes(builder, high->whole, high->whole), fraction_from(&range, 0, false, true));
  return grammar_choice(builder, parts, count);
}

bool number_range_decimals(struct grammar_builder *builder, struct number_bound minimum, struct number_bound maximum,
                           grammar_expression *decimals) {
  struct decimal low, high, zero;
  *decimals = nothing(builder);
  if (!read_bound(&low, minimum) || !read_bound(&high, maximum) || !read_bound(&zero, (struct number_bound){0}))
    return false;
  unsigned whole = low.whole_digits > high.whole_digits ? low.whole_digits : high.whole_digits;
  unsigned fraction = low.fraction_digits > high.fraction_digits ? low.fraction_digits : high.fraction_digits;
  if (whole < SAFE_DIGITS && fraction < SAFE_DIGITS - whole) fraction = SAFE_DIGITS - whole;
  grammar_expression parts[2];
  size_t count = 0;
  if (!low.given || low.negative) {
    /* Without -0. */
    struct decimal least = high.given && high.negative ? high : zero, most = low;
    least.exclusive |= is_zero(&least);
    parts[count++] = negative(builder, decimals_between(builder, &least, &most, fraction));
  }
  if (!high.given || !high.negative)
    parts[count++] = decimals_between(builder, low.given && !low.negative ? &low : &zero, &high, fraction);
  *decimals = grammar_choice(builder, parts, count);
  return true;
}
