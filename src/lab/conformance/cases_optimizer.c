/* Cases of what ends a training step: clipping, optimizers, the threshold, and all of it as one op. */
#include "lab/conformance/cases.h"

/* norm_rank 0: with a norm; -1: without. */
static void add_states(icl_case_list *list, icl_op op, icl_case_params params, int norm_rank,
                       const char *what) {
    static const size_t counts[] = {1, 7, 257, 1000, 4099};
    const int norm = icl_op_infos[op].outputs + icl_op_infos[op].inputs - 1;
    for (size_t s = 0; s < sizeof counts / sizeof *counts; s++) {
        icl_case c = {.op = op, .params = params, .values = s == 3 ? ICL_VALUES_SMALL : ICL_VALUES_RANDOM};
        for (int i = 0; i < norm; i++)
            icl_case_set_shape(&c, i, 1, counts[s], 0, 0, 0);
        icl_case_set_shape(&c, norm, norm_rank, 0, 0, 0, 0);
        icl_cases_add(list, c, what);
    }
}

/* Steps that an infinite norm or NaN forbids: nothing may change. */
static void add_forbidden(icl_case_list *list, icl_op op, icl_case_params params, const char *what) {
    const int norm = icl_op_infos[op].outputs + 1;
    icl_case c = {.op = op, .params = params, .values = ICL_VALUES_SPECIAL};
    for (int i = 0; i < norm; i++)
        icl_case_set_shape(&c, i, 1, 257, 0, 0, 0);
    icl_case_set_shape(&c, norm, 0, 0, 0, 0, 0);
    icl_cases_add(list, c, what);
}

/* A threshold that is followed, one that has no value yet, and norms of which some are infinite or NaN. */
static void threshold_cases(icl_case_list *list) {
    static const size_t counts[] = {1, 7, 64, 65, 2048};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_LARGE};
    static const double fractions[] = {0.01, 0.5, 1};
    for (int first = 0; first < 2; first++)
        for (size_t s = 0; s < sizeof counts / sizeof *counts; s++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                icl_case c = {.op = ICL_OP_track_threshold,
                              .params = {.threshold = {fractions[v], first}},
                              .values = values[v]};
                icl_case_set_shape(&c, 0, 1, 1, 0, 0, 0);
                icl_case_set_shape(&c, 1, 1, 1, 0, 0, 0);
                icl_case_set_shape(&c, 2, 1, counts[s], 0, 0, 0);
                icl_cases_add(list, c, first ? "first threshold" : "threshold");
            }
}

/* Ends of training steps: {N, B}, with and without threshold, clipped, just as large and free; gradients that forbid a step. */
static void update_cases(icl_case_list *list) {
    static const size_t sizes[][2] = {{1, 1}, {65, 64}, {257, 130}, {4099, 2048}, {257, 70}};
    static const double clips[] = {0, 0.25, 1e9};
    for (int kind = 0; kind < ICL_UPDATE_COUNT; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int follows = 0; follows < 2; follows++) {
                const size_t n = sizes[s][0], batch = sizes[s][1];
                icl_case c = {.op = ICL_OP_update_step,
                              .params = {.update = {.kind = (icl_update_kind)kind,
                                                    .adam = {1e-2, 0.9, 0.99, 1e-8, 0.1, 3},
                                                    .sgd = {0.02, 0.9},
                                                    .clip = clips[(s + (size_t)follows) % 3],
                                                    .fraction = 0.25}},
                              .values = s == 4 ? ICL_VALUES_SPECIAL : ICL_VALUES_RANDOM};
                const size_t extents[9] = {n, n, n, 3, 1, n, batch, batch, batch};
                const bool absent[9] = {[2] = kind == ICL_UPDATE_SGD, [4] = follows == 0, [8] = follows == 0};
                for (int i = 0; i < 9; i++)
                    icl_case_set_shape(&c, i, absent[i] ? -1 : 1, extents[i], 0, 0, 0);
                icl_cases_add(list, c, kind == ICL_UPDATE_SGD ? "update sgd" : "update adam");
            }
}

void icl_cases_optimizer(icl_case_list *list) {
    const icl_case_params adam = {.adam = {1e-2, 0.9, 0.99, 1e-8, 0, 1}};
    const icl_case_params decaying = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0.1, 100000}};
    const icl_case_params sgd = {.sgd = {0.02, 0.9}};
    add_states(list, ICL_OP_clip, (icl_case_params){.value = 0.01}, 0, "clip");
    add_states(list, ICL_OP_clip, (icl_case_params){.value = 1e6}, 0, "clip inactive");
    add_states(list, ICL_OP_adam_step, adam, -1, "adam");
    add_states(list, ICL_OP_adam_step, decaying, 0, "adam decay");
    add_forbidden(list, ICL_OP_adam_step, adam, "adam forbidden");
    add_states(list, ICL_OP_sgd_step, sgd, 0, "sgd");
    add_states(list, ICL_OP_sgd_step, (icl_case_params){.sgd = {0.5, 0}}, -1, "sgd plain");
    add_forbidden(list, ICL_OP_sgd_step, sgd, "sgd forbidden");
    threshold_cases(list);
    update_cases(list);
}
