/* What iclab predict writes into a folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/csv.h"
#include "iclab/figure.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/text.h"
#include "picture.h"
#include "prediction.h"

/* Opens folder/name with the header's columns, and behind them the predictors'. */
static icl_status create_csv(const char *folder, const char *name, const char *columns, icl_csv **csv,
                             icl_error *error) {
    char header[256];
    char *path = NULL;
    icl_status status;

    snprintf(header, sizeof header, "%s", columns);
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        snprintf(header + strlen(header), sizeof header - strlen(header), ",%s", icl_predictor_name(i));
    ICL_TRY(icl_path_join(folder, name, &path, error));
    ICL_TRY(icl_csv_create(path, header, csv, error));
done:
    icl_free(&path);
    return status;
}

static icl_status write_heldout(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    icl_csv *csv = NULL;
    icl_status status;

    ICL_TRY(create_csv(folder, "heldout.csv", "line,target", &csv, error));
    for (size_t i = 0; i < outcome->labelled; i++) {
        const size_t row = outcome->rows[i];
        double values[1 + ICL_PREDICTORS] = {table->values[(row + 1) * table->columns - 1]};
        memcpy(values + 1, outcome->heldout + i * ICL_PREDICTORS, ICL_PREDICTORS * sizeof *values);
        ICL_TRY(icl_csv_row(csv, table->lines[row], values, 1 + ICL_PREDICTORS, error));
    }
    ICL_TRY(icl_csv_flush(csv, error));
done:
    icl_csv_destroy(&csv);
    return status;
}

static icl_status write_standardization(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_standardization *standardization = &print->outcome->standardization;
    const icl_table *table = print->table;
    icl_text text = {0};
    char *path = NULL;
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "column,number,role,mean,deviation\n"));
    for (size_t i = 0; i < table->columns; i++) {
        ICL_TRY(icl_text_field(&text, table->names[i], ",", error));
        ICL_TRY(
            icl_text_print(&text, error, "%zu,%s,", table->numbers[i], i + 1 < table->columns ? "feature" : "target"));
        ICL_TRY(icl_text_number_field(&text, standardization->means[i], ",", error));
        ICL_TRY(icl_text_number_field(&text, standardization->deviations[i], "\n", error));
    }
    ICL_TRY(icl_path_join(folder, "standardization.csv", &path, error));
    ICL_TRY(icl_file_write(path, text.bytes, text.length, error));
done:
    icl_text_release(&text);
    icl_free(&path);
    return status;
}

static icl_status write_predictions(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_predict_outcome *outcome = print->outcome;
    icl_csv *csv = NULL;
    icl_status status;

    ICL_TRY(create_csv(folder, "predictions.csv", "line", &csv, error));
    for (size_t i = 0; i < outcome->predicted; i++)
        ICL_TRY(icl_csv_row(csv, outcome->lines[i], outcome->predictions + i * ICL_PREDICTORS, ICL_PREDICTORS, error));
    ICL_TRY(icl_csv_flush(csv, error));
done:
    icl_csv_destroy(&csv);
    return status;
}

/* The model's predictions and those of least squares over the targets; on the dashed line they are equal. */
static icl_status draw_heldout(const prediction_print *print, const icl_drawing *drawing, icl_error *error) {
    enum { SERIES = 3, OLS = 1 + ICL_REFERENCE_OLS };
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    const size_t count = outcome->labelled;
    const char *target = table->names[table->columns - 1];
    double *values = NULL, ends[2] = {HUGE_VAL, -HUGE_VAL};
    icl_text labels[2] = {{0}, {0}};
    icl_status status;

    ICL_TRY(icl_allocate(SERIES * count, sizeof *values, "points of a figure", &values, error));
    for (size_t i = 0; i < count; i++) {
        values[i] = table->values[(outcome->rows[i] + 1) * table->columns - 1];
        values[count + i] = outcome->heldout[i * ICL_PREDICTORS];
        values[2 * count + i] = outcome->heldout[i * ICL_PREDICTORS + OLS];
        ends[0] = fmin(ends[0], values[i]);
        ends[1] = fmax(ends[1], values[i]);
    }
    ICL_TRY(icl_text_print(&labels[0], error, "%s, as it is", target));
    ICL_TRY(icl_text_print(&labels[1], error, "%s, predicted from other rows", target));
    const icl_series series[SERIES] = {
        {"model", ICL_SERIES_CLOUD, count, values, values + count, NULL},
        {"ols", ICL_SERIES_PUBLISHED, count, values, values + 2 * count, NULL},
        {"equal", ICL_SERIES_REFERENCE, 2, ends, ends, NULL},
    };
    const icl_figure figure = {.name = "predicted",
                               .title = "Rows held out",
                               .x_label = labels[0].bytes,
                               .y_label = labels[1].bytes,
                               .count = SERIES,
                               .series = series};
    ICL_TRY(icl_figure_write(drawing, &figure, error));
done:
    icl_free(&values);
    icl_text_release(&labels[0]);
    icl_text_release(&labels[1]);
    return status;
}

icl_status write_prediction(const prediction_print *print, const char *folder, bool *is_undrawn, icl_error *error) {
    const icl_drawing drawing = {folder, "iclab predict", draw_figure, is_undrawn};

    ICL_CHECK(icl_folder_create(folder, error));
    ICL_CHECK(write_heldout(print, folder, error));
    ICL_CHECK(write_standardization(print, folder, error));
    if (print->outcome->predicted > 0)
        ICL_CHECK(write_predictions(print, folder, error));
    return draw_heldout(print, &drawing, error);
}
