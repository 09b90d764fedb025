/* The matrix-state recurrence for one head, exactly, with the errors that a device may make: shared by the truths of
 * its two passes. The bounds are derived in truth_recurrence.c. */
#ifndef ICLAB_CONFORMANCE_TRUTH_RECURRENCE_H
#define ICLAB_CONFORMANCE_TRUTH_RECURRENCE_H

#include "conformance/case.h"

/* The inputs of one head, without broadcasting and with what stands for those that are absent. */
typedef struct icl_truth_head {
    size_t tokens, m, n;
    bool delta, has_decay;
    size_t chunk; /* tokens that a device may take at once, in sums of all that they write */
    double scale, unit;
    double flushed;        /* the largest number that a device of this precision may take for 0 */
    double *q, *k, *r, *w; /* [T][m] */
    double *v;             /* [T][n] */
    double *beta;          /* [T] */
    double *decay, *gate;  /* [T][m]; gate = exp(decay) */
    double *state;         /* [m][n] */
    double *gated, *local; /* [m], [n]: scratch */
} icl_truth_head;

/* A state, or the gradient by one, beside the error that it may have by now. */
typedef struct icl_truth_matrix {
    double *value, *size, *error; /* [m][n]; size: what rounding errors are in proportion to */
    double *norm;                 /* [n] with the delta term: the error of a column in the 2-norm; error repeats it */
} icl_truth_matrix;

icl_status icl_truth_head_create(icl_truth_head *head, const icl_truth *truth, int first, icl_error *error);
void icl_truth_head_destroy(icl_truth_head *head);

/* Reads one head's inputs; `first` is q's place among the operands. */
void icl_truth_head_load(icl_truth_head *head, const icl_truth *truth, int first, size_t batch, size_t h);

icl_status icl_truth_matrix_create(icl_truth_matrix *matrix, const icl_truth_head *head, icl_error *error);
void icl_truth_matrix_destroy(icl_truth_matrix *matrix);

/* The largest |(I - beta k r^T) diag(gate) x| of all |x| = 1 at a token. */
double icl_truth_growth(const icl_truth_head *head, size_t t);

/* The error that sum_i x_i X_ij takes over from X. */
double icl_truth_through(const icl_truth_head *head, const icl_truth_matrix *matrix, const double *x, size_t j);

/* S <- the state behind token t. p [n] and its bound where the delta term reads. */
void icl_truth_advance(icl_truth_head *head, size_t t, icl_truth_matrix *state, double *p, double *p_bound);

#endif
