#include "numeric/singular.h"

#include <math.h>

#include "core/allocate.h"
#include "numeric/eigen.h"
#include "numeric/matrix.h"

icl_status icl_singular_extremes(const double *block, size_t size, size_t stride, double *smallest, double *largest,
                                 icl_error *error) {
    double *memory = NULL, *gram, *eigenvalues, *vectors, *work;
    icl_status status = ICL_OK;

    /* gram and vectors [size, size], eigenvalues [size], work [3 size] */
    ICL_TRY(icl_allocate(size, (2 * size + 4) * sizeof *memory, "singular values", &memory, error));
    gram = memory;
    vectors = gram + size * size;
    eigenvalues = vectors + size * size;
    work = eigenvalues + size;
    for (size_t a = 0; a < size; a++)
        for (size_t b = 0; b < size; b++)
            for (size_t row = 0; row < size; row++)
                gram[a * size + b] += block[row * stride + a] * block[row * stride + b];
    for (size_t i = 0; i < size * size; i++)
        if (!isfinite(gram[i]))
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: expected a finite matrix"));
    if (!icl_symmetric_eigen(size, gram, eigenvalues, vectors, work))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: the iteration did not converge"));
    *smallest = sqrt(fmax(eigenvalues[0], 0));
    *largest = sqrt(fmax(eigenvalues[size - 1], 0));
done:
    icl_free(&memory);
    return status;
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
