#include "probe/linear_layers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/allocate.h"

struct icl_linear_layers {
    size_t width; /* D = d + 1 */
    size_t context, layers, heads;
    double factor;    /* of the sum in attention */
    double *matrices; /* [layers][heads][P, Q][D][D] */
    double *gram;     /* [D][D], of the current sequence */
    double *change;   /* [D][D]: A - I, then A */
    double *scratch;  /* [2][D][D] */
    double *map;      /* [D][D]: A_l ... A_1 */
};

const char *icl_linear_term_name(icl_linear_term term) {
    static const char *const names[ICL_LINEAR_TERMS] = {"w_xx", "w_xy", "w_yx", "w_yy"};
    return names[term];
}

const double *icl_linear_layers_matrix(const icl_linear_layers *layers, size_t layer, size_t head,
                                       icl_model_part part) {
    return layers->matrices + ((layer * layers->heads + head) * 2 + (size_t)part) * layers->width * layers->width;
}

static double *matrix_at(icl_linear_layers *layers, size_t layer, size_t head, icl_model_part part) {
    return layers->matrices + ((layer * layers->heads + head) * 2 + (size_t)part) * layers->width * layers->width;
}

static double norm_of(const double *matrix, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += matrix[i] * matrix[i];
    return sqrt(sum);
}

/* Replaces P and Q by P / s and Q s, with the s that gives both the same norm and Q's block of x a trace that is not
 * negative. */
static void balance(double *p, double *q, size_t width) {
    const size_t count = width * width;
    const double norm_p = norm_of(p, count), norm_q = norm_of(q, count);
    double scale = norm_p > 0 && norm_q > 0 ? sqrt(norm_p / norm_q) : 1, trace = 0;

    for (size_t i = 0; i + 1 < width; i++)
        trace += q[i * width + i];
    scale = trace < 0 ? -scale : scale;
    for (size_t i = 0; i < count; i++) {
        p[i] /= scale;
        q[i] *= scale;
    }
}

static icl_status read_head(icl_linear_layers *layers, const icl_model *model, const float *values, size_t layer,
                            size_t head, float *dense, icl_error *error) {
    const size_t count = layers->width * layers->width;

    for (int part = ICL_MODEL_P; part <= ICL_MODEL_Q; part++) {
        ICL_CHECK(icl_model_dense(model, values, layer, head, (icl_model_part)part, dense, error));
        for (size_t i = 0; i < count; i++)
            matrix_at(layers, layer, head, (icl_model_part)part)[i] = (double)dense[i];
    }
    balance(matrix_at(layers, layer, head, ICL_MODEL_P), matrix_at(layers, layer, head, ICL_MODEL_Q), layers->width);
    return ICL_OK;
}

icl_status icl_linear_layers_create(const icl_model *model, size_t dimension, size_t context, const float *values,
                                    icl_linear_layers **layers, icl_error *error) {
    const size_t width = dimension + 1, square = width * width;
    icl_linear_layers *created = NULL;
    float *dense = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "layers", &created, error));
    created->width = width;
    created->context = context;
    created->layers = icl_model_layers(model);
    created->heads = icl_model_heads(model);
    created->factor = icl_model_attention_factor(model);
    ICL_TRY(icl_allocate(created->layers * created->heads * 2 * square, sizeof(double), "matrices of layers",
                         &created->matrices, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "Gram matrix", &created->gram, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "layer", &created->change, error));
    ICL_TRY(icl_allocate(2 * square, sizeof(double), "products", &created->scratch, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "map of layers", &created->map, error));
    ICL_TRY(icl_allocate(square, sizeof(float), "matrix", &dense, error));
    for (size_t layer = 0; layer < created->layers; layer++)
        for (size_t head = 0; head < created->heads; head++)
            ICL_TRY(read_head(created, model, values, layer, head, dense, error));
    *layers = created;
    created = NULL;
done:
    icl_free(&dense);
    icl_linear_layers_destroy(&created);
    return status;
}

void icl_linear_layers_destroy(icl_linear_layers **layers) {
    icl_linear_layers *old = *layers;

    if (!old)
        return;
    icl_free(&old->matrices);
    icl_free(&old->gram);
    icl_free(&old->change);
    icl_free(&old->scratch);
    icl_free(&old->map);
    icl_free(layers);
}

/* ---- One sequence ---- */

/* out = a b, all [width][width], row by row. */
static void multiply(const double *a, const double *b, size_t width, double *out) {
    memset(out, 0, width * width * sizeof *out);
    for (size_t i = 0; i < width; i++, out += width)
        for (size_t k = 0; k < width; k++) {
            const double factor = a[i * width + k];
            for (size_t j = 0; j < width; j++)
                out[j] += factor * b[k * width + j];
        }
}

/* out = a^T */
static void transpose(const double *a, size_t width, double *out) {
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++)
            out[j * width + i] = a[i * width + j];
}

static void start(icl_linear_layers *layers, const float *tokens) {
    const size_t width = layers->width;

    memset(layers->gram, 0, width * width * sizeof(double));
    memset(layers->map, 0, width * width * sizeof(double));
    for (size_t i = 0; i < layers->context; i++, tokens += width)
        for (size_t a = 0; a < width; a++)
            for (size_t b = 0; b < width; b++)
                layers->gram[a * width + b] += (double)tokens[a] * (double)tokens[b];
    for (size_t a = 0; a < width; a++)
        layers->map[a * width + a] = 1;
}

/* The block of a matrix that belongs to a term: its first row and column, and their numbers. */
typedef struct block {
    size_t row, rows, column, columns;
} block;

static block block_of(icl_linear_term term, size_t d) {
    const bool of_y = term == ICL_TERM_YX || term == ICL_TERM_YY, by_y = term == ICL_TERM_XY || term == ICL_TERM_YY;

    return (block){of_y ? d : 0, of_y ? 1 : d, by_y ? d : 0, by_y ? 1 : d};
}

/* change += factor * P G Q of a layer, head by head. */
static void add_heads(icl_linear_layers *layers, size_t layer) {
    const size_t width = layers->width, square = width * width;
    double *left = layers->scratch, *update = layers->scratch + square;

    for (size_t head = 0; head < layers->heads; head++) {
        multiply(icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_P), layers->gram, width, left);
        multiply(left, icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_Q), width, update);
        for (size_t i = 0; i < square; i++)
            layers->change[i] += layers->factor * update[i];
    }
}

/* As above, for a layer reduced to its four numbers: each multiplies its block of G. */
static void add_scalars(icl_linear_layers *layers, size_t layer) {
    const size_t width = layers->width;
    double terms[ICL_LINEAR_TERMS];

    icl_linear_layers_terms(layers, layer, terms);
    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        const block at = block_of((icl_linear_term)term, width - 1);
        const double scale = terms[term] / (double)layers->context;
        for (size_t i = at.row; i < at.row + at.rows; i++)
            for (size_t j = at.column; j < at.column + at.columns; j++)
                layers->change[i * width + j] += scale * layers->gram[i * width + j];
    }
}

/* change = A - I of a layer. */
static void find_change(icl_linear_layers *layers, size_t layer, const icl_linear_ablation *ablation) {
    const size_t width = layers->width;
    const bool is_ablated = ablation && (ablation->layer == layer || ablation->layer == ICL_EVERY_LAYER);

    memset(layers->change, 0, width * width * sizeof(double));
    if (is_ablated && ablation->beyond_scalars)
        add_scalars(layers, layer);
    else
        add_heads(layers, layer);
    for (int term = 0; is_ablated && term < ICL_LINEAR_TERMS; term++) {
        const block at = block_of((icl_linear_term)term, width - 1);
        for (size_t i = at.row; i < at.row + at.rows && (ablation->terms & 1U << term); i++)
            memset(layers->change + i * width + at.column, 0, at.columns * sizeof(double));
    }
}

/* map <- A map, G <- A G A^T with A = I + change. */
static void take_step(icl_linear_layers *layers) {
    const size_t width = layers->width;
    double *product = layers->scratch, *transposed = layers->scratch + width * width;

    for (size_t i = 0; i < width; i++)
        layers->change[i * width + i] += 1;
    multiply(layers->change, layers->map, width, product);
    memcpy(layers->map, product, width * width * sizeof(double));
    multiply(layers->change, layers->gram, width, product);
    transpose(layers->change, width, transposed);
    multiply(product, transposed, width, layers->gram);
}

void icl_linear_layers_weights(icl_linear_layers *layers, const float *tokens, const icl_linear_ablation *ablation,
                               double *weights) {
    const size_t width = layers->width, d = width - 1;

    start(layers, tokens);
    for (size_t layer = 0; layer < layers->layers; layer++) {
        find_change(layers, layer, ablation);
        take_step(layers);
        for (size_t j = 0; j < d; j++)
            weights[layer * d + j] = -layers->map[d * width + j];
    }
}

/* Returns the sum over the context of |U e|^2, where U is a block of the change: tr(U G U^T). */
static double moved_square(const icl_linear_layers *layers, const block *at) {
    const size_t width = layers->width;
    double sum = 0;

    for (size_t i = at->row; i < at->row + at->rows; i++)
        for (size_t a = at->column; a < at->column + at->columns; a++)
            for (size_t b = at->column; b < at->column + at->columns; b++)
                sum += layers->change[i * width + a] * layers->gram[a * width + b] * layers->change[i * width + b];
    return sum;
}

void icl_linear_layers_changes(icl_linear_layers *layers, const float *tokens, double *changes) {
    const size_t width = layers->width;

    start(layers, tokens);
    for (size_t layer = 0; layer < layers->layers; layer++, changes += ICL_LINEAR_TERMS) {
        find_change(layers, layer, NULL);
        for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
            const block at = block_of((icl_linear_term)term, width - 1);
            double before = 0;
            for (size_t i = at.row; i < at.row + at.rows; i++)
                before += layers->gram[i * width + i];
            changes[term] = before > 0 ? sqrt(fmax(moved_square(layers, &at), 0) / before) : 0;
        }
        take_step(layers);
    }
}

void icl_linear_layers_momentum(icl_linear_layers *layers, const float *tokens, double *momentum) {
    const size_t width = layers->width, y = (width - 1) * width;

    start(layers, tokens);
    for (size_t layer = 0; layer < layers->layers; layer++) {
        double terms[ICL_LINEAR_TERMS], product = 0;
        icl_linear_layers_terms(layers, layer, terms);
        find_change(layers, layer, NULL);
        for (size_t j = 0; j < width; j++) /* <r, r'> is an entry of G A^T, A = I + change */
            product += layers->gram[y + j] * (layers->change[y + j] + (j + 1 == width));
        momentum[layer] = layer + 1 < layers->layers ? terms[ICL_TERM_XY] / (double)layers->context * product : 0;
        take_step(layers);
    }
}

/* ---- What layers amount to ---- */

void icl_linear_layers_terms(const icl_linear_layers *layers, size_t layer, double terms[ICL_LINEAR_TERMS]) {
    const size_t width = layers->width, d = width - 1;
    const double unit = layers->factor * (double)layers->context;

    memset(terms, 0, ICL_LINEAR_TERMS * sizeof *terms);
    for (size_t head = 0; head < layers->heads; head++) {
        const double *p = icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_P);
        const double *q = icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_Q);
        double p_x = 0, q_x = 0;
        for (size_t i = 0; i < d; i++) {
            p_x += p[i * width + i] / (double)d;
            q_x += q[i * width + i] / (double)d;
        }
        terms[ICL_TERM_XX] += unit * p_x * q_x;
        terms[ICL_TERM_XY] += unit * p_x * q[width * width - 1];
        terms[ICL_TERM_YX] += unit * p[width * width - 1] * q_x;
        terms[ICL_TERM_YY] += unit * p[width * width - 1] * q[width * width - 1];
    }
}

void icl_linear_layers_step(const icl_linear_layers *layers, size_t layer, double *step) {
    const size_t width = layers->width, d = width - 1;
    const double unit = layers->factor * (double)layers->context;

    memset(step, 0, d * d * sizeof *step);
    for (size_t head = 0; head < layers->heads; head++) {
        const double *p = icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_P);
        const double *q = icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_Q);
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++)
                step[i * d + j] += unit * p[width * width - 1] * q[i * width + j];
    }
}

/* ---- Patterns ---- */

/* Returns <first, second> over the block of a term. */
static double block_product(const double *first, const double *second, icl_linear_term term, size_t width) {
    const block at = block_of(term, width - 1);
    double sum = 0;

    for (size_t i = at.row; i < at.row + at.rows; i++)
        for (size_t j = at.column; j < at.column + at.columns; j++)
            sum += first[i * width + j] * second[i * width + j];
    return sum;
}

/* <P_g (x) Q_g, P_h (x) Q_h> = <P_g, P_h> <Q_g, Q_h>, over all entries that are read, and over those of them in each of
 * the two sparse patterns. */
typedef struct squares {
    double all, sparse, sparse_b;
} squares;

static void add_pair(const icl_linear_layers *layers, size_t layer, size_t g, size_t h, squares *sums) {
    const bool is_last = layer + 1 == layers->layers, is_only = layers->layers == 1;
    double p[ICL_LINEAR_TERMS], q[ICL_LINEAR_TERMS];

    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        p[term] = block_product(icl_linear_layers_matrix(layers, layer, g, ICL_MODEL_P),
                                icl_linear_layers_matrix(layers, layer, h, ICL_MODEL_P), (icl_linear_term)term,
                                layers->width);
        q[term] = block_product(icl_linear_layers_matrix(layers, layer, g, ICL_MODEL_Q),
                                icl_linear_layers_matrix(layers, layer, h, ICL_MODEL_Q), (icl_linear_term)term,
                                layers->width);
    }
    if (is_last)
        p[ICL_TERM_XX] = p[ICL_TERM_XY] = 0;
    if (is_only)
        q[ICL_TERM_XY] = q[ICL_TERM_YY] = 0;
    sums->all += (p[ICL_TERM_XX] + p[ICL_TERM_XY] + p[ICL_TERM_YX] + p[ICL_TERM_YY]) *
                 (q[ICL_TERM_XX] + q[ICL_TERM_XY] + q[ICL_TERM_YX] + q[ICL_TERM_YY]);
    sums->sparse += p[ICL_TERM_YY] * q[ICL_TERM_XX];
    sums->sparse_b += (p[ICL_TERM_XX] + p[ICL_TERM_YY]) * q[ICL_TERM_XX];
}

static double distance_of(double projected, double all) {
    return all > 0 ? sqrt(fmax(1 - projected / all, 0)) : 0;
}

icl_linear_patterns icl_linear_layers_patterns(const icl_linear_layers *layers, size_t layer) {
    const double d = (double)(layers->width - 1), unit = layers->factor * (double)layers->context;
    const bool is_last = layer + 1 == layers->layers, is_only = layers->layers == 1;
    squares sums = {0};
    double terms[ICL_LINEAR_TERMS], scalars[ICL_LINEAR_TERMS];

    for (size_t g = 0; g < layers->heads; g++)
        for (size_t h = 0; h < layers->heads; h++)
            add_pair(layers, layer, g, h, &sums);
    icl_linear_layers_terms(layers, layer, terms);
    /* |D_u (x) D_v|^2 = tr(D_u) tr(D_v), with D_x = diag(1 ... 1 0) and D_y = diag(0 ... 0 1). */
    for (int term = 0; term < ICL_LINEAR_TERMS; term++)
        scalars[term] = terms[term] * terms[term] / (unit * unit);
    scalars[ICL_TERM_XX] *= is_last ? 0 : d * d;
    scalars[ICL_TERM_XY] *= is_last ? 0 : d;
    scalars[ICL_TERM_YX] *= d;
    scalars[ICL_TERM_YY] *= is_only ? 0 : 1;
    const double gdpp = scalars[ICL_TERM_YX] + scalars[ICL_TERM_XX];
    return (icl_linear_patterns){
        .diagonal = distance_of(gdpp + scalars[ICL_TERM_XY] + scalars[ICL_TERM_YY], sums.all),
        .gdpp = distance_of(gdpp, sums.all),
        .descent = distance_of(scalars[ICL_TERM_YX], sums.all),
        .sparse = distance_of(sums.sparse, sums.all),
        .sparse_b = distance_of(sums.sparse_b, sums.all),
    };
}

/* ---- Heat maps of layers ---- */

const char *const icl_layer_numbers[ICL_NUMBERED_LAYERS] = {"1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",
                                                            "9",  "10", "11", "12", "13", "14", "15", "16",
                                                            "17", "18", "19", "20", "21", "22", "23", "24"};

double icl_ablation_power(double share) {
    if (!isfinite(share))
        return ICL_ABLATION_POWERS;
    return share > 0 ? fmax(-ICL_ABLATION_POWERS, fmin(ICL_ABLATION_POWERS, log10(share))) : -ICL_ABLATION_POWERS;
}
