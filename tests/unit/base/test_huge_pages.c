/* What is moved to huge pages keeps its contents and its addresses, and nothing else moves. */
#include "unit/unit.h"
/* unit.h must come first. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/huge_pages.h"

enum { HUGE = 2 << 20, PAGES = 7 };

struct file_mapping {
  unsigned char *bytes;
  size_t length;
};

static unsigned char content(size_t i) { return (unsigned char)(i * 31 + i / 4096); }

static struct file_mapping map_file(void) {
  struct file_mapping file = {.length = (size_t)PAGES * HUGE + 12345};
  FILE *stream = tmpfile();
  assert_non_null(stream);
  for (size_t i = 0; i < file.length; i++) putc(content(i), stream);
  assert_int_equal(fflush(stream), 0);
  file.bytes = mmap(NULL, file.length, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
  assert_ptr_not_equal(file.bytes, MAP_FAILED);
  fclose(stream);
  return file;
}

static void assert_content(const struct file_mapping *file) {
  for (size_t i = 0; i < file->length; i++)
    if (file->bytes[i] != content(i)) fail_msg("byte %zu is %u", i, file->bytes[i]);
}

/* Whether a file lies behind the address, by the inode in the process's list of mappings. */
static bool is_of_file(const void *address) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false, of_file = false;
  assert_non_null(maps);
  while (!found && fgets(line, sizeof line, maps)) {
    unsigned long begin, end, inode;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) != 3) continue;
    found = (uintptr_t)address >= begin && (uintptr_t)address < end;
    of_file = inode != 0;
  }
  fclose(maps);
  assert_true(found);
  return of_file;
}

static unsigned char *first_huge_page(const struct file_mapping *file) {
  return file->bytes + (HUGE - (uintptr_t)file->bytes % HUGE) % HUGE;
}

static void whole_pages_move_and_the_rest_stays(void **state) {
  (void)state;
  struct file_mapping file = map_file();
  struct threads *threads;
  struct kj_error error;
  assert_int_equal(threads_create(&threads, 3, &error), 0);
  unsigned char *page = first_huge_page(&file);
  /* Touching, out of order, ending within pages: together three whole ones. The last range has none. */
  struct memory_range ranges[] = {{page + HUGE + 1000, HUGE - 999},
                                  {page + 3 * HUGE, 7},
                                  {page, HUGE + 1000},
                                  {page + 2 * HUGE + 1, HUGE - 1},
                                  {page + 4 * HUGE + 1, HUGE - 2}};
  assert_int_equal(huge_pages_move(ranges, sizeof ranges / sizeof *ranges, threads, &error), 0);
  for (size_t i = 0; i < 3; i++) assert_false(is_of_file(page + i * HUGE));
  assert_true(is_of_file(page + 3 * HUGE));
  assert_true(is_of_file(page + 4 * HUGE));
  assert_content(&file);
  /* Again, and all of it. */
  struct memory_range whole = {file.bytes, file.length};
  assert_int_equal(huge_pages_move(&whole, 1, threads, &error), 0);
  assert_false(is_of_file(page + 4 * HUGE));
  assert_content(&file);
  threads_destroy(threads);
  munmap(file.bytes, file.length);
}

/* What is to be mapped again must be what was moved: maps the file there, or fails at the call that `fail_at` counts
 * down to. */
struct mapping_again {
  FILE *stream;
  const unsigned char *bytes;
  size_t calls, fail_at;
};

static int map_again(void *context, void *begin, size_t bytes, struct kj_error *error) {
  struct mapping_again *again = context;
  assert_int_equal((uintptr_t)begin % HUGE, 0);
  assert_true(bytes > 0 && bytes % HUGE == 0);
  if (++again->calls == again->fail_at) return kj_fail(error, KJ_IO, "the file has gone");
  const off_t offset = (const unsigned char *)begin - again->bytes;
  void *mapped = mmap(begin, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(again->stream), offset);
  assert_ptr_equal(mapped, begin);
  return 0;
}

static void what_was_moved_is_given_back(void **state) {
  (void)state;
  struct file_mapping file = map_file();
  struct threads *threads;
  struct kj_error error = {0};
  struct mapping_again again = {.stream = tmpfile(), .bytes = file.bytes};
  assert_non_null(again.stream);
  assert_int_equal(fwrite(file.bytes, 1, file.length, again.stream), file.length);
  assert_int_equal(fflush(again.stream), 0);
  assert_int_equal(threads_create(&threads, 2, &error), 0);
  unsigned char *page = first_huge_page(&file);
  /* Two runs; the third range has no whole page. */
  const struct memory_range moved[] = {
      {page + 4 * HUGE - 5, HUGE + 10}, {page + HUGE, HUGE}, {page, HUGE}, {page + 2 * HUGE + 1, HUGE}};
  struct memory_range ranges[4];
  for (int round = 0; round < 2; round++) {
    memcpy(ranges, moved, sizeof moved);
    assert_int_equal(huge_pages_move(ranges, 4, threads, &error), 0);
    assert_false(is_of_file(page) || is_of_file(page + HUGE) || is_of_file(page + 4 * HUGE));
    memcpy(ranges, moved, sizeof moved);
    again.calls = 0;
    again.fail_at = round == 0 ? 2 : 0;
    assert_int_equal(huge_pages_give_back(ranges, 4, map_again, &again, &error), round == 0 ? KJ_IO : 0);
    assert_int_equal(again.calls, 2);
    assert_true(is_of_file(page) && is_of_file(page + HUGE));
    assert_int_equal(is_of_file(page + 4 * HUGE), round == 1);
    assert_content(&file);
  }
  assert_int_equal(huge_pages_give_back(NULL, 0, map_again, &again, &error), 0);
  assert_int_equal(again.calls, 2);
  threads_destroy(threads);
  fclose(again.stream);
  munmap(file.bytes, file.length);
}

static void nothing_is_lost_without_memory(void **state) {
  (void)state;
  struct file_mapping file = map_file();
  struct threads *threads;
  struct kj_error error = {0};
  struct rlimit old, none;
  assert_int_equal(threads_create(&threads, 1, &error), 0);
  assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
  none = old;
  none.rlim_cur = 1 << 20;
  struct memory_range whole = {file.bytes, file.length};
  assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
  /* An emulator of user programs may not keep the limit; then there is memory. */
  void *probe = mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int code = huge_pages_move(&whole, 1, threads, &error);
  assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
  assert_int_equal(code, probe == MAP_FAILED ? KJ_MEMORY : 0);
  if (probe != MAP_FAILED) munmap(probe, 64 << 20);
  assert_true(code == 0 || error.message[0] != 0);
  assert_content(&file);
  assert_int_equal(huge_pages_move(NULL, 0, threads, &error), 0);
  threads_destroy(threads);
  munmap(file.bytes, file.length);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_pages_move_and_the_rest_stays),
      cmocka_unit_test(what_was_moved_is_given_back),
      cmocka_unit_test(nothing_is_lost_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
