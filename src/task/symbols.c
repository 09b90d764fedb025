#include "task/symbols.h"

#include "core/allocate.h"

#define MOST_SYMBOLS 16777216.0 /* whole numbers that a float holds */

static const icl_recipe_key vocabulary_rows[] = {
    {"task", "vocabulary", ICL_KEY_COUNT, "64", 4, MOST_SYMBOLS, .help = "symbols V, the special ones among them"},
    {"task", "length", ICL_KEY_COUNT, "48", 1, ICL_MAX_EXTENT, .help = "symbols of a sequence"},
};
const icl_recipe_group icl_vocabulary_keys = ICL_RECIPE_GROUP(vocabulary_rows);

/* What a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0 /* [B, S, c] */, WEIGHTS /* [B, S, 1] */ };

static size_t target_size(const icl_task *task) {
    return icl_loss_target_size(task->shape.loss, task->shape.outputs);
}

icl_status icl_symbols_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                    icl_batch *batch, icl_error *error) {
    const size_t targets[] = {size, task->shape.scored, target_size(task)};
    const size_t weights[] = {size, task->shape.scored, 1};

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, task->shape.positions}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, targets, &batch->scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, weights, &batch->scratch[WEIGHTS], error));
    batch->targets = batch->scratch[TARGETS];
    batch->weights = batch->scratch[WEIGHTS];
    return ICL_OK;
}

icl_status icl_symbols_create(const icl_task *task, size_t size, icl_symbols *symbols, icl_error *error) {
    const size_t scored = size * task->shape.scored;

    ICL_CHECK(icl_allocate(size * task->shape.positions, sizeof(float), "symbols", &symbols->inputs, error));
    ICL_CHECK(icl_allocate(scored, target_size(task) * sizeof(float), "targets", &symbols->targets, error));
    return icl_allocate(scored, sizeof(float), "weights", &symbols->weights, error);
}

void icl_symbols_destroy(icl_symbols *symbols) {
    icl_free(&symbols->inputs);
    icl_free(&symbols->targets);
    icl_free(&symbols->weights);
}

icl_status icl_symbols_write(const icl_symbols *symbols, icl_batch *batch, icl_error *error) {
    ICL_CHECK(icl_tensor_write(batch->inputs, symbols->inputs, error));
    ICL_CHECK(icl_tensor_write(batch->targets, symbols->targets, error));
    return icl_tensor_write(batch->weights, symbols->weights, error);
}
