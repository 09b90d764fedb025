/* A trained model of tables as a method: it is shown the standardized rows, and learns nothing beside. */
#include "core/allocate.h"
#include "predict/method.h"

enum { LEVELS = 4 };

static const double probabilities[LEVELS] = {0.1, 0.25, 0.75, 0.9};

typedef struct shown_rows {
    const icl_lesson *lesson;
} shown_rows;

static icl_status fit(const icl_lesson *lesson, void **fitted, icl_error *error) {
    shown_rows *shown = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *shown, "model", &shown, error));
    shown->lesson = lesson;
    *fitted = shown;
    return ICL_OK;
}

static icl_status predict(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                          icl_error *error) {
    const icl_lesson *lesson = ((const shown_rows *)fitted)->lesson;
    const icl_table_question question = {.features = lesson->features,
                                         .known = lesson->rows,
                                         .asked = count,
                                         .rows = lesson->inputs,
                                         .targets = lesson->labels,
                                         .queries = inputs,
                                         .seed = lesson->seed};
    icl_table_answer answer = {.levels = LEVELS, .probabilities = probabilities};
    icl_status status;

    ICL_TRY(icl_allocate(count, sizeof(double), "means", &answer.means, error));
    ICL_TRY(icl_allocate(count, LEVELS * sizeof(double), "quantiles", &answer.quantiles, error));
    ICL_TRY(icl_table_model_predict(lesson->model, &question, &answer, error));
    for (size_t i = 0; i < count; i++) {
        const double *quantiles = answer.quantiles + i * LEVELS;
        forecasts[i] = (icl_forecast){.mean = answer.means[i],
                                      .low_80 = quantiles[0],
                                      .low_50 = quantiles[1],
                                      .high_50 = quantiles[2],
                                      .high_80 = quantiles[3]};
    }
done:
    icl_free(&answer.means);
    icl_free(&answer.quantiles);
    return status;
}

static void destroy(void **fitted) {
    icl_free(fitted);
}

const icl_method_functions icl_model_method = {"model", false, fit, predict, destroy};
