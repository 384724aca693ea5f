#include "sched/cost.h"

#include <math.h>

enum { CHUNK_UNIT = 32 };

/* What an observation keeps of its weight when another comes: about the last hundred count. */
static const double KEPT = 0.99;
/* Before anything is known of the noise: its standard deviation, as a share of the mean, and how many observations that
 * stands for. */
static const double GUESSED_NOISE = 0.3, GUESS_WEIGHT = 4;
/* An observation counts as at most so many times what was expected, once so many have been seen. */
static const double MOST_SURPRISE = 3, SURPRISE_FROM = 8;
/* Fewer observations of decode decide nothing. */
static const double LEAST_WEIGHT = 4;

struct fit {
  double slope, slope_error; /* its standard error; infinite if x was always the same */
  double x, y;               /* means: the line goes through them */
};

static struct fit fit_line(const struct cost_line *line) {
  struct fit fit = {.slope_error = INFINITY, .x = line->x / line->weight, .y = line->y / line->weight};
  double xx = line->xx - line->x * fit.x, xy = line->xy - line->x * fit.y, yy = line->yy - line->y * fit.y;
  /* The difference of two sums that are equal but for rounding is no spread. */
  if (!(xx > 1e-9 * line->xx)) return fit;
  fit.slope = xy / xx;
  double residual = fmax(0, yy - fit.slope * xy), guess = GUESSED_NOISE * fit.y;
  double variance = (residual + GUESS_WEIGHT * guess * guess) / (fmax(0, line->weight - 2) + GUESS_WEIGHT);
  fit.slope_error = sqrt(variance / xx);
  return fit;
}

static void observe(struct cost_line *line, double x, double y) {
  /* Expected is what it was before, or in proportion to x: no line that starts above 0 rises faster. */
  if (line->weight >= SURPRISE_FROM)
    y = fmin(y, MOST_SURPRISE * line->y / line->weight * fmax(1, x * line->weight / line->x));
  line->weight = KEPT * line->weight + 1;
  line->x = KEPT * line->x + x;
  line->y = KEPT * line->y + y;
  line->xx = KEPT * line->xx + x * x;
  line->xy = KEPT * line->xy + x * y;
  line->yy = KEPT * line->yy + y * y;
}

void cost_observe(struct cost_model *model, const struct batch *batch, double seconds) {
  if (batch->tokens == 0 || !isfinite(seconds) || seconds <= 0) return;
  double context = 0;
  uint32_t longest = 0;
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const struct span *span = &batch->spans[i];
    context += span->tokens * (span->first_position + span->tokens / 2.0);
    if (span->tokens > longest) longest = span->tokens;
  }
  if (longest < COST_LARGE_SPAN) {
    observe(&model->decode, batch->tokens, seconds);
    return;
  }
  observe(&model->prefill, context / batch->tokens, seconds / batch->tokens);
}

double cost_row_share(const struct cost_model *model, uint32_t rows) {
  if (model->decode.weight < LEAST_WEIGHT) return 1;
  struct fit fit = fit_line(&model->decode);
  /* A drafted row must not look cheaper than it is. */
  double rate = fmax(0, fit.slope) + 2 * fit.slope_error;
  double step = fit.y - rate * fit.x;
  if (!(step > 0)) return 1;
  return rate * rows / (step + rate * rows);
}

uint32_t cost_chunk(const struct cost_model *model, uint32_t position, uint32_t most) {
  if (most <= KV_BLOCK || model->prefill.weight < 1) return most;
  struct fit fit = fit_line(&model->prefill);
  /* Chunks must not shrink for noise. */
  double slope = fit.slope - fit.slope_error;
  if (!(slope > 0)) return most;
  /* In units of w, the cost of a row without context. Where even less than nothing would remain of it, all of the cost
   * is the context's. */
  double base = fmax(fit.y - slope * fit.x, 1e-3 * fit.y), k = slope / base;
  double linear = 1 + k * position, target = most * (1 + k * most / 2.0);
  /* The root of k/2 · n² + linear · n - target, in the form that subtracts nothing. */
  double tokens = 2 * target / (linear + sqrt(linear * linear + 2 * k * target));
  if (tokens + 0.5 >= most) return most;
  uint32_t whole = (uint32_t)tokens / CHUNK_UNIT * CHUNK_UNIT;
  return whole < KV_BLOCK ? KV_BLOCK : whole;
}
