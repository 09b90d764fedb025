/* The public ops that make task data: random numbers, spheres, draws, Gram matrices. */
#include <math.h>

#include "backend/call.h"
#include "iclab/ops_gram.h"
#include "iclab/status.h"

static icl_status check_choices(const char *op, uint32_t choices, const char *what, icl_error *error) {
    if (choices < 1 || choices > ICL_MAX_CHOICES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %u choices%s, expected 1..%d", op, choices, what, ICL_MAX_CHOICES);
    return ICL_OK;
}

icl_status icl_random_fill(icl_backend *backend, const icl_random_params *params, icl_tensor out, icl_error *error) {
    icl_call call = {.backend = backend, .op = ICL_OP_random_fill, .params = params, .operands = &out};

    if ((unsigned)params->distribution >= ICL_DISTRIBUTION_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "random_fill: unknown distribution %d", (int)params->distribution);
    if (params->distribution == ICL_CHOICE)
        ICL_CHECK(check_choices("random_fill", params->choice_count, "", error));
    return icl_call_op(&call, error);
}

static void set_chi_table(icl_call *call) {
    icl_call_set(call, 'P', ICL_CHI_PIECES);
    icl_call_set(call, 'T', ICL_CHI_TERMS);
}

icl_status icl_spherical(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor normals, icl_tensor table,
                         icl_error *error) {
    icl_tensor operands[] = {out, in, normals, table};
    icl_call call = {.backend = backend, .op = ICL_OP_spherical, .operands = operands};

    if (!normals.buffer != !table.buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "spherical: %s without %s, expected both or neither",
                        normals.buffer ? "normals" : "a table", normals.buffer ? "a table" : "normals");
    set_chi_table(&call);
    return icl_call_op(&call, error);
}

icl_status icl_random_gamma(icl_backend *backend, const icl_draw_params *params, icl_tensor out, icl_tensor shapes,
                            icl_error *error) {
    icl_tensor operands[] = {out, shapes};
    icl_call call = {.backend = backend, .op = ICL_OP_random_gamma, .params = params, .operands = operands};
    return icl_call_op(&call, error);
}

icl_status icl_cumulative_sum(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    return icl_call_op(&(icl_call){.backend = backend, .op = ICL_OP_cumulative_sum, .operands = operands}, error);
}

icl_status icl_categorical(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor sums, icl_error *error) {
    icl_tensor operands[] = {out, in, sums};
    icl_call call = {.backend = backend, .op = ICL_OP_categorical, .operands = operands};

    ICL_CHECK(icl_call_validate(&call, error));
    const size_t symbols = sums.shape[sums.rank - 1];
    if (symbols > ICL_MOST_CATEGORIES)
        return icl_fail(error, ICL_ERROR_INPUT, "categorical: %zu symbols, expected at most 2^24 = %zu", symbols,
                        ICL_MOST_CATEGORIES);
    if (symbols == 0)
        return icl_fill(backend, out, (double)NAN, error);
    return icl_call_run(&call, error);
}

icl_status icl_random_distinct(icl_backend *backend, const icl_distinct_params *params, icl_tensor out,
                               icl_error *error) {
    icl_call call = {.backend = backend, .op = ICL_OP_random_distinct, .params = params, .operands = &out};

    ICL_CHECK(icl_call_validate(&call, error));
    if (params->count > ICL_MOST_DISTINCT || params->least > ICL_MOST_DISTINCT - params->count)
        return icl_fail(error, ICL_ERROR_INPUT, "random_distinct: %u numbers from %u on, expected an end of at most %u",
                        params->count, params->least, ICL_MOST_DISTINCT);
    if (out.shape[out.rank - 1] > params->count)
        return icl_fail(error, ICL_ERROR_INPUT, "random_distinct: rows of %zu out of %u numbers, expected at most %u",
                        out.shape[out.rank - 1], params->count, params->count);
    return icl_call_run(&call, error);
}

/* Runs take or put, whose operand `rows` has rows of elements with numbers. */
static icl_status call_by_number(icl_backend *backend, icl_op op, int rows, icl_tensor *operands, icl_error *error) {
    icl_call call = {.backend = backend, .op = op, .operands = operands};

    ICL_CHECK(icl_call_validate(&call, error));
    const size_t extent = operands[rows].shape[operands[rows].rank - 1];
    if (extent > ICL_MOST_DISTINCT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: rows of %zu elements, expected at most 2^24 = %u", call.name,
                        extent, ICL_MOST_DISTINCT);
    return icl_call_run(&call, error);
}

icl_status icl_take(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor places, icl_error *error) {
    icl_tensor operands[] = {out, in, places};
    return call_by_number(backend, ICL_OP_take, 1, operands, error);
}

icl_status icl_put(icl_backend *backend, icl_tensor out, icl_tensor values, icl_tensor places, icl_error *error) {
    icl_tensor operands[] = {out, values, places};
    return call_by_number(backend, ICL_OP_put, 0, operands, error);
}

static icl_status check_noise(const icl_random_params *level, icl_error *error) {
    if (level->distribution != ICL_UNIFORM && level->distribution != ICL_CHOICE)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "gram_sample: distribution %d of the noise level, expected uniform or choice",
                        (int)level->distribution);
    return level->distribution == ICL_UNIFORM
               ? ICL_OK
               : check_choices("gram_sample", level->choice_count, " of the noise level", error);
}

icl_status icl_gram_sample(icl_backend *backend, const icl_gram_params *params, icl_tensor gram, icl_tensor query,
                           icl_tensor targets, icl_tensor weights, icl_tensor noise, icl_tensor chi, icl_tensor roots,
                           icl_error *error) {
    icl_tensor operands[] = {gram, query, targets, weights, noise, chi, roots};
    icl_call call = {.backend = backend, .op = ICL_OP_gram_sample, .params = params, .operands = operands};

    ICL_CHECK(check_noise(&params->noise_level, error));
    if (gram.rank != 3 || gram.shape[2] < 2)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "gram_sample: gram has rank %d, expected 3: [batch, d + 1, d + 1] with d > 0", gram.rank);
    const size_t extent = gram.shape[2], columns = params->context < extent ? (size_t)params->context : extent;
    icl_call_set(&call, 'd', extent - 1);
    set_chi_table(&call);
    ICL_CHECK(icl_call_validate(&call, error));
    if (chi.shape[0] < columns) {
        char text[ICL_SHAPE_TEXT];
        icl_shape_text(&chi, text);
        return icl_fail(error, ICL_ERROR_INPUT, "gram_sample: chi has shape %s, expected [%zu or more, %d, %d]", text,
                        columns, ICL_CHI_PIECES, ICL_CHI_TERMS);
    }
    return icl_call_run(&call, error);
}
