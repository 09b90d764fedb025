#include "iclab/model_file.h"

#include <assert.h>
#include <string.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "run/sequences.h"

enum { TOKENS = 0, TARGETS, NOISE, PREDICTIONS, VECTORS };

/* The whole file, on the host. */
typedef struct prompts {
    size_t count, elements; /* sequences, and numbers in the tokens of one */
    float *values[VECTORS];
} prompts;

static icl_status reserve(prompts *all, icl_error *error) {
    size_t total;

    if (!icl_multiply_sizes(all->count, all->elements, &total))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: the tokens of %zu overflow the address space",
                        all->count);
    for (int i = 0; i < VECTORS; i++)
        ICL_CHECK(icl_allocate(i == TOKENS ? total : all->count, sizeof(float),
                               "prompts (fewer eval.sequences need less)", &all->values[i], error));
    return ICL_OK;
}

static icl_status fill(icl_sequences *sequences, icl_trainer *trainer, prompts *all, icl_error *error) {
    assert(all->values[TOKENS] && all->values[TARGETS] && all->values[NOISE] && all->values[PREDICTIONS]);
    for (size_t first = 0; first < all->count; first += sequences->chunk) {
        const size_t left = all->count - first, count = left < sequences->chunk ? left : sequences->chunk;
        ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
        ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
        ICL_CHECK(icl_sequences_refer(sequences, NULL, count, NULL, error));
        memcpy(all->values[TOKENS] + first * all->elements, sequences->inputs, count * all->elements * sizeof(float));
        memcpy(all->values[TARGETS] + first, sequences->targets, count * sizeof(float));
        memcpy(all->values[NOISE] + first, sequences->noise, count * sizeof(float));
        memcpy(all->values[PREDICTIONS] + first, sequences->model, count * sizeof(float));
    }
    return ICL_OK;
}

/* The file has one target and one prediction of a sequence. */
static icl_status require_regression(const icl_task_shape *shape, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];

    if (shape->scored == 1 && shape->outputs == 1 && shape->inputs > 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "predictions: the task has %s, expected coordinates and one output at one position",
                    icl_task_shape_text(shape, text));
}

icl_status icl_predictions_write(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe, const char *path,
                                 icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t rows = icl_task_context(task) + 1, columns = icl_task_dimension(task) + 1;
    icl_sequences sequences = {0};
    prompts all = {.count = (size_t)icl_recipe_count(recipe, "eval", "sequences"), .elements = rows * columns};
    icl_status status = ICL_OK;

    ICL_TRY(require_regression(icl_task_get_shape(task), error));
    ICL_TRY(reserve(&all, error));
    ICL_TRY(icl_sequences_create(backend, task, (uint32_t)icl_recipe_count(recipe, "eval", "seed"), &sequences, error));
    ICL_TRY(fill(&sequences, trainer, &all, error));
    const icl_named_tensor tensors[VECTORS] = {
        {.name = "tokens", .rank = 3, .shape = {all.count, rows, columns}, .data = all.values[TOKENS]},
        {.name = "targets", .rank = 1, .shape = {all.count}, .data = all.values[TARGETS]},
        {.name = "noise", .rank = 1, .shape = {all.count}, .data = all.values[NOISE]},
        {.name = "predictions", .rank = 1, .shape = {all.count}, .data = all.values[PREDICTIONS]},
    };
    ICL_TRY(icl_safetensors_write(path, tensors, VECTORS, NULL, 0, error));
done:
    icl_sequences_release(&sequences);
    for (int i = 0; i < VECTORS; i++)
        icl_free(&all.values[i]);
    return status;
}
