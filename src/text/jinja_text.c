#include "text/jinja_text.h"

#include <string.h>
#include <utf8proc.h>

#include "text/jinja_case.h"
#include "text/utf8.h"

size_t character_size(const char *bytes) {
  unsigned char first = (unsigned char)bytes[0];
  if (first < 0x80) return 1;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t characters_count(const char *bytes, size_t length) {
  size_t count = 0;
  for (size_t i = 0; i < length; i++) count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
  return count;
}

int32_t character_decode(const char *bytes, size_t *size) {
  uint32_t character = (unsigned char)bytes[0];
  *size = character_size(bytes);
  if (*size > 1) utf8_read(bytes, *size, &character);
  return (int32_t)character;
}

void character_append(struct buffer *out, int32_t character) {
  char bytes[4];
  buffer_append(out, bytes, utf8_write((uint32_t)character, bytes));
}

size_t character_offset(const struct text *text, size_t number) {
  if (number >= text->characters) return text->length;
  if (text->characters == text->length) return number;
  size_t at = 0;
  for (; number > 0; number--) at += character_size(text->bytes + at);
  return at;
}

bool character_is_space(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool character_is_letter(int32_t character) {
  utf8proc_category_t category = utf8proc_category(character);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool character_is_digit(int32_t character) {
  if (character < 0x80) return character >= '0' && character <= '9';
  return utf8proc_category(character) == UTF8PROC_CATEGORY_ND || character == 0xB2 || character == 0xB3 ||
         character == 0xB9;
}

bool character_is_upper(int32_t character) { return utf8proc_isupper(character); }

bool character_is_lower(int32_t character) { return utf8proc_islower(character); }

bool character_is_identifier(int32_t character, bool continues) {
  if (character == '_') return true;
  utf8proc_category_t category = utf8proc_category(character);
  if (character_is_letter(character) || category == UTF8PROC_CATEGORY_NL) return true;
  return continues && (category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_MN ||
                       category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_PC);
}

size_t space_before(const char *bytes, size_t length) {
  size_t at = 0, size = 0;
  while (at < length && character_is_space(character_decode(bytes + at, &size))) at += size;
  return at;
}

/* The byte where the last character of the bytes starts. */
static size_t last_character(const char *bytes, size_t length) {
  size_t at = length - 1;
  while (at > 0 && ((unsigned char)bytes[at] & 0xC0) == 0x80) at--;
  return at;
}

size_t space_after(const char *bytes, size_t length) {
  size_t end = length, size = 0;
  while (end > 0) {
    size_t start = last_character(bytes, end);
    if (!character_is_space(character_decode(bytes + start, &size))) break;
    end = start;
  }
  return length - end;
}

const struct text *text_marked(struct run *run, const struct text *text, bool safe) {
  if (text->safe == safe) return text;
  struct text *copy = run_allocate(run, 1, sizeof *copy);
  if (!copy) return text;
  *copy = *text;
  copy->safe = safe;
  return copy;
}

const struct text *text_part(struct run *run, const struct text *text, size_t start, size_t end) {
  if (start == 0 && end == text->length) return text;
  return text_marked(run, text_view(run, text->bytes + start, end > start ? end - start : 0), text->safe);
}

size_t text_find(const struct text *text, const struct text *part, size_t from) {
  if (from > text->length || part->length > text->length - from) return SIZE_MAX;
  if (!part->length) return from;
  const char *found = memmem(text->bytes + from, text->length - from, part->bytes, part->length);
  return found ? (size_t)(found - text->bytes) : SIZE_MAX;
}

size_t text_find_last(const struct text *text, const struct text *part, size_t end) {
  if (part->length > end) return SIZE_MAX;
  for (size_t at = end - part->length;; at--) {
    if (!part->length || memcmp(text->bytes + at, part->bytes, part->length) == 0) return at;
    if (at == 0) return SIZE_MAX;
  }
}

bool text_grows(struct run *run, const struct buffer *out) {
  if (out->length <= JINJA_MEMORY) return true;
  run_fail(run, "a text becomes longer than %d MiB", JINJA_MEMORY / (1024 * 1024));
  return false;
}

const struct text *text_take(struct run *run, struct buffer *buffer) {
  if (buffer_failed(buffer)) run_fail(run, "out of memory for a text");
  const struct text *text = text_make(run, buffer_text(buffer), buffer->length);
  buffer_clear(buffer);
  return text;
}

static bool is_cased(int32_t c) {
  return character_is_upper(c) || character_is_lower(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
}

/* Unicode's Case_Ignorable: marks, modifiers, format characters and the punctuation inside words. */
static bool is_case_ignorable(int32_t c) {
  static const int32_t PUNCTUATION[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                        0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      for (size_t i = 0; i < sizeof PUNCTUATION / sizeof *PUNCTUATION; i++) {
        if (PUNCTUATION[i] == c) return true;
      }
      return false;
  }
}

/* Unicode's Final_Sigma, for the lower case of the capital sigma from `at` to `end`: after a cased letter and not
 * before one, whatever ignorable characters lie between. */
static bool sigma_is_final(const struct text *text, size_t at, size_t end) {
  bool after_cased = false;
  size_t size = 0;
  while (at > 0) {
    at = last_character(text->bytes, at);
    int32_t c = character_decode(text->bytes + at, &size);
    if (is_case_ignorable(c)) continue;
    after_cased = is_cased(c);
    break;
  }
  if (!after_cased) return false;
  for (; end < text->length; end += size) {
    int32_t c = character_decode(text->bytes + end, &size);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

static void append_upper(struct buffer *out, int32_t character, bool title) {
  const int32_t *special = special_case(character, title);
  if (!special) {
    character_append(out, title ? utf8proc_totitle(character) : utf8proc_toupper(character));
    return;
  }
  for (int i = 0; i < 3 && special[i]; i++) character_append(out, special[i]);
}

static void append_lower(struct buffer *out, const struct text *text, size_t at, size_t size, int32_t character) {
  if (character == 0x0130) {
    buffer_append_text(out, "i\xCC\x87"); /* the only character whose lower case is two */
  } else if (character == 0x03A3 && sigma_is_final(text, at, at + size)) {
    character_append(out, 0x03C2);
  } else {
    character_append(out, utf8proc_tolower(character));
  }
}

const struct text *text_change_case(struct run *run, const struct text *text, enum text_case change) {
  struct buffer out = {0};
  size_t size = 0;
  bool after_cased = false;
  for (size_t at = 0; at < text->length && run_step(run, 1); at += size) {
    int32_t c = character_decode(text->bytes + at, &size);
    bool upper = change == CASE_UPPER || (change == CASE_SWAP && character_is_lower(c));
    bool title = (change == CASE_CAPITALIZE && at == 0) || (change == CASE_TITLE && !after_cased);
    bool same = change == CASE_SWAP && !character_is_upper(c) && !character_is_lower(c);
    if (same) {
      character_append(&out, c);
    } else if (upper || title) {
      append_upper(&out, c, title);
    } else {
      append_lower(&out, text, at, size, c);
    }
    after_cased = is_cased(c);
  }
  const struct text *changed = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return changed;
}

static bool in_set(const char *bytes, size_t size, const struct text *set) {
  for (size_t at = 0; at < set->length; at += character_size(set->bytes + at)) {
    if (character_size(set->bytes + at) == size && memcmp(set->bytes + at, bytes, size) == 0) return true;
  }
  return false;
}

const struct text *text_strip(struct run *run, const struct text *text, const struct text *set, bool left, bool right) {
  size_t start = 0, end = text->length;
  if (!set) {
    if (left) start = space_before(text->bytes, end);
    if (right) end -= space_after(text->bytes + start, end - start);
    return text_part(run, text, start, end);
  }
  while (left && start < end && in_set(text->bytes + start, character_size(text->bytes + start), set)) {
    start += character_size(text->bytes + start);
  }
  while (right && end > start) {
    size_t last = start + last_character(text->bytes + start, end - start);
    if (!in_set(text->bytes + last, end - last, set)) break;
    end = last;
  }
  return text_part(run, text, start, end);
}

const struct text *text_replace(struct run *run, const struct text *text, const struct text *from,
                                const struct text *to, int64_t limit) {
  struct buffer out = {0};
  size_t at = 0;
  for (; limit != 0 && run_step(run, 1) && text_grows(run, &out); limit -= limit > 0) {
    size_t found = text_find(text, from, at);
    if (found == SIZE_MAX) break;
    buffer_append(&out, text->bytes + at, found - at);
    buffer_append(&out, to->bytes, to->length);
    at = found + from->length;
    if (from->length) continue;
    if (at == text->length) break;
    /* An empty text is replaced before every character and at the end. */
    size_t size = character_size(text->bytes + at);
    buffer_append(&out, text->bytes + at, size);
    at += size;
  }
  buffer_append(&out, text->bytes + at, text->length - at);
  const struct text *replaced = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return replaced;
}

static bool ends_line(int32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

struct sequence *text_lines(struct run *run, const struct text *text) {
  struct sequence *lines = sequence_make(run, SEQUENCE_LIST, 0);
  size_t start = 0, size = 0;
  for (size_t at = 0; at < text->length && run_step(run, 1); at += size) {
    int32_t c = character_decode(text->bytes + at, &size);
    if (!ends_line(c)) continue;
    sequence_add(run, lines, value_text(text_part(run, text, start, at)));
    if (c == '\r' && at + 1 < text->length && text->bytes[at + 1] == '\n') size = 2;
    start = at + size;
  }
  if (start < text->length) sequence_add(run, lines, value_text(text_part(run, text, start, text->length)));
  return lines;
}

const struct text *text_escape(struct run *run, const struct text *text) {
  if (text->safe) return text;
  struct buffer out = {0};
  for (size_t at = 0; at < text->length; at++) {
    switch (text->bytes[at]) {
      case '&':
        buffer_append_text(&out, "&amp;");
        break;
      case '<':
        buffer_append_text(&out, "&lt;");
        break;
      case '>':
        buffer_append_text(&out, "&gt;");
        break;
      case '\'':
        buffer_append_text(&out, "&#39;");
        break;
      case '"':
        buffer_append_text(&out, "&#34;");
        break;
      default:
        buffer_append(&out, text->bytes + at, 1);
    }
  }
  const struct text *escaped = text_marked(run, text_take(run, &out), true);
  buffer_free(&out);
  return escaped;
}

bool text_has_case(const struct text *text, bool upper) {
  bool found = false;
  size_t size = 0;
  for (size_t at = 0; at < text->length; at += size) {
    int32_t c = character_decode(text->bytes + at, &size);
    bool is_title = utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
    if (is_title || (upper ? character_is_lower(c) : character_is_upper(c))) return false;
    found |= upper ? character_is_upper(c) : character_is_lower(c);
  }
  return found;
}

const struct text *text_pad(struct run *run, const struct text *text, int64_t width, const struct text *fill,
                            char where) {
  if (width <= (int64_t)text->characters) return text;
  if (width > JINJA_OUTPUT) {
    run_fail(run, "a width of %lld characters is too large", (long long)width);
    return text;
  }
  int64_t padding = width - (int64_t)text->characters;
  int64_t before = where == '<' ? 0 : where == '>' ? padding : padding / 2;
  if (where == 'c') before += padding & width & 1;
  struct buffer out = {0};
  for (int64_t i = 0; i < before; i++) buffer_append(&out, fill->bytes, fill->length);
  buffer_append(&out, text->bytes, text->length);
  for (int64_t i = before; i < padding; i++) buffer_append(&out, fill->bytes, fill->length);
  const struct text *padded = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return padded;
}
