#include "base/huge_pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uintptr_t HUGE_PAGE = (uintptr_t)2 << 20;
/* Moved at a time: it is in memory twice until it has been moved. Each piece costs one of the process's mappings. */
static const uintptr_t PIECE = (uintptr_t)256 << 20;

struct copying {
  unsigned char *to;
  const unsigned char *from;
};

static void copy_page(void *context, size_t page) {
  const struct copying *copying = context;
  memcpy(copying->to + page * HUGE_PAGE, copying->from + page * HUGE_PAGE, HUGE_PAGE);
}

/* begin and bytes are multiples of HUGE_PAGE. */
static int move_piece(uintptr_t begin, size_t bytes, struct threads *threads, struct kj_error *error) {
  unsigned char *memory =
      mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kj_fail_memory(error, "weights in huge pages");
  unsigned char *aligned = memory + (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
  /* A refusal leaves small pages. */
  (void)madvise(aligned, bytes, MADV_HUGEPAGE);
  struct copying copying = {aligned, (const unsigned char *)begin};
  threads_run(threads, bytes / HUGE_PAGE, copy_page, &copying);
  int code = 0;
  if (mprotect(aligned, bytes, PROT_READ) != 0 ||
      mremap(aligned, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)begin) == MAP_FAILED) {
    code = kj_fail(error, KJ_MEMORY, "cannot move weights to huge pages: %s", strerror(errno));
    munmap(aligned, bytes);
  }
  /* What was in excess for the alignment. */
  if (aligned > memory) munmap(memory, (size_t)(aligned - memory));
  munmap(aligned + bytes, HUGE_PAGE - (size_t)(aligned - memory));
  return code;
}

/* Takes the next run of ranges that touch, from *next on, and sets [*begin, *end) to its whole huge pages, which may be
 * none. False at the end. */
static bool next_run(const struct memory_range *ranges, size_t count, size_t *next, uintptr_t *begin, uintptr_t *end) {
  if (*next == count) return false;
  *begin = *end = (uintptr_t)ranges[*next].begin;
  for (; *next < count && (uintptr_t)ranges[*next].begin == *end; ++*next) *end += ranges[*next].bytes;
  *begin = (*begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  *end = *end / HUGE_PAGE * HUGE_PAGE;
  return true;
}

static int by_begin(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const struct memory_range *)a)->begin;
  const uintptr_t y = (uintptr_t)((const struct memory_range *)b)->begin;
  return (x > y) - (x < y);
}

int huge_pages_move(struct memory_range *ranges, size_t count, struct threads *threads, struct kj_error *error) {
  if (count > 1) qsort(ranges, count, sizeof *ranges, by_begin);
  int code = 0;
  uintptr_t begin, end;
  for (size_t next = 0; !code && next_run(ranges, count, &next, &begin, &end);)
    for (; begin < end && !code; begin += PIECE)
      code = move_piece(begin, end - begin < PIECE ? end - begin : PIECE, threads, error);
  return code;
}

int huge_pages_give_back(struct memory_range *ranges, size_t count, huge_pages_map_again *map_again, void *context,
                         struct kj_error *error) {
  if (count > 1) qsort(ranges, count, sizeof *ranges, by_begin);
  int code = 0;
  uintptr_t begin, end;
  for (size_t next = 0; !code && next_run(ranges, count, &next, &begin, &end);)
    if (begin < end) code = map_again(context, (void *)begin, end - begin, error);
  return code;
}
