/* Calls the backend's op, or the host's if the backend lacks it. */
#include "config.h"

#include <string.h>

#include "backend/call.h"
#include "iclab/host.h"
#include "iclab/ops_gram.h"
#include "iclab/ops_linear_transformer.h"
#include "iclab/ops_recurrence.h"
#include "iclab/ops_sequence.h"
#include "iclab/status.h"

#define COUNT(...) ((int)(sizeof((icl_operand[]){__VA_ARGS__}) / sizeof(icl_operand)))

const icl_op_info icl_op_infos[ICL_OP_COUNT] = {
#define ROW(name, outputs, params, rounding, terms, ...)                                                               \
    {#name, outputs, COUNT(__VA_ARGS__) - (outputs), params, rounding, terms, (const icl_operand[]){__VA_ARGS__}},
    ICL_EVERY_OP(ROW)
#undef ROW
};

#define FITS(name, outputs, params, rounding, terms, ...)                                                              \
    _Static_assert(COUNT(__VA_ARGS__) <= ICL_MAX_OPERANDS, #name " has too many operands");
ICL_EVERY_OP(FITS)
#undef FITS

/* ---- Host fallback ---- */

static void unmap_all(icl_backend *backend, icl_tensor *operands, int count, icl_status *status, icl_error *error) {
    for (int i = 0; i < count; i++) {
        icl_buffer *buffer = operands[i].buffer;
        if (buffer && buffer->mapped) {
            icl_status unmapped = backend->functions->buffer_unmap(backend, buffer, *status == ICL_OK ? error : NULL);
            buffer->mapped = NULL;
            if (*status == ICL_OK)
                *status = unmapped;
        }
    }
}

/* Opens the host backend with the same element type as this one. */
static icl_status open_host(icl_backend *backend, icl_error *error) {
    const icl_backend_params params = {.log = backend->log, .precision = backend->capabilities.precision};
    const icl_host_spec spec = {0};
    if (backend->host)
        return ICL_OK;
    return backend->capabilities.element_size == sizeof(double) ? icl_ref_open(&params, &spec, &backend->host, error)
                                                                : icl_cpu_open(&params, &spec, &backend->host, error);
}

/* Gives each operand a stand-in buffer whose handle is the mapped address, because the host backend addresses a buffer
 * by its handle. */
icl_status icl_dispatch_to_host(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    const icl_op_info *info = &icl_op_infos[op];
    const int count = info->outputs + info->inputs;
    icl_status status = ICL_OK;
    icl_tensor mapped[ICL_MAX_OPERANDS], host[ICL_MAX_OPERANDS];
    icl_buffer stand_in[ICL_MAX_OPERANDS];

    if (!backend->fallback_logged[op]) {
        backend->fallback_logged[op] = true;
        icl_log_write(&backend->log, ICL_LOG_WARNING, "%s has no %s op: it runs on the host",
                      backend->capabilities.spec, info->name);
    }
    backend->statistics.fallbacks++;
    memcpy(mapped, operands, (size_t)count * sizeof *mapped);
    memcpy(host, operands, (size_t)count * sizeof *host);

    ICL_TRY(open_host(backend, error));
    for (int i = 0; i < count; i++) {
        icl_buffer *buffer = operands[i].buffer;
        if (!buffer)
            continue;
        if (!buffer->mapped)
            ICL_TRY(backend->functions->buffer_map(backend, buffer, error));
        stand_in[i] = (icl_buffer){.backend = backend->host, .elements = buffer->elements, .handle = buffer->mapped};
        host[i].buffer = &stand_in[i];
    }
    ICL_TRY(backend->host->functions->ops[op](backend->host, params, host, error));
done:
    unmap_all(backend, mapped, count, &status, error);
    return status;
}

static icl_status run_timed(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                            icl_error *error) {
    const bool by_host = backend->capabilities.kind == ICL_DEVICE_HOST;
    icl_op_time *time = &backend->times->of[op];
    const double begin = icl_clock_seconds();

    backend->times->current = op;
    ICL_CHECK(backend->functions->ops[op](backend, params, operands, error));
    time->calls++;
    time->seconds += by_host ? icl_clock_seconds() - begin : 0;
    return ICL_OK;
}

icl_status icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                        icl_error *error) {
    const volatile sig_atomic_t *stop = backend->parent ? backend->parent->stop : backend->stop;

    if (stop && *stop)
        return icl_fail(error, ICL_ERROR_INTERRUPTED, "%s was asked to stop", backend->capabilities.spec);
    backend->statistics.ops++;
    if (backend->functions->ops[op]) {
        ICL_CHECK(backend->times ? run_timed(backend, op, params, operands, error)
                                 : backend->functions->ops[op](backend, params, operands, error));
#if ICL_PERTURBED
        icl_perturb(backend, op, params, operands);
#endif
        return ICL_OK;
    }
    return icl_dispatch_to_host(backend, op, params, operands, error);
}
