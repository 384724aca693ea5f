/* The lines of `kaiju top`, for moments made up here. */
#include "cmd/top_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"

struct screen {
  struct top_sample now, before, window;
  struct top_view view;
  struct buffer text;
};

/* Two nodes, a second between now and before, ten between now and the window's start. */
static int start(void **state) {
  struct screen *screen = calloc(1, sizeof *screen);
  if (!screen) return -1;
  struct top_sample *now = &screen->now;
  *now = (struct top_sample){.model = "mini",
                             .state = "ready",
                             .epoch = 2,
                             .uptime = 90061,
                             .running = 4,
                             .waiting = 12,
                             .waiting_limit = 256,
                             .finished = 30,
                             .kv_blocks = 200,
                             .kv_used = 100,
                             .kv_cached = 50,
                             .micro_batches = 3,
                             .in_flight = 2,
                             .node_count = 2};
  now->nodes[0] = (struct top_node){.name = "lead",
                                    .connected = 1,
                                    .layers = 8,
                                    .layers_warm = 8,
                                    .planned_memory = 20e9,
                                    .peak_memory = 12.34e9,
                                    .busy = 0.5};
  now->nodes[1] = (struct top_node){
      .name = "studio2:7000", .connected = 1, .first_layer = 8, .layers = 4, .layers_warm = 4, .busy = 1};
  now->first_token = (struct top_histogram){.count = 2, .bounds = {0.2, INFINITY}, .counts = {100, 100}};
  screen->before = screen->window = *now;
  screen->before.uptime -= 1;
  screen->window.uptime -= 10;
  screen->view = (struct top_view){
      .url = "http://h:1", .now = now, .before = &screen->before, .window = &screen->window, .problem = ""};
  *state = screen;
  return 0;
}

static int stop(void **state) {
  struct screen *screen = *state;
  buffer_free(&screen->text);
  free(screen);
  return 0;
}

static const char *show(struct screen *screen, size_t columns) {
  buffer_clear(&screen->text);
  top_view_write(&screen->view, columns, &screen->text);
  assert_false(buffer_failed(&screen->text));
  return buffer_text(&screen->text);
}

static void expect(struct screen *screen, const char *part) {
  const char *text = show(screen, 120);
  if (!strstr(text, part)) fail_msg("no \"%s\" in:\n%s", part, text);
}

static void expect_no(struct screen *screen, const char *part) {
  const char *text = show(screen, 120);
  if (strstr(text, part)) fail_msg("\"%s\" in:\n%s", part, text);
}

static void shows_the_cluster(void **state) {
  struct screen *screen = *state;
  expect(screen, "kaiju mini at http://h:1, ready, up 1 d 01:01:01, epoch 2\n");
  expect(screen, "4 running, 12 of 256 waiting, 30 finished\n");
  expect(screen, "█▒▒▒▒▒▒░░░░░░ 50 % used, 25 % cached of 200 blocks\n");
  expect(screen, "2 of 3 micro-batches in flight\n");
  expect_no(screen, "refused");
  expect_no(screen, "drafts");
  screen->now.refused = 3;
  expect(screen, ", 3 refused\n");
}

static void rates_are_differences(void **state) {
  struct screen *screen = *state;
  screen->before.completion_tokens = 1000;
  screen->now.completion_tokens = 1042;
  screen->now.prompt_tokens = 512;
  screen->now.steps = 10;
  screen->now.overlapped = 9;
  screen->now.batch_tokens_count = 10;
  screen->now.batch_tokens_sum = 25;
  screen->now.nodes[1].tokens = 77;
  screen->now.nodes[1].compute_seconds = 0.25;
  screen->now.nodes[1].wait_seconds = 0.75;
  screen->now.nodes[1].transfer_seconds = 3;
  expect(screen, "42.0/s generated, 512/s of prompts\n");
  expect(screen, ", 90 % overlapped, 2.5 tokens each\n");
  expect(screen, "    77.0  ");
  expect(screen, " 25 %    75 %     100 %\n");
  screen->view.before = NULL;
  expect(screen, "1042 generated, 512 of prompts\n");
  expect(screen, "      -       -         -\n");
}

/* In the window, or since the start when nothing happened in it. */
static void shares_and_latencies_are_of_the_window(void **state) {
  struct screen *screen = *state;
  expect(screen, "TTFT       p50 100 ms, p95 190 ms, since the start\n");
  expect_no(screen, "ITL");
  for (size_t i = 0; i < 2; i++) screen->window.first_token.counts[i] = 50;
  expect(screen, "TTFT       p50 100 ms, p95 190 ms, last 10 s\n");
  screen->window.prompt_tokens = screen->now.prompt_tokens = 100;
  screen->window.cached_tokens = screen->now.cached_tokens = 100;
  expect(screen, "50 % of prompts cached\n");
  screen->now.cached_tokens = 190;
  screen->now.prompt_tokens = 110;
  screen->now.drafted_tokens = 8;
  screen->now.accepted_tokens = 6;
  expect(screen, "90 % of prompts cached, 75 % of drafts accepted\n");
}

static void shows_nodes(void **state) {
  struct screen *screen = *state;
  expect(screen, "    0  lead          0-7      ████");
  expect(screen, "    1  studio2:7000  8-11     ██████");
  expect(screen, "100 %");
  expect(screen, "12.3 of 20.0 GB");
  screen->now.nodes[1].peak_memory = 44.6e6;
  screen->now.nodes[1].planned_memory = 398e6;
  expect(screen, "   45 of 398 MB");
  screen->now.nodes[1].layers_warm = 1;
  expect(screen, " loads");
  screen->now.nodes[1].connected = 0;
  expect(screen, "8-11     away ");
  screen->now.nodes[0].layers = 0;
  expect(screen, "    0  lead          none ");
}

static void says_what_is_wrong(void **state) {
  struct screen *screen = *state;
  screen->view.problem = "the engine is recovering: studio2:7000 is away";
  snprintf(screen->now.state, sizeof screen->now.state, "recovering");
  expect(screen, ", recovering, up ");
  expect(screen, "epoch 2\nthe engine is recovering: studio2:7000 is away\n\n");
  screen->view.now = NULL;
  assert_string_equal(show(screen, 120), "kaiju at http://h:1\nthe engine is recovering: studio2:7000 is away\n");
  assert_string_equal(show(screen, 30), "kaiju at http://h:1\nthe engine is recovering:\nstudio2:7000 is away\n");
}

/* What a server sends cannot move the cursor or change colours. */
static void names_are_shown_without_control_codes(void **state) {
  struct screen *screen = *state;
  snprintf(screen->now.model, sizeof screen->now.model, "a\033[2Jb\n\r\x9b\xc3\xa9");
  snprintf(screen->now.nodes[1].name, sizeof screen->now.nodes[1].name, "x\033]0;y\007");
  screen->view.problem = "bad\033[1mness\001";
  expect(screen, "kaiju a?[2Jb????? at");
  expect(screen, "bad?[1mness?\n");
  for (const char *at = show(screen, 120); *at; at++) assert_true(*at == '\n' || (unsigned char)*at >= ' ');
}

/* The most columns of a line: each of the bars' signs takes one. */
static size_t widest(const char *text) {
  size_t most = 0, columns = 0;
  for (; *text; text++) {
    if (*text == '\n') columns = 0;
    if (*text != '\n' && ((unsigned char)*text & 0xc0) != 0x80) columns++;
    if (columns > most) most = columns;
  }
  return most;
}

static void no_line_is_wider_than_asked(void **state) {
  struct screen *screen = *state;
  memset(screen->now.model, 'm', sizeof screen->now.model - 1);
  memset(screen->now.nodes[1].name, 'n', sizeof screen->now.nodes[1].name - 1);
  screen->now.running = screen->now.prompt_tokens = screen->now.epoch = screen->now.uptime = 1e18;
  screen->now.nodes[1].layers = screen->now.nodes[0].peak_memory = screen->now.kv_blocks = 1e18;
  screen->view.problem = "a message of some words and averylongonethatcannotbebrokenanywhereatallbecauseithasnoblank";
  for (size_t columns = TOP_LEAST_COLUMNS; columns <= 200; columns++)
    if (widest(show(screen, columns)) > columns) fail_msg("%zu columns:\n%s", columns, buffer_text(&screen->text));
  assert_int_equal(widest(show(screen, 0)) <= TOP_LEAST_COLUMNS, 1);
}

static void wide_screens_show_every_column_narrow_ones_the_first(void **state) {
  struct screen *screen = *state;
  const char *wide = show(screen, 100);
  assert_non_null(strstr(wide, "transfer\n"));
  const char *narrow = show(screen, 40);
  assert_null(strstr(narrow, "transfer"));
  assert_non_null(strstr(narrow, "busy"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(shows_the_cluster, start, stop),
      cmocka_unit_test_setup_teardown(rates_are_differences, start, stop),
      cmocka_unit_test_setup_teardown(shares_and_latencies_are_of_the_window, start, stop),
      cmocka_unit_test_setup_teardown(shows_nodes, start, stop),
      cmocka_unit_test_setup_teardown(says_what_is_wrong, start, stop),
      cmocka_unit_test_setup_teardown(names_are_shown_without_control_codes, start, stop),
      cmocka_unit_test_setup_teardown(no_line_is_wider_than_asked, start, stop),
      cmocka_unit_test_setup_teardown(wide_screens_show_every_column_narrow_ones_the_first, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
