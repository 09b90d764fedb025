#include "probe/descent.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops.h"

/* The state of a sequence. All that is kept of the query is the map M, [d][d], from its original to its present
 * input. */
typedef struct sequence {
    size_t d, n;
    double *tokens;     /* [n][d + 1] */
    double *map;        /* [d][d] */
    double *covariance; /* [d][d]: sum of x x^T */
    double *products;   /* [d]: sum of y x */
} sequence;

size_t icl_descent_scratch(size_t d, size_t n) {
    return n * (d + 1) + 2 * d * d + 2 * d;
}

static void add_up(const sequence *s) {
    const size_t d = s->d;

    memset(s->covariance, 0, d * d * sizeof(double));
    memset(s->products, 0, d * sizeof(double));
    for (size_t j = 0; j < s->n; j++) {
        const double *x = s->tokens + j * (d + 1), y = x[d];
        for (size_t a = 0; a < d; a++) {
            s->products[a] += y * x[a];
            for (size_t b = 0; b < d; b++)
                s->covariance[a * d + b] += x[a] * x[b];
        }
    }
}

/* vector <- (I - scale S) vector, for a vector of stride `stride`; `sums` [d] is scratch. */
static void shrink(const sequence *s, double scale, double *vector, size_t stride, double *sums) {
    const size_t d = s->d;

    for (size_t a = 0; a < d; a++) {
        sums[a] = 0;
        for (size_t b = 0; b < d; b++)
            sums[a] += s->covariance[a * d + b] * vector[b * stride];
    }
    for (size_t a = 0; a < d; a++)
        vector[a * stride] -= scale * sums[a];
}

/* Takes one step. The query's y is -<weights, x>, so weights grow by rate * M^T sum_j y_j x_j. */
static void take_step(const sequence *s, double rate, double input, double *sums, double *weights) {
    const size_t d = s->d;

    add_up(s);
    for (size_t k = 0; k < d; k++)
        for (size_t a = 0; a < d; a++)
            weights[k] += rate * s->map[a * d + k] * s->products[a];
    for (size_t j = 0; j < s->n; j++) {
        double *x = s->tokens + j * (d + 1), product = 0;
        for (size_t a = 0; a < d; a++)
            product += s->products[a] * x[a];
        x[d] -= rate * product;
        if (input != 0)
            shrink(s, input, x, 1, sums);
    }
    for (size_t k = 0; k < d && input != 0; k++)
        shrink(s, input, s->map + k, d, sums);
}

void icl_descent_weights(const icl_descent *descent, size_t d, size_t n, size_t count, const float *tokens,
                         double *scratch, double *weights) {
    const sequence s = {.d = d,
                        .n = n,
                        .tokens = scratch,
                        .map = scratch + n * (d + 1),
                        .covariance = scratch + n * (d + 1) + d * d,
                        .products = scratch + n * (d + 1) + 2 * d * d};
    double *const sums = s.products + d;

    for (size_t i = 0; i < count; i++) {
        const float *from = tokens + i * (n + 1) * (d + 1);
        double *out = weights + i * d;
        for (size_t k = 0; k < n * (d + 1); k++)
            s.tokens[k] = (double)from[k];
        memset(s.map, 0, d * d * sizeof(double));
        memset(out, 0, d * sizeof(double));
        for (size_t a = 0; a < d; a++)
            s.map[a * d + a] = 1;
        for (size_t l = 0; l < descent->steps; l++)
            take_step(&s, descent->rates[l], descent->inputs ? descent->inputs[l] : 0, sums, out);
    }
}

/* ---- Sensitivities ---- */

/* Writes the predictions for query e_axis into column `axis` of sensitivity. */
static icl_status read_axis(icl_backend *backend, const icl_model *model, const icl_model_tensors *tensors, size_t axis,
                            size_t d, double *predictions, double *sensitivity, icl_error *error) {
    const size_t count = tensors->tokens.shape[0];
    const icl_tensor query = icl_tensor_slice(tensors->tokens, 1, tensors->tokens.shape[1] - 1, 1);

    ICL_CHECK(icl_fill(backend, query, 0.0, error));
    ICL_CHECK(icl_fill(backend, icl_tensor_slice(query, 2, axis, 1), 1.0, error));
    ICL_CHECK(icl_model_predict_fused(model, backend, icl_model_layers(model), tensors, error));
    ICL_CHECK(icl_tensor_read_double(tensors->predictions, predictions, error));
    for (size_t i = 0; i < count; i++)
        sensitivity[i * d + axis] = predictions[i];
    return ICL_OK;
}

icl_status icl_sensitivity(icl_backend *backend, const icl_model *model, size_t d, size_t n, const float *values,
                           size_t count, const float *tokens, double *sensitivity, icl_error *error) {
    const size_t shape[] = {count, n + 1, d + 1}, size = icl_model_size(model);
    icl_model_tensors with = {.tokens = {0}};
    double *predictions = NULL;
    icl_status status = ICL_OK;

    if (!icl_model_can(model, ICL_MODEL_FUSED))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "sensitivity: expected a linear transformer whose model.space is not composed");
    ICL_TRY(icl_allocate(count, sizeof *predictions, "predictions", &predictions, error));
    ICL_TRY(icl_tensor_create(backend, 3, shape, &with.tokens, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &with.parameters, error));
    ICL_TRY(icl_tensor_create(backend, 1, &count, &with.predictions, error));
    ICL_TRY(icl_tensor_write(with.tokens, tokens, error));
    ICL_TRY(icl_tensor_write(with.parameters, values, error));
    for (size_t axis = 0; axis < d; axis++)
        ICL_TRY(read_axis(backend, model, &with, axis, d, predictions, sensitivity, error));
done:
    icl_tensor_release(&with.tokens);
    icl_tensor_release(&with.parameters);
    icl_tensor_release(&with.predictions);
    icl_free(&predictions);
    return status;
}

icl_alignment icl_align(size_t d, size_t n, size_t count, const float *tokens, const double *first,
                        const double *second) {
    icl_alignment sum = {0};

    for (size_t i = 0; i < count; i++) {
        const float *query = tokens + (i * (n + 1) + n) * (d + 1);
        const double *a = first + i * d, *b = second + i * d;
        double aa = 0, bb = 0, ab = 0, of_a = 0, of_b = 0;
        for (size_t k = 0; k < d; k++) {
            aa += a[k] * a[k];
            bb += b[k] * b[k];
            ab += a[k] * b[k];
            of_a += a[k] * (double)query[k];
            of_b += b[k] * (double)query[k];
        }
        sum.predictions += (of_a - of_b) * (of_a - of_b);
        sum.mean_prediction += of_a * of_a;
        sum.cosine += aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
        sum.sensitivities += sqrt(fmax(aa + bb - 2 * ab, 0));
    }
    return (icl_alignment){.predictions = sqrt(sum.predictions / (double)count),
                           .cosine = sum.cosine / (double)count,
                           .sensitivities = sum.sensitivities / (double)count,
                           .mean_prediction = sqrt(sum.mean_prediction / (double)count)};
}
