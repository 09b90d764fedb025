/* Norms along the width: none, layer norm (Ba, Kiros, Hinton 2016) with gain and shift, or RMS norm (Zhang, Sennrich
 * 2019) with a gain. */
#include "model/sequence/sequence.h"

#define EPSILON 1e-5 /* as GPT-2 has it */

icl_status icl_sequence_add_norm(icl_sequence_builder *builder, icl_sequence_norm *norm, icl_error *error,
                                 const char *name) {
    const icl_sequence *sequence = builder->sequence;

    if (sequence->norm == ICL_NORMS_NONE)
        return ICL_OK;
    ICL_CHECK(icl_sequence_add(builder, &norm->gain, (icl_sequence_start){ICL_START_CONSTANT, 1, 0, true}, 1,
                               &sequence->width, error, "%s.gain", name));
    if (sequence->norm == ICL_NORMS_LAYER)
        ICL_CHECK(icl_sequence_add(builder, &norm->shift, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1,
                                   &sequence->width, error, "%s.shift", name));
    return ICL_OK;
}

icl_variable icl_sequence_normalize(const icl_sequence_pass *pass, const icl_sequence_norm *norm, icl_variable x) {
    const icl_normalize_params params = {pass->sequence->norm == ICL_NORMS_LAYER ? ICL_NORM_LAYER : ICL_NORM_RMS,
                                         EPSILON};

    if (!norm->gain)
        return x;
    const icl_variable gain = icl_sequence_value(pass, norm->gain);
    const icl_variable shift = norm->shift ? icl_sequence_value(pass, norm->shift) : gain;
    return icl_tape_normalize(pass->tape, &params, x, &gain, norm->shift ? &shift : NULL);
}
