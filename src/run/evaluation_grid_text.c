/* Evaluation grids as text: tables for people, CSV, lines of JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/evaluation_grid.h"
#include "iclab/json.h"
#include "iclab/text.h"
#include "run/evaluation_text.h"

/* ---- For people ---- */

/* The width of a column that holds a key and its values. */
static int width_of(const icl_evaluation_grid *grid, size_t axis) {
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
        ICL_CHECK(icl_text_print(table, error, "%-*s ", width_of(grid, axis), icl_evaluation_grid_axis(grid, axis)));
    for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++)
        ICL_CHECK(icl_text_print(table, error, " %11s%s", icl_evaluation_grid_predictor(grid, i),
                                 i == 0 ? "          se" : ""));
    return icl_text_print(table, error, "\n");
}

/* One line for each cell. */
static icl_status add_cells(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    char text[16];

    ICL_CHECK(add_header(table, grid, error));
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++) {
        for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
            ICL_CHECK(icl_text_print(table, error, "%-*s ", width_of(grid, axis),
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

/* The model's loss, the second key's values side by side. */
static icl_status add_matrix(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    const size_t rows = icl_evaluation_grid_values(grid, 0), columns = icl_evaluation_grid_values(grid, 1);
    const int first = width_of(grid, 0), others = width_of(grid, 1) > 11 ? width_of(grid, 1) : 11;
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

/* "  ols: in 2 of 3 cells (5, 10)": of one key, the values are named. */
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

static icl_status write_table(icl_text *table, const icl_evaluation_grid *grid, icl_error *error) {
    ICL_CHECK(add_cells(table, grid, error));
    if (icl_evaluation_grid_axes(grid) > 1)
        ICL_CHECK(add_matrix(table, grid, error));
    return add_footer(table, grid, error);
}

/* ---- For programs ---- */

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

static icl_status add_row(icl_text *csv, const icl_score *score, icl_error *error) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = icl_score_metrics(score, metrics);

    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_text_number_field(csv, metrics[i].value, ",", error));
    return icl_text_field(csv, score->constants, "\n", error);
}

static icl_status write_json(icl_text *lines, const icl_evaluation_grid *grid, size_t cell, const icl_score *score,
                             icl_error *error) {
    icl_json json = {0};
    icl_status status = ICL_OK;
    char *line = NULL;

    for (size_t axis = 0; axis < icl_evaluation_grid_axes(grid); axis++)
        icl_json_text(&json, icl_evaluation_grid_axis(grid, axis), icl_evaluation_grid_value(grid, cell, axis));
    icl_score_add_json(score, &json);
    ICL_TRY(icl_json_finish(&json, false, &line, error));
    ICL_TRY(icl_text_print(lines, error, "%s\n", line));
done:
    icl_text_free(&line);
    return status;
}

static icl_status write_rows(icl_text *csv, icl_text *json, const icl_evaluation_grid *grid, icl_error *error) {
    icl_metric metrics[ICL_SCORE_METRICS];
    const size_t count = icl_score_metrics(icl_evaluation_grid_score(grid, 0, 0), metrics);

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
            ICL_CHECK(add_row(csv, score, error));
            ICL_CHECK(write_json(json, grid, cell, score, error));
        }
    return ICL_OK;
}

static icl_status write_positions(icl_text *csv, const icl_evaluation_grid *grid, icl_error *error) {
    for (size_t cell = 0; cell < icl_evaluation_grid_cells(grid); cell++)
        for (size_t i = 0; i < icl_evaluation_grid_predictors(grid); i++) {
            const icl_score *score = icl_evaluation_grid_score(grid, cell, i);
            for (size_t s = 0; score && s < score->position_count; s++) {
                const icl_position_score *at = &score->positions[s];
                if (csv->length == 0) {
                    ICL_CHECK(add_names(csv, grid, error));
                    ICL_CHECK(icl_text_print(csv, error, "position,%s,se,accuracy,minus_model,minus_model_se\n",
                                             icl_loss_key(score)));
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

/* ---- All of it ---- */

enum { TABLE = 0, CSV, JSON, POSITIONS, TEXTS };

icl_status icl_evaluation_grid_write_texts(const icl_evaluation_grid *grid, icl_evaluation_grid_texts *texts,
                                           icl_error *error) {
    char **const made[TEXTS] = {&texts->table, &texts->csv, &texts->json, &texts->positions_csv};
    icl_text written[TEXTS] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(write_table(&written[TABLE], grid, error));
    ICL_TRY(write_rows(&written[CSV], &written[JSON], grid, error));
    ICL_TRY(write_positions(&written[POSITIONS], grid, error));
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
