/* What predictions come to: held-out errors, summed up. */
#include <math.h>

#include "core/allocate.h"
#include "lab/predict/predict.h"

const char *icl_predictor_name(size_t predictor) {
    return predictor == 0 ? "model" : icl_reference_name((icl_reference)(predictor - 1));
}

void icl_predict_outcome_destroy(icl_predict_outcome **outcome) {
    if (*outcome) {
        icl_standardization_release(&(*outcome)->standardization);
        icl_free(&(*outcome)->rows);
        icl_free(&(*outcome)->heldout);
        icl_free(&(*outcome)->squares);
        icl_free(&(*outcome)->lines);
        icl_free(&(*outcome)->predictions);
    }
    icl_free(outcome);
}

/* Mean over rows of a column of squares, less another column's where there is one, and its standard error. */
static void mean_of(const icl_predict_outcome *outcome, size_t column, const double *less, double *mean,
                    double *standard_error) {
    const double count = (double)outcome->labelled;
    double sum = 0, square = 0;

    for (size_t i = 0; i < outcome->labelled; i++)
        sum += outcome->squares[i * ICL_PREDICTORS + column] - (less ? less[i * ICL_PREDICTORS] : 0);
    *mean = sum / count;
    for (size_t i = 0; i < outcome->labelled; i++) {
        const double value =
            outcome->squares[i * ICL_PREDICTORS + column] - (less ? less[i * ICL_PREDICTORS] : 0);
        square += (value - *mean) * (value - *mean);
    }
    *standard_error = sqrt(square / (count - 1) / count);
}

void icl_predict_score_all(icl_predict_outcome *outcome) {
    for (size_t i = 0; i < ICL_PREDICTORS; i++) {
        icl_predict_score *made = &outcome->scores[i];
        mean_of(outcome, i, NULL, &made->mse, &made->se);
        mean_of(outcome, i, outcome->squares, &made->minus_model, &made->minus_model_se);
    }
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        outcome->scores[i].r_squared =
            1 - outcome->scores[i].mse / outcome->scores[1 + ICL_REFERENCE_MEAN].mse;
}
