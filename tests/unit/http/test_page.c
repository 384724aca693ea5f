/* The page and its files as a browser fetches them. */
#include "http/page_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static int start_with(void **state, bool without_page) {
  struct kj_error error;
  struct api_keys *keys = NULL;
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve || api_keys_parse(&keys, "keys", "right", 5, &error)) return -1;
  serve->keys = keys;
  serve->without_page = without_page;
  serve_fake_start(serve, NULL);
  *state = serve;
  return 0;
}

static int start(void **state) { return start_with(state, false); }
static int start_without(void **state) { return start_with(state, true); }

static int stop(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_stop(serve);
  api_keys_free((struct api_keys *)serve->keys);
  free(serve);
  return 0;
}

static struct http_reply ask(struct serve_fake *serve, const char *method, const char *path, const char *lines) {
  struct http_reply reply;
  char request[400];
  int length = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, lines);
  int client = client_connect(serve->port);
  assert_true(client_send(client, request, (size_t)length));
  assert_true(client_read(client, strcmp(method, "HEAD") != 0, &reply));
  client_close(client);
  return reply;
}

static void is_served_without_a_key(void **state) {
  for (size_t i = 0; i < page_file_count; i++) {
    struct http_reply reply = ask(*state, "GET", page_files[i].path, "");
    assert_int_equal(reply.status, 200);
    assert_string_equal(http_reply_header(&reply, "Content-Type"), page_files[i].type);
    assert_string_equal(http_reply_header(&reply, "ETag"), page_files[i].entity_tag);
    assert_int_equal(reply.body.length, page_files[i].size);
    assert_memory_equal(reply.body.data, page_files[i].bytes, page_files[i].size);
    http_reply_free(&reply);
    reply = ask(*state, "HEAD", page_files[i].path, "");
    assert_int_equal(reply.status, 200);
    assert_int_equal(atoi(http_reply_header(&reply, "Content-Length")), page_files[i].size);
    http_reply_free(&reply);
    reply = ask(*state, "POST", page_files[i].path, "Authorization: Bearer right\r\n");
    assert_int_equal(reply.status, 405);
    http_reply_free(&reply);
  }
}

static void holds_what_it_needs(void **state) {
  (void)state;
  static const char *const paths[] = {"/", "/licenses.txt"};
  for (size_t i = 0; i < 2; i++) {
    bool found = false;
    for (size_t j = 0; j < page_file_count; j++) found |= strcmp(page_files[j].path, paths[i]) == 0;
    assert_true(found);
  }
  for (size_t i = 0; i < page_file_count; i++) {
    assert_true(page_files[i].size > 0);
    assert_int_equal(strlen(page_files[i].entity_tag), 22);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(page_files[i].path, page_files[j].path);
  }
}

static void may_only_use_this_server(void **state) {
  struct http_reply reply = ask(*state, "GET", "/", "");
  const char *policy = http_reply_header(&reply, "Content-Security-Policy");
  assert_non_null(policy);
  assert_true(strncmp(policy, "default-src 'none'; ", 20) == 0);
  assert_null(strstr(policy, "unsafe"));
  assert_null(strstr(policy, "http"));
  assert_non_null(strstr(policy, "frame-ancestors 'none'"));
  assert_string_equal(http_reply_header(&reply, "X-Content-Type-Options"), "nosniff");
  assert_string_equal(http_reply_header(&reply, "Referrer-Policy"), "no-referrer");
  assert_null(http_reply_header(&reply, "Set-Cookie"));
  http_reply_free(&reply);
}

static void is_sent_once_to_who_keeps_it(void **state) {
  char lines[200];
  static const char *const kept[] = {"If-None-Match: %s\r\n", "if-none-match: \"other\", W/%s\r\n",
                                     "If-None-Match: *\r\n%.0s"};
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    snprintf(lines, sizeof lines, kept[i], page_files[0].entity_tag);
    struct http_reply reply = ask(*state, "HEAD", page_files[0].path, lines);
    assert_int_equal(reply.status, 304);
    assert_string_equal(http_reply_header(&reply, "ETag"), page_files[0].entity_tag);
    assert_non_null(http_reply_header(&reply, "Content-Security-Policy"));
    assert_null(http_reply_header(&reply, "Content-Length"));
    http_reply_free(&reply);
  }
  struct http_reply reply = ask(*state, "GET", page_files[0].path, "If-None-Match: \"other\"\r\n");
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
}

static void what_it_asks_for_needs_a_key(void **state) {
  struct http_reply reply = ask(*state, "GET", "/cluster", "");
  assert_int_equal(reply.status, 401);
  http_reply_free(&reply);
  reply = ask(*state, "GET", "/cluster", "Authorization: Bearer right\r\n");
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_reply_header(&reply, "Cache-Control"), "no-store");
  json_t *body = http_reply_json(&reply);
  assert_string_equal(json_string_value(json_object_get(body, "state")), "ready");
  json_decref(body);
  http_reply_free(&reply);
}

static void can_be_left_out_but_for_the_description(void **state) {
  struct http_reply description = ask(*state, "GET", "/openapi.json", "");
  assert_int_equal(description.status, 200);
  assert_string_equal(http_reply_header(&description, "Content-Type"), "application/json; charset=utf-8");
  http_reply_free(&description);
  for (size_t i = 0; i < page_file_count; i++) {
    if (strcmp(page_files[i].path, "/openapi.json") == 0) continue;
    struct http_reply reply = ask(*state, "GET", page_files[i].path, "");
    assert_int_equal(reply.status, 401);
    http_reply_free(&reply);
    reply = ask(*state, "GET", page_files[i].path, "Authorization: Bearer right\r\n");
    assert_int_equal(reply.status, 404);
    http_reply_free(&reply);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_what_it_needs),
      cmocka_unit_test_setup_teardown(is_served_without_a_key, start, stop),
      cmocka_unit_test_setup_teardown(may_only_use_this_server, start, stop),
      cmocka_unit_test_setup_teardown(is_sent_once_to_who_keeps_it, start, stop),
      cmocka_unit_test_setup_teardown(what_it_asks_for_needs_a_key, start, stop),
      cmocka_unit_test_setup_teardown(can_be_left_out_but_for_the_description, start_without, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
