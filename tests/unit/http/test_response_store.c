/* Responses by id: bounded, the least recently used forgotten first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/response_store.h"
#include "unit/unit.h"

static void put(struct response_store *store, const char *id, size_t bytes) {
  struct response_text text = {.input_count = bytes};
  char filler[4096];
  assert_true(bytes <= sizeof filler);
  memset(filler, 'x', bytes);
  buffer_append(&text.response, filler, bytes);
  buffer_append_format(&text.items, "[\"%s\"]", id);
  response_store_put(store, id, &text);
  assert_null(text.response.data);
  assert_null(text.items.data);
}

static bool has(struct response_store *store, const char *id) {
  struct response_text text = {0};
  bool found = response_store_get(store, id, true, true, &text);
  if (found) {
    char items[64];
    snprintf(items, sizeof items, "[\"%s\"]", id);
    assert_string_equal(buffer_text(&text.items), items);
    assert_int_equal(text.response.length, text.input_count);
  }
  response_text_free(&text);
  return found;
}

static void forgets_the_least_recently_used(void **state) {
  (void)state;
  struct response_store *store = response_store_create(3, 1 << 20);
  put(store, "resp_a", 1);
  put(store, "resp_b", 2);
  put(store, "resp_c", 3);
  assert_true(has(store, "resp_a"));
  put(store, "resp_d", 4);
  assert_false(has(store, "resp_b"));
  assert_true(has(store, "resp_a") && has(store, "resp_c") && has(store, "resp_d"));
  assert_int_equal(response_store_count(store), 3);
  response_store_free(store);
}

static void stays_within_its_bytes(void **state) {
  (void)state;
  struct response_store *store = response_store_create(1000, 10000);
  for (int i = 0; i < 200; i++) {
    char id[32];
    snprintf(id, sizeof id, "resp_%d", i);
    put(store, id, (size_t)(i * 37 % 3000));
    assert_true(response_store_bytes(store) <= 10000);
    assert_true(has(store, id));
  }
  assert_true(response_store_count(store) < 50);
  assert_false(has(store, "resp_0"));
  response_store_free(store);
}

static void does_not_keep_what_is_too_large(void **state) {
  (void)state;
  struct response_store *store = response_store_create(10, 2000);
  put(store, "resp_small", 10);
  put(store, "resp_large", 3000);
  assert_true(has(store, "resp_small"));
  assert_false(has(store, "resp_large"));
  response_store_free(store);
  store = response_store_create(0, 2000);
  put(store, "resp_small", 10);
  assert_int_equal(response_store_count(store), 0);
  response_store_free(store);
}

static void deletes_and_replaces(void **state) {
  (void)state;
  struct response_store *store = response_store_create(10, 1 << 20);
  put(store, "resp_a", 10);
  put(store, "resp_a", 20);
  assert_int_equal(response_store_count(store), 1);
  assert_true(has(store, "resp_a"));
  assert_true(response_store_delete(store, "resp_a"));
  assert_false(response_store_delete(store, "resp_a"));
  assert_false(has(store, "resp_a"));
  assert_int_equal(response_store_count(store), 0);
  assert_int_equal(response_store_bytes(store), 0);
  response_store_free(store);
  response_store_free(NULL);
}

static void gives_only_what_is_asked_for(void **state) {
  (void)state;
  struct response_store *store = response_store_create(10, 1 << 20);
  put(store, "resp_a", 10);
  struct response_text text = {0};
  assert_true(response_store_get(store, "resp_a", false, false, &text));
  assert_int_equal(text.input_count, 10);
  assert_int_equal(text.response.length + text.items.length, 0);
  assert_true(response_store_get(store, "resp_a", true, false, &text));
  assert_int_equal(text.response.length, 10);
  assert_int_equal(text.items.length, 0);
  response_text_free(&text);
  response_store_free(store);
}

static void *use(void *context) {
  struct response_store *store = context;
  for (int i = 0; i < 2000; i++) {
    char id[32];
    snprintf(id, sizeof id, "resp_%d", i % 17);
    if (i % 3 == 0)
      put(store, id, (size_t)(i % 500));
    else if (i % 3 == 1)
      has(store, id);
    else
      response_store_delete(store, id);
  }
  return NULL;
}

static void is_shared_by_threads(void **state) {
  (void)state;
  struct response_store *store = response_store_create(8, 4000);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, use, store), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_true(response_store_count(store) <= 8 && response_store_bytes(store) <= 4000);
  response_store_free(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forgets_the_least_recently_used), cmocka_unit_test(stays_within_its_bytes),
      cmocka_unit_test(does_not_keep_what_is_too_large), cmocka_unit_test(deletes_and_replaces),
      cmocka_unit_test(gives_only_what_is_asked_for),    cmocka_unit_test(is_shared_by_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
