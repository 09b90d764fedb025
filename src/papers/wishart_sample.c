#include "papers/wishart_sample.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "numeric/eigen.h"
#include "numeric/statistics.h"

#define STREAM 0x77697368u

void icl_wishart_sample(size_t d, size_t n, uint32_t seed, uint64_t number, double *row, double *matrix) {
    const icl_random_key key = {.seed = seed, .stream = STREAM, .step = number};

    memset(matrix, 0, d * d * sizeof *matrix);
    for (uint64_t k = 0; k < n; k++) {
        for (size_t i = 0; i < d; i++)
            row[i] = (double)icl_normal_from_word(icl_random_word(key, k * d + i));
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++)
                matrix[i * d + j] += row[i] * row[j] / (double)n;
    }
    for (size_t i = 0; i < d; i++)
        for (size_t j = i + 1; j < d; j++)
            matrix[i * d + j] = matrix[j * d + i];
}

icl_status icl_wishart_mean(size_t d, size_t n, uint32_t seed, size_t count, icl_spectral_function *of,
                            const void *user, double *mean, double *standard_error, icl_error *error) {
    double *work = NULL, *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * d * d + 4 * d, sizeof *work, "a sample covariance", &work, error));
    ICL_TRY(icl_allocate(count, sizeof *values, "samples", &values, error));
    double *const matrix = work, *const vectors = work + d * d, *const eigenvalues = vectors + d * d;
    for (size_t i = 0; i < count; i++) {
        icl_wishart_sample(d, n, seed, i, eigenvalues, matrix);
        if (!icl_symmetric_eigen(d, matrix, eigenvalues, vectors, eigenvalues + d))
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "sample covariance %zu: its eigenvalues were not found", i));
        values[i] = of(user, d, eigenvalues);
    }
    *mean = icl_mean(values, count);
    *standard_error = icl_standard_error(values, count);
done:
    icl_free(&work);
    icl_free(&values);
    return status;
}
