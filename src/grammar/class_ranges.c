#include "grammar/class_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

static const struct code_range SURROGATES = {0xd800, 0xdfff};
static const uint32_t LAST_CODE_POINT = 0x10ffff;

static int by_first(const void *a, const void *b) {
  const struct code_range *left = a, *right = b;
  return left->first < right->first ? -1 : left->first > right->first;
}

/* Sorted ranges, those that touch joined. */
static size_t join(struct code_range *ranges, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept > 0 && ranges[i].first <= ranges[kept - 1].last + 1) {
      if (ranges[i].last > ranges[kept - 1].last) ranges[kept - 1].last = ranges[i].last;
    } else {
      ranges[kept++] = ranges[i];
    }
  }
  return kept;
}

static size_t complement(struct code_range *ranges, size_t count) {
  uint32_t next = 0;
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    struct code_range range = ranges[i];
    if (range.first > next) ranges[kept++] = (struct code_range){next, range.first - 1};
    next = range.last + 1;
  }
  if (next <= LAST_CODE_POINT) ranges[kept++] = (struct code_range){next, LAST_CODE_POINT};
  return kept;
}

/* At most one range has surrogates after these are added to it and joined. */
static size_t without_surrogates(struct code_range *ranges, size_t count) {
  ranges[count++] = SURROGATES;
  qsort(ranges, count, sizeof *ranges, by_first);
  count = join(ranges, count);
  for (size_t i = 0; i < count; i++) {
    struct code_range range = ranges[i];
    if (range.first > SURROGATES.first || range.last < SURROGATES.last) continue;
    struct code_range pieces[2];
    size_t made = 0;
    if (range.first < SURROGATES.first) pieces[made++] = (struct code_range){range.first, SURROGATES.first - 1};
    if (range.last > SURROGATES.last) pieces[made++] = (struct code_range){SURROGATES.last + 1, range.last};
    memmove(ranges + i + made, ranges + i + 1, (count - i - 1) * sizeof *ranges);
    memcpy(ranges + i, pieces, made * sizeof *ranges);
    return count - 1 + made;
  }
  return count;
}

size_t class_ranges_normalize(struct code_range *ranges, size_t count, bool negated) {
  qsort(ranges, count, sizeof *ranges, by_first);
  count = join(ranges, count);
  if (negated) count = complement(ranges, count);
  return without_surrogates(ranges, count);
}

bool class_ranges_contain(const struct code_range *ranges, size_t count, uint32_t code_point) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].last < code_point)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && ranges[low].first <= code_point;
}

/* The spans of first…last, whose encodings are equally long: a common beginning, then everything. */
static size_t split(uint32_t first, uint32_t last, unsigned followers, struct utf8_span *spans) {
  for (unsigned i = 1; i <= followers; i++) {
    uint32_t tail = (1u << (6 * i)) - 1;
    if ((first & ~tail) == (last & ~tail)) continue;
    if (first & tail) {
      size_t count = split(first, first | tail, followers, spans);
      return count + split((first | tail) + 1, last, followers, spans + count);
    }
    if ((last & tail) != tail) {
      size_t count = split(first, (last & ~tail) - 1, followers, spans);
      return count + split(last & ~tail, last, followers, spans + count);
    }
  }
  char low[4], high[4];
  spans->length = (uint8_t)utf8_write(first, low);
  utf8_write(last, high);
  memcpy(spans->low, low, spans->length);
  memcpy(spans->high, high, spans->length);
  return 1;
}

size_t class_range_spans(struct code_range range, struct utf8_span spans[UTF8_SPANS]) {
  static const uint32_t LAST[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
  size_t count = 0;
  uint32_t first = range.first;
  for (unsigned followers = 0; followers < 4 && first <= range.last; followers++) {
    if (first > LAST[followers]) continue;
    uint32_t last = range.last < LAST[followers] ? range.last : LAST[followers];
    count += split(first, last, followers, spans + count);
    first = last + 1;
  }
  return count;
}
