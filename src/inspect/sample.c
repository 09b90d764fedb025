/* The sequences that an inspection measures on. */
#include <string.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"
#include "run/sequences.h"

/* Numbers of chunks of one sample: none has as many. */
#define CHUNKS_OF_SAMPLE ((uint64_t)1 << 36)

/* Floats of a sample's tokens at most: 512 MiB. */
#define MAX_SAMPLE_ELEMENTS ((size_t)1 << 27)

static size_t tokens_of_sequence(const icl_inspecting *run) {
    return (run->n + 1) * (run->d + 1);
}

static void copy_chunk(const icl_inspecting *run, const icl_sequences *drawn, size_t first,
                       icl_inspect_sample *sample) {
    const size_t left = sample->count - first, size = tokens_of_sequence(run);
    const size_t count = left < drawn->chunk ? left : drawn->chunk;

    memcpy(sample->tokens + first * size, drawn->inputs, count * size * sizeof(float));
    memcpy(sample->noise + first, drawn->noise, count * sizeof(float));
    memcpy(sample->targets + first, drawn->targets, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        sample->predictions[first + i] = (double)drawn->model[i];
}

icl_status icl_inspect_draw(icl_inspecting *run, icl_inspect_purpose purpose, size_t count, icl_inspect_sample *sample,
                            icl_error *error) {
    const size_t size = tokens_of_sequence(run), most = MAX_SAMPLE_ELEMENTS / size;
    icl_sequences drawn = {0};
    icl_status status = ICL_OK;

    *sample = (icl_inspect_sample){.count = count < most ? count : most > 2 ? most : 2};
    ICL_TRY(icl_allocate(sample->count, size * sizeof(float), "sequences", &sample->tokens, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(float), "noise levels", &sample->noise, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(float), "targets", &sample->targets, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(double), "predictions", &sample->predictions, error));
    ICL_TRY(icl_sequences_create(run->params->backend, run->task, run->seed, &drawn, error));
    for (size_t first = 0; first < sample->count; first += drawn.chunk) {
        ICL_TRY(icl_inspect_poll(run, error));
        ICL_TRY(icl_sequences_sample(&drawn, purpose * CHUNKS_OF_SAMPLE + first / drawn.chunk, error));
        ICL_TRY(icl_sequences_predict(&drawn, run->trainer, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, 0, NULL, error));
        copy_chunk(run, &drawn, first, sample);
    }
done:
    icl_sequences_release(&drawn);
    return status;
}

void icl_inspect_sample_release(icl_inspect_sample *sample) {
    icl_free(&sample->tokens);
    icl_free(&sample->noise);
    icl_free(&sample->targets);
    icl_free(&sample->predictions);
    icl_free(&sample->weights);
}

const float *icl_inspect_tokens(const icl_inspecting *run, const icl_inspect_sample *sample, size_t sequence) {
    return sample->tokens + sequence * tokens_of_sequence(run);
}

const float *icl_inspect_query(const icl_inspecting *run, const icl_inspect_sample *sample, size_t sequence) {
    return icl_inspect_tokens(run, sample, sequence) + run->n * (run->d + 1);
}

double icl_inspect_product(const double *weights, const float *query, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += weights[i] * (double)query[i];
    return sum;
}
