/* A recurrence to solve: inputs on the host, in full and as numbers that a float holds; what a device makes of them,
 * and the exact result with the bound of conformance beside it. */
#ifndef ICLAB_TESTS_RECURRENCE_PROBLEM_H
#define ICLAB_TESTS_RECURRENCE_PROBLEM_H

#include "backend/contract.h"
#include "backend/recurrence.h"
#include "tap.h"

typedef struct problem {
    icl_recurrence_params params;
    size_t batch, heads, tokens, m, n;
    size_t decay_width;                    /* 1 or m */
    double *values[ICL_RECURRENCE_INPUTS]; /* NULL: absent */
} problem;

/* Outputs of the forward pass, [B, H, T, n] and [B, H, m, n]. */
typedef struct answer {
    double *out, *final;
    double *out_bound, *final_bound; /* of an exact answer; NULL otherwise */
} answer;

/* Number of elements of an input, of out and of final. */
size_t problem_count(const problem *p, int input);
size_t problem_outs(const problem *p);
size_t problem_finals(const problem *p);

/* Makes room for an input, zeros. */
icl_status problem_add(problem *p, int input, icl_error *error);
void problem_clear(problem *p);

/*
 * q, k and v, normal, k of length 1; and those inputs of `with` (1 << ICL_RECURRENCE_BETA, …): strengths from 0 to 1,
 * decays -softplus(normal - 3) times `strength`, read keys near k, write keys of length 1, normal states.
 */
icl_status problem_fill(problem *p, unsigned with, double strength, uint32_t seed, icl_error *error);

/* The same with tokens first .. first + count - 1 alone, from the state given, or 0. */
icl_status problem_part(const problem *p, size_t first, size_t count, const double *state, problem *part,
                        icl_error *error);

/* What a device answers; and the truth, with what that device may be off. */
icl_status problem_solve(icl_backend *backend, const problem *p, answer *got, icl_error *error);
icl_status problem_truth(icl_backend *backend, const problem *p, answer *exact, icl_error *error);
void answer_clear(answer *a);

bool is_double(icl_backend *backend);

/*
 * One check: got near expected, both of which may hold rounding of their own (bounds a and b, either may be NULL), and
 * on "ref" within 1e-12 of the largest expected number.
 */
bool check_close(tap_run *tap, icl_backend *backend, const char *what, size_t count, const double *got,
                 const double *expected, const double *a, const double *b);

/* A number as a float holds it, from the normal distribution; from 0 to 1. */
double problem_normal(uint32_t seed, uint32_t stream, size_t index);
double problem_uniform(uint32_t seed, uint32_t stream, size_t index);

/* Rows of length 1. */
void problem_unit_rows(double *x, size_t rows, size_t width);

#endif
