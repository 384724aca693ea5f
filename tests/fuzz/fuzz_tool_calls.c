// links: text
/* The tools of a request and the text of a model, separated by a line "----". The first byte of the text picks the
 * form, whether it was cut, and the pieces that it comes in: they must not matter. Arguments of a call that has ended
 * are JSON in the XML form. */
#include <stdlib.h>
#include <string.h>

#include "text/json_scanner.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct record {
  struct buffer text, arguments;
  size_t calls;
  bool open, checks_json;
};

static void check(bool holds) {
  if (!holds) abort();
}

static void take(void *context, const struct tool_event *event) {
  struct record *record = context;
  bool outside = event->kind == TOOL_TEXT || event->kind == TOOL_BEGIN;
  check(record->open != outside);
  check(event->kind == TOOL_END || event->length > 0);
  if (event->kind == TOOL_BEGIN) {
    record->calls++;
    record->open = true;
    buffer_clear(&record->arguments);
  }
  if (event->kind != TOOL_TEXT) check(event->call == record->calls - 1);
  if (outside || event->kind == TOOL_ARGUMENTS) buffer_append(&record->text, event->bytes, event->length);
  if (event->kind == TOOL_ARGUMENTS) buffer_append(&record->arguments, event->bytes, event->length);
  if (event->kind != TOOL_ARGUMENTS && event->kind != TOOL_TEXT)
    buffer_append_format(&record->text, "\n\001%d\n", event->kind);
  if (event->kind != TOOL_END) return;
  record->open = false;
  if (record->checks_json) check(json_text_whole(buffer_text(&record->arguments), record->arguments.length));
}

static void read_text(const struct tool_schemas *schemas, uint8_t way, const char *text, size_t length, size_t piece,
                      struct record *record) {
  struct tool_calls *calls = NULL;
  enum tool_form form = way & 1 ? TOOL_FORM_XML : TOOL_FORM_JSON;
  check(tool_calls_create(&calls, form, schemas, take, record, NULL) == 0);
  for (size_t at = 0; at < length; at += piece)
    tool_calls_push(calls, text + at, length - at < piece ? length - at : piece);
  tool_calls_finish(calls, way & 2);
  check(!tool_calls_failed(calls) && tool_calls_count(calls) == record->calls);
  check(!record->open || way & 2);
  tool_calls_free(calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char SEPARATOR[] = "\n----\n";
  const uint8_t *found = memmem(data, size, SEPARATOR, sizeof SEPARATOR - 1);
  size_t length = found ? (size_t)(found - data) : 0, used = found ? length + sizeof SEPARATOR - 1 : 0;
  if (used == size) return 0;
  struct tool_schemas *schemas = NULL;
  json_t *tools = json_loadb((const char *)data, length, 0, NULL);
  check(tool_schemas_compile(&schemas, tools, NULL) == 0);
  const char *text = (const char *)data + used + 1;
  uint8_t way = data[used];
  bool has_object = memchr(text, '{', size - used - 1);
  struct record whole = {.checks_json = !has_object}, pieces = {.checks_json = !has_object};
  read_text(schemas, way, text, size - used - 1, size, &whole);
  read_text(schemas, way, text, size - used - 1, 1 + (way >> 2) % 9, &pieces);
  check(whole.text.length == pieces.text.length);
  check(!memcmp(buffer_text(&whole.text), buffer_text(&pieces.text), whole.text.length));
  if (utf8_valid(text, size - used - 1, NULL)) check(utf8_valid(buffer_text(&whole.text), whole.text.length, NULL));
  buffer_free(&whole.text);
  buffer_free(&whole.arguments);
  buffer_free(&pieces.text);
  buffer_free(&pieces.arguments);
  tool_schemas_free(schemas);
  json_decref(tools);
  return 0;
}
