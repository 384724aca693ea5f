#include "text/jinja_string_methods.h"

#include <string.h>
#include <utf8proc.h>

#include "text/jinja_format.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* Variants of a method: the sides of a text, or from which one the work begins; whether a failure is an error. */
enum { LEFT = 1, RIGHT = 2, REQUIRED = 4 };

static bool bind(struct run *run, const struct arguments *arguments, const char *parameters, size_t required,
                 struct value *values) {
  return arguments_bind(run, arguments, "a string method", parameters, required, values);
}

static struct value method_strip(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  struct value chars;
  if (!bind(run, arguments, "chars", 0, &chars)) return object;
  if (chars.kind == VALUE_NONE) chars.kind = VALUE_MISSING;
  return value_text(text_strip(run, object.text, argument_text(run, chars, NULL), variant & LEFT, variant & RIGHT));
}

static struct value method_change_case(struct run *run, struct value object, const struct arguments *arguments,
                                       int variant) {
  struct value none;
  if (!bind(run, arguments, "", 0, &none)) return object;
  return value_text(text_change_case(run, object.text, (enum text_case)variant));
}

/* The words between white space, at most `limit` splits where it is not negative. */
static void split_words(struct run *run, const struct text *text, int64_t limit, struct sequence *parts) {
  size_t at = space_before(text->bytes, text->length);
  for (; at < text->length && run_step(run, 1); limit -= limit > 0) {
    if (limit == 0) {
      sequence_add(run, parts, value_text(text_part(run, text, at, text->length)));
      return;
    }
    size_t end = at, size = 0;
    while (end < text->length && !character_is_space(character_decode(text->bytes + end, &size))) end += size;
    sequence_add(run, parts, value_text(text_part(run, text, at, end)));
    at = end + space_before(text->bytes + end, text->length - end);
  }
}

/* The same from the right; the parts come last first. */
static void split_words_right(struct run *run, const struct text *text, int64_t limit, struct sequence *parts) {
  size_t end = text->length - space_after(text->bytes, text->length);
  for (; end > 0 && run_step(run, 1); limit -= limit > 0) {
    size_t start = end;
    if (limit == 0) {
      sequence_add(run, parts, value_text(text_part(run, text, 0, end)));
      return;
    }
    while (start > 0) {
      size_t before = start - 1, size = 0;
      while (((unsigned char)text->bytes[before] & 0xC0) == 0x80) before--;
      if (character_is_space(character_decode(text->bytes + before, &size))) break;
      start = before;
    }
    sequence_add(run, parts, value_text(text_part(run, text, start, end)));
    end = start - space_after(text->bytes, start);
  }
}

static void reverse(struct sequence *parts) {
  for (size_t i = 0; parts && i < parts->count / 2; i++) {
    struct value swap = parts->items[i];
    parts->items[i] = parts->items[parts->count - 1 - i];
    parts->items[parts->count - 1 - i] = swap;
  }
}

static struct value method_split(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  bool right = variant == RIGHT;
  struct value values[2];
  struct sequence *parts = sequence_make(run, SEQUENCE_LIST, 0);
  if (!parts || !bind(run, arguments, "sep,maxsplit", 0, values)) return object;
  const struct text *text = object.text;
  int64_t limit = argument_integer(run, values[1], -1);
  if (values[0].kind == VALUE_MISSING || values[0].kind == VALUE_NONE) {
    if (right) {
      split_words_right(run, text, limit, parts);
      reverse(parts);
    } else {
      split_words(run, text, limit, parts);
    }
    return value_sequence(parts);
  }
  const struct text *separator = argument_text(run, values[0], text);
  if (!separator->length) run_fail(run, "empty separator");
  size_t at = 0, end = text->length;
  for (; limit != 0 && run_step(run, 1); limit -= limit > 0) {
    size_t found = right ? text_find_last(text, separator, end) : text_find(text, separator, at);
    if (found == SIZE_MAX) break;
    if (right) {
      sequence_add(run, parts, value_text(text_part(run, text, found + separator->length, end)));
      end = found;
    } else {
      sequence_add(run, parts, value_text(text_part(run, text, at, found)));
      at = found + separator->length;
    }
  }
  sequence_add(run, parts, value_text(text_part(run, text, at, end)));
  if (right) reverse(parts);
  return value_sequence(parts);
}

static struct value method_splitlines(struct run *run, struct value object, const struct arguments *arguments,
                                      int variant) {
  (void)variant;
  struct value keepends;
  if (!bind(run, arguments, "keepends", 0, &keepends)) return object;
  if (argument_truth(keepends, false)) run_fail(run, "splitlines with keepends is not supported");
  return value_sequence(text_lines(run, object.text));
}

static struct value method_partition(struct run *run, struct value object, const struct arguments *arguments,
                                     int variant) {
  bool right = variant == RIGHT;
  struct value separator_value;
  struct sequence *parts = sequence_make(run, SEQUENCE_TUPLE, 3);
  if (!parts || !bind(run, arguments, "sep", 1, &separator_value)) return object;
  const struct text *text = object.text, *separator = argument_text(run, separator_value, NULL);
  if (!separator->length) run_fail(run, "empty separator");
  if (run->failed) return object;
  size_t found = right ? text_find_last(text, separator, text->length) : text_find(text, separator, 0);
  bool none = found == SIZE_MAX;
  size_t start = none ? (right ? 0 : text->length) : found;
  size_t end = none ? start : found + separator->length;
  sequence_add(run, parts, value_text(text_part(run, text, 0, start)));
  sequence_add(run, parts, value_text(text_part(run, text, start, end)));
  sequence_add(run, parts, value_text(text_part(run, text, end, text->length)));
  return value_sequence(parts);
}

/* The part that optional start and end arguments choose, and the character it starts at. */
static const struct text *chosen_part(struct run *run, const struct text *text, struct value from, struct value to,
                                      size_t *first, bool *beyond) {
  int64_t length = (int64_t)text->characters;
  int64_t start = from.kind == VALUE_NONE ? 0 : argument_integer(run, from, 0);
  int64_t end = to.kind == VALUE_NONE ? length : argument_integer(run, to, length);
  if (start < 0) start = start + length < 0 ? 0 : start + length;
  if (end < 0) end = end + length < 0 ? 0 : end + length;
  if (end > length) end = length;
  *beyond = start > end;
  *first = (size_t)start;
  if (*beyond) return text_part(run, text, 0, 0);
  return text_part(run, text, character_offset(text, (size_t)start), character_offset(text, (size_t)end));
}

static bool has_affix(const struct text *text, const struct text *affix, bool at_end) {
  if (affix->length > text->length) return false;
  const char *bytes = at_end ? text->bytes + text->length - affix->length : text->bytes;
  return memcmp(bytes, affix->bytes, affix->length) == 0;
}

static struct value method_has_affix(struct run *run, struct value object, const struct arguments *arguments,
                                     int variant) {
  bool at_end = variant == RIGHT;
  struct value values[3];
  if (!bind(run, arguments, "affix,start,end", 1, values)) return object;
  size_t first = 0;
  bool beyond = false;
  const struct text *text = chosen_part(run, object.text, values[1], values[2], &first, &beyond);
  if (values[0].kind == VALUE_SEQUENCE && values[0].sequence->flavour == SEQUENCE_TUPLE) {
    bool any = false;
    for (size_t i = 0; !any && i < values[0].sequence->count; i++) {
      any = !beyond && has_affix(text, argument_text(run, values[0].sequence->items[i], NULL), at_end);
    }
    return value_boolean(any);
  }
  return value_boolean(has_affix(text, argument_text(run, values[0], NULL), at_end) && !beyond);
}

static struct value method_remove_affix(struct run *run, struct value object, const struct arguments *arguments,
                                        int variant) {
  bool at_end = variant == RIGHT;
  struct value value;
  if (!bind(run, arguments, "affix", 1, &value)) return object;
  const struct text *affix = argument_text(run, value, NULL), *text = object.text;
  if (!has_affix(text, affix, at_end)) return object;
  return value_text(text_part(run, text, at_end ? 0 : affix->length, text->length - (at_end ? affix->length : 0)));
}

static struct value method_replace(struct run *run, struct value object, const struct arguments *arguments,
                                   int variant) {
  (void)variant;
  struct value values[3];
  if (!bind(run, arguments, "old,new,count", 2, values)) return object;
  const struct text *to = argument_text(run, values[1], NULL);
  if (object.text->safe) to = text_escape(run, to);
  return value_text(
      text_replace(run, object.text, argument_text(run, values[0], NULL), to, argument_integer(run, values[2], -1)));
}

static struct value method_find(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  struct value values[3];
  if (!bind(run, arguments, "sub,start,end", 1, values)) return object;
  size_t first = 0;
  bool beyond = false;
  const struct text *part = chosen_part(run, object.text, values[1], values[2], &first, &beyond);
  const struct text *wanted = argument_text(run, values[0], NULL);
  size_t found = beyond            ? SIZE_MAX
                 : variant & RIGHT ? text_find_last(part, wanted, part->length)
                                   : text_find(part, wanted, 0);
  if (found == SIZE_MAX && variant & REQUIRED) run_fail(run, "substring not found");
  if (found == SIZE_MAX) return value_integer(-1);
  return value_integer((int64_t)(first + characters_count(part->bytes, found)));
}

static struct value method_count(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value values[3];
  if (!bind(run, arguments, "sub,start,end", 1, values)) return object;
  size_t first = 0;
  bool beyond = false;
  const struct text *part = chosen_part(run, object.text, values[1], values[2], &first, &beyond);
  const struct text *wanted = argument_text(run, values[0], NULL);
  if (!wanted->length) return value_integer(beyond ? 0 : (int64_t)part->characters + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = text_find(part, wanted, at)) != SIZE_MAX && run_step(run, 1); at += wanted->length) count++;
  return value_integer(count);
}

static struct value method_join(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value iterable;
  if (!bind(run, arguments, "iterable", 1, &iterable)) return object;
  const struct sequence *items = value_iterate(run, iterable);
  struct buffer out = {0};
  for (size_t i = 0; i < items->count && run_step(run, 1) && text_grows(run, &out); i++) {
    const struct text *item = argument_text(run, items->items[i], NULL);
    if (object.text->safe) item = text_escape(run, item);
    if (i) buffer_append(&out, object.text->bytes, object.text->length);
    buffer_append(&out, item->bytes, item->length);
  }
  const struct text *joined = text_marked(run, text_take(run, &out), object.text->safe);
  buffer_free(&out);
  return value_text(joined);
}

static struct value method_format(struct run *run, struct value object, const struct arguments *arguments,
                                  int variant) {
  (void)variant;
  return value_text(format_braces(run, object.text, arguments));
}

static bool is_letter_or_digit(int32_t character) {
  utf8proc_category_t category = utf8proc_category(character);
  return character_is_letter(character) || character_is_digit(character) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

enum question { IS_SPACE, IS_LETTER, IS_DIGIT, IS_LETTER_OR_DIGIT };
static bool (*const QUESTIONS[])(int32_t character) = {character_is_space, character_is_letter, character_is_digit,
                                                       is_letter_or_digit};

/* Whether there are characters and all of them satisfy the question. */
static struct value method_all_are(struct run *run, struct value object, const struct arguments *arguments,
                                   int variant) {
  struct value none;
  if (!bind(run, arguments, "", 0, &none)) return object;
  const struct text *text = object.text;
  size_t size = 0;
  for (size_t at = 0; at < text->length && run_step(run, 1); at += size) {
    if (!QUESTIONS[variant](character_decode(text->bytes + at, &size))) return value_boolean(false);
  }
  return value_boolean(text->length > 0);
}

/* Whether there is a cased character and none of the other case. */
static struct value method_has_case(struct run *run, struct value object, const struct arguments *arguments,
                                    int variant) {
  struct value none;
  if (!bind(run, arguments, "", 0, &none)) return object;
  return value_boolean(text_has_case(object.text, variant == CASE_UPPER));
}

/* Pads to a width: all before, all behind, or around ('c'). */
static struct value method_justify(struct run *run, struct value object, const struct arguments *arguments,
                                   int variant) {
  struct value values[2];
  if (!bind(run, arguments, "width,fillchar", 1, values)) return object;
  const struct text *fill = argument_text(run, values[1], text_view(run, " ", 1));
  if (fill->characters != 1) run_fail(run, "the fill character must be exactly one character long");
  return value_text(text_pad(run, object.text, argument_integer(run, values[0], 0), fill, (char)variant));
}

static struct value method_zfill(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value width;
  if (!bind(run, arguments, "width", 1, &width)) return object;
  const struct text *text = object.text;
  size_t sign = text->length && (text->bytes[0] == '+' || text->bytes[0] == '-');
  struct buffer out = {0};
  const struct text *digits = text_pad(run, text_part(run, text, sign, text->length),
                                       argument_integer(run, width, 0) - (int64_t)sign, text_view(run, "0", 1), '>');
  buffer_append(&out, text->bytes, sign);
  buffer_append(&out, digits->bytes, digits->length);
  const struct text *filled = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return value_text(filled);
}

const struct method_entry STRING_METHODS[] = {
    {"strip", method_strip, LEFT | RIGHT},
    {"lstrip", method_strip, LEFT},
    {"rstrip", method_strip, RIGHT},
    {"upper", method_change_case, CASE_UPPER},
    {"lower", method_change_case, CASE_LOWER},
    {"title", method_change_case, CASE_TITLE},
    {"capitalize", method_change_case, CASE_CAPITALIZE},
    {"swapcase", method_change_case, CASE_SWAP},
    {"split", method_split, LEFT},
    {"rsplit", method_split, RIGHT},
    {"splitlines", method_splitlines, 0},
    {"partition", method_partition, LEFT},
    {"rpartition", method_partition, RIGHT},
    {"startswith", method_has_affix, LEFT},
    {"endswith", method_has_affix, RIGHT},
    {"removeprefix", method_remove_affix, LEFT},
    {"removesuffix", method_remove_affix, RIGHT},
    {"replace", method_replace, 0},
    {"find", method_find, LEFT},
    {"rfind", method_find, RIGHT},
    {"index", method_find, LEFT | REQUIRED},
    {"rindex", method_find, RIGHT | REQUIRED},
    {"count", method_count, 0},
    {"join", method_join, 0},
    {"format", method_format, 0},
    {"isspace", method_all_are, IS_SPACE},
    {"isalpha", method_all_are, IS_LETTER},
    {"isdigit", method_all_are, IS_DIGIT},
    {"isalnum", method_all_are, IS_LETTER_OR_DIGIT},
    {"isupper", method_has_case, CASE_UPPER},
    {"islower", method_has_case, CASE_LOWER},
    {"ljust", method_justify, '<'},
    {"rjust", method_justify, '>'},
    {"center", method_justify, 'c'},
    {"zfill", method_zfill, 0},
    {NULL, NULL, 0},
};
