/* Routing and the experts' feed-forward networks. */
#include "unit/compute/support.h"

enum { EXPERTS = 10, CHOSEN = 3, HIDDEN = 128, INNER = 96 };

struct experts {
  struct test_matrix owned[3][EXPERTS];
  struct matrix gate[EXPERTS], up[EXPERTS], down[EXPERTS];
};

/* With `mixed` the experts differ in their formats. */
static struct experts *experts_create(uint64_t seed, uint32_t bits, bool mixed) {
  struct experts *experts = calloc(1, sizeof *experts);
  assert_non_null(experts);
  for (uint32_t e = 0; e < EXPERTS; e++) {
    uint32_t gate_bits = mixed ? e % 3 * 4 : bits, up_bits = mixed ? (e + 1) % 3 * 4 : bits;
    experts->owned[0][e] = test_matrix_create(&seed, INNER, HIDDEN, gate_bits, 64, NUMBER_BF16);
    experts->owned[1][e] = test_matrix_create(&seed, INNER, HIDDEN, up_bits, 32, NUMBER_F16);
    experts->owned[2][e] = test_matrix_create(&seed, HIDDEN, INNER, mixed ? e % 2 * 8 : bits, 32, NUMBER_F32);
    experts->gate[e] = experts->owned[0][e].matrix;
    experts->up[e] = experts->owned[1][e].matrix;
    experts->down[e] = experts->owned[2][e].matrix;
  }
  return experts;
}

static void experts_free(struct experts *experts) {
  for (size_t i = 0; i < 3; i++)
    for (size_t e = 0; e < EXPERTS; e++) test_matrix_free(&experts->owned[i][e]);
  free(experts);
}

/* Routes `rows` rows of logits and runs x through the experts, `step` rows at a time. */
static float *run_ffn(const char *isa, size_t threads, const struct experts *experts, const float *logits,
                      const float *x, size_t rows, size_t step) {
  struct test_engine engine = test_engine_create(isa, threads, step, HIDDEN);
  struct routing *routing;
  struct kj_error error = {0};
  assert_int_equal(engine.operations->routing_create(engine.backend, step, EXPERTS, CHOSEN, &routing, &error), 0);
  struct tensor *logits_tensor = test_tensor(&engine, step, EXPERTS, NULL);
  struct tensor *in = test_tensor(&engine, step, HIDDEN, NULL), *out = test_tensor(&engine, step, HIDDEN, NULL);
  float *result = test_floats(rows * HIDDEN);
  for (size_t first = 0; first < rows; first += step) {
    size_t count = rows - first < step ? rows - first : step;
    engine.operations->upload(engine.backend, logits_tensor, 0, count, logits + first * EXPERTS);
    engine.operations->upload(engine.backend, in, 0, count, x + first * HIDDEN);
    engine.operations->route(engine.backend, routing, logits_tensor, count, true);
    engine.operations->expert_ffn(engine.backend, out, in, routing, experts->gate, experts->up, experts->down, count);
    engine.operations->finish(engine.backend);
    engine.operations->download(engine.backend, out, 0, count, result + first * HIDDEN);
  }
  engine.operations->tensor_destroy(engine.backend, logits_tensor);
  engine.operations->tensor_destroy(engine.backend, in);
  engine.operations->tensor_destroy(engine.backend, out);
  engine.operations->routing_destroy(engine.backend, routing);
  test_engine_destroy(&engine);
  return result;
}

/* One token in double precision, its experts found by sorting. */
static void exact_ffn(const struct experts *experts, const float *logits, const float *x, double *out) {
  bool taken[EXPERTS] = {false};
  uint32_t ids[CHOSEN];
  double total = 0;
  for (size_t rank = 0; rank < CHOSEN; rank++) {
    uint32_t best = EXPERTS;
    for (uint32_t e = 0; e < EXPERTS; e++)
      if (!taken[e] && (best == EXPERTS || logits[e] > logits[best])) best = e;
    taken[best] = true;
    ids[rank] = best;
    total += exp((double)logits[best]);
  }
  for (size_t i = 0; i < HIDDEN; i++) out[i] = 0;
  for (size_t rank = 0; rank < CHOSEN; rank++) {
    uint32_t e = ids[rank];
    double inner[INNER];
    for (size_t r = 0; r < INNER; r++) {
      double gate = 0, up = 0;
      for (size_t i = 0; i < HIDDEN; i++) {
        gate += weight_at(&experts->gate[e], r, i) * (double)x[i];
        up += weight_at(&experts->up[e], r, i) * (double)x[i];
      }
      inner[r] = gate / (1 + exp(-gate)) * up;
    }
    for (size_t i = 0; i < HIDDEN; i++) {
      double y = 0;
      for (size_t r = 0; r < INNER; r++) y += weight_at(&experts->down[e], i, r) * inner[r];
      out[i] += exp((double)logits[e]) / total * y;
    }
  }
}

static void random_input(uint64_t seed, size_t rows, float **logits, float **x) {
  *logits = test_floats(rows * EXPERTS);
  *x = test_floats(rows * HIDDEN);
  for (size_t i = 0; i < rows * EXPERTS; i++) (*logits)[i] = 2.0f * random_float(&seed);
  for (size_t i = 0; i < rows * HIDDEN; i++) (*x)[i] = 2.0f * random_float(&seed);
}

static void check_ffn(uint32_t bits, bool mixed, double allowed) {
  enum { ROWS = 40 };
  float *logits, *x;
  random_input(1, ROWS, &logits, &x);
  struct experts *experts = experts_create(2, bits, mixed);
  float *out = run_ffn("reference", 1, experts, logits, x, ROWS, ROWS);
  double error = 0, size = 0;
  for (size_t t = 0; t < ROWS; t++) {
    double exact[HIDDEN];
    exact_ffn(experts, logits + t * EXPERTS, x + t * HIDDEN, exact);
    for (size_t i = 0; i < HIDDEN; i++) {
      error += pow((double)out[t * HIDDEN + i] - exact[i], 2);
      size += pow(exact[i], 2);
    }
  }
  if (!(size > 0 && sqrt(error / size) < allowed)) fail_msg("relative error %g", sqrt(error / size));
  free(out);
  free(logits);
  free(x);
  experts_free(experts);
}

static void plain_experts_are_right(void **state) {
  (void)state;
  check_ffn(0, false, 1e-6);
}

static void quantized_experts_are_right_up_to_the_rounding_of_activations(void **state) {
  (void)state;
  check_ffn(4, false, 0.02);
  check_ffn(8, false, 0.02);
}

static void experts_of_different_formats_are_right(void **state) {
  (void)state;
  check_ffn(0, true, 0.02);
}

static void compare_steps(bool mixed, size_t rows, const size_t *steps, size_t step_count) {
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  size_t count = cpu_kernels_available(tables);
  assert_true(count >= 1);
  float *logits, *x;
  random_input(3, rows, &logits, &x);
  struct experts *experts = experts_create(4, 4, mixed);
  float *expected = run_ffn("reference", 1, experts, logits, x, rows, 1);
  for (size_t i = 0; i < count; i++) {
    for (size_t s = 0; s < step_count; s++) {
      float *out = run_ffn(tables[i]->name, 1 + s % 3, experts, logits, x, rows, steps[s]);
      assert_same_floats(out, expected, rows * HIDDEN, "%s, %zu rows at a time", tables[i]->name, steps[s]);
      free(out);
    }
  }
  free(expected);
  experts_free(experts);
  free(logits);
  free(x);
}

static void rows_and_threads_make_no_difference(void **state) {
  (void)state;
  const size_t steps[] = {1, 5, 60, 33, 1};
  compare_steps(false, 60, steps, 5);
  compare_steps(true, 60, steps, 5);
}

static void tiles_make_no_difference(void **state) {
  (void)state;
  enum { ROWS = 530 }; /* more than a tile */
  const size_t steps[] = {ROWS};
  compare_steps(true, ROWS, steps, 1);
}

/* Finds out which experts a row of logits chose, and their shares: expert e adds its share to column e. */
static void routed(const float *logits, bool renormalise, float out[32]) {
  struct test_engine engine = test_engine_create("reference", 1, 1, 32);
  float gate[32] = {1.0f}, down[EXPERTS][32] = {{0}}, x[32] = {40.0f};
  struct matrix gates[EXPERTS], downs[EXPERTS];
  for (size_t e = 0; e < EXPERTS; e++) {
    down[e][e] = 0.000625f; /* silu(40) · 40 is 1600 */
    gates[e] = (struct matrix){.rows = 1, .columns = 32, .type = NUMBER_F32, .data = gate};
    downs[e] = (struct matrix){.rows = 32, .columns = 1, .type = NUMBER_F32, .data = down[e]};
  }
  struct routing *routing;
  struct kj_error error = {0};
  assert_int_equal(engine.operations->routing_create(engine.backend, 1, EXPERTS, CHOSEN, &routing, &error), 0);
  struct tensor *in = test_tensor(&engine, 1, 32, x), *result = test_tensor(&engine, 1, 32, NULL);
  struct tensor *logits_tensor = test_tensor(&engine, 1, EXPERTS, logits);
  engine.operations->route(engine.backend, routing, logits_tensor, 1, renormalise);
  engine.operations->expert_ffn(engine.backend, result, in, routing, gates, gates, downs, 1);
  engine.operations->download(engine.backend, result, 0, 1, out);
  engine.operations->tensor_destroy(engine.backend, in);
  engine.operations->tensor_destroy(engine.backend, result);
  engine.operations->tensor_destroy(engine.backend, logits_tensor);
  engine.operations->routing_destroy(engine.backend, routing);
  test_engine_destroy(&engine);
}

static void equal_logits_go_to_the_lower_ids(void **state) {
  (void)state;
  float logits[EXPERTS] = {0, 1, 0, 1, 1, 0, 1, 1, 0, 0}, out[32];
  routed(logits, true, out);
  for (size_t e = 0; e < EXPERTS; e++) {
    double expected = e == 1 || e == 3 || e == 4 ? 1.0 / 3 : 0;
    assert_true(fabs((double)out[e] - expected) < 1e-6);
  }
}

static void shares_are_those_of_all_experts_unless_renormalised(void **state) {
  (void)state;
  float logits[EXPERTS] = {0, 3, 0, 0, 0, 2, 0, 0, 1, 0}, out[32];
  double total = 7 + exp(3) + exp(2) + exp(1);
  routed(logits, false, out);
  assert_true(fabs((double)out[1] - exp(3) / total) < 1e-6);
  assert_true(fabs((double)out[5] - exp(2) / total) < 1e-6);
  assert_true(fabs((double)out[8] - exp(1) / total) < 1e-6);
  routed(logits, true, out);
  assert_true(fabs((double)out[1] + (double)out[5] + (double)out[8] - 1) < 1e-6);
}

static void logits_that_are_not_numbers_choose_something_and_stay_visible(void **state) {
  (void)state;
  float logits[EXPERTS], out[32];
  for (size_t e = 0; e < EXPERTS; e++) logits[e] = NAN;
  routed(logits, true, out);
  assert_true(isnan(out[0]));
  logits[4] = INFINITY;
  routed(logits, true, out);
  assert_true(isnan(out[4]));
  for (size_t e = 0; e < EXPERTS; e++) logits[e] = -INFINITY;
  routed(logits, true, out);
  assert_true(isnan(out[0]));
}

static void impossible_routings_are_refused(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, 4, 32);
  struct routing *routing;
  struct kj_error error = {0};
  assert_int_equal(engine.operations->routing_create(engine.backend, 4, 8, 9, &routing, &error), KJ_INVALID);
  assert_int_equal(engine.operations->routing_create(engine.backend, 4, 8, 0, &routing, &error), KJ_INVALID);
  assert_int_equal(engine.operations->routing_create(engine.backend, SIZE_MAX / 2, 8, 4, &routing, &error), KJ_MEMORY);
  assert_null(routing);
  test_engine_destroy(&engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_experts_are_right),
      cmocka_unit_test(quantized_experts_are_right_up_to_the_rounding_of_activations),
      cmocka_unit_test(experts_of_different_formats_are_right),
      cmocka_unit_test(rows_and_threads_make_no_difference),
      cmocka_unit_test(tiles_make_no_difference),
      cmocka_unit_test(equal_logits_go_to_the_lower_ids),
      cmocka_unit_test(shares_are_those_of_all_experts_unless_renormalised),
      cmocka_unit_test(logits_that_are_not_numbers_choose_something_and_stay_visible),
      cmocka_unit_test(impossible_routings_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
