#include "text/split_syntax.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "text/unicode.h"

struct translation {
  const char *text;
  size_t length, at;
  struct buffer *out;
  struct kj_error *error;
};

static int peek(const struct translation *t, size_t ahead) {
  return ahead < t->length - t->at ? (unsigned char)t->text[t->at + ahead] : -1;
}

static bool starts(const struct translation *t, const char *with) {
  size_t length = strlen(with);
  return t->length - t->at >= length && !memcmp(t->text + t->at, with, length);
}

static void copy(struct translation *t, size_t count) {
  buffer_append(t->out, t->text + t->at, count);
  t->at += count;
}

static int refuse(const struct translation *t, const char *what) {
  size_t left = t->length - t->at;
  return kj_fail(t->error, KJ_UNSUPPORTED, "split expression: %s is not supported, at byte %zu: \"%.*s\"", what, t->at,
                 (int)(left < 40 ? left : 40), t->text + t->at);
}

static void append_range(struct buffer *out, uint32_t first, uint32_t last) {
  buffer_append_format(out, "\\x{%x}-\\x{%x}", (unsigned)first, (unsigned)last);
}

static void append_table(struct buffer *out, struct code_table table) {
  for (size_t i = 0; i < table.count; i++) append_range(out, table.ranges[i].first, table.ranges[i].last);
}

static void append_complement(struct buffer *out, struct code_table table) {
  uint32_t from = 0;
  for (size_t i = 0; i < table.count; i++) {
    if (table.ranges[i].first > from) append_range(out, from, table.ranges[i].first - 1);
    from = table.ranges[i].last + 1;
  }
  append_range(out, from, 0x10ffff);
}

/* \p{X} and \P{X} with a general category. Oniguruma's other names (scripts, blocks, POSIX) do not map one to one. */
static int translate_property(struct translation *t, bool in_class) {
  static const char categories[] =
      " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf ";
  bool negated = t->text[t->at + 1] == 'P';
  const char *close = memchr(t->text + t->at, '}', t->length - t->at);
  if (peek(t, 2) != '{' || !close) return refuse(t, "a property without braces");
  char name[5] = " ";
  size_t name_length = (size_t)(close - (t->text + t->at + 3));
  if (name_length < 1 || name_length > 2) return refuse(t, "this property");
  memcpy(name + 1, t->text + t->at + 3, name_length);
  name[1 + name_length] = ' ';
  if (!isalpha((unsigned char)name[1]) || !strstr(categories, name)) return refuse(t, "this property");
  if (negated && in_class) return refuse(t, "\\P in a class");
  if (!in_class) buffer_append_text(t->out, negated ? "[^" : "[");
  buffer_append_format(t->out, "\\p{%.*s}", (int)name_length, name + 1);
  if (name_length == 1) append_table(t->out, unicode_newer(name[1]));
  if (!in_class) buffer_append_text(t->out, "]");
  t->at += 4 + name_length;
  return 0;
}

/* \xHH, \x{H…}, \uHHHH */
static int translate_code_point(struct translation *t) {
  bool braces = t->text[t->at + 1] == 'x' && peek(t, 2) == '{';
  size_t begin = braces ? 3 : 2, digits = 0;
  size_t most = braces ? 6 : t->text[t->at + 1] == 'x' ? 2 : 4;
  uint32_t value = 0;
  while (digits < most && isxdigit(peek(t, begin + digits))) {
    int digit = peek(t, begin + digits++);
    value = value * 16 + (uint32_t)(isdigit(digit) ? digit - '0' : tolower(digit) - 'a' + 10);
  }
  bool complete = braces ? digits && peek(t, begin + digits) == '}' : digits == most;
  /* Oniguruma takes \x80 and above for bytes of the pattern. */
  if (!complete || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) || (most == 2 && value >= 0x80))
    return refuse(t, "this code point");
  buffer_append_format(t->out, "\\x{%x}", (unsigned)value);
  t->at += begin + digits + braces;
  return 0;
}

static int translate_escape(struct translation *t, bool in_class) {
  int escaped = peek(t, 1);
  switch (escaped) {
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'd':
      copy(t, 2);
      return 0;
    case 's':
    case 'S':
      if (!in_class) buffer_append_text(t->out, escaped == 's' ? "[" : "[^");
      if (in_class && escaped == 'S')
        append_complement(t->out, unicode_white_space());
      else
        append_table(t->out, unicode_white_space());
      if (!in_class) buffer_append_text(t->out, "]");
      t->at += 2;
      return 0;
    case 'p':
    case 'P':
      return translate_property(t, in_class);
    case 'x':
    case 'u':
      return translate_code_point(t);
    default:
      if (escaped < 0 || escaped >= 0x80 || !ispunct(escaped)) return refuse(t, "this escape");
      copy(t, 2);
      return 0;
  }
}

static int translate_class(struct translation *t) {
  copy(t, peek(t, 1) == '^' ? 2 : 1);
  if (peek(t, 0) == ']') return refuse(t, "an empty class");
  bool after_hyphen = false; /* a set next to a hyphen could be taken for the end of a range */
  for (bool first = true; peek(t, 0) != ']'; first = false) {
    int byte = peek(t, 0), code = 0;
    if (byte < 0) return refuse(t, "a class without an end");
    if (byte == '[') return refuse(t, "a class in a class");
    if (starts(t, "&&")) return refuse(t, "an intersection of classes");
    if (byte != '\\') {
      after_hyphen = byte == '-' && !first;
      copy(t, 1);
      continue;
    }
    bool is_set = peek(t, 1) > 0 && strchr("sSdpP", peek(t, 1));
    if (is_set && after_hyphen) return refuse(t, "a set after a hyphen");
    if ((code = translate_escape(t, true))) return code;
    if (is_set && peek(t, 0) == '-' && peek(t, 1) != ']') return refuse(t, "a hyphen after a set");
    after_hyphen = false;
  }
  copy(t, 1);
  return 0;
}

/* {n}, {n,} and {n,m}. A + or ? after it means another thing to each library. */
static int translate_interval(struct translation *t) {
  size_t end = 1;
  while (isdigit(peek(t, end))) end++;
  bool counted = end > 1;
  if (peek(t, end) == ',') end++;
  while (isdigit(peek(t, end))) end++;
  if (!counted || peek(t, end) != '}') return refuse(t, "a brace that counts nothing");
  if (peek(t, end + 1) == '+' || peek(t, end + 1) == '?') return refuse(t, "a suffix after a count");
  copy(t, end + 1);
  return 0;
}

static int translate_group(struct translation *t) {
  static const char *const openings[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
  if (peek(t, 1) != '?') {
    if (peek(t, 1) == '*') return refuse(t, "a verb");
    copy(t, 1);
    return 0;
  }
  for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
    if (!starts(t, openings[i])) continue;
    copy(t, strlen(openings[i]));
    return 0;
  }
  return refuse(t, "this kind of group");
}

int split_syntax_translate(const char *expression, size_t length, struct buffer *out, struct kj_error *error) {
  struct translation t = {expression, length, 0, out, error};
  int code = 0;
  while (t.at < length && !code) {
    switch (expression[t.at]) {
      case '\\':
        code = translate_escape(&t, false);
        break;
      case '[':
        code = translate_class(&t);
        break;
      case '(':
        code = translate_group(&t);
        break;
      case '{':
        code = translate_interval(&t);
        break;
      case '^':
      case '$':
        code = refuse(&t, "an anchor");
        break;
      case '\0':
        code = refuse(&t, "a NUL");
        break;
      default:
        copy(&t, 1);
    }
  }
  return code;
}
