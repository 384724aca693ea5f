#include "text/jinja_tests.h"

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* A test gets as many further values as its entry says. */
typedef bool test_body(struct run *run, struct value value, const struct value *more);

static bool remainder_is(struct run *run, struct value value, struct value divisor, int64_t wanted) {
  struct value remainder = value_binary(run, TOKEN_MODULO, value, divisor);
  return value_equal(run, remainder, value_integer(wanted));
}

static bool test_odd(struct run *run, struct value value, const struct value *more) {
  (void)more;
  return remainder_is(run, value, value_integer(2), 1);
}

static bool test_even(struct run *run, struct value value, const struct value *more) {
  (void)more;
  return remainder_is(run, value, value_integer(2), 0);
}

static bool test_divisibleby(struct run *run, struct value value, const struct value *more) {
  return remainder_is(run, value, more[0], 0);
}

static bool test_defined(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind != VALUE_UNDEFINED;
}

static bool test_undefined(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_UNDEFINED;
}

static bool test_none(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_NONE;
}

static bool test_boolean(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_BOOLEAN;
}

static bool test_true(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_BOOLEAN && value.boolean;
}

static bool test_false(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_BOOLEAN && !value.boolean;
}

static bool test_integer(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_INTEGER;
}

static bool test_float(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_FLOAT;
}

static bool test_number(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind >= VALUE_BOOLEAN && value.kind <= VALUE_FLOAT;
}

static bool test_string(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING;
}

static bool test_mapping(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_MAPPING;
}

/* Python asks for a length and subscripts, which an undefined value has as well. */
static bool test_sequence(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING || value.kind == VALUE_MAPPING || value.kind == VALUE_UNDEFINED ||
         (value.kind == VALUE_SEQUENCE && value.sequence->flavour <= SEQUENCE_RANGE);
}

static bool test_iterable(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING || value.kind == VALUE_MAPPING || value.kind == VALUE_UNDEFINED ||
         value.kind == VALUE_SEQUENCE || value.kind == VALUE_LOOP;
}

static bool test_callable(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_MACRO || value.kind == VALUE_FUNCTION || value.kind == VALUE_METHOD ||
         value.kind == VALUE_JOINER || value.kind == VALUE_UNDEFINED || value.kind == VALUE_LOOP;
}

static bool test_lower(struct run *run, struct value value, const struct value *more) {
  (void)more;
  return text_has_case(value_to_text(run, value), false);
}

static bool test_upper(struct run *run, struct value value, const struct value *more) {
  (void)more;
  return text_has_case(value_to_text(run, value), true);
}

static bool test_escaped(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING && value.text->safe;
}

static bool test_sameas(struct run *run, struct value value, const struct value *more) {
  if (value.kind != more[0].kind) return false;
  if (value.kind >= VALUE_STRING) return value.text == more[0].text;
  return value_equal(run, value, more[0]);
}

static bool test_in(struct run *run, struct value value, const struct value *more) {
  return value_contains(run, value, more[0]);
}

static bool test_equal(struct run *run, struct value value, const struct value *more) {
  return value_equal(run, value, more[0]);
}

static bool test_not_equal(struct run *run, struct value value, const struct value *more) {
  return !value_equal(run, value, more[0]);
}

static bool test_greater(struct run *run, struct value value, const struct value *more) {
  return value_compare(run, value, more[0], ">") == 1;
}

static bool test_less(struct run *run, struct value value, const struct value *more) {
  return value_compare(run, value, more[0], "<") == -1;
}

static bool test_greater_equal(struct run *run, struct value value, const struct value *more) {
  int order = value_compare(run, value, more[0], ">=");
  return order == 0 || order == 1;
}

static bool test_less_equal(struct run *run, struct value value, const struct value *more) {
  return value_compare(run, value, more[0], "<=") <= 0;
}

static bool test_filter(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING && filter_find(value.text) >= 0;
}

static bool test_test(struct run *run, struct value value, const struct value *more) {
  (void)run, (void)more;
  return value.kind == VALUE_STRING && test_find(value.text) >= 0;
}

static const struct {
  const char *name;
  test_body *body;
  size_t more;
} TESTS[] = {
    {"odd", test_odd, 0},
    {"even", test_even, 0},
    {"divisibleby", test_divisibleby, 1},
    {"defined", test_defined, 0},
    {"undefined", test_undefined, 0},
    {"filter", test_filter, 0},
    {"test", test_test, 0},
    {"none", test_none, 0},
    {"boolean", test_boolean, 0},
    {"false", test_false, 0},
    {"true", test_true, 0},
    {"integer", test_integer, 0},
    {"float", test_float, 0},
    {"number", test_number, 0},
    {"string", test_string, 0},
    {"mapping", test_mapping, 0},
    {"sequence", test_sequence, 0},
    {"iterable", test_iterable, 0},
    {"callable", test_callable, 0},
    {"lower", test_lower, 0},
    {"upper", test_upper, 0},
    {"escaped", test_escaped, 0},
    {"sameas", test_sameas, 1},
    {"in", test_in, 1},
    {"==", test_equal, 1},
    {"eq", test_equal, 1},
    {"equalto", test_equal, 1},
    {"!=", test_not_equal, 1},
    {"ne", test_not_equal, 1},
    {">", test_greater, 1},
    {"gt", test_greater, 1},
    {"greaterthan", test_greater, 1},
    {">=", test_greater_equal, 1},
    {"ge", test_greater_equal, 1},
    {"<", test_less, 1},
    {"lt", test_less, 1},
    {"lessthan", test_less, 1},
    {"<=", test_less_equal, 1},
    {"le", test_less_equal, 1},
};

int test_find(const struct text *name) {
  for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
    if (text_is(name, TESTS[i].name)) return (int)i;
  }
  return -1;
}

bool test_apply(struct run *run, int which, struct value value, const struct arguments *arguments) {
  struct value more;
  const char *parameters = TESTS[which].more ? "other" : "";
  if (!arguments_bind(run, arguments, TESTS[which].name, parameters, TESTS[which].more, &more)) return false;
  return TESTS[which].body(run, value, &more);
}
