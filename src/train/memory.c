/* Measures the memory that a step holds at its fullest, before the first one. */
#include <math.h>

#include "iclab/model_family.h"
#include "iclab/status.h"
#include "train/gradient.h"
#include "train/trainer.h"

enum { FEW = 4 }; /* sequences; blocks of the pool are rounded up, which would count for more with one */

static const double MEBIBYTE = 1048576;

static size_t live(const icl_trainer *trainer) {
    return icl_backend_get_statistics(trainer->backend).bytes_live;
}

static size_t peak(const icl_trainer *trainer) {
    return icl_backend_get_statistics(trainer->backend).bytes_peak;
}

/* The most bytes that are taken while the batch is drawn and differentiated, beside what is there. The gradient at hand
 * is overwritten. */
static icl_status measure(icl_trainer *trainer, icl_batch *batch, double *bytes, icl_error *error) {
    icl_tensor losses, own_losses = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(trainer->backend, 1, &batch->size, &own_losses, error));
    icl_tape_reset(trainer->tape);
    const size_t before = live(trainer);
    icl_backend_forget_peak(trainer->backend);
    ICL_TRY(icl_task_sample(trainer->task, trainer->backend, ICL_FOR_TRAINING, trainer->seed, 0, batch, error));
    const icl_differentiation what = {
        .model = trainer->model,
        .tape = trainer->tape,
        .depth = icl_model_layers(trainer->model),
        .window = trainer->loops.last,
        .batch = batch,
        .with = {.parameters = trainer->parameters, .gradient = trainer->gradient, .losses = own_losses},
    };
    ICL_TRY(icl_differentiate(&what, &losses, error));
    *bytes = (double)(peak(trainer) - before);
done:
    icl_tape_reset(trainer->tape);
    icl_tensor_release(&own_losses);
    icl_backend_forget_peak(trainer->backend);
    return status;
}

static icl_status measure_few(icl_trainer *trainer, size_t size, double *bytes, icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status;

    ICL_TRY(icl_batch_create(trainer->task, trainer->backend, ICL_FOR_TRAINING, size, &batch, error));
    ICL_TRY(measure(trainer, &batch, bytes, error));
done:
    icl_batch_release(&batch);
    return status;
}

/* A model's own ops take scratch memory by threads, of which a few sequences occupy too few. They take no tape, so that
 * the batch itself fits. */
static icl_status measure_whole(icl_trainer *trainer, double *bytes, icl_error *error) {
    trainer->batch_number = ICL_NO_BATCH;
    return measure(trainer, &trainer->batch, bytes, error);
}

/* Workers take parts, each one at a time: long sequences singly, so that more of them at once would measure what no
 * step holds. Scratch memory is that of all threads already. */
static icl_status measure_parts(icl_trainer *trainer, double *bytes, icl_error *error) {
    double part = 0;

    ICL_CHECK(measure_few(trainer, trainer->model->sequences_at_once, &part, error));
    ICL_CHECK(icl_backend_trim(trainer->backend, error));
    const double scratch = (double)(icl_backend_get_statistics(trainer->backend).bytes_reserved - live(trainer));
    *bytes = scratch + fmax(0, part - scratch) * (double)icl_backend_workers(trainer->backend) +
             icl_parts_gradient_bytes(trainer->batch_parts, trainer->batch.size, icl_model_size(trainer->model));
    return ICL_OK;
}

/* The first sequences bring scratch memory to its size, so that the next ones have it whenever they hold the most. */
static icl_status measure_tape(icl_trainer *trainer, double *fixed, double *each, icl_error *error) {
    double few = 0, twice = 0;

    ICL_CHECK(measure_few(trainer, FEW, &few, error));
    ICL_CHECK(measure_few(trainer, FEW, &few, error));
    ICL_CHECK(measure_few(trainer, 2 * FEW, &twice, error));
    *each = (twice - few) / FEW;
    *fixed = few - FEW * *each;
    return ICL_OK;
}

icl_status icl_trainer_measure_memory(icl_trainer *trainer, icl_step_memory *memory, icl_error *error) {
    const size_t batch = trainer->batch.size;
    double each = 0;

    *memory =
        (icl_step_memory){.held = (double)live(trainer), .batch = batch * trainer->slices, .slices = trainer->slices};
    if (icl_parts_divide(trainer->batch_parts, batch))
        return measure_parts(trainer, &memory->fixed, error);
    if (icl_model_can(trainer->model, ICL_MODEL_FUSED) && !trainer->batch.weights.buffer)
        ICL_CHECK(measure_whole(trainer, &memory->fixed, error));
    else
        ICL_CHECK(measure_tape(trainer, &memory->fixed, &each, error));
    memory->each = each + (double)trainer->batch_bytes / (double)batch;
    memory->held -= (double)trainer->batch_bytes;
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
