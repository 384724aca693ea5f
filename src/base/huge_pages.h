/* Moving what is read of a mapped file into private huge pages.
 *
 * A walk over gigabytes of a file's mapping takes a page table walk for every small page of the page cache; over
 * private huge pages it comes closer to the memory's bandwidth. The price is the copying, and that nothing of it is
 * left for the next start. Pages that are populated already (MADV_POPULATE_READ) are copied without a fault for each.
 */
#ifndef KAIJU_BASE_HUGE_PAGES_H
#define KAIJU_BASE_HUGE_PAGES_H

#include <stddef.h>

#include "base/error.h"
#include "base/threads.h"

struct memory_range {
  const void *begin;
  size_t bytes;
};

/* Replaces the pages under the ranges, which are of private mappings of files and may touch but not overlap, by private
 * memory with the same contents at the same addresses, in huge pages where the system gives them. Ranges that touch
 * count as one; what of them does not fill a whole huge page stays as it is. Sorts the ranges. KJ_MEMORY if there is no
 * memory: what has been moved until then stays valid, as all the rest does. */
int huge_pages_move(struct memory_range *ranges, size_t count, struct threads *threads, struct kj_error *error);

/* The way back: calls map_again for all that huge_pages_move has moved of the same ranges, run by run, which is to map
 * the file there again. Ends with the first error. Sorts the ranges. */
typedef int huge_pages_map_again(void *context, void *begin, size_t bytes, struct kj_error *error);
int huge_pages_give_back(struct memory_range *ranges, size_t count, huge_pages_map_again *map_again, void *context,
                         struct kj_error *error);

#endif
