/* The public sampler of Gram matrices: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

static icl_status check_noise(const icl_random_params *level, icl_error *error) {
    if (level->distribution != ICL_UNIFORM && level->distribution != ICL_CHOICE)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "gram_sample: distribution %d of the noise level, expected uniform or choice",
                        (int)level->distribution);
    if (level->distribution == ICL_CHOICE && (level->choice_count < 1 || level->choice_count > ICL_MAX_CHOICES))
        return icl_fail(error, ICL_ERROR_INPUT, "gram_sample: %u choices of the noise level, expected 1..%d",
                        level->choice_count, ICL_MAX_CHOICES);
    return ICL_OK;
}

static icl_status check_outputs(icl_backend *backend, const icl_tensor operands[7], icl_error *error) {
    static const char op[] = "gram_sample";
    static const char *const roles[] = {"gram", "query", "targets", "weights", "noise"};
    const size_t batch = operands[0].shape[0], extent = operands[0].shape[2], d = extent - 1;
    const size_t shapes[5][3] = {{batch, extent, extent}, {batch, extent}, {batch}, {batch, d}, {batch}};
    static const int ranks[5] = {3, 2, 1, 2, 1};

    for (int i = 0; i < 5; i++) {
        ICL_CHECK(icl_check_output(backend, op, roles[i], &operands[i], error));
        ICL_CHECK(icl_check_shape(op, roles[i], &operands[i], ranks[i], shapes[i], error));
        for (int j = 0; j < i; j++)
            ICL_CHECK(icl_check_overlap(op, &operands[j], &operands[i], false, error));
    }
    return ICL_OK;
}

static icl_status check_inputs(icl_backend *backend, size_t context, const icl_tensor operands[7], icl_error *error) {
    static const char op[] = "gram_sample";
    const icl_tensor *chi = &operands[5], *roots = &operands[6];
    const size_t extent = operands[0].shape[2], d = extent - 1;
    const size_t columns = context < extent ? context : extent;

    ICL_CHECK(icl_check_input(backend, op, "chi", chi, error));
    if (chi->rank != 3 || chi->shape[0] < columns || chi->shape[1] != ICL_CHI_PIECES ||
        chi->shape[2] != ICL_CHI_TERMS) {
        char text[ICL_SHAPE_TEXT];
        icl_shape_text(chi, text);
        return icl_fail(error, ICL_ERROR_INPUT, "%s: chi has shape %s, expected [%zu or more, %d, %d]", op, text,
                        columns, ICL_CHI_PIECES, ICL_CHI_TERMS);
    }
    if (roots->buffer) {
        ICL_CHECK(icl_check_input(backend, op, "roots", roots, error));
        ICL_CHECK(icl_check_shape(op, "roots", roots, 3, (const size_t[]){2, d, d}, error));
    }
    for (int i = 0; i < 5; i++) {
        ICL_CHECK(icl_check_overlap(op, &operands[i], chi, false, error));
        ICL_CHECK(icl_check_overlap(op, &operands[i], roots, false, error));
    }
    return ICL_OK;
}

icl_status icl_gram_sample(icl_backend *backend, const icl_gram_params *params, icl_tensor gram, icl_tensor query,
                           icl_tensor targets, icl_tensor weights, icl_tensor noise, icl_tensor chi, icl_tensor roots,
                           icl_error *error) {
    const icl_tensor operands[7] = {gram, query, targets, weights, noise, chi, roots};

    ICL_CHECK(check_noise(&params->noise_level, error));
    if (gram.rank != 3 || gram.shape[2] < 2)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "gram_sample: gram has rank %d, expected 3: [batch, d + 1, d + 1] with d > 0", gram.rank);
    ICL_CHECK(check_outputs(backend, operands, error));
    ICL_CHECK(check_inputs(backend, params->context > SIZE_MAX ? SIZE_MAX : (size_t)params->context, operands, error));
    if (gram.shape[0] > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_gram_sample, params, operands, error));
    return ICL_OK;
}
