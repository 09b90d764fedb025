/* Measures the most memory that a step holds, before the first step. */
#include <math.h>

#include "train/trainer.h"

/* Sequences: more than one, because the pool rounds up the size of blocks; and if they fit more than FEW, because a few
 * may take other kernels, and occupy less of their scratch memory, than a batch does. */
enum { FEW = 4, MORE = 16 };

static const double MEBIBYTE = 1048576;

static size_t live(const icl_trainer *trainer) {
    return icl_backend_get_statistics(trainer->backend).bytes_live;
}

static size_t peak(const icl_trainer *trainer) {
    return icl_backend_get_statistics(trainer->backend).bytes_peak;
}

/* Measures the most bytes that drawing and differentiating the batch as a whole takes, beyond what is already held.
 * Overwrites the trainer's gradient. */
static icl_status measure(icl_trainer *trainer, icl_batch *batch, double *bytes, icl_error *error) {
    const icl_training_problem *problem = &trainer->problem;
    icl_backend *backend = trainer->backend;
    const icl_gradient_plan plan = icl_gradient_plan_choose(&(icl_gradient_wish){
        .model = problem->model, .backend = backend, .batch = batch, .slices = 1, .is_whole = true});
    icl_differentiator *differentiator = NULL;
    icl_tensor losses, own_losses = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_differentiator_create(backend, problem->model, &plan, &differentiator, error));
    ICL_TRY(icl_tensor_create(backend, 1, &batch->size, &own_losses, error));
    icl_differentiator_reset(trainer->differentiator);
    icl_backend_forget_peak(backend);
    const size_t before = peak(trainer); /* without what workers hold for other trainers, which the peak leaves out */
    ICL_TRY(icl_task_sample(problem->task, backend, ICL_FOR_TRAINING, problem->settings.seed, 0, batch, error));
    icl_gradient_call call = icl_trainer_call(trainer, batch);
    call.depth = icl_model_layers(problem->model);
    call.window = problem->settings.loops.last;
    call.with.losses = own_losses;
    ICL_TRY(icl_differentiate(differentiator, &call, &losses, error));
    *bytes = (double)(peak(trainer) - before);
done:
    icl_differentiator_destroy(&differentiator);
    icl_tensor_release(&own_losses);
    icl_backend_forget_peak(backend);
    return status;
}

static icl_status measure_few(icl_trainer *trainer, size_t size, double *bytes, icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status;

    ICL_TRY(icl_batch_create(trainer->problem.task, trainer->backend, ICL_FOR_TRAINING, size, &batch, error));
    ICL_TRY(measure(trainer, &batch, bytes, error));
done:
    icl_batch_release(&batch);
    return status;
}

/* Measures the whole batch for a model with ops of its own: their scratch memory depends on the number of threads, and
 * a few sequences would occupy too few. They use no tape, so the batch itself fits. */
static icl_status measure_whole(icl_trainer *trainer, double *bytes, icl_error *error) {
    trainer->state.batch_number = ICL_NO_BATCH;
    return measure(trainer, &trainer->state.batch, bytes, error);
}

/* Measures one micro-batch and multiplies it by the number of workers, each of which holds one at a time. More
 * sequences would measure what no step holds, because long sequences come singly. Scratch memory is not multiplied: it
 * already serves all threads. */
static icl_status measure_parts(icl_trainer *trainer, double *bytes, icl_error *error) {
    double part = 0;

    ICL_CHECK(measure_few(trainer, trainer->problem.plan.most, &part, error));
    ICL_CHECK(icl_backend_trim(trainer->backend, error));
    const double scratch = (double)(icl_backend_get_statistics(trainer->backend).bytes_reserved - live(trainer));
    *bytes = scratch + fmax(0, part - scratch) * (double)icl_backend_workers(trainer->backend) +
             icl_differentiator_gradient_bytes(trainer->differentiator);
    return ICL_OK;
}

/* Measures `count` sequences and twice as many, and derives the bytes per sequence. The first measurement only brings
 * scratch memory to its size, so that the others hold it at their peak. */
static icl_status measure_twice(icl_trainer *trainer, size_t count, double *fixed, double *each, icl_error *error) {
    double once = 0, twice = 0;

    ICL_CHECK(measure_few(trainer, count, &once, error));
    ICL_CHECK(measure_few(trainer, count, &once, error));
    ICL_CHECK(measure_few(trainer, 2 * count, &twice, error));
    *each = (twice - once) / (double)count;
    *fixed = once - (double)count * *each;
    return ICL_OK;
}

/* Measures up to half of the sequences of a step. */
static icl_status measure_tape(icl_trainer *trainer, double *fixed, double *each, icl_error *error) {
    const size_t half = trainer->problem.plan.sequences / 2;
    const size_t count = half < FEW ? FEW : half < MORE ? half : MORE;
    const icl_status status = measure_twice(trainer, count, fixed, each, error);

    return status == ICL_ERROR_MEMORY && count > FEW ? measure_twice(trainer, FEW, fixed, each, error) : status;
}

icl_status icl_trainer_measure_memory(icl_trainer *trainer, icl_step_memory *memory, icl_error *error) {
    const icl_gradient_plan *plan = &trainer->problem.plan;
    const double batch_bytes = (double)trainer->state.batch_bytes;
    double each = 0;

    *memory = (icl_step_memory){
        .held = (double)live(trainer), .batch = trainer->problem.settings.batch, .slices = plan->slices};
    if (plan->way == ICL_GRADIENT_IN_MICROBATCHES)
        return measure_parts(trainer, &memory->fixed, error);
    ICL_CHECK(plan->way == ICL_GRADIENT_FUSED ? measure_whole(trainer, &memory->fixed, error)
                                              : measure_tape(trainer, &memory->fixed, &each, error));
    memory->each = each + batch_bytes / (double)plan->sequences;
    memory->held -= batch_bytes;
    return ICL_OK;
}

double icl_step_memory_of(const icl_step_memory *memory, size_t slices) {
    const size_t sequences = memory->batch / slices;

    return memory->held + memory->fixed + memory->each * (double)sequences;
}

size_t icl_step_memory_slices(const icl_step_memory *memory, double bytes) {
    for (size_t slices = memory->slices + 1; slices <= memory->batch; slices++)
        if (memory->batch % slices == 0 && icl_step_memory_of(memory, slices) <= bytes)
            return slices;
    return 0;
}

icl_status icl_step_memory_check(const icl_step_memory *memory, double there, const char *device, icl_error *error) {
    const double holds = icl_step_memory_of(memory, memory->slices);
    const size_t slices = icl_step_memory_slices(memory, there);

    if (holds <= there)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "train.slices = %zu: a step would hold %.0f MiB, and %s has %.0f; expected %s%zu", memory->slices,
                    holds / MEBIBYTE, device, there / MEBIBYTE,
                    slices > 0 ? "" : "a smaller model, or train.batch below ", slices > 0 ? slices : memory->batch);
}
