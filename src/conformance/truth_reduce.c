/*
 * Reductions.
 *
 * ops.h promises a tree: leaves of at most 32 terms in sequence, then pairs. A term so passes through at most
 * 32 + ceil(log2 n) additions, and |error| <= gamma(32 + ceil(log2 n)) sum |x| (Higham, section 4.2).
 */
#include <math.h>

#include "conformance/cases.h"
#include "core/allocate.h"

#define LEAF 32

/* What one output element is made from. */
typedef struct gathered {
    long double sum, squares; /* wider where the platform has it, so that "ref" can be judged too */
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
        /* One division of 2.5 ulp, or a product with a rounded 1/n. */
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

icl_status icl_truth_reduce(icl_truth *truth, icl_error *error) {
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
