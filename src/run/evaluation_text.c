/* Evaluations as text: a table for people, lines of JSON for programs. */
#include "run/evaluation_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"

const char *icl_loss_key(const icl_score *score) {
    return score->loss_kind == ICL_LOSS_SQUARED_ERROR ? "mse" : "loss";
}

/* ---- One list of names ---- */

size_t icl_score_metrics(const icl_score *score, icl_metric metrics[ICL_SCORE_METRICS]) {
    enum { ACCURACY = 2, FIRST_DISTANCE = 5 };
    const icl_metric all[ICL_SCORE_METRICS] = {{icl_loss_key(score), score->mse},
                                               {"se", score->se},
                                               {"accuracy", score->accuracy},
                                               {"minus_model", score->minus_model},
                                               {"minus_model_se", score->minus_model_se},
                                               {"adjusted", score->adjusted},
                                               {"adjusted_se", score->adjusted_se},
                                               {"half_adjusted", score->half_adjusted},
                                               {"half_adjusted_se", score->half_adjusted_se},
                                               {"half_minus_model", score->half_minus_model},
                                               {"half_minus_model_se", score->half_minus_model_se},
                                               {"half_above_bayes", score->half_above_bayes},
                                               {"half_median", 0.5 * score->adjusted_median},
                                               {"half_trimmed", 0.5 * score->adjusted_trimmed}};
    const size_t last = isnan(score->half_adjusted) ? FIRST_DISTANCE : ICL_SCORE_METRICS; /* without an oracle */
    size_t count = 0;

    for (size_t i = 0; i < last; i++)
        if (i != ACCURACY || icl_loss_has_accuracy(score->loss_kind))
            metrics[count++] = all[i];
    return count;
}

/* A standard error stands behind its mean, under a short name. */
void icl_score_columns(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]) {
    const icl_metric shown[ICL_SCORE_COLUMNS] = {{icl_loss_key(score), score->mse},
                                                 {"se", score->se},
                                                 {"half_adjusted", score->half_adjusted},
                                                 {"se", score->half_adjusted_se},
                                                 {"half_above_bayes", score->half_above_bayes},
                                                 {"half_median", 0.5 * score->adjusted_median},
                                                 {"half_trimmed", 0.5 * score->adjusted_trimmed},
                                                 {"half_minus_model", score->half_minus_model},
                                                 {"se", score->half_minus_model_se}};
    memcpy(columns, shown, sizeof shown);
}

/* ---- JSON ---- */

static void add_positions(icl_json *json, const icl_score *score) {
    for (size_t s = 0; s < score->position_count; s++) {
        const icl_position_score *at = &score->positions[s];
        icl_json row = {0};
        icl_json_count(&row, "position", at->position);
        icl_json_number(&row, icl_loss_key(score), at->loss);
        icl_json_number(&row, "se", at->se);
        if (icl_loss_has_accuracy(score->loss_kind))
            icl_json_number(&row, "accuracy", at->accuracy);
        icl_json_number(&row, "minus_model", at->minus_model);
        icl_json_number(&row, "minus_model_se", at->minus_model_se);
        icl_json_append(json, "positions", &row);
    }
}

void icl_score_add_json(const icl_score *score, icl_json *json) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = icl_score_metrics(score, metrics);

    icl_json_text(json, "predictor", score->predictor);
    for (size_t i = 0; i < count; i++)
        icl_json_number(json, metrics[i].name, metrics[i].value);
    icl_json_text(json, "constants", score->constants);
    add_positions(json, score);
}

icl_status icl_score_json(const icl_score *score, char **text, icl_error *error) {
    icl_json json = {0};

    icl_score_add_json(score, &json);
    return icl_json_finish(&json, false, text, error);
}

const char *icl_loss_text(double value, char text[16]) {
    if (isnan(value))
        snprintf(text, 16, "-");
    else if (value == 0 || (fabs(value) >= 0.001 && fabs(value) < 10000))
        icl_print(text, 16, "%.4f", value);
    else
        icl_print(text, 16, "%.2e", value);
    return text;
}

/* ---- Columns of tables ---- */

/* Of a column that has this name on top and numbers as wide as `least` below. */
static int width_of(const char *name, int least) {
    const int length = (int)strlen(name);
    return length > least ? length : least;
}

static void write_row(FILE *stream, const icl_score *score, bool is_header) {
    icl_metric columns[ICL_SCORE_COLUMNS];
    char text[16];

    icl_score_columns(score, columns);
    fprintf(stream, "%-12s", is_header ? "predictor" : score->predictor);
    for (size_t i = 0; i < ICL_SCORE_SHOWN; i++)
        fprintf(stream, " %*s", width_of(columns[i].name, 11),
                is_header ? columns[i].name : icl_loss_text(columns[i].value, text));
    fputc('\n', stream);
}

static void write_constants(FILE *stream, const icl_evaluation *evaluation) {
    bool first = true;
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        if (score->constants[0] == '\0')
            continue;
        fprintf(stream, "%s%s: %s", first ? "constants: " : "\n           ", score->predictor, score->constants);
        first = false;
    }
    if (!first)
        fputc('\n', stream);
}

icl_standing icl_score_standing(const icl_score *reference) {
    const bool is_adjusted = !isnan(reference->half_minus_model);
    const double difference = is_adjusted ? reference->half_minus_model : reference->minus_model;
    const double margin = 2 * (is_adjusted ? reference->half_minus_model_se : reference->minus_model_se);

    return difference > margin ? ICL_BETTER : difference < -margin ? ICL_WORSE : ICL_ALIKE;
}

/* "better than: ols (1.4745 +- 0.0163), constrr (0.1214 +- 0.0012)": those of one verdict. */
static void write_references(FILE *stream, const icl_evaluation *evaluation, icl_standing verdict) {
    static const char *const words[] = {[ICL_BETTER] = "the model is better than",
                                        [ICL_WORSE] = "worse than",
                                        [ICL_ALIKE] = "not clearly different from"};
    char difference[16], standard_error[16];
    size_t count = 0;

    for (size_t i = 1; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        const bool is_adjusted = !isnan(score->half_minus_model);
        if (icl_score_standing(score) != verdict)
            continue;
        fprintf(stream, "%s%s %s (%s +- %s)", count == 0 ? words[verdict] : "", count == 0 ? ":" : ",",
                score->predictor, icl_loss_text(is_adjusted ? score->half_minus_model : score->minus_model, difference),
                icl_loss_text(is_adjusted ? score->half_minus_model_se : score->minus_model_se, standard_error));
        count++;
    }
    if (count > 0 || verdict == ICL_BETTER)
        fprintf(stream, "%s\n", count > 0 ? "" : "the model is better than: none of them");
}

static void write_verdict(FILE *stream, const icl_evaluation *evaluation) {
    if (evaluation->count < 2)
        return;
    fputc('\n', stream);
    write_references(stream, evaluation, ICL_BETTER);
    write_references(stream, evaluation, ICL_WORSE);
    write_references(stream, evaluation, ICL_ALIKE);
    fprintf(stream, "(%s less the model's, sequence by sequence, +- its standard error: clear from 2 of these on)\n",
            isnan(evaluation->scores[1].half_minus_model) ? icl_loss_key(evaluation->scores) : "half_adjusted");
}

/* ---- Tasks without an oracle ---- */

static void write_means(FILE *stream, const icl_evaluation *evaluation) {
    const icl_score *model = &evaluation->scores[0];
    const bool has_accuracy = icl_loss_has_accuracy(model->loss_kind);
    char text[16];
    int names = 12;

    for (size_t i = 0; i < evaluation->count; i++)
        names = width_of(evaluation->scores[i].predictor, names);
    fprintf(stream, "%-*s %11s %11s%s\n", names, "predictor", icl_loss_key(model), "se",
            has_accuracy ? "    accuracy" : "");
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        fprintf(stream, "%-*s", names, score->predictor);
        fprintf(stream, " %11s", icl_loss_text(score->mse, text));
        fprintf(stream, " %11s", icl_loss_text(score->se, text));
        if (has_accuracy)
            fprintf(stream, " %11s", icl_loss_text(score->accuracy, text));
        fputc('\n', stream);
    }
}

/* Rows of the curve that a table shows: all, or so many at even distances, the first and the last among them. */
enum { MOST_ROWS = 20 };

static void write_curve(FILE *stream, const icl_evaluation *evaluation) {
    const icl_score *scores = evaluation->scores;
    const size_t count = scores[0].position_count, rows = count < MOST_ROWS ? count : MOST_ROWS;
    char text[16];

    if (count == 0)
        return;
    fprintf(stream, "\n%-12s", "position");
    for (size_t i = 0; i < evaluation->count; i++)
        fprintf(stream, " %11s", scores[i].predictor);
    fputc('\n', stream);
    for (size_t row = 0; row < rows; row++) {
        const size_t s = row * (count - 1) / (rows - 1);
        fprintf(stream, "%-12zu", scores[0].positions[s].position);
        for (size_t i = 0; i < evaluation->count; i++)
            fprintf(stream, " %*s", width_of(scores[i].predictor, 11),
                    icl_loss_text(scores[i].positions[s].loss, text));
        fputc('\n', stream);
    }
}

static void write_plain(FILE *stream, const icl_evaluation *evaluation) {
    write_means(stream, evaluation);
    write_curve(stream, evaluation);
    write_verdict(stream, evaluation);
    write_constants(stream, evaluation);
    fprintf(stream, "\n%" PRIu64 " fresh sequences, mean %s; se is its standard error.\n", evaluation->sequences,
            icl_loss_name(evaluation->scores[0].loss_kind));
}

/* ---- Linear regression ---- */

static void write_adjusted(FILE *stream, const icl_evaluation *evaluation) {
    write_row(stream, &evaluation->scores[0], true);
    for (size_t i = 0; i < evaluation->count; i++)
        write_row(stream, &evaluation->scores[i], false);
    write_curve(stream, evaluation);
    write_verdict(stream, evaluation);
    write_constants(stream, evaluation);
    fprintf(stream,
            "\n%" PRIu64
            " fresh sequences; se: one standard error of the mean before it. half_adjusted: half the mean\n"
            "squared distance to the oracle's prediction (ridge that knows sigma); half_above_bayes: the same to the "
            "best\n"
            "prediction possible without knowing sigma; half_median and half_trimmed (without the largest 1 %%) "
            "instead of the\n"
            "mean of half_adjusted show whether a few sequences carry it.\n",
            evaluation->sequences);
}

icl_status icl_evaluation_table(const icl_evaluation *evaluation, char **text, icl_error *error) {
    const bool is_plain = isnan(evaluation->scores[0].half_adjusted); /* without an oracle */
    icl_status status = ICL_OK;
    char *memory = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&memory, &size);

    if (!stream)
        return icl_fail(error, ICL_ERROR_MEMORY, "table: no memory");
    (is_plain ? write_plain : write_adjusted)(stream, evaluation);
    if (fclose(stream) != 0 || !memory)
        status = icl_fail(error, ICL_ERROR_MEMORY, "table: no memory");
    else
        status = icl_duplicate(memory, text, error);
    free(memory);
    return status;
}
