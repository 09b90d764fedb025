#include "run/writer.h"

#include "iclab/random.h"
#include "iclab/tensor.h"

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
