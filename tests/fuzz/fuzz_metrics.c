// links: cmd
/* The text of /metrics as `kaiju top` reads it: what is taken can be drawn at any width, without a control code. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/exposition.h"
#include "cmd/top_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_exposition(const char *text, size_t length) {
  struct exposition_reader reader = exposition_read(text, length);
  struct exposition_sample sample;
  struct kj_error error;
  for (bool found = true; found;) {
    if (exposition_next(&reader, &sample, &found, &error)) return;
    if (!found) return;
    check(sample.label_count <= EXPOSITION_MAX_LABELS && *sample.name);
    for (size_t i = 0; i < sample.label_count; i++) check(exposition_label(&sample, sample.labels[i].name) != NULL);
  }
}

static void check_lines(const struct top_view *view, size_t columns) {
  struct buffer text = {0};
  top_view_write(view, columns, &text);
  size_t used = 0;
  for (const char *at = buffer_text(&text); *at; at++) {
    check(*at == '\n' || (unsigned char)*at >= ' ');
    if (*at == '\n') used = 0;
    if (*at != '\n' && ((unsigned char)*at & 0xc0) != 0x80) used++;
    check(used <= columns);
  }
  buffer_free(&text);
}

/* Two moments, separated by a line "---". */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char separator[] = "\n---\n";
  const char *text = (const char *)data, *split = memmem(data, size, separator, sizeof separator - 1);
  size_t length = split ? (size_t)(split - text) : size;
  struct kj_error error;
  struct top_sample *now = malloc(sizeof *now), *before = malloc(sizeof *before);
  check(now && before);
  check_exposition(text, length);
  bool read = top_sample_parse(now, text, length, &error) == 0;
  const char *rest = split ? split + sizeof separator - 1 : NULL;
  bool both = read && rest && top_sample_parse(before, rest, size - (size_t)(rest - text), &error) == 0;
  if (both) both = top_sample_follows(now, before);
  struct top_view view = {.url = "http://h:1", .problem = "", .now = read ? now : NULL};
  if (both) view.before = view.window = before;
  for (size_t columns = TOP_LEAST_COLUMNS; read && columns < 200; columns += 45) check_lines(&view, columns);
  double median = read ? top_quantile(&now->first_token, both ? &before->first_token : NULL, 0.5) : NAN;
  check(isnan(median) || median >= 0);
  free(now);
  free(before);
  return 0;
}
