/*
 * How many tasks a transformer must have seen to learn new ones: Raventos, Paul, Chen, Ganguli 2023, "Pretraining task
 * diversity and the emergence of non-Bayesian in-context learning for regression" (arXiv 2306.15063).
 *
 * Linear functions with noise sigma, in training one of a pool of M, x, w ~ N(0, I_d). Two predictors are the best
 * there is, each in its world:
 *
 *     dMMSE   sum_i w_i softmax_i(-|X w_i - y|^2 / (2 sigma^2)), where functions are the pool's
 *     ridge   (X^T X + sigma^2 I)^-1 X^T y, where they are N(0, I)
 *
 * A model of a small pool is nearer to dMMSE, on functions of the pool and on fresh ones; one of a large pool is nearer
 * to ridge. Errors and squared distances are means over positions, over d, and errors are those of f(x) without noise.
 * The paper prints no tables: the rows of the two predictors were computed apart from this program, for one pool each.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"
#include "run/sequences.h"
#include "task/function_classes/family.h"

enum { MOST_POINTS = 16, MOST_MODELS = 10 };

#define WORLD  "task.d=8 task.n=15 task.noise=fixed:0.5 "
#define SOURCE "computed, one pool"

/* ---- Predictors on the same sequences ---- */

typedef enum measure_of {
    RIDGE_ERROR = 0,
    DMMSE_ERROR,
    MODEL_ERROR,
    DMMSE_TO_RIDGE,
    MODEL_TO_RIDGE,
    MODEL_TO_DMMSE,
    NEARER_TO_DMMSE, /* distance to ridge less distance to dMMSE */
    QUANTITIES
} measure_of;

typedef struct measured {
    double mean[QUANTITIES], standard_error[QUANTITIES];
    double ridge[MOST_POINTS]; /* its error by labelled pairs */
} measured;

typedef struct sums {
    double sum[QUANTITIES], square[QUANTITIES], ridge[MOST_POINTS];
} sums;

static const icl_reference_predictor *predictor_of(const icl_task *task, const char *name) {
    const icl_reference_predictor *row = icl_class_references(task);
    while (strcmp(row->name, name) != 0)
        row++;
    return row;
}

/* x_k stands at position 2 k. The model's predictions are NULL where there is none. */
static void add_sequence(const float *targets, const float *model, const double *ridge, const double *dmmse,
                         size_t points, double d, sums *to) {
    double here[QUANTITIES] = {0};

    for (size_t k = 0; k < points; k++) {
        const double target = (double)targets[2 * k], by_ridge = ridge[2 * k], by_pool = dmmse[2 * k];
        const double ours = model ? (double)model[2 * k] : 0, unit = d * (double)points;
        here[RIDGE_ERROR] += pow(by_ridge - target, 2) / unit;
        here[DMMSE_ERROR] += pow(by_pool - target, 2) / unit;
        here[MODEL_ERROR] += pow(ours - target, 2) / unit;
        here[DMMSE_TO_RIDGE] += pow(by_pool - by_ridge, 2) / unit;
        here[MODEL_TO_RIDGE] += pow(ours - by_ridge, 2) / unit;
        here[MODEL_TO_DMMSE] += pow(ours - by_pool, 2) / unit;
        to->ridge[k] += pow(by_ridge - target, 2) / d;
    }
    here[NEARER_TO_DMMSE] = here[MODEL_TO_RIDGE] - here[MODEL_TO_DMMSE];
    for (size_t q = 0; q < QUANTITIES; q++) {
        to->sum[q] += here[q];
        to->square[q] += here[q] * here[q];
    }
}

static void summarize(const sums *all, size_t sequences, measured *found) {
    const double count = (double)sequences;

    for (size_t q = 0; q < QUANTITIES; q++) {
        found->mean[q] = all->sum[q] / count;
        found->standard_error[q] = icl_standard_error_of_sums(all->sum[q], all->square[q], sequences);
    }
    for (size_t k = 0; k < MOST_POINTS; k++)
        found->ridge[k] = all->ridge[k] / count;
}

/* On `chunks` chunks of sequences of the task; trainer may be NULL. */
static icl_status measure(const icl_reproducing *run, const icl_task *task, icl_trainer *trainer, size_t chunks,
                          measured *found, icl_error *error) {
    const icl_reference_predictor *const both[] = {predictor_of(task, "ridge"), predictor_of(task, "dmmse")};
    const size_t positions = task->shape.scored, points = (positions + 1) / 2;
    icl_sequences drawn = {0};
    double *outputs[2] = {NULL, NULL};
    icl_status status = ICL_OK;
    sums all = {{0}};

    ICL_TRY(icl_sequences_create(run->params->backend, task, run->params->seed, &drawn, error));
    for (size_t i = 0; i < 2; i++)
        ICL_TRY(icl_allocate(drawn.chunk, positions * sizeof *outputs[i], "predictions", &outputs[i], error));
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const icl_shown_sequences shown = {task, drawn.chunk, drawn.inputs, &drawn.batch};
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(icl_sequences_sample(&drawn, chunk, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        if (trainer)
            ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
        for (size_t i = 0; i < 2; i++)
            ICL_TRY(both[i]->predict(both[i], &shown, outputs[i], error));
        for (size_t s = 0; s < drawn.chunk; s++)
            add_sequence(drawn.targets + s * positions, trainer ? drawn.model + s * positions : NULL,
                         outputs[0] + s * positions, outputs[1] + s * positions, points, (double)task->shape.inputs,
                         &all);
    }
    summarize(&all, chunks * drawn.chunk, found);
done:
    icl_free(&outputs[0]);
    icl_free(&outputs[1]);
    icl_sequences_release(&drawn);
    return status;
}

/* ---- The two predictors alone ---- */

/* Their task: functions of pool number `seed` of M, or fresh ones. */
static icl_status make_task(size_t pool, uint32_t seed, bool is_fresh, icl_task **task, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("garg", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, WORLD, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.pool=%zu", pool));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.pool_seed=%u", (unsigned)seed));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.fresh_functions=%s", is_fresh ? "true" : "false"));
    ICL_TRY(icl_task_create(recipe, task, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Of a pool size: errors over d on fresh functions and the pool's, and the distance to ridge on fresh ones. */
typedef struct pool_row {
    size_t pool;
    double fresh, own, to_ridge;
    size_t pools, chunks; /* means over so many pools: what a pool of few functions gives is its own */
} pool_row;

static icl_status judge_ridge(icl_reproducing *run, icl_error *error) {
    static const double published[MOST_POINTS] = {.98, .89,  .76,  .66,  .55,  .43,  .33,  .24,
                                                  .18, .128, .101, .080, .065, .051, .044, .038};
    const size_t chunks = run->params->scale == ICL_SCALE_CI ? 8 : 32;
    icl_task *task = NULL;
    icl_status status = ICL_OK;
    measured found;

    ICL_TRY(make_task(1, 1, true, &task, error));
    ICL_TRY(measure(run, task, NULL, chunks, &found, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "ridge, mean over 16 positions", .quantity = "error / d",
                      .ours = found.mean[RIDGE_ERROR], .standard_error = found.standard_error[RIDGE_ERROR],
                      .target = .345, .tolerance = .03 * .345, .evidence = ICL_COMPUTED, .source = "computed"));
    for (size_t k = 1; k < MOST_POINTS; k += 7) /* .003: the targets have two or three digits */
        ICL_TRY(ICL_FOUND(run, error, .what = ICL_PHRASE("ridge after %zu pairs", k), .quantity = "error / d",
                          .ours = found.ridge[k], .target = published[k], .tolerance = .03 * published[k] + .003,
                          .evidence = ICL_COMPUTED, .source = "computed"));
done:
    icl_task_destroy(&task);
    return status;
}

typedef struct spread {
    double sum, square;
    size_t count;
} spread;

static void add_value(spread *to, double value) {
    to->sum += value;
    to->square += value * value;
    to->count++;
}

/* The target is what one pool gave, ours a mean over several: 3 % and three standard deviations of their difference. */
static icl_status judge_spread(icl_reproducing *run, size_t pool, const char *quantity, const spread *all,
                               double target, icl_error *error) {
    const double count = (double)all->count, own = icl_standard_error_of_sums(all->sum, all->square, all->count);

    return ICL_FOUND(run, error, .what = ICL_PHRASE("dMMSE, pool of %zu", pool), .quantity = quantity,
                     .ours = all->sum / count, .standard_error = own, .target = target,
                     .tolerance = .03 * target + 3 * own * sqrt(count + 1), .evidence = ICL_COMPUTED, .source = SOURCE);
}

static icl_status judge_pool(icl_reproducing *run, const pool_row *row, icl_error *error) {
    spread fresh = {0}, own = {0}, to_ridge = {0};
    icl_task *task = NULL;
    icl_status status = ICL_OK;
    measured found;

    for (size_t i = 0; i < row->pools; i++)
        for (int is_fresh = 0; is_fresh < 2; is_fresh++) {
            ICL_TRY(make_task(row->pool, icl_reproduce_seed(run, i), is_fresh == 1, &task, error));
            ICL_TRY(measure(run, task, NULL, row->chunks, &found, error));
            add_value(is_fresh ? &fresh : &own, found.mean[DMMSE_ERROR]);
            if (is_fresh)
                add_value(&to_ridge, found.mean[DMMSE_TO_RIDGE]);
            icl_task_destroy(&task);
        }
    ICL_TRY(judge_spread(run, row->pool, "error / d, fresh", &fresh, row->fresh, error));
    ICL_TRY(judge_spread(run, row->pool, "error / d, pool", &own, row->own, error));
    ICL_TRY(judge_spread(run, row->pool, "distance to ridge / d, fresh", &to_ridge, row->to_ridge, error));
done:
    icl_task_destroy(&task);
    return status;
}

static icl_status judge_predictors(icl_reproducing *run, icl_error *error) {
    static const pool_row rows[] = {{4, 1.29, .053, .94, 16, 2}, {4096, .52, .256, .17, 3, 1}};

    if (!icl_reproduce_wants(run, "predictors") || !icl_reproduce_judges(run))
        return ICL_OK;
    ICL_CHECK(judge_ridge(run, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(judge_pool(run, &rows[i], error));
    return ICL_OK;
}

/* ---- Models ---- */

#define FULL                                                                                                           \
    "model.layers=8 model.width=128 model.heads=2 train.batch=256 train.learning_rate=0.001 train.warmup=250000 "

/* At ci the models hardly learn: that scale is for the predictors. Functions are nearer to dMMSE up to pools of
 * `small`, to ridge from `large` on; between them lies the threshold. */
typedef struct setting {
    const char *overrides;
    size_t steps, chunks, small, large;
    size_t pools[MOST_MODELS]; /* 0 behind the last */
} setting;

static const setting settings[ICL_SCALES] = {
    {WORLD "model.layers=1 model.width=16 train.warmup=20", 100, 1, 0, 0, {4, 64}},
    {WORLD, 10000, 2, 4, 16384, {4, 16384}},
    {WORLD FULL, 500000, 8, 64, 65536, {4, 16, 64, 256, 1024, 4096, 16384, 65536}},
};

static icl_status judge_model(icl_reproducing *run, const setting *is, size_t pool, bool is_fresh,
                              const measured *found, icl_error *error) {
    const double sign = pool >= is->large && is->large > 0 ? -1 : 1;
    const bool is_judged = run->params->scale > ICL_SCALE_CI && (pool <= is->small || pool >= is->large);

    return ICL_FOUND(
        run, error,
        .what = ICL_PHRASE("model of a pool of %zu, on %s functions", pool, is_fresh ? "fresh" : "the pool's"),
        .quantity = sign > 0 ? "nearer to dMMSE than to ridge by" : "nearer to ridge than to dMMSE by",
        .ours = sign * found->mean[NEARER_TO_DMMSE], .standard_error = found->standard_error[NEARER_TO_DMMSE],
        .target = 2 * found->standard_error[NEARER_TO_DMMSE], .criterion = ICL_AT_LEAST,
        .evidence = is_judged ? ICL_READ : ICL_EVIDENCE_NONE, .source = "figure 3; two standard errors",
        .note = ICL_PHRASE("to dMMSE %.4g, to ridge %.4g; errors %.4g, dMMSE %.4g, ridge %.4g",
                           found->mean[MODEL_TO_DMMSE], found->mean[MODEL_TO_RIDGE], found->mean[MODEL_ERROR],
                           found->mean[DMMSE_ERROR], found->mean[RIDGE_ERROR]));
}

static icl_status compare(icl_reproducing *run, size_t pool, icl_curves *curves, icl_error *error) {
    const setting *is = &settings[run->params->scale];
    const char *const worlds[] = {"the pool's functions", "fresh functions"};
    char name[32], overrides[48];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "garg",
                                  .overrides = {is->overrides, overrides},
                                  .steps = is->steps,
                                  .seed = run->params->seed};
    icl_seeded made = {0};
    icl_task *task = NULL;
    icl_status status = ICL_OK;
    measured found;

    snprintf(name, sizeof name, "pool-%zu", pool);
    snprintf(overrides, sizeof overrides, "task.pool=%zu", pool);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &made, error));
    for (int is_fresh = 0; is_fresh < 2; is_fresh++) {
        ICL_TRY(make_task(pool, 1, is_fresh == 1, &task, error));
        ICL_TRY(measure(run, task, made.trainer, is->chunks, &found, error));
        ICL_TRY(judge_model(run, is, pool, is_fresh == 1, &found, error));
        ICL_TRY(icl_curves_add(curves, ICL_PHRASE("to dMMSE, %s", worlds[is_fresh]), ICL_SERIES_OURS, (double)pool,
                               found.mean[MODEL_TO_DMMSE], error));
        ICL_TRY(icl_curves_add(curves, ICL_PHRASE("to ridge, %s", worlds[is_fresh]), ICL_SERIES_OURS, (double)pool,
                               found.mean[MODEL_TO_RIDGE], error));
        icl_task_destroy(&task);
    }
done:
    icl_task_destroy(&task);
    icl_seeded_release(&made);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const setting *is = &settings[run->params->scale];
    icl_curves curves = {.figure = {.name = "diversity-threshold",
                                    .title = "Distances of a model by the tasks that it was trained on (figure 3)",
                                    .x_label = "functions in the pool",
                                    .y_label = "squared distance / d",
                                    .log_x = true,
                                    .log_y = true}};
    icl_status status = ICL_OK;

    ICL_TRY(judge_predictors(run, error));
    for (size_t i = 0; i < MOST_MODELS && is->pools[i] > 0; i++)
        ICL_TRY(icl_reproduce_next(run, compare(run, is->pools[i], &curves, error)));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_diversity_threshold = {
    .name = "diversity-threshold",
    .source = "arXiv 2306.15063, figures 2 and 3",
    .about = "a model of a pool of tasks, nearer to the posterior over the pool or to ridge, by the pool's size",
    .cost = {"25 s", "10 min", "20 d"},
    .is_shared = true,
    .run = reproduce,
};
