/*
 * Function classes with a label at every position: Garg, Tsipras, Liang, Valiant 2022, "What can transformers learn
 * in-context?" (arXiv 2208.01066).
 *
 *     f of task.class (function.h), x_0 … x_n (prompt.h),  y_i = f(x_i) + sigma eps_i, eps_i ~ N(0, 1), or as
 *                               noise_law.h and labels.h have it
 *     task.layout = joined      position i of n + 1 holds (x_i, y_(i-1)), with y_(-1) = 0, and has the target f(x_i)
 *                   separate    position 2 i of 2 n + 1 holds x_i and has the target f(x_i); position 2 i + 1 holds y_i
 *                               as first coordinate beside zeros, and weighs 0
 *
 * Targets are without noise, but for classes, which are their own targets. A causal model answers for x_k from k
 * labelled pairs, in either layout; one that is not causal sees the answers. The paper separates x_i and y_i: twice the
 * positions, and better models of the same width.
 *
 * task.pool = M: f is one of M functions, drawn uniformly (Raventos and others 2023, arXiv 2306.15063); with
 * task.fresh_functions it is none of them, which tells what a model learned of the pool and what of the class.
 *
 * The host draws. Functions, inputs, noise and choices have streams of their own, in which a sequence owns its words.
 * Everything is made of them in double precision by +, -, *, / and sqrt, and rounded once.
 */
#include "task/function_classes/family.h"

#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/task_family.h"
#include "numeric/parallel.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/noise.h"
#include "task/streams.h"

/* What a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, LEVELS, COEFFICIENTS, WEIGHTS };

/* Words of a sequence among the choices. */
enum { WORD_FUNCTION = 0, WORD_LEVEL, CHOICE_WORDS };

/* ---- The recipe ---- */

static const icl_recipe_key pool_rows[] = {
    {"task", "pool_seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED, .help = "which pool of functions"},
    {"task", "fresh_functions", ICL_KEY_FLAG, "false",
     .help = "functions are none of the pool, which reference predictors know"},
};
static const icl_recipe_group pool_keys = ICL_RECIPE_GROUP(pool_rows);
static const icl_recipe_group *const pool_groups[] = {&pool_keys, NULL};

static const icl_choice layouts[] = {{"joined", 0}, {"separate", 1}, {0}};

static const icl_recipe_key own_rows[] = {
    {"task", "layout", ICL_KEY_WORD, "joined", .choices = layouts,
     .help = "an input and the label before it share a position, or have one each"},
    {"task", "pool", ICL_KEY_COUNT, "0", 0, 4294967296.0,
     .help = "functions that there are; 0: each sequence has one of its own", .keys = pool_groups, .neutral = "0"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_function_classes_family_keys[] = {&icl_pairs_keys,
                                                                    &icl_label_keys,
                                                                    &icl_covariance_keys,
                                                                    &icl_function_keys,
                                                                    &icl_prompt_keys,
                                                                    &icl_curriculum_keys,
                                                                    &own_keys,
                                                                    NULL};

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_function_classes *is = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *is, "function classes", &is, error));
    task->state = is;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    const size_t d = task->prior.dimension, n = task->prior.context;
    ICL_CHECK(icl_labels_read(recipe, &task->prior, &is->labels, error));
    is->noise_level = icl_noise_distribution(&task->prior);
    ICL_CHECK(icl_function_read(recipe, d, &is->law, error));
    ICL_CHECK(icl_prompt_read(recipe, d, n + 1, &is->prompt, error));
    ICL_CHECK(icl_curriculum_read(recipe, d, n, &is->curriculum, error));
    is->pool = icl_recipe_count(recipe, "task", "pool");
    is->pool_key = (uint32_t)icl_recipe_count(recipe, "task", "pool_seed");
    is->is_fresh = icl_recipe_flag(recipe, "task", "fresh_functions");
    ICL_CHECK(icl_class_references_create(recipe, &task->prior, is, error));
    is->is_separate = icl_recipe_choice(recipe, "task", "layout") == 1;
    if (is->is_separate) {
        task->shape.positions = 2 * n + 1;
        task->shape.inputs = d;
    }
    task->shape.first_scored = 0;
    task->shape.scored = task->shape.positions;
    if (icl_labels_are_classes(&is->labels))
        task->shape.loss = ICL_LOSS_LOGISTIC;
    task->prior.nonlinear = true;
    task->prior.labels = ICL_LABELS_NEXT;
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_function_classes *is = task->state;
    if (is) {
        icl_covariance_release(&is->prompt.covariance);
        icl_free(&is->references);
    }
    icl_free(&task->state);
}

void icl_function_of_pool(const icl_function_classes *is, uint64_t m, double *function) {
    icl_function_draw(&is->law, (icl_random_key){.seed = is->pool_key, .stream = ICL_CLASSES_POOL_STREAM}, m, function);
}

/* ---- One sequence ---- */

/* A batch on the host; what is not wanted is NULL. */
typedef struct sequences {
    float *inputs, *targets;      /* [B][T][p], [B][T] */
    float *levels, *coefficients; /* [B], [B][d] */
    float *weights;               /* [B][T] */
} sequences;

typedef struct drawing {
    const icl_function_classes *is;
    icl_random_key function, inputs, noise, rare, choices;
    icl_stage stage;
    sequences to;
    double *doubles; /* of all threads */
    float *points;   /* of all threads: [n + 1][d] */
} drawing;

static size_t count_doubles(const icl_function_classes *is) {
    return icl_function_size(&is->law) + (is->prompt.points + 1) * is->prompt.dimension;
}

static void draw_function(const drawing *all, size_t index, double *function) {
    const icl_function_classes *is = all->is;

    if (is->pool > 0 && !is->is_fresh)
        icl_function_of_pool(is, icl_draw_below(all->choices, (uint64_t)index * CHOICE_WORDS + WORD_FUNCTION, is->pool),
                             function);
    else
        icl_function_draw(&is->law, all->function, index, function);
}

/* Inputs, of which those that the stage leaves out are 0. */
static void draw_points(const drawing *all, size_t index, double *work, float *points) {
    const icl_prompt_law *law = &all->is->prompt;
    const size_t d = law->dimension;

    icl_prompt_draw(law, all->inputs, index, work, points);
    for (size_t i = 0; i < law->points; i++) {
        const size_t used = i <= all->stage.context ? all->stage.dimension : 0;
        memset(points + i * d + used, 0, (d - used) * sizeof *points);
    }
}

/* Tokens and targets of inputs and a function. Behind the stage's last point everything is 0, labels included. */
static void label(const drawing *all, size_t index, const double *function, const float *points, double sigma) {
    const icl_label_law *law = &all->is->labels;
    const icl_prompt_layout layout = icl_prompt_lay_out(&all->is->prompt, all->is->is_separate);
    const size_t d = all->is->prompt.dimension, count = all->is->prompt.points, n = all->stage.context;
    float *tokens = all->to.inputs + index * layout.positions * layout.inputs;
    float *targets = all->to.targets + index * layout.positions;
    icl_words noise = {.key = all->noise, .next = (uint64_t)index * ((count + 3) / 4 * 4)};

    memset(tokens, 0, layout.positions * layout.inputs * sizeof *tokens);
    memset(targets, 0, layout.positions * sizeof *targets);
    for (size_t i = 0; i < count && i <= n; i++) {
        const double value = icl_function_value(&all->is->law, function, points + i * d);
        const double normal = i < n ? icl_words_normal(&noise) : 0;
        const double seen = icl_label_draw(law, value, sigma, normal, all->rare, (uint64_t)index * count + i);
        float *token = tokens + i * layout.stride * layout.inputs;
        memcpy(token, points + i * d, d * sizeof *token);
        targets[i * layout.stride] = (float)(icl_labels_are_classes(law) ? (seen + 1) / 2 : value);
        if (i < n)
            token[layout.label] = (float)seen;
    }
}

/* Losses of the points in use weigh as much in all as those of all positions. */
static void weigh(const drawing *all, size_t index) {
    const icl_prompt_layout layout = icl_prompt_lay_out(&all->is->prompt, all->is->is_separate);
    const size_t used = all->stage.context + 1;
    float *weights = all->to.weights + index * layout.positions;

    for (size_t i = 0; i < layout.positions; i++)
        weights[i] =
            i % layout.stride == 0 && i / layout.stride < used ? (float)((double)layout.positions / (double)used) : 0;
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *all = context;
    const icl_function_classes *is = all->is;
    const size_t d = is->prompt.dimension;
    double *function = all->doubles + thread * count_doubles(is);
    float *points = all->points + thread * is->prompt.points * d;
    icl_random_params level = is->noise_level;

    level.key = all->choices;
    const float sigma = icl_random_value(&level, (uint64_t)index * CHOICE_WORDS + WORD_LEVEL);
    draw_function(all, index, function);
    draw_points(all, index, function + icl_function_size(&is->law), points);
    label(all, index, function, points, (double)sigma);
    all->to.levels[index] = sigma;
    for (size_t j = 0; j < d && all->to.coefficients; j++)
        all->to.coefficients[index * d + j] = (float)(is->law.scale * function[j]);
    if (all->to.weights)
        weigh(all, index);
}

/* ---- Batches ---- */

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_function_classes *is = task->state;
    const size_t d = is->prompt.dimension, points = task->shape.positions;
    icl_tensor *scratch = batch->scratch;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, task->shape.inputs}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, 1}, &scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &scratch[LEVELS], error));
    batch->targets = scratch[TARGETS];
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_NOISE, scratch[LEVELS], error));
    if (is->law.kind == ICL_CLASS_LINEAR || is->law.kind == ICL_CLASS_SPARSE) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, 1}, &scratch[COEFFICIENTS], error));
        ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, scratch[COEFFICIENTS], error));
    }
    if (is->is_separate || (purpose == ICL_FOR_TRAINING && is->curriculum.every > 0)) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, 1}, &scratch[WEIGHTS], error));
        batch->weights = scratch[WEIGHTS];
    }
    return ICL_OK;
}

/* Host memory for a tensor, unless the batch has none. */
static icl_status allocate_like(icl_tensor tensor, float **values, icl_error *error) {
    return tensor.buffer ? icl_allocate(icl_tensor_count(&tensor), sizeof **values, "sequences", values, error)
                         : ICL_OK;
}

static icl_status allocate(const icl_batch *batch, size_t threads, drawing *all, icl_error *error) {
    const icl_function_classes *is = all->is;

    ICL_CHECK(allocate_like(batch->inputs, &all->to.inputs, error));
    ICL_CHECK(allocate_like(batch->targets, &all->to.targets, error));
    ICL_CHECK(allocate_like(batch->scratch[LEVELS], &all->to.levels, error));
    ICL_CHECK(allocate_like(batch->scratch[COEFFICIENTS], &all->to.coefficients, error));
    ICL_CHECK(allocate_like(batch->weights, &all->to.weights, error));
    ICL_CHECK(icl_allocate(threads, count_doubles(is) * sizeof *all->doubles, "functions", &all->doubles, error));
    return icl_allocate(threads, is->prompt.points * is->prompt.dimension * sizeof *all->points, "points", &all->points,
                        error);
}

static void release(drawing *all) {
    icl_free(&all->to.inputs);
    icl_free(&all->to.targets);
    icl_free(&all->to.levels);
    icl_free(&all->to.coefficients);
    icl_free(&all->to.weights);
    icl_free(&all->doubles);
    icl_free(&all->points);
}

static icl_status write_tensor(icl_tensor tensor, const float *values, icl_error *error) {
    return values ? icl_tensor_write(tensor, values, error) : ICL_OK;
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_function_classes *is = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {.is = is,
                   .function = {seed, icl_stream_for(purpose, ICL_CLASSES_STREAMS), step},
                   .inputs = {seed, icl_stream_for(purpose, ICL_CLASSES_INPUT_STREAMS), step},
                   .noise = {seed, icl_stream_for(purpose, ICL_CLASSES_NOISE_STREAMS), step},
                   .rare = {seed, icl_stream_for(purpose, ICL_CLASSES_RARE_STREAMS), step},
                   .choices = {seed, icl_stream_for(purpose, ICL_CLASSES_CHOICE_STREAMS), step},
                   .stage =
                       purpose == ICL_FOR_TRAINING ? icl_curriculum_at(&is->curriculum, step) : is->curriculum.last};
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(allocate(batch, threads, &all, error));
    icl_parallel_for(batch->size, threads, draw_one, &all);
    ICL_TRY(icl_tensor_write(batch->inputs, all.to.inputs, error));
    ICL_TRY(icl_tensor_write(batch->targets, all.to.targets, error));
    ICL_TRY(icl_tensor_write(batch->scratch[LEVELS], all.to.levels, error));
    ICL_TRY(write_tensor(batch->scratch[COEFFICIENTS], all.to.coefficients, error));
    ICL_TRY(write_tensor(batch->weights, all.to.weights, error));
done:
    release(&all);
    return status;
}

const icl_task_family icl_function_classes_family = {
    .name = "function-classes",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .sample = sample,
    .draws_on_host = true,
    .references = icl_class_references,
};
