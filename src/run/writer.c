#include "run/writer.h"

#include <math.h>
#include <string.h>

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

/* Says whether a byte comes before another: the more likely one, and of equal ones the lower. */
static bool is_before(const candidate *one, const candidate *other) {
    return one->logit > other->logit || (one->logit == other->logit && one->byte < other->byte);
}

/* Moves a candidate down the heap until it comes before both of those below it, 2 i + 1 and 2 i + 2. */
static void sink(candidate *heap, size_t count, size_t place) {
    const candidate moved = heap[place];
    size_t below;

    while ((below = 2 * place + 1) < count) {
        if (below + 1 < count && is_before(&heap[below + 1], &heap[below]))
            below++;
        if (is_before(&moved, &heap[below]))
            break;
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = moved;
}

/* Takes the most likely candidate from a heap. A draw asks for few, because the first ones have most of the weight: a
 * heap gives them in a fraction of the time in which all would be sorted. */
static candidate take_first(candidate *heap, size_t *count) {
    const candidate first = heap[0];

    heap[0] = heap[--*count];
    sink(heap, *count, 0);
    return first;
}

/* Lists the bytes that may come as a heap, and returns how many there are. */
static size_t list_candidates(const icl_sampler *sampler, const float *logits, uint64_t left,
                              candidate heap[ICL_SAMPLED]) {
    size_t count = 0;

    for (unsigned byte = 0; byte < ICL_SAMPLED; byte++)
        if (is_allowed(sampler, (unsigned char)byte, left))
            heap[count++] = (candidate){.logit = logits[byte], .byte = (unsigned char)byte};
    for (size_t i = count / 2; i-- > 0;)
        sink(heap, count, i);
    return count;
}

/* Sums the weights of the `most` likeliest candidates, or of the first of them whose sum reaches `limit`. The heap is a
 * copy, and stays as it is with the caller. Sets *kept to how many those are. */
static double sum_first(const candidate *heap, size_t count, size_t most, double limit, size_t *kept) {
    candidate left[ICL_SAMPLED];
    double sum = 0;

    memcpy(left, heap, count * sizeof *heap);
    for (*kept = 0; *kept < most && (*kept == 0 || sum < limit); ++*kept)
        sum += take_first(left, &count).weight;
    return sum;
}

/* Weighs the candidates. Returns the sum of the weights of those that top_k and top_p keep, and sets *kept to how many
 * they are. */
static double weigh(const icl_sampler *sampler, candidate *heap, size_t count, size_t *kept) {
    const double largest = (double)heap[0].logit;
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += heap[i].weight = exp(((double)heap[i].logit - largest) / sampler->temperature);
    *kept = count;
    if (sampler->top_k > 0 && sampler->top_k < count)
        sum = sum_first(heap, count, (size_t)sampler->top_k, HUGE_VAL, kept);
    return sampler->top_p < 1 ? sum_first(heap, count, *kept, sampler->top_p * sum, kept) : sum;
}

unsigned char icl_sampler_draw(icl_sampler *sampler, const float *logits, uint64_t left, uint32_t word) {
    candidate heap[ICL_SAMPLED];
    size_t count = list_candidates(sampler, logits, left, heap), kept;
    candidate chosen = heap[0];

    if (sampler->temperature > 0) {
        const double share = word * 0x1p-32 * weigh(sampler, heap, count, &kept);
        double before = 0;
        for (size_t i = 0; i < kept && (i == 0 || before <= share); i++) {
            chosen = take_first(heap, &count);
            before += chosen.weight;
        }
    }
    icl_sampler_take(sampler, chosen.byte);
    return chosen.byte;
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
