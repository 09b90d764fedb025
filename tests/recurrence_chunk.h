/*
 * The chunk form of the recurrence with matrix state, in double: an oracle that shares neither its formula nor its code
 * with any backend. Within a chunk, b_i is the running sum of the decays, and from j to i S decays by exp(b_i - b_j):
 *
 *     x_i = beta_i (v_i - (e^(b_i) k_i)^T S - sum_(j<i) A_ij x_j), A_ij = sum_c k_ic e^(b_ic - b_jc) k_jc   (delta)
 *     x_i = beta_i v_i                                                                                        (sum)
 *     o_i = scale ((e^(b_i) q_i)^T S + sum_(j<=i) (sum_c q_ic e^(b_ic - b_jc) k_jc) x_j)
 *     S <- e^(b_C) S + sum_j (e^(b_C - b_j) k_j) x_j^T
 *
 * (S. Yang et al., "Parallelizing linear transformers with the delta rule over sequence length", 2024, and "Gated delta
 * networks", 2025; forward substitution is the inverse of I + tril(diag(beta) A, -1).) The mask of o includes the
 * diagonal, that of x does not. Exponents are differences, which never overflow; CHUNK_FACTORED takes q e^b and k e^-b
 * apart, as matrix products need it, as long as -b is below a guard ("Gated linear attention transformers", 2024).
 */
#ifndef ICLAB_TESTS_RECURRENCE_CHUNK_H
#define ICLAB_TESTS_RECURRENCE_CHUNK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define CHUNK_MOST  64 /* tokens of a chunk */
#define CHUNK_WIDTH 64 /* channels, and values */
#define CHUNK_GUARD 16 /* if -b is at least this, exponents are differences even if CHUNK_FACTORED */

typedef enum chunk_exponents { CHUNK_DIFFERENCES = 0, CHUNK_FACTORED } chunk_exponents;

/* One batch and head, row-major. */
typedef struct chunk_head {
    size_t tokens, m, n, chunk;
    bool delta;
    double scale;
    chunk_exponents exponents;
    const double *q, *k; /* [T][m] */
    const double *v;     /* [T][n] */
    const double *beta;  /* [T], or NULL: 1 */
    const double *decay; /* [T][decay_width], or NULL: 0; finite */
    size_t decay_width;  /* 1 or m */
} chunk_head;

typedef struct chunk_work {
    double b[CHUNK_MOST][CHUNK_WIDTH], x[CHUNK_MOST][CHUNK_WIDTH];
} chunk_work;

/* sum_c x_c e^(to_c - from_c) y_c */
static inline double chunk_product(const chunk_head *head, const double *x, const double *to, const double *y,
                                   const double *from) {
    double sum = 0;
    for (size_t c = 0; c < head->m; c++)
        sum += head->exponents == CHUNK_FACTORED && -from[c] < CHUNK_GUARD ? x[c] * exp(to[c]) * (y[c] * exp(-from[c]))
                                                                           : x[c] * y[c] * exp(to[c] - from[c]);
    return sum;
}

/* sum_c x_c e^(b_c) S_cj */
static inline double chunk_read(const chunk_head *head, const double *x, const double *b, const double *state,
                                size_t j) {
    double sum = 0;
    for (size_t c = 0; c < head->m; c++)
        sum += x[c] * exp(b[c]) * state[c * head->n + j];
    return sum;
}

/* Computes x and b of one chunk. */
static inline void chunk_solve(const chunk_head *head, size_t first, size_t count, const double *state,
                               chunk_work *work) {
    const size_t m = head->m, n = head->n;
    for (size_t i = 0; i < count; i++) {
        const size_t t = first + i;
        const double beta = head->beta ? head->beta[t] : 1;
        for (size_t c = 0; c < m; c++)
            work->b[i][c] = (i > 0 ? work->b[i - 1][c] : 0) +
                            (head->decay ? head->decay[t * head->decay_width + (head->decay_width > 1 ? c : 0)] : 0);
        for (size_t j = 0; j < n; j++)
            work->x[i][j] =
                head->v[t * n + j] - (head->delta ? chunk_read(head, head->k + t * m, work->b[i], state, j) : 0);
        for (size_t before = 0; before < i && head->delta; before++) {
            const double a =
                chunk_product(head, head->k + t * m, work->b[i], head->k + (first + before) * m, work->b[before]);
            for (size_t j = 0; j < n; j++)
                work->x[i][j] -= a * work->x[before][j];
        }
        for (size_t j = 0; j < n; j++)
            work->x[i][j] *= beta;
    }
}

/* Computes out [T][n], and updates state [m][n] from the first to the last. chunk, m, n are within the limits above. */
static inline void chunk_forward(const chunk_head *head, double *state, double *out, chunk_work *work) {
    const size_t m = head->m, n = head->n;
    for (size_t first = 0; first < head->tokens; first += head->chunk) {
        const size_t count = head->tokens - first < head->chunk ? head->tokens - first : head->chunk;
        chunk_solve(head, first, count, state, work);
        for (size_t i = 0; i < count; i++) {
            const double *q = head->q + (first + i) * m;
            double *o = out + (first + i) * n;
            for (size_t j = 0; j < n; j++)
                o[j] = head->scale * chunk_read(head, q, work->b[i], state, j);
            for (size_t before = 0; before <= i; before++) {
                const double a = chunk_product(head, q, work->b[i], head->k + (first + before) * m, work->b[before]);
                for (size_t j = 0; j < n; j++)
                    o[j] += head->scale * a * work->x[before][j];
            }
        }
        const double *last = work->b[count - 1];
        for (size_t c = 0; c < m; c++)
            for (size_t j = 0; j < n; j++) {
                state[c * n + j] *= exp(last[c]);
                for (size_t i = 0; i < count; i++)
                    state[c * n + j] += exp(last[c] - work->b[i][c]) * head->k[(first + i) * m + c] * work->x[i][j];
            }
    }
}

#endif
