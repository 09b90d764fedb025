/*
 * How many tasks a transformer must have seen to learn new ones: Raventos, Paul, Chen, Ganguli 2023, "Pretraining task
 * diversity and the emergence of non-Bayesian in-context learning for regression" (arXiv 2306.15063).
 *
 * Linear functions with noise sigma, drawn in training from a pool of M functions, x, w ~ N(0, I_d). Two predictors are
 * optimal, each for one distribution:
 *
 *     dMMSE   sum_i w_i softmax_i(-|X w_i - y|^2 / (2 sigma^2)), if functions are the pool's
 *     ridge   (X^T X + sigma^2 I)^-1 X^T y, if they are N(0, I)
 *
 * A model of a small pool is nearer to dMMSE, on functions of the pool and on fresh ones; one of a large pool is nearer
 * to ridge. Errors and squared distances are means over positions, over d, and errors are those of f(x) without noise.
 * The paper prints no tables: the rows of the two predictors were computed apart from this program, for one pool each.
 */
#include <math.h>
#include <string.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/evaluation.h"
#include "task/function_classes/family.h"

#define WORLD "task.d=8 task.n=15 task.noise=fixed:0.5 "

enum { POINTS = 16 };

/* Means over sequences, first on functions of the pool and then on fresh ones; then ridge's error by labelled pairs, on
 * fresh functions. */
enum {
    RIDGE_ERROR = 0,
    DMMSE_ERROR,
    MODEL_ERROR,
    DMMSE_TO_RIDGE,
    MODEL_TO_RIDGE,
    MODEL_TO_DMMSE,
    NEARER_TO_DMMSE, /* distance to ridge minus distance to dMMSE */
    QUANTITIES,
    RIDGE_AFTER = 2 * QUANTITIES,
    NUMBERS = RIDGE_AFTER + POINTS
};
enum { OWN = 0, FRESH = QUANTITIES };

/* ---- Cells ---- */

/* A cell without training: dMMSE and ridge on functions of `pools` pools, or, if that is 0, only ridge. The computed
 * targets are dMMSE's for one pool: errors over d on fresh functions and on the pool's, and its distance to ridge on
 * fresh ones. They depend on the functions of a small pool, so that ours are means over several pools. */
typedef struct pool_cell {
    const char *name;
    size_t pool, pools, chunks; /* chunks of sequences; 0: the scale's number */
    double fresh, own, to_ridge;
} pool_cell;

static const pool_cell predictors[] = {
    {"ridge", 1, 0, 0}, {"dmmse-4", 4, 16, 2, 1.29, .053, .94}, {"dmmse-4096", 4096, 3, 1, .52, .256, .17}};

#define FULL                                                                                                           \
    "model.layers=8 model.width=128 model.heads=2 train.batch=256 train.learning_rate=0.001 train.warmup=250000 "      \
    "train.steps=500000"

/* At scale ci the models hardly learn: it is only for the predictors. Models are nearer to dMMSE for pools up to
 * `small`, and to ridge from `large` on; the threshold lies between them. */
static const struct {
    const char *settings;
    size_t ridge_chunks, chunks, small, large;
    size_t pools[10]; /* 0 behind the last */
} budgets[ICL_SCALES] = {
    {WORLD "model.layers=1 model.width=16 train.warmup=20 train.steps=100", 8, 1, 0, 0, {4, 64}},
    {WORLD "train.steps=10000", 32, 2, 4, 16384, {4, 16384}},
    {WORLD FULL, 32, 8, 64, 65536, {4, 16, 64, 256, 1024, 4096, 16384, 65536}},
};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof predictors / sizeof *predictors; i++)
        ICL_ADD_CELL(study, .name = predictors[i].name, .group = "predictors", .data = &predictors[i]);
    for (const size_t *pool = budgets[study->scale].pools; *pool > 0; pool++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("pool-%zu", *pool), .recipe = "garg", .seed = icl_study_seed(study, 0),
                     .at = {*pool}, .settings = {budgets[study->scale].settings, ICL_PHRASE("task.pool=%zu", *pool)});
}

/* ---- Predictors on the same sequences ---- */

typedef struct sums {
    double sum[QUANTITIES], square[QUANTITIES], ridge[POINTS];
} sums;

static const icl_reference_predictor *predictor_of(const icl_task *task, const char *name) {
    const icl_reference_predictor *row = icl_class_references(task);
    while (strcmp(row->name, name) != 0)
        row++;
    return row;
}

/* x_k stands at position 2 k. The model's predictions are NULL if there is no model. */
static void add_sequence(const float *targets, const float *model, const double *ridge, const double *dmmse,
                         size_t points, double d, sums *total) {
    double means[QUANTITIES] = {0};

    for (size_t k = 0; k < points; k++) {
        const double target = (double)targets[2 * k], by_ridge = ridge[2 * k], by_pool = dmmse[2 * k];
        const double ours = model ? (double)model[2 * k] : 0, unit = d * (double)points;
        means[RIDGE_ERROR] += pow(by_ridge - target, 2) / unit;
        means[DMMSE_ERROR] += pow(by_pool - target, 2) / unit;
        means[MODEL_ERROR] += pow(ours - target, 2) / unit;
        means[DMMSE_TO_RIDGE] += pow(by_pool - by_ridge, 2) / unit;
        means[MODEL_TO_RIDGE] += pow(ours - by_ridge, 2) / unit;
        means[MODEL_TO_DMMSE] += pow(ours - by_pool, 2) / unit;
        total->ridge[k] += pow(by_ridge - target, 2) / d;
    }
    means[NEARER_TO_DMMSE] = means[MODEL_TO_RIDGE] - means[MODEL_TO_DMMSE];
    for (size_t q = 0; q < QUANTITIES; q++) {
        total->sum[q] += means[q];
        total->square[q] += means[q] * means[q];
    }
}

static icl_number mean_of(double sum, double square, size_t count) {
    return (icl_number){sum / (double)count, icl_standard_error_of_sums(sum, square, count)};
}

static void summarize(const sums *total, size_t sequences, icl_number *numbers, icl_number *ridge) {
    for (size_t q = 0; q < QUANTITIES; q++)
        numbers[q] = mean_of(total->sum[q], total->square[q], sequences);
    for (size_t k = 0; k < POINTS; k++)
        ridge[k] = (icl_number){total->ridge[k] / (double)sequences, 0};
}

/* Measures on `chunks` chunks of sequences of the task, into numbers [QUANTITIES] and ridge [POINTS]; trainer may be
 * NULL. */
static icl_status compare(const icl_study *study, const icl_task *task, icl_trainer *trainer, size_t chunks,
                          icl_number *numbers, icl_number *ridge, icl_error *error) {
    const icl_reference_predictor *const both[] = {predictor_of(task, "ridge"), predictor_of(task, "dmmse")};
    const size_t positions = task->shape.scored, points = (positions + 1) / 2;
    icl_sequences drawn = {0};
    double *outputs[2] = {NULL, NULL};
    icl_status status = ICL_OK;
    sums total = {{0}};

    ICL_TRY(icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &drawn, error));
    for (size_t i = 0; i < 2; i++)
        ICL_TRY(icl_study_room(study, drawn.chunk, positions * sizeof *outputs[i], &outputs[i], error));
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const icl_shown_sequences shown = {task, drawn.chunk, drawn.inputs, &drawn.batch};
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_sequences_sample(&drawn, chunk, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        if (trainer)
            ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
        for (size_t i = 0; i < 2; i++)
            ICL_TRY(both[i]->predict(both[i], &shown, outputs[i], error));
        for (size_t s = 0; s < drawn.chunk; s++)
            add_sequence(drawn.targets + s * positions, trainer ? drawn.model + s * positions : NULL,
                         outputs[0] + s * positions, outputs[1] + s * positions, points, (double)task->shape.inputs,
                         &total);
    }
    summarize(&total, chunks * drawn.chunk, numbers, ridge);
done:
    icl_sequences_release(&drawn);
    return status;
}

/* Fills all numbers of a cell: on functions of pool number `seed` of that size, and on fresh functions. */
static icl_status compare_worlds(const icl_study *study, size_t pool, uint32_t seed, icl_trainer *trainer,
                                 size_t chunks, icl_number *numbers, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("garg", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, WORLD, error));
    ICL_TRY(icl_recipe_set_count(recipe, "task", "pool", pool, error));
    ICL_TRY(icl_recipe_set_count(recipe, "task", "pool_seed", seed, error));
    for (size_t world = OWN; world <= FRESH; world += FRESH) {
        ICL_TRY(icl_recipe_set_text(recipe, "task", "fresh_functions", world == FRESH ? "true" : "false", error));
        ICL_TRY(icl_task_create(recipe, &task, error));
        ICL_TRY(compare(study, task, trainer, chunks, numbers + world, numbers + RIDGE_AFTER, error));
        icl_task_destroy(&task);
    }
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Computes means over several pools, with their standard errors. */
static icl_status average_pools(const icl_study *study, const pool_cell *cell, icl_number *numbers, icl_error *error) {
    double sum[NUMBERS] = {0}, square[NUMBERS] = {0};

    for (size_t i = 0; i < cell->pools; i++) {
        ICL_CHECK(compare_worlds(study, cell->pool, icl_study_seed(study, i), NULL, cell->chunks, numbers, error));
        for (size_t n = 0; n < NUMBERS; n++) {
            sum[n] += numbers[n].value;
            square[n] += numbers[n].value * numbers[n].value;
        }
    }
    for (size_t n = 0; n < NUMBERS; n++)
        numbers[n] = mean_of(sum[n], square[n], cell->pools);
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const pool_cell *pool = cell->data;

    if (!pool)
        return compare_worlds(study, cell->at[0], 1, trained, budgets[study->scale].chunks, numbers, error);
    return pool->pools > 0 ? average_pools(study, pool, numbers, error)
                           : compare_worlds(study, 1, 1, NULL, budgets[study->scale].ridge_chunks, numbers, error);
}

/* ---- Judging ---- */

static void judge_ridge(icl_study *study, const icl_study_cell *cell) {
    static const double computed[POINTS] = {.98, .89,  .76,  .66,  .55,  .43,  .33,  .24,
                                            .18, .128, .101, .080, .065, .051, .044, .038};

    ICL_JUDGE(study, .what = "ridge, mean over 16 positions", .quantity = "error / d",
              ICL_OURS(cell->numbers[FRESH + RIDGE_ERROR]), .target = .345, .tolerance = .03 * .345,
              .evidence = ICL_COMPUTED, .source = "computed");
    for (size_t k = 1; k < POINTS; k += 7) /* plus .003, since the targets have two or three digits */
        ICL_JUDGE(study, .what = ICL_PHRASE("ridge after %zu pairs", k), .quantity = "error / d",
                  ICL_OURS(cell->numbers[RIDGE_AFTER + k]), .target = computed[k],
                  .tolerance = .03 * computed[k] + .003, .evidence = ICL_COMPUTED, .source = "computed");
}

/* Judges a number of pools. The target comes from one pool, ours is a mean over several: the tolerance is 3 % and three
 * standard deviations of their difference. */
static void judge_pool(icl_study *study, const pool_cell *cell, const char *quantity, icl_number ours, double target) {
    ICL_JUDGE(study, .what = ICL_PHRASE("dMMSE, pool of %zu", cell->pool), .quantity = quantity, ICL_OURS(ours),
              .target = target, .tolerance = .03 * target + 3 * ours.standard_error * sqrt((double)cell->pools + 1),
              .evidence = ICL_COMPUTED, .source = "computed, one pool");
}

static void judge_model(icl_study *study, size_t pool, const char *functions, const icl_number *numbers) {
    const size_t small = budgets[study->scale].small, large = budgets[study->scale].large;
    const bool is_large = large > 0 && pool >= large, is_judged = large > 0 && (pool <= small || is_large);
    const icl_number nearer = numbers[NEARER_TO_DMMSE];

    ICL_JUDGE(study, .what = ICL_PHRASE("model of a pool of %zu, on %s functions", pool, functions),
              .quantity = is_large ? "nearer to ridge than to dMMSE by" : "nearer to dMMSE than to ridge by",
              .ours = is_large ? -nearer.value : nearer.value, .standard_error = nearer.standard_error,
              .target = 2 * nearer.standard_error, .criterion = ICL_AT_LEAST,
              .evidence = is_judged ? ICL_STATED : ICL_EVIDENCE_NONE, .source = "figure 3; two standard errors",
              .note = ICL_PHRASE("to dMMSE %.4g, to ridge %.4g; errors %.4g, dMMSE %.4g, ridge %.4g",
                                 numbers[MODEL_TO_DMMSE].value, numbers[MODEL_TO_RIDGE].value,
                                 numbers[MODEL_ERROR].value, numbers[DMMSE_ERROR].value, numbers[RIDGE_ERROR].value));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_number *own = cell->numbers + OWN, *fresh = cell->numbers + FRESH;
    const pool_cell *pool = cell->data;

    if (!pool) {
        judge_model(study, cell->at[0], "the pool's", own);
        judge_model(study, cell->at[0], "fresh", fresh);
    } else if (pool->pools == 0) {
        judge_ridge(study, cell);
    } else {
        judge_pool(study, pool, "error / d, fresh", fresh[DMMSE_ERROR], pool->fresh);
        judge_pool(study, pool, "error / d, pool", own[DMMSE_ERROR], pool->own);
        judge_pool(study, pool, "distance to ridge / d, fresh", fresh[DMMSE_TO_RIDGE], pool->to_ridge);
    }
}

static void conclude(icl_study *study) {
    static const struct {
        const char *label;
        size_t number;
    } lines[] = {{"to dMMSE, the pool's functions", OWN + MODEL_TO_DMMSE},
                 {"to ridge, the pool's functions", OWN + MODEL_TO_RIDGE},
                 {"to dMMSE, fresh functions", FRESH + MODEL_TO_DMMSE},
                 {"to ridge, fresh functions", FRESH + MODEL_TO_RIDGE}};
    icl_curves curves =
        ICL_CURVES(.name = "diversity-threshold",
                   .title = "Distances of a model by the tasks that it was trained on (figure 3)",
                   .x_label = "functions in the pool", .y_label = "squared distance / d", .log_x = true, .log_y = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        for (size_t line = 0; cell->recipe && cell->is_wanted && line < sizeof lines / sizeof *lines; line++)
            icl_study_plot(study, &curves, lines[line].label, ICL_SERIES_OURS, (double)cell->at[0],
                           cell->numbers[lines[line].number].value);
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_diversity_threshold = ICL_STUDY(
        .name = "diversity-threshold", .source = "arXiv 2306.15063, figures 2 and 3",
        .about = "a model of a pool of tasks, nearer to the posterior over the pool or to ridge, by the pool's size",
        .claim =
            "A transformer that is trained on few tasks predicts as if there were no others; one that is trained on "
            "many enough learns new tasks about as well as ridge regression.",
        .scope = "A met table means that models of the smallest and of the largest pool are nearer to the "
                 "predictor that the paper says; where between them the threshold lies was not judged, and "
                 "at scale ci no model is.",
        .cost = {"25 s", "10 min", "20 d"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
