#include "text/jinja_functions.h"

#include <string.h>
#include <time.h>

enum { LONGEST_RANGE = 100000, LONGEST_TIME = 4096 };

typedef struct value function_body(struct run *run, const struct arguments *arguments);

static struct value function_range(struct run *run, const struct arguments *arguments) {
  struct value values[3];
  if (!arguments_bind(run, arguments, "range", "start,stop,step", 1, values)) return value_none();
  bool one = values[1].kind == VALUE_MISSING;
  int64_t start = one ? 0 : argument_integer(run, values[0], 0);
  int64_t stop = argument_integer(run, values[one ? 0 : 1], 0);
  int64_t step = argument_integer(run, values[2], 1);
  if (step == 0) run_fail(run, "the step of a range cannot be zero");
  struct sequence *range = sequence_make(run, SEQUENCE_RANGE, 0);
  if (!range || run->failed) return value_none();
  range->range[0] = start;
  range->range[1] = stop;
  range->range[2] = step;
  for (int64_t at = start; (step > 0 ? at < stop : at > stop) && run_step(run, 1);) {
    if (range->count == LONGEST_RANGE) run_fail(run, "a range of more than %d numbers", LONGEST_RANGE);
    sequence_add(run, range, value_integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return value_sequence(range);
}

/* The pairs of an optional mapping or sequence of pairs, then the keyword arguments. */
static struct mapping *collect(struct run *run, const struct arguments *arguments) {
  struct mapping *mapping = mapping_make(run);
  if (arguments->count > 1) run_fail(run, "at most one positional argument is expected");
  if (arguments->count == 1 && arguments->positional[0].kind == VALUE_MAPPING) {
    const struct mapping *from = arguments->positional[0].mapping;
    for (size_t i = 0; i < from->count && run_step(run, 1); i++) {
      mapping_set(run, mapping, from->pairs[i].key, from->pairs[i].value);
    }
  } else if (arguments->count == 1) {
    const struct sequence *pairs = value_iterate(run, arguments->positional[0]);
    for (size_t i = 0; i < pairs->count && run_step(run, 1); i++) {
      const struct sequence *pair = value_iterate(run, pairs->items[i]);
      if (pair->count != 2 || !value_hashable(&pair->items[0])) {
        run_fail(run, "a mapping is made from pairs of a key and a value");
        break;
      }
      mapping_set(run, mapping, pair->items[0], pair->items[1]);
    }
  }
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    mapping_set(run, mapping, value_text(arguments->keywords[i].name), arguments->keywords[i].value);
  }
  return mapping;
}

static struct value function_dict(struct run *run, const struct arguments *arguments) {
  return value_mapping(collect(run, arguments));
}

static struct value function_namespace(struct run *run, const struct arguments *arguments) {
  struct value value = value_mapping(collect(run, arguments));
  if (value.kind == VALUE_MAPPING) value.kind = VALUE_NAMESPACE;
  return value;
}

static struct value function_joiner(struct run *run, const struct arguments *arguments) {
  struct value separator;
  if (!arguments_bind(run, arguments, "joiner", "sep", 0, &separator)) return value_none();
  struct cycler *joiner = run_allocate(run, 1, sizeof *joiner);
  if (!joiner) return value_none();
  joiner->separator = argument_text(run, separator, text_view(run, ", ", 2));
  return (struct value){.kind = VALUE_JOINER, .cycler = joiner};
}

struct value joiner_call(struct run *run, struct cycler *joiner, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "joiner", "", 0, &none)) return value_none();
  return joiner->position++ ? value_text(joiner->separator) : value_string(run, "");
}

static struct value function_cycler(struct run *run, const struct arguments *arguments) {
  struct value *items = run_allocate(run, arguments->count + 1, sizeof *items);
  struct cycler *cycler = run_allocate(run, 1, sizeof *cycler);
  if (!arguments->count || arguments->keyword_count) run_fail(run, "a cycler needs at least one item");
  if (run->failed || !items || !cycler) return value_none();
  memcpy(items, arguments->positional, arguments->count * sizeof *items);
  cycler->items = items;
  cycler->count = arguments->count;
  return (struct value){.kind = VALUE_CYCLER, .cycler = cycler};
}

static struct value function_raise_exception(struct run *run, const struct arguments *arguments) {
  struct value message;
  if (!arguments_bind(run, arguments, "raise_exception", "message", 1, &message)) return value_none();
  const struct text *text =
      message.kind == VALUE_STRING ? message.text : text_view(run, "the template refuses this", 25);
  run_fail_plain(run, KJ_INVALID, "%.*s", (int)(text->length < 800 ? text->length : 800), text->bytes);
  return value_none();
}

static struct value function_strftime_now(struct run *run, const struct arguments *arguments) {
  struct value format_value;
  if (!arguments_bind(run, arguments, "strftime_now", "format", 1, &format_value)) return value_none();
  const struct text *text = argument_text(run, format_value, NULL);
  char format[LONGEST_TIME / 8], out[LONGEST_TIME];
  if (text->length >= sizeof format || memchr(text->bytes, '\0', text->length)) {
    run_fail(run, "the format of strftime_now is too long");
    return value_none();
  }
  memcpy(format, text->bytes, text->length);
  format[text->length] = '\0';
  time_t now = time(NULL);
  struct tm parts;
  if (!localtime_r(&now, &parts)) return value_string(run, "");
    /* The format is the template's, which is why the compiler cannot check it; the output is bounded. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  size_t length = strftime(out, sizeof out, format, &parts);
#pragma GCC diagnostic pop
  return value_text(text_make(run, out, length));
}

static const struct {
  const char *name;
  function_body *body;
} FUNCTIONS[] = {
    {"range", function_range},
    {"dict", function_dict},
    {"namespace", function_namespace},
    {"joiner", function_joiner},
    {"cycler", function_cycler},
    {"raise_exception", function_raise_exception},
    {"strftime_now", function_strftime_now},
};

int function_find(const struct text *name) {
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
    if (text_is(name, FUNCTIONS[i].name)) return (int)i;
  }
  return -1;
}

struct value function_call(struct run *run, uint32_t which, const struct arguments *arguments) {
  if (run->failed) return value_none();
  return FUNCTIONS[which].body(run, arguments);
}
