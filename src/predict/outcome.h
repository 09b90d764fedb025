/* What predictions come to. */
#ifndef ICLAB_PREDICT_OUTCOME_H
#define ICLAB_PREDICT_OUTCOME_H

#include "iclab/predict.h"

/* Fills the scores from the squared errors. */
icl_status icl_predict_score_all(icl_predict_outcome *outcome, icl_error *error);

#endif
