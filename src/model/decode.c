/* Decodes one position at a time, with any family that has a step. */
#include "iclab/decode.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/model_family.h"
#include "iclab/status.h"
#include "model/model.h"

/* A tensor that a step leaves for the next one. */
typedef struct memory_part {
    icl_tensor stored;
    bool is_stale; /* left by forgotten sequences: the next step sees zeros, or nothing before it */
    /* Of a part along time: its axis, how many positions it holds, and how many of them a later step sees. */
    int axis;
    size_t positions, before;
} memory_part;

struct icl_model_memory {
    icl_backend *backend;
    size_t positions; /* the number that room is made for at first */
    size_t position;
    memory_part *parts;
    size_t count, capacity;
    size_t next; /* the number of the part that this step asks for next */
};

/* ---- The memory: what a position leaves for later ones ---- */

/* Stores the parts of a state in the order in which a step asks for them, the same in every step of a model. */

/* Begins a step. */
static void begin_step(icl_model_memory *memory) {
    memory->next = 0;
}

/* Ends a step, which ran this many positions. */
static void advance(icl_model_memory *memory, size_t positions) {
    memory->position += positions;
}

size_t icl_model_memory_position(const icl_model_memory *memory) {
    return memory->position;
}

static void forget(icl_model_memory *memory) {
    memory->position = 0;
    for (size_t i = 0; i < memory->count; i++)
        memory->parts[i].is_stale = true;
}

static void release(icl_model_memory *memory) {
    for (size_t i = 0; i < memory->count; i++)
        icl_tensor_release(&memory->parts[i].stored);
    icl_free(&memory->parts);
}

static icl_status next_part(icl_model_memory *memory, memory_part **part, icl_error *error) {
    if (memory->next == memory->count) {
        ICL_CHECK(icl_grow(&memory->parts, memory->count, &memory->capacity, sizeof *memory->parts, "state", error));
        memory->parts[memory->count++] = (memory_part){.is_stale = true, .before = SIZE_MAX};
    }
    *part = &memory->parts[memory->next++];
    return ICL_OK;
}

static icl_status recall(icl_model_memory *memory, int rank, const size_t *shape, icl_tensor *stored,
                         icl_error *error) {
    memory_part *part;

    ICL_CHECK(next_part(memory, &part, error));
    if (!part->stored.buffer)
        ICL_CHECK(icl_tensor_create(memory->backend, rank, shape, &part->stored, error));
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

/* ---- Parts along time ---- */

/*
 * The positions of a part lie next to each other in its tensor, and a step copies its own behind them. At the end of
 * the room a part that keeps all positions gets twice the room, and so does one that keeps the last ones alone until it
 * has room for twice as many and some more: then they move to the beginning, which is at most one copied position for
 * each new one.
 */

enum { SPARE_POSITIONS = 64 };

/* Copies the last `kept` positions to the beginning of a tensor: another one, or the part's own where they do not meet
 * themselves. */
static icl_status move_positions(icl_backend *backend, memory_part *part, size_t kept, icl_tensor to,
                                 icl_error *error) {
    const size_t from = part->positions - kept;

    if (kept > 0)
        ICL_CHECK(icl_copy(backend, icl_tensor_slice(to, part->axis, 0, kept),
                           icl_tensor_slice(part->stored, part->axis, from, kept), error));
    part->positions = kept;
    return ICL_OK;
}

/* Gives a part a tensor like `value` with this room along time, and moves what it keeps there. */
static icl_status enlarge(icl_backend *backend, memory_part *part, size_t kept, icl_tensor value, size_t room,
                          icl_error *error) {
    icl_tensor roomier = {0};
    size_t shape[ICL_MAX_RANK];
    icl_status status = ICL_OK;

    memcpy(shape, value.shape, sizeof shape);
    shape[part->axis] = room;
    ICL_TRY(icl_tensor_create(backend, value.rank, shape, &roomier, error));
    ICL_TRY(move_positions(backend, part, kept, roomier, error));
    icl_tensor_release(&part->stored);
    part->stored = roomier;
    roomier = (icl_tensor){0};
done:
    icl_tensor_release(&roomier);
    return status;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Makes room for the positions of `value` behind those that are kept. */
static icl_status make_room(const icl_model_memory *memory, memory_part *part, size_t kept, icl_tensor value,
                            icl_error *error) {
    const size_t steps = value.shape[part->axis], room = part->stored.buffer ? part->stored.shape[part->axis] : 0;
    const bool keeps_all = part->before == SIZE_MAX;
    const size_t enough = keeps_all ? SIZE_MAX : 2 * part->before + steps;

    if (part->positions + steps <= room)
        return ICL_OK;
    if (room >= enough)
        return move_positions(memory->backend, part, kept, part->stored, error);
    const size_t most = keeps_all ? SIZE_MAX : enough + SPARE_POSITIONS;
    const size_t wanted = smaller(larger(2 * room, memory->positions), most);
    return enlarge(memory->backend, part, kept, value, larger(wanted, kept + steps), error);
}

static icl_status slide(icl_model_memory *memory, int axis, size_t before, icl_tensor value, icl_tensor *tensor,
                        icl_error *error) {
    const size_t steps = value.shape[axis];
    memory_part *part;

    ICL_CHECK(next_part(memory, &part, error));
    if (part->is_stale)
        *part = (memory_part){.stored = part->stored, .axis = axis, .before = before};
    const size_t kept = smaller(part->positions, before);
    ICL_CHECK(make_room(memory, part, kept, value, error));
    const size_t end = part->positions;
    ICL_CHECK(icl_copy(memory->backend, icl_tensor_slice(part->stored, axis, end, steps), value, error));
    part->positions += steps;
    *tensor = icl_tensor_slice(part->stored, axis, end - kept, kept + steps);
    return ICL_OK;
}

icl_variable icl_model_memory_slide(icl_model_memory *memory, icl_tape *tape, int axis, size_t before,
                                    icl_variable value) {
    const icl_tensor seen = icl_tape_value(tape, value);
    icl_tensor all = {0};
    icl_error error;

    if (seen.buffer && slide(memory, axis, before, seen, &all, &error) != ICL_OK)
        icl_tape_fail(tape, &error);
    return icl_tape_constant(tape, all);
}

/* ---- The decoder ---- */

struct icl_decoder {
    const icl_model *model;
    icl_tape *tape;
    icl_variable *parameters; /* on the tape, before what a step records */
    icl_model_memory memory;
    size_t batch;
    bool is_lost; /* a step failed */
};

static icl_status refuse_step(const icl_decoder *decoder, const char *what, icl_tensor seen, size_t last,
                              icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT, "decoder: %s [%zu, %zu] (rank %d), expected [%zu, %zu]", what,
                    seen.rank > 0 ? seen.shape[0] : 0, seen.rank > 1 ? seen.shape[1] : 0, seen.rank, decoder->batch,
                    last);
}

static icl_status check_step(const icl_decoder *decoder, icl_tensor inputs, icl_tensor outputs, icl_error *error) {
    const icl_task_shape *shape = &decoder->model->shape;
    const size_t last = shape->symbols > 0 ? 1 : shape->inputs;

    if (decoder->is_lost)
        return icl_fail(error, ICL_ERROR_INPUT, "decoder: a step failed before: reset it first");
    if (inputs.rank != (shape->symbols > 0 ? 1 : 2) || inputs.shape[0] != decoder->batch ||
        (shape->symbols == 0 && inputs.shape[1] != last))
        return refuse_step(decoder, shape->symbols > 0 ? "symbols" : "inputs", inputs, last, error);
    if (outputs.rank != 2 || outputs.shape[0] != decoder->batch || outputs.shape[1] != shape->outputs)
        return refuse_step(decoder, "outputs", outputs, shape->outputs, error);
    return ICL_OK;
}

/* Returns [B, …] as [B, 1, …]: one position. */
static icl_tensor at_position(icl_tensor tensor) {
    icl_tensor view = tensor;

    view.rank = tensor.rank + 1;
    view.shape[1] = 1;
    view.stride[1] = tensor.stride[0];
    for (int i = 1; i < tensor.rank; i++) {
        view.shape[i + 1] = tensor.shape[i];
        view.stride[i + 1] = tensor.stride[i];
    }
    return view;
}

/* Forgets what the last step recorded. */
static void rewind_tape(icl_decoder *decoder) {
    icl_tape_rewind(decoder->tape, decoder->parameters[icl_model_parameter_count(decoder->model) - 1]);
}

static icl_status run_step(icl_decoder *decoder, icl_tensor inputs, icl_tensor outputs, icl_error *error) {
    icl_tape *tape = decoder->tape;
    icl_status status = ICL_OK;

    rewind_tape(decoder);
    begin_step(&decoder->memory);
    const icl_variable made = decoder->model->family->step(
        decoder->model, tape, decoder->parameters, icl_tape_constant(tape, at_position(inputs)), &decoder->memory);
    ICL_TRY(icl_tape_status(tape, error));
    ICL_TRY(icl_copy(icl_tape_backend(tape), at_position(outputs), icl_tape_value(tape, made), error));
    advance(&decoder->memory, 1);
done:
    decoder->is_lost = status != ICL_OK;
    return status;
}

icl_status icl_decoder_step(icl_decoder *decoder, icl_tensor inputs, icl_tensor outputs, icl_error *error) {
    ICL_CHECK(check_step(decoder, inputs, outputs, error));
    return run_step(decoder, inputs, outputs, error);
}

/* Runs a step of zeros, which allocates the state and fails if the model cannot decode. */
static icl_status rehearse(icl_decoder *decoder, icl_backend *backend, icl_error *error) {
    const icl_task_shape *shape = &decoder->model->shape;
    const size_t from[] = {decoder->batch, shape->inputs}, to[] = {decoder->batch, shape->outputs};
    icl_tensor inputs = {0}, outputs = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, shape->symbols > 0 ? 1 : 2, from, &inputs, error));
    ICL_TRY(icl_tensor_create(backend, 2, to, &outputs, error));
    ICL_TRY(icl_fill(backend, inputs, 0.0, error));
    ICL_TRY(icl_decoder_step(decoder, inputs, outputs, error));
    icl_decoder_reset(decoder);
done:
    rewind_tape(decoder); /* it refers to the inputs */
    icl_tensor_release(&inputs);
    icl_tensor_release(&outputs);
    return status;
}

icl_status icl_decoder_create(const icl_model *model, icl_backend *backend, icl_tensor parameters, size_t batch,
                              icl_decoder **decoder, icl_error *error) {
    icl_decoder *created = NULL;
    icl_status status = ICL_OK;

    if (!icl_model_can(model, ICL_MODEL_DECODES))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "decoder: a model of model.family = %s: expected a causal model of the family sequence that "
                        "reads each position out, and whose mixers all have a memory",
                        model->family->name);
    if (batch == 0 || parameters.rank != 1 || parameters.shape[0] != model->size)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "decoder: %zu sequences with %zu parameters: expected at least 1 sequence, and %zu", batch,
                        icl_tensor_count(&parameters), model->size);
    ICL_TRY(icl_allocate(1, sizeof *created, "decoder", &created, error));
    created->model = model;
    created->batch = batch;
    created->memory = (icl_model_memory){.backend = backend, .positions = model->shape.positions};
    ICL_TRY(icl_tape_create(backend, &created->tape, error));
    ICL_TRY(icl_model_put_parameters(model, created->tape, parameters, (icl_tensor){0}, &created->parameters, error));
    ICL_TRY(icl_tape_status(created->tape, error));
    ICL_TRY(rehearse(created, backend, error));
    *decoder = created;
    created = NULL;
done:
    icl_decoder_destroy(&created);
    return status;
}

void icl_decoder_destroy(icl_decoder **decoder) {
    if (!*decoder)
        return;
    icl_tape_destroy(&(*decoder)->tape);
    icl_free(&(*decoder)->parameters);
    release(&(*decoder)->memory);
    icl_free(decoder);
}

void icl_decoder_reset(icl_decoder *decoder) {
    forget(&decoder->memory);
    decoder->is_lost = false;
}

size_t icl_decoder_position(const icl_decoder *decoder) {
    return icl_model_memory_position(&decoder->memory);
}

size_t icl_decoder_state_bytes(const icl_decoder *decoder) {
    const size_t element = icl_backend_capabilities(decoder->memory.backend)->element_size;
    size_t elements = 0;

    for (size_t i = 0; i < decoder->memory.count; i++) {
        const memory_part *part = &decoder->memory.parts[i];
        const size_t room = part->stored.buffer ? part->stored.shape[part->axis] : 0;
        if (room > 0)
            elements += icl_tensor_count(&part->stored) / room * smaller(room, part->before);
    }
    return elements * element;
}
