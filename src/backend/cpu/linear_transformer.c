/*
 * Whole linear transformers, one sequence after another, in Gram space. With the factor inside of G a layer is
 *     A = I + sum over heads of P G Q,    G <- A G A^T,    q <- A q,
 * and, with S = dG + dG^T, its reverse
 *     T = S A,  dA = T G + dq q^T,  dP = dA R^T (R = G Q),  dR = P^T dA,  dQ = G dR,
 *     S <- A^T T + sum of (dR Q^T + Q dR^T),  dq <- A^T dq.
 */
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/linear_transformer.h"
#include "core/allocate.h"
#include "core/status.h"

typedef struct transformer {
    const icl_linear_transformer_params *params;
    size_t size; /* D */
    size_t p_size, q_size;
    const icl_tensor *parameters;
    real *p, *q;                   /* [depth][heads][D][D] */
    real *gram, *map;              /* [depth][D][D]: G before each layer, and A */
    real *query;                   /* [depth + 1][D] */
    real *r, *t, *d_map, *d_r, *s; /* [D][D] */
    real *d_query, *d_query_before;
    real *own; /* [N]: one sequence's gradient */
} transformer;

/* c [D][D] += a b, with strides for transposes. */
static void add_product(size_t size, real *c, const real *a, size_t a_row, size_t a_column, const real *b,
                        size_t b_row, size_t b_column) {
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < size; k++) {
            const real factor = a[i * a_row + k * a_column];
            for (size_t j = 0; j < size; j++)
                c[i * size + j] += factor * b[k * b_row + j * b_column];
        }
}

static real parameter(const icl_tensor *parameters, size_t index) {
    return host_elements(parameters)[index * parameters->stride[0]];
}

/* Where the element (row, column) of P (or Q) is a parameter: its index from the part's first. False where it is constant. */
static bool position(icl_linear_form form, bool is_q, size_t size, size_t row, size_t column, size_t *index) {
    const size_t d = size - 1;
    switch (form) {
    case ICL_LINEAR_FULL:
        *index = row * size + column;
        return true;
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        *index = row == d;
        return row == column && (row < d || !is_q || form == ICL_LINEAR_DIAG);
    case ICL_LINEAR_SPARSE:
    case ICL_LINEAR_SPARSE_B:
        *index = row * d + column;
        return row < d && column < d && (is_q || form == ICL_LINEAR_SPARSE_B);
    case ICL_LINEAR_FORM_COUNT:
        break;
    }
    return false;
}

static real constant(icl_linear_form form, bool is_q, size_t size, size_t row, size_t column) {
    const bool corner = row == size - 1 && column == size - 1;
    return corner && !is_q && (form == ICL_LINEAR_SPARSE || form == ICL_LINEAR_SPARSE_B) ? 1 : 0;
}

/* Writes P and Q of every head of the layers in use as dense matrices. */
static void expand(transformer *x) {
    const size_t size = x->size, square = size * size, heads = x->params->heads;
    for (size_t part = 0; part < 2 * heads * x->params->depth; part++) {
        const size_t layer = part / 2 / heads, head = part / 2 % heads;
        const bool is_q = part % 2 == 1;
        const size_t first = icl_linear_layer_offset(x->params, size - 1, layer) +
                             head * (x->p_size + x->q_size) + (is_q ? x->p_size : 0);
        real *to = (is_q ? x->q : x->p) + part / 2 * square;
        for (size_t i = 0; i < square; i++) {
            size_t index;
            to[i] = position(x->params->form, is_q, size, i / size, i % size, &index)
                        ? parameter(x->parameters, first + index)
                        : constant(x->params->form, is_q, size, i / size, i % size);
        }
    }
}

/* G of sequence b, times the factor, and its query. */
static void load(transformer *x, const icl_tensor *tokens, const icl_tensor *gram, const icl_tensor *query,
                 size_t b) {
    const size_t size = x->size, context = tokens->buffer ? tokens->shape[1] - 1 : 0;
    const real factor = (real)x->params->factor;
    for (size_t i = 0; i < size; i++) {
        for (size_t j = 0; j < size; j++) {
            real sum = 0;
            if (gram->buffer)
                sum = host_elements(gram)[b * gram->stride[0] + i * gram->stride[1] + j * gram->stride[2]];
            for (size_t k = 0; k < context; k++) {
                const real *token = host_elements(tokens) + b * tokens->stride[0] + k * tokens->stride[1];
                sum += token[i * tokens->stride[2]] * token[j * tokens->stride[2]];
            }
            x->gram[i * size + j] = factor * sum;
        }
        x->query[i] =
            gram->buffer
                ? host_elements(query)[b * query->stride[0] + i * query->stride[1]]
                : host_elements(
                      tokens)[b * tokens->stride[0] + context * tokens->stride[1] + i * tokens->stride[2]];
    }
}

static void map_of_layer(transformer *x, size_t layer) {
    const size_t size = x->size, square = size * size, heads = x->params->heads;
    real *map = x->map + layer * square;
    memset(map, 0, square * sizeof *map);
    for (size_t i = 0; i < size; i++)
        map[i * size + i] = 1;
    for (size_t head = layer * heads; head < (layer + 1) * heads; head++) {
        memset(x->r, 0, square * sizeof *x->r);
        add_product(size, x->r, x->gram + layer * square, size, 1, x->q + head * square, size, 1);
        add_product(size, map, x->p + head * square, size, 1, x->r, size, 1);
    }
}

static real predict(transformer *x) {
    const size_t size = x->size, square = size * size, depth = x->params->depth;
    for (size_t layer = 0; layer < depth; layer++) {
        const real *map = x->map + layer * square, *query = x->query + layer * size;
        map_of_layer(x, layer);
        for (size_t i = 0; i < size; i++) {
            real sum = 0;
            for (size_t j = 0; j < size; j++)
                sum += map[i * size + j] * query[j];
            x->query[(layer + 1) * size + i] = sum;
        }
        if (layer + 1 == depth)
            break;
        memset(x->t, 0, square * sizeof *x->t);
        memset(x->gram + (layer + 1) * square, 0, square * sizeof *x->gram);
        add_product(size, x->t, map, size, 1, x->gram + layer * square, size, 1);
        add_product(size, x->gram + (layer + 1) * square, x->t, size, 1, map, 1, size);
    }
    return -x->query[depth * size + size - 1];
}

/* Adds the gradient of one part to the sequence's own. */
static void contract(transformer *x, size_t layer, size_t head, bool is_q, const real *dense) {
    const size_t size = x->size, first = icl_linear_layer_offset(x->params, size - 1, layer) +
                                         head * (x->p_size + x->q_size) + (is_q ? x->p_size : 0);
    for (size_t i = 0; i < size * size; i++) {
        size_t index;
        if (position(x->params->form, is_q, size, i / size, i % size, &index))
            x->own[first + index] += dense[i];
    }
}

static void reverse_layer(transformer *x, size_t layer) {
    const size_t size = x->size, square = size * size, heads = x->params->heads;
    const real *map = x->map + layer * square, *gram = x->gram + layer * square;

    memset(x->t, 0, square * sizeof *x->t);
    add_product(size, x->t, x->s, size, 1, map, size, 1);
    memset(x->s, 0, square * sizeof *x->s);
    add_product(size, x->s, map, 1, size, x->t, size, 1);
    for (size_t i = 0; i < square; i++)
        x->d_map[i] = x->d_query[i / size] * x->query[layer * size + i % size];
    add_product(size, x->d_map, x->t, size, 1, gram, size, 1);
    for (size_t head = 0; head < heads; head++) {
        const real *p = x->p + (layer * heads + head) * square, *q = x->q + (layer * heads + head) * square;
        memset(x->r, 0, square * sizeof *x->r);
        memset(x->t, 0, square * sizeof *x->t);
        memset(x->d_r, 0, square * sizeof *x->d_r);
        add_product(size, x->r, gram, size, 1, q, size, 1);
        add_product(size, x->t, x->d_map, size, 1, x->r, 1, size);
        contract(x, layer, head, false, x->t);
        add_product(size, x->d_r, p, 1, size, x->d_map, size, 1);
        memset(x->t, 0, square * sizeof *x->t);
        add_product(size, x->t, gram, size, 1, x->d_r, size, 1);
        contract(x, layer, head, true, x->t);
        add_product(size, x->s, x->d_r, size, 1, q, 1, size);
        add_product(size, x->s, q, size, 1, x->d_r, 1, size);
    }
    memset(x->d_query_before, 0, size * sizeof *x->d_query_before);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            x->d_query_before[j] += map[i * size + j] * x->d_query[i];
    memcpy(x->d_query, x->d_query_before, size * sizeof *x->d_query);
}

/* The gradient of (prediction - target)^2, given 2 (prediction - target), into x->own. */
static void reverse(transformer *x, real slope) {
    const size_t size = x->size;
    memset(x->own, 0, icl_linear_transformer_size(x->params, size - 1) * sizeof *x->own);
    memset(x->s, 0, size * size * sizeof *x->s);
    memset(x->d_query, 0, size * sizeof *x->d_query);
    x->d_query[size - 1] = -slope;
    for (size_t layer = x->params->depth; layer-- > 0;)
        reverse_layer(x, layer);
}

/* The Euclidean norm, through numbers whose squares neither overflow nor vanish. */
static real norm_of(const real *values, size_t count) {
    real largest = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        if (!(REAL_ABSOLUTE(values[i]) <= largest))
            largest = REAL_ABSOLUTE(values[i]);
    if (!(largest > 0) || isinf(largest))
        return largest;
    for (size_t i = 0; i < count; i++)
        sum += values[i] / largest * (values[i] / largest);
    return largest * REAL_SQRT(sum);
}

static icl_status create(icl_backend *backend, const icl_linear_transformer_params *params,
                         const icl_tensor *parameters, size_t size, transformer *x, icl_error *error) {
    const size_t square = size * size, own = icl_linear_transformer_size(params, size - 1);
    const size_t count = square * (2 * params->heads * params->depth + 2 * params->depth + 5) +
                         size * (params->depth + 3) + own;
    icl_status status = ICL_OK;
    real *free = NULL;

    *x = (transformer){.params = params,
                       .size = size,
                       .p_size = icl_linear_p_size(params->form, size - 1),
                       .q_size = icl_linear_q_size(params->form, size - 1),
                       .parameters = parameters};
    ICL_TRY(HOST(scratch)(backend, count * sizeof *free, &free, error));
    real **const squares[] = {&x->r, &x->t, &x->d_map, &x->d_r, &x->s};
    for (size_t i = 0; i < 5; i++, free += square)
        *squares[i] = free;
    x->p = free;
    x->q = x->p + square * params->heads * params->depth;
    x->gram = x->q + square * params->heads * params->depth;
    x->map = x->gram + square * params->depth;
    x->query = x->map + square * params->depth;
    x->d_query = x->query + size * (params->depth + 1);
    x->d_query_before = x->d_query + size;
    x->own = x->d_query_before + size;
    expand(x);
done:
    return status;
}

icl_status HOST(linear_transformer_predict)(icl_backend *backend, const void *params,
                                            const icl_tensor *operands, icl_error *error) {
    const icl_tensor *predictions = &operands[0], *tokens = &operands[2], *gram = &operands[3],
                     *query = &operands[4];
    icl_status status = ICL_OK;
    transformer x;

    ICL_TRY(
        create(backend, params, &operands[1], gram->buffer ? gram->shape[2] : tokens->shape[2], &x, error));
    for (size_t b = 0; b < predictions->shape[0]; b++) {
        load(&x, tokens, gram, query, b);
        host_elements(predictions)[b * predictions->stride[0]] = predict(&x);
    }
done:
    return status;
}

icl_status HOST(linear_transformer_gradient)(icl_backend *backend, const void *params,
                                             const icl_tensor *operands, icl_error *error) {
    const icl_tensor *predictions = &operands[0], *gradient = &operands[1], *norms = &operands[2],
                     *tokens = &operands[4], *gram = &operands[5], *query = &operands[6],
                     *targets = &operands[7], *threshold = &operands[8];
    const size_t batch = predictions->shape[0], count = gradient->shape[0];
    icl_status status = ICL_OK;
    transformer x;

    ICL_TRY(
        create(backend, params, &operands[3], gram->buffer ? gram->shape[2] : tokens->shape[2], &x, error));
    for (size_t i = 0; i < count; i++)
        host_elements(gradient)[i * gradient->stride[0]] = 0;
    for (size_t b = 0; b < batch; b++) {
        real share = 1;
        load(&x, tokens, gram, query, b);
        const real prediction = predict(&x);
        host_elements(predictions)[b * predictions->stride[0]] = prediction;
        reverse(&x, 2 * (prediction - host_elements(targets)[b * targets->stride[0]]));
        const real norm = norm_of(x.own, count);
        host_elements(norms)[b * norms->stride[0]] = norm;
        if (threshold->buffer) {
            const real limit = *host_elements(threshold);
            if (!isfinite(norm))
                continue;
            share = norm > limit ? limit / norm : 1;
        }
        for (size_t i = 0; i < count; i++)
            host_elements(gradient)[i * gradient->stride[0]] += share / (real)batch * x.own[i];
    }
done:
    return status;
}
