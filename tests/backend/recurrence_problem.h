/* A recurrence to solve: its inputs on the host, all of them, as doubles that a float can hold; the answer of a device;
 * and the exact result with conformance's bound. */
#ifndef ICLAB_TESTS_RECURRENCE_PROBLEM_H
#define ICLAB_TESTS_RECURRENCE_PROBLEM_H

#include "backend/contract.h"
#include "backend/op_families.h"
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
    double *out_bound, *final_bound; /* NULL unless the answer is exact */
} answer;

/* Return the number of elements of an input, of out and of final. */
size_t problem_count(const problem *p, int input);
size_t problem_outs(const problem *p);
size_t problem_finals(const problem *p);

/* Adds an input, filled with zeros. */
icl_status problem_add(problem *p, int input, icl_error *error);
void problem_clear(problem *p);

/* Fills q, k and v (normal, k of length 1) and the inputs named by `with` (1 << ICL_RECURRENCE_BETA, …): strengths from
 * 0 to 1, decays -softplus(normal - 3) times `strength`, read keys near k, write keys of length 1, normal states. */
icl_status problem_fill(problem *p, unsigned with, double strength, uint32_t seed, icl_error *error);

/* Makes a problem of tokens first .. first + count - 1 only, from the given state, or from 0 if it is NULL. */
icl_status problem_part(const problem *p, size_t first, size_t count, const double *state, problem *part,
                        icl_error *error);

/* Compute a device's answer; and the exact one, with the bounds of that device's errors. */
icl_status problem_solve(icl_backend *backend, const problem *p, answer *got, icl_error *error);
icl_status problem_truth(icl_backend *backend, const problem *p, answer *exact, icl_error *error);
void answer_clear(answer *a);

bool is_double(icl_backend *backend);

/* Makes one check: got is near expected, both of which may have rounding errors (within a and b, either of which may be
 * NULL), and on "ref" within 1e-12 of the largest expected number. */
bool check_close(tap_run *tap, icl_backend *backend, const char *what, size_t count, const double *got,
                 const double *expected, const double *a, const double *b);

/* Return a number that a float can hold: normally distributed; uniform from 0 to 1. */
double problem_normal(uint32_t seed, uint32_t stream, size_t index);
double problem_uniform(uint32_t seed, uint32_t stream, size_t index);

/* Makes the rows unit vectors. */
void problem_unit_rows(double *x, size_t rows, size_t width);

#endif
