#include "base/cpus.h"

#include <stdio.h>

#include "unit/unit.h"

static void lists_are_read_in_their_order(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t count;
    unsigned cpus[8];
  } cases[] = {
      {"0", 1, {0}},
      {"7", 1, {7}},
      {"0-3", 4, {0, 1, 2, 3}},
      {"5,1", 2, {5, 1}},
      {"0-3,8,10-14:2", 8, {0, 1, 2, 3, 8, 10, 12, 14}},
      {"2-2", 1, {2}},
      {"1-4:3", 2, {1, 4}},
      {"1-4:9", 1, {1}},
      {"1023", 1, {1023}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct cpu_list list;
    assert_int_equal(cpus_parse(cases[i].text, &list, NULL), 0);
    assert_int_equal(list.count, cases[i].count);
    assert_memory_equal(list.cpus, cases[i].cpus, list.count * sizeof *list.cpus);
  }
}

static void what_is_no_list_is_refused_with_its_text(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",    ",",     "1,",   ",1",    "1,,2",     "a",     "-1",   "1-",      "3-1",
      "1 2", "0-3:0", "0-3:", "0-3:x", "0:2",      "1-2-3", "1024", "0-99999", "99999999999999999999",
      "0x1", "1.5",   "+1",   " 1",    "1-4:99999"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct cpu_list list;
    struct kj_error error;
    assert_int_equal(cpus_parse(texts[i], &list, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, texts[i]));
  }
}

static void a_cpu_that_is_listed_twice_is_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"3,3", "0-4,3", "1,3,0-3"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct cpu_list list;
    struct kj_error error;
    assert_int_equal(cpus_parse(texts[i], &list, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, "twice"));
  }
}

static void a_thread_is_kept_to_its_list(void **state) {
  (void)state;
  cpu_set_t before, now;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  struct cpu_list list = {.count = 1};
  while (!CPU_ISSET(list.cpus[0], &before)) list.cpus[0]++;
  assert_int_equal(cpus_restrict(&list, NULL), 0);
  assert_int_equal(cpus_available(), 1);
  sched_getaffinity(0, sizeof now, &now);
  assert_true(CPU_ISSET(list.cpus[0], &now));
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  assert_int_equal(cpus_available(), CPU_COUNT(&before));
}

static void a_cpu_that_is_not_there_is_refused_with_those_that_are(void **state) {
  (void)state;
  cpu_set_t before, now;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  struct cpu_list list = {.count = 2};
  while (!CPU_ISSET(list.cpus[0], &before)) list.cpus[0]++;
  while (list.cpus[1] < CPU_SETSIZE && CPU_ISSET(list.cpus[1], &before)) list.cpus[1]++;
  assert_true(list.cpus[1] < CPU_SETSIZE);
  struct kj_error error;
  char first[16], missing[32];
  snprintf(missing, sizeof missing, "CPU %u is not there", list.cpus[1]);
  snprintf(first, sizeof first, "it may use %u", list.cpus[0]);
  assert_int_equal(cpus_restrict(&list, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, missing));
  assert_non_null(strstr(error.message, first));
  sched_getaffinity(0, sizeof now, &now);
  assert_true(CPU_EQUAL(&before, &now));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read_in_their_order),
      cmocka_unit_test(what_is_no_list_is_refused_with_its_text),
      cmocka_unit_test(a_cpu_that_is_listed_twice_is_refused),
      cmocka_unit_test(a_thread_is_kept_to_its_list),
      cmocka_unit_test(a_cpu_that_is_not_there_is_refused_with_those_that_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
