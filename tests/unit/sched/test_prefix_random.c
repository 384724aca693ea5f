/* Sequences that come, go on and leave at random, against a slow model of the cache that looks at everything. */
#include "sched/prefix.h"

#include "unit/unit.h"

enum {
  COUNT = 24, /* blocks: few, so that paths meet and some are always given up */
  DEPTH = 6,
  SEQUENCES = 7,
  STEPS = 15000,
  NONE = -1
};

struct sequence {
  bool active, leaving;
  uint32_t tokens[DEPTH * KV_BLOCK];
  uint32_t count, computed;
  uint32_t blocks[DEPTH];
  bool has[DEPTH]; /* a reference on blocks[i] */
};

/* What is known of a block without asking the cache. */
struct shadow {
  bool held;
  int parent;
  uint32_t depth;
  long last_used;
  uint32_t content[DEPTH * KV_BLOCK]; /* the tokens whose keys and values lie in it, with all that they depend on */
};

struct world {
  struct block_allocator *blocks;
  struct prefix_cache *cache;
  struct sequence sequences[SEQUENCES];
  struct shadow shadows[COUNT];
  uint64_t random;
  long now;
  uint32_t found, given_up, duplicates, refused; /* how often it came to that */
};

static uint32_t below(struct world *world, uint32_t limit) {
  world->random = world->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(world->random >> 33) % limit;
}

static uint32_t outside_references(const struct world *world, uint32_t id) {
  uint32_t references = 0;
  for (uint32_t i = 0; i < SEQUENCES; i++)
    for (uint32_t j = 0; j < world->sequences[i].count; j++)
      references += world->sequences[i].has[j] && world->sequences[i].blocks[j] == id;
  return references;
}

static bool in_use(const struct world *world, uint32_t id) {
  if (outside_references(world, id) > 0) return true;
  for (uint32_t child = 0; child < COUNT; child++)
    if (world->shadows[child].held && world->shadows[child].parent == (int)id && in_use(world, child)) return true;
  return false;
}

/* Compares all that can be asked for, and notes what is in use. After every step. */
static void check(struct world *world) {
  uint32_t idle = 0, free_blocks = 0;
  world->now++;
  for (uint32_t id = 0; id < COUNT; id++) {
    struct shadow *shadow = &world->shadows[id];
    uint32_t references = outside_references(world, id) + shadow->held;
    assert_int_equal(blocks_references(world->blocks, id), references);
    free_blocks += references == 0;
    if (!shadow->held) continue;
    if (in_use(world, id))
      shadow->last_used = world->now;
    else
      idle++;
  }
  assert_int_equal(prefix_idle(world->cache), idle);
  assert_int_equal(blocks_free(world->blocks), free_blocks);
}

static size_t path_size(uint32_t depth) { return (size_t)(depth + 1) * KV_BLOCK * sizeof(uint32_t); }

static int find(const struct world *world, const struct sequence *sequence, uint32_t depth) {
  for (uint32_t id = 0; id < COUNT; id++) {
    const struct shadow *shadow = &world->shadows[id];
    if (shadow->held && shadow->depth == depth && (depth == 0 || shadow->parent == (int)sequence->blocks[depth - 1]) &&
        memcmp(shadow->content, sequence->tokens, path_size(depth)) == 0)
      return (int)id;
  }
  return NONE;
}

static void share(struct world *world, struct sequence *sequence, uint32_t first) {
  uint32_t blocks[DEPTH], own[DEPTH];
  bool has_own[DEPTH];
  memcpy(blocks, sequence->blocks, sizeof blocks);
  memcpy(own, sequence->blocks, sizeof own);
  memcpy(has_own, sequence->has, sizeof has_own);
  uint32_t found = prefix_share(world->cache, sequence->tokens, blocks, first, sequence->count);
  bool known = first == 0 || world->shadows[blocks[first - 1]].held;
  for (uint32_t i = first; i < sequence->count; i++) {
    int expected = known ? find(world, sequence, i) : NONE;
    if (expected == NONE) {
      assert_int_equal(found, i);
      break;
    }
    assert_true(found > i);
    assert_int_equal(blocks[i], expected);
    sequence->blocks[i] = blocks[i];
    sequence->has[i] = true;
    sequence->computed = i + 1;
    world->found++;
  }
  for (uint32_t i = first; i < found; i++)
    if (has_own[i]) prefix_release(world->cache, own[i]);
}

/* What the cache must give up: of the idle ones that which was used longest ago, the deepest among equals. */
static int victim(const struct world *world) {
  int best = NONE;
  for (uint32_t id = 0; id < COUNT; id++) {
    const struct shadow *shadow = &world->shadows[id], *other = &world->shadows[best == NONE ? 0 : best];
    if (!shadow->held || in_use(world, id)) continue;
    if (best == NONE || shadow->last_used < other->last_used ||
        (shadow->last_used == other->last_used && shadow->depth > other->depth))
      best = (int)id;
  }
  return best;
}

static bool take(struct world *world, struct sequence *sequence) {
  uint32_t count = sequence->count - sequence->computed, available = blocks_free(world->blocks);
  bool expected = count <= available + prefix_idle(world->cache);
  assert_int_equal(prefix_take(world->cache, count, sequence->blocks + sequence->computed), expected);
  if (!expected) {
    world->refused++;
    return false;
  }
  for (; available < count; available++) {
    int id = victim(world);
    assert_int_not_equal(id, NONE);
    for (uint32_t child = 0; child < COUNT; child++)
      assert_false(world->shadows[child].held && world->shadows[child].parent == id);
    world->shadows[id].held = false;
    world->given_up++;
  }
  for (uint32_t i = sequence->computed; i < sequence->count; i++) {
    assert_int_equal(outside_references(world, sequence->blocks[i]) + world->shadows[sequence->blocks[i]].held, 0);
    sequence->has[i] = true;
  }
  return true;
}

static void start(struct world *world, struct sequence *sequence) {
  memset(sequence, 0, sizeof *sequence);
  sequence->active = true;
  sequence->count = 1 + below(world, DEPTH);
  for (uint32_t i = 0; i < sequence->count; i++) {
    uint32_t variant = below(world, 3);
    if (variant > 0) sequence->tokens[i * KV_BLOCK + (variant == 1 ? 0 : KV_BLOCK - 1)] = 1;
  }
  share(world, sequence, 0);
  check(world);
  if (!take(world, sequence)) {
    sequence->count = sequence->computed;
    sequence->leaving = true;
  }
}

static void compute(struct world *world, struct sequence *sequence) {
  uint32_t index = sequence->computed;
  if (index == sequence->count) {
    sequence->leaving = true;
    return;
  }
  uint32_t own = sequence->blocks[index];
  struct shadow *shadow = &world->shadows[own];
  memcpy(shadow->content, sequence->tokens, path_size(index));
  prefix_keep(world->cache, sequence->tokens, sequence->blocks, index);
  sequence->computed++;
  if (!shadow->held && (index == 0 || world->shadows[sequence->blocks[index - 1]].held)) {
    int other = find(world, sequence, index);
    if (other != NONE) {
      world->duplicates++;
      assert_int_equal(sequence->blocks[index], other);
    } else {
      assert_int_equal(sequence->blocks[index], own);
      shadow->held = true;
      shadow->depth = index;
      shadow->parent = index > 0 ? (int)sequence->blocks[index - 1] : NONE;
    }
  } else {
    assert_int_equal(sequence->blocks[index], own);
  }
  assert_memory_equal(world->shadows[sequence->blocks[index]].content, sequence->tokens, path_size(index));
}

static void release_one(struct world *world, struct sequence *sequence) {
  uint32_t start_at = sequence->count > 0 ? below(world, sequence->count) : 0;
  for (uint32_t i = 0; i < sequence->count; i++) {
    uint32_t index = (start_at + i) % sequence->count;
    if (!sequence->has[index]) continue;
    prefix_release(world->cache, sequence->blocks[index]);
    sequence->has[index] = false;
    return;
  }
  sequence->active = false;
}

/* All sequences begin anew with the blocks that they have. */
static void clear(struct world *world) {
  prefix_clear(world->cache);
  for (uint32_t id = 0; id < COUNT; id++) world->shadows[id].held = false;
  for (uint32_t i = 0; i < SEQUENCES; i++) world->sequences[i].computed = 0;
}

static void step(struct world *world) {
  struct sequence *sequence = &world->sequences[below(world, SEQUENCES)];
  uint32_t choice = below(world, 1000);
  if (choice < 2)
    clear(world);
  else if (!sequence->active)
    start(world, sequence);
  else if (sequence->leaving)
    release_one(world, sequence);
  else if (choice < 20)
    sequence->leaving = true; /* cancelled */
  else if (choice < 200 && sequence->computed > 0)
    share(world, sequence, sequence->computed); /* others may have been ahead */
  else
    compute(world, sequence);
  check(world);
}

static void test_random_schedule_agrees_with_the_model(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= 3; seed++) {
    static struct world world;
    memset(&world, 0, sizeof world);
    world.random = seed;
    assert_int_equal(blocks_create(&world.blocks, COUNT, NULL), 0);
    assert_int_equal(prefix_create(&world.cache, world.blocks, NULL), 0);
    for (int i = 0; i < STEPS; i++) step(&world);
    assert_true(world.found > 500 && world.given_up > 500 && world.duplicates > 50 && world.refused > 50);
    for (uint32_t i = 0; i < SEQUENCES; i++)
      while (world.sequences[i].active) release_one(&world, &world.sequences[i]);
    check(&world);
    assert_int_equal(prefix_idle(world.cache) + blocks_free(world.blocks), COUNT);
    prefix_destroy(world.cache);
    assert_int_equal(blocks_free(world.blocks), COUNT);
    blocks_destroy(world.blocks);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_schedule_agrees_with_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
