#include "probe/linearity.h"

#include <math.h>

#include "core/allocate.h"
#include "numeric/eigen.h"

/* Squares below this share of the largest one are rounding of floats. */
#define LEAST_SHARE 1e-12

/* Products of centred rows: matrices [d][d]. */
typedef struct products {
    size_t tokens, width;
    double *memory;
    double *mean_x, *mean_y;            /* [d] */
    double *xx, *xy;                    /* X^T X, X^T Y */
    double *eigenvalues, *vectors;      /* of xx, ascending; each vector is a row */
    double *work;                       /* [3 d] */
    double of_x, of_y, of_update, of_z; /* squared Frobenius norms of X, Y and Y - X; of_z: of X A, explained */
    double largest;                     /* the largest eigenvalue */
    size_t rank;
} products;

static icl_status allocate_products(products *p, icl_error *error) {
    const size_t d = p->width;

    ICL_CHECK(icl_allocate(d, (3 * d + 6) * sizeof *p->memory, "products of activations", &p->memory, error));
    p->xx = p->memory;
    p->xy = p->xx + d * d;
    p->vectors = p->xy + d * d;
    p->eigenvalues = p->vectors + d * d;
    p->mean_x = p->eigenvalues + d;
    p->mean_y = p->mean_x + d;
    p->work = p->mean_y + d;
    return ICL_OK;
}

static icl_status find_mean(size_t tokens, size_t width, const float *rows, double *mean, icl_error *error) {
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t t = 0; t < tokens; t++)
            sum += (double)rows[t * width + i] - (double)rows[i];
        mean[i] = (double)rows[i] + sum / (double)tokens; /* exact if all rows are equal */
        if (!isfinite(mean[i]))
            return icl_fail(error, ICL_ERROR_INPUT, "linearity: expected finite activations");
    }
    return ICL_OK;
}

/* Adds a token to the sums; y NULL: only to those of X. */
static void add_token(products *p, const float *x, const float *y) {
    const size_t d = p->width;

    for (size_t i = 0; i < d; i++) {
        const double a = (double)x[i] - p->mean_x[i];
        for (size_t j = 0; j < d; j++)
            p->xx[i * d + j] += a * ((double)x[j] - p->mean_x[j]);
        p->of_x += a * a;
        if (!y)
            continue;
        const double b = (double)y[i] - p->mean_y[i];
        for (size_t j = 0; j < d; j++)
            p->xy[i * d + j] += a * ((double)y[j] - p->mean_y[j]);
        p->of_y += b * b;
        p->of_update += (b - a) * (b - a);
    }
}

/* With X^T X = V diag(lambda) V^T the projection of Y onto the columns of X has the norm
 * ||P Y||_F^2 = sum over lambda_k > 0 of |v_k^T X^T Y|^2 / lambda_k. */
static void project(products *p) {
    const size_t d = p->width;

    for (size_t k = 0; k < d; k++) {
        if (p->eigenvalues[k] <= LEAST_SHARE * p->largest)
            continue;
        p->rank++;
        for (size_t j = 0; j < d; j++) {
            double sum = 0;
            for (size_t i = 0; i < d; i++)
                sum += p->vectors[k * d + i] * p->xy[i * d + j];
            p->of_z += sum * sum / p->eigenvalues[k];
        }
    }
}

/* Fills the products; freed by the caller in any case. */
static icl_status measure(products *p, const float *x, const float *y, icl_error *error) {
    if (p->tokens < 2 || p->width == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "linearity: %zu tokens of %zu numbers, expected at least 2 of 1",
                        p->tokens, p->width);
    ICL_CHECK(allocate_products(p, error));
    ICL_CHECK(find_mean(p->tokens, p->width, x, p->mean_x, error));
    if (y)
        ICL_CHECK(find_mean(p->tokens, p->width, y, p->mean_y, error));
    for (size_t t = 0; t < p->tokens; t++)
        add_token(p, x + t * p->width, y ? y + t * p->width : NULL);
    if (!icl_symmetric_eigen(p->width, p->xx, p->eigenvalues, p->vectors, p->work))
        return icl_fail(error, ICL_ERROR_INPUT, "linearity: the eigenvalues of %zu by %zu numbers did not converge",
                        p->width, p->width);
    p->largest = p->eigenvalues[p->width - 1];
    return ICL_OK;
}

icl_status icl_linearity_measure(size_t tokens, size_t width, const float *x, const float *y, icl_linearity *linearity,
                                 icl_error *error) {
    products p = {.tokens = tokens, .width = width};
    icl_status status = ICL_OK;

    ICL_TRY(measure(&p, x, y, error));
    if (p.of_x > 0)
        project(&p);
    const double left = fmax(0, p.of_y - p.of_z);
    *linearity = (icl_linearity){
        .score = p.of_y > 0 ? 1 - left / p.of_y : (double)NAN,
        .update_score = p.of_update > LEAST_SHARE * p.of_y ? 1 - left / p.of_update : (double)NAN,
        .rank = p.rank,
    };
done:
    icl_free(&p.memory);
    return status;
}

icl_status icl_anisotropy(size_t tokens, size_t width, const float *x, double *anisotropy, icl_error *error) {
    products p = {.tokens = tokens, .width = width};
    icl_status status = ICL_OK;

    ICL_TRY(measure(&p, x, NULL, error));
    *anisotropy = p.of_x > 0 ? p.largest / p.of_x : (double)NAN;
done:
    icl_free(&p.memory);
    return status;
}
