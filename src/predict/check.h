/* Checks what a prediction is asked for: the sizes of its tables against each other and the model, and its values. */
#ifndef ICLAB_PREDICT_CHECK_H
#define ICLAB_PREDICT_CHECK_H

#include "iclab/predict.h"

/* ICL_ERROR_INPUT names the first thing that is wrong. `dimension` is the d of the model. */
icl_status icl_predict_check(const icl_predict_params *params, size_t dimension, icl_error *error);

#endif
