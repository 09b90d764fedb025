/* Decodes one position at a time, with any family that has a step. */
#include "iclab/decode.h"

#include "core/allocate.h"
#include "model/memory.h"
#include "model/model.h"

struct icl_decoder {
    const icl_model *model;
    icl_tape *tape;
    icl_tensor parameters;
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

static icl_status run_step(icl_decoder *decoder, icl_tensor inputs, icl_tensor outputs, icl_error *error) {
    icl_tape *tape = decoder->tape;
    icl_variable *variables = NULL;
    icl_status status = ICL_OK;

    icl_tape_reset(tape);
    icl_model_memory_begin(&decoder->memory);
    ICL_TRY(icl_model_put_parameters(decoder->model, tape, decoder->parameters, (icl_tensor){0}, &variables, error));
    const icl_variable made = decoder->model->family->step(
        decoder->model, tape, variables, icl_tape_constant(tape, at_position(inputs)), &decoder->memory);
    ICL_TRY(icl_tape_status(tape, error));
    ICL_TRY(icl_copy(icl_tape_backend(tape), at_position(outputs), icl_tape_value(tape, made), error));
    icl_model_memory_advance(&decoder->memory, 1);
done:
    icl_free(&variables);
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
    icl_tape_reset(decoder->tape); /* it refers to the inputs */
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
    created->parameters = parameters;
    created->batch = batch;
    created->memory = (icl_model_memory){.backend = backend, .positions = model->shape.positions};
    ICL_TRY(icl_tape_create(backend, &created->tape, error));
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
    icl_model_memory_release(&(*decoder)->memory);
    icl_free(decoder);
}

void icl_decoder_reset(icl_decoder *decoder) {
    icl_model_memory_forget(&decoder->memory);
    decoder->is_lost = false;
}

size_t icl_decoder_position(const icl_decoder *decoder) {
    return icl_model_memory_position(&decoder->memory);
}

size_t icl_decoder_state_bytes(const icl_decoder *decoder) {
    const size_t element = icl_backend_capabilities(decoder->memory.backend)->element_size;
    size_t elements = 0;

    for (size_t i = 0; i < decoder->memory.count; i++)
        elements += icl_tensor_count(&decoder->memory.parts[i].stored);
    return elements * element;
}
