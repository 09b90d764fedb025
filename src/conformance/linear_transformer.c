/*
 * Whole linear transformers.
 *
 * Predictions and gradients are polynomials in everything given, in which nothing is subtracted but the target. So the
 * program below gives p, the sum of the absolute values of all monomials, if it is run on absolute values with a plus
 * in place of each minus. An evaluation that multiplies and adds up the same monomials in any order is off by at most
 * gamma(m) p, where m is the largest number of roundings that a monomial passes through (Higham, section 3.1). The
 * roundings of a product's factors add up:
 *
 *     R = G Q, A = I + sum over heads of P R      a = g + 2 D + H + 1       (sums of D products, H heads, I)
 *     G <- A G A^T                                g' = g + 2 a + 2 D
 *     q <- A q                                    q' = q + a + D
 *     T = S A, dA = T G + dq q^T                  t = s + a + D,  da = 1 + max(t + g + D, dq + q + 1)
 *     dP = dA R^T, dR = P^T dA, dQ = G dR         da + g + 2 D,  dr = da + D,  g + dr + D
 *     S <- A^T T + sum of (dR Q^T + Q dR^T)       s' = 2 H + max(a + t + D, dr + D)
 *     dq <- A^T dq                                dq' = dq + a + D
 *
 * with g = n + 2 before the first layer (a sum of n products, times the rounded factor). Other formulations multiply
 * the same factors; in token space, for example, 2 z' + n + 1 = g' as above. They add differently: sums are split into
 * parts, and heads are summed elsewhere. None passes a monomial through more than twice as many roundings, so m is
 * doubled.
 *
 * A norm is off by at most the norm of its gradient's bounds, and N + 4 roundings. A share s = threshold / norm is off
 * by s e / (norm - e), where e is the norm's bound, and never by more than 1.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

/* One evaluation: with the values (sign -1), or with their magnitudes (sign 1). */
typedef struct program {
    icl_linear_transformer_params params; /* filled in */
    size_t size, context;                 /* D, n */
    double sign;                          /* replaces -1 */
    double *p, *q;                        /* [depth][heads][D][D] */
    double *gram, *map;                   /* [depth][D][D]: G before each layer, A of each */
    double *query;                        /* [depth + 1][D] */
    double *r, *t, *d_map, *d_r, *s;      /* [D][D] */
    double *d_query, *d_before;           /* [D] */
    double *own;                          /* [N]: gradient of one sequence */
} program;

/* The operands of a case of either op. */
typedef struct given_operands {
    const double *parameters, *tokens, *gram, *query, *targets, *threshold;
} given_operands;

/* c [D][D] += a b, with a and b transposed if `swap_a` and `swap_b`. */
static void add_product(size_t size, double *c, const double *a, bool swap_a, const double *b, bool swap_b) {
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            for (size_t k = 0; k < size; k++)
                c[i * size + j] +=
                    (swap_a ? a[k * size + i] : a[i * size + k]) * (swap_b ? b[j * size + k] : b[k * size + j]);
}

static void set_product(size_t size, double *c, const double *a, bool swap_a, const double *b, bool swap_b) {
    memset(c, 0, size * size * sizeof *c);
    add_product(size, c, a, swap_a, b, swap_b);
}

/* Sets *index to the parameter of its part that the element (row, column) of P or Q is; returns false if it is a
 * constant. */
static bool is_parameter(icl_parameterization parameterization, bool is_q, size_t d, size_t row, size_t column,
                         size_t *index) {
    switch (parameterization) {
    case ICL_LINEAR_FULL:
        *index = row * (d + 1) + column;
        return true;
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        *index = row == d;
        return row == column && !(is_q && row == d && parameterization == ICL_LINEAR_GDPP);
    case ICL_LINEAR_SPARSE:
    case ICL_LINEAR_SPARSE_B:
        *index = row * d + column;
        return row < d && column < d && (is_q || parameterization == ICL_LINEAR_SPARSE_B);
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return false;
}

/* Returns the number of parameters of P or Q of one head. */
static size_t part_size(icl_parameterization parameterization, bool is_q, size_t d) {
    size_t count = 0, index;
    for (size_t i = 0; i < (d + 1) * (d + 1); i++)
        if (is_parameter(parameterization, is_q, d, i / (d + 1), i % (d + 1), &index) && index >= count)
            count = index + 1;
    return count;
}

/* Returns the length of the parameter vector by the layout that ops.h documents, not by a backend's. */
static size_t truth_parameters(const icl_linear_transformer_params *params, size_t d) {
    const size_t heads = params->heads > 0 ? params->heads : 1;
    return params->layers * heads *
           (part_size(params->parameterization, false, d) + part_size(params->parameterization, true, d));
}

/* Returns where a part's parameters begin: as in ops.h, layer by layer, head by head, P before Q. The layers in use are
 * the first depth - 1 and the last one. */
static size_t part_offset(const program *code, size_t layer, size_t head, bool is_q) {
    const size_t p = part_size(code->params.parameterization, false, code->size - 1),
                 q = part_size(code->params.parameterization, true, code->size - 1);
    const size_t place = layer + 1 < code->params.depth ? layer : code->params.layers - 1;
    return (place * code->params.heads + head) * (p + q) + (is_q ? p : 0);
}

static double given(const program *code, double value) {
    return code->sign > 0 ? fabs(value) : value;
}

/* Writes P and Q of every head in use as dense matrices. */
static void expand(program *code, const double *parameters) {
    const size_t square = code->size * code->size, d = code->size - 1, heads = code->params.heads;
    const bool has_one =
        code->params.parameterization == ICL_LINEAR_SPARSE || code->params.parameterization == ICL_LINEAR_SPARSE_B;

    for (size_t part = 0; part < 2 * heads * code->params.depth; part++) {
        const bool is_q = part % 2 == 1;
        const size_t offset = part_offset(code, part / 2 / heads, part / 2 % heads, is_q);
        double *to = (is_q ? code->q : code->p) + part / 2 * square;
        for (size_t i = 0; i < square; i++) {
            size_t index;
            to[i] = is_parameter(code->params.parameterization, is_q, d, i / code->size, i % code->size, &index)
                        ? given(code, parameters[offset + index])
                        : (double)(has_one && !is_q && i + 1 == square);
        }
    }
}

static void load(program *code, const given_operands *in, size_t b, double factor) {
    const size_t size = code->size, square = size * size;
    const double *tokens = in->tokens ? in->tokens + b * (code->context + 1) * size : NULL;

    for (size_t i = 0; i < square; i++) {
        double sum = in->gram ? given(code, in->gram[b * square + i]) : 0;
        for (size_t k = 0; tokens && k < code->context; k++)
            sum += given(code, tokens[k * size + i / size] * tokens[k * size + i % size]);
        code->gram[i] = given(code, factor) * sum;
    }
    for (size_t i = 0; i < size; i++)
        code->query[i] = given(code, tokens ? tokens[code->context * size + i] : in->query[b * size + i]);
}

static double predict(program *code) {
    const size_t size = code->size, square = size * size, heads = code->params.heads, depth = code->params.depth;

    for (size_t layer = 0; layer < depth; layer++) {
        double *map = code->map + layer * square, *gram = code->gram + layer * square;
        const double *query = code->query + layer * size;
        for (size_t i = 0; i < size; i++)
            for (size_t j = 0; j < size; j++)
                map[i * size + j] = i == j;
        for (size_t head = layer * heads; head < (layer + 1) * heads; head++) {
            set_product(size, code->r, gram, false, code->q + head * square, false);
            add_product(size, map, code->p + head * square, false, code->r, false);
        }
        for (size_t i = 0; i < size; i++) {
            code->query[(layer + 1) * size + i] = 0;
            for (size_t j = 0; j < size; j++)
                code->query[(layer + 1) * size + i] += map[i * size + j] * query[j];
        }
        if (layer + 1 == depth)
            break;
        set_product(size, code->t, map, false, gram, false);
        set_product(size, gram + square, code->t, false, map, true);
    }
    return code->sign * code->query[depth * size + size - 1];
}

/* Adds the gradient of a part, taken from that of its dense matrix. */
static void contract(program *code, size_t layer, size_t head, bool is_q, const double *dense) {
    double *to = code->own + part_offset(code, layer, head, is_q);
    for (size_t i = 0; i < code->size * code->size; i++) {
        size_t index;
        if (is_parameter(code->params.parameterization, is_q, code->size - 1, i / code->size, i % code->size, &index))
            to[index] += dense[i];
    }
}

static void reverse_layer(program *code, size_t layer) {
    const size_t size = code->size, square = size * size, heads = code->params.heads;
    const double *map = code->map + layer * square, *gram = code->gram + layer * square;

    set_product(size, code->t, code->s, false, map, false);
    set_product(size, code->d_map, code->t, false, gram, false);
    for (size_t i = 0; i < square; i++)
        code->d_map[i] += code->d_query[i / size] * code->query[layer * size + i % size];
    set_product(size, code->s, map, true, code->t, false);
    for (size_t head = 0; head < heads; head++) {
        const double *p = code->p + (layer * heads + head) * square, *q = code->q + (layer * heads + head) * square;
        set_product(size, code->r, gram, false, q, false);
        set_product(size, code->t, code->d_map, false, code->r, true);
        contract(code, layer, head, false, code->t);
        set_product(size, code->d_r, p, true, code->d_map, false);
        set_product(size, code->t, gram, false, code->d_r, false);
        contract(code, layer, head, true, code->t);
        add_product(size, code->s, code->d_r, false, q, true);
        add_product(size, code->s, q, false, code->d_r, true);
    }
    memset(code->d_before, 0, size * sizeof *code->d_before);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            code->d_before[j] += map[i * size + j] * code->d_query[i];
    memcpy(code->d_query, code->d_before, size * sizeof *code->d_query);
}

/* Computes the gradient of (prediction - target)^2 into own [N]. */
static void reverse(program *code, double prediction, double target) {
    const double slope = 2 * (prediction + code->sign * given(code, target));

    memset(code->own, 0, truth_parameters(&code->params, code->size - 1) * sizeof *code->own);
    memset(code->s, 0, code->size * code->size * sizeof *code->s);
    memset(code->d_query, 0, code->size * sizeof *code->d_query);
    code->d_query[code->size - 1] = code->sign * slope;
    for (size_t layer = code->params.depth; layer-- > 0;)
        reverse_layer(code, layer);
}

/* Sets m of the predictions, and m of one sequence's gradient. */
static void count_roundings(const program *code, bool is_gram, double *prediction, double *gradient) {
    const double size = (double)code->size, heads = (double)code->params.heads;
    const size_t depth = code->params.depth;
    double g = is_gram ? 2 : (double)code->context + 2, q = 0, s = 0, dq, most = 0;

    for (size_t layer = 0; layer < depth; layer++) {
        const double a = g + 2 * size + heads + 1;
        q += a + size;
        g += layer + 1 < depth ? 2 * a + 2 * size : 0;
    }
    *prediction = 2 * q;
    dq = q + 2;
    for (size_t layer = depth; layer-- > 0;) {
        /* This restores g and q of the layer, by undoing the steps above. */
        if (layer + 1 < depth)
            g = (g - 6 * size - 2 * heads - 2) / 3;
        const double a = g + 2 * size + heads + 1, t = s + a + size;
        q -= a + size;
        const double da = 1 + fmax(t + g + size, dq + q + 1), dr = da + size;
        most = fmax(most, fmax(da + g + 2 * size, g + dr + size));
        s = 2 * heads + fmax(a + t + size, dr + size);
        dq += a + size;
    }
    *gradient = 2 * most;
}

static icl_status create(program *code, double sign, icl_error *error) {
    const size_t square = code->size * code->size, depth = code->params.depth, heads = code->params.heads;
    double **const squares[] = {&code->r, &code->t, &code->d_map, &code->d_r, &code->s};

    code->sign = sign;
    ICL_CHECK(icl_allocate(depth * heads * square, sizeof *code->p, "truth", &code->p, error));
    ICL_CHECK(icl_allocate(depth * heads * square, sizeof *code->q, "truth", &code->q, error));
    ICL_CHECK(icl_allocate(depth * square, sizeof *code->gram, "truth", &code->gram, error));
    ICL_CHECK(icl_allocate(depth * square, sizeof *code->map, "truth", &code->map, error));
    ICL_CHECK(icl_allocate((depth + 1) * code->size, sizeof *code->query, "truth", &code->query, error));
    ICL_CHECK(icl_allocate(code->size, sizeof *code->d_query, "truth", &code->d_query, error));
    ICL_CHECK(icl_allocate(code->size, sizeof *code->d_before, "truth", &code->d_before, error));
    ICL_CHECK(
        icl_allocate(truth_parameters(&code->params, code->size - 1), sizeof *code->own, "truth", &code->own, error));
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        ICL_CHECK(icl_allocate(square, sizeof **squares[i], "truth", squares[i], error));
    return ICL_OK;
}

static void destroy(program *code) {
    double **const all[] = {&code->p,       &code->q,        &code->gram, &code->map, &code->query,
                            &code->d_query, &code->d_before, &code->own,  &code->r,   &code->t,
                            &code->d_map,   &code->d_r,      &code->s};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        icl_free(all[i]);
}

/* Returns the norm of one sequence's gradient g, whose bounds are gamma(m) times p, and sets the norm's own bound. */
static double norm_of(const double *g, const double *p, size_t count, double gamma, double unit, double *bound) {
    double sum = 0, bounds = 0;
    for (size_t i = 0; i < count; i++) {
        sum += g[i] * g[i];
        bounds += gamma * p[i] * (gamma * p[i]);
    }
    *bound = sqrt(bounds) + icl_gamma((double)count + 4, unit) * (sqrt(sum) + sqrt(bounds));
    return sqrt(sum);
}

/* Returns the share of a sequence's gradient that counts, and sets the bound of that share. */
static double share_of(double norm, double norm_bound, const double *threshold, double unit, double *bound) {
    *bound = 0;
    if (!threshold)
        return 1;
    if (!isfinite(norm))
        return 0;
    const double share = norm > *threshold ? *threshold / norm : 1;
    if (norm + norm_bound > *threshold)
        *bound = norm > norm_bound ? fmin(1, share * norm_bound / (norm - norm_bound) + icl_gamma(4, unit)) : 1;
    return share;
}

/* Adds one sequence to the gradient (operand 1) and its bound, and writes its norm (operand 2) if that is wanted. */
static void add_sequence(icl_truth *truth, const program *value, const program *magnitude, double gamma,
                         const double *threshold, size_t b) {
    const size_t count = icl_case_count(truth->c, 1);
    const double batch = (double)icl_case_count(truth->c, 0), sums = icl_gamma(batch + 4, truth->unit);
    double norm_bound, share_bound;
    const double norm = norm_of(value->own, magnitude->own, count, gamma, truth->unit, &norm_bound);
    const double share = share_of(norm, norm_bound, threshold, truth->unit, &share_bound);

    if (truth->operand[2]) {
        truth->operand[2][b] = norm;
        truth->bound[2][b] = norm_bound;
    }
    for (size_t i = 0; i < count && share > 0; i++) {
        const double bound = gamma * magnitude->own[i], size = fabs(value->own[i]) + bound;
        const double both = share * bound + share_bound * size;
        truth->operand[1][i] += share / batch * value->own[i];
        truth->bound[1][i] += (both + sums * (share * size + both)) / batch;
    }
}

/* Replaces a prediction by its loss, the square of its distance to the target: each factor has the prediction's
 * roundings and one more. */
static void set_loss(icl_truth *truth, size_t b, double target, double size, double roundings) {
    const double miss = truth->operand[0][b] - target, sum = size + fabs(target);

    truth->operand[0][b] = miss * miss;
    truth->bound[0][b] = icl_gamma(2 * roundings + 3, truth->unit) * sum * sum;
}

static program describe(const icl_case *c, int parameters) {
    program x = {.params = c->params.linear_transformer};
    const int tokens = parameters + 1, gram = parameters + 2;
    const bool is_gram = c->rank[gram] >= 0;

    x.params.heads = x.params.heads > 0 ? x.params.heads : 1;
    x.params.depth = x.params.depth > 0 ? x.params.depth : x.params.layers;
    x.size = is_gram ? c->shape[gram][2] : c->shape[tokens][2];
    x.context = is_gram ? 0 : c->shape[tokens][1] - 1;
    return x;
}

static icl_status truth_linear_transformer(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const bool has_gradient = c->op == ICL_OP_linear_transformer_gradient;
    const int first = has_gradient ? 3 : 1;
    double *const *at = truth->operand + first;
    const given_operands in = {at[0], at[1], at[2], at[3], has_gradient ? at[4] : NULL, has_gradient ? at[5] : NULL};
    const double factor = icl_device_rounded(truth, c->params.linear_transformer.factor);
    program value = describe(c, first), magnitude = describe(c, first);
    double prediction_roundings, gradient_roundings;
    icl_status status = ICL_OK;

    ICL_TRY(create(&value, -1, error));
    ICL_TRY(create(&magnitude, 1, error));
    expand(&value, in.parameters);
    expand(&magnitude, in.parameters);
    count_roundings(&value, in.gram != NULL, &prediction_roundings, &gradient_roundings);
    for (size_t i = 0; has_gradient && i < icl_case_count(c, 1); i++)
        truth->operand[1][i] = truth->bound[1][i] = 0;
    for (size_t b = 0; b < icl_case_count(c, 0); b++) {
        load(&value, &in, b, factor);
        load(&magnitude, &in, b, factor);
        truth->operand[0][b] = predict(&value);
        const double size = predict(&magnitude);
        truth->bound[0][b] = icl_gamma(prediction_roundings, truth->unit) * size;
        if (!has_gradient)
            continue;
        reverse(&value, truth->operand[0][b], in.targets[b]);
        reverse(&magnitude, size, in.targets[b]);
        set_loss(truth, b, in.targets[b], size, prediction_roundings);
        add_sequence(truth, &value, &magnitude, icl_gamma(gradient_roundings, truth->unit), in.threshold, b);
    }
done:
    destroy(&value);
    destroy(&magnitude);
    return status;
}

/* ---- Cases ---- */

/* The cases have every form, from tokens in both spaces and from Gram matrices. */

typedef struct transformer_shape {
    size_t batch, context, size, layers, depth, heads; /* size: D */
    double factor;
    icl_linear_space space;
    bool is_gram, has_threshold, no_norms;
    icl_values values;
} transformer_shape;

static void add_transformer(icl_case_list *list, const transformer_shape *shape, icl_parameterization parameterization,
                            bool has_gradient) {
    static const char *const parameterizations[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
    static const char *const spaces[] = {"tokens", "tokens in gram space", "tokens in token space"};
    const int first = has_gradient ? 3 : 1;
    char what[96];
    icl_case c = {.op = has_gradient ? ICL_OP_linear_transformer_gradient : ICL_OP_linear_transformer_predict,
                  .values = shape->values};

    c.params.linear_transformer = (icl_linear_transformer_params){parameterization, shape->layers, shape->depth,
                                                                  shape->heads,     shape->factor, shape->space};
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        c.rank[i] = -1;
    const size_t size = truth_parameters(&c.params.linear_transformer, shape->size - 1);
    icl_case_set_shape(&c, 0, 1, shape->batch, 0, 0, 0);
    icl_case_set_shape(&c, first, 1, size, 0, 0, 0);
    if (shape->is_gram) {
        icl_case_set_shape(&c, first + 2, 3, shape->batch, shape->size, shape->size, 0);
        icl_case_set_shape(&c, first + 3, 2, shape->batch, shape->size, 0, 0);
    } else {
        icl_case_set_shape(&c, first + 1, 3, shape->batch, shape->context + 1, shape->size, 0);
    }
    if (has_gradient) {
        icl_case_set_shape(&c, 1, 1, size, 0, 0, 0);
        if (!shape->no_norms)
            icl_case_set_shape(&c, 2, 1, shape->batch, 0, 0, 0);
        icl_case_set_shape(&c, first + 4, 1, shape->batch, 0, 0, 0);
        if (shape->has_threshold)
            icl_case_set_shape(&c, first + 5, 1, 1, 0, 0, 0);
    }
    snprintf(what, sizeof what, "linear_transformer_%s %s (depth %zu of %zu, heads %zu, %s%s)",
             has_gradient ? "gradient" : "predict", parameterizations[parameterization], shape->depth, shape->layers,
             shape->heads, shape->is_gram ? "gram" : spaces[shape->space],
             has_gradient && shape->no_norms ? ", no norms" : "");
    icl_cases_add(list, c, what);
}

static void cases(icl_case_list *list) {
    static const transformer_shape shapes[] = {
        /* batch, n, D, layers, depth, heads, factor, space; unless set: tokens, norms and no threshold */
        {3, 2, 2, 1, 1, 1, 1, ICL_SPACE_AUTO},
        {5, 4, 3, 2, 2, 1, 0.25, ICL_SPACE_AUTO, .is_gram = true, .values = ICL_VALUES_INTEGERS},
        {19, 3, 4, 3, 3, 2, 1.0 / 3, ICL_SPACE_AUTO, .has_threshold = true},
        {33, 20, 11, 3, 3, 1, 0.05, ICL_SPACE_AUTO},
        {7, 5, 8, 4, 4, 3, 0.2, ICL_SPACE_TOKENS, .has_threshold = true},
        {7, 5, 8, 4, 4, 3, 0.2, ICL_SPACE_GRAM, .has_threshold = true},
        {17, 0, 21, 5, 4, 1, 0.05, ICL_SPACE_AUTO, .is_gram = true, .has_threshold = true},
        {9, 7, 21, 4, 3, 1, 0.14, ICL_SPACE_TOKENS},
        /* two layers and more carry tokens: fewer than there are coordinates, and more */
        {18, 3, 6, 6, 5, 2, 0.33, ICL_SPACE_TOKENS, .has_threshold = true},
        {5, 9, 5, 5, 5, 1, 0.1, ICL_SPACE_TOKENS},
        {3, 3, 5, 5, 5, 2, 0.5, ICL_SPACE_AUTO, .is_gram = true},
        {301, 2, 3, 3, 3, 1, 0.5, ICL_SPACE_AUTO, .has_threshold = true},
        {21, 6, 5, 3, 3, 1, 0.16, ICL_SPACE_AUTO, .has_threshold = true, .values = ICL_VALUES_SPECIAL},
        {21, 6, 5, 4, 4, 2, 0.16, ICL_SPACE_AUTO, .is_gram = true, .has_threshold = true, .values = ICL_VALUES_SPECIAL},
        {2, 50, 34, 3, 3, 1, 0.02, ICL_SPACE_AUTO},
        {4, 0, 3, 3, 3, 1, 1, ICL_SPACE_AUTO},
        /* more tokens than a kernel holds at a time */
        {3, 13, 3, 2, 2, 1, 0.08, ICL_SPACE_AUTO, .has_threshold = true},
        {0, 3, 3, 2, 2, 1, 1, ICL_SPACE_AUTO, .has_threshold = true},
        {35, 9, 11, 4, 4, 1, 0.1, ICL_SPACE_AUTO, .is_gram = true, .no_norms = true},
        /* enough sequences for a host to add up several groups of lanes */
        {290, 6, 5, 5, 5, 2, 0.16, ICL_SPACE_AUTO, .is_gram = true, .no_norms = true},
        {301, 2, 3, 4, 4, 1, 0.5, ICL_SPACE_AUTO},
        {9, 4, 6, 4, 4, 2, 0.25, ICL_SPACE_TOKENS, .no_norms = true},
        /* for the self-test: full layers whose Gram matrix is formed and carried on */
        {5, 6, 4, 3, 3, 1, 1.0 / 6, ICL_SPACE_GRAM},
    };
    for (int has_gradient = 0; has_gradient < 2; has_gradient++)
        for (int parameterization = 0; parameterization < ICL_PARAMETERIZATION_COUNT; parameterization++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                if (has_gradient || !shapes[s].has_threshold || shapes[s].values == ICL_VALUES_SPECIAL ||
                    shapes[s].is_gram)
                    add_transformer(list, &shapes[s], (icl_parameterization)parameterization, has_gradient);
}

/* ---- Values ---- */

/* Returns a value: parameters are so small that a few layers stay of order 1, and the threshold is not negative.
 * Special values have a NaN in every third sequence. */
static float transformer_value(const icl_case *c, int operand, size_t index, float normal) {
    const int first = c->op == ICL_OP_linear_transformer_gradient ? 3 : 1;
    const icl_parameterization parameterization = c->params.linear_transformer.parameterization;
    const bool is_diagonal = parameterization == ICL_LINEAR_DIAG || parameterization == ICL_LINEAR_GDPP;
    const bool has_gram = c->rank[first + 2] >= 0;
    const size_t size = has_gram ? c->shape[first + 2][2] : c->shape[first + 1][2];

    if (operand == first)
        return normal * (is_diagonal ? 0.3F : 1.0F / (float)size);
    if (operand == first + 5)
        return fabsf(normal);
    if (c->values == ICL_VALUES_SPECIAL && (operand == first + 1 || operand == first + 2)) {
        const size_t per_sequence = icl_case_count(c, operand) / c->shape[operand][0];
        if (index % per_sequence == 0 && index / per_sequence % 3 == 1)
            return NAN;
    }
    return normal;
}

static void inputs(const icl_case *c, int operand, float *const *operands) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    const int gram = c->op == ICL_OP_linear_transformer_gradient ? 5 : 3;
    const icl_values kind = c->values == ICL_VALUES_SPECIAL ? ICL_VALUES_RANDOM : c->values;
    float *values = operands[operand], previous = 0;

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = icl_case_value(kind, icl_random_word(key, i), i, previous);
        values[i] = transformer_value(c, operand, i, previous);
    }
    if (operand == gram) {
        const size_t size = c->shape[gram][2];
        for (size_t i = 0; i < icl_case_count(c, gram); i++) {
            const size_t row = i / size % size, column = i % size;
            values[i] = values[i - row * size - column + (row < column ? row * size + column : column * size + row)];
        }
    }
}

/* ---- Calls and benchmarks ---- */

/* Returns the operations of the cheapest formulation, not of the device's. */
static double flops(const icl_case *c) {
    const bool has_gradient = c->op == ICL_OP_linear_transformer_gradient;
    const int tokens = icl_op_infos[c->op].outputs + 1, gram = tokens + 1;
    const bool is_gram = c->rank[tokens] < 0;
    const size_t d = c->shape[is_gram ? gram : tokens][2] - 1, n = is_gram ? 0 : c->shape[tokens][1] - 1;
    return icl_linear_transformer_flops(&c->params.linear_transformer, d, n, c->shape[0][0], has_gradient);
}

/* Makes parameters so small that every layer is near the identity, and Gram matrices of random tokens. */
static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    const int parameters = icl_op_infos[c->op].outputs, gram = parameters + 2;
    const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)gram}, .distribution = ICL_NORMAL};
    const icl_tensor scaled = operands[parameters];
    icl_tensor tokens = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_scale_add(backend, scaled, 0.02, scaled, 0, (icl_tensor){0}, error));
    if (c->rank[gram] < 0)
        goto done;
    ICL_TRY(icl_tensor_create(backend, 3, c->shape[gram], &tokens, error));
    ICL_TRY(icl_random_fill(backend, &normal, tokens, error));
    ICL_TRY(icl_matmul(backend, operands[gram], 1, icl_tensor_swap_axes(tokens, 1, 2), tokens, 0, error));
done:
    icl_tensor_release(&tokens);
    return status;
}

ICL_CASE_CALL(predict,
              icl_linear_transformer_predict(on, &c->params.linear_transformer, t[0], t[1], t[2], t[3], t[4], error))
ICL_CASE_CALL(gradient, icl_linear_transformer_gradient(on, &c->params.linear_transformer, t[0], t[1], t[2], t[3], t[4],
                                                        t[5], t[6], t[7], t[8], error))

/* The parameters of 4 layers: of two 21 x 21 matrices each, or of 2 + 2 numbers each. */
#define FULL_N 3528
#define DIAG_N 16

/* clang-format off */
#define FULL {.linear_transformer = {ICL_LINEAR_FULL, 4, 0, 1, 0.05, ICL_SPACE_AUTO}}
#define DIAG {.linear_transformer = {ICL_LINEAR_DIAG, 4, 0, 1, 0.05, ICL_SPACE_AUTO}}
/* clang-format on */
#define OF_BATCH ICL_AXIS(ICL_BATCH)
#define GRAM     ICL_SEQUENCES, ICL_AXES2(ICL_BATCH, 21)

static const icl_timed_shape predict_timed[] = {
    {"linear_transformer predict full L 4 d 20 n 20 (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT}},
};
static const icl_timed_shape gradient_timed[] = {
    {"linear_transformer gradient full L 4 d 20 n 20 (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, ICL_AXIS(FULL_N), ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT, OF_BATCH,
      ICL_ABSENT}},
    {"linear_transformer gradient full L 4 d 20 gram (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, ICL_AXIS(FULL_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
    {"linear_transformer gradient and norms full L 4 d 20 gram (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
    {"linear_transformer gradient diag L 4 d 20 gram (2048)",
     DIAG,
     {OF_BATCH, ICL_AXIS(DIAG_N), ICL_ABSENT, ICL_AXIS(DIAG_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
};

const icl_described_op icl_described_linear_transformer_predict =
    ICL_DESCRIBED(predict_timed, .call = call_predict, .truth = truth_linear_transformer, .cases = cases,
                  .inputs = inputs, .flops = flops, .fill = fill);
const icl_described_op icl_described_linear_transformer_gradient =
    ICL_DESCRIBED(gradient_timed, .call = call_gradient, .truth = truth_linear_transformer, .inputs = inputs,
                  .flops = flops, .fill = fill);
