/* A start for deep models without noise, whose layers solve the normal equations as an iteration would. */
#include <math.h>

#include "papers/versatile/versatile.h"

/* Of X X^T / n, d = 10, n = 20: one in 300,000 sequences has a smaller one, none of 300,000 a larger one. */
#define LEAST_EIGENVALUE   0.007
#define LARGEST_EIGENVALUE 5.0

/*
 * A layer with w_xx = -a and w_yx = -b maps an eigenvalue k of X X^T / n to k (1 - a k)^2, and what is left of the
 * label's part along it to 1 - b k of it. On [low, high] the ratio of the largest to the smallest image is least for
 * a = 1 / (high + sqrt(high low) + low), where both ends come to the same smallest one; the largest is 4 / (27 a), at
 * k = 1 / (3 a). b = 1 / high keeps all of [0, high] from growing; the last layer takes 2 / (low + high), which has the
 * least largest |1 - b k|. P = diag(-a, -b) / sqrt(b) and Q = sqrt(b) on the inputs.
 */
void icl_versatile_start_at_intervals(const icl_model *model, float *values) {
    const size_t layers = icl_model_layers(model), d = icl_model_parameter(model, 0)->shape[0] - 1;
    double low = LEAST_EIGENVALUE, high = LARGEST_EIGENVALUE;

    for (size_t layer = 0; layer < layers; layer++) {
        const icl_parameter_info *p = icl_model_parameter(model, 2 * layer),
                                 *q = icl_model_parameter(model, 2 * layer + 1);
        const double a = 1 / (high + sqrt(high * low) + low), b = layer + 1 < layers ? 1 / high : 2 / (low + high);
        const size_t rows = p->rank == 1 ? 1 : d; /* diagonal forms share one number among the inputs */
        const size_t stride = p->rank == 1 ? 1 : d + 2;
        for (size_t i = 0; i < rows; i++) {
            values[p->offset + i * stride] = (float)(-a / sqrt(b));
            values[q->offset + i * stride] = (float)sqrt(b);
        }
        values[p->offset + p->count - 1] = (float)-sqrt(b);
        low *= (1 - a * low) * (1 - a * low);
        high = 4 / (27 * a);
    }
}
