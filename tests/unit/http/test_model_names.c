/* The names of the model, and which of them answers bear. */
#include "http/model_names.h"

#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static void lists_the_own_name_first(void **state) {
  struct model_names *names = NULL;
  struct kj_error error;
  (void)state;
  assert_int_equal(model_names_create(&names, "own", "gpt-4o,org/other name", &error), 0);
  assert_int_equal(model_names_count(names), 3);
  assert_string_equal(model_names_at(names, 0), "own");
  assert_string_equal(model_names_at(names, 2), "org/other name");
  assert_string_equal(model_names_find(names, "gpt-4o"), "gpt-4o");
  assert_null(model_names_find(names, "gpt-4"));
  assert_null(model_names_find(names, ""));
  model_names_free(names);
  assert_int_equal(model_names_create(&names, "own", NULL, &error), 0);
  assert_int_equal(model_names_count(names), 1);
  model_names_free(names);
}

static void refuses_names_that_are_none(void **state) {
  static const char *const bad[] = {"", "a,", ",a", "a,,b", "own", "a,b,a", "\xff"};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct model_names *names = NULL;
    struct kj_error error = {0};
    assert_int_equal(model_names_create(&names, "own", bad[i], &error), KJ_INVALID);
    assert_null(names);
    assert_true(error.message[0]);
  }
}

static int start(void **state) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->aliases = "gpt-4o,org/alias";
  serve_fake_start(serve, NULL);
  serve_fake_say(serve, "Hello");
  *state = serve;
  return 0;
}

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

static void every_name_is_listed_and_found(void **state) {
  struct serve_fake *serve = *state;
  static const char *const names[] = {"org/kaiju-mini", "gpt-4o", "org/alias"};
  struct http_reply reply = client_ask(serve->port, "GET", "/v1/models", NULL);
  json_t *list = http_reply_json(&reply);
  const json_t *data = json_object_get(list, "data");
  assert_int_equal(json_array_size(data), 3);
  for (size_t i = 0; i < 3; i++) {
    const json_t *model = json_array_get(data, i);
    assert_string_equal(json_string_value(json_object_get(model, "id")), names[i]);
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", names[i]);
    struct http_reply one = client_ask(serve->port, "GET", path, NULL);
    json_t *found = http_reply_json(&one);
    assert_true(json_equal(found, model));
    json_decref(found);
    http_reply_free(&one);
  }
  json_decref(list);
  http_reply_free(&reply);
}

static void expect_name(struct serve_fake *serve, const char *asked, const char *answered, bool stream) {
  char body[300];
  snprintf(body, sizeof body, "{\"prompt\":\"a\",\"stream\":%s%s}", stream ? "true" : "false", asked);
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", body);
  assert_int_equal(reply.status, 200);
  json_t *answer = stream ? http_reply_events(&reply) : json_pack("[o]", http_reply_json(&reply));
  for (size_t i = 0; i < json_array_size(answer); i++) {
    const json_t *part = json_array_get(answer, i);
    if (!json_is_object(part)) continue;
    assert_string_equal(json_string_value(json_object_get(part, "model")), answered);
    assert_string_equal(json_string_value(json_object_get(part, "system_fingerprint")), "fp_fake");
  }
  json_decref(answer);
  http_reply_free(&reply);
}

static void an_answer_has_the_name_that_was_asked_for(void **state) {
  for (int stream = 0; stream < 2; stream++) {
    expect_name(*state, ",\"model\":\"gpt-4o\"", "gpt-4o", stream);
    expect_name(*state, ",\"model\":\"org/alias\"", "org/alias", stream);
    expect_name(*state, ",\"model\":\"org/kaiju-mini\"", "org/kaiju-mini", stream);
    expect_name(*state, ",\"model\":\"something else\"", "org/kaiju-mini", stream);
    expect_name(*state, "", "org/kaiju-mini", stream);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_the_own_name_first),
      cmocka_unit_test(refuses_names_that_are_none),
      cmocka_unit_test_setup_teardown(every_name_is_listed_and_found, start, stop),
      cmocka_unit_test_setup_teardown(an_answer_has_the_name_that_was_asked_for, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
