/*
 * The loss of trained models at fixed noise levels, after the profiles of Vladymyrov et al. 2024 (arXiv 2402.14180): a
 * model trained for sigma in [0, 5], or {1, 3}, is evaluated at each fixed sigma from 0 to one above the largest,
 * beside ridge regressions whose constants belong to the distribution it was trained on.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "run/sequences.h"

enum { UNIFORM_5 = 5, CHOICE_1_3 = 8, MOST_LEVELS = 16 };

static const char predictor_names[] = "oracle,bayes,ols,constrr,adarr,tunedrr";
enum { ORACLE = 0, BAYES, OLS, CONSTRR, ADARR, TUNEDRR, PREDICTORS, MODEL = 0, ROWS = PREDICTORS };

/* Row 0 is the model's, in place of the oracle, whose loss is zero by definition. */
static const char *const labels[ROWS] = {"", "Bayes-optimal", "OLS", "ConstRR", "AdaRR", "TunedRR"};

typedef struct profile {
    icl_reproducing *run;
    const icl_versatile_model *model;
    const icl_predictors *predictors; /* of the training distribution */
    size_t sequences, levels;
    double sigma[MOST_LEVELS], loss[ROWS][MOST_LEVELS], error[ROWS][MOST_LEVELS];
} profile;

/* Sums of squared distances to the oracle, and of their squares. */
typedef struct sums {
    double squared[ROWS], fourth[ROWS];
} sums;

static void add(sums *s, const icl_sequences *drawn, const double *predictions, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int row = 0; row < ROWS; row++) {
            const double *of = predictions + i * PREDICTORS;
            const double distance = (row == MODEL ? (double)drawn->model[i] : of[row]) - of[ORACLE];
            s->squared[row] += distance * distance;
            s->fourth[row] += distance * distance * distance * distance;
        }
}

static icl_status measure_level(profile *p, size_t level, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_sequences drawn = {0};
    double *predictions = NULL;
    sums s = {{0}, {0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(p->model->recipe, &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.noise=fixed:%g", p->sigma[level]));
    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_sequences_create(p->run->params->backend, task, p->run->params->seed, &drawn, error));
    ICL_TRY(icl_allocate(drawn.chunk * PREDICTORS, sizeof *predictions, "predictions", &predictions, error));
    for (size_t first = 0; first < p->sequences; first += drawn.chunk) {
        const size_t left = p->sequences - first, count = left < drawn.chunk ? left : drawn.chunk;
        ICL_TRY(icl_reproduce_poll(p->run, error));
        ICL_TRY(icl_sequences_sample(&drawn, first / drawn.chunk, error));
        ICL_TRY(icl_sequences_predict(&drawn, p->model->trainer, error));
        ICL_TRY(icl_sequences_refer(&drawn, p->predictors, count, predictions, error));
        add(&s, &drawn, predictions, count);
    }
    for (int row = 0; row < ROWS; row++) {
        p->loss[row][level] = .5 * s.squared[row] / (double)p->sequences;
        p->error[row][level] = .5 * icl_standard_error_of_sums(s.squared[row], s.fourth[row], p->sequences);
    }
done:
    icl_free(&predictions);
    icl_sequences_release(&drawn);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status draw(const profile *p, const char *name, const char *noise, icl_error *error) {
    icl_series series[ROWS];
    char title[128], file[96];

    for (int row = 0; row < ROWS; row++)
        series[row] = (icl_series){row == MODEL ? name : labels[row],
                                   row == MODEL ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE,
                                   p->levels,
                                   p->sigma,
                                   p->loss[row],
                                   row == MODEL ? p->error[row] : NULL};
    snprintf(file, sizeof file, "profile-%s", name);
    snprintf(title, sizeof title, "Loss at fixed noise after training on %s (arXiv 2402.14180)", noise);
    const icl_figure figure = {.name = file,
                               .title = title,
                               .x_label = "sigma (standard deviation of the label noise)",
                               .y_label = "half adjusted loss",
                               .log_y = true,
                               .least_y = 1e-4, /* ridge regressions without noise are exact */
                               .count = ROWS,
                               .series = series};
    return icl_reproduce_figure(p->run, &figure, error);
}

/* The figure's values are not printed in the paper; what it says is that models adapt: at both ends of the range they
 * were trained on they beat the ridge regression with one constant, which is what a model that does
 * not adapt comes to. */
static icl_status report_levels(const profile *p, const char *name, double last_trained, icl_error *error) {
    for (size_t level = 0; level < p->levels; level++) {
        const double constant = p->loss[CONSTRR][level];
        const bool is_end = p->sigma[level] == 0 || p->sigma[level] == last_trained;
        char what[96], note[160];
        icl_print(what, sizeof what, "%s at sigma %g", name, p->sigma[level]);
        icl_print(note, sizeof note, "Bayes %.3g, AdaRR %.3g, TunedRR %.3g, ConstRR %.3g, OLS %.3g",
                  p->loss[BAYES][level], p->loss[ADARR][level], p->loss[TUNEDRR][level], constant, p->loss[OLS][level]);
        ICL_CHECK(ICL_FOUND(p->run, error, .what = what, .quantity = "half adjusted loss",
                            .ours = p->loss[MODEL][level], .standard_error = p->error[MODEL][level],
                            .target = is_end ? constant : 0, .criterion = ICL_AT_MOST,
                            .evidence = is_end ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                            .source = "models adapt to the noise: below ConstRR", .note = note));
    }
    return ICL_OK;
}

static icl_status reproduce_cell(icl_reproducing *run, const icl_versatile_cell *cell, double largest,
                                 icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;
    const double step = is_ci ? largest / 2 : .5;
    char name[ICL_VERSATILE_NAME];
    icl_versatile_model model = {0};
    icl_predictors *predictors = NULL;
    profile p = {.run = run, .model = &model, .sequences = is_ci ? 4096 : 20480};
    icl_status status = ICL_OK;

    icl_versatile_name(cell, name);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(icl_versatile_train(run, cell, is_ci ? 1 : 3, &model, error));
    if (!icl_reproduce_judges(run))
        goto done;
    ICL_TRY(icl_predictors_create(icl_trainer_task(model.trainer), predictor_names, is_ci ? 4096 : 20000,
                                  run->params->seed, &predictors, error));
    p.predictors = predictors;
    p.levels = 1 + (size_t)((largest + 1) / step);
    assert(p.levels <= MOST_LEVELS);
    for (size_t level = 0; level < p.levels; level++) {
        p.sigma[level] = step * (double)level;
        ICL_TRY(measure_level(&p, level, error));
    }
    ICL_TRY(report_levels(&p, name, largest, error));
    ICL_TRY(draw(&p, name, icl_versatile_noises[cell->noise].text, error));
done:
    icl_predictors_destroy(&predictors);
    icl_versatile_model_clear(&model);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;
    const size_t depth = is_ci ? 3 : 4;

    ICL_CHECK(reproduce_cell(run, &(icl_versatile_cell){depth, ICL_VERSATILE_DIAG, UNIFORM_5}, 5, error));
    if (is_ci)
        return ICL_OK;
    ICL_CHECK(reproduce_cell(run, &(icl_versatile_cell){depth, ICL_VERSATILE_FULL, UNIFORM_5}, 5, error));
    return reproduce_cell(run, &(icl_versatile_cell){depth, ICL_VERSATILE_DIAG, CHOICE_1_3}, 3, error);
}

const icl_reproduction icl_versatile_profile = {
    .name = "versatile-profile",
    .source = "arXiv 2402.14180, figure of losses by noise level",
    .about = "loss at each fixed noise level, beside ridge regressions and the Bayes-optimal predictor",
    .cost = {"5 s", "3 min", NULL},
    .run = reproduce,
};
