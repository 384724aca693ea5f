/* Characters of UTF-8 text as Python's str sees them. All bytes given here are valid UTF-8 and whole characters. */
#ifndef KAIJU_TEXT_JINJA_TEXT_H
#define KAIJU_TEXT_JINJA_TEXT_H

#include "base/buffer.h"
#include "text/jinja_value.h"

size_t characters_count(const char *bytes, size_t length);
/* Bytes of the character that starts here. */
size_t character_size(const char *bytes);
int32_t character_decode(const char *bytes, size_t *size);
void character_append(struct buffer *out, int32_t character);
/* The byte where the character with this number starts; the length for the number one past the last. */
size_t character_offset(const struct text *text, size_t number);

bool character_is_space(int32_t character);  /* str.isspace */
bool character_is_letter(int32_t character); /* str.isalpha */
bool character_is_digit(int32_t character);  /* str.isdigit */
bool character_is_upper(int32_t character);
bool character_is_lower(int32_t character);
/* Starts (or, with `continues`, continues) an identifier. */
bool character_is_identifier(int32_t character, bool continues);

/* Bytes of white space at the beginning, and at the end, of the bytes. */
size_t space_before(const char *bytes, size_t length);
size_t space_after(const char *bytes, size_t length);

/* The part from byte `start` to byte `end`, as safe as the whole. */
const struct text *text_part(struct run *run, const struct text *text, size_t start, size_t end);
/* The same text with another safety. */
const struct text *text_marked(struct run *run, const struct text *text, bool safe);
/* Where `part` occurs in the bytes from `from` on: the offset, or SIZE_MAX. An empty part is everywhere. */
size_t text_find(const struct text *text, const struct text *part, size_t from);
/* The last place before byte `end`. */
size_t text_find_last(const struct text *text, const struct text *part, size_t end);
/* While a text is built from parts: false, and the run fails, once it is longer than all values may be. */
bool text_grows(struct run *run, const struct buffer *out);
/* Copies what was built and empties the buffer, so that it can be used again; fails the run if building failed. */
const struct text *text_take(struct run *run, struct buffer *buffer);

enum text_case { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE, CASE_SWAP };
const struct text *text_change_case(struct run *run, const struct text *text, enum text_case change);

/* Strips the characters of `set`, or white space where it is NULL. */
const struct text *text_strip(struct run *run, const struct text *text, const struct text *set, bool left, bool right);
/* Replaces at most `limit` occurrences, all where it is negative. */
const struct text *text_replace(struct run *run, const struct text *text, const struct text *from,
                                const struct text *to, int64_t limit);
/* str.splitlines without keepends. */
struct sequence *text_lines(struct run *run, const struct text *text);
/* str.isupper and str.islower: whether there is a cased character and none of the other case. */
bool text_has_case(const struct text *text, bool upper);
/* Pads to a width of characters: '<' fills behind, '>' before, '^' around; 'c' around as
 * str.center does, which puts the odd one before a text of odd width. */
const struct text *text_pad(struct run *run, const struct text *text, int64_t width, const struct text *fill,
                            char where);
/* &, <, >, ' and " as HTML entities; unchanged if it is safe already. */
const struct text *text_escape(struct run *run, const struct text *text);

#endif
