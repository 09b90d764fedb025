/*
 * Predictions of rows of any table by a model of task.family = tables.
 *
 * The task's own view shows the table (task/tables/guides.c), with the features in `ensemble` random orders over the
 * columns; the model's shares of the buckets are averaged over these. All asked rows, up to MOST_ASKED at a time, are
 * positions of one sequence, because none sees another.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/table_model.h"
#include "iclab/text.h"
#include "iclab/train.h"
#include "predict/method.h"
#include "predict/predict.h"
#include "run/recipe_keys.h"
#include "task/tables/tables.h"
#include "task/task.h"

enum { MOST_KNOWN = 1024, LEAST_KNOWN = 2, MOST_ASKED = 1024, USUAL_ENSEMBLE = 4, MOST_ENSEMBLE = 64 };

/* The random stream of the orders of features; its step is the number of the order. */
#define ORDER_STREAM 0x70720002u

struct icl_table_model {
    icl_backend *backend; /* borrowed */
    char *folder;
    icl_recipe *recipe;
    icl_table_view view;
    size_t buckets, trained_least, trained_most;

    /* The model for questions of these sizes. */
    size_t known, asked, ensemble;
    icl_trainer *trainer;
    icl_batch batch;
};

/* The memory of one question. */
typedef struct asking {
    double *x, *work, *shares; /* [T][features], what icl_table_show takes, [asked][K] */
    float *base, *inputs;      /* [T][p], [ensemble][T][p] */
    float *outputs;            /* [ensemble][asked][K] */
    size_t *places;            /* [D] */
} asking;

/* ---- Loading ---- */

static icl_status read_settings(icl_table_model *model, icl_error *error) {
    const icl_task_keys shared = icl_task_keys_read(model->recipe);

    if (shared.family != ICL_AT_icl_tables_family)
        return icl_recipe_reject(model->recipe, ICL_TASK_KEY(family), error,
                                 "tables: models of other tasks cannot be asked about any table");
    model->view = (icl_table_view){shared.d, icl_recipe_flag(model->recipe, ICL_KEY_NAME("task", icl_tables, guides))};
    model->buckets = (size_t)icl_recipe_count(model->recipe, ICL_KEY_NAME("task", icl_tables, buckets));
    model->trained_least = (size_t)icl_recipe_count(model->recipe, ICL_KEY_NAME("task", icl_tables, least));
    model->trained_most = shared.n;
    return ICL_OK;
}

static void release_sizes(icl_table_model *model) {
    icl_batch_release(&model->batch);
    icl_trainer_destroy(&model->trainer);
    model->known = 0;
}

/* Makes the model for questions of these sizes, unless it is there. */
static icl_status prepare(icl_table_model *model, size_t known, size_t asked, size_t ensemble, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    if (model->known == known && model->asked == asked && model->ensemble == ensemble)
        return ICL_OK;
    release_sizes(model);
    ICL_TRY(icl_recipe_clone(model->recipe, &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_TASK_KEY(n), known, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_KEY_NAME("task", icl_tables, least), known, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_KEY_NAME("task", icl_tables, unlabelled), asked, error));
    ICL_TRY(icl_trained_load(model->backend, model->folder, recipe, &model->trainer, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(model->trainer), model->backend, ICL_FOR_EVALUATION, ensemble,
                             &model->batch, error));
    model->known = known;
    model->asked = asked;
    model->ensemble = ensemble;
done:
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_table_model_locate(char **folder, icl_error *error) {
    char *recipe = NULL, *found = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_find_by_name("tables", &recipe, error));
    char *name = strrchr(recipe, '/');
    *(name ? name + 1 : recipe) = '\0'; /* the folder, with the slash at its end */
    ICL_TRY(icl_path_join(recipe, "../models/tables", &found, error));
    if (!icl_path_exists(found))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: missing: expected the model of tables, which is installed with the "
                         "recipes",
                         found));
    *folder = found;
    found = NULL;
done:
    icl_free(&recipe);
    icl_free(&found);
    return status;
}

icl_status icl_table_model_load(icl_backend *backend, const char *folder, icl_table_model **model, icl_error *error) {
    icl_table_model *created = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *created, "table model", &created, error));
    created->backend = backend;
    ICL_TRY(icl_allocate(strlen(folder) + 1, 1, "table model", &created->folder, error));
    memcpy(created->folder, folder, strlen(folder));
    ICL_TRY(icl_recipe_create_complete(&created->recipe, error));
    ICL_TRY(icl_run_read_recipe(folder, created->recipe, error));
    ICL_TRY(read_settings(created, error));
    ICL_TRY(prepare(created, created->trained_least, 1, 1, error));
    *model = created;
    created = NULL;
done:
    icl_table_model_destroy(&created);
    return status;
}

void icl_table_model_destroy(icl_table_model **model) {
    if (*model) {
        release_sizes(*model);
        icl_recipe_destroy(&(*model)->recipe);
        icl_free(&(*model)->folder);
    }
    icl_free(model);
}

icl_table_model_limits icl_table_model_get_limits(const icl_table_model *model) {
    return (icl_table_model_limits){model->view.columns, LEAST_KNOWN, MOST_KNOWN, model->trained_least,
                                    model->trained_most};
}

/* ---- Questions ---- */

static icl_status check_values(const double *values, size_t rows, size_t features, const char *whose,
                               icl_error *error) {
    for (size_t i = 0; i < rows * features; i++)
        if (fabs(values[i]) > ICL_TABLE_MAX_VALUE)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: row %zu, feature %zu: %g: expected a magnitude of at most %g",
                            whose, i / features, i % features, values[i], ICL_TABLE_MAX_VALUE);
    return ICL_OK;
}

static icl_status check_question(const icl_table_model *model, const icl_table_question *question,
                                 const icl_table_answer *answer, icl_error *error) {
    if (question->features < 1 || question->features > model->view.columns)
        return icl_fail(error, ICL_ERROR_INPUT, "%zu features: expected 1 to %zu, the d of the model in %s",
                        question->features, model->view.columns, model->folder);
    if (question->known < LEAST_KNOWN || question->known > MOST_KNOWN)
        return icl_fail(error, ICL_ERROR_INPUT, "%zu rows with a target: expected %d to %d", question->known,
                        LEAST_KNOWN, MOST_KNOWN);
    if (question->ensemble > MOST_ENSEMBLE)
        return icl_fail(error, ICL_ERROR_INPUT, "an ensemble of %zu: expected at most %d", question->ensemble,
                        MOST_ENSEMBLE);
    for (size_t i = 0; i < question->known; i++)
        if (!(fabs(question->targets[i]) <= ICL_TABLE_MAX_VALUE))
            return icl_fail(error, ICL_ERROR_INPUT, "row %zu: the target %g: expected a magnitude of at most %g", i,
                            question->targets[i], ICL_TABLE_MAX_VALUE);
    for (size_t k = 0; answer->quantiles && k < answer->levels; k++)
        if (!(answer->probabilities[k] > 0 && answer->probabilities[k] < 1))
            return icl_fail(error, ICL_ERROR_INPUT, "probability %g: expected a number between 0 and 1",
                            answer->probabilities[k]);
    ICL_CHECK(check_values(question->rows, question->known, question->features, "known rows", error));
    return check_values(question->queries, question->asked, question->features, "asked rows", error);
}

/* Puts the features of one order in place: inputs [T][p] from the base, in which feature j stands in column j. */
static void place_features(const icl_table_model *model, size_t features, const size_t *places, const float *base,
                           float *inputs) {
    const size_t p = icl_table_inputs(model->view), columns = model->view.columns;

    for (size_t i = 0; i < model->known + model->asked; i++) {
        const float *from = base + i * p;
        float *to = inputs + i * p;
        memset(to, 0, columns * sizeof *to);
        for (size_t j = 0; j < features; j++)
            to[places[j]] = from[j];
        memcpy(to + columns, from + columns, (p - columns) * sizeof *to);
    }
}

/* Writes the mean shares of the buckets [asked][K] of `count` orders' outputs, which are logits. */
static void average_shares(const icl_table_model *model, const float *outputs, double *shares) {
    const size_t buckets = model->buckets, rows = model->asked;

    memset(shares, 0, rows * buckets * sizeof *shares);
    for (size_t i = 0; i < model->ensemble * rows; i++) {
        const float *logits = outputs + i * buckets;
        double *to = shares + i % rows * buckets, most = -HUGE_VAL, sum = 0;
        for (size_t k = 0; k < buckets; k++)
            most = fmax(most, (double)logits[k]);
        for (size_t k = 0; k < buckets; k++)
            sum += exp((double)logits[k] - most);
        for (size_t k = 0; k < buckets; k++)
            to[k] += exp((double)logits[k] - most) / (sum * (double)model->ensemble);
    }
}

static icl_status asking_create(const icl_table_model *model, size_t features, asking *memory, icl_error *error) {
    const size_t rows = model->known + model->asked, numbers = rows * icl_table_inputs(model->view);

    ICL_CHECK(icl_allocate(rows, features * sizeof(double), "rows", &memory->x, error));
    ICL_CHECK(icl_allocate(icl_table_show_work(rows, model->known, features), sizeof(double), "guides", &memory->work,
                           error));
    ICL_CHECK(icl_allocate(model->asked, model->buckets * sizeof(double), "shares", &memory->shares, error));
    ICL_CHECK(icl_allocate(numbers, sizeof(float), "inputs", &memory->base, error));
    ICL_CHECK(icl_allocate(numbers, model->ensemble * sizeof(float), "inputs", &memory->inputs, error));
    ICL_CHECK(icl_allocate(model->ensemble * model->asked, model->buckets * sizeof(float), "outputs", &memory->outputs,
                           error));
    return icl_allocate(model->view.columns, sizeof(size_t), "columns", &memory->places, error);
}

static void asking_destroy(asking *memory) {
    icl_free(&memory->x);
    icl_free(&memory->work);
    icl_free(&memory->shares);
    icl_free(&memory->base);
    icl_free(&memory->inputs);
    icl_free(&memory->outputs);
    icl_free(&memory->places);
}

static void write_answer(const icl_table_model *model, const icl_table_scale *scale, const double *shares, size_t first,
                         size_t count, const icl_table_answer *answer) {
    for (size_t i = 0; i < count; i++) {
        const double *own = shares + i * model->buckets;
        if (answer->means)
            answer->means[first + i] =
                scale->target_centre + scale->target_scale * icl_bucket_mean(model->buckets, own);
        for (size_t k = 0; answer->quantiles && k < answer->levels; k++)
            answer->quantiles[(first + i) * answer->levels + k] =
                scale->target_centre +
                scale->target_scale * icl_bucket_quantile(model->buckets, own, answer->probabilities[k]);
    }
}

/* Answers for `count` asked rows from number `first` on; places beyond them repeat the first known row. */
static icl_status answer_some(icl_table_model *model, const icl_table_question *question, size_t first, size_t count,
                              asking *memory, const icl_table_answer *answer, icl_error *error) {
    const size_t d = question->features, rows = model->known + model->asked;
    const size_t numbers = rows * icl_table_inputs(model->view);
    const icl_table_shown shown = {rows, model->known, d, memory->x, question->targets, memory->places};
    icl_table_scale scale;

    memcpy(memory->x, question->rows, model->known * d * sizeof *memory->x);
    memcpy(memory->x + model->known * d, question->queries + first * d, count * d * sizeof *memory->x);
    for (size_t i = count; i < model->asked; i++)
        memcpy(memory->x + (model->known + i) * d, question->rows, d * sizeof *memory->x);
    for (size_t j = 0; j < model->view.columns; j++)
        memory->places[j] = j;
    icl_table_show(model->view, &shown, &scale, memory->work, memory->base);
    for (size_t k = 0; k < model->ensemble; k++) {
        for (size_t j = 0; j < model->view.columns; j++)
            memory->places[j] = j;
        ICL_CHECK(icl_shuffle(question->seed, ORDER_STREAM, k, model->view.columns, memory->places, error));
        place_features(model, d, memory->places, memory->base, memory->inputs + k * numbers);
    }
    ICL_CHECK(icl_tensor_write(model->batch.inputs, memory->inputs, error));
    ICL_CHECK(icl_trainer_predict(model->trainer, &model->batch, memory->outputs, error));
    average_shares(model, memory->outputs, memory->shares);
    write_answer(model, &scale, memory->shares, first, count, answer);
    return ICL_OK;
}

icl_status icl_table_model_predict(icl_table_model *model, const icl_table_question *question,
                                   const icl_table_answer *answer, icl_error *error) {
    const size_t asked = question->asked < MOST_ASKED ? question->asked : MOST_ASKED;
    asking memory = {0};
    icl_status status = ICL_OK;

    ICL_TRY(check_question(model, question, answer, error));
    if (asked == 0)
        goto done;
    ICL_TRY(
        prepare(model, question->known, asked, question->ensemble > 0 ? question->ensemble : USUAL_ENSEMBLE, error));
    ICL_TRY(asking_create(model, question->features, &memory, error));
    for (size_t first = 0; first < question->asked; first += asked) {
        const size_t left = question->asked - first;
        ICL_TRY(answer_some(model, question, first, left < asked ? left : asked, &memory, answer, error));
    }
done:
    asking_destroy(&memory);
    return status;
}

/* ---- A trained model as a method: it is shown the standardized rows, and learns nothing beside ---- */

enum { LEVELS = 4 };

static const double probabilities[LEVELS] = {0.1, 0.25, 0.75, 0.9};

typedef struct shown_rows {
    const icl_lesson *lesson;
} shown_rows;

static icl_status show_rows(const icl_lesson *lesson, void **fitted, icl_error *error) {
    shown_rows *shown = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *shown, "model", &shown, error));
    shown->lesson = lesson;
    *fitted = shown;
    return ICL_OK;
}

static icl_status predict_rows(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
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

static void forget_rows(void **fitted) {
    icl_free(fitted);
}

const icl_method_functions icl_model_method = {"model", false, show_rows, predict_rows, forget_rows};
