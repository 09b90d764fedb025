/* What predictions come to: held-out errors, summed up. */
#include "predict/outcome.h"

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "predict/references.h"

const char *icl_predictor_name(size_t predictor) {
    return predictor == 0 ? "model" : icl_reference_name((icl_reference)(predictor - 1));
}

int icl_predict_verdict(const icl_predict_score *score) {
    const double margin = 2 * score->minus_model_se;
    return score->minus_model > margin ? 0 : score->minus_model < -margin ? 1 : 2;
}

void icl_predict_outcome_destroy(icl_predict_outcome **outcome) {
    if (*outcome) {
        icl_standardization_release(&(*outcome)->standardization);
        icl_free(&(*outcome)->fills);
        icl_free(&(*outcome)->rows);
        icl_free(&(*outcome)->heldout);
        icl_free(&(*outcome)->squares);
        icl_free(&(*outcome)->lines);
        icl_free(&(*outcome)->predictions);
    }
    icl_free(outcome);
}

/* Mean and standard error over rows of one column of squared errors, less another column's where `less` is one. */
static void measure(const icl_predict_outcome *outcome, size_t column, size_t less, double *differences, double *mean,
                    double *standard_error) {
    for (size_t i = 0; i < outcome->labelled; i++) {
        const double *squares = outcome->squares + i * ICL_PREDICTORS;
        differences[i] = squares[column] - (less < ICL_PREDICTORS ? squares[less] : 0);
    }
    *mean = icl_mean(differences, outcome->labelled);
    *standard_error = icl_standard_error(differences, outcome->labelled);
}

icl_status icl_predict_score_all(icl_predict_outcome *outcome, icl_error *error) {
    double *differences = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(outcome->labelled, sizeof *differences, "errors", &differences, error));
    for (size_t i = 0; i < ICL_PREDICTORS; i++) {
        icl_predict_score *made = &outcome->scores[i];
        measure(outcome, i, ICL_PREDICTORS, differences, &made->mse, &made->se);
        measure(outcome, i, 0, differences, &made->minus_model, &made->minus_model_se);
    }
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        outcome->scores[i].r_squared = 1 - outcome->scores[i].mse / outcome->scores[1 + ICL_REFERENCE_MEAN].mse;
done:
    icl_free(&differences);
    return status;
}
