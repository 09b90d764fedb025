/*
 * The loss of trained models at fixed noise levels, after the profiles of Vladymyrov et al. 2024 (arXiv 2402.14180): a
 * model trained for sigma in [0, 5], or {1, 3}, is evaluated at each fixed sigma from 0 to one above the largest,
 * beside ridge regressions whose constants belong to the distribution it was trained on.
 */
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "run/evaluation.h"

enum { MOST_LEVELS = 13 };

static const char predictor_names[] = "oracle,bayes,ols,constrr,adarr,tunedrr";
enum { ORACLE = 0, BAYES, OLS, CONSTRR, ADARR, TUNEDRR, PREDICTORS };

/* Each predictor has a loss at each level. The model stands in place of the oracle, whose loss is zero by
 * definition. */
enum { MODEL = 0, NUMBERS = PREDICTORS * MOST_LEVELS };

/* ---- Levels of the noise ---- */

/* The first alone at scale ci, the others above it. */
static const icl_versatile_cell cells[] = {
    {3, ICL_VERSATILE_DIAG, ICL_VERSATILE_UNIFORM_5},
    {4, ICL_VERSATILE_DIAG, ICL_VERSATILE_UNIFORM_5},
    {4, ICL_VERSATILE_FULL, ICL_VERSATILE_UNIFORM_5},
    {4, ICL_VERSATILE_DIAG, ICL_VERSATILE_CHOICE_1_3},
};

static void plan(icl_study *study) {
    const bool is_ci = study->scale == ICL_SCALE_CI;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if ((i == 0) == is_ci)
            icl_versatile_add(study, &cells[i], is_ci ? 1 : 3);
}

/* The largest level that a cell is trained for; one more is shown. */
static double largest_of(const icl_study_cell *cell) {
    return icl_versatile_model_of(cell).noise == ICL_VERSATILE_UNIFORM_5 ? 5 : 3;
}

static double spacing_of(const icl_study *study, const icl_study_cell *cell) {
    return study->scale == ICL_SCALE_CI ? largest_of(cell) / 2 : .5;
}

static size_t levels_of(const icl_study *study, const icl_study_cell *cell) {
    return 1 + (size_t)((largest_of(cell) + 1) / spacing_of(study, cell));
}

static size_t place_of(int row, size_t level) {
    return (size_t)row * MOST_LEVELS + level;
}

/* ---- Losses ---- */

/* Sums of squared distances to the oracle, and of their squares. */
typedef struct sums {
    double squared[PREDICTORS], fourth[PREDICTORS];
} sums;

static void add(sums *s, const icl_sequences *drawn, const double *predictions, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int row = 0; row < PREDICTORS; row++) {
            const double *all = predictions + i * PREDICTORS;
            const double distance = (row == MODEL ? (double)drawn->model[i] : all[row]) - all[ORACLE];
            s->squared[row] += distance * distance;
            s->fourth[row] += distance * distance * distance * distance;
        }
}

static icl_status add_all(icl_study *study, icl_sequences *drawn, icl_trainer *trainer,
                          const icl_predictors *predictors, double *predictions, size_t sequences, sums *s,
                          icl_error *error) {
    for (size_t first = 0; first < sequences; first += drawn->chunk) {
        const size_t left = sequences - first, count = left < drawn->chunk ? left : drawn->chunk;
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(icl_sequences_sample(drawn, first / drawn->chunk, error));
        ICL_CHECK(icl_sequences_predict(drawn, trainer, error));
        ICL_CHECK(icl_sequences_refer(drawn, predictors, count, predictions, error));
        add(s, drawn, predictions, count);
    }
    return ICL_OK;
}

/* `predictors` are those of the training distribution. */
static icl_status measure_level(icl_study *study, const icl_versatile_choice *choice, double sigma,
                                const icl_predictors *predictors, icl_number *numbers, icl_error *error) {
    const size_t sequences = study->scale == ICL_SCALE_CI ? 4096 : 20480;
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_sequences drawn = {0};
    double *predictions = NULL;
    sums s = {{0}, {0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(choice->training->complete, &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.noise=fixed:%g", sigma));
    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &drawn, error));
    ICL_TRY(icl_study_room(study, drawn.chunk * PREDICTORS, sizeof *predictions, &predictions, error));
    ICL_TRY(add_all(study, &drawn, choice->trainer, predictors, predictions, sequences, &s, error));
    for (int row = 0; row < PREDICTORS; row++)
        numbers[place_of(row, 0)].value = .5 * s.squared[row] / (double)sequences;
    numbers[MODEL].standard_error = .5 * icl_standard_error_of_sums(s.squared[MODEL], s.fourth[MODEL], sequences);
done:
    icl_sequences_release(&drawn);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_versatile_choice choice = {0};
    icl_predictors *predictors = NULL;
    icl_status status = ICL_OK;

    (void)trained;
    if (cell->is_helper)
        return ICL_OK;
    ICL_TRY(icl_versatile_choose(study, cell, &choice, error));
    ICL_TRY(icl_predictors_create(icl_trainer_task(choice.trainer), predictor_names,
                                  study->scale == ICL_SCALE_CI ? 4096 : 20000, study->run->params->seed, &predictors,
                                  error));
    for (size_t level = 0; level < levels_of(study, cell); level++)
        ICL_TRY(
            measure_level(study, &choice, spacing_of(study, cell) * (double)level, predictors, &numbers[level], error));
done:
    icl_predictors_destroy(&predictors);
    return status;
}

/* ---- Judging ---- */

/* The figure's values are not printed in the paper; what it says is that models adapt: at both ends of the range they
 * were trained on they beat the ridge regression with one constant, which is what a model that does
 * not adapt comes to. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    for (size_t level = 0; level < levels_of(study, cell); level++) {
        const double sigma = spacing_of(study, cell) * (double)level;
        const bool is_end = level == 0 || sigma == largest_of(cell);
        double losses[PREDICTORS];

        for (int row = 0; row < PREDICTORS; row++)
            losses[row] = cell->numbers[place_of(row, level)].value;
        ICL_JUDGE(study, .what = ICL_PHRASE("%s at sigma %g", cell->name, sigma), .quantity = "half adjusted loss",
                  ICL_OURS(cell->numbers[place_of(MODEL, level)]), .target = is_end ? losses[CONSTRR] : 0,
                  .criterion = ICL_AT_MOST, .evidence = is_end ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                  .source = "models adapt to the noise: below ConstRR",
                  .note = ICL_PHRASE("Bayes %.3g, AdaRR %.3g, TunedRR %.3g, ConstRR %.3g, OLS %.3g", losses[BAYES],
                                     losses[ADARR], losses[TUNEDRR], losses[CONSTRR], losses[OLS]));
    }
}

static void draw(icl_study *study, const icl_study_cell *cell) {
    static const char *const labels[PREDICTORS] = {"", "Bayes-optimal", "OLS", "ConstRR", "AdaRR", "TunedRR"};
    const icl_phrase name = icl_phrase_print("profile-%s", cell->name);
    const icl_phrase title = icl_phrase_print("Loss at fixed noise after training on %s (arXiv 2402.14180)",
                                              icl_versatile_noises[icl_versatile_model_of(cell).noise].text);
    icl_curves curves =
        ICL_CURVES(.name = name.text, .title = title.text, .x_label = "sigma (standard deviation of the label noise)",
                   .y_label = "half adjusted loss", .log_y = true,
                   .least_y = 1e-4); /* ridge regressions without noise are exact */

    for (int row = 0; row < PREDICTORS; row++)
        for (size_t level = 0; level < levels_of(study, cell); level++)
            icl_study_plot_number(study, &curves, row == MODEL ? cell->name : labels[row],
                                  row == MODEL ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE,
                                  spacing_of(study, cell) * (double)level, cell->numbers[place_of(row, level)]);
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->is_wanted && !study->cells[i]->is_helper)
            draw(study, study->cells[i]);
}

const icl_reproduction icl_versatile_profile = ICL_STUDY(
        .name = "versatile-profile", .source = "arXiv 2402.14180, figure of losses by noise level",
        .about = "loss at each fixed noise level, beside ridge regressions and the Bayes-optimal predictor",
        .claim =
            "Linear transformers that are trained on varying noise adapt to the noise of each sequence: at both ends "
            "of its range they beat the ridge regression with one constant.",
        .cost = {"5 s", "3 min", NULL}, .numbers = NUMBERS, .plan = plan, .begin = icl_versatile_begin,
        .measure = measure, .judge = judge, .conclude = conclude);
