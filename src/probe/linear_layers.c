#include "probe/linear_layers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/allocate.h"

struct icl_linear_layers {
    size_t width; /* D = d + 1 */
    size_t context, layers, heads;
    double factor;    /* of the attention sum */
    double *matrices; /* [layers][heads][P, Q][D][D] */
    double *gram;     /* [D][D], of the sequence at hand */
    double *change;   /* [D][D]: A */
    double *scratch;  /* [2][D][D] */
    double *map;      /* [D][D]: A_l ... A_1 */
};

const char *icl_linear_term_name(icl_linear_term term) {
    static const char *const names[ICL_LINEAR_TERMS] = {"w_xx", "w_xy", "w_yx", "w_yy"};
    return names[term];
}

const double *icl_linear_layers_matrix(const icl_linear_layers *layers, size_t layer, size_t head,
                                       icl_model_part part) {
    return layers->matrices +
           ((layer * layers->heads + head) * 2 + (size_t)part) * layers->width * layers->width;
}

static double *matrix_at(icl_linear_layers *layers, size_t layer, size_t head, icl_model_part part) {
    return layers->matrices +
           ((layer * layers->heads + head) * 2 + (size_t)part) * layers->width * layers->width;
}

static double norm_of(const double *matrix, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += matrix[i] * matrix[i];
    return sqrt(sum);
}

/* P / s and Q s for the s that gives both the same norm. */
static void balance(double *p, double *q, size_t count) {
    const double norm_p = norm_of(p, count), norm_q = norm_of(q, count);
    const double scale = norm_p > 0 && norm_q > 0 ? sqrt(norm_p / norm_q) : 1;

    for (size_t i = 0; i < count; i++) {
        p[i] /= scale;
        q[i] *= scale;
    }
}

static icl_status read_head(icl_linear_layers *layers, const icl_model *model, const float *values,
                            size_t layer, size_t head, float *dense, icl_error *error) {
    const size_t count = layers->width * layers->width;
    icl_status status = ICL_OK;

    for (int part = ICL_MODEL_P; part <= ICL_MODEL_Q; part++) {
        ICL_TRY(icl_model_dense(model, values, layer, head, (icl_model_part)part, dense, error));
        for (size_t i = 0; i < count; i++)
            matrix_at(layers, layer, head, (icl_model_part)part)[i] = (double)dense[i];
    }
    balance(matrix_at(layers, layer, head, ICL_MODEL_P), matrix_at(layers, layer, head, ICL_MODEL_Q), count);
done:
    return status;
}

icl_status icl_linear_layers_create(const icl_model *model, size_t dimension, size_t context,
                                    const float *values, icl_linear_layers **layers, icl_error *error) {
    const size_t width = dimension + 1, square = width * width;
    icl_linear_layers *made = NULL;
    float *dense = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *made, "layers", &made, error));
    made->width = width;
    made->context = context;
    made->layers = icl_model_layers(model);
    made->heads = icl_model_heads(model);
    made->factor = icl_model_attention_factor(model);
    ICL_TRY(icl_allocate(made->layers * made->heads * 2 * square, sizeof(double), "matrices of layers",
                         &made->matrices, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "Gram matrix", &made->gram, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "layer", &made->change, error));
    ICL_TRY(icl_allocate(2 * square, sizeof(double), "products", &made->scratch, error));
    ICL_TRY(icl_allocate(square, sizeof(double), "map of layers", &made->map, error));
    ICL_TRY(icl_allocate(square, sizeof(float), "matrix", &dense, error));
    for (size_t layer = 0; layer < made->layers; layer++)
        for (size_t head = 0; head < made->heads; head++)
            ICL_TRY(read_head(made, model, values, layer, head, dense, error));
    *layers = made;
    made = NULL;
done:
    icl_free(&dense);
    icl_linear_layers_destroy(&made);
    return status;
}

void icl_linear_layers_destroy(icl_linear_layers **layers) {
    icl_linear_layers *gone = *layers;

    if (!gone)
        return;
    icl_free(&gone->matrices);
    icl_free(&gone->gram);
    icl_free(&gone->change);
    icl_free(&gone->scratch);
    icl_free(&gone->map);
    icl_free(layers);
}

/* ---- One sequence ---- */

/* out = a b, or a b^T, all [width][width]. */
static void multiply(const double *a, const double *b, bool transposed, size_t width, double *out) {
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++) {
            double sum = 0;
            for (size_t k = 0; k < width; k++)
                sum += a[i * width + k] * (transposed ? b[j * width + k] : b[k * width + j]);
            out[i * width + j] = sum;
        }
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

/* The block of a matrix that a term is, set to zero. */
static void clear_term(double *matrix, icl_linear_term term, size_t width) {
    const size_t d = width - 1;
    const size_t row = term == ICL_TERM_YX || term == ICL_TERM_YY ? d : 0, rows = row == d ? 1 : d;
    const size_t column = term == ICL_TERM_XY || term == ICL_TERM_YY ? d : 0, columns = column == d ? 1 : d;

    for (size_t i = row; i < row + rows; i++)
        memset(matrix + i * width + column, 0, columns * sizeof *matrix);
}

/* change = A of a layer. */
static void find_change(icl_linear_layers *layers, size_t layer, const icl_linear_ablation *ablation) {
    const size_t width = layers->width, square = width * width;
    double *left = layers->scratch, *update = layers->scratch + square;

    memset(layers->change, 0, square * sizeof(double));
    for (size_t head = 0; head < layers->heads; head++) {
        multiply(icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_P), layers->gram, false, width,
                 left);
        multiply(left, icl_linear_layers_matrix(layers, layer, head, ICL_MODEL_Q), false, width, update);
        for (size_t i = 0; i < square; i++)
            layers->change[i] += layers->factor * update[i];
    }
    if (ablation && ablation->layer == layer)
        clear_term(layers->change, ablation->term, width);
    for (size_t i = 0; i < width; i++)
        layers->change[i * width + i] += 1;
}

void icl_linear_layers_weights(icl_linear_layers *layers, const float *tokens,
                               const icl_linear_ablation *ablation, double *weights) {
    const size_t width = layers->width, d = width - 1, square = width * width;
    double *product = layers->scratch;

    start(layers, tokens);
    for (size_t layer = 0; layer < layers->layers; layer++) {
        find_change(layers, layer, ablation);
        multiply(layers->change, layers->map, false, width, product);
        memcpy(layers->map, product, square * sizeof(double));
        for (size_t j = 0; j < d; j++)
            weights[layer * d + j] = -layers->map[d * width + j];
        multiply(layers->change, layers->gram, false, width, product);
        multiply(product, layers->change, true, width, layers->gram);
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
