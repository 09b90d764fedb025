#include "predict/check.h"

#include <math.h>
#include <string.h>

/* The option that brings features back. */
static const char *hint_of_left_out(const icl_table *table) {
    size_t left_out = 0;

    for (size_t i = 0; i < table->step_count; i++) {
        if (strstr(table->steps[i].text, "--one-hot"))
            return "; --one-hot makes columns of text";
        left_out += strcmp(table->steps[i].what, "left-out") == 0;
    }
    return left_out > 0 ? "; --columns takes one that was left out" : "; --separator says what separates columns";
}

static icl_status check_features(const icl_predict_params *params, size_t dimension, icl_error *error) {
    const icl_table *table = params->table;
    const size_t features = table->columns > 0 ? table->columns - 1 : 0;

    if (features == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no column beside the target: expected at least one feature%s",
                        table->name, params->without_options ? "" : hint_of_left_out(table));
    if (features > dimension)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s: %zu features: expected at most %zu, the d of the model in %s; %s a model with %stask.d=%zu",
            table->name, features, dimension, params->folder,
            params->without_options ? "train" : "--columns and --exclude choose among them, or train",
            params->without_options ? "" : "--set ", features);
    if (params->fresh && params->fresh->columns != features)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu column%s: expected %zu, the features of %s",
                        params->fresh->name, params->fresh->columns, params->fresh->columns == 1 ? "" : "s", features,
                        table->name);
    return ICL_OK;
}

/* Missing values are allowed. */
static icl_status check_values(const icl_table *table, icl_error *error) {
    for (size_t i = 0; i < table->rows; i++)
        for (size_t k = 0; k < table->columns; k++)
            if (fabs(table->values[i * table->columns + k]) > ICL_TABLE_MAX_VALUE)
                return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: column %zu: %g: expected a magnitude of at most %g",
                                table->name, table->lines[i], k + 1, table->values[i * table->columns + k],
                                ICL_TABLE_MAX_VALUE);
    return ICL_OK;
}

icl_status icl_predict_check(const icl_predict_params *params, size_t dimension, icl_error *error) {
    ICL_CHECK(check_features(params, dimension, error));
    ICL_CHECK(check_values(params->table, error));
    if (params->fresh)
        ICL_CHECK(check_values(params->fresh, error));
    if (!params->without_held_out && params->folds == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: 1 fold: expected 2 or more, or 0 for the default",
                        params->table->name);
    return ICL_OK;
}
