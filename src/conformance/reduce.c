/*
 * Reductions.
 *
 * ops.h promises a tree: leaves of at most 32 terms in sequence, then pairs. So a term passes through at most 32 +
 * ceil(log2 n) additions, and |error| <= gamma(32 + ceil(log2 n)) sum |x| (Higham, section 4.2).
 */
#include <math.h>

#include "conformance/cases.h"
#include "core/allocate.h"

/* ---- The exact result ---- */

#define LEAF 32

/* What one output element is computed from. */
typedef struct gathered {
    long double sum, squares; /* wider if the platform has it, so that "ref" can be judged too */
    double magnitude, max, argmax;
    size_t count;
} gathered;

static void take(gathered *g, double x) {
    const bool first = g->count == 0;
    g->sum += (long double)x;
    g->magnitude += fabs(x);
    g->squares += (long double)x * (long double)x;
    if (first || (isnan(x) && !isnan(g->max)) || x > g->max) {
        g->max = x;
        g->argmax = (double)g->count;
    }
    g->count++;
}

static double result(icl_reduce_kind kind, const gathered *g, double unit, double *bound) {
    const double gamma = icl_gamma(LEAF + ceil(log2((double)g->count + 1)), unit);
    /* sqrt(s (1 + e)) differs from sqrt(s) by at most e sqrt(s) for |e| < 1; sqrt itself adds 3 ulp. */
    const double norm = sqrt((double)g->squares);
    *bound = 0;
    switch (kind) {
    case ICL_SUM:
        *bound = gamma * g->magnitude;
        return (double)g->sum;
    case ICL_MEAN: {
        /* There is one division of 2.5 ulp, or a product with a rounded 1/n. */
        const double mean = (double)(g->sum / (long double)g->count);
        *bound = gamma * g->magnitude / (double)g->count + icl_gamma(5, unit) * fabs(mean);
        return mean;
    }
    case ICL_MAX:
        return g->count == 0 ? -(double)INFINITY : g->max;
    case ICL_ARGMAX:
        return g->count == 0 ? -1 : g->argmax;
    case ICL_SUM_OF_SQUARES:
        *bound = icl_gamma(LEAF + 1 + ceil(log2((double)g->count + 1)), unit) * (double)g->squares;
        return (double)g->squares;
    case ICL_NORM:
        *bound = (icl_gamma(LEAF + 1 + ceil(log2((double)g->count + 1)), unit) + 6 * unit) * norm;
        return norm;
    case ICL_REDUCE_COUNT:
        break;
    }
    return (double)NAN;
}

static icl_status truth_reduce(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t outputs = icl_case_count(c, 0), inputs = icl_case_count(c, 1);
    gathered *all = NULL;

    ICL_CHECK(icl_allocate(outputs, sizeof *all, "reduction truth", &all, error));
    for (size_t i = 0; i < inputs; i++) {
        size_t left = i, position = 0, stride = 1;
        for (int axis = c->rank[1] - 1; axis >= 0; axis--) {
            const size_t coordinate = left % c->shape[1][axis];
            left /= c->shape[1][axis];
            position += (c->shape[0][axis] == 1 ? 0 : coordinate) * stride;
            stride *= c->shape[0][axis];
        }
        take(&all[position], truth->operand[1][i]);
    }
    for (size_t i = 0; i < outputs; i++)
        truth->operand[0][i] = result(c->params.reduce.kind, &all[i], truth->unit, &truth->bound[0][i]);
    icl_free(&all);
    return ICL_OK;
}

/* ---- Cases ---- */

/* The cases have every kind over inner, outer and split axes, and over empty ones. */

/* Adds cases in which a tree and a sum in plain order differ much. Random terms hardly tell them apart, although the
 * error of the latter grows with n: rounding goes up as often as down. */
static void add_absorbed(icl_case_list *list, icl_reduce_kind kind) {
    static const size_t counts[] = {257, 4099, 100003};
    for (size_t s = 0; s < sizeof counts / sizeof *counts && (kind == ICL_SUM || kind == ICL_MEAN); s++) {
        icl_case c = {.op = ICL_OP_reduce, .params = {.reduce = {kind, 1}}, .values = ICL_VALUES_ABSORBED};
        icl_case_set_shape(&c, 0, 1, 1, 0, 0, 0);
        icl_case_set_shape(&c, 1, 1, counts[s], 0, 0, 0);
        icl_cases_add(list, c, icl_reduce_name(kind));
    }
}

static void cases(icl_case_list *list) {
    static const struct {
        int rank;
        size_t shape[ICL_MAX_RANK];
        unsigned axes;
    } shapes[] = {
        {1, {1}, 1},         {1, {7}, 1},         {1, {33}, 1},           {1, {257}, 1},          {1, {100003}, 1},
        {2, {33, 255}, 1},   {2, {33, 255}, 2},   {2, {255, 33}, 3},      {3, {9, 21, 11}, 3},    {3, {9, 21, 11}, 4},
        {3, {9, 21, 11}, 2}, {3, {9, 21, 11}, 5}, {4, {3, 5, 7, 11}, 10}, {4, {3, 5, 7, 11}, 15}, {3, {4, 0, 3}, 2},
        {2, {2048, 1}, 1},   {2, {3, 4}, 0},      {2, {0, 5}, 2},         {2, {1037, 32}, 1},
    };
    for (int kind = 0; kind < ICL_REDUCE_COUNT; kind++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_CANCELLING, ICL_VALUES_INTEGERS,
                                                ICL_VALUES_LARGE};
            const icl_reduce_kind k = (icl_reduce_kind)kind;
            icl_case c = {.op = ICL_OP_reduce, .params = {.reduce = {k, shapes[s].axes}}, .values = values[s % 4]};
            c.rank[0] = c.rank[1] = shapes[s].rank;
            for (int axis = 0; axis < shapes[s].rank; axis++) {
                c.shape[1][axis] = shapes[s].shape[axis];
                c.shape[0][axis] = shapes[s].axes >> axis & 1 ? 1 : shapes[s].shape[axis];
            }
            if (k == ICL_MAX || k == ICL_ARGMAX)
                c.values = s % 2 ? ICL_VALUES_SPECIAL : ICL_VALUES_INTEGERS;
            icl_cases_add(list, c, icl_reduce_name(k));
        }
        add_absorbed(list, (icl_reduce_kind)kind);
    }
}

ICL_CASE_CALL(reduce, icl_reduce(on, c->params.reduce.kind, c->params.reduce.axes, t[0], t[1], error))

static double flops(const icl_case *c) {
    return (double)icl_case_count(c, 1);
}

static const icl_timed_shape timed[] = {
    {"reduce sum (4Mi)", {.reduce = {ICL_SUM, 1}}, {ICL_AXIS(1), ICL_AXIS(ICL_MILLIONS)}},
    {"reduce sum of rows (2048x2048)", {.reduce = {ICL_SUM, 2}}, {ICL_AXES2(2048, 1), ICL_AXES2(2048, 2048)}},
    {"reduce sum of columns (2048x2048)", {.reduce = {ICL_SUM, 1}}, {ICL_AXES2(1, 2048), ICL_AXES2(2048, 2048)}},
};

const icl_described_op icl_described_reduce =
    ICL_DESCRIBED(timed, .call = call_reduce, .truth = truth_reduce, .cases = cases, .flops = flops);
