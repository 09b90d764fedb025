/* Evaluations as text: a table for people, lines of JSON for programs. */
#include "lab/evaluation_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/json.h"
#include "iclab/evaluate.h"

icl_status icl_score_json(const icl_score *score, char **text, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "predictor", score->predictor);
    icl_json_number(&json, "mse", score->mse);
    icl_json_number(&json, "se", score->se);
    icl_json_number(&json, "adjusted", score->adjusted);
    icl_json_number(&json, "half_adjusted", score->half_adjusted);
    icl_json_number(&json, "half_adjusted_se", score->half_adjusted_se);
    icl_json_number(&json, "half_above_bayes", score->half_above_bayes);
    icl_json_number(&json, "adjusted_median", score->adjusted_median);
    icl_json_number(&json, "adjusted_trimmed", score->adjusted_trimmed);
    icl_json_text(&json, "constants", score->constants);
    return icl_json_finish(&json, false, text, error);
}

const char *icl_loss_text(double value, char text[16]) {
    if (isnan(value))
        snprintf(text, 16, "-");
    else if (value == 0 || (fabs(value) >= 0.001 && fabs(value) < 10000))
        snprintf(text, 16, "%.4f", value);
    else
        snprintf(text, 16, "%.2e", value);
    return text;
}

void icl_score_columns(const icl_score *score, double values[ICL_SCORE_COLUMNS]) {
    const double shown[ICL_SCORE_COLUMNS] = {score->mse,
                                             score->se,
                                             score->half_adjusted,
                                             score->half_adjusted_se,
                                             score->half_above_bayes,
                                             0.5 * score->adjusted_median,
                                             0.5 * score->adjusted_trimmed};
    memcpy(values, shown, sizeof shown);
}

static void write_row(FILE *stream, const icl_score *score) {
    double numbers[ICL_SCORE_COLUMNS];
    char text[16];

    icl_score_columns(score, numbers);
    fprintf(stream, "%-12s", score->predictor);
    for (size_t i = 0; i < ICL_SCORE_COLUMNS; i++)
        fprintf(stream, " %11s", icl_loss_text(numbers[i], text));
    fputc('\n', stream);
}

static void write_constants(FILE *stream, const icl_evaluation *evaluation) {
    bool first = true;
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        if (score->constants[0] == '\0')
            continue;
        fprintf(stream, "%s%s: %s", first ? "constants: " : "\n           ", score->predictor,
                score->constants);
        first = false;
    }
    if (!first)
        fputc('\n', stream);
}

/* Names the predictors that the model beats: by more than two standard errors of either mean together. */
static void write_verdict(FILE *stream, const icl_evaluation *evaluation) {
    const icl_score *model = &evaluation->scores[0];
    size_t beaten = 0;

    if (evaluation->count < 2)
        return;
    fprintf(stream, "\nthe model is better than:");
    for (size_t i = 1; i < evaluation->count; i++) {
        const icl_score *other = &evaluation->scores[i];
        const double margin = 2 * (model->half_adjusted_se + other->half_adjusted_se);
        if (other->half_adjusted - model->half_adjusted > margin)
            fprintf(stream, "%s %s", beaten++ > 0 ? "," : "", other->predictor);
    }
    fprintf(stream, "%s\n", beaten > 0 ? "" : " none of them");
}

icl_status icl_evaluation_table(const icl_evaluation *evaluation, char **text, icl_error *error) {
    icl_status status = ICL_OK;
    char *memory = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&memory, &size);

    if (!stream)
        return icl_fail(error, ICL_ERROR_MEMORY, "table: no memory");
    fprintf(stream, "%-12s %11s %11s %11s %11s %11s %11s %11s\n", "predictor", "mse", "+-", "half adj.", "+-",
            "above Bayes", "median", "trimmed");
    for (size_t i = 0; i < evaluation->count; i++)
        write_row(stream, &evaluation->scores[i]);
    write_verdict(stream, evaluation);
    write_constants(stream, evaluation);
    fprintf(stream,
            "\n%" PRIu64
            " fresh sequences; +- is one standard error. half adj.: half the mean squared distance to the\n"
            "oracle's prediction (ridge that knows sigma); above Bayes: the same to the best prediction "
            "possible without\n"
            "knowing sigma; median and trimmed (without the largest 1 %%) of half adj. show whether a few "
            "sequences carry it.\n",
            evaluation->sequences);
    if (fclose(stream) != 0 || !memory)
        status = icl_fail(error, ICL_ERROR_MEMORY, "table: no memory");
    else
        status = icl_duplicate(memory, text, error);
    free(memory);
    return status;
}
