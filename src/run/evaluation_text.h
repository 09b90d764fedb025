/* How losses are shown, in tables and in reports. */
#ifndef ICLAB_RUN_EVALUATION_TEXT_H
#define ICLAB_RUN_EVALUATION_TEXT_H

#include "iclab/evaluate.h"

/* What a table shows of a score: mse and its standard error, half adjusted and its standard error, half above Bayes,
 * and half of the adjusted loss's median and trimmed mean. */
enum { ICL_SCORE_COLUMNS = 7 };
void icl_score_columns(const icl_score *score, double values[ICL_SCORE_COLUMNS]);

/* Four decimals where they say something, else powers of ten; "-" for NaN. */
const char *icl_loss_text(double value, char text[16]);

#endif
