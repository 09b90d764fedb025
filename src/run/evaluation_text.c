/* Evaluations and evaluation grids as text: tables for people, CSV, lines of JSON. */
#include "run/evaluation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/evaluate.h"
#include "iclab/json.h"
#include "iclab/text.h"
#include "run/evaluation_grid.h"

/* ---- Evaluations ---- */

static const char *loss_key(const icl_score *score) {
    return score->loss_kind == ICL_LOSS_SQUARED_ERROR ? "mse" : "loss";
}

static size_t list_metrics(const icl_score *score, icl_metric metrics[ICL_SCORE_METRICS]) {
    enum { ACCURACY = 2, FIRST_BITS, FIRST_AFTER_BITS = 5, FIRST_DISTANCE = 7 };
    const icl_metric all[ICL_SCORE_METRICS] = {{loss_key(score), score->mse},
                                               {"se", score->se},
                                               {"accuracy", score->accuracy},
                                               {"bits_per_byte", score->bits_per_byte},
                                               {"bits_per_byte_se", score->bits_per_byte_se},
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

    for (size_t i = 0; i < last; i++) {
        const bool is_of_bits = i >= FIRST_BITS && i < FIRST_AFTER_BITS;
        if (is_of_bits ? !isnan(score->bits_per_byte) : i != ACCURACY || icl_loss_has_accuracy(score->loss_kind))
            metrics[count++] = all[i];
    }
    return count;
}

/* A standard error follows its mean, under a short name. */
void icl_score_columns(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]) {
    const icl_metric shown[ICL_SCORE_COLUMNS] = {{loss_key(score), score->mse},
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

static void add_positions(icl_json *json, const icl_score *score) {
    for (size_t s = 0; s < score->position_count; s++) {
        const icl_position_score *at = &score->positions[s];
        icl_json row = {0};
        icl_json_count(&row, "position", at->position);
        icl_json_number(&row, loss_key(score), at->loss);
        icl_json_number(&row, "se", at->se);
        if (!isnan(score->bits_per_byte))
            icl_json_number(&row, "bits_per_byte", at->loss / log(2));
        if (icl_loss_has_accuracy(score->loss_kind))
            icl_json_number(&row, "accuracy", at->accuracy);
        icl_json_number(&row, "minus_model", at->minus_model);
        icl_json_number(&row, "minus_model_se", at->minus_model_se);
        icl_json_append(json, "positions", &row);
    }
}

static void add_score_json(const icl_score *score, icl_json *json) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = list_metrics(score, metrics);

    icl_json_text(json, "predictor", score->predictor);
    for (size_t i = 0; i < count; i++)
        icl_json_number(json, metrics[i].name, metrics[i].value);
    icl_json_text(json, "constants", score->constants);
    add_positions(json, score);
}

icl_status icl_score_json(const icl_score *score, char **text, icl_error *error) {
    icl_json json = {0};

    add_score_json(score, &json);
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

/* Returns the width of a column that has this name on top and numbers as wide as `least` below. */
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

/* Writes "better than: ols (1.4745 +- 0.0163), constrr (0.1214 +- 0.0012)": the predictors with one verdict. */
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
            isnan(evaluation->scores[1].half_minus_model) ? loss_key(evaluation->scores) : "half_adjusted");
}

static void write_means(FILE *stream, const icl_evaluation *evaluation) {
    const icl_score *model = &evaluation->scores[0];
    const bool has_accuracy = icl_loss_has_accuracy(model->loss_kind), is_of_bits = !isnan(model->bits_per_byte);
    char text[16];
    int names = 12;

    for (size_t i = 0; i < evaluation->count; i++)
        names = width_of(evaluation->scores[i].predictor, names);
    fprintf(stream, "%-*s%s %11s %11s%s\n", names, "predictor", is_of_bits ? " bits_per_byte          se" : "",
            loss_key(model), "se", has_accuracy ? "    accuracy" : "");
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        fprintf(stream, "%-*s", names, score->predictor);
        if (is_of_bits) {
            fprintf(stream, " %13s", icl_loss_text(score->bits_per_byte, text));
            fprintf(stream, " %11s", icl_loss_text(score->bits_per_byte_se, text));
        }
        fprintf(stream, " %11s", icl_loss_text(score->mse, text));
        fprintf(stream, " %11s", icl_loss_text(score->se, text));
        if (has_accuracy)
            fprintf(stream, " %11s", icl_loss_text(score->accuracy, text));
        fputc('\n', stream);
    }
}

/* The most rows of the curve that a table shows: all if there are no more, else evenly spaced ones with the first and
 * the last. */
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
    if (evaluation->text[0] != '\0') {
        fprintf(stream, "\n%s: %" PRIu64 " windows, mean %s; bits_per_byte is it over log 2;\n", evaluation->text,
                evaluation->sequences, icl_loss_name(evaluation->scores[0].loss_kind));
        fprintf(stream, "se is its standard error over the windows. The curve is of the loss.\n");
        return;
    }
    fprintf(stream, "\n%" PRIu64 " fresh sequences, mean %s; se is its standard error.\n", evaluation->sequences,
            icl_loss_name(evaluation->scores[0].loss_kind));
}

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

/* ---- Grids ---- */

/* Returns the width of a column that holds a key and its values. */
static int axis_width(const icl_evaluation_grid *grid, size_t axis) {
    size_t width = strlen(icl_evaluation_grid_axis(grid, axis));

    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++) {
        const size_t length = strlen(icl_evaluation_grid_value(grid, cell, axis));
        width = length > width ? length : width;
    }
    return (int)width;
}

static const char *loss_text(const icl_score *score, char text[16]) {
    return icl_loss_text(score ? score->mse : (double)NAN, text);
}

static icl_status add_header(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
        ICL_CHECK(icl_text_print(table, error, "%-*s ", axis_width(grid, axis), icl_evaluation_grid_axis(grid, axis)));
    for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++)
        ICL_CHECK(icl_text_print(table, error, " %11s%s", icl_evaluation_grid_predictor(grid, i),
                                 i == 0 ? "          se" : ""));
    return icl_text_print(table, error, "\n");
}

/* Adds one line for each cell. */
static icl_status add_cells(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    char text[16];

    ICL_CHECK(add_header(table, grid, error));
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++) {
        for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
            ICL_CHECK(icl_text_print(table, error, "%-*s ", axis_width(grid, axis),
                                     icl_evaluation_grid_value(grid, cell, axis)));
        for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++) {
            const icl_score *score = icl_evaluation_grid_score(grid, cell, i);
            ICL_CHECK(icl_text_print(table, error, " %11s", loss_text(score, text)));
            if (i == 0)
                ICL_CHECK(icl_text_print(table, error, " %11s", icl_loss_text(score->se, text)));
        }
        ICL_CHECK(icl_text_print(table, error, "\n"));
    }
    return ICL_OK;
}

/* Adds the model's loss, with the second key's values side by side. */
static icl_status add_matrix(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    const size_t rows = icl_evaluation_grid_values(grid, 0), columns = icl_evaluation_grid_values(grid, 1);
    const int first = axis_width(grid, 0), others = axis_width(grid, 1) > 11 ? axis_width(grid, 1) : 11;
    char text[16];

    ICL_CHECK(icl_text_print(table, error, "\nthe model, with %s across\n%-*s ", icl_evaluation_grid_axis(grid, 1),
                             first, icl_evaluation_grid_axis(grid, 0)));
    for (size_t column = 0; column < columns; column++)
        ICL_CHECK(icl_text_print(table, error, " %*s", others, icl_evaluation_grid_value(grid, column, 1)));
    for (size_t cell = 0; cell < rows * columns; cell++) {
        if (cell % columns == 0)
            ICL_CHECK(icl_text_print(table, error, "\n%-*s ", first, icl_evaluation_grid_value(grid, cell, 0)));
        ICL_CHECK(
            icl_text_print(table, error, " %*s", others, loss_text(icl_evaluation_grid_score(grid, cell, 0), text)));
    }
    return icl_text_print(table, error, "\n");
}

/* Adds "  ols: in 2 of 3 cells (5, 10)"; the values are named if there is one key. */
static icl_status add_verdict(icl_text *table, const icl_evaluation_grid *grid, size_t predictor, icl_error *error) {
    const size_t cells = icl_evaluation_grid_cells(grid);
    const bool named = icl_evaluation_grid_axes(grid) == 1;
    size_t with = 0, beaten = 0;
    icl_text values = {0};
    icl_status status = ICL_OK;

    for (size_t cell = 0; cell < cells; cell++) {
        const icl_score *other = icl_evaluation_grid_score(grid, cell, predictor);
        with += other != NULL;
        if (other && icl_score_standing(other) == ICL_BETTER)
            ICL_TRY(icl_text_print(&values, error, "%s%s", beaten++ > 0 ? ", " : "",
                                   icl_evaluation_grid_value(grid, cell, 0)));
    }
    ICL_TRY(icl_text_print(table, error, "  %s: ", icl_evaluation_grid_predictor(grid, predictor)));
    if (beaten == 0 || beaten == with)
        ICL_TRY(icl_text_print(table, error, "%s\n", beaten == 0 ? "nowhere" : "everywhere"));
    else
        ICL_TRY(icl_text_print(table, error, "in %zu of %zu cells%s%s%s\n", beaten, with, named ? " (" : "",
                               named ? values.bytes : "", named ? ")" : ""));
done:
    icl_text_release(&values);
    return status;
}

static icl_status add_footer(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    const uint64_t sequences = icl_evaluation_grid_sequences(grid);
    const icl_score *model = icl_evaluation_grid_score(grid, 0, 0);

    if (icl_evaluation_grid_predictors(grid) > 1)
        ICL_CHECK(icl_text_print(
            table, error, "\nthe model is better, by more than 2 standard errors of the paired difference, than\n"));
    for (size_t i = 1; i < icl_evaluation_grid_predictors(grid); i++)
        ICL_CHECK(add_verdict(table, grid, i, error));
    ICL_CHECK(
        icl_text_print(table, error, "\nmean %s on ",
                       model->loss_kind == ICL_LOSS_SQUARED_ERROR ? "squared error" : icl_loss_name(model->loss_kind)));
    if (sequences > 0)
        ICL_CHECK(icl_text_print(table, error, "%" PRIu64 " ", sequences));
    return icl_text_print(table, error, "fresh sequences a cell; se is one standard error, the model's.\n");
}

static icl_status write_grid_table(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    ICL_CHECK(add_cells(table, grid, error));
    if (icl_evaluation_grid_axes(grid) > 1)
        ICL_CHECK(add_matrix(table, grid, error));
    return add_footer(table, grid, error);
}

static icl_status add_values(icl_text *csv, const icl_evaluation_grid *grid, size_t cell, const char *predictor,
                             icl_error *error) {
    for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
        ICL_CHECK(icl_text_field(csv, icl_evaluation_grid_value(grid, cell, axis), ",", error));
    return icl_text_field(csv, predictor, ",", error);
}

static icl_status add_names(icl_text *csv, const icl_evaluation_grid *grid, icl_error *error) {
    for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
        ICL_CHECK(icl_text_field(csv, icl_evaluation_grid_axis(grid, axis), ",", error));
    return icl_text_print(csv, error, "predictor,");
}

static icl_status add_metrics(icl_text *csv, const icl_score *score, icl_error *error) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = list_metrics(score, metrics);

    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_text_number_field(csv, metrics[i].value, ",", error));
    return icl_text_field(csv, score->constants, "\n", error);
}

static icl_status write_grid_json(icl_text *lines, const icl_evaluation_grid *grid, size_t cell, const icl_score *score,
                                  icl_error *error) {
    icl_json json = {0};
    icl_status status = ICL_OK;
    char *line = NULL;

    for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
        icl_json_text(&json, icl_evaluation_grid_axis(grid, axis), icl_evaluation_grid_value(grid, cell, axis));
    add_score_json(score, &json);
    ICL_TRY(icl_json_finish(&json, false, &line, error));
    ICL_TRY(icl_text_print(lines, error, "%s\n", line));
done:
    icl_text_free(&line);
    return status;
}

static icl_status write_grid_rows(icl_text *csv, icl_text *json, const icl_evaluation_grid *grid, icl_error *error) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = list_metrics(icl_evaluation_grid_score(grid, 0, 0), metrics);

    ICL_CHECK(add_names(csv, grid, error));
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_text_print(csv, error, "%s,", metrics[i].name));
    ICL_CHECK(icl_text_print(csv, error, "constants\n"));
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++)
        for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++) {
            const icl_score *score = icl_evaluation_grid_score(grid, cell, i);
            if (!score)
                continue;
            ICL_CHECK(add_values(csv, grid, cell, score->predictor, error));
            ICL_CHECK(add_metrics(csv, score, error));
            ICL_CHECK(write_grid_json(json, grid, cell, score, error));
        }
    return ICL_OK;
}

static icl_status write_grid_positions(icl_text *csv, const icl_evaluation_grid *grid, icl_error *error) {
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++)
        for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++) {
            const icl_score *score = icl_evaluation_grid_score(grid, cell, i);
            for (size_t s = 0; score && s < score->position_count; s++) {
                const icl_position_score *at = &score->positions[s];
                if (csv->length == 0) {
                    ICL_CHECK(add_names(csv, grid, error));
                    ICL_CHECK(icl_text_print(csv, error, "position,%s,se,accuracy,minus_model,minus_model_se\n",
                                             loss_key(score)));
                }
                ICL_CHECK(add_values(csv, grid, cell, score->predictor, error));
                ICL_CHECK(icl_text_print(csv, error, "%zu,", at->position));
                ICL_CHECK(icl_text_number_field(csv, at->loss, ",", error));
                ICL_CHECK(icl_text_number_field(csv, at->se, ",", error));
                ICL_CHECK(icl_text_number_field(csv, at->accuracy, ",", error));
                ICL_CHECK(icl_text_number_field(csv, at->minus_model, ",", error));
                ICL_CHECK(icl_text_number_field(csv, at->minus_model_se, "\n", error));
            }
        }
    return ICL_OK;
}

enum { TABLE = 0, CSV, JSON, POSITIONS, TEXTS };

icl_status icl_evaluation_grid_write_texts(const icl_evaluation_grid *grid, icl_evaluation_grid_texts *texts,
                                           icl_error *error) {
    char **const made[TEXTS] = {&texts->table, &texts->csv, &texts->json, &texts->positions_csv};
    icl_text written[TEXTS] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(write_grid_table(&written[TABLE], grid, error));
    ICL_TRY(write_grid_rows(&written[CSV], &written[JSON], grid, error));
    ICL_TRY(write_grid_positions(&written[POSITIONS], grid, error));
    for (int i = 0; i < TEXTS; i++)
        ICL_TRY(icl_duplicate(written[i].bytes ? written[i].bytes : "", made[i], error));
done:
    for (int i = 0; i < TEXTS; i++)
        icl_text_release(&written[i]);
    return status;
}

void icl_evaluation_grid_free_texts(icl_evaluation_grid_texts *texts) {
    icl_free(&texts->table);
    icl_free(&texts->csv);
    icl_free(&texts->json);
    icl_free(&texts->positions_csv);
}
