#include "text/jinja_lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_text.h"

struct lexer {
  struct run *run;
  const char *source;
  size_t length;
  size_t at;
  size_t counted;     /* the byte up to which run->line counts */
  bool line_starting; /* whether what was matched last ended with a newline */
  struct token *tokens;
  size_t count, capacity;
  char open[JINJA_TREE_DEPTH]; /* the brackets that are expected to close */
  size_t open_count;
};

static const struct {
  const char *text;
  enum token_kind kind;
} OPERATORS[] = {
    {"//", TOKEN_FLOOR_DIVIDE},
    {"**", TOKEN_POWER},
    {"==", TOKEN_EQUAL},
    {"!=", TOKEN_NOT_EQUAL},
    {">=", TOKEN_GREATER_EQUAL},
    {"<=", TOKEN_LESS_EQUAL},
    {"+", TOKEN_ADD},
    {"-", TOKEN_SUBTRACT},
    {"/", TOKEN_DIVIDE},
    {"*", TOKEN_MULTIPLY},
    {"%", TOKEN_MODULO},
    {"~", TOKEN_TILDE},
    {"[", TOKEN_LEFT_BRACKET},
    {"]", TOKEN_RIGHT_BRACKET},
    {"(", TOKEN_LEFT_PARENTHESIS},
    {")", TOKEN_RIGHT_PARENTHESIS},
    {"{", TOKEN_LEFT_BRACE},
    {"}", TOKEN_RIGHT_BRACE},
    {">", TOKEN_GREATER},
    {"<", TOKEN_LESS},
    {"=", TOKEN_ASSIGN},
    {".", TOKEN_DOT},
    {":", TOKEN_COLON},
    {"|", TOKEN_PIPE},
    {",", TOKEN_COMMA},
    {";", TOKEN_SEMICOLON},
};

static const char *const DESCRIPTIONS[] = {
    [TOKEN_END] = "end of template", [TOKEN_DATA] = "template text", [TOKEN_PRINT_BEGIN] = "{{",
    [TOKEN_PRINT_END] = "}}",        [TOKEN_BLOCK_BEGIN] = "{%",     [TOKEN_BLOCK_END] = "%}",
    [TOKEN_NAME] = "name",           [TOKEN_STRING] = "string",      [TOKEN_INTEGER] = "integer",
    [TOKEN_FLOAT] = "float",
};

const char *token_describe(const struct token *token) {
  if (token->kind <= TOKEN_FLOAT) return DESCRIPTIONS[token->kind];
  for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
    if (OPERATORS[i].kind == token->kind) return OPERATORS[i].text;
  }
  return "token";
}

static bool starts(const struct lexer *lexer, size_t at, const char *text) {
  size_t length = strlen(text);
  return at <= lexer->length && length <= lexer->length - at && memcmp(lexer->source + at, text, length) == 0;
}

static void count_lines(struct lexer *lexer, size_t end) {
  for (; lexer->counted < end; lexer->counted++) lexer->run->line += lexer->source[lexer->counted] == '\n';
}

static void add_token(struct lexer *lexer, enum token_kind kind, struct value value) {
  struct token *tokens = run_grow(lexer->run, lexer->tokens, lexer->count, &lexer->capacity, sizeof *tokens);
  if (!tokens) return;
  lexer->tokens = tokens;
  lexer->tokens[lexer->count++] = (struct token){.kind = kind, .line = lexer->run->line, .value = value};
}

static void advance(struct lexer *lexer, size_t end) {
  count_lines(lexer, end);
  lexer->line_starting = end > lexer->at ? lexer->source[end - 1] == '\n' : false;
  lexer->at = end;
}

static size_t skip_space(const struct lexer *lexer, size_t at) {
  return at + space_before(lexer->source + at, lexer->length - at);
}

/* The end of a tag's closing "%}" or "}}" and the white space that goes with it, or 0 if there is none here. */
static size_t closing(const struct lexer *lexer, size_t at, const char *close, bool trims) {
  if (starts(lexer, at, "-") && starts(lexer, at + 1, close)) return skip_space(lexer, at + 3);
  if (trims && starts(lexer, at, "+") && starts(lexer, at + 1, close)) return at + 3;
  if (!starts(lexer, at, close)) return 0;
  return at + 2 + (trims && starts(lexer, at + 2, "\n"));
}

/* The data from the position up to `end`, less the white space that the tag there asks to strip. */
static void add_data(struct lexer *lexer, size_t end, char sign, bool print) {
  const char *bytes = lexer->source + lexer->at;
  size_t length = end - lexer->at;
  if (sign == '-') {
    length -= space_after(bytes, length);
  } else if (sign != '+' && !print) {
    const char *newline = memrchr(bytes, '\n', length);
    size_t start = newline ? (size_t)(newline - bytes) + 1 : 0;
    if ((start > 0 || lexer->line_starting) && space_before(bytes + start, length - start) == length - start) {
      length = start;
    }
  }
  if (length) add_token(lexer, TOKEN_DATA, value_text(text_view(lexer->run, bytes, length)));
}

static char sign_at(const struct lexer *lexer, size_t at) {
  return starts(lexer, at, "-") ? '-' : starts(lexer, at, "+") ? '+' : ' ';
}

/* After "{%" at `open`: whether this is the tag `name` alone, and where the tag ends. */
static size_t lone_tag(const struct lexer *lexer, size_t open, const char *name, bool trims) {
  size_t at = skip_space(lexer, open + 2 + (sign_at(lexer, open + 2) != ' '));
  if (!starts(lexer, at, name)) return 0;
  at = skip_space(lexer, at + strlen(name));
  if (trims) return closing(lexer, at, "%}", true);
  if (starts(lexer, at, "-%}")) return skip_space(lexer, at + 3);
  return starts(lexer, at, "%}") ? at + 2 : 0;
}

static void lex_comment(struct lexer *lexer) {
  for (size_t at = lexer->at; at + 1 < lexer->length; at++) {
    size_t end = closing(lexer, at, "#}", true);
    if (!end) continue;
    advance(lexer, end);
    return;
  }
  run_fail(lexer->run, "missing end of comment tag");
}

static void lex_raw(struct lexer *lexer) {
  for (size_t at = lexer->at; at + 1 < lexer->length; at++) {
    size_t end = starts(lexer, at, "{%") ? lone_tag(lexer, at, "endraw", true) : 0;
    if (!end) continue;
    add_data(lexer, at, sign_at(lexer, at + 2), false);
    advance(lexer, end);
    return;
  }
  run_fail(lexer->run, "missing end of raw directive");
}

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

/* Digits of a base, each of which may have one '_' before it (the first only where `underscore`). */
static size_t skip_digits(const struct lexer *lexer, size_t at, int base, bool underscore) {
  size_t start = at;
  for (;;) {
    size_t digit = at + ((underscore || at > start) && starts(lexer, at, "_"));
    if (digit >= lexer->length || digit_value(lexer->source[digit]) >= base) return at;
    at = digit + 1;
  }
}

static size_t float_end(const struct lexer *lexer) {
  size_t at = lexer->at;
  if (at > 0 && lexer->source[at - 1] == '.') return 0;
  size_t whole = skip_digits(lexer, at, 10, false);
  if (whole == at) return 0;
  size_t end = whole;
  if (starts(lexer, whole, ".")) {
    size_t fraction = skip_digits(lexer, whole + 1, 10, false);
    if (fraction > whole + 1) end = fraction;
  }
  if (starts(lexer, end, "e") || starts(lexer, end, "E")) {
    size_t digits = end + 1 + (sign_at(lexer, end + 1) != ' ');
    size_t exponent = skip_digits(lexer, digits, 10, false);
    if (exponent > digits) end = exponent;
  }
  return end > whole ? end : 0;
}

static void lex_number(struct lexer *lexer) {
  size_t end = float_end(lexer);
  bool real = end > 0;
  int base = 10;
  if (!real && starts(lexer, lexer->at, "0")) {
    char prefix = lexer->at + 1 < lexer->length ? (char)(lexer->source[lexer->at + 1] | 0x20) : ' ';
    base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 1;
    if (base > 1) end = skip_digits(lexer, lexer->at + 2, base, true);
    if (base > 1 && end == lexer->at + 2) base = 1;
    if (base == 1) end = skip_digits(lexer, lexer->at, 1, false);
  } else if (!real) {
    end = skip_digits(lexer, lexer->at, 10, false);
  }
  char digits[64];
  size_t count = 0;
  for (size_t at = lexer->at + (base != 10 && base != 1 ? 2 : 0); at < end && count + 1 < sizeof digits; at++) {
    if (lexer->source[at] != '_') digits[count++] = lexer->source[at];
  }
  digits[count] = '\0';
  errno = 0;
  long long integer = real ? 0 : strtoll(digits, NULL, base == 1 ? 10 : base);
  if (count + 1 == sizeof digits || (!real && errno)) {
    run_fail(lexer->run, "the number %s… is too large", digits);
    return;
  }
  add_token(lexer, real ? TOKEN_FLOAT : TOKEN_INTEGER,
            real ? value_float(strtod(digits, NULL)) : value_integer(integer));
  advance(lexer, end);
}

/* Appends what the escape after a backslash at `at` stands for; returns the byte after it. */
static size_t lex_escape(struct lexer *lexer, size_t at, size_t end, struct buffer *out) {
  static const char NAMES[] = "\\'\"abfnrtv", VALUES[] = "\\'\"\a\b\f\n\r\t\v";
  char kind = lexer->source[at];
  const char *simple = memchr(NAMES, kind, sizeof NAMES - 1);
  size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  int32_t character = 0;
  if (simple) {
    buffer_append(out, &VALUES[simple - NAMES], 1);
    return at + 1;
  }
  if (kind == '\n') return at + 1;
  if (digits) {
    at++;
    for (size_t i = 0; i < digits; i++, at++) {
      int digit = at < end ? digit_value(lexer->source[at]) : 16;
      if (digit == 16 || character > 0x10FFFF) {
        run_fail(lexer->run, "truncated \\%c escape in a string", kind);
        return end;
      }
      character = character * 16 + digit;
    }
  } else if (kind >= '0' && kind <= '7') {
    for (size_t i = 0; i < 3 && at < end && lexer->source[at] >= '0' && lexer->source[at] <= '7'; i++, at++) {
      character = character * 8 + (lexer->source[at] - '0');
    }
  } else if (kind == 'N') {
    run_fail(lexer->run, "\\N escapes are not supported");
    return end;
  } else {
    buffer_append(out, "\\", 1); /* not an escape: the backslash stays */
    return at;
  }
  if (character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) {
    run_fail(lexer->run, "the escape \\%c names U+%04X, which is no character", kind, (unsigned)character);
    return end;
  }
  character_append(out, character);
  return at;
}

static void lex_string(struct lexer *lexer) {
  char quote = lexer->source[lexer->at];
  size_t end = lexer->at + 1;
  bool escapes = false;
  while (end < lexer->length && lexer->source[end] != quote) {
    escapes |= lexer->source[end] == '\\';
    end += lexer->source[end] == '\\' ? 2 : 1;
  }
  if (end >= lexer->length) {
    run_fail(lexer->run, "a string that starts here does not end");
    return;
  }
  size_t start = lexer->at + 1;
  const struct text *text = text_view(lexer->run, lexer->source + start, end - start);
  if (escapes) {
    struct buffer out = {0};
    for (size_t at = start; at < end && !lexer->run->failed;) {
      if (lexer->source[at] == '\\') {
        at = lex_escape(lexer, at + 1, end, &out);
      } else {
        buffer_append(&out, lexer->source + at++, 1);
      }
    }
    text = text_take(lexer->run, &out);
    buffer_free(&out);
  }
  add_token(lexer, TOKEN_STRING, value_text(text));
  advance(lexer, end + 1);
}

static bool lex_name(struct lexer *lexer) {
  size_t end = lexer->at, size = 0;
  while (end < lexer->length &&
         character_is_identifier(character_decode(lexer->source + end, &size), end > lexer->at)) {
    end += size;
  }
  if (end == lexer->at) return false;
  add_token(lexer, TOKEN_NAME, value_text(text_view(lexer->run, lexer->source + lexer->at, end - lexer->at)));
  advance(lexer, end);
  return true;
}

static void lex_operator(struct lexer *lexer) {
  for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
    const char *text = OPERATORS[i].text;
    if (!starts(lexer, lexer->at, text)) continue;
    const char *bracket = strchr("{}()[]", text[0]);
    size_t which = bracket ? (size_t)(bracket - "{}()[]") : 0;
    if (bracket && which % 2 == 0) {
      if (lexer->open_count == sizeof lexer->open) {
        run_fail(lexer->run, "more than %d nested brackets", JINJA_TREE_DEPTH);
        return;
      }
      lexer->open[lexer->open_count++] = "{}()[]"[which + 1];
    } else if (bracket) {
      if (!lexer->open_count || lexer->open[--lexer->open_count] != text[0]) {
        run_fail(lexer->run, "unexpected '%s'", text);
        return;
      }
    }
    add_token(lexer, OPERATORS[i].kind, value_none());
    advance(lexer, lexer->at + strlen(text));
    return;
  }
  size_t size = character_size(lexer->source + lexer->at);
  run_fail(lexer->run, "unexpected character '%.*s'", (int)size, lexer->source + lexer->at);
}

/* What is between "{{" and "}}", or "{%" and "%}". */
static void lex_tag(struct lexer *lexer, bool print) {
  while (!lexer->run->failed) {
    advance(lexer, skip_space(lexer, lexer->at));
    if (lexer->at >= lexer->length) {
      run_fail(lexer->run, "unexpected end of template in a tag");
      return;
    }
    size_t end = lexer->open_count ? 0 : closing(lexer, lexer->at, print ? "}}" : "%}", !print);
    char c = lexer->source[lexer->at];
    if (end) {
      add_token(lexer, print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, value_none());
      advance(lexer, end);
      return;
    }
    if (c >= '0' && c <= '9') {
      lex_number(lexer);
    } else if (c == '\'' || c == '"') {
      lex_string(lexer);
    } else if (!lex_name(lexer)) {
      lex_operator(lexer);
    }
  }
}

/* The next "{{", "{%" or "{#" from the position on; the end of the source if there is none. */
static size_t find_tag(const struct lexer *lexer) {
  for (size_t at = lexer->at; at + 1 < lexer->length; at++) {
    const char *brace = memchr(lexer->source + at, '{', lexer->length - 1 - at);
    if (!brace) break;
    at = (size_t)(brace - lexer->source);
    if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#') return at;
  }
  return lexer->length;
}

static void lex_template(struct lexer *lexer) {
  while (lexer->at < lexer->length && !lexer->run->failed) {
    size_t tag = find_tag(lexer);
    if (tag == lexer->length) {
      add_token(lexer, TOKEN_DATA,
                value_text(text_view(lexer->run, lexer->source + lexer->at, lexer->length - lexer->at)));
      advance(lexer, lexer->length);
      break;
    }
    char kind = lexer->source[tag + 1];
    char sign = sign_at(lexer, tag + 2);
    add_data(lexer, tag, sign, kind == '{');
    size_t raw = kind == '%' ? lone_tag(lexer, tag, "raw", false) : 0;
    advance(lexer, raw ? raw : tag + 2 + (sign != ' '));
    if (raw) {
      lex_raw(lexer);
    } else if (kind == '#') {
      lex_comment(lexer);
    } else {
      add_token(lexer, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, value_none());
      lex_tag(lexer, kind == '{');
    }
  }
}

/* "\r\n" and "\r" become "\n"; one newline at the very end goes. */
static const struct text *normalise(struct run *run, const char *source, size_t length) {
  struct buffer out = {0};
  for (size_t i = 0; i < length; i++) {
    if (source[i] == '\r') {
      buffer_append(&out, "\n", 1);
      if (i + 1 < length && source[i + 1] == '\n') i++;
    } else {
      buffer_append(&out, source + i, 1);
    }
  }
  if (out.length && out.data[out.length - 1] == '\n') out.length--;
  const struct text *text = text_take(run, &out);
  buffer_free(&out);
  return text;
}

struct token_stream tokenize(struct run *run, const char *source, size_t length) {
  const struct text *text = normalise(run, source, length);
  struct lexer lexer = {.run = run, .source = text->bytes, .length = text->length, .line_starting = true};
  run->line = 1;
  lex_template(&lexer);
  add_token(&lexer, TOKEN_END, value_none());
  return (struct token_stream){lexer.tokens, lexer.count};
}
