#include "grammar/pattern_length.h"

#include <stdlib.h>

#include "grammar/expression.h"
#include "grammar/json_text.h"
#include "grammar/json_value.h"

enum {
  SPLIT_LENGTH = 512, /* characters that are dealt out to several parts */
  SPLITS_MAXIMUM = 12000
};

/* Characters of a text; `most` may be GRAMMAR_UNBOUNDED. */
struct extent {
  uint32_t least, most;
};

/* What has been made of a part of the source: its parts or repetitions from some on, within a length. */
struct piece {
  uint32_t expression, from, until;
  struct extent length;
  grammar_expression made;
  bool used;
};

struct bounding {
  const struct grammar_builder *source; /* the pattern, as text; nothing in it is recursive */
  struct grammar_builder *target;
  enum pattern_place place;
  struct extent *extents;     /* of each expression of the source */
  grammar_expression *copies; /* the same in the target, or NO_EXPRESSION */
  struct piece *pieces;       /* a hash table */
  uint32_t piece_count;
};

enum { PIECES = 1 << 15 }; /* more than twice SPLITS_MAXIMUM */

static uint32_t add_lengths(uint32_t a, uint32_t b) { return a > GRAMMAR_UNBOUNDED - b ? GRAMMAR_UNBOUNDED : a + b; }

static uint32_t multiply_lengths(uint32_t a, uint32_t b) {
  uint64_t product = (uint64_t)a * b;
  return product > GRAMMAR_UNBOUNDED ? GRAMMAR_UNBOUNDED : (uint32_t)product;
}

static uint32_t less(uint32_t length, uint32_t taken) {
  if (length == GRAMMAR_UNBOUNDED) return length;
  return length > taken ? length - taken : 0;
}

static struct extent take_from(struct extent length, uint32_t taken) {
  return (struct extent){less(length.least, taken), less(length.most, taken)};
}

static uint32_t characters(const char *bytes, uint32_t count) {
  uint32_t length = 0;
  for (uint32_t i = 0; i < count; i++) length += ((unsigned char)bytes[i] & 0xc0) != 0x80;
  return length;
}

/* Parts come before what they are parts of. */
static struct extent extent_of(const struct bounding *bounding, const struct expression *expression) {
  const struct grammar_builder *source = bounding->source;
  struct extent extent = {0, 0};
  uint32_t count = 0;
  const uint32_t *parts = expression_parts(source, expression, &count);
  switch ((enum expression_kind)expression->kind) {
    case EXPRESSION_CLASS:
      return (struct extent){1, 1};
    case EXPRESSION_BYTES:
      extent.least = extent.most = characters(source->bytes + expression->first, expression->count);
      return extent;
    case EXPRESSION_SEQUENCE:
      for (uint32_t i = 0; i < count; i++) {
        extent.least = add_lengths(extent.least, bounding->extents[parts[i]].least);
        extent.most = add_lengths(extent.most, bounding->extents[parts[i]].most);
      }
      return extent;
    case EXPRESSION_CHOICE:
      if (count) extent.least = GRAMMAR_UNBOUNDED;
      for (uint32_t i = 0; i < count; i++) {
        const struct extent *part = &bounding->extents[parts[i]];
        if (part->least < extent.least) extent.least = part->least;
        if (part->most > extent.most) extent.most = part->most;
      }
      return extent;
    case EXPRESSION_REPEAT:
      extent.least = multiply_lengths(bounding->extents[*parts].least, expression->minimum);
      extent.most = multiply_lengths(bounding->extents[*parts].most, expression->maximum);
      return extent;
    default:
      return (struct extent){0, GRAMMAR_UNBOUNDED};
  }
}

static grammar_expression copy(struct bounding *bounding, uint32_t index) {
  if (bounding->copies[index] != NO_EXPRESSION) return bounding->copies[index];
  const struct grammar_builder *source = bounding->source;
  const struct expression *expression = &source->expressions[index];
  struct grammar_builder *target = bounding->target;
  bool in_json = bounding->place == PATTERN_IN_JSON_STRING;
  const char *bytes = source->bytes + expression->first;
  const struct code_range *ranges = source->ranges + expression->first;
  uint32_t count = 0;
  const uint32_t *parts = expression_parts(source, expression, &count);
  grammar_expression made = NO_EXPRESSION, *copied = NULL;
  switch ((enum expression_kind)expression->kind) {
    case EXPRESSION_CLASS:
      made = (in_json ? json_text_class : grammar_class)(target, ranges, expression->count, false);
      break;
    case EXPRESSION_BYTES:
      made = (in_json ? json_text_literal : grammar_bytes)(target, expression->count ? bytes : "", expression->count);
      break;
    case EXPRESSION_SEQUENCE:
    case EXPRESSION_CHOICE:
      copied = calloc(count + 1, sizeof *copied);
      if (!copied) return grammar_fail(target, KJ_MEMORY, "out of memory for a pattern");
      for (uint32_t i = 0; i < count; i++) copied[i] = copy(bounding, parts[i]);
      made = (expression->kind == EXPRESSION_CHOICE ? grammar_choice : grammar_sequence)(target, copied, count);
      free(copied);
      break;
    case EXPRESSION_REPEAT:
      made = grammar_repeat(target, copy(bounding, *parts), expression->minimum, expression->maximum);
      break;
    default:
      return grammar_fail(target, KJ_UNSUPPORTED, "the pattern has parts whose length is not known");
  }
  bounding->copies[index] = made;
  return made;
}

/* The piece, or a new one that is yet to be made; NULL if there are too many. */
static struct piece *find_piece(struct bounding *bounding, uint32_t expression, uint32_t from, uint32_t until,
                                struct extent length) {
  uint64_t hash = expression;
  const uint32_t rest[] = {from, until, length.least, length.most};
  for (size_t i = 0; i < 4; i++) hash = (hash ^ rest[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  for (size_t at = hash & (PIECES - 1);; at = (at + 1) & (PIECES - 1)) {
    struct piece *piece = &bounding->pieces[at];
    if (piece->used && piece->expression == expression && piece->from == from && piece->until == until &&
        piece->length.least == length.least && piece->length.most == length.most)
      return piece;
    if (piece->used) continue;
    if (++bounding->piece_count > SPLITS_MAXIMUM) return NULL;
    *piece = (struct piece){expression, from, until, length, NO_EXPRESSION, true};
    return piece;
  }
}

static grammar_expression too_much(struct bounding *bounding) {
  return grammar_fail(
      bounding->target, KJ_UNSUPPORTED,
      "several parts of the pattern may be longer or shorter, and to combine their lengths takes too much");
}

static grammar_expression bounded(struct bounding *bounding, uint32_t index, struct extent length);

/* The rest of a sequence or repetition. */
struct rest {
  uint32_t index, from, until; /* until: of a repetition */
  struct extent extent;
};

static grammar_expression rest_bounded(struct bounding *bounding, const struct rest *rest, struct extent length);

/* A part, and the rest behind it: one alternative for each length that the part may have. */
static grammar_expression split(struct bounding *bounding, uint32_t part, struct extent extent, const struct rest *rest,
                                struct extent length, bool may_be_empty) {
  struct grammar_builder *target = bounding->target;
  struct extent own = extent;
  if (length.most != GRAMMAR_UNBOUNDED && own.most > less(length.most, rest->extent.least))
    own.most = less(length.most, rest->extent.least);
  if (rest->extent.most != GRAMMAR_UNBOUNDED && own.least < less(length.least, rest->extent.most))
    own.least = less(length.least, rest->extent.most);
  /* So long a part that the rest is free. */
  uint32_t enough = GRAMMAR_UNBOUNDED;
  if (length.most == GRAMMAR_UNBOUNDED) {
    enough = less(length.least, rest->extent.least);
    if (enough < own.least) enough = own.least;
  }
  uint32_t end = own.most < enough ? own.most : enough - 1;
  if (enough == 0) end = 0;
  if (own.least <= own.most && end != GRAMMAR_UNBOUNDED && end > SPLIT_LENGTH) return too_much(bounding);
  grammar_expression parts[SPLIT_LENGTH + 3];
  uint32_t count = 0;
  if (may_be_empty) parts[count++] = grammar_text(target, "");
  for (uint32_t own_length = own.least; own_length <= end && own_length < enough && !grammar_failed(target);
       own_length++)
    parts[count++] = GRAMMAR_SEQUENCE(target, bounded(bounding, part, (struct extent){own_length, own_length}),
                                      rest_bounded(bounding, rest, take_from(length, own_length)));
  if (enough <= own.most)
    parts[count++] = GRAMMAR_SEQUENCE(target, bounded(bounding, part, (struct extent){enough, own.most}),
                                      rest_bounded(bounding, rest, (struct extent){0, GRAMMAR_UNBOUNDED}));
  return grammar_choice(target, parts, count);
}

static grammar_expression sequence_bounded(struct bounding *bounding, const struct rest *all, struct extent length) {
  struct grammar_builder *target = bounding->target;
  uint32_t count = 0;
  const uint32_t *parts = expression_parts(bounding->source, &bounding->source->expressions[all->index], &count);
  if (all->from == count) return grammar_text(target, "");
  struct extent first = bounding->extents[parts[all->from]];
  struct rest rest = {.index = all->index, .from = all->from + 1};
  for (uint32_t i = rest.from; i < count; i++) {
    rest.extent.least = add_lengths(rest.extent.least, bounding->extents[parts[i]].least);
    rest.extent.most = add_lengths(rest.extent.most, bounding->extents[parts[i]].most);
  }
  if (rest.extent.least == rest.extent.most)
    return GRAMMAR_SEQUENCE(target, bounded(bounding, parts[all->from], take_from(length, rest.extent.least)),
                            rest_bounded(bounding, &rest, (struct extent){0, GRAMMAR_UNBOUNDED}));
  if (first.least == first.most)
    return GRAMMAR_SEQUENCE(target, copy(bounding, parts[all->from]),
                            rest_bounded(bounding, &rest, take_from(length, first.least)));
  return split(bounding, parts[all->from], first, &rest, length, false);
}

static grammar_expression repeat_bounded(struct bounding *bounding, const struct rest *all, struct extent length) {
  struct grammar_builder *target = bounding->target;
  uint32_t part = bounding->source->expressions[all->index].part, from = all->from, until = all->until;
  struct extent extent = bounding->extents[part];
  if (until == 0) return length.least ? grammar_choice(target, NULL, 0) : grammar_text(target, "");
  if (extent.least == extent.most) {
    uint32_t least = length.least / extent.least + (length.least % extent.least > 0);
    uint32_t most = length.most == GRAMMAR_UNBOUNDED ? length.most : length.most / extent.least;
    if (least < from) least = from;
    if (most > until) most = until;
    if (least > most) return grammar_choice(target, NULL, 0);
    return grammar_repeat(target, copy(bounding, part), least, most);
  }
  /* One that is empty adds nothing. */
  if (extent.least == 0) from = 0, extent.least = 1;
  struct rest rest = {.index = all->index, .from = from ? from - 1 : 0, .until = less(until, 1)};
  rest.extent = (struct extent){multiply_lengths(rest.from, bounding->extents[part].least),
                                multiply_lengths(rest.until, extent.most)};
  return split(bounding, part, extent, &rest, length, from == 0 && length.least == 0);
}

static grammar_expression rest_bounded(struct bounding *bounding, const struct rest *rest, struct extent length) {
  struct grammar_builder *target = bounding->target;
  if (grammar_failed(target)) return NO_EXPRESSION;
  const struct expression *expression = &bounding->source->expressions[rest->index];
  bool is_repeat = expression->kind == EXPRESSION_REPEAT;
  if (length.least > length.most || length.most < rest->extent.least || length.least > rest->extent.most)
    return grammar_choice(target, NULL, 0);
  if (is_repeat && length.least == 0 && length.most == GRAMMAR_UNBOUNDED)
    return grammar_repeat(target, copy(bounding, expression->part), rest->from, rest->until);
  struct piece *piece = find_piece(bounding, rest->index, rest->from, rest->until, length);
  if (!piece) return too_much(bounding);
  if (piece->made != NO_EXPRESSION) return piece->made;
  /* A rule, so that a long repetition does not nest. */
  grammar_expression made = grammar_rule(target, "pattern");
  piece->made = made;
  grammar_define(target, made, (is_repeat ? repeat_bounded : sequence_bounded)(bounding, rest, length));
  return made;
}

static grammar_expression bounded(struct bounding *bounding, uint32_t index, struct extent length) {
  struct grammar_builder *target = bounding->target;
  const struct expression *expression = &bounding->source->expressions[index];
  struct extent extent = bounding->extents[index];
  if (grammar_failed(target)) return NO_EXPRESSION;
  if (length.least <= extent.least && length.most >= extent.most) return copy(bounding, index);
  if (length.least > length.most || length.least > extent.most || length.most < extent.least)
    return grammar_choice(target, NULL, 0);
  if (expression->kind == EXPRESSION_CHOICE) {
    uint32_t count = 0;
    const uint32_t *parts = expression_parts(bounding->source, expression, &count);
    grammar_expression *within = calloc(count + 1, sizeof *within);
    if (!within) return grammar_fail(target, KJ_MEMORY, "out of memory for a pattern");
    for (uint32_t i = 0; i < count; i++) within[i] = bounded(bounding, parts[i], length);
    grammar_expression made = grammar_choice(target, within, count);
    free(within);
    return made;
  }
  struct rest rest = {index, 0, 0, extent};
  if (expression->kind == EXPRESSION_REPEAT) rest.from = expression->minimum, rest.until = expression->maximum;
  return rest_bounded(bounding, &rest, length);
}

grammar_expression pattern_compile_bounded(struct grammar_builder *builder, const char *pattern, size_t length,
                                           enum pattern_place place, uint32_t minimum, uint32_t maximum) {
  if (minimum == 0 && maximum == GRAMMAR_UNBOUNDED) return pattern_compile(builder, pattern, length, place);
  struct kj_error error = {0};
  struct grammar_builder *source = NULL;
  if (grammar_builder_create(&source, &error)) return grammar_fail(builder, KJ_MEMORY, "%s", error.message);
  grammar_expression root = pattern_compile(source, pattern, length, PATTERN_IN_TEXT), made = NO_EXPRESSION;
  size_t count = source->expression_count;
  struct bounding bounding = {.source = source, .target = builder, .place = place};
  if (grammar_failed(source)) {
    made = grammar_fail(builder, source->failure.code, "%s", source->failure.message);
    goto done;
  }
  bounding.extents = calloc(count, sizeof *bounding.extents);
  bounding.copies = calloc(count, sizeof *bounding.copies);
  bounding.pieces = calloc(PIECES, sizeof *bounding.pieces);
  if (!bounding.extents || !bounding.copies || !bounding.pieces) {
    made = grammar_fail(builder, KJ_MEMORY, "out of memory for a pattern");
    goto done;
  }
  for (size_t i = 0; i < count; i++) {
    bounding.extents[i] = extent_of(&bounding, &source->expressions[i]);
    bounding.copies[i] = NO_EXPRESSION;
  }
  made = bounded(&bounding, root, (struct extent){minimum, maximum});
done:
  free(bounding.extents);
  free(bounding.copies);
  free(bounding.pieces);
  grammar_builder_free(source);
  return made;
}
