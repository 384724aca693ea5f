#include "cmd/top_view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 11, NARROWEST_BAR = 4, WIDEST_BAR = 24, CELL_BYTES = 96 };
/* Names are shown up to a usual length where there are that many columns. */
enum { ROOMY_COLUMNS = 60, USUAL_NAME = 21 };

static double share(double part, double whole) { return whole > 0 ? fmin(part / whole, 1) : 0; }

/* Appends what a terminal shows as it stands, in at most `columns` columns; every other byte is a question mark. */
static size_t append_plain(struct buffer *out, const char *text, size_t columns) {
  size_t used = 0;
  for (; *text && used < columns; text++, used++) buffer_append(out, *text >= ' ' && *text <= '~' ? text : "?", 1);
  return used;
}

static void append_blanks(struct buffer *out, size_t count) {
  for (size_t i = 0; i < count; i++) buffer_append(out, " ", 1);
}

/* Full, half and empty places of a bar of `width`. */
static void append_bar(struct buffer *out, double full, double half, size_t width) {
  size_t first = (size_t)lround(full * (double)width), second = (size_t)lround((full + half) * (double)width);
  for (size_t i = 0; i < width; i++) buffer_append_text(out, i < first ? "█" : i < second ? "▒" : "░");
}

static void format_seconds(char *text, size_t size, double seconds) {
  if (isnan(seconds))
    snprintf(text, size, "-");
  else if (seconds < 0.01)
    snprintf(text, size, "%.1f ms", seconds * 1e3);
  else if (seconds < 1)
    snprintf(text, size, "%.0f ms", seconds * 1e3);
  else
    snprintf(text, size, "%.2f s", seconds);
}

static void format_uptime(char *text, size_t size, double uptime) {
  unsigned long long seconds = (unsigned long long)fmin(uptime, 1e12), days = seconds / 86400;
  int length = days ? snprintf(text, size, "%llu d ", days) : 0;
  snprintf(text + length, size - (size_t)length, "%02llu:%02llu:%02llu", seconds / 3600 % 24, seconds / 60 % 60,
           seconds % 60);
}

static void format_rate(char *text, size_t size, double rate) {
  snprintf(text, size, rate < 100 ? "%.1f" : "%.0f", rate);
}

struct paragraph {
  struct buffer *out;
  size_t columns, indent, used;
};

static void begin(struct paragraph *paragraph, const char *label) {
  paragraph->used = append_plain(paragraph->out, label, paragraph->indent);
  append_blanks(paragraph->out, paragraph->indent - paragraph->used);
  paragraph->used = 0;
}

/* Room for `width` more columns, behind a comma or on a new line; what is left of the line. */
static size_t make_room(struct paragraph *paragraph, size_t width) {
  size_t line = paragraph->columns - paragraph->indent;
  if (paragraph->used > 0 && paragraph->used + 2 + width <= line) {
    buffer_append_text(paragraph->out, ", ");
    paragraph->used += 2;
  } else if (paragraph->used > 0) {
    buffer_append_text(paragraph->out, "\n");
    append_blanks(paragraph->out, paragraph->indent);
    paragraph->used = 0;
  }
  return line - paragraph->used;
}

static void part(struct paragraph *paragraph, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void part(struct paragraph *paragraph, const char *format, ...) {
  char text[1400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  size_t left = make_room(paragraph, strlen(text));
  paragraph->used += append_plain(paragraph->out, text, left);
}

static void end(struct paragraph *paragraph) { buffer_append_text(paragraph->out, "\n"); }

/* Any text, broken at blanks. */
static void write_words(struct buffer *out, const char *text, size_t columns) {
  while (*text) {
    size_t length = strlen(text), cut = length;
    if (length > columns) {
      cut = columns;
      while (cut > 0 && text[cut] != ' ') cut--;
      if (cut == 0) cut = columns;
    }
    char line[1100];
    snprintf(line, sizeof line, "%.*s", (int)cut, text);
    append_plain(out, line, columns);
    buffer_append_text(out, "\n");
    text += cut;
    while (*text == ' ') text++;
  }
}

static void write_title(const struct top_view *view, struct paragraph *title) {
  begin(title, "");
  part(title, "kaiju %s%s%s", view->now ? view->now->model : "", view->now && view->now->model[0] ? " at " : "at ",
       view->url);
  if (view->now) {
    char uptime[64];
    format_uptime(uptime, sizeof uptime, view->now->uptime);
    part(title, "%s", view->now->state);
    part(title, "up %s", uptime);
    part(title, "epoch %.0f", view->now->epoch);
  }
  end(title);
}

static void write_requests(const struct top_sample *now, struct paragraph *paragraph) {
  begin(paragraph, "requests");
  part(paragraph, "%.0f running", now->running);
  if (now->waiting_limit > 0)
    part(paragraph, "%.0f of %.0f waiting", now->waiting, now->waiting_limit);
  else
    part(paragraph, "%.0f waiting", now->waiting);
  part(paragraph, "%.0f finished", now->finished);
  if (now->cancelled > 0) part(paragraph, "%.0f cancelled", now->cancelled);
  if (now->refused > 0) part(paragraph, "%.0f refused", now->refused);
  if (now->failed > 0) part(paragraph, "%.0f failed", now->failed);
  end(paragraph);
}

static void write_tokens(const struct top_view *view, struct paragraph *paragraph) {
  const struct top_sample *now = view->now, *before = view->before;
  begin(paragraph, "tokens");
  if (before) {
    char generated[32], prompts[32];
    double seconds = now->uptime - before->uptime;
    format_rate(generated, sizeof generated, (now->completion_tokens - before->completion_tokens) / seconds);
    format_rate(prompts, sizeof prompts, (now->prompt_tokens - before->prompt_tokens) / seconds);
    part(paragraph, "%s/s generated", generated);
    part(paragraph, "%s/s of prompts", prompts);
  } else {
    part(paragraph, "%.0f generated", now->completion_tokens);
    part(paragraph, "%.0f of prompts", now->prompt_tokens);
  }
  end(paragraph);
}

/* What caches and drafts have saved in the window, or since the start if nothing happened in it. */
static void write_savings(const struct top_view *view, struct paragraph *paragraph) {
  static const struct top_sample start;
  const struct top_sample *now = view->now, *since = view->window ? view->window : &start;
  if (now->prompt_tokens + now->cached_tokens <= since->prompt_tokens + since->cached_tokens) since = &start;
  double cached = now->cached_tokens - since->cached_tokens, computed = now->prompt_tokens - since->prompt_tokens;
  begin(paragraph, "saved");
  part(paragraph, "%.0f %% of prompts cached", 100 * share(fmax(cached, 0), fmax(cached, 0) + fmax(computed, 0)));
  since = view->window && now->drafted_tokens > view->window->drafted_tokens ? view->window : &start;
  double drafted = now->drafted_tokens - since->drafted_tokens;
  if (drafted > 0)
    part(paragraph, "%.0f %% of drafts accepted",
         100 * share(fmax(now->accepted_tokens - since->accepted_tokens, 0), drafted));
  end(paragraph);
}

static void write_latency(const char *name, const struct top_histogram *now, const struct top_histogram *before,
                          const struct top_view *view, struct paragraph *paragraph) {
  if (before && isnan(top_quantile(now, before, 0.5))) before = NULL;
  double median = top_quantile(now, before, 0.5);
  if (isnan(median)) return;
  char half[32], most[32];
  format_seconds(half, sizeof half, median);
  format_seconds(most, sizeof most, top_quantile(now, before, 0.95));
  begin(paragraph, name);
  part(paragraph, "p50 %s", half);
  part(paragraph, "p95 %s", most);
  if (before)
    part(paragraph, "last %.0f s", view->now->uptime - view->window->uptime);
  else
    part(paragraph, "since the start");
  end(paragraph);
}

static void write_kv(const struct top_sample *now, struct paragraph *paragraph) {
  if (!(now->kv_blocks > 0)) return;
  double used = share(now->kv_used, now->kv_blocks), cached = fmin(share(now->kv_cached, now->kv_blocks), 1 - used);
  char text[CELL_BYTES];
  snprintf(text, sizeof text, "%.0f %% used, %.0f %% cached of %.0f blocks", 100 * used, 100 * cached, now->kv_blocks);
  begin(paragraph, "KV cache");
  size_t line = paragraph->columns - paragraph->indent, length = strlen(text);
  if (line > length + NARROWEST_BAR) {
    size_t width = line - length - 1 < WIDEST_BAR ? line - length - 1 : WIDEST_BAR;
    append_bar(paragraph->out, used, cached, width);
    buffer_append_text(paragraph->out, " ");
    line -= width + 1;
  }
  append_plain(paragraph->out, text, line);
  end(paragraph);
}

static void write_pipeline(const struct top_view *view, struct paragraph *paragraph) {
  const struct top_sample *now = view->now, *before = view->before;
  begin(paragraph, "pipeline");
  part(paragraph, "%.0f of %.0f micro-batches in flight", now->in_flight, now->micro_batches);
  double steps = now->steps - (before ? before->steps : 0);
  if (steps > 0)
    part(paragraph, "%.0f %% overlapped",
         100 * share(fmax(now->overlapped - (before ? before->overlapped : 0), 0), steps));
  double batches = now->batch_tokens_count - (before ? before->batch_tokens_count : 0);
  if (batches > 0)
    part(paragraph, "%.1f tokens each", (now->batch_tokens_sum - (before ? before->batch_tokens_sum : 0)) / batches);
  end(paragraph);
}

enum column { STAGE, NODE, LAYERS, BUSY, TOKENS, MEMORY, COMPUTE, WAIT, TRANSFER, COLUMNS };

static const char *const titles[COLUMNS] = {"stage",  "node",    "layers", "busy",    "tokens/s",
                                            "memory", "compute", "wait",   "transfer"};

struct table {
  size_t widths[COLUMNS]; /* 0: no room */
};

/* Columns get their room in the order of their worth; what is left goes to long names and bars. */
static struct table fit(const struct top_view *view, size_t columns) {
  size_t least[COLUMNS] = {5, 6, 7, NARROWEST_BAR + 6, 8, 15, 7, 6, 8};
  struct table table = {{0}};
  size_t names = least[NODE], left = columns;
  for (size_t i = 0; i < view->now->node_count; i++)
    if (strlen(view->now->nodes[i].name) > names) names = strlen(view->now->nodes[i].name);
  if (columns >= ROOMY_COLUMNS) least[NODE] = names < USUAL_NAME ? names : USUAL_NAME;
  for (enum column column = STAGE; column < COLUMNS; column++) {
    size_t width = least[column] + (column ? 2 : 0);
    if (width > left) break;
    table.widths[column] = least[column];
    left -= width;
  }
  if (table.widths[NODE]) {
    size_t more = names - least[NODE] < left ? names - least[NODE] : left;
    table.widths[NODE] += more;
    left -= more;
  }
  if (table.widths[BUSY]) table.widths[BUSY] += left < WIDEST_BAR - NARROWEST_BAR ? left : WIDEST_BAR - NARROWEST_BAR;
  return table;
}

static void cell(const struct table *table, enum column column, const char *text, struct buffer *out) {
  size_t width = table->widths[column], length = strlen(text) < width ? strlen(text) : width;
  bool right = column == STAGE || column >= TOKENS;
  if (width == 0) return;
  if (column > 0) append_blanks(out, 2);
  if (right) append_blanks(out, width - length);
  append_plain(out, text, width);
  if (!right) append_blanks(out, width - length);
}

static void write_busy(const struct table *table, const struct top_node *node, struct buffer *out) {
  bool lost = node->connected == 0, loading = node->layers_warm > 0 && node->layers_warm < node->layers;
  char text[CELL_BYTES];
  if (table->widths[BUSY] == 0) return;
  if (lost) {
    cell(table, BUSY, "away", out);
    return;
  }
  double filled = loading ? share(node->layers_warm, node->layers) : fmin(node->busy, 1);
  append_blanks(out, 2);
  append_bar(out, filled, 0, table->widths[BUSY] - 6);
  snprintf(text, sizeof text, " %3.0f %%", 100 * filled);
  append_plain(out, loading ? " loads" : text, 6);
}

/* Share of the seconds between two moments. */
static void percent_cell(const struct table *table, enum column column, double now, double before, double seconds,
                         struct buffer *out) {
  char text[CELL_BYTES] = "-";
  if (seconds > 0) snprintf(text, sizeof text, "%.0f %%", 100 * share(fmax(now - before, 0), seconds));
  cell(table, column, text, out);
}

static void write_node(const struct table *table, const struct top_view *view, size_t stage, struct buffer *out) {
  static const struct top_node none;
  const struct top_node *node = &view->now->nodes[stage];
  const struct top_node *before = view->before ? &view->before->nodes[stage] : &none;
  double seconds = view->before ? view->now->uptime - view->before->uptime : 0;
  char text[CELL_BYTES];
  snprintf(text, sizeof text, "%zu", stage);
  cell(table, STAGE, text, out);
  cell(table, NODE, node->name, out);
  if (node->layers > 0)
    snprintf(text, sizeof text, "%.0f-%.0f", node->first_layer, node->first_layer + node->layers - 1);
  else
    snprintf(text, sizeof text, "none");
  cell(table, LAYERS, text, out);
  write_busy(table, node, out);
  snprintf(text, sizeof text, "-");
  if (seconds > 0) format_rate(text, sizeof text, fmax(node->tokens - before->tokens, 0) / seconds);
  cell(table, TOKENS, text, out);
  if (node->planned_memory < 1e9)
    snprintf(text, sizeof text, "%.0f of %.0f MB", node->peak_memory * 1e-6, node->planned_memory * 1e-6);
  else
    snprintf(text, sizeof text, "%.1f of %.1f GB", node->peak_memory * 1e-9, node->planned_memory * 1e-9);
  cell(table, MEMORY, text, out);
  percent_cell(table, COMPUTE, node->compute_seconds, before->compute_seconds, seconds, out);
  percent_cell(table, WAIT, node->wait_seconds, before->wait_seconds, seconds, out);
  percent_cell(table, TRANSFER, node->transfer_seconds, before->transfer_seconds, seconds, out);
  buffer_append_text(out, "\n");
}

static void write_nodes(const struct top_view *view, size_t columns, struct buffer *out) {
  struct table table = fit(view, columns);
  for (enum column column = STAGE; column < COLUMNS; column++) cell(&table, column, titles[column], out);
  buffer_append_text(out, "\n");
  for (size_t i = 0; i < view->now->node_count; i++) write_node(&table, view, i, out);
}

void top_view_write(const struct top_view *view, size_t columns, struct buffer *out) {
  if (columns < TOP_LEAST_COLUMNS) columns = TOP_LEAST_COLUMNS;
  struct paragraph title = {.out = out, .columns = columns}, paragraph = title;
  paragraph.indent = LABEL_COLUMNS;
  write_title(view, &title);
  write_words(out, view->problem, columns);
  if (!view->now) return;
  const struct top_sample *now = view->now, *window = view->window;
  buffer_append_text(out, "\n");
  write_requests(now, &paragraph);
  write_tokens(view, &paragraph);
  write_savings(view, &paragraph);
  write_latency("TTFT", &now->first_token, window ? &window->first_token : NULL, view, &paragraph);
  write_latency("ITL", &now->inter_token, window ? &window->inter_token : NULL, view, &paragraph);
  write_kv(now, &paragraph);
  write_pipeline(view, &paragraph);
  buffer_append_text(out, "\n");
  write_nodes(view, columns, out);
}
