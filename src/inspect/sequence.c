/* Sequence models (model.family = sequence): what their mixers do on a few sequences, and how well they predict. */
#include "model/sequence/sequence.h"

#include "core/allocate.h"
#include "inspect/inspecting.h"

/* Positions of the sequences that mixers are watched on, and sequences of these. */
enum { POSITIONS = 4096, LEAST_SEQUENCES = 2, MOST_SEQUENCES = 16 };

/* Positions for each number of the width that linearity is measured on, so that numbers without any relation score
 * about 1 / TOKENS; and sequences that losses are of. */
enum { TOKENS = 32, LOSS_SEQUENCES = 2048 };

static size_t sequences_to_watch(const icl_task_shape *shape) {
    const size_t fitting = POSITIONS / shape->positions;
    return fitting < LEAST_SEQUENCES ? LEAST_SEQUENCES : fitting < MOST_SEQUENCES ? fitting : MOST_SEQUENCES;
}

static size_t sequences_of_stream(const icl_inspecting *run) {
    const icl_sequence *is = run->model->state;
    const size_t fitting = TOKENS * is->width / icl_task_get_shape(run->task)->positions + 1;
    return fitting < MOST_SEQUENCES ? MOST_SEQUENCES : fitting;
}

/* The mixers, layer by layer, for the beginning of the result. */
static icl_status introduce(icl_inspecting *run, icl_error *error) {
    const icl_sequence *is = run->model->state;

    ICL_CHECK(icl_text_print(&run->lead, error, "The model has %zu layer%s of", run->model->layers,
                             run->model->layers > 1 ? "s" : ""));
    for (size_t i = 0; i < run->model->layers; i++)
        if (i == 0 || is->layers[i].mixer != is->layers[i - 1].mixer)
            ICL_CHECK(icl_text_print(&run->lead, error, "%s %s", i > 0 ? "," : "", is->layers[i].mixer->word));
    return icl_text_print(&run->lead, error, ", %zu head%s and width %zu.", is->heads, is->heads > 1 ? "s" : "",
                          is->width);
}

/* Why a mixer has no state to look at; NULL: it has one. */
static const char *why_stateless(const icl_sequence *is, const icl_sequence_mixer *mixer) {
    if (mixer == &icl_mixer_softmax)
        return "softmax attention keeps all keys and values: it has no state, gates or transition";
    if (mixer == &icl_mixer_convolution)
        return "a convolution has neither attention weights nor a state";
    if (!is->causal)
        return "with model.causal = false every position sees the sum over all: no state runs along the tokens";
    return NULL;
}

static icl_status explain_stateless(icl_inspecting *run, icl_error *error) {
    const icl_sequence *is = run->model->state;

    for (size_t i = 0; i < run->model->layers; i++) {
        const char *why = why_stateless(is, is->layers[i].mixer);
        bool was_said = false;
        for (size_t j = 0; j < i; j++)
            was_said = was_said || is->layers[j].mixer == is->layers[i].mixer;
        if (why && !was_said)
            ICL_CHECK(icl_inspect_paragraph(run, error, "Layers of %s: %s.", is->layers[i].mixer->word, why));
    }
    return ICL_OK;
}

/* Sequences drawn for evaluation: `few` of them, and as many as linearity needs. */
typedef struct watched {
    icl_tensor parameters; /* [N] */
    icl_batch few, many;
} watched;

static icl_status draw_batch(icl_inspecting *run, size_t count, icl_batch *batch, icl_error *error) {
    icl_backend *backend = run->params->backend;

    ICL_CHECK(icl_batch_create(run->task, backend, ICL_FOR_EVALUATION, count, batch, error));
    return icl_task_sample(run->task, backend, ICL_FOR_EVALUATION, run->seed, 0, batch, error);
}

static icl_status draw(icl_inspecting *run, watched *to, icl_error *error) {
    const size_t size = icl_model_size(run->model);

    ICL_CHECK(icl_tensor_create(run->params->backend, 1, &size, &to->parameters, error));
    ICL_CHECK(icl_tensor_write(to->parameters, run->values, error));
    ICL_CHECK(draw_batch(run, sequences_to_watch(icl_task_get_shape(run->task)), &to->few, error));
    return draw_batch(run, sequences_of_stream(run), &to->many, error);
}

icl_status icl_inspect_sequence(icl_inspecting *run, icl_error *error) {
    const size_t asked = run->params->sequences;
    watched with = {0};
    icl_status status = ICL_OK;

    ICL_TRY(introduce(run, error));
    ICL_TRY(draw(run, &with, error));
    ICL_TRY(icl_inspect_attention(run, with.parameters, with.few.inputs, error));
    ICL_TRY(icl_inspect_states(run, with.parameters, with.few.inputs, error));
    ICL_TRY(explain_stateless(run, error));
    ICL_TRY(icl_inspect_linearity(run, with.parameters, with.many.inputs, error));
    ICL_TRY(icl_inspect_poll(run, error));
    ICL_TRY(icl_inspect_positions(run, asked > 0 ? asked : LOSS_SEQUENCES, error));
done:
    icl_batch_release(&with.few);
    icl_batch_release(&with.many);
    icl_tensor_release(&with.parameters);
    return status;
}
