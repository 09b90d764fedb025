/* What a step holds at its fullest, measured before the first one on a few sequences. */
#include "iclab/model_family.h"
#include "iclab/status.h"
#include "train/gradient.h"
#include "train/trainer.h"

enum { FEW = 4 }; /* sequences; blocks of the pool are rounded up, which would count for more with one */

static const double MEBIBYTE = 1048576;

/* The most bytes that tensors of a gradient of `size` sequences take, beside the batch. The gradient at hand is
 * overwritten. */
static icl_status measure(icl_trainer *trainer, size_t size, double *bytes, icl_error *error) {
    icl_batch batch = {{0}};
    icl_tensor losses;
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(trainer->task, trainer->backend, ICL_FOR_TRAINING, size, &batch, error));
    ICL_TRY(icl_task_sample(trainer->task, trainer->backend, ICL_FOR_TRAINING, trainer->seed, 0, &batch, error));
    const icl_differentiation what = {
        .model = trainer->model,
        .tape = trainer->tape,
        .depth = icl_model_layers(trainer->model),
        .window = trainer->loops.last,
        .batch = &batch,
        .with = {.parameters = trainer->parameters, .gradient = trainer->gradient},
    };
    icl_tape_reset(trainer->tape);
    icl_backend_forget_peak(trainer->backend);
    const size_t before = icl_backend_get_statistics(trainer->backend).bytes_peak;
    ICL_TRY(icl_differentiate(&what, &losses, error));
    *bytes = (double)(icl_backend_get_statistics(trainer->backend).bytes_peak - before);
done:
    icl_tape_reset(trainer->tape);
    icl_batch_release(&batch);
    return status;
}

icl_status icl_trainer_measure_memory(icl_trainer *trainer, icl_step_memory *memory, icl_error *error) {
    const size_t batch = trainer->batch.size;
    double few = 0, twice = 0;

    *memory = (icl_step_memory){.held = (double)icl_backend_get_statistics(trainer->backend).bytes_live,
                                .batch = batch * trainer->slices,
                                .slices = trainer->slices};
    if (icl_model_can(trainer->model, ICL_MODEL_FUSED) && !trainer->batch.weights.buffer)
        return ICL_OK;
    /* Workers take parts, each one at a time: long sequences singly, so that more of them at once would measure what no
     * step holds. */
    if (icl_parts_divide(trainer->batch_parts, batch)) {
        ICL_CHECK(measure(trainer, trainer->model->sequences_at_once, &memory->fixed, error));
        memory->fixed *= (double)icl_backend_workers(trainer->backend);
        return ICL_OK;
    }
    ICL_CHECK(measure(trainer, FEW, &few, error));
    ICL_CHECK(measure(trainer, 2 * FEW, &twice, error));
    memory->each = (twice - few) / FEW;
    memory->fixed = few - FEW * memory->each;
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
