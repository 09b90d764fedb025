#include "numeric/singular.h"

#include <math.h>

#include "core/allocate.h"
#include "numeric/eigen.h"
#include "numeric/matrix.h"

/* values [size], ascending, of a matrix [rows, size] whose rows lie `stride` apart, and whose columns `step`. */
static icl_status ascending_values(const double *matrix, size_t rows, size_t size, size_t stride, size_t step,
                                   double *values, icl_error *error) {
    double *memory = NULL, *gram, *vectors, *work;
    icl_status status = ICL_OK;

    /* gram and vectors [size, size], work [3 size] */
    ICL_TRY(icl_allocate(size, (2 * size + 3) * sizeof *memory, "singular values", &memory, error));
    gram = memory;
    vectors = gram + size * size;
    work = vectors + size * size;
    for (size_t a = 0; a < size; a++)
        for (size_t b = 0; b < size; b++)
            for (size_t row = 0; row < rows; row++)
                gram[a * size + b] += matrix[row * stride + a * step] * matrix[row * stride + b * step];
    for (size_t i = 0; i < size * size; i++)
        if (!isfinite(gram[i]))
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: expected a finite matrix"));
    if (!icl_symmetric_eigen(size, gram, values, vectors, work))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: the iteration did not converge"));
    for (size_t i = 0; i < size; i++)
        values[i] = sqrt(fmax(values[i], 0));
done:
    icl_free(&memory);
    return status;
}

icl_status icl_singular_values(const double *matrix, size_t rows, size_t columns, double *values, icl_error *error) {
    const bool wide = columns > rows;
    const size_t size = wide ? rows : columns;

    ICL_CHECK(
        ascending_values(matrix, wide ? columns : rows, size, wide ? 1 : columns, wide ? columns : 1, values, error));
    for (size_t i = 0; i < size / 2; i++) {
        const double smaller = values[i];
        values[i] = values[size - 1 - i];
        values[size - 1 - i] = smaller;
    }
    return ICL_OK;
}

icl_status icl_singular_extremes(const double *block, size_t size, size_t stride, double *smallest, double *largest,
                                 icl_error *error) {
    double *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "singular values", &values, error));
    ICL_TRY(ascending_values(block, size, size, stride, 1, values, error));
    *smallest = values[0];
    *largest = values[size - 1];
done:
    icl_free(&values);
    return status;
}

double icl_entropy_rank(const double *values, size_t count) {
    double sum = 0, entropy = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0)
            entropy -= values[i] / sum * log(values[i] / sum);
    return sum > 0 ? exp(entropy) : 0;
}

icl_status icl_subspace_alignment(const double *M, const double *rotation, size_t d, size_t k, double *rho,
                                  icl_error *error) {
    double *blocks = NULL, seen, outside, unused; /* [B, B']^T M [B, B'] */
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d, d * sizeof *blocks, "blocks of a matrix", &blocks, error));
    icl_matrix_in_basis(rotation, M, d, blocks);
    ICL_TRY(icl_singular_extremes(blocks, k, d, &seen, &unused, error));
    ICL_TRY(icl_singular_extremes(blocks + k * d + k, d - k, d, &unused, &outside, error));
    *rho = outside / seen;
done:
    icl_free(&blocks);
    return status;
}
