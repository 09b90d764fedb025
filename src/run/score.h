/* Everything that was predicted in an evaluation, and its scores. */
#ifndef ICLAB_RUN_SCORE_H
#define ICLAB_RUN_SCORE_H

#include "iclab/evaluate.h"

/* A table with a column for each predictor; column 0 is the model's. */
typedef struct icl_outputs {
    icl_task_shape shape;
    size_t sequences, columns;
    double *values;       /* [columns][sequences][S][q] */
    double *targets;      /* [sequences][S][c] */
    double *weights;      /* [sequences][S]; NULL: all are 1 */
    double *losses;       /* [sequences], scratch */
    size_t oracle, bayes; /* columns; 0: there are none */
} icl_outputs;

/* Memory for them, shape, sequences and columns being set. Release it also after a failure. */
icl_status icl_outputs_create(icl_outputs *outputs, bool with_weights, icl_error *error);
void icl_outputs_release(icl_outputs *outputs);

double *icl_outputs_column(const icl_outputs *outputs, size_t column);

/* Fills in all numbers of a score but its names and constants. positions [S] receives its curve; NULL where S = 1.
 * Sums run in a fixed order. */
void icl_outputs_score(const icl_outputs *outputs, size_t column, icl_position_score *positions, icl_score *score);

#endif
