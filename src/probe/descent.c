#include "probe/descent.h"

#include <string.h>

/* What a sequence has become: of the query only the map M that took its input here, [d][d]. */
typedef struct sequence {
    size_t d, n;
    double *tokens;     /* [n][d + 1] */
    double *map;        /* [d][d] */
    double *covariance; /* [d][d]: sum of x x^T */
    double *products;   /* [d]: sum of y x */
} sequence;

size_t icl_descent_scratch(size_t d, size_t n) {
    return n * (d + 1) + 2 * d * d + 2 * d;
}

static void add_up(const sequence *s) {
    const size_t d = s->d;

    memset(s->covariance, 0, d * d * sizeof(double));
    memset(s->products, 0, d * sizeof(double));
    for (size_t j = 0; j < s->n; j++) {
        const double *x = s->tokens + j * (d + 1), y = x[d];
        for (size_t a = 0; a < d; a++) {
            s->products[a] += y * x[a];
            for (size_t b = 0; b < d; b++)
                s->covariance[a * d + b] += x[a] * x[b];
        }
    }
}

/* vector <- (I - scale S) vector, for a vector of stride `stride`; `sums` [d] is scratch. */
static void shrink(const sequence *s, double scale, double *vector, size_t stride, double *sums) {
    const size_t d = s->d;

    for (size_t a = 0; a < d; a++) {
        sums[a] = 0;
        for (size_t b = 0; b < d; b++)
            sums[a] += s->covariance[a * d + b] * vector[b * stride];
    }
    for (size_t a = 0; a < d; a++)
        vector[a * stride] -= scale * sums[a];
}

/* One step; the query's y is -<weights, x>, so weights grow by rate * M^T sum_j y_j x_j. */
static void take_step(const sequence *s, double rate, double input, double *sums, double *weights) {
    const size_t d = s->d;

    add_up(s);
    for (size_t k = 0; k < d; k++)
        for (size_t a = 0; a < d; a++)
            weights[k] += rate * s->map[a * d + k] * s->products[a];
    for (size_t j = 0; j < s->n; j++) {
        double *x = s->tokens + j * (d + 1), product = 0;
        for (size_t a = 0; a < d; a++)
            product += s->products[a] * x[a];
        x[d] -= rate * product;
        if (input != 0)
            shrink(s, input, x, 1, sums);
    }
    for (size_t k = 0; k < d && input != 0; k++)
        shrink(s, input, s->map + k, d, sums);
}

void icl_descent_weights(const icl_descent *descent, size_t d, size_t n, size_t count, const float *tokens,
                         double *scratch, double *weights) {
    const sequence s = {.d = d,
                        .n = n,
                        .tokens = scratch,
                        .map = scratch + n * (d + 1),
                        .covariance = scratch + n * (d + 1) + d * d,
                        .products = scratch + n * (d + 1) + 2 * d * d};
    double *const sums = s.products + d;

    for (size_t i = 0; i < count; i++) {
        const float *from = tokens + i * (n + 1) * (d + 1);
        double *out = weights + i * d;
        for (size_t k = 0; k < n * (d + 1); k++)
            s.tokens[k] = (double)from[k];
        memset(s.map, 0, d * d * sizeof(double));
        memset(out, 0, d * sizeof(double));
        for (size_t a = 0; a < d; a++)
            s.map[a * d + a] = 1;
        for (size_t l = 0; l < descent->steps; l++)
            take_step(&s, descent->rates[l], descent->inputs ? descent->inputs[l] : 0, sums, out);
    }
}
