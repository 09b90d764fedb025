#include "baseline/spectrum.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/matrix.h"

icl_status icl_spectrum_create(size_t dimension, size_t context, const double *root, icl_spectrum *spectrum,
                               icl_error *error) {
    memset(spectrum, 0, sizeof *spectrum);
    spectrum->dimension = dimension;
    spectrum->context = context;
    spectrum->root = root;
    ICL_CHECK(icl_allocate(dimension, sizeof(double), "eigenvalues", &spectrum->eigenvalues, error));
    ICL_CHECK(icl_allocate(dimension, sizeof(double), "label products", &spectrum->products, error));
    ICL_CHECK(icl_allocate(dimension, sizeof(double), "query", &spectrum->query, error));
    ICL_CHECK(icl_allocate(dimension, sizeof(double), "weights", &spectrum->vector, error));
    ICL_CHECK(icl_allocate((context + 1) * dimension, sizeof(double), "inputs", &spectrum->inputs, error));
    ICL_CHECK(icl_allocate(dimension * dimension, sizeof(double), "eigenvectors", &spectrum->eigenvectors, error));
    ICL_CHECK(icl_allocate(dimension * dimension, sizeof(double), "sample covariance", &spectrum->covariance, error));
    return icl_allocate(3 * dimension, sizeof(double), "eigenvalue workspace", &spectrum->work, error);
}

void icl_spectrum_destroy(icl_spectrum *spectrum) {
    icl_free(&spectrum->eigenvalues);
    icl_free(&spectrum->products);
    icl_free(&spectrum->query);
    icl_free(&spectrum->vector);
    icl_free(&spectrum->inputs);
    icl_free(&spectrum->eigenvectors);
    icl_free(&spectrum->covariance);
    icl_free(&spectrum->work);
}

/* Computes the inputs C^T x in double precision. */
static void load_inputs(icl_spectrum *spectrum, const float *tokens) {
    const size_t d = spectrum->dimension;

    for (size_t i = 0; i <= spectrum->context; i++) {
        const float *token = tokens + i * (d + 1);
        double *input = spectrum->inputs + i * d;

        for (size_t k = 0; k < d; k++)
            input[k] = spectrum->root ? 0 : (double)token[k];
        for (size_t j = 0; spectrum->root && j < d; j++)
            for (size_t k = 0; k < d; k++)
                input[k] += (double)token[j] * spectrum->root[j * d + k];
    }
}

/* Computes X^T X, X^T y (into vector) and ||y||^2. */
static void accumulate_moments(icl_spectrum *spectrum, const float *tokens) {
    const size_t d = spectrum->dimension;

    memset(spectrum->covariance, 0, d * d * sizeof(double));
    memset(spectrum->vector, 0, d * sizeof(double));
    spectrum->label_square = 0;
    for (size_t i = 0; i < spectrum->context; i++) {
        const double *input = spectrum->inputs + i * d;
        const double label = (double)tokens[i * (d + 1) + d];

        for (size_t j = 0; j < d; j++) {
            double *row = spectrum->covariance + j * d;
            for (size_t k = 0; k < d; k++)
                row[k] += input[j] * input[k];
            spectrum->vector[j] += input[j] * label;
        }
        spectrum->label_square += label * label;
    }
}

static bool moments_are_finite(const icl_spectrum *spectrum) {
    const size_t d = spectrum->dimension;
    const double *query = spectrum->inputs + spectrum->context * d;
    double sum = spectrum->label_square;

    for (size_t k = 0; k < d; k++)
        sum += spectrum->covariance[k * d + k] + fabs(query[k]);
    return isfinite(sum);
}

/* Computes row . vector for every eigenvector. */
static void rotate(const icl_spectrum *spectrum, const double *vector, double *rotated) {
    const size_t d = spectrum->dimension;

    for (size_t k = 0; k < d; k++) {
        const double *row = spectrum->eigenvectors + k * d;
        rotated[k] = 0;
        for (size_t j = 0; j < d; j++)
            rotated[k] += row[j] * vector[j];
    }
}

/* Clears the directions whose eigenvalue is only rounding. */
static void drop_null_directions(icl_spectrum *spectrum) {
    const size_t d = spectrum->dimension, n = spectrum->context;
    const double limit = 8 * (double)(n > d ? n : d) * DBL_EPSILON * spectrum->eigenvalues[d - 1];

    spectrum->rank = 0;
    for (size_t k = 0; k < d; k++) {
        if (spectrum->eigenvalues[k] > limit) {
            spectrum->rank++;
        } else {
            spectrum->eigenvalues[k] = 0;
            spectrum->products[k] = 0;
        }
    }
}

/* Sums the residuals themselves, because ||y||^2 - sum_k a_k^2 / lambda_k would cancel if there is little noise. */
static double residual_square(icl_spectrum *spectrum, const float *tokens) {
    const size_t d = spectrum->dimension;
    double square = 0;

    memset(spectrum->vector, 0, d * sizeof(double));
    for (size_t k = 0; k < d; k++)
        if (spectrum->eigenvalues[k] > 0)
            for (size_t j = 0; j < d; j++)
                spectrum->vector[j] +=
                    spectrum->products[k] / spectrum->eigenvalues[k] * spectrum->eigenvectors[k * d + j];
    for (size_t i = 0; i < spectrum->context; i++) {
        const double *input = spectrum->inputs + i * d;
        double difference = (double)tokens[i * (d + 1) + d];
        for (size_t j = 0; j < d; j++)
            difference -= input[j] * spectrum->vector[j];
        square += difference * difference;
    }
    return square;
}

void icl_spectrum_compute(icl_spectrum *spectrum, const float *tokens) {
    load_inputs(spectrum, tokens);
    accumulate_moments(spectrum, tokens);
    spectrum->finite = moments_are_finite(spectrum) &&
                       icl_symmetric_eigen(spectrum->dimension, spectrum->covariance, spectrum->eigenvalues,
                                           spectrum->eigenvectors, spectrum->work);
    if (!spectrum->finite)
        return;
    rotate(spectrum, spectrum->vector, spectrum->products);
    rotate(spectrum, spectrum->inputs + spectrum->context * spectrum->dimension, spectrum->query);
    drop_null_directions(spectrum);
    spectrum->residual = spectrum->rank < spectrum->context ? residual_square(spectrum, tokens) : 0;
}

double icl_spectrum_residual_variance(const icl_spectrum *spectrum, double otherwise) {
    const size_t freedom = spectrum->context - spectrum->rank;
    return freedom > 0 ? spectrum->residual / (double)freedom : otherwise;
}

double icl_spectrum_predict(const icl_spectrum *spectrum, const double *filter) {
    double sum = 0;

    if (!spectrum->finite)
        return (double)NAN;
    for (size_t k = 0; k < spectrum->dimension; k++)
        sum += filter[k] * spectrum->products[k] * spectrum->query[k];
    return sum;
}

void icl_spectrum_weights(const icl_spectrum *spectrum, const double *filter, double *weights) {
    const size_t d = spectrum->dimension;

    for (size_t i = 0; i < d; i++) {
        weights[i] = spectrum->finite ? 0 : (double)NAN;
        for (size_t k = 0; spectrum->finite && k < d; k++) {
            const double *direction = spectrum->eigenvectors + k * d;
            double turned = spectrum->root ? 0 : direction[i];
            for (size_t j = 0; spectrum->root && j < d; j++)
                turned += spectrum->root[i * d + j] * direction[j];
            weights[i] += filter[k] * spectrum->products[k] * turned;
        }
    }
}

void icl_ridge_filter(const double *eigenvalues, size_t count, double penalty, double *filter) {
    for (size_t k = 0; k < count; k++)
        filter[k] = eigenvalues[k] > 0 ? 1 / (eigenvalues[k] + penalty) : 0;
}
