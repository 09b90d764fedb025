#include "probe/curvature.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"

#define RELATIVE_STEP 1e-5
#define LEAST_SIZE    1e-2 /* the least size of a parameter, because initial ones may be arbitrarily small */

static double norm(const double *vector, size_t size) {
    double square = 0;
    for (size_t i = 0; i < size; i++)
        square += vector[i] * vector[i];
    return sqrt(square);
}

icl_status icl_hessian_vector(icl_objective *objective, const double *at, const double *vector, double *product,
                              icl_error *error) {
    const size_t size = icl_objective_size(objective);
    const double typical = norm(at, size) / sqrt((double)size);
    const double step = RELATIVE_STEP * (typical > LEAST_SIZE ? typical : LEAST_SIZE) / norm(vector, size);
    double *moved = NULL, *below = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(size, sizeof *moved, "parameters", &moved, error));
    ICL_TRY(icl_allocate(size, sizeof *below, "gradient", &below, error));
    for (size_t i = 0; i < size; i++)
        moved[i] = at[i] - step * vector[i];
    ICL_TRY(icl_objective_gradient(objective, moved, NULL, below, error));
    for (size_t i = 0; i < size; i++)
        moved[i] = at[i] + step * vector[i];
    ICL_TRY(icl_objective_gradient(objective, moved, NULL, product, error));
    for (size_t i = 0; i < size; i++)
        product[i] = (product[i] - below[i]) / (2 * step);
done:
    icl_free(&moved);
    icl_free(&below);
    return status;
}

icl_status icl_hessian(icl_objective *objective, const double *at, double *hessian, icl_error *error) {
    const size_t size = icl_objective_size(objective);
    double *unit = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(size, sizeof *unit, "direction", &unit, error));
    for (size_t i = 0; i < size; i++) {
        unit[i] = 1;
        ICL_TRY(icl_hessian_vector(objective, at, unit, hessian + i * size, error));
        unit[i] = 0;
    }
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < i; j++)
            hessian[i * size + j] = hessian[j * size + i] = (hessian[i * size + j] + hessian[j * size + i]) / 2;
done:
    icl_free(&unit);
    return status;
}

icl_status icl_smoothness_along(icl_objective *objective, const double *at, const double *direction,
                                icl_smoothness *smoothness, icl_error *error) {
    const size_t size = icl_objective_size(objective);
    const double length = norm(direction, size);
    double *product = NULL, inner = 0;
    icl_status status;

    ICL_TRY(icl_allocate(size, sizeof *product, "product", &product, error));
    ICL_TRY(icl_hessian_vector(objective, at, direction, product, error));
    for (size_t i = 0; i < size; i++)
        inner += direction[i] * product[i];
    smoothness->directional = inner / (length * length);
    smoothness->local = norm(product, size) / length;
done:
    icl_free(&product);
    return status;
}

/* Returns max |v| / lower median of |v|; reorders the values. */
static double range_of(double *values, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = fabs(values[i]);
        largest = fmax(largest, values[i]);
    }
    return largest / icl_lower_median(values, count);
}

icl_status icl_robust_condition_of(const double *hessian, size_t size, icl_robust_condition *condition,
                                   icl_error *error) {
    double *matrix = NULL, *values = NULL, *vectors = NULL, *work = NULL;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < size * size; i++)
        if (!isfinite(hessian[i]))
            return icl_fail(error, ICL_ERROR_DIVERGED, "Hessian: not finite");
    ICL_TRY(icl_allocate(size * size, sizeof *matrix, "Hessian", &matrix, error));
    ICL_TRY(icl_allocate(size * size, sizeof *vectors, "eigenvectors", &vectors, error));
    ICL_TRY(icl_allocate(size, sizeof *values, "eigenvalues", &values, error));
    ICL_TRY(icl_allocate(3 * size, sizeof *work, "workspace", &work, error));
    for (size_t i = 0; i < size; i++)
        values[i] = hessian[i * size + i];
    condition->diagonal = range_of(values, size);
    memcpy(matrix, hessian, size * size * sizeof *matrix);
    if (!icl_symmetric_eigen(size, matrix, values, vectors, work))
        ICL_TRY(icl_fail(error, ICL_ERROR_DIVERGED, "Hessian: eigenvalues do not converge"));
    condition->eigenvalues = range_of(values, size);
done:
    icl_free(&matrix);
    icl_free(&values);
    icl_free(&vectors);
    icl_free(&work);
    return status;
}
