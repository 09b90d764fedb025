#include "probe/affine.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/eigen.h"
#include "numeric/parallel.h"

/* Eigenvalues below this share of the largest one are rounding of floats. */
#define LEAST_SHARE 1e-12

/* Sums over centred rows, in double precision. */
typedef struct products {
    size_t rows, inputs, outputs;
    const float *x, *y;
    double *memory;
    double *mean_x, *mean_y;       /* [p], [q] */
    double *xx, *xy;               /* [p][p], [p][q] */
    double *eigenvalues, *vectors; /* of xx; each vector is a row */
    double *work;                  /* [3 p] */
} products;

static icl_status allocate_products(products *all, icl_error *error) {
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

static icl_status find_means(size_t rows, size_t width, const float *values, double *mean, icl_error *error) {
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t t = 0; t < rows; t++)
            sum += (double)values[t * width + i] - (double)values[i];
        mean[i] = (double)values[i] + sum / (double)rows; /* exact if all rows are equal */
        if (!isfinite(mean[i]))
            return icl_fail(error, ICL_ERROR_INPUT, "affine map: expected finite activations");
    }
    return ICL_OK;
}

/* Fills row `index` of the products, whose sums run in the order of the rows on any number of threads. */
static void sum_row(void *context, size_t index, size_t thread) {
    const products *all = context;
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
static void solve(const products *all, double *map) {
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
    products all = {.rows = rows, .inputs = inputs, .outputs = outputs, .x = x, .y = y};
    icl_status status = ICL_OK;

    if (rows == 0 || inputs == 0 || outputs == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "affine map of %zu rows from %zu to %zu numbers: expected at least 1 of each", rows, inputs,
                        outputs);
    ICL_TRY(allocate_products(&all, error));
    ICL_TRY(find_means(rows, inputs, x, all.mean_x, error));
    ICL_TRY(find_means(rows, outputs, y, all.mean_y, error));
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
