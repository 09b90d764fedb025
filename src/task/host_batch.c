#include "task/host_batch.h"

#include <string.h>

#include "core/allocate.h"

/* The parts of a batch that have numbers on the host. */
enum { INPUTS, TARGETS, WEIGHTS, FIRST_SIDE, PARTS = FIRST_SIDE + ICL_MAX_SIDES };

static icl_tensor tensor_of(const icl_batch *batch, int part) {
    const icl_tensor own[] = {batch->inputs, batch->targets, batch->weights};
    return part < FIRST_SIDE ? own[part] : batch->sides[part - FIRST_SIDE].tensor;
}

static size_t numbers_of(const icl_batch *batch, int part) {
    const icl_tensor tensor = tensor_of(batch, part);
    return tensor.buffer ? icl_tensor_count(&tensor) : 0;
}

icl_status icl_host_batch_create(const icl_batch *batch, icl_host_batch *host, icl_error *error) {
    icl_batch_values *values = &host->values;
    float **places[PARTS] = {&values->inputs, &values->targets, &values->weights};
    size_t first = 0;

    *host = (icl_host_batch){.values.size = batch->size};
    for (int part = 0; part < PARTS; part++)
        host->count += numbers_of(batch, part);
    ICL_CHECK(icl_allocate(host->count, sizeof *host->memory, "sequences", &host->memory, error));
    for (int i = 0; i < ICL_MAX_SIDES; i++)
        places[FIRST_SIDE + i] = &values->sides[i];
    for (int part = 0; part < PARTS; first += numbers_of(batch, part++))
        *places[part] = tensor_of(batch, part).buffer ? host->memory + first : NULL;
    return ICL_OK;
}

void icl_host_batch_destroy(icl_host_batch *host) {
    icl_free(&host->memory);
    *host = (icl_host_batch){0};
}

icl_status icl_host_batch_draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                               icl_host_batch *host, icl_error *error) {
    memset(host->memory, 0, host->count * sizeof *host->memory);
    return task->family->draw(task, purpose, seed, step, &host->values, error);
}

icl_status icl_host_batch_write(const icl_host_batch *host, const icl_batch *batch, icl_error *error) {
    const float *next = host->memory;

    for (int part = 0; part < PARTS; next += numbers_of(batch, part++))
        if (numbers_of(batch, part) > 0)
            ICL_CHECK(icl_tensor_write(tensor_of(batch, part), next, error));
    return ICL_OK;
}
