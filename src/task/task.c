#include "task/task.h"

#include <stdint.h>
#include <string.h>

#include "core/allocate.h"

enum { FAMILIES = 2 };

/* In the order of the words of the key task.family. */
static const icl_task_family *const families[FAMILIES] = {
    &icl_linear_regression,
    &icl_functions,
};

/* Elements of one sequence and of a d x d matrix: far beyond any use, and far from overflowing what is made of them. */
#define LARGEST_SEQUENCE ((size_t)1 << 31)

static icl_status read_sizes(const icl_recipe *recipe, icl_task_prior *prior, icl_error *error) {
    const uint64_t dimension = icl_recipe_count(recipe, "task", "d");
    const uint64_t context = icl_recipe_count(recipe, "task", "n");

    if (dimension < 1 || dimension >= LARGEST_SEQUENCE / dimension)
        return icl_recipe_reject(recipe, "task", "d", error,
                                 "a dimension of at least 1 whose square is below 2^31");
    if (context < 1 || context + 1 >= LARGEST_SEQUENCE / (dimension + 1))
        return icl_recipe_reject(recipe, "task", "n", error,
                                 "a context of at least 1 with (n + 1) (d + 1) below 2^31 (d is %llu)",
                                 (unsigned long long)dimension);
    prior->dimension = (size_t)dimension;
    prior->context = (size_t)context;
    return ICL_OK;
}

icl_status icl_task_create(const icl_recipe *recipe, icl_task **task, icl_error *error) {
    const size_t family = icl_recipe_word(recipe, "task", "family");
    icl_status status;
    icl_task *created = NULL;

    *task = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "task", &created, error));
    if (family >= FAMILIES)
        ICL_TRY(icl_recipe_reject(recipe, "task", "family", error, "a family of tasks, such as %s",
                                  families[0]->name));
    created->family = families[family];
    ICL_TRY(read_sizes(recipe, &created->prior, error));
    ICL_TRY(created->family->create(recipe, created, error));
    *task = created;
    created = NULL;
done:
    icl_task_destroy(&created);
    return status;
}

void icl_task_destroy(icl_task **task) {
    if (*task && (*task)->family)
        (*task)->family->destroy(*task);
    icl_free(task);
}

size_t icl_task_dimension(const icl_task *task) {
    return task->prior.dimension;
}

size_t icl_task_context(const icl_task *task) {
    return task->prior.context;
}

const icl_task_prior *icl_task_get_prior(const icl_task *task) {
    return &task->prior;
}

icl_status icl_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                            icl_batch *batch, icl_error *error) {
    icl_status status;

    memset(batch, 0, sizeof *batch);
    status = task->family->batch_create(task, backend, purpose, size, batch, error);
    if (status != ICL_OK)
        icl_batch_release(batch);
    return status;
}

void icl_batch_release(icl_batch *batch) {
    icl_tensor_release(&batch->tokens);
    icl_tensor_release(&batch->gram);
    icl_tensor_release(&batch->query);
    for (size_t i = 0; i < sizeof batch->scratch / sizeof *batch->scratch; i++)
        icl_tensor_release(&batch->scratch[i]);
    memset(batch, 0, sizeof *batch);
}

icl_status icl_task_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose,
                           uint32_t seed, uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_tensor *tokens = &batch->tokens, *gram = &batch->gram;
    const size_t context = task->prior.context, dimension = task->prior.dimension;
    const bool has_tokens =
        tokens->buffer && tokens->shape[1] == context + 1 && tokens->shape[2] == dimension + 1;

    if (!has_tokens && !(gram->buffer && gram->shape[1] == dimension + 1))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "icl_task_sample: the batch was made for another task, expected tokens [B, %zu, %zu]",
                        context + 1, dimension + 1);
    return task->family->sample(task, backend, purpose, seed, step, batch, error);
}
