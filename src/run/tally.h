/* What an evaluation keeps of everything that was predicted, and the scores made of it. */
#ifndef ICLAB_RUN_TALLY_H
#define ICLAB_RUN_TALLY_H

#include "iclab/evaluate.h"

/* A table with a column for each predictor; column 0 is the model's. Outputs are measured as they come and not kept:
 * those of classes would take V numbers a position. */
typedef struct icl_tally {
    icl_task_shape shape;
    size_t sequences, columns;
    size_t oracle, bayes; /* columns; 0: there are none */
    double *losses;       /* [columns][sequences][S]; 0 where the weight is 0 */
    double *right;        /* the same of the share of right answers; NULL: the loss has none */
    double *weights;      /* [sequences][S]; NULL: all are 1 */
    double *values;       /* [columns][sequences][S], the predictions; NULL without an oracle */
    double *means;        /* [sequences], scratch */
    double *target;       /* [c], scratch */
} icl_tally;

/* Memory for them; shape, sequences, columns and oracle are set. Release it also after a failure. */
icl_status icl_tally_create(icl_tally *tally, bool with_weights, icl_error *error);
void icl_tally_release(icl_tally *tally);

/* The bytes that icl_tally_create takes. */
double icl_tally_bytes(const icl_tally *tally, bool with_weights);

/* Takes weights [count][S] of the sequences from number `first` on; before what is predicted for them. */
void icl_tally_weigh(icl_tally *tally, size_t first, size_t count, const float *weights);

/* Takes what a column predicts for these sequences: outputs [count][S][q], targets [count][S][c]. */
void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets);

/* Fills in all numbers of a score but its names and constants. positions [S] receives its curve; NULL where S = 1.
 * Sums run in a fixed order. */
void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score);

#endif
