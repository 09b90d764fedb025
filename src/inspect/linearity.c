/* How linear the layers of a sequence model are, from the residual stream before each to that behind it
 * (probe/linearity.h). */
#include <stdio.h>

#include "inspect/inspecting.h"
#include "probe/linearity.h"
#include "probe/residual_stream.h"

/* "2", or "2, loop 3" where the layers run several times. */
static const char *name_layer(const icl_inspecting *run, size_t stage, char text[ICL_INSPECT_CELL]) {
    const size_t layers = icl_model_layers(run->model), layer = (stage - 1) % layers, loop = (stage - 1) / layers;

    if (icl_model_loops(run->model) > 1)
        snprintf(text, ICL_INSPECT_CELL, "%zu, loop %zu", layer + 1, loop + 1);
    else
        snprintf(text, ICL_INSPECT_CELL, "%zu", layer + 1);
    return text;
}

static icl_status add_layer(icl_inspecting *run, size_t stage, const icl_linearity *is, double anisotropy,
                            icl_error *error) {
    const size_t layers = icl_model_layers(run->model), layer = (stage - 1) % layers + 1;
    const double numbers[] = {is->score, is->update_score, (double)is->rank, anisotropy};
    static const char *const quantities[] = {"linearity", "linearity of what it adds", "rank of what it reads",
                                             "anisotropy behind it"};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    char name[ICL_INSPECT_CELL], what[ICL_INSPECT_CELL], texts[NUMBERS][ICL_INSPECT_CELL];
    const char *cells[1 + NUMBERS] = {name_layer(run, stage, name)};

    snprintf(what, sizeof what, "loop %zu", (stage - 1) / layers + 1);
    for (size_t i = 0; i < NUMBERS; i++) {
        cells[1 + i] = icl_inspect_number(numbers[i], texts[i]);
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer,
                                    .what = icl_model_loops(run->model) > 1 ? what : "residual stream",
                                    .quantity = quantities[i], .value = numbers[i]));
    }
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_table(icl_inspecting *run, const icl_residual_stream *stream, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", false},
                                                {"linearity", true},
                                                {"of what it adds", true},
                                                {"rank of what it reads", true},
                                                {"anisotropy behind it", true}};

    ICL_CHECK(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t stage = 1; stage < stream->stages; stage++) {
        const float *x = icl_residual_stream_stage(stream, stage - 1), *y = icl_residual_stream_stage(stream, stage);
        icl_linearity is;
        double anisotropy;
        ICL_CHECK(icl_inspect_poll(run, error));
        ICL_CHECK(icl_linearity_measure(stream->tokens, stream->width, x, y, &is, error));
        ICL_CHECK(icl_anisotropy(stream->tokens, stream->width, y, &anisotropy, error));
        ICL_CHECK(add_layer(run, stage, &is, anisotropy, error));
    }
    ICL_CHECK(icl_inspect_table_end(run, error));
    return icl_inspect_paragraph(
        run, error,
        "Linearity: the share of the residual stream's variance behind a layer that an affine map of the stream before "
        "it explains (arXiv 2405.12250), on %zu tokens of width %zu; numbers without any relation score r / %zu, r the "
        "rank. What a layer adds is scored by itself, because the residual connection alone brings the first score "
        "near 1. Anisotropy: the share of the variance along the first principal direction.",
        stream->tokens, stream->width, stream->tokens - 1);
}

icl_status icl_inspect_linearity(icl_inspecting *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_residual_stream stream = {0};
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "linearity", 0);
    ICL_TRY(icl_residual_stream_read(run->model, run->params->backend, parameters, inputs, &stream, error));
    ICL_TRY(icl_inspect_section(run, "How linear the layers are", error));
    ICL_TRY(write_table(run, &stream, error));
done:
    icl_residual_stream_release(&stream);
    return status;
}
