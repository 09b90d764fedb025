/* What ends a training step: the threshold, and clipping and optimizers as one op. */
#include "conformance/cases.h"

#include <float.h>
#include <math.h>

#include "iclab/status.h"

/* A threshold that is followed, one that has no value yet, and norms of which some are infinite or NaN. */
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

/* Ends of training steps: {N, B}, with and without threshold, clipped, just as large and free; gradients that forbid a
 * step; first and late steps, with and without decay of weights, velocities that keep nothing. */
static void update_cases(icl_case_list *list) {
    static const size_t sizes[][2] = {{1, 1}, {65, 64}, {257, 130}, {4099, 2048}, {257, 70}, {1000, 7}};
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

/* The operands of update_step that are not negative, beside the threshold; what it measures is written alone. */
enum { SECOND = 2, MEASURES = 3, THRESHOLD = 4, LOSSES = 6, NORMS = 7, DECAYS = 8 };

/* 0, of both signs, and numbers that are not 0: the smallest, NaN. */
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

/* Of Adam 14 a parameter, of SGD 4; 2 more for the norm, and 1 a loss. */
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
    threshold_timed, .call = call_track_threshold, .truth = icl_truth_track_threshold, .cases = threshold_cases,
    .inputs = threshold_inputs, .is_updated = is_threshold_updated, .fill = fill_threshold);
const icl_described_op icl_described_update_step =
    ICL_DESCRIBED(update_timed, .call = call_update_step, .truth = icl_truth_update_step, .cases = update_cases,
                  .inputs = update_inputs, .is_updated = is_state_updated, .flops = update_flops, .fill = fill_update);
