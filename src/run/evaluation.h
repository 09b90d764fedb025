/* Evaluations: sequences, reference predictors beside the model, tallies of losses, and how losses are shown. */
#ifndef ICLAB_RUN_EVALUATION_H
#define ICLAB_RUN_EVALUATION_H

#include "iclab/baseline.h"
#include "iclab/decode.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"
#include "iclab/status.h"
#include "iclab/train.h"

/* ---- Sequences ---- */

/* Evaluation sequences, a chunk at a time: sampled on the device, predicted by a model there and by reference
 * predictors on the host. */

typedef struct icl_sequences {
    icl_backend *backend;
    const icl_task *task;
    uint32_t seed;
    /* Sequences in a chunk: depends only on the shape, so that every device evaluates the same sequences. */
    size_t chunk;
    icl_batch batch;
    bool decodes;         /* the model predicts position by position; icl_sequences_create sets it to false */
    bool carries;         /* chunks are one sequence, and are predicted in order, each with the state of the last */
    icl_decoder *carried; /* that state, after the first chunk */

    /* The current chunk, on the host: [chunk][T][p], [chunk], [chunk][S][c], [chunk][S] and [chunk][S][q]. noise is 0
     * for tasks without noise, weights is NULL if all are 1. */
    float *inputs, *noise, *targets, *weights, *model;
} icl_sequences;

icl_status icl_sequences_create(icl_backend *backend, const icl_task *task, uint32_t seed, icl_sequences *sequences,
                                icl_error *error);
void icl_sequences_release(icl_sequences *sequences);

/* As icl_sequences_create, for a task whose windows are one sequence (icl_task_text.carries): chunks of one window,
 * which the model decodes, each with the state that the one before it left. For other tasks it is the same. */
icl_status icl_sequences_create_carried(icl_backend *backend, const icl_task *task, uint32_t seed,
                                        icl_sequences *sequences, icl_error *error);

/* Returns the number of sequences of a final table: at most those of `asked` that the task has. */
size_t icl_sequences_available(const icl_task *task, size_t asked);

/* Draws one chunk. */
icl_status icl_sequences_sample(icl_sequences *sequences, uint64_t chunk, icl_error *error);

/* Copy to the host the targets and, if there are reference predictors (not NULL), what these see. Then predict the
 * first `count` sequences of the current chunk: the model's predictions go into sequences->model, the reference
 * predictors' into predictions [count][S][number of predictors]. */
icl_status icl_sequences_predict(icl_sequences *sequences, icl_trainer *trainer, icl_error *error);
icl_status icl_sequences_refer(icl_sequences *sequences, const icl_predictors *predictors, size_t count,
                               double *predictions, icl_error *error);

/* ---- Reference predictors ---- */

/* The reference predictors of an evaluation: those of the task that eval.predictors names, and the trainer's own. */

/* A predictor with a row in the table. */
typedef struct icl_reference_row {
    const char *name;
    const char *constants;                    /* the fitted constants, as text; may be empty */
    size_t estimate;                          /* its place in `regression`, if predictor is NULL */
    const icl_reference_predictor *predictor; /* the family's or the trainer's own */
} icl_reference_row;

typedef struct icl_reference_set {
    icl_predictors *regression; /* for linear regression in context; NULL for another task */
    icl_reference_row *items;   /* [count], in the order of the table's rows */
    size_t count;               /* of all items */
    size_t shown;               /* the first ones, with rows; an oracle and Bayes after them only have columns */
    const icl_recipe *recipe;   /* the evaluation's, which predictors are shown */
} icl_reference_set;

/* fit_sequences and seed are for the predictors that are fitted (baseline.h). ICL_ERROR_INPUT names a predictor that
 * the task does not have, and the nearest that it has. Release it also after a failure. */
icl_status icl_reference_set_create(const icl_trainer *trainer, const icl_recipe *recipe, size_t fit_sequences,
                                    uint32_t seed, icl_reference_set *set, icl_error *error);
void icl_reference_set_release(icl_reference_set *set);

/* Returns whether a list of eval.predictors asks for the predictor of that name. */
bool icl_reference_is_listed(const icl_task *task, const char *list, const char *name);

/* ---- Tallies ---- */

/* A tally keeps what an evaluation needs of all predictions and computes scores from it. */

/* A table with a column for each predictor; column 0 is the model's. Outputs are measured as they come and not kept,
 * because those of classes would take V numbers a position. */
typedef struct icl_tally {
    icl_task_shape shape;
    size_t sequences, columns;
    size_t oracle, bayes; /* columns; 0 if there is none */
    double *losses;       /* [columns][sequences][S]; 0 if the weight is 0 */
    double *right;        /* likewise, the share of right answers; NULL if the loss has none */
    double *weights;      /* [sequences][S]; NULL: all are 1 */
    double *values;       /* [columns][sequences][S], the predictions; NULL without an oracle */
    double *means;        /* [sequences], scratch */
    double *target;       /* [c], scratch */
} icl_tally;

/* Allocates the tables; shape, sequences, columns and oracle are set before. Release it also after a failure. */
icl_status icl_tally_create(icl_tally *tally, bool with_weights, icl_error *error);
void icl_tally_release(icl_tally *tally);

/* Takes weights [count][S] of the sequences from number `first` on. Comes before the predictions for them. */
void icl_tally_weigh(icl_tally *tally, size_t first, size_t count, const float *weights);

/* Takes the predictions of a column for these sequences: outputs [count][S][q], targets [count][S][c]. */
void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets);

/* Fills in all numbers of a score, but not its names and constants. positions [S] receives its curve; NULL if S = 1.
 * Sums run in a fixed order. */
void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score);

/* ---- Scores as they are shown, in tables and in reports ---- */

/* A number of a score under the one name that it has on the screen, in JSON, in CSV files and in sweeps. Names that
 * begin with half_ are halves; all others belong to the full loss. */
typedef struct icl_metric {
    const char *name;
    double value;
} icl_metric;

/* Fills in all metrics and returns how many there are: mse (or loss), se, accuracy if the loss has one, bits_per_byte
 * and bits_per_byte_se of text, minus_model, minus_model_se; if the task has an oracle also adjusted, adjusted_se,
 * half_adjusted, half_adjusted_se, half_minus_model, half_minus_model_se, half_above_bayes, half_median,
 * half_trimmed. */
enum { ICL_SCORE_METRICS = 16 };
size_t icl_score_metrics(const icl_score *score, icl_metric metrics[ICL_SCORE_METRICS]);

/* The columns of the report's table for a score with a distance to the oracle: mse, se, half_adjusted, its se,
 * half_above_bayes, half_median, half_trimmed, half_minus_model and its se. A screen has room for the first seven. */
enum { ICL_SCORE_COLUMNS = 9, ICL_SCORE_SHOWN = 7 };
void icl_score_columns(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]);

/* Writes four decimals if they suffice, else powers of ten; "-" for NaN. */
const char *icl_loss_text(double value, char text[16]);

/* Returns "mse", or "loss" if the task has another loss. */
const char *icl_loss_key(const icl_score *score);

/* Appends what icl_score_json writes. */
void icl_score_add_json(const icl_score *score, icl_json *json);

/* Whether the model is better or worse than a reference predictor by more than two standard errors of the paired
 * difference, or neither. The difference is that of the distances to the oracle if there is one, else of the losses. */
typedef enum icl_standing { ICL_BETTER = 0, ICL_WORSE, ICL_ALIKE } icl_standing;
icl_standing icl_score_standing(const icl_score *reference);

#endif
