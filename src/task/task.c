#include "task/task.h"

#include <stdint.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/number.h"
#include "task/draws.h"

/* The most numbers of a piece. */
#define MOST_NUMBERS ((size_t)1 << 24)

#define CHOOSE(word, family) {word, ICL_AT_##family, family##_keys, &family},
static const icl_choice family_words[] = {ICL_TASK_FAMILIES(CHOOSE){0}};

#define KEY(field) ICL_KEY("task", icl_task_keys, field)

static const icl_recipe_key keys[] = {
    {KEY(family), "linear-regression", .choices = family_words, .help = "family of tasks"},
};
const icl_recipe_group icl_family_keys = ICL_RECIPE_GROUP(keys);

static const icl_recipe_key pairs_rows[] = {
    {KEY(d), "10", 1, ICL_MAX_EXTENT, .help = "dimension of x"},
    {KEY(n), "20", 1, ICL_MAX_EXTENT, .help = "labelled pairs in the context"},
};
const icl_recipe_group icl_pairs_keys = ICL_RECIPE_GROUP(pairs_rows);

#define POOL(field) ICL_KEY("task", icl_law_pool, field)

static const icl_recipe_key laws_of_pool[] = {
    {POOL(pool_seed), "1", 0, ICL_MAX_SEED, .help = "which pool of functions, chains or maps"},
    {POOL(fresh_functions), "false", .help = "functions or chains are none of the pool, which predictors know"},
};
static const icl_recipe_group laws_of_pool_keys = ICL_RECIPE_GROUP(laws_of_pool);
static const icl_recipe_group *const pool_groups[] = {&laws_of_pool_keys, NULL};

static const icl_recipe_key pool_rows[] = {
    {POOL(pool), "0", 0, 4294967296.0, .help = "functions or chains that there are; 0: each sequence has its own",
     .keys = pool_groups, .neutral = "0"},
};
const icl_recipe_group icl_law_pool_keys = ICL_RECIPE_GROUP(pool_rows);

icl_law_pool icl_law_pool_read(const icl_recipe *recipe) {
    icl_law_pool settings;

    icl_recipe_read(recipe, &icl_law_pool_keys, &settings);
    icl_recipe_read(recipe, &laws_of_pool_keys, &settings);
    return settings;
}

icl_task_keys icl_task_keys_read(const icl_recipe *recipe) {
    icl_task_keys settings;

    icl_recipe_read(recipe, &icl_family_keys, &settings);
    icl_recipe_read(recipe, &icl_pairs_keys, &settings);
    return settings;
}

/* ---- Keys that families read ---- */

bool icl_parse_numbers(const char *text, size_t capacity, double *values, size_t *count) {
    *count = 0;
    for (;;) {
        const char *start = text + strspn(text, " \t");
        size_t length = strcspn(start, ",");
        const char *end = start + length;
        double value;

        while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            length--;
        if (!icl_parse_number(start, length, &value))
            return false;
        if (*count < capacity)
            values[*count] = value;
        ++*count;
        if (*end == '\0')
            return true;
        text = end + 1;
    }
}

/* The limit of the elements of one sequence and of a d x d matrix: far beyond any use, and far from any overflow. */
#define LARGEST_SEQUENCE ((size_t)1 << 31)

icl_status icl_task_read_pairs(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_task_keys settings = icl_task_keys_read(recipe);

    if (settings.d >= LARGEST_SEQUENCE / settings.d)
        return icl_recipe_reject(recipe, ICL_TASK_KEY(d), error,
                                 "a dimension of at least 1 whose square is below 2^31");
    if (settings.n + 1 >= LARGEST_SEQUENCE / (settings.d + 1))
        return icl_recipe_reject(recipe, ICL_TASK_KEY(n), error,
                                 "a context of at least 1 with (n + 1) (d + 1) below 2^31 (d is %zu)", settings.d);
    task->shape = icl_regression_shape(settings.d, settings.n);
    return ICL_OK;
}

/* Returns whether sequences are pairs and a query, which the reference predictors of regression see, whatever a family
 * says of its prior. */
static bool has_pairs(const icl_task *task) {
    const icl_task_shape *shape = &task->shape;
    icl_task_shape regression = icl_regression_shape(shape->inputs - 1, shape->positions - 1);

    if (task->prior->labels == ICL_LABELS_NEXT) {
        regression.first_scored = shape->first_scored;
        regression.scored = shape->scored;
    }
    return shape->inputs > 0 && icl_task_shape_equal(shape, &regression);
}

/* Fills in the members of a prior that follow from the shape, and the number of levels of a fixed noise. */
static void complete_prior(icl_task *task) {
    task->prior->dimension = icl_task_dimension(task);
    task->prior->context = icl_task_context(task);
    if (task->prior->noise == ICL_NOISE_FIXED)
        task->prior->noise_count = 1;
}

icl_status icl_task_create_with(const icl_task_family *family, const icl_recipe *recipe, icl_task **task,
                                icl_error *error) {
    icl_status status;
    icl_task *created = NULL;

    *task = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "task", &created, error));
    created->family = family;
    ICL_TRY(family->create(recipe, created, error));
    ICL_TRY(icl_task_shape_check(&created->shape, family->name, error));
    if (created->prior && !has_pairs(created))
        created->prior = NULL;
    if (created->prior)
        complete_prior(created);
    *task = created;
    created = NULL;
done:
    icl_task_destroy(&created);
    return status;
}

void icl_task_free_state(icl_task *task) {
    icl_free(&task->state);
}

icl_status icl_task_create(const icl_recipe *recipe, icl_task **task, icl_error *error) {
    const icl_status status = icl_recipe_check(recipe, "task", error);

    *task = NULL;
    if (status != ICL_OK)
        return status;
    return icl_task_create_with(icl_recipe_object(recipe, ICL_TASK_KEY(family), NULL), recipe, task, error);
}

void icl_task_destroy(icl_task **task) {
    if (*task && (*task)->family->destroy)
        (*task)->family->destroy(*task);
    icl_free(task);
}

const icl_task_shape *icl_task_get_shape(const icl_task *task) {
    return &task->shape;
}

/* Returns how many numbers, or symbols, one sequence shows. */
static size_t input_count(const icl_task_shape *shape) {
    return shape->positions * (shape->symbols > 0 ? 1 : shape->inputs);
}

size_t icl_task_piece(const icl_task *task, size_t most) {
    const icl_task_shape *shape = &task->shape;
    const size_t tokens = input_count(shape), outputs = shape->scored * shape->outputs;
    const size_t fitting = MOST_NUMBERS / (tokens > outputs ? tokens : outputs);

    return fitting > most ? most : fitting > 0 ? fitting : 1;
}

size_t icl_task_dimension(const icl_task *task) {
    return task->shape.inputs - 1;
}

size_t icl_task_context(const icl_task *task) {
    return task->shape.positions - 1;
}

const icl_task_prior *icl_task_get_prior(const icl_task *task) {
    return task->prior;
}

const icl_task_text *icl_task_get_text(const icl_task *task) {
    return task->text;
}

/* ---- Batches ---- */

icl_tensor icl_batch_side(const icl_batch *batch, const char *name) {
    for (size_t i = 0; i < batch->side_count; i++)
        if (strcmp(batch->sides[i].name, name) == 0)
            return batch->sides[i].tensor;
    return (icl_tensor){0};
}

icl_status icl_batch_add_side(icl_batch *batch, const char *name, icl_tensor tensor, icl_error *error) {
    if (batch->side_count == ICL_MAX_SIDES)
        return icl_fail(error, ICL_ERROR_INPUT, "batch: no room for the side tensor \"%s\" beside %d others", name,
                        ICL_MAX_SIDES);
    batch->sides[batch->side_count++] = (icl_side){name, tensor};
    return ICL_OK;
}

/* Creates inputs and targets for a family that creates no tensors of its own. */
static icl_status create_plain(icl_backend *backend, icl_batch *batch, icl_error *error) {
    const icl_task_shape *shape = &batch->shape;
    const size_t inputs[] = {batch->size, shape->positions, shape->inputs};
    const size_t targets[] = {batch->size, shape->scored, icl_loss_target_size(shape->loss, shape->outputs)};

    ICL_CHECK(icl_tensor_create(backend, shape->symbols > 0 ? 2 : 3, inputs, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, targets, &batch->scratch[0], error));
    ICL_CHECK(icl_fill(backend, batch->inputs, 0, error));
    ICL_CHECK(icl_fill(backend, batch->scratch[0], 0, error));
    batch->targets = batch->scratch[0];
    return ICL_OK;
}

static bool has_extents(const icl_tensor *tensor, size_t first, size_t second, size_t third) {
    return tensor->rank == 3 && tensor->shape[0] == first && tensor->shape[1] == second && tensor->shape[2] == third;
}

static icl_status check_batch(const icl_task *task, const icl_batch *batch, icl_error *error) {
    const icl_task_shape *shape = &task->shape;
    const icl_tensor *inputs = &batch->inputs;
    const bool inputs_fit = shape->symbols > 0 ? inputs->rank == 2 && inputs->shape[0] == batch->size &&
                                                     inputs->shape[1] == shape->positions
                                               : has_extents(inputs, batch->size, shape->positions, shape->inputs);
    char text[ICL_TASK_SHAPE_TEXT];

    if ((!inputs->buffer || inputs_fit) &&
        has_extents(&batch->targets, batch->size, shape->scored, icl_loss_target_size(shape->loss, shape->outputs)) &&
        (!batch->weights.buffer || has_extents(&batch->weights, batch->size, shape->scored, 1)))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: a batch whose inputs, targets or weights are not those of %zu sequences of %s",
                    task->family->name, batch->size, icl_task_shape_text(shape, text));
}

icl_status icl_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                            icl_batch *batch, icl_error *error) {
    icl_status status;

    *batch = (icl_batch){.shape = task->shape, .size = size};
    ICL_TRY(task->family->batch_create ? task->family->batch_create(task, backend, purpose, size, batch, error)
                                       : create_plain(backend, batch, error));
    ICL_TRY(check_batch(task, batch, error));
    return ICL_OK;
done:
    icl_batch_release(batch);
    return status;
}

void icl_batch_release(icl_batch *batch) {
    icl_tensor_release(&batch->inputs);
    for (size_t i = 0; i < sizeof batch->scratch / sizeof *batch->scratch; i++)
        icl_tensor_release(&batch->scratch[i]);
    memset(batch, 0, sizeof *batch);
}

/* Draws on the host and writes to the device. */
static icl_status sample_on_host(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                                 const icl_batch *batch, icl_error *error) {
    icl_host_batch host = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_host_batch_create(batch, &host, error));
    ICL_TRY(icl_host_batch_draw(task, purpose, seed, step, &host, error));
    ICL_TRY(icl_host_batch_write(&host, batch, error));
done:
    icl_host_batch_destroy(&host);
    return status;
}

icl_status icl_task_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                           uint64_t step, icl_batch *batch, icl_error *error) {
    char seen[ICL_TASK_SHAPE_TEXT], expected[ICL_TASK_SHAPE_TEXT];

    if (!batch->targets.buffer || !icl_task_shape_equal(&batch->shape, &task->shape))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "icl_task_sample: the batch was made for another task, of %s, expected %s",
                        icl_task_shape_text(&batch->shape, seen), icl_task_shape_text(&task->shape, expected));
    return task->family->draw ? sample_on_host(task, purpose, seed, step, batch, error)
                              : task->family->sample(task, backend, purpose, seed, step, batch, error);
}

/* ---- Functions that reference predictors share ---- */

typedef struct loop {
    const icl_task *task;
    icl_sequence_body *body;
    const void *settings;
    size_t work;
    const float *inputs;
    double *works, *outputs;
} loop;

static void do_one(void *context, size_t index, size_t thread) {
    const loop *job = context;
    const icl_task_shape *shape = &job->task->shape;

    job->body(job->task, job->settings, index, job->inputs + index * input_count(shape),
              job->works + thread * job->work, job->outputs + index * shape->scored * shape->outputs);
}

icl_status icl_task_for_each(const icl_task *task, icl_sequence_body *body, const void *settings, size_t work,
                             size_t count, const float *inputs, double *outputs, icl_error *error) {
    const size_t threads = icl_parallel_threads();
    loop job = {task, body, settings, work, inputs, NULL, outputs};

    ICL_CHECK(icl_allocate(threads, (work + 1) * sizeof *job.works, "sequences", &job.works, error));
    icl_parallel_for(count, threads, do_one, &job);
    icl_free(&job.works);
    return ICL_OK;
}

icl_status icl_batch_noise(const icl_batch *batch, const icl_task_prior *prior, float *noise, icl_error *error) {
    const icl_tensor side = icl_batch_side(batch, ICL_SIDE_NOISE);

    if (side.buffer)
        return icl_tensor_read(side, noise, error);
    if (prior && prior->noise != ICL_NOISE_FIXED)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "predictors: the batch has no side tensor \"" ICL_SIDE_NOISE
                        "\", expected one: the prior draws a sigma for each sequence");
    for (size_t i = 0; i < batch->size; i++)
        noise[i] = prior ? (float)prior->noise_levels[0] : 0;
    return ICL_OK;
}

icl_status icl_task_predict_zero(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error) {
    const icl_task_shape *shape = &shown->task->shape;

    (void)predictor;
    (void)error;
    memset(outputs, 0, shown->count * shape->scored * shape->outputs * sizeof *outputs);
    return ICL_OK;
}
