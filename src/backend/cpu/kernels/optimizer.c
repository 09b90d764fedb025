/* Optimizer steps; the formulas stand in ops.h. */
#include "backend/cpu/kernels/parts.h"

#include "arithmetic/vector.h"

ALWAYS_INLINE void adam_element(const HOST(adam_constants) * c, real keep, real *parameter, real *first, real *second,
                                real gradient) {
    const real m = c->beta1 * *first + c->one_minus_beta1 * gradient;
    const real v = c->beta2 * *second + c->one_minus_beta2 * (gradient * gradient);
    const real step = c->learning_rate * (m / c->correction1) / (REAL_SQRT(v / c->correction2) + c->epsilon);
    *parameter = keep * *parameter - step;
    *first = m;
    *second = v;
}

ALWAYS_INLINE void adam_tile(const icl_tile *tile, void *const *elements, const void *params, const bool masked) {
    const HOST(adam_constants) c = *(const HOST(adam_constants) *)params;
    for (size_t row = 0; row < tile->rows; row++) {
        real *at[5] = {0};
        const size_t *step = tile->column_stride;
        for (int i = 0; i < (masked ? 5 : 4); i++)
            at[i] = (real *)elements[i] + row * tile->row_stride[i];
        INDEPENDENT for (size_t i = 0; i < tile->columns; i++) {
            const real keep = masked && at[4][i * step[4]] == 0 ? 1 : c.keep;
            adam_element(&c, keep, at[0] + i * step[0], at[1] + i * step[1], at[2] + i * step[2],
                         c.factor * at[3][i * step[3]]);
        }
    }
}

void KERNEL(adam_step)(const icl_tile *tile, void *const *elements, const void *params) {
    adam_tile(tile, elements, params, false);
}

void KERNEL(adam_step_masked)(const icl_tile *tile, void *const *elements, const void *params) {
    adam_tile(tile, elements, params, true);
}

void KERNEL(sgd_step)(const icl_tile *tile, void *const *elements, const void *params) {
    const HOST(sgd_constants) c = *(const HOST(sgd_constants) *)params;
    for (size_t row = 0; row < tile->rows; row++) {
        real *parameter = (real *)elements[0] + row * tile->row_stride[0];
        real *velocity = (real *)elements[1] + row * tile->row_stride[1];
        const real *gradient = (const real *)elements[2] + row * tile->row_stride[2];
        INDEPENDENT for (size_t i = 0; i < tile->columns; i++) {
            real *v = velocity + i * tile->column_stride[1];
            *v = c.momentum * *v + c.factor * gradient[i * tile->column_stride[2]];
            parameter[i * tile->column_stride[0]] -= c.learning_rate * *v;
        }
    }
}
