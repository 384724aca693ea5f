/* What comes out of text/tool_calls.h, joined and written down: text as it is, a call as «NAME ARGUMENTS», one that has
 * not ended as «NAME ARGUMENTS…. It must be the same however the text is cut. */
#ifndef KAIJU_TESTS_TOOL_CHECK_H
#define KAIJU_TESTS_TOOL_CHECK_H

#include <stdlib.h>

#include "text/tool_calls.h"
#include "unit/unit.h"

struct tool_record {
  struct buffer text;
  size_t calls;
  bool open;
};

static void tool_record_event(void *context, const struct tool_event *event) {
  struct tool_record *record = context;
  assert_true(event->kind == TOOL_END || event->length > 0);
  if (event->kind == TOOL_TEXT || event->kind == TOOL_BEGIN)
    assert_false(record->open);
  else
    assert_true(record->open);
  if (event->kind != TOOL_TEXT) assert_int_equal(event->call, record->calls - (event->kind != TOOL_BEGIN));
  if (event->kind == TOOL_BEGIN) {
    assert_int_equal(event->bytes[event->length], '\0');
    buffer_append_text(&record->text, "«");
    record->calls++;
    record->open = true;
  }
  if (event->length) buffer_append(&record->text, event->bytes, event->length);
  if (event->kind == TOOL_BEGIN) buffer_append_text(&record->text, " ");
  if (event->kind == TOOL_END) {
    buffer_append_text(&record->text, "»");
    record->open = false;
  }
}

struct tool_case {
  enum tool_form form;
  const json_t *tools;
  bool cut;
};

/* Pieces end at the offsets, which are sorted. */
static char *tool_read(const struct tool_case *how, const char *text, const size_t *offsets, size_t count) {
  struct tool_schemas *schemas = NULL;
  struct tool_calls *calls = NULL;
  struct tool_record record = {0};
  assert_int_equal(tool_schemas_compile(&schemas, how->tools, NULL), 0);
  assert_int_equal(tool_calls_create(&calls, how->form, schemas, tool_record_event, &record, NULL), 0);
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    tool_calls_push(calls, text + at, offsets[i] - at);
    at = offsets[i];
  }
  tool_calls_push(calls, text + at, strlen(text) - at);
  tool_calls_finish(calls, how->cut);
  assert_false(tool_calls_failed(calls));
  assert_int_equal(tool_calls_count(calls), record.calls);
  if (record.open) buffer_append_text(&record.text, "…");
  tool_calls_free(calls);
  tool_schemas_free(schemas);
  buffer_append_text(&record.text, "");
  return record.text.data;
}

static int tool_compare_offsets(const void *a, const void *b) {
  size_t left = *(const size_t *)a, right = *(const size_t *)b;
  return (left > right) - (left < right);
}

/* In one piece, in two at every place, byte by byte, and in random pieces. */
static void tool_expect(const struct tool_case *how, const char *text, const char *expected) {
  size_t length = strlen(text);
  size_t *offsets = calloc(length + 1, sizeof *offsets);
  uint32_t state = 1;
  for (size_t way = 0; way < length + 40; way++) {
    size_t count = way == 0 ? 0 : 1;
    offsets[0] = way;
    if (way == length) {
      count = length;
      for (size_t i = 0; i < length; i++) offsets[i] = i;
    } else if (way > length) {
      count = 1 + way % 12;
      if (count > length) count = length;
      for (size_t i = 0; i < count; i++) offsets[i] = (state = state * 1664525 + 1013904223) / 256 % (length + 1);
      qsort(offsets, count, sizeof *offsets, tool_compare_offsets);
    }
    char *result = tool_read(how, text, offsets, count);
    if (strcmp(result, expected) != 0) fail_msg("\n%s\ncut %zu gives\n%s\nand not\n%s", text, way, result, expected);
    free(result);
  }
  free(offsets);
}

#endif
