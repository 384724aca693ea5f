/* The preparer's thread: results come in order, and what nobody waits for is freed. */
#include "http/prepare.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "model/config.h"
#include "unit/unit.h"

enum { COUNT = 200 };

static void wake(void *context) {
  uint64_t one = 1;
  assert_int_equal(write(*(int *)context, &one, sizeof one), sizeof one);
}

static struct preparation *submit(struct preparer *preparer, void *owner, const char *body) {
  struct preparation *preparation = calloc(1, sizeof *preparation);
  assert_non_null(preparation);
  preparation->endpoint = ENDPOINT_COMPLETIONS;
  preparation->owner = owner;
  buffer_append_text(&preparation->body, body);
  preparer_submit(preparer, preparation);
  return preparation;
}

/* The next that is done; waits for it. */
static struct preparation *take(struct preparer *preparer, int wakeup) {
  struct preparation *done = NULL;
  struct pollfd woken = {.fd = wakeup, .events = POLLIN};
  while (!(done = preparer_take(preparer))) {
    uint64_t count = 0;
    assert_int_equal(poll(&woken, 1, 20000), 1);
    assert_int_equal(read(wakeup, &count, sizeof count), sizeof count);
  }
  return done;
}

static void what_nobody_waits_for_never_comes_with_an_owner(void **state) {
  static const struct config config = {.vocabulary = 10};
  struct kj_error error;
  struct preparer *preparer = NULL;
  struct preparation *submitted[COUNT];
  int owners[COUNT], wakeup = eventfd(0, EFD_CLOEXEC);
  (void)state;
  assert_true(wakeup >= 0);
  struct preparer_options options = {.config = &config, .context = 100, .wake = wake, .wake_context = &wakeup};
  assert_int_equal(preparer_create(&preparer, &options, &error), 0);
  for (int i = 0; i < COUNT; i++) submitted[i] = submit(preparer, &owners[i], "{\"prompt\": [1, 2]}");
  for (int i = 1; i < COUNT; i += 2) preparer_abandon(preparer, submitted[i]);
  for (int i = 0; i < COUNT; i += 2) {
    struct preparation *done = take(preparer, wakeup);
    for (; !done->owner; done = take(preparer, wakeup)) preparation_free(done);
    assert_ptr_equal(done->owner, &owners[i]);
    assert_non_null(done->request);
    assert_null(done->request->prompts[0].tokens);
    assert_int_equal(done->prompts[0].count, 2);
    preparation_free(done);
  }
  preparer_destroy(preparer);
  close(wakeup);
}

static void what_is_left_at_the_end_is_freed(void **state) {
  static const struct config config = {.vocabulary = 10};
  struct kj_error error;
  struct preparer *preparer = NULL;
  int wakeup = eventfd(0, EFD_CLOEXEC);
  (void)state;
  assert_true(wakeup >= 0);
  struct preparer_options options = {.config = &config, .context = 100, .wake = wake, .wake_context = &wakeup};
  assert_int_equal(preparer_create(&preparer, &options, &error), 0);
  for (int i = 0; i < COUNT; i++) submit(preparer, NULL, i % 2 ? "{\"prompt\": [1]}" : "{");
  struct preparation *first = take(preparer, wakeup);
  assert_null(first->request);
  assert_string_equal(first->error.code, "invalid_json");
  preparation_free(first);
  preparer_destroy(preparer);
  close(wakeup);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_nobody_waits_for_never_comes_with_an_owner),
      cmocka_unit_test(what_is_left_at_the_end_is_freed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
