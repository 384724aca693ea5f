/* Which kernel tables are offered, and what happens to a wish for one that is not. */
#include "unit/compute/support.h"

static const struct cpu_kernels *table_named(const char *name) {
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  const size_t count = cpu_kernels_available(tables);
  for (size_t i = 0; i < count; i++)
    if (strcmp(tables[i]->name, name) == 0) return tables[i];
  return NULL;
}

static void reference_is_first_and_auto_is_the_fastest(void **state) {
  (void)state;
  const struct cpu_kernels *tables[CPU_KERNELS_MAX], *chosen;
  const size_t count = cpu_kernels_available(tables);
  assert_in_range(count, 1, CPU_KERNELS_MAX);
  assert_string_equal(tables[0]->name, "reference");
  assert_int_equal(cpu_kernels_choose(&chosen, "auto", NULL), 0);
  assert_ptr_equal(chosen, tables[count - 1]);
}

static void a_table_is_given_or_refused_by_name(void **state) {
  (void)state;
  const char *names[] = {"reference", "avx2", "avxvnni", "avx512", "neon", "neon-i8mm", "mmx", ""};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const struct cpu_kernels *chosen, *offered = table_named(names[i]);
    struct kj_error error = {0};
    const int code = cpu_kernels_choose(&chosen, names[i], &error);
    assert_ptr_equal(chosen, offered);
    assert_int_equal(code, offered ? KJ_OK : KJ_UNSUPPORTED);
    if (offered) continue;
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\"", names[i]);
    assert_non_null(strstr(error.message, quoted));
    assert_non_null(strstr(error.message, "reference"));
  }
  assert_null(table_named("mmx"));
#if defined(__x86_64__)
  assert_null(table_named("neon"));
  assert_null(table_named("neon-i8mm"));
#else
  assert_null(table_named("avx2"));
  assert_null(table_named("avxvnni"));
  assert_null(table_named("avx512"));
#endif
}

static void an_engine_with_missing_kernels_is_refused(void **state) {
  (void)state;
  const char *names[] = {"avx2", "avxvnni", "avx512", "neon", "neon-i8mm"};
  struct threads *threads;
  size_t refused = 0;
  assert_int_equal(threads_create(&threads, 1, NULL), 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct backend *backend;
    struct kj_error error = {0};
    if (table_named(names[i])) continue;
    assert_int_equal(backend_cpu_create(&backend, names[i], threads, 8, 64, &error), KJ_UNSUPPORTED);
    assert_null(backend);
    assert_non_null(strstr(error.message, names[i]));
    refused++;
  }
  assert_in_range(refused, 1, sizeof names / sizeof *names); /* no machine has all of them */
  threads_destroy(threads);
}

/* The tables, joined by commas, are those that tests/CMakeLists.txt expects of a CPU that it has emulated. */
static void tables_are_those_of_the_expected_cpu(void **state) {
  (void)state;
  const char *expected = getenv("KAIJU_EXPECTED_KERNELS");
  if (!expected) skip();
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  const size_t count = cpu_kernels_available(tables);
  char names[200] = "";
  for (size_t i = 0; i < count; i++) {
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, "%s%s", i ? "," : "", tables[i]->name);
  }
  assert_string_equal(names, expected);
}

#if defined(__x86_64__)
static bool cpuinfo_has(const char *flag) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  assert_non_null(file);
  char line[8192], spaced[40];
  bool found = false;
  snprintf(spaced, sizeof spaced, " %s ", flag);
  while (!found && fgets(line, sizeof line, file)) {
    if (strncmp(line, "flags", 5) != 0) continue;
    line[strcspn(line, "\n")] = ' ';
    found = strstr(line, spaced) != NULL;
  }
  fclose(file);
  return found;
}

/* The kernel lists what it saves registers for. It knows nothing of an emulated CPU. */
static void tables_are_those_that_the_kernel_lists(void **state) {
  (void)state;
  if (getenv("KAIJU_EXPECTED_KERNELS")) skip();
  const bool avx2 = cpuinfo_has("avx2") && cpuinfo_has("fma") && cpuinfo_has("f16c");
  const bool avx512 = cpuinfo_has("avx512f") && cpuinfo_has("avx512bw") && cpuinfo_has("avx512vl") &&
                      cpuinfo_has("avx512dq") && cpuinfo_has("avx512_vnni");
  assert_int_equal(table_named("avx2") != NULL, avx2);
  assert_int_equal(table_named("avxvnni") != NULL, avx2 && cpuinfo_has("avx_vnni"));
  assert_int_equal(table_named("avx512") != NULL, avx2 && avx512);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reference_is_first_and_auto_is_the_fastest),
    cmocka_unit_test(a_table_is_given_or_refused_by_name),
    cmocka_unit_test(an_engine_with_missing_kernels_is_refused),
    cmocka_unit_test(tables_are_those_of_the_expected_cpu),
#if defined(__x86_64__)
    cmocka_unit_test(tables_are_those_that_the_kernel_lists),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
