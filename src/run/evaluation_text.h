/* How losses are shown, in tables and in reports. */
#ifndef ICLAB_RUN_EVALUATION_TEXT_H
#define ICLAB_RUN_EVALUATION_TEXT_H

#include "iclab/evaluate.h"
#include "iclab/json.h"

/* What a table shows of a score: mse and its standard error, half adjusted and its standard error, half above Bayes,
 * and half of the adjusted loss's median and trimmed mean. */
enum { ICL_SCORE_COLUMNS = 7 };
void icl_score_columns(const icl_score *score, double values[ICL_SCORE_COLUMNS]);

/* Four decimals where they say something, else powers of ten; "-" for NaN. */
const char *icl_loss_text(double value, char text[16]);

/* "mse", or "loss" of a task with another one. */
const char *icl_loss_key(const icl_score *score);

/* Adds what icl_score_json writes, behind what is there already. */
void icl_score_add_json(const icl_score *score, icl_json *json);

/* Whether the model is better by more than two standard errors of either mean together. What is compared is the
 * distance to the oracle, where there is one, else the loss. */
bool icl_score_beats(const icl_score *model, const icl_score *other);

#endif
