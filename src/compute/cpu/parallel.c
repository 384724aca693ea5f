#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "compute/cpu/engine.h"

enum { WORTH_WAKING = 16384 };

struct loop {
  struct share *shares;
  size_t workers;
  parallel_body *body;
  void *context;
};

/* A worker does its own share in order, so that it walks over memory in order, and then helps with the others'. */
static void worker(void *context, size_t slot) {
  struct loop *loop = context;
  for (size_t i = 0; i < loop->workers; i++) {
    struct share *share = &loop->shares[(slot + i) % loop->workers];
    for (;;) {
      size_t item = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
      if (item >= share->end) break;
      loop->body(loop->context, item, slot);
    }
  }
}

void parallel(struct cpu_backend *backend, size_t items, uint64_t work, parallel_body *body, void *context) {
  if (items <= 1 || backend->thread_count == 1 || work < WORTH_WAKING) {
    for (size_t item = 0; item < items; item++) body(context, item, 0);
    return;
  }
  size_t workers = items < backend->thread_count ? items : backend->thread_count;
  struct loop loop = {backend->shares, workers, body, context};
  for (size_t i = 0; i < workers; i++) {
    atomic_store_explicit(&loop.shares[i].next, i * items / workers, memory_order_relaxed);
    loop.shares[i].end = (i + 1) * items / workers;
  }
  threads_run(backend->threads, workers, worker, &loop);
}

size_t parallel_range(const struct cpu_backend *backend, size_t rows, size_t activations, size_t maximum) {
  const struct cpu_kernels *kernels = backend->kernels;
  size_t step = activations >= kernels->panel_activations ? kernels->panel_rows : RANGE_MINIMUM;
  if (step > maximum) step = RANGE_MINIMUM;
  size_t range = (rows / (4 * backend->thread_count) + step - 1) / step * step;
  size_t most = maximum / step * step;
  if (range > most) return most;
  return range < step ? step : range;
}

void *carve(struct carver *carver, uint64_t count, uint64_t size) {
  uint64_t bytes, end;
  if (!checked_multiply(count, size, &bytes) || !checked_add(bytes, CPU_ALIGNMENT - 1, &bytes) ||
      !checked_add(carver->used, bytes / CPU_ALIGNMENT * CPU_ALIGNMENT, &end)) {
    carver->overflow = true;
    return NULL;
  }
  void *piece = carver->memory ? carver->memory + carver->used : NULL;
  carver->used = end;
  return piece;
}

int allocate_aligned(void **memory, uint64_t bytes, const char *what, struct kj_error *error) {
  *memory = NULL;
  if (bytes > PTRDIFF_MAX - CPU_ALIGNMENT) return kj_fail_memory(error, what);
  size_t rounded = (size_t)(bytes + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
  *memory = aligned_alloc(CPU_ALIGNMENT, rounded > 0 ? rounded : CPU_ALIGNMENT);
  return *memory ? 0 : kj_fail_memory(error, what);
}
