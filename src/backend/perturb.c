/* Deliberately different rounding: icl_perturb in call.h. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "backend/call.h"

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

void icl_perturb(const icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands) {
    const char *seed = getenv("ICLAB_PERTURB");

    if (!seed || backend->capabilities.kind != ICL_DEVICE_HOST || !is_free(op, params))
        return;
    for (int i = 0; i < icl_op_infos[op].outputs; i++)
        if (operands[i].buffer)
            perturb_tensor(strtoull(seed, NULL, 10), op, backend->capabilities.element_size, &operands[i]);
}
