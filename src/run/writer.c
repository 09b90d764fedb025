#include "run/writer.h"

#include <math.h>
#include <stdlib.h>

#include "iclab/random.h"
#include "iclab/tensor.h"

/* ---- The next byte ---- */

/* A byte that may come, with its weight exp((logit - largest) / temperature). */
typedef struct candidate {
    double weight;
    float logit;
    unsigned char byte;
} candidate;

void icl_sampler_take(icl_sampler *sampler, unsigned char byte) {
    if (icl_utf8_take(&sampler->text, byte))
        return;
    sampler->text = (icl_utf8_state){0};
    (void)icl_utf8_take(&sampler->text, byte);
}

static bool is_allowed(const icl_sampler *sampler, unsigned char byte, uint64_t left) {
    if (!sampler->keeps_utf8)
        return true;
    return icl_utf8_allows(&sampler->text, byte) && (sampler->text.missing > 0 || icl_utf8_length(byte) <= left);
}

static int by_likelihood(const void *a, const void *b) {
    const candidate *left = a, *right = b;

    if (left->logit != right->logit)
        return left->logit > right->logit ? -1 : 1;
    return (left->byte > right->byte) - (left->byte < right->byte);
}

/* Lists the bytes that may come, the most likely first, and returns how many there are. */
static size_t list_candidates(const icl_sampler *sampler, const float *logits, uint64_t left,
                              candidate listed[ICL_SAMPLED]) {
    size_t count = 0;

    for (unsigned byte = 0; byte < ICL_SAMPLED; byte++)
        if (is_allowed(sampler, (unsigned char)byte, left))
            listed[count++] = (candidate){.logit = logits[byte], .byte = (unsigned char)byte};
    qsort(listed, count, sizeof *listed, by_likelihood);
    return sampler->top_k > 0 && sampler->top_k < count ? (size_t)sampler->top_k : count;
}

/* Weighs the candidates, drops those beyond top_p, and returns how many are left; *sum is of their weights. */
static size_t weigh(const icl_sampler *sampler, candidate *listed, size_t count, double *sum) {
    double all = 0;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        all += listed[i].weight = exp((double)(listed[i].logit - listed[0].logit) / sampler->temperature);
    for (*sum = 0; kept < count && (kept == 0 || *sum < sampler->top_p * all); kept++)
        *sum += listed[kept].weight;
    return kept;
}

unsigned char icl_sampler_draw(icl_sampler *sampler, const float *logits, uint64_t left, uint32_t word) {
    candidate listed[ICL_SAMPLED];
    size_t count = list_candidates(sampler, logits, left, listed), chosen = 0;
    double sum = 0;

    if (sampler->temperature > 0) {
        count = weigh(sampler, listed, count, &sum);
        double before = listed[0].weight;
        const double share = word * 0x1p-32 * sum;
        while (chosen + 1 < count && before <= share)
            before += listed[++chosen].weight;
    }
    icl_sampler_take(sampler, listed[chosen].byte);
    return listed[chosen].byte;
}

/* ---- The text ---- */

/* The stream of random words (random.h). */
#define STREAM 0x67650000u

icl_status icl_writer_open(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_writer *writer,
                           icl_error *error) {
    ICL_CHECK(icl_tensor_create(backend, 1, (const size_t[]){1}, &writer->symbol, error));
    ICL_CHECK(icl_tensor_create(backend, 2, (const size_t[]){1, ICL_SAMPLED}, &writer->logits, error));
    return icl_decoder_create(model, backend, parameters, 1, &writer->decoder, error);
}

void icl_writer_close(icl_writer *writer) {
    icl_decoder_destroy(&writer->decoder);
    icl_tensor_release(&writer->symbol);
    icl_tensor_release(&writer->logits);
}

icl_status icl_writer_show(icl_writer *writer, unsigned char byte, icl_error *error) {
    const float symbol = byte;

    ICL_CHECK(icl_tensor_write(writer->symbol, &symbol, error));
    return icl_decoder_step(writer->decoder, writer->symbol, writer->logits, error);
}

icl_status icl_writer_draw(icl_writer *writer, uint32_t seed, uint64_t number, uint64_t count, unsigned char *byte,
                           icl_error *error) {
    const icl_random_key key = {seed, STREAM, number};
    float logits[ICL_SAMPLED];

    ICL_CHECK(icl_tensor_read(writer->logits, logits, error));
    *byte = icl_sampler_draw(&writer->sampler, logits, count - number, icl_random_word(key, 0));
    return ICL_OK;
}
