/* Stores the parts of a state in the order in which a step asks for them, the same in every step of a model. */
#include "model/memory.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"

void icl_model_memory_begin(icl_model_memory *memory) {
    memory->next = 0;
}

void icl_model_memory_advance(icl_model_memory *memory, size_t positions) {
    memory->position += positions;
}

size_t icl_model_memory_position(const icl_model_memory *memory) {
    return memory->position;
}

void icl_model_memory_forget(icl_model_memory *memory) {
    memory->position = 0;
    for (size_t i = 0; i < memory->count; i++)
        memory->parts[i].is_stale = true;
}

void icl_model_memory_release(icl_model_memory *memory) {
    for (size_t i = 0; i < memory->count; i++)
        icl_tensor_release(&memory->parts[i].stored);
    icl_free(&memory->parts);
}

/* Finds the next part, and creates its tensor of this shape if it has none. */
static icl_status find_part(icl_model_memory *memory, int rank, const size_t *shape, icl_model_memory_part **part,
                            icl_error *error) {
    if (memory->next == memory->count) {
        ICL_CHECK(icl_grow(&memory->parts, memory->count, &memory->capacity, sizeof *memory->parts, "state", error));
        memory->parts[memory->count++] = (icl_model_memory_part){.is_stale = true};
    }
    *part = &memory->parts[memory->next++];
    if ((*part)->stored.buffer)
        return ICL_OK;
    return icl_tensor_create(memory->backend, rank, shape, &(*part)->stored, error);
}

static icl_status recall(icl_model_memory *memory, int rank, const size_t *shape, icl_tensor *stored,
                         icl_error *error) {
    icl_model_memory_part *part;

    ICL_CHECK(find_part(memory, rank, shape, &part, error));
    if (part->stored.rank != rank || memcmp(part->stored.shape, shape, (size_t)rank * sizeof *shape) != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "decoder: a step asks for a state of another shape than the last one");
    if (part->is_stale)
        ICL_CHECK(icl_fill(memory->backend, part->stored, 0.0, error));
    part->is_stale = false;
    *stored = part->stored;
    return ICL_OK;
}

icl_variable icl_model_memory_recall(icl_model_memory *memory, icl_tape *tape, int rank, const size_t *shape,
                                     size_t *part) {
    icl_tensor stored = {0};
    icl_error error;

    *part = memory->next;
    if (icl_tape_status(tape, &error) == ICL_OK && recall(memory, rank, shape, &stored, &error) != ICL_OK)
        icl_tape_fail(tape, &error);
    return icl_tape_constant(tape, stored);
}

void icl_model_memory_keep(icl_model_memory *memory, icl_tape *tape, size_t part, icl_variable value) {
    const icl_tensor seen = icl_tape_value(tape, value);
    icl_error error;

    if (seen.buffer && icl_copy(memory->backend, memory->parts[part].stored, seen, &error) != ICL_OK)
        icl_tape_fail(tape, &error);
}

/* ---- Tensors that grow along time ---- */

/* Doubles a part's room until it holds `needed` positions, and keeps its contents. */
static icl_status enlarge(icl_model_memory *memory, icl_model_memory_part *part, size_t needed, icl_error *error) {
    icl_tensor larger = {0};
    size_t shape[4];
    icl_status status = ICL_OK;

    memcpy(shape, part->stored.shape, sizeof shape);
    while (shape[2] < needed)
        shape[2] *= 2;
    ICL_TRY(icl_tensor_create(memory->backend, 4, shape, &larger, error));
    ICL_TRY(icl_copy(memory->backend, icl_tensor_slice(larger, 2, 0, part->stored.shape[2]), part->stored, error));
    icl_tensor_release(&part->stored);
    part->stored = larger;
    larger = (icl_tensor){0};
done:
    icl_tensor_release(&larger);
    return status;
}

static icl_status append(icl_model_memory *memory, icl_tensor value, icl_tensor *tensor, icl_error *error) {
    const size_t end = memory->position + value.shape[2];
    const size_t room = memory->positions > end ? memory->positions : end;
    icl_model_memory_part *part;

    ICL_CHECK(
        find_part(memory, 4, (const size_t[]){value.shape[0], value.shape[1], room, value.shape[3]}, &part, error));
    if (end > part->stored.shape[2])
        ICL_CHECK(enlarge(memory, part, end, error));
    ICL_CHECK(
        icl_copy(memory->backend, icl_tensor_slice(part->stored, 2, memory->position, value.shape[2]), value, error));
    *tensor = icl_tensor_slice(part->stored, 2, 0, end);
    return ICL_OK;
}

icl_variable icl_model_memory_append(icl_model_memory *memory, icl_tape *tape, icl_variable value) {
    const icl_tensor seen = icl_tape_value(tape, value);
    icl_tensor all = {0};
    icl_error error;

    if (seen.buffer && append(memory, seen, &all, &error) != ICL_OK)
        icl_tape_fail(tape, &error);
    return icl_tape_constant(tape, all);
}
