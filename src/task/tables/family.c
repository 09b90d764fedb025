/*
 * task.family = tables: rows of features with a number to predict, drawn from a prior over tables, so that a model
 * fitted to it predicts rows of tables that it never saw (Müller, Hollmann, Arango, Grabocka, Hutter 2022, arXiv
 * 2112.10510; Hollmann, Müller, Eggensperger, Hutter 2023, arXiv 2207.01848).
 *
 * A table has T = task.n + task.unlabelled rows, 1 to task.d features in random columns, and c labelled rows, which
 * stand first: c = m + floor((n + 1 - m) u^2), m = task.least, u uniform. What makes its targets is chosen by the
 * weights task.gaussian_processes, networks, linear, trees and causal (generators.c); features.c has the rest.
 * Features and targets are shown as the labelled rows centre and scale them (guides.c). A row has p = D + 10 inputs,
 * or D + 2 with task.guides = false: D = task.d features, a prediction and a standard deviation of each guide, the
 * label, or 0, and whether the row has one.
 *
 * The loss is the cross-entropy of the bucket that holds the target, of task.buckets (iclab/buckets.h), at rows
 * without a label. Rows m … T - 1 are scored; those with a label have weight 0 there, and the weights of the others
 * are equal and sum to the number of scored rows.
 *
 * The host draws; table s owns the words from s 2^32 on.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "numeric/parallel.h"
#include "task/streams.h"
#include "task/tables/tables.h"
#include "task/task.h"

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0 /* [B, S, 1] */, WEIGHTS /* [B, S, 1] */, KERNEL /* [B, D + 3] */ };

/* ---- The recipe ---- */

#define KEY(field)       ICL_KEY("task", icl_tables, field)
#define NAME(field)      ICL_KEY_NAME("task", icl_tables, field)
#define HABIT_KEY(field) ICL_KEY("task", icl_table_habits, field)

static const icl_recipe_key own_rows[] = {
    {KEY(least), "8", 2, ICL_MAX_EXTENT, .help = "fewest labelled rows of a table; task.n is the most"},
    {KEY(unlabelled), "32", 1, ICL_MAX_EXTENT,
     .help = "fewest rows to predict: tables have task.n + task.unlabelled rows"},
    {KEY(buckets), "100", ICL_LEAST_BUCKETS, ICL_MOST_BUCKETS, .help = "buckets that share the line of targets"},
    {KEY(guides), "true", .help = "rows show what ridge, neighbours and Gaussian processes predict"},
    {KEY(gaussian_processes), "1", 0, 1e6, .help = "weight of tables from Gaussian processes"},
    {KEY(networks), "1", 0, 1e6, .help = "weight of tables from random networks"},
    {KEY(linear), "1", 0, 1e6, .help = "weight of tables from linear functions"},
    {KEY(trees), "1", 0, 1e6, .help = "weight of tables from sums of trees"},
    {KEY(causal), "1", 0, 1e6, .help = "weight of tables from causal graphs"},
};
static const icl_recipe_key habit_rows[] = {
    {HABIT_KEY(discrete), "0.3", 0, 1, .help = "share of features that are binary, whole or categories"},
    {HABIT_KEY(warped), "0.3", 0, 1, .help = "share of features that are bent; of targets it is half of this"},
    {HABIT_KEY(unused), "0.25", 0, 1, .help = "share of features without effect"},
    {HABIT_KEY(missing), "0.1", 0, 1, .help = "share of tables with missing cells"},
    {HABIT_KEY(tails), "0.2", 0, 1, .help = "share of tables whose noise has heavy tails"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows), habit_keys = ICL_RECIPE_GROUP(habit_rows);
const icl_recipe_group *const icl_tables_family_keys[] = {&icl_pairs_keys, &own_keys, &habit_keys, NULL};

/* Writes the weights of the sources, and returns their sum. */
static double weights_of(const icl_tables *state, double weights[ICL_TABLE_SOURCES]) {
    const double all[ICL_TABLE_SOURCES] = {[ICL_TABLE_GAUSSIAN_PROCESS] = state->gaussian_processes,
                                           [ICL_TABLE_NETWORK] = state->networks,
                                           [ICL_TABLE_LINEAR] = state->linear,
                                           [ICL_TABLE_TREES] = state->trees,
                                           [ICL_TABLE_CAUSAL] = state->causal};
    double sum = 0;

    for (size_t k = 0; k < ICL_TABLE_SOURCES; k++)
        sum += weights[k] = all[k];
    return sum;
}

static icl_status check_keys(const icl_recipe *recipe, const icl_tables *state, icl_error *error) {
    double weights[ICL_TABLE_SOURCES];

    if (state->d > ICL_TABLE_FEATURES)
        return icl_recipe_reject(recipe, ICL_TASK_KEY(d), error, "at most %zu beside task.family = tables",
                                 ICL_TABLE_FEATURES);
    if (state->least > state->n)
        return icl_recipe_reject(recipe, NAME(least), error, "at most task.n = %zu", state->n);
    if (!(weights_of(state, weights) > 0))
        return icl_recipe_reject(recipe, NAME(gaussian_processes), error,
                                 "more than 0, or another weight of tables that is");
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_task_keys shared = icl_task_keys_read(recipe);
    double weights[ICL_TABLE_SOURCES];
    icl_tables *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "tables", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, state);
    icl_recipe_read(recipe, &habit_keys, &state->habits);
    state->view = (icl_table_view){shared.d, state->guides};
    state->d = shared.d;
    state->n = shared.n;
    ICL_CHECK(check_keys(recipe, state, error));
    state->is_gaussian = weights_of(state, weights) == weights[ICL_TABLE_GAUSSIAN_PROCESS];
    task->shape = (icl_task_shape){.positions = state->n + state->unlabelled,
                                   .inputs = icl_table_inputs(state->view),
                                   .outputs = state->buckets,
                                   .first_scored = state->least,
                                   .scored = state->n + state->unlabelled - state->least,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_tables *state = task->state;
    const icl_task_shape *shape = &task->shape;
    const size_t inputs[] = {size, shape->positions, shape->inputs}, scored[] = {size, shape->scored, 1};

    ICL_CHECK(icl_tensor_create(backend, 3, inputs, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, scored, &batch->scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, scored, &batch->scratch[WEIGHTS], error));
    batch->targets = batch->scratch[TARGETS];
    batch->weights = batch->scratch[WEIGHTS];
    if (purpose == ICL_FOR_TRAINING || !state->is_gaussian)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, state->d + 3}, &batch->scratch[KERNEL], error));
    return icl_batch_add_side(batch, ICL_SIDE_KERNEL, batch->scratch[KERNEL], error);
}

/* ---- Batches ---- */

/* A batch, its stream, and for each thread the doubles that a table and its guides take. */
typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    const icl_batch_values *out;
    double *rooms;
    size_t room;
} drawing;

static icl_table_source draw_source(const icl_tables *state, icl_words *words) {
    double weights[ICL_TABLE_SOURCES];
    double left = weights_of(state, weights) * icl_words_uniform(words);
    int source = ICL_TABLE_SOURCES - 1;

    for (int k = ICL_TABLE_SOURCES - 1; k >= 0; k--) /* the last one with a weight, unless an earlier one is met */
        if (weights[k] > 0) {
            source = k;
            break;
        }
    for (int k = 0; k < source; k++) {
        if (left < weights[k])
            return (icl_table_source)k;
        left -= weights[k];
    }
    return (icl_table_source)source;
}

/* Draws columns for `count` features out of all. */
static void draw_places(icl_words *words, size_t columns, size_t count, size_t *places) {
    size_t order[ICL_TABLE_FEATURES];

    for (size_t k = 0; k < columns; k++)
        order[k] = k;
    for (size_t k = 0; k < count; k++) { /* Fisher-Yates */
        const size_t place = k + ((size_t)icl_words_next(words) * (columns - k) >> 32);
        places[k] = order[place];
        order[place] = order[k];
    }
}

static void write_scores(const drawing *picture, size_t index, size_t labelled, const icl_drawn_table *table,
                         const icl_table_scale *scale) {
    const icl_task_shape *shape = &picture->task->shape;
    float *targets = picture->out->targets + index * shape->scored;
    float *weights = picture->out->weights + index * shape->scored;

    for (size_t i = labelled; i < shape->positions; i++) {
        const double distance = table->targets[i] - scale->target_centre;
        const double shown = scale->target_scale > 0 ? distance / scale->target_scale : 0;
        targets[i - shape->first_scored] = (float)icl_bucket_of(shape->outputs, shown);
        weights[i - shape->first_scored] = (float)((double)shape->scored / (double)(shape->positions - labelled));
    }
}

static void write_kernel(const icl_tables *state, const icl_drawn_table *table, const size_t *places,
                         const icl_table_scale *scale, float *kernel) {
    const double target = scale->target_scale > 0 ? scale->target_scale : 1;

    memset(kernel, 0, (state->d + 3) * sizeof *kernel);
    for (size_t j = 0; j < table->features; j++)
        kernel[places[j]] = (float)(table->weights[j] * scale->scales[j] * scale->scales[j]);
    kernel[state->d] = (float)(-scale->target_centre / target);
    kernel[state->d + 1] = (float)(1 / (target * target));
    kernel[state->d + 2] = (float)(table->noise_variance / (target * target));
}

static size_t room_of(const icl_task *task) {
    const icl_tables *state = task->state;
    const size_t rows = task->shape.positions, draw = icl_table_draw_work(rows);
    const size_t show = icl_table_show_work(rows, state->n, state->d);
    return rows * (state->d + 1) + (draw > show ? draw : show);
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_tables *state = picture->task->state;
    const size_t rows = picture->task->shape.positions, p = picture->task->shape.inputs;
    double *x = picture->rooms + thread * picture->room, *targets = x + rows * state->d, *work = targets + rows;
    icl_words words = {.key = picture->key, .next = (uint64_t)index << 32};
    const icl_table_source source = draw_source(state, &words);
    const size_t features = 1 + ((size_t)icl_words_next(&words) * state->d >> 32);
    const double u = icl_words_uniform(&words);
    const size_t labelled = state->least + (size_t)((double)(state->n + 1 - state->least) * u * u);
    icl_drawn_table table = {.rows = rows, .features = features, .x = x, .targets = targets};
    size_t places[ICL_TABLE_FEATURES];
    icl_table_scale scale;

    draw_places(&words, state->d, features, places);
    icl_table_draw(source, &state->habits, &words, &table, work);
    const icl_table_shown shown = {rows, labelled, features, x, targets, places};
    icl_table_show(state->view, &shown, &scale, work, picture->out->inputs + index * rows * p);
    write_scores(picture, index, labelled, &table, &scale);
    if (picture->out->sides[0])
        write_kernel(state, &table, places, &scale, picture->out->sides[0] + index * (state->d + 3));
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const size_t threads = icl_parallel_threads();
    drawing all = {.task = task,
                   .key = {seed, icl_stream_for(purpose, ICL_TABLE_STREAMS), step},
                   .out = values,
                   .room = room_of(task)};

    ICL_CHECK(icl_allocate(threads, all.room * sizeof *all.rooms, "tables", &all.rooms, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
    icl_free(&all.rooms);
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    const icl_tables *state = task->state;
    return icl_table_predictors[state->guides][state->is_gaussian];
}

const icl_task_family icl_tables_family = {
    .name = "tables",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
