/* Notes warn a user of predictions that should not be trusted. */
#include <math.h>

#include "iclab/predict.h"
#include "predict/references.h"

/* A context so many times as long as those of training deserves a model of its own. */
#define MORE_ROWS 2

/* A component of less than this share of the largest variance is learned from, but it may throw a new row far away. */
#define WEAK_SHARE 1e-6

/* The part of a unit vector that makes a feature one of those that a component is made of. */
#define LOADING 0.1

static icl_status note_scores(const icl_predict_outcome *outcome, icl_text *notes, icl_error *error) {
    const icl_predict_score *mean = &outcome->scores[1 + ICL_REFERENCE_MEAN];

    if (outcome->folds > 0 && outcome->scores[0].r_squared < 0 && icl_predict_verdict(mean) == 1)
        ICL_CHECK(icl_text_print(notes, error,
                                 "the model's error is above that of the mean of the labels (r_squared %.2g): it has "
                                 "nothing to say about this table\n",
                                 outcome->scores[0].r_squared));
    if (outcome->context > MORE_ROWS * outcome->trained_context)
        ICL_CHECK(
            icl_text_print(notes, error,
                           "it was trained on %zu rows at once: one trained with task.n = %zu would trust so many "
                           "more\n",
                           outcome->trained_context, outcome->context));
    if (outcome->not_finite > 0)
        ICL_CHECK(icl_text_print(notes, error,
                                 "%zu of the model's predictions are not finite: these rows are unlike what it was "
                                 "trained on\n",
                                 outcome->not_finite));
    return ICL_OK;
}

/* Rows without a target whose prediction lies farther outside the labels than these span. */
static icl_status note_far_rows(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                                icl_error *error) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    size_t far = 0;

    for (size_t i = 0; i < outcome->labelled; i++) {
        const double label = table->values[(outcome->rows[i] + 1) * table->columns - 1];
        least = fmin(least, label);
        most = fmax(most, label);
    }
    for (size_t i = 0; i < outcome->predicted; i++) {
        const double prediction = outcome->predictions[i * ICL_PREDICTORS];
        far += prediction < least - (most - least) || prediction > most + (most - least);
    }
    if (far == 0)
        return ICL_OK;
    return icl_text_print(
        notes, error,
        "%zu of the model's %zu predictions for new rows lie far outside the labels, %.4g to %.4g: these rows are "
        "unlike those learned from\n",
        far, outcome->predicted, least, most);
}

/* Whether components [first, end) make up a visible part of a feature that varies. */
static bool loads(const icl_standardization *z, size_t feature, size_t first, size_t end) {
    double square = 0;

    for (size_t k = first; k < end; k++)
        square += z->eigenvectors[k * z->features + feature] * z->eigenvectors[k * z->features + feature];
    return z->deviations[feature] > 0 && square > LOADING * LOADING;
}

/* Names the features that components [first, end) are made of, if there are two or more. */
static icl_status name_features(const icl_standardization *z, const icl_table *table, size_t first, size_t end,
                                const char *consequence, icl_text *notes, icl_error *error) {
    size_t count = 0;

    for (size_t k = 0; k < z->features; k++)
        count += loads(z, k, first, end);
    if (count < 2)
        return ICL_OK;
    ICL_CHECK(icl_text_print(notes, error, "columns"));
    for (size_t k = 0, named = 0; k < z->features; k++)
        if (loads(z, k, first, end))
            ICL_CHECK(icl_text_print(notes, error, "%s %s", named++ > 0 ? "," : "", table->names[k]));
    return icl_text_print(notes, error, " nearly determine each other: %s\n", consequence);
}

/* With no more rows than features these determine each other whatever they are. */
static icl_status note_dependent(const icl_standardization *z, const icl_table *table, icl_text *notes,
                                 icl_error *error) {
    const size_t p = z->features, kept = p - z->rank;
    size_t strong = kept;

    if (z->rows > p)
        ICL_CHECK(name_features(z, table, 0, kept, "what they differ by is left out of what is learned", notes, error));
    while (strong < p && z->eigenvalues[strong] < WEAK_SHARE * z->eigenvalues[p - 1])
        strong++;
    return name_features(z, table, kept, strong, "where a new row breaks that, its prediction goes astray", notes,
                         error);
}

/* Whether a column holds different numbers in the rows that were learned from. */
static bool varies(const icl_predict_outcome *outcome, const icl_table *table, size_t column) {
    const double *values = table->values + column;

    for (size_t i = 1; i < outcome->labelled; i++)
        if (values[outcome->rows[i] * table->columns] != values[outcome->rows[0] * table->columns])
            return true;
    return false;
}

static icl_status note_features(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                                icl_error *error) {
    const icl_standardization *z = &outcome->standardization;
    const size_t p = z->features;
    for (size_t k = 0; k < p; k++)
        if (z->deviations[k] == 0 && varies(outcome, table, k))
            ICL_CHECK(
                icl_text_print(notes, error,
                               "column %s is left out of what is learned: it varies by less than 1e-12 of its size, "
                               "or by less than 1e-162\n",
                               table->names[k]));
    return note_dependent(z, table, notes, error);
}

icl_status icl_predict_notes(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                             icl_error *error) {
    ICL_CHECK(note_scores(outcome, notes, error));
    ICL_CHECK(note_far_rows(outcome, table, notes, error));
    return note_features(outcome, table, notes, error);
}
