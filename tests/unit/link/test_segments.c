/* The spare segments of a hub: what is taken is alone, and what is given back is kept once. */
#include <stdlib.h>

#include "link/hub.h"
#include "unit/unit.h"

static size_t list_length(const struct segment *segment) {
  size_t length = 0;
  for (; segment && length < 100; segment = segment->next) length++;
  return length;
}

static struct link_hub *hub_of_segments(size_t count) {
  struct link_hub *hub = calloc(1, sizeof *hub);
  pthread_mutex_init(&hub->mutex, NULL);
  for (size_t i = 0; i < count; i++) hub_give_segments(hub, segment_create());
  return hub;
}

static void free_hub(struct link_hub *hub) {
  for (struct segment *segment; (segment = hub->spare);) {
    hub->spare = segment->next;
    segment_free(segment);
  }
  pthread_mutex_destroy(&hub->mutex);
  free(hub);
}

/* As where a handshake message cannot be sent. */
static void test_a_segment_that_was_not_used_goes_back_alone(void **state) {
  (void)state;
  struct link_hub *hub = hub_of_segments(3);
  struct segment *segment = hub_take_segment(hub);
  assert_null(segment->next);
  assert_int_equal(hub->spare_count, 2);
  hub_give_segments(hub, segment);
  assert_int_equal(hub->spare_count, 3);
  assert_int_equal(list_length(hub->spare), 3);
  free_hub(hub);
}

static void test_a_list_goes_back_whole(void **state) {
  (void)state;
  struct link_hub *hub = hub_of_segments(3);
  struct segment *first = hub_take_segment(hub);
  first->next = hub_take_segment(hub);
  hub_give_segments(hub, first);
  assert_int_equal(hub->spare_count, 3);
  assert_int_equal(list_length(hub->spare), 3);
  free_hub(hub);
}

static void test_without_a_spare_one_it_is_new(void **state) {
  (void)state;
  struct link_hub *hub = hub_of_segments(0);
  struct segment *segment = hub_take_segment(hub);
  assert_non_null(segment);
  assert_null(segment->next);
  hub_give_segments(hub, NULL);
  hub_give_segments(hub, segment);
  assert_int_equal(hub->spare_count, 1);
  free_hub(hub);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_segment_that_was_not_used_goes_back_alone),
      cmocka_unit_test(test_a_list_goes_back_whole),
      cmocka_unit_test(test_without_a_spare_one_it_is_new),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
