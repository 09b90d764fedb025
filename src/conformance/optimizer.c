/*
 * Optimizer steps, with clipping and its thresholds.
 *
 * The constants beta, 1 - beta and the bias corrections are computed in double and rounded once (ops.h), so each
 * contributes at most u relative.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

/* Operands of update_step. */
enum { PARAMETERS = 0, FIRST, SECOND, MEASURES, THRESHOLD, GRADIENT, LOSSES, NORMS, DECAYS };

/* The clipping of a gradient: its factor, with this relative error. */
typedef struct clipping {
    double factor, relative;
} clipping;

static void adam(icl_truth *truth, const icl_adam_params *p, const clipping *s, size_t i) {
    const double u = truth->unit, g = s->factor * truth->operand[GRADIENT][i];
    const double parameter = truth->operand[PARAMETERS][i], correction1 = 1 - pow(p->beta1, (double)p->step),
                 correction2 = 1 - pow(p->beta2, (double)p->step);
    const double kept = p->beta1 * truth->operand[FIRST][i], fresh = (1 - p->beta1) * g;
    const double fresh_square = (1 - p->beta2) * g * g;
    const double m = kept + fresh;
    const double v = p->beta2 * truth->operand[SECOND][i] + fresh_square;
    const double denominator = sqrt(v / correction2) + p->epsilon;
    const double update = p->learning_rate * (m / correction1) / denominator;
    const bool decays = !truth->operand[DECAYS] || truth->operand[DECAYS][i] != 0;
    const double decayed = decays ? parameter * (1 - p->learning_rate * p->weight_decay) : parameter;

    /* m has a rounded constant, a product and the sum: 3 roundings for each term. v has one more for g * g, and all of
     * its terms are positive. The gradient's own error counts once in m and twice in v. */
    const double m_bound = icl_gamma(3, u) * (fabs(kept) + fabs(fresh)) + 1.01 * s->relative * fabs(fresh);
    const double v_bound = icl_gamma(5, u) * v + 2.02 * s->relative * fresh_square;
    /* The update has m's error; in the denominator half of v's relative error plus the division by the correction (5u +
     * u) and sqrt (6u), epsilon and the sum (2u); and two divisions (10u), the correction (u), the rate and its product
     * (2u). */
    const double update_bound = p->learning_rate * m_bound / correction1 / denominator * 1.01 +
                                (icl_gamma(2.5 + 6 + 6 + 2 + 10 + 1 + 2, u) + 1.01 * s->relative) * fabs(update);
    truth->operand[FIRST][i] = m;
    truth->bound[FIRST][i] = m_bound;
    truth->operand[SECOND][i] = v;
    truth->bound[SECOND][i] = v_bound;
    truth->operand[PARAMETERS][i] = decayed - update;
    truth->bound[PARAMETERS][i] =
        update_bound + icl_gamma(4, u) * fabs(decayed) + icl_gamma(1, u) * fabs(decayed - update);
}

static void sgd(icl_truth *truth, const icl_sgd_params *p, const clipping *s, size_t i) {
    const double u = truth->unit, g = s->factor * truth->operand[GRADIENT][i];
    const double parameter = truth->operand[PARAMETERS][i], kept = p->momentum * truth->operand[FIRST][i];
    const double velocity = kept + g;
    const double velocity_bound = icl_gamma(3, u) * (fabs(kept) + fabs(g)) + 1.01 * s->relative * fabs(g);
    const double update = p->learning_rate * velocity;

    truth->operand[FIRST][i] = velocity;
    truth->bound[FIRST][i] = velocity_bound;
    truth->operand[PARAMETERS][i] = parameter - update;
    truth->bound[PARAMETERS][i] = 1.01 * p->learning_rate * velocity_bound + icl_gamma(2, u) * fabs(update) +
                                  icl_gamma(1, u) * fabs(parameter - update);
}

/*
 * Updates a threshold, sets its bound and returns how many norms are not finite. A later threshold: share_of_one = 1 /
 * (fraction B) is rounded once and the product once (2u r, r <= 6), the difference, the rate and its product once each:
 * the exponent is off by less than 0.1 (12 + 5 + 2 * 5) u = 2.7 u. exp is off by 3 ulp (6u), the last product rounds
 * once. The first one: each term passes the division (2.5 ulp), its product, ceil(B / 64) + 6 additions, and the last
 * product with the rounded factor, and all terms are positive.
 */
static size_t track(const icl_truth *truth, double fraction, int norms, double *threshold, double *bound) {
    const size_t count = icl_case_count(truth->c, norms);
    double sum = 0;
    size_t finite = 0, above = 0;

    for (size_t i = 0; i < count; i++) {
        const double norm = truth->operand[norms][i];
        if (!isfinite(norm))
            continue;
        finite++;
        above += norm > *threshold;
        sum += norm * 0x1p-40; /* far from overflow */
    }
    *bound = 0;
    if (*threshold > 0) {
        const double excess = (double)above / (fraction * (double)count) - 1;
        *threshold *= exp(ICL_THRESHOLD_RATE * fmin(excess, ICL_THRESHOLD_LEAP));
        *bound = icl_gamma(10, truth->unit) * *threshold;
    } else if (finite > 0) {
        *threshold = ICL_THRESHOLD_FIRST * (sum / (double)finite) * 0x1p40;
        *bound = icl_gamma(ceil((double)count / 64) + 13, truth->unit) * *threshold;
    }
    return count - finite;
}

static icl_status truth_track_threshold(icl_truth *truth, icl_error *error) {
    const double fraction = truth->c->params.threshold.fraction;
    (void)error;
    truth->operand[1][0] = (double)track(truth, fraction, 2, truth->operand[0], &truth->bound[0][0]);
    truth->bound[1][0] = 0;
    return ICL_OK;
}

/* ---- The end of a training step ---- */

/*
 * Computes the loss and the norm. The loss has ceil(B / 64) + 6 additions, the rounded 1 / B and its product. The norm
 * has a square (scaling by 2^-32 is exact) and ceil(N / 64) + 6 additions, halved by the root, which is off by 3 ulp
 * (6u); sums of blocks have fewer. Squares that underflow are below a float's 2^-126, so elements below 2^-31 may be
 * lost.
 */
static double measure(icl_truth *truth) {
    const size_t size = icl_case_count(truth->c, GRADIENT), batch = icl_case_count(truth->c, LOSSES);
    const bool is_double = truth->unit < 0x1p-30;
    double loss = 0, size_of_loss = 0, squares = 0;

    for (size_t i = 0; i < batch; i++) {
        loss += truth->operand[LOSSES][i];
        size_of_loss += fabs(truth->operand[LOSSES][i]);
    }
    for (size_t i = 0; i < size; i++)
        squares += truth->operand[GRADIENT][i] * truth->operand[GRADIENT][i];
    truth->operand[MEASURES][0] = loss / (double)batch;
    truth->bound[MEASURES][0] = icl_gamma(ceil((double)batch / 64) + 8, truth->unit) * size_of_loss / (double)batch;
    truth->operand[MEASURES][1] = sqrt(squares);
    truth->bound[MEASURES][1] = icl_gamma((ceil((double)size / 64) + 7) / 2 + 6, truth->unit) * sqrt(squares) +
                                (is_double ? 0 : sqrt((double)size) * 0x1p-31);
    return sqrt(squares);
}

static icl_status truth_update_step(icl_truth *truth, icl_error *error) {
    const icl_update_params *p = &truth->c->params.update;
    const double limit = icl_device_rounded(truth, p->clip), norm = measure(truth);
    const bool is_clipped = limit > 0 && norm > limit, is_adam = p->kind == ICL_UPDATE_ADAM;
    const bool follows = truth->c->rank[NORMS] >= 0;
    /* A clipped gradient has the norm's error, the division's 2.5 ulp, the rounded limit, and the product. A norm
     * within its error of the limit may be clipped or not, by a factor that is as near to 1. */
    const double norm_error = norm > 0 ? truth->bound[MEASURES][1] / norm : 0;
    const bool may_be_clipped = limit > 0 && norm * (1 + norm_error) >= limit;
    const clipping s = {is_clipped ? limit / norm : 1,
                        may_be_clipped ? 1.01 * norm_error + icl_gamma(7, truth->unit) : 0};

    (void)error;
    truth->operand[MEASURES][2] = 0;
    truth->bound[MEASURES][2] = 0;
    if (follows)
        truth->operand[MEASURES][2] =
            (double)track(truth, p->fraction, NORMS, truth->operand[THRESHOLD], &truth->bound[THRESHOLD][0]);
    for (size_t i = 0; i < icl_case_count(truth->c, PARAMETERS); i++) {
        truth->bound[PARAMETERS][i] = truth->bound[FIRST][i] = 0;
        if (is_adam)
            truth->bound[SECOND][i] = 0;
        if (isfinite(norm) && is_adam)
            adam(truth, &p->adam, &s, i);
        else if (isfinite(norm))
            sgd(truth, &p->sgd, &s, i);
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* Adds thresholds that are followed, thresholds without a value yet, and norms that include infinite ones or NaN. */
static void threshold_cases(icl_case_list *list) {
    static const size_t counts[] = {1, 7, 64, 65, 2048};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_LARGE};
    static const double fractions[] = {0.01, 0.5, 1};
    for (int first = 0; first < 2; first++)
        for (size_t s = 0; s < sizeof counts / sizeof *counts; s++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                icl_case c = {
                    .op = ICL_OP_track_threshold, .params = {.threshold = {fractions[v], first}}, .values = values[v]};
                icl_case_set_shape(&c, 0, 1, 1, 0, 0, 0);
                icl_case_set_shape(&c, 1, 1, 1, 0, 0, 0);
                icl_case_set_shape(&c, 2, 1, counts[s], 0, 0, 0);
                icl_cases_add(list, c, first ? "first threshold" : "threshold");
            }
}

/* Adds ends of training steps: {N, B}, with and without threshold; clipped, just at the limit and free; gradients that
 * forbid a step; first and late steps, with and without weight decay; velocities that keep nothing. */
static void update_cases(icl_case_list *list) {
    static const size_t sizes[][2] = {{1, 1}, {65, 64}, {257, 130}, {4099, 2048}, {257, 70}, {1000, 7}, {8197, 3}};
    static const double clips[] = {0, 0.25, 1e9};
    for (int kind = 0; kind < ICL_UPDATE_COUNT; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int variant = 0; variant < (kind == ICL_UPDATE_ADAM ? 4 : 2); variant++) {
                const bool follows = variant % 2 != 0, is_masked = variant / 2 != 0;
                const size_t n = sizes[s][0], batch = sizes[s][1];
                const uint64_t step = s == 1 ? 1 : s == 2 ? 100000 : 3;
                icl_case c = {.op = ICL_OP_update_step,
                              .params = {.update = {.kind = (icl_update_kind)kind,
                                                    .adam = {1e-2, 0.9, 0.99, 1e-8, s == 5 ? 0 : 0.1, step},
                                                    .sgd = {0.02, s == 5 ? 0 : 0.9},
                                                    .clip = clips[(s + (size_t)follows) % 3],
                                                    .fraction = 0.25}},
                              .values = s == 4   ? ICL_VALUES_SPECIAL
                                        : s == 5 ? ICL_VALUES_SMALL
                                                 : ICL_VALUES_RANDOM};
                const size_t extents[9] = {n, n, n, 3, 1, n, batch, batch, n};
                const bool absent[9] = {[2] = kind == ICL_UPDATE_SGD, [4] = !follows, [7] = !follows, [8] = !is_masked};
                for (int i = 0; i < 9; i++)
                    icl_case_set_shape(&c, i, absent[i] ? -1 : 1, extents[i], 0, 0, 0);
                icl_cases_add(list, c, kind == ICL_UPDATE_SGD ? "update sgd" : "update adam");
            }
}

/* ---- Values: second moments, thresholds, losses and norms are not negative, a threshold is a number ---- */

static float threshold_value(const icl_case *c, int operand) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    const icl_values kind = c->values == ICL_VALUES_SPECIAL ? ICL_VALUES_RANDOM : c->values;
    return fabsf(icl_case_value(kind, icl_random_word(key, 0), 0, 0));
}

static void threshold_inputs(const icl_case *c, int operand, float *const *operands) {
    if (operand == 0)
        *operands[0] = c->params.threshold.is_first ? 0.0F : threshold_value(c, 0);
    else
        icl_case_values(c, operand, true, operands[operand]);
}

/* Writes 0, of both signs, and numbers that are not 0, among them the smallest and NaN. */
static void decay_values(const icl_case *c, float *values) {
    static const float of[] = {0.0F, 1.0F, -0.0F, FLT_MIN, NAN, -2.5F, 0.0F, 1.0F};
    const icl_random_key key = {.seed = c->seed, .stream = DECAYS};

    for (size_t i = 0; i < icl_case_count(c, DECAYS); i++)
        values[i] = of[icl_random_word(key, i) >> 29];
}

static void update_inputs(const icl_case *c, int operand, float *const *operands) {
    if (operand == THRESHOLD)
        *operands[operand] = threshold_value(c, operand);
    else if (operand == DECAYS)
        decay_values(c, operands[operand]);
    else
        icl_case_values(c, operand, operand == SECOND || operand == LOSSES || operand == NORMS, operands[operand]);
}

static bool is_threshold_updated(const icl_case *c, int output) {
    (void)c;
    return output == 0;
}

static bool is_state_updated(const icl_case *c, int output) {
    (void)c;
    return output != MEASURES;
}

/* ---- Calls and benchmarks ---- */

ICL_CASE_CALL(track_threshold, icl_track_threshold(on, c->params.threshold.fraction, t[0], t[1], t[2], error))
ICL_CASE_CALL(update_step,
              icl_update_step(on, &c->params.update, t[0], &t[1], t[3], t[4], t[5], t[6], t[7], t[8], error))

/* Counts 14 for each parameter with Adam, 4 with SGD; 2 more for the norm, and 1 for each loss. */
static double update_flops(const icl_case *c) {
    return (c->params.update.kind == ICL_UPDATE_ADAM ? 16 : 6) * (double)icl_case_count(c, 0) +
           (double)icl_case_count(c, LOSSES);
}

static icl_status fill_threshold(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    (void)c;
    ICL_CHECK(icl_fill(backend, t[0], 1, error));
    return icl_unary(backend, ICL_ABSOLUTE, t[2], t[2], error);
}

static icl_status fill_update(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    return c->rank[SECOND] < 0 ? ICL_OK : icl_fill(backend, t[SECOND], 1, error);
}

#define MODEL    ICL_AXIS(3528)
#define LARGE    ICL_AXIS(ICL_MILLIONS / 4)
#define OF_BATCH ICL_AXIS(ICL_BATCH)

static const icl_timed_shape threshold_timed[] = {
    {"track_threshold (2048)", {.threshold = {0.1, 0}}, {ICL_AXIS(1), ICL_AXIS(1), OF_BATCH}},
};
static const icl_timed_shape update_timed[] = {
    {"update_step adam (3528, 2048)",
     {.update = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0, 1}, .clip = 1, .fraction = 0.01}},
     {MODEL, MODEL, MODEL, ICL_AXIS(3), ICL_AXIS(1), MODEL, OF_BATCH, OF_BATCH, ICL_ABSENT}},
    {"update_step adam (1Mi, 2048)",
     {.update = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0, 1}}},
     {LARGE, LARGE, LARGE, ICL_AXIS(3), ICL_ABSENT, LARGE, OF_BATCH, ICL_ABSENT, ICL_ABSENT}},
    {"update_step sgd (1Mi, 2048)",
     {.update = {.kind = ICL_UPDATE_SGD, .sgd = {1e-3, 0.9}}},
     {LARGE, LARGE, ICL_ABSENT, ICL_AXIS(3), ICL_ABSENT, LARGE, OF_BATCH, ICL_ABSENT, ICL_ABSENT}},
};

const icl_described_op icl_described_track_threshold = ICL_DESCRIBED(
    threshold_timed, .call = call_track_threshold, .truth = truth_track_threshold, .cases = threshold_cases,
    .inputs = threshold_inputs, .is_updated = is_threshold_updated, .fill = fill_threshold);
const icl_described_op icl_described_update_step =
    ICL_DESCRIBED(update_timed, .call = call_update_step, .truth = truth_update_step, .cases = update_cases,
                  .inputs = update_inputs, .is_updated = is_state_updated, .flops = update_flops, .fill = fill_update);
