#include "probe/linearity.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"
#include "numeric/matrix.h"

/* Eigenvalues and squares below this share of the largest one are rounding of floats. */
#define LEAST_SHARE 1e-12

/* Computes the means [width] of columns of values [rows][width]; `what` asks for them. */
static icl_status find_means(const char *what, size_t rows, size_t width, const float *values, double *mean,
                             icl_error *error) {
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t t = 0; t < rows; t++)
            sum += (double)values[t * width + i] - (double)values[i];
        mean[i] = (double)values[i] + sum / (double)rows; /* exact if all rows are equal */
        if (!isfinite(mean[i]))
            return icl_fail(error, ICL_ERROR_INPUT, "%s: expected finite activations", what);
    }
    return ICL_OK;
}

/* ---- Affine maps ---- */

/* Sums over centred rows, in double precision. */
typedef struct affine_products {
    size_t rows, inputs, outputs;
    const float *x, *y;
    double *memory;
    double *mean_x, *mean_y;       /* [p], [q] */
    double *xx, *xy;               /* [p][p], [p][q] */
    double *eigenvalues, *vectors; /* of xx; each vector is a row */
    double *work;                  /* [3 p] */
} affine_products;

static icl_status allocate_affine(affine_products *all, icl_error *error) {
    const size_t p = all->inputs, q = all->outputs;

    ICL_CHECK(icl_allocate(2 * p * p + p * q + 5 * p + q, sizeof *all->memory, "products of activations", &all->memory,
                           error));
    all->xx = all->memory;
    all->vectors = all->xx + p * p;
    all->xy = all->vectors + p * p;
    all->eigenvalues = all->xy + p * q;
    all->mean_x = all->eigenvalues + p;
    all->work = all->mean_x + p;
    all->mean_y = all->work + 3 * p;
    return ICL_OK;
}

/* Fills row `index` of the products, whose sums run in the order of the rows on any number of threads. */
static void sum_row(void *context, size_t index, size_t thread) {
    const affine_products *all = context;
    const size_t p = all->inputs, q = all->outputs;
    double *xx = all->xx + index * p, *xy = all->xy + index * q;

    (void)thread;
    for (size_t t = 0; t < all->rows; t++) {
        const float *x = all->x + t * p, *y = all->y + t * q;
        const double a = (double)x[index] - all->mean_x[index];
        for (size_t j = index; j < p; j++)
            xx[j] += a * ((double)x[j] - all->mean_x[j]);
        for (size_t j = 0; j < q; j++)
            xy[j] += a * ((double)y[j] - all->mean_y[j]);
    }
}

/* A = V diag(1 / lambda) V^T X~^T Y~, and the row behind it. */
static void solve(const affine_products *all, double *map) {
    const size_t p = all->inputs, q = all->outputs;
    double *shift = map + p * q;

    memset(map, 0, p * q * sizeof *map);
    for (size_t k = 0; k < p; k++) {
        const double *vector = all->vectors + k * p;
        if (!(all->eigenvalues[k] > LEAST_SHARE * all->eigenvalues[p - 1]))
            continue;
        for (size_t j = 0; j < q; j++) {
            double along = 0;
            for (size_t i = 0; i < p; i++)
                along += vector[i] * all->xy[i * q + j];
            for (size_t i = 0; i < p; i++)
                map[i * q + j] += vector[i] * along / all->eigenvalues[k];
        }
    }
    for (size_t j = 0; j < q; j++) {
        shift[j] = all->mean_y[j];
        for (size_t i = 0; i < p; i++)
            shift[j] -= all->mean_x[i] * map[i * q + j];
    }
}

icl_status icl_affine_fit(size_t rows, size_t inputs, size_t outputs, const float *x, const float *y, double *map,
                          icl_error *error) {
    affine_products all = {.rows = rows, .inputs = inputs, .outputs = outputs, .x = x, .y = y};
    icl_status status = ICL_OK;

    if (rows == 0 || inputs == 0 || outputs == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "affine map of %zu rows from %zu to %zu numbers: expected at least 1 of each", rows, inputs,
                        outputs);
    ICL_TRY(allocate_affine(&all, error));
    ICL_TRY(find_means("affine map", rows, inputs, x, all.mean_x, error));
    ICL_TRY(find_means("affine map", rows, outputs, y, all.mean_y, error));
    icl_parallel_for(inputs, icl_parallel_threads(), sum_row, &all);
    for (size_t i = 0; i < inputs; i++)
        for (size_t j = 0; j < i; j++)
            all.xx[i * inputs + j] = all.xx[j * inputs + i];
    if (!icl_symmetric_eigen(inputs, all.xx, all.eigenvalues, all.vectors, all.work))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "affine map: the eigenvalues of %zu by %zu numbers did not converge",
                         inputs, inputs));
    solve(&all, map);
done:
    icl_free(&all.memory);
    return status;
}

void icl_affine_apply(const double *map, size_t inputs, size_t outputs, const float *x, double *y) {
    memcpy(y, map + inputs * outputs, outputs * sizeof *y);
    for (size_t i = 0; i < inputs; i++)
        for (size_t j = 0; j < outputs; j++)
            y[j] += (double)x[i] * map[i * outputs + j];
}

/* ---- Closeness to a linear map ---- */

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
    ICL_CHECK(find_means("linearity", p->tokens, p->width, x, p->mean_x, error));
    if (y)
        ICL_CHECK(find_means("linearity", p->tokens, p->width, y, p->mean_y, error));
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
