/* Calls the backend's op, or the host's if the backend lacks it. */
#include "config.h"

#include <float.h>
#include <stdlib.h>
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

/* ---- Deliberately different rounding ---- */

#if ICL_PERTURBED

/* Returns whether the C standard and ops.h leave an op's rounding open. */
static bool is_free(icl_op op, const void *params) {
    switch (op) {
    case ICL_OP_unary: {
        const icl_unary_kind kind = *(const icl_unary_kind *)params;
        return kind != ICL_NEGATE && kind != ICL_ABSOLUTE && kind != ICL_SQUARE && kind != ICL_RELU && kind != ICL_SIGN;
    }
    case ICL_OP_binary: {
        const icl_binary_kind kind = *(const icl_binary_kind *)params;
        return kind == ICL_DIVIDE || kind == ICL_SILU_SLOPE || kind == ICL_GELU_SLOPE;
    }
    case ICL_OP_reduce: {
        const icl_reduce_kind kind = ((const icl_reduce_params *)params)->kind;
        return kind != ICL_MAX && kind != ICL_ARGMAX;
    }
    default:
        return icl_op_infos[op].rounding == ICL_FREE;
    }
}

/* Returns a number from -2 to 2 (the finalizer of MurmurHash3). */
static double draw(uint64_t seed, icl_op op, uint64_t bits) {
    uint64_t hash = bits ^ (seed * ICL_OP_COUNT + (uint64_t)op) * 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
    return (double)((hash ^ hash >> 33) % 5) - 2;
}

static void perturb_element(uint64_t seed, icl_op op, size_t size, char *element) {
    if (size == sizeof(double)) {
        double value;
        uint64_t bits;
        memcpy(&value, element, sizeof value);
        memcpy(&bits, element, sizeof bits);
        value *= 1 + draw(seed, op, bits) * DBL_EPSILON;
        memcpy(element, &value, sizeof value);
    } else {
        float value;
        uint32_t bits;
        memcpy(&value, element, sizeof value);
        memcpy(&bits, element, sizeof bits);
        value = (float)((double)value * (1 + draw(seed, op, bits) * (double)FLT_EPSILON));
        memcpy(element, &value, sizeof value);
    }
}

/* Perturbs a tensor. The longest axis is the inner loop, because finding an element costs more than perturbing it. */
static void perturb_tensor(uint64_t seed, icl_op op, size_t size, const icl_tensor *tensor) {
    const size_t rank = (size_t)tensor->rank;
    size_t longest = 0, rows = 1;
    for (size_t axis = 1; axis < rank; axis++)
        longest = tensor->shape[axis] > tensor->shape[longest] ? axis : longest;
    for (size_t axis = 0; axis < rank; axis++)
        rows *= axis == longest ? 1 : tensor->shape[axis];
    const size_t count = rank > 0 ? tensor->shape[longest] : 1, step = rank > 0 ? tensor->stride[longest] * size : 0;
    for (size_t row = 0; row < rows; row++) {
        size_t at = tensor->offset;
        for (size_t axis = rank, rest = row; axis-- > 0;)
            if (axis != longest) {
                at += rest % tensor->shape[axis] * tensor->stride[axis];
                rest /= tensor->shape[axis];
            }
        char *element = (char *)tensor->buffer->handle + at * size;
        for (size_t i = 0; i < count; i++, element += step)
            perturb_element(seed, op, size, element);
    }
}

/*
 * Changes the rounding on purpose, for tests (build option `perturbed`, `tools/check perturbed`).
 *
 * Multiplies each element that the op wrote by 1 + r eps, where eps is the distance from 1 to the next element and r is
 * one of -2, -1, 0, 1, 2: a hash of the seed, the op and the element's bits. So equal results of an op stay equal, and
 * a repeated computation gives the same bits, but another way to compute them gives different ones. The seed is the
 * number in the environment variable ICLAB_PERTURB; without it nothing changes. Ops and kinds that can round in only
 * one way are left unchanged: strict ops, copies, sums and products of two elements, maxima; and so is the optimizer's
 * step, whose gradient has already been perturbed. Only host backends are supported, because the elements are read in
 * memory. Costs a pass over the outputs.
 */
static void perturb(const icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands) {
    const char *seed = getenv("ICLAB_PERTURB");

    if (!seed || backend->capabilities.kind != ICL_DEVICE_HOST || !is_free(op, params))
        return;
    for (int i = 0; i < icl_op_infos[op].outputs; i++)
        if (operands[i].buffer)
            perturb_tensor(strtoull(seed, NULL, 10), op, backend->capabilities.element_size, &operands[i]);
}

#endif

/* ---- Dispatch ---- */

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
        perturb(backend, op, params, operands);
#endif
        return ICL_OK;
    }
    return icl_dispatch_to_host(backend, op, params, operands, error);
}
