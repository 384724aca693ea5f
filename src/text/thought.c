#include "text/thought.h"

#include <string.h>

static const char OPENING[] = "<think>", CLOSING[] = "</think>";

static bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

static size_t spaces(const char *text, size_t length) {
  size_t count = 0;
  while (count < length && is_space(text[count])) count++;
  return count;
}

bool thought_known(const struct chat_template *chat) {
  return chat_template_mentions(chat, OPENING) || chat_template_mentions(chat, CLOSING);
}

static bool ends_with(const char *text, size_t length, const char *tag) {
  while (length > 0 && is_space(text[length - 1])) length--;
  size_t tag_length = strlen(tag);
  return length >= tag_length && memcmp(text + length - tag_length, tag, tag_length) == 0;
}

bool thought_opened(const char *prompt, size_t length) { return ends_with(prompt, length, OPENING); }
bool thought_closed(const char *prompt, size_t length) { return ends_with(prompt, length, CLOSING); }

struct thought thought_start(bool begun) {
  return (struct thought){.state = begun ? THOUGHT_BEGUN : THOUGHT_EXPECTED};
}

void thought_free(struct thought *thought) { buffer_free(&thought->held); }

/* Whether text begins with the tag: 1, 0, or -1 while it may still come to that. */
static int begins_with(const char *text, size_t length, const char *tag) {
  size_t tag_length = strlen(tag), compared = length < tag_length ? length : tag_length;
  if (memcmp(text, tag, compared) != 0) return 0;
  return length < tag_length ? -1 : 1;
}

/* Bytes at the end of the text that may be white space before a closing tag, and the tag's beginning. */
static size_t closing_tail(const char *text, size_t length) {
  size_t tail = 0;
  for (size_t count = length < sizeof CLOSING - 2 ? length : sizeof CLOSING - 2; count > 0 && tail == 0; count--)
    if (memcmp(text + length - count, CLOSING, count) == 0) tail = count;
  while (tail < length && is_space(text[length - tail - 1])) tail++;
  return tail;
}

/* Takes what can be decided from the front of `held`; false if nothing can. */
static bool step(struct thought *thought, struct buffer *inner, struct buffer *answer) {
  struct buffer *held = &thought->held;
  const char *text = buffer_text(held);
  if (held->length == 0) return false;
  switch (thought->state) {
    case THOUGHT_EXPECTED: {
      size_t space = spaces(text, held->length);
      int opens = space < held->length ? begins_with(text + space, held->length - space, OPENING) : -1;
      if (opens < 0) return false;
      if (opens) buffer_consume(held, space + sizeof OPENING - 1);
      thought->state = opens ? THOUGHT_BEGUN : THOUGHT_OVER;
      return true;
    }
    case THOUGHT_BEGUN: {
      size_t space = spaces(text, held->length);
      buffer_consume(held, space);
      if (held->length > 0) thought->state = THOUGHT_GOES_ON;
      return held->length > 0;
    }
    case THOUGHT_GOES_ON: {
      const char *end = memmem(text, held->length, CLOSING, sizeof CLOSING - 1);
      size_t length = end ? (size_t)(end - text) : held->length - closing_tail(text, held->length);
      size_t trimmed = length;
      while (end && trimmed > 0 && is_space(text[trimmed - 1])) trimmed--;
      buffer_append(inner, text, trimmed);
      buffer_consume(held, end ? length + sizeof CLOSING - 1 : length);
      if (end) thought->state = THOUGHT_ENDED;
      return end != NULL;
    }
    case THOUGHT_ENDED: {
      buffer_consume(held, spaces(text, held->length));
      if (held->length > 0) thought->state = THOUGHT_OVER;
      return held->length > 0;
    }
    case THOUGHT_OVER:
      buffer_append(answer, text, held->length);
      buffer_clear(held);
      return false;
  }
  return false;
}

void thought_push(struct thought *thought, const char *text, size_t length, struct buffer *inner,
                  struct buffer *answer) {
  if (thought->state == THOUGHT_OVER) {
    buffer_append(answer, text, length);
    return;
  }
  buffer_append(&thought->held, text, length);
  while (step(thought, inner, answer)) continue;
  if (buffer_failed(&thought->held)) answer->failed = true;
}

void thought_finish(struct thought *thought, struct buffer *inner, struct buffer *answer) {
  struct buffer *held = &thought->held;
  if (thought->state == THOUGHT_EXPECTED) {
    buffer_append(answer, buffer_text(held), held->length);
  } else if (thought->state == THOUGHT_GOES_ON) {
    size_t length = held->length;
    while (length > 0 && is_space(buffer_text(held)[length - 1])) length--;
    buffer_append(inner, buffer_text(held), length);
  }
  buffer_clear(held);
}
