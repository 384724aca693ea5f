/* Memory of one template or one rendering: allocated piece by piece, released all at once.
 *
 * Pieces are zeroed and aligned for any type. The arena refuses to grow beyond its limit: the allocation then returns
 * NULL, as when memory runs out.
 */
#ifndef KAIJU_TEXT_JINJA_ARENA_H
#define KAIJU_TEXT_JINJA_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
  struct arena_block *blocks; /* the newest first; pieces are cut from it */
  size_t total;               /* bytes of all blocks */
  size_t limit;
};

void *arena_allocate(struct arena *arena, size_t count, size_t size);
void arena_free(struct arena *arena);

#endif
