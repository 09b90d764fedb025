/* Mixers of a program's own (icl_mixer_family): a mixer whose functions call those of the layer's family. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "model/sequence/sequence.h"

enum { NAME_CAPACITY = 48 };

struct icl_mixer_builder {
    icl_sequence_builder *builder;
    icl_sequence_layer *layer;
};

/* Writes the name of a parameter in its block. ICL_ERROR_INPUT if the block has it: a file knows it by its name. */
static icl_status name_parameter(const icl_mixer_builder *builder, const char *name, char text[NAME_CAPACITY],
                                 icl_error *error) {
    const icl_model *model = builder->builder->model;
    char whole[NAME_CAPACITY + 32];

    snprintf(text, NAME_CAPACITY, "mixer.%s", name);
    snprintf(whole, sizeof whole, "block.%zu.%s", builder->layer->index, text);
    for (size_t i = builder->layer->first; i < model->parameter_count; i++)
        if (strcmp(model->parameters[i].name, whole) == 0)
            return icl_fail(error, ICL_ERROR_INPUT, "model.mixer = %s adds %s twice: expected another name",
                            builder->layer->own->name, whole);
    return ICL_OK;
}

icl_status icl_mixer_add_matrix(icl_mixer_builder *builder, const char *name, size_t inputs, size_t outputs,
                                icl_error *error) {
    icl_sequence_parameter number;
    char text[NAME_CAPACITY];

    ICL_CHECK(name_parameter(builder, name, text, error));
    return icl_sequence_add_matrix(builder->builder, &number, builder->layer, text, inputs, outputs, error);
}

icl_status icl_mixer_add_output(icl_mixer_builder *builder, const char *name, size_t inputs, size_t outputs,
                                icl_error *error) {
    icl_sequence_parameter number;
    char text[NAME_CAPACITY];

    ICL_CHECK(name_parameter(builder, name, text, error));
    return icl_sequence_add_residual(builder->builder, &number, builder->layer, text, inputs, outputs, error);
}

icl_status icl_mixer_add_constants(icl_mixer_builder *builder, const char *name, size_t count, double value,
                                   icl_error *error) {
    icl_sequence_parameter number;
    char text[NAME_CAPACITY];

    ICL_CHECK(name_parameter(builder, name, text, error));
    return icl_sequence_add_constants(builder->builder, &number, builder->layer, text, count, value, error);
}

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_mixer_family *own = layer->own;
    const icl_sequence *sequence = builder->sequence;

    layer->first = builder->model->parameter_count;
    layer->block = (icl_mixer_block){.layer = layer->index,
                                     .layers = builder->model->layers,
                                     .width = sequence->width,
                                     .heads = sequence->heads,
                                     .causal = sequence->causal};
    if (own->state_size > 0) {
        char *state = NULL;
        ICL_CHECK(icl_allocate(own->state_size, 1, "state of a mixer", &state, error));
        layer->block.state = state;
    }
    return own->create ? own->create(builder->recipe, &layer->block, &(icl_mixer_builder){builder, layer}, error)
                       : ICL_OK;
}

/* Fails the tape unless the output has the shape of x: another would be added to the wrong positions. */
static void check_output(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                         icl_variable output) {
    icl_error error = {0};

    if (icl_tape_status(pass->tape, NULL) != ICL_OK)
        return;
    const icl_tensor expected = icl_tape_value(pass->tape, x), seen = icl_tape_value(pass->tape, output);
    if (seen.rank == 3 && memcmp(seen.shape, expected.shape, 3 * sizeof *seen.shape) == 0)
        return;
    icl_fail(&error, ICL_ERROR_INPUT, "model.mixer = %s gave [%zu, %zu, %zu] (rank %d), expected [%zu, %zu, %zu]",
             layer->own->name, seen.shape[0], seen.shape[1], seen.shape[2], seen.rank, expected.shape[0],
             expected.shape[1], expected.shape[2]);
    icl_tape_fail(pass->tape, &error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_mixer_pass own = {.block = &layer->block,
                                .tape = pass->tape,
                                .parameters = pass->parameters + layer->first,
                                .memory = pass->memory,
                                .first_position = pass->first_position};
    const icl_variable output = layer->own->mix(&own, x);

    check_output(pass, layer, x, output);
    return output;
}

const icl_sequence_mixer icl_mixer_own = {.word = "own", .create = create, .mix = mix};
