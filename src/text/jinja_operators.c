#include "text/jinja_operators.h"

#include <math.h>
#include <string.h>

#include "text/jinja_format.h"
#include "text/jinja_text.h"

static const char *operation_name(enum token_kind operation) {
  struct token token = {.kind = operation};
  return token_describe(&token);
}

static struct value fail_operands(struct run *run, enum token_kind operation, struct value a, struct value b) {
  if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, a.kind == VALUE_UNDEFINED ? a : b);
  } else {
    run_fail(run, "unsupported operand types for %s: '%s' and '%s'", operation_name(operation), value_type(a),
             value_type(b));
  }
  return value_none();
}

bool divide_floor(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
  if (a == INT64_MIN && b == -1) return false;
  *quotient = a / b;
  *remainder = a % b;
  if (*remainder && (*remainder < 0) != (b < 0)) {
    *quotient -= 1;
    *remainder += b;
  }
  return true;
}

static bool power_integer(int64_t base, int64_t exponent, int64_t *result) {
  *result = 1;
  if (base == 0 || base == 1) {
    *result = exponent ? base : 1;
    return true;
  }
  if (base == -1) {
    *result = exponent % 2 ? -1 : 1;
    return true;
  }
  if (exponent > 64) return false;
  for (; exponent > 0; exponent--) {
    if (__builtin_mul_overflow(*result, base, result)) return false;
  }
  return true;
}

static struct value binary_integer(struct run *run, enum token_kind operation, int64_t a, int64_t b) {
  int64_t result = 0, other = 0;
  bool fits = true;
  switch (operation) {
    case TOKEN_ADD:
      fits = !__builtin_add_overflow(a, b, &result);
      break;
    case TOKEN_SUBTRACT:
      fits = !__builtin_sub_overflow(a, b, &result);
      break;
    case TOKEN_MULTIPLY:
      fits = !__builtin_mul_overflow(a, b, &result);
      break;
    case TOKEN_FLOOR_DIVIDE:
      fits = divide_floor(a, b, &result, &other);
      break;
    case TOKEN_MODULO:
      fits = divide_floor(a, b, &other, &result);
      break;
    default:
      fits = power_integer(a, b, &result);
      break;
  }
  if (!fits) run_fail(run, "the result of %s is too large an integer", operation_name(operation));
  return value_integer(result);
}

static struct value binary_float(struct run *run, enum token_kind operation, double a, double b) {
  double remainder = 0;
  switch (operation) {
    case TOKEN_ADD:
      return value_float(a + b);
    case TOKEN_SUBTRACT:
      return value_float(a - b);
    case TOKEN_MULTIPLY:
      return value_float(a * b);
    case TOKEN_DIVIDE:
      return value_float(a / b);
    case TOKEN_FLOOR_DIVIDE:
    case TOKEN_MODULO:
      remainder = fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (remainder == 0) remainder = copysign(0, b);
      if (operation == TOKEN_MODULO) return value_float(remainder);
      return value_float(rint((a - remainder) / b));
    default:
      if (a < 0 && floor(b) != b) run_fail(run, "a negative number to a fractional power is not a real number");
      if (a == 0 && b < 0) run_fail(run, "zero cannot be raised to a negative power");
      remainder = pow(a, b);
      if (isinf(remainder) && isfinite(a) && isfinite(b)) run_fail(run, "the result of ** is too large");
      return value_float(remainder);
  }
}

static struct value binary_number(struct run *run, enum token_kind operation, struct value a, struct value b) {
  int64_t x = 0, y = 0;
  double u = 0, v = 0;
  value_is_number(a, &u);
  value_is_number(b, &v);
  bool divides = operation == TOKEN_DIVIDE || operation == TOKEN_FLOOR_DIVIDE || operation == TOKEN_MODULO;
  if (divides && v == 0) {
    run_fail(run, "division by zero");
    return value_none();
  }
  bool integers = value_is_integer(a, &x) && value_is_integer(b, &y);
  if (integers && operation != TOKEN_DIVIDE && !(operation == TOKEN_POWER && y < 0)) {
    return binary_integer(run, operation, x, y);
  }
  return binary_float(run, operation, u, v);
}

static struct value add_texts(struct run *run, const struct text *a, const struct text *b) {
  bool safe = a->safe || b->safe;
  if (safe) {
    a = text_escape(run, a);
    b = text_escape(run, b);
  }
  char *bytes = run_allocate(run, a->length + b->length + 1, 1);
  if (!bytes) return value_text(a);
  memcpy(bytes, a->bytes, a->length);
  memcpy(bytes + a->length, b->bytes, b->length);
  return value_text(text_marked(run, text_view(run, bytes, a->length + b->length), safe));
}

static struct value add_sequences(struct run *run, const struct sequence *a, const struct sequence *b) {
  struct sequence *sum = sequence_make(run, a->flavour, a->count + b->count);
  if (!run_step(run, a->count + b->count)) return value_none();
  for (size_t i = 0; i < a->count; i++) sequence_add(run, sum, a->items[i]);
  for (size_t i = 0; i < b->count; i++) sequence_add(run, sum, b->items[i]);
  return value_sequence(sum);
}

static struct value repeat(struct run *run, struct value object, int64_t times) {
  if (times < 0) times = 0;
  if (object.kind == VALUE_STRING) {
    const struct text *text = object.text;
    uint64_t length = 0;
    if (__builtin_mul_overflow(text->length, (uint64_t)times, &length) || length > JINJA_MEMORY) {
      run_fail(run, "a repeated text becomes too long");
      return object;
    }
    char *bytes = run_allocate(run, length + 1, 1);
    if (!bytes) return object;
    for (uint64_t at = 0; at < length; at += text->length) memcpy(bytes + at, text->bytes, text->length);
    return value_text(text_marked(run, text_view(run, bytes, length), text->safe));
  }
  const struct sequence *items = object.sequence;
  struct sequence *repeated = sequence_make(run, items->flavour, 0);
  for (int64_t i = 0; items->count && i < times && run_step(run, items->count); i++) {
    for (size_t j = 0; j < items->count; j++) sequence_add(run, repeated, items->items[j]);
  }
  return value_sequence(repeated);
}

static bool is_repeatable(struct value value) {
  return value.kind == VALUE_STRING || (value.kind == VALUE_SEQUENCE && value.sequence->flavour <= SEQUENCE_TUPLE);
}

struct value value_binary(struct run *run, enum token_kind operation, struct value a, struct value b) {
  double number = 0;
  int64_t times = 0;
  if (value_is_number(a, &number) && value_is_number(b, &number)) return binary_number(run, operation, a, b);
  if (operation == TOKEN_MODULO && a.kind == VALUE_STRING) return value_text(format_percent(run, a.text, b));
  if (operation == TOKEN_ADD && a.kind == b.kind) {
    if (a.kind == VALUE_STRING) return add_texts(run, a.text, b.text);
    if (a.kind == VALUE_SEQUENCE && a.sequence->flavour == b.sequence->flavour &&
        a.sequence->flavour <= SEQUENCE_TUPLE) {
      return add_sequences(run, a.sequence, b.sequence);
    }
  }
  if (operation == TOKEN_MULTIPLY && is_repeatable(a) && value_is_integer(b, &times)) return repeat(run, a, times);
  if (operation == TOKEN_MULTIPLY && is_repeatable(b) && value_is_integer(a, &times)) return repeat(run, b, times);
  return fail_operands(run, operation, a, b);
}

struct value value_negative(struct run *run, struct value value) {
  int64_t integer = 0;
  if (value.kind == VALUE_FLOAT) return value_float(-value.number);
  if (value_is_integer(value, &integer)) return value_binary(run, TOKEN_SUBTRACT, value_integer(0), value);
  return fail_operands(run, TOKEN_SUBTRACT, value, value);
}

struct value value_positive(struct run *run, struct value value) {
  int64_t integer = 0;
  if (value.kind == VALUE_FLOAT) return value;
  if (value_is_integer(value, &integer)) return value_integer(integer);
  return fail_operands(run, TOKEN_ADD, value, value);
}

bool value_contains(struct run *run, struct value item, struct value container) {
  if (container.kind == VALUE_MAPPING) {
    if (!value_hashable(&item)) run_fail(run, "unhashable type: '%s'", value_type(item));
    return !run->failed && mapping_find(run, container.mapping, item) != NULL;
  }
  if (container.kind == VALUE_STRING) {
    if (item.kind != VALUE_STRING) {
      run_fail(run, "'in <string>' requires a string as its left operand, not '%s'", value_type(item));
      return false;
    }
    return run_step(run, container.text->length / 256) && text_find(container.text, item.text, 0) != SIZE_MAX;
  }
  bool keys = container.kind == VALUE_SEQUENCE && container.sequence->flavour == SEQUENCE_KEYS;
  if (keys && !value_hashable(&item)) run_fail(run, "unhashable type: '%s'", value_type(item));
  const struct sequence *items = value_iterate(run, container);
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    if (value_equal(run, items->items[i], item)) return true;
  }
  return false;
}
