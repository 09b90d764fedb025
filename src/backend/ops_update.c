/* The public end of a training step: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

/* update_step's operands. */
enum { PARAMETERS = 0, FIRST, SECOND, MEASURES, THRESHOLD, GRADIENT, LOSSES, NORMS, DECAYS, OPERANDS };

static const char op[] = "update_step";
static const char *const roles[OPERANDS] = {"parameters", "the first state", "the second state",
                                            "measures",   "threshold",       "gradient",
                                            "losses",     "norms",           "decays"};

static icl_status check_params(const icl_update_params *params, bool has_threshold, icl_error *error) {
    if ((unsigned)params->kind >= ICL_UPDATE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", op, (int)params->kind);
    if (params->kind == ICL_UPDATE_ADAM && params->adam.step < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: step 0, expected a count from 1", op);
    if (!(params->clip >= 0))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: clip %g, expected 0 or a number above", op, params->clip);
    if (has_threshold && !(params->fraction > 0 && params->fraction <= 1))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: fraction %g, expected a number above 0, at most 1", op,
                        params->fraction);
    return ICL_OK;
}

static icl_status check_operand(icl_backend *backend, const icl_tensor *operands, int index, size_t length,
                                icl_error *error) {
    const icl_tensor *operand = &operands[index];

    ICL_CHECK(index < GRADIENT ? icl_check_output(backend, op, roles[index], operand, error)
                               : icl_check_input(backend, op, roles[index], operand, error));
    ICL_CHECK(icl_check_shape(op, roles[index], operand, 1, &length, error));
    for (int i = 0; i < index && i < GRADIENT; i++)
        ICL_CHECK(icl_check_overlap(op, &operands[i], operand, false, error));
    return ICL_OK;
}

icl_status icl_update_step(icl_backend *backend, const icl_update_params *params, icl_tensor parameters,
                           const icl_tensor states[2], icl_tensor measures, icl_tensor threshold, icl_tensor gradient,
                           icl_tensor losses, icl_tensor norms, icl_tensor decays, icl_error *error) {
    const bool is_adam = params->kind == ICL_UPDATE_ADAM, has_threshold = threshold.buffer != NULL;
    const icl_tensor none = {0};
    const icl_tensor operands[OPERANDS] = {parameters,
                                           states[0],
                                           is_adam ? states[1] : none,
                                           measures,
                                           threshold,
                                           gradient,
                                           losses,
                                           has_threshold ? norms : none,
                                           is_adam ? decays : none};
    const size_t size = parameters.rank == 1 ? parameters.shape[0] : 0;
    const size_t batch = losses.rank == 1 ? losses.shape[0] : 0;
    const size_t lengths[OPERANDS] = {size, size, size, 3, 1, size, batch, batch, size};

    ICL_CHECK(check_params(params, has_threshold, error));
    for (int i = 0; i < OPERANDS; i++)
        if ((i != SECOND || is_adam) && ((i != THRESHOLD && i != NORMS) || has_threshold) &&
            (i != DECAYS || operands[DECAYS].buffer))
            ICL_CHECK(check_operand(backend, operands, i, lengths[i], error));
    if (size == 0 || batch == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu parameters and %zu losses, expected at least one of each", op,
                        size, batch);
    return icl_dispatch(backend, ICL_OP_update_step, params, operands, error);
}
