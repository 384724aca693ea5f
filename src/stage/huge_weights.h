/* Weights in private huge pages instead of the page cache (base/huge_pages.h). */
#ifndef KAIJU_STAGE_HUGE_WEIGHTS_H
#define KAIJU_STAGE_HUGE_WEIGHTS_H

#include "base/threads.h"
#include "compute/matrix.h"
#include "model/checkpoint.h"

/* Moves the matrices, which are of a mapped checkpoint; they keep their addresses. The memory is given back by
 * weights_to_page_cache for the same matrices, or when the checkpoint is closed. */
int weights_to_huge_pages(const struct matrix *const *matrices, size_t count, struct threads *threads,
                          struct kj_error *error);
/* Has the checkpoint map its files there again. After an error some stay in huge pages; all stay valid. */
int weights_to_page_cache(const struct matrix *const *matrices, size_t count, struct checkpoint *checkpoint,
                          struct kj_error *error);

#endif
