/* Evaluations: sequences, reference predictors beside the model, tallies of losses, and how losses are shown. */
#ifndef ICLAB_RUN_EVALUATION_H
#define ICLAB_RUN_EVALUATION_H

#include "iclab/baseline.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"
#include "iclab/status.h"
#include "iclab/train.h"

/* ---- Sequences ---- */

/* Evaluation sequences, a chunk at a time: sampled on the device, predicted by a model there and by reference
 * predictors on the host. */

/* Evaluation during training starts its chunks here, so that it never sees the final table's sequences. */
#define ICL_FIRST_CHUNK_IN_TRAINING ((uint64_t)1 << 40)

typedef struct icl_sequences {
    icl_backend *backend;
    const icl_task *task;
    uint32_t seed;
    /* Sequences in a chunk: a function of the shape alone, so that every device evaluates the same ones. */
    size_t chunk;
    icl_batch batch;
    bool decodes; /* the model predicts position by position; false from icl_sequences_create */

    /* The chunk at hand, on the host: [chunk][T][p], [chunk], [chunk][S][c], [chunk][S] and [chunk][S][q]. noise
     * is 0 for tasks without, weights NULL where all are 1. */
    float *inputs, *noise, *targets, *weights, *model;
} icl_sequences;

icl_status icl_sequences_create(icl_backend *backend, const icl_task *task, uint32_t seed, icl_sequences *sequences,
                                icl_error *error);
void icl_sequences_release(icl_sequences *sequences);

/* The bytes that they take on the host. */
double icl_sequences_bytes(const icl_sequences *sequences);

/* Draws one chunk. */
icl_status icl_sequences_sample(icl_sequences *sequences, uint64_t chunk, icl_error *error);

/* Targets and, where there are reference predictors (not NULL), what these see, to the host. Predictions for the
 * first `count` sequences of the chunk at hand: the model's into sequences->model, the reference predictors' into
 * predictions [count][S][number of predictors]. */
icl_status icl_sequences_predict(icl_sequences *sequences, icl_trainer *trainer, icl_error *error);
icl_status icl_sequences_refer(icl_sequences *sequences, const icl_predictors *predictors, size_t count,
                               double *predictions, icl_error *error);

/* ---- Reference predictors ---- */

/* The reference predictors of an evaluation: those of the task that eval.predictors names, and the trainer's own. */

/* A predictor, which has a row in the table. */
typedef struct icl_reference_row {
    const char *name;
    const char *constants;                    /* fitted ones, as text; may be empty */
    size_t estimate;                          /* its place in `regression`, where predictor is NULL */
    const icl_reference_predictor *predictor; /* the family's or the trainer's own */
} icl_reference_row;

typedef struct icl_reference_set {
    icl_predictors *regression; /* of linear regression in context; NULL: the task is another */
    icl_reference_row *items;   /* [count], in the order of the table's rows */
    size_t count;               /* of them all */
    size_t shown;               /* the first of these have rows, the oracle and Bayes behind them are for the columns */
} icl_reference_set;

/* fit_sequences and seed: of those that are fitted (baseline.h). ICL_ERROR_INPUT names a predictor that the task does
 * not have and the nearest that it has. Release it also after a failure. */
icl_status icl_reference_set_create(const icl_trainer *trainer, const icl_recipe *recipe, size_t fit_sequences,
                                    uint32_t seed, icl_reference_set *set, icl_error *error);
void icl_reference_set_release(icl_reference_set *set);

/* Whether a list of eval.predictors asks for the predictor of that name. */
bool icl_reference_is_listed(const icl_task *task, const char *list, const char *name);

/* ---- Tallies ---- */

/* A tally keeps what an evaluation needs of all predictions, and makes scores of it. */

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

/* Takes weights [count][S] of the sequences from number `first` on; before what is predicted for them. */
void icl_tally_weigh(icl_tally *tally, size_t first, size_t count, const float *weights);

/* Takes what a column predicts for these sequences: outputs [count][S][q], targets [count][S][c]. */
void icl_tally_add(icl_tally *tally, size_t column, size_t first, size_t count, const double *outputs,
                   const float *targets);

/* Fills in all numbers of a score but its names and constants. positions [S] receives its curve; NULL where S = 1.
 * Sums run in a fixed order. */
void icl_tally_score(const icl_tally *tally, size_t column, icl_position_score *positions, icl_score *score);

/* ---- Scores as they are shown, in tables and in reports ---- */

/* A number of a score under the one name that it has on the screen, in JSON, in CSV files and in sweeps. What begins
 * with half_ is a half; everything else is of the full loss. */
typedef struct icl_metric {
    const char *name;
    double value;
} icl_metric;

/* All of them: mse (or loss), se, accuracy where the loss has one, minus_model, minus_model_se; where the task has an
 * oracle adjusted, adjusted_se, half_adjusted, half_adjusted_se, half_minus_model, half_minus_model_se,
 * half_above_bayes, half_median, half_trimmed. Returns how many. */
enum { ICL_SCORE_METRICS = 14 };
size_t icl_score_metrics(const icl_score *score, icl_metric metrics[ICL_SCORE_METRICS]);

/* The report's table shows, of a score that has a distance to the oracle: mse, se, half_adjusted, its se,
 * half_above_bayes, half_median, half_trimmed, half_minus_model and its se. A screen has room for the first seven. */
enum { ICL_SCORE_COLUMNS = 9, ICL_SCORE_SHOWN = 7 };
void icl_score_columns(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]);

/* Four decimals where they say something, else powers of ten; "-" for NaN. */
const char *icl_loss_text(double value, char text[16]);

/* "mse", or "loss" of a task with another one. */
const char *icl_loss_key(const icl_score *score);

/* Adds what icl_score_json writes, behind what is there already. */
void icl_score_add_json(const icl_score *score, icl_json *json);

/* The model is better or worse than a reference predictor by more than two standard errors of the paired difference, of
 * the distance to the oracle where there is one, else of the loss; or neither. */
typedef enum icl_standing { ICL_BETTER = 0, ICL_WORSE, ICL_ALIKE } icl_standing;
icl_standing icl_score_standing(const icl_score *reference);

#endif
