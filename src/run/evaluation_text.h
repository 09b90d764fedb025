/* How losses are shown, in tables and in reports. */
#ifndef ICLAB_RUN_EVALUATION_TEXT_H
#define ICLAB_RUN_EVALUATION_TEXT_H

#include "iclab/evaluate.h"
#include "iclab/json.h"

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
