/* Measures the memory that a training and its evaluations hold at their fullest, before the first step. */
#include "baseline/fit_set.h"
#include "baseline/workspace.h"
#include "iclab/recipe.h"
#include "iclab/session.h"
#include "iclab/status.h"
#include "iclab/task_family.h"
#include "run/evaluation.h"
#include "train/polish.h"
#include "train/multistart.h"
#include "train/trainer.h"

static const double MEBIBYTE = 1048576;

enum { FEW = 2 }; /* sequences that predictors are fitted on here, only to be counted */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Bytes on the host of an evaluation of `count` sequences. */
static double tally_bytes(const icl_sequences *sequences, size_t count, size_t columns, bool has_oracle) {
    const icl_tally tally = {
        .shape = *icl_task_get_shape(sequences->task), .sequences = count, .columns = columns, .oracle = has_oracle};

    return icl_tally_bytes(&tally, sequences->weights != NULL) + icl_sequences_bytes(sequences);
}

/* The bytes of a batch on the host, for a task that draws there. */
static double draw_bytes(const icl_task *task, const icl_batch *batch) {
    const size_t numbers =
        icl_tensor_count(&batch->inputs) + icl_tensor_count(&batch->targets) + icl_tensor_count(&batch->weights);

    return task->family->draws_on_host ? (double)numbers * sizeof(float) : 0;
}

/* The most that a reference predictor is fitted on. */
static double fit_bytes(const icl_reference_set *beside, const icl_task *task) {
    double most = 0;

    for (size_t i = 0; i < beside->count; i++) {
        const icl_reference_predictor *predictor = beside->items[i].predictor;
        most = predictor && predictor->bytes ? larger(most, predictor->bytes(predictor, task)) : most;
    }
    return most;
}

static double host_bytes(const icl_sequences *sequences, const icl_reference_set *beside, const icl_recipe *recipe) {
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const size_t positions = sequences->chunk * shape->scored;
    const size_t estimates = beside->regression ? icl_predictors_count(beside->regression) : 0;
    const bool has_oracle = beside->regression != NULL;
    const double fit =
        has_oracle ? icl_fit_sets_bytes(sequences->task, (size_t)icl_recipe_count(recipe, "eval", "fit_sequences")) : 0;
    double table =
        tally_bytes(sequences, (size_t)icl_recipe_count(recipe, "eval", "sequences"), 1 + beside->count, has_oracle);

    table += has_oracle ? icl_workspaces_bytes(icl_task_get_prior(sequences->task), true) : 0;
    table += larger(draw_bytes(sequences->task, &sequences->batch), fit_bytes(beside, sequences->task));
    table += (double)positions * (double)(estimates + shape->outputs) * sizeof(double);
    if (icl_recipe_count(recipe, "eval", "every") == 0)
        return larger(fit, table);
    const size_t often = (size_t)icl_recipe_count(recipe, "eval", "every_sequences");
    const double watch = tally_bytes(sequences, often, 1 + has_oracle, has_oracle) +
                         (double)positions * (double)shape->outputs * sizeof(double);
    return larger(larger(fit, table), watch);
}

/* Draws and predicts one piece, as each evaluation does. A prediction takes fewer sequences at a time where the device
 * has no room for more, and then says so by what it holds. */
static icl_status predict_piece(icl_trainer *trainer, const icl_recipe *recipe, icl_session_memory *memory,
                                icl_error *error) {
    icl_backend *backend = trainer->backend;
    icl_reference_set beside = {0};
    icl_sequences sequences = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_reference_set_create(trainer, recipe, FEW, 1, &beside, error));
    ICL_TRY(icl_backend_trim(backend, error));
    const double before = (double)icl_backend_get_statistics(backend).bytes_reserved;
    ICL_TRY(icl_sequences_create(backend, trainer->problem.task, 1, &sequences, error));
    sequences.decodes = icl_recipe_flag(recipe, "eval", "decode");
    ICL_TRY(icl_sequences_sample(&sequences, 0, error));
    ICL_TRY(icl_sequences_predict(&sequences, trainer, error));
    memory->device = larger(0, (double)icl_backend_get_statistics(backend).bytes_reserved - before);
    memory->host = host_bytes(&sequences, &beside, recipe);
done:
    icl_sequences_release(&sequences);
    icl_reference_set_release(&beside);
    icl_backend_forget_peak(backend);
    return status;
}

double icl_session_memory_of(const icl_session_memory *memory) {
    return icl_step_memory_of(&memory->step, memory->step.slices) + memory->device + memory->host;
}

/* Bytes that tensors may take, and that a device of the host shares with everything else; 0: unknown. */
static double room_for_tensors(const icl_capabilities *device) {
    return (double)(device->kind == ICL_DEVICE_HOST ? device->max_allocation : device->global_memory);
}

static icl_status check_host(const icl_capabilities *device, const icl_session_memory *memory, icl_error *error) {
    const double there = (double)device->global_memory, all = icl_session_memory_of(memory);

    if (device->kind != ICL_DEVICE_HOST || there == 0 || all <= there)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "the training would hold %.0f MiB, %.0f of them beside its tensors, and %s has %.0f; expected "
                    "fewer eval.sequences, eval.every_sequences and eval.fit_sequences, or a shorter task",
                    all / MEBIBYTE, memory->host / MEBIBYTE, device->name, there / MEBIBYTE);
}

icl_status icl_session_measure_memory(icl_trainer *trainer, const icl_recipe *recipe, icl_session_memory *memory,
                                      icl_error *error) {
    const icl_capabilities *device = icl_backend_capabilities(trainer->backend);
    const double room = room_for_tensors(device);
    double polish = 0;

    *memory = (icl_session_memory){0};
    ICL_CHECK(icl_trainer_measure_memory(trainer, &memory->step, error));
    const double step = icl_step_memory_of(&memory->step, memory->step.slices);
    if (room > 0)
        ICL_CHECK(icl_step_memory_check(&memory->step, room, device->name, error));
    ICL_CHECK(predict_piece(trainer, recipe, memory, error));
    memory->device += icl_starts_count(trainer) > 1 ? step - memory->step.fixed : 0; /* which has a batch of its own */
    if (room > 0 && memory->device > room - step)
        memory->device = room - step; /* the device then frees what a step needs no more */
    ICL_CHECK(icl_polish_measure_memory(trainer, &polish, error));
    memory->host = larger(memory->host, draw_bytes(trainer->problem.task, &trainer->state.batch));
    memory->host = larger(memory->host, larger(icl_starts_bytes(trainer), polish));
    return check_host(device, memory, error);
}
