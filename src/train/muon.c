/*
 * Muon (K. Jordan and others 2024, kellerjordan.github.io/posts/muon): a matrix steps along its Nesterov momentum with
 * all singular values set to about 1.
 *
 * orthogonal(D): X = D / (|D| + 1e-7), the Frobenius norm, then five times X <- a X + (b A + c A A) X with A = X X^T
 * and (a, b, c) = (3.4445, -4.7750, 2.0315). A singular value s becomes a s + b s^3 + c s^5 each time: those from 0.003
 * to 1 end between 0.68 and 1.21, and smaller ones grow by a^5. X X^T is taken on the shorter side.
 *
 * The factor is 0.2 sqrt(max(m, n)) (Moonlight: Liu and others 2025, arXiv 2502.16982), not sqrt(max(1, m / n)): an
 * element's step then has a root mean square of 0.2, as Adam's have in practice, whatever the shape, so that one rate
 * and one decay serve matrices and all else.
 *
 * Matrices of one shape at equal distances in the flat vector, such as the same one of every layer, are one view
 * [layers, m, n] and step together. A group costs 5 (4 m n s + 2 s^3) flops for each matrix, s = min(m, n), in 33 ops.
 */
#include "train/muon.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"

enum { ITERATIONS = 5 }; /* odd: orthogonalize ends in the other of its two vectors */

static const double coefficients[3] = {3.4445, -4.7750, 2.0315}, least_norm = 1e-7;

/* Matrices [rows, columns] at first, first + distance, … of the flat vector. */
typedef struct matrix_group {
    size_t count, rows, columns, first, distance;
} matrix_group;

struct icl_muon {
    icl_backend *backend;
    matrix_group *groups;
    size_t group_count;
    icl_tensor parameters, moment; /* [N], before Adam's step */
    icl_tensor direction, next;    /* [most elements of a group] */
    icl_tensor square, polynomial; /* [most elements of A in a group] */
    icl_tensor norms;              /* [most matrices of a group] */
    icl_tensor least_norm;         /* [1] */
    icl_tensor taken;              /* [1]: 1 where the step is taken, else 0 */
};

/* ---- Creation ---- */

static bool is_like(const icl_parameter_info *a, const icl_parameter_info *b) {
    return b->is_hidden_matrix && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

/* Takes the matrices of one shape, the first of which is `start`, as far as their distances are equal. */
static matrix_group group_from(const icl_model *model, size_t start, bool *is_taken) {
    const icl_parameter_info *first = icl_model_parameter(model, start);
    matrix_group group = {1, first->shape[0], first->shape[1], first->offset, first->count};
    size_t distance = 0;

    is_taken[start] = true;
    for (size_t i = start + 1; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char *name = strrchr(info->name, '.'), *first_name = strrchr(first->name, '.');
        if (is_taken[i] || !is_like(first, info) || !name || !first_name || strcmp(name, first_name) != 0)
            continue;
        if (group.count == 1)
            distance = info->offset - first->offset;
        if (info->offset != first->offset + group.count * distance)
            break;
        group.distance = distance;
        group.count++;
        is_taken[i] = true;
    }
    return group;
}

static icl_status find_groups(const icl_model *model, icl_muon *muon, icl_error *error) {
    const size_t count = icl_model_parameter_count(model);
    bool *is_taken = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *muon->groups, "groups of matrices", &muon->groups, error));
    ICL_CHECK(icl_allocate(count, sizeof *is_taken, "marks of matrices", &is_taken, error));
    for (size_t i = 0; i < count; i++)
        if (icl_model_parameter(model, i)->is_hidden_matrix && icl_model_parameter(model, i)->count > 0 && !is_taken[i])
            muon->groups[muon->group_count++] = group_from(model, i, is_taken);
    icl_free(&is_taken);
    return ICL_OK;
}

static size_t shorter_side(const matrix_group *group) {
    return group->rows < group->columns ? group->rows : group->columns;
}

static size_t larger_of(size_t a, size_t b) {
    return a > b ? a : b;
}

static icl_status create_tensors(const icl_model *model, icl_muon *muon, icl_error *error) {
    const size_t size = icl_model_size(model), one = 1;
    size_t elements = 1, squares = 1, matrices = 1;

    for (size_t i = 0; i < muon->group_count; i++) {
        const matrix_group *group = &muon->groups[i];
        elements = larger_of(elements, group->count * group->rows * group->columns);
        squares = larger_of(squares, group->count * shorter_side(group) * shorter_side(group));
        matrices = larger_of(matrices, group->count);
    }
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &size, &muon->parameters, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &size, &muon->moment, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &elements, &muon->direction, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &elements, &muon->next, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &squares, &muon->square, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &squares, &muon->polynomial, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &matrices, &muon->norms, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &one, &muon->taken, error));
    ICL_CHECK(icl_tensor_create(muon->backend, 1, &one, &muon->least_norm, error));
    return icl_fill(muon->backend, muon->least_norm, least_norm, error);
}

icl_status icl_muon_create(icl_backend *backend, const icl_model *model, icl_muon **muon, icl_error *error) {
    icl_muon *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "muon", &created, error));
    created->backend = backend;
    ICL_TRY(find_groups(model, created, error));
    ICL_TRY(create_tensors(model, created, error));
    *muon = created;
    created = NULL;
done:
    icl_muon_destroy(&created);
    return status;
}

void icl_muon_destroy(icl_muon **muon) {
    icl_muon *gone = *muon;

    if (!gone)
        return;
    enum { TENSORS = 9 };
    icl_tensor *const tensors[TENSORS] = {&gone->parameters, &gone->moment,     &gone->direction,
                                          &gone->next,       &gone->square,     &gone->polynomial,
                                          &gone->norms,      &gone->least_norm, &gone->taken};
    for (size_t i = 0; i < TENSORS; i++)
        icl_tensor_release(tensors[i]);
    icl_free(&gone->groups);
    icl_free(muon);
}

/* ---- A step ---- */

/* Returns a view [count, rows, columns] of elements behind each other, from the beginning of a vector. */
static icl_tensor stacked(icl_tensor vector, size_t count, size_t rows, size_t columns) {
    icl_tensor view = vector;

    view.rank = 3;
    view.shape[0] = count, view.shape[1] = rows, view.shape[2] = columns;
    view.stride[0] = rows * columns, view.stride[1] = columns, view.stride[2] = 1;
    return view;
}

/* Returns a group's matrices in a flat vector. */
static icl_tensor matrices_of(icl_tensor vector, const matrix_group *group) {
    icl_tensor view = stacked(vector, group->count, group->rows, group->columns);

    view.offset += group->first;
    view.stride[0] = group->distance;
    return view;
}

/* X <- X / (|X| + 1e-7) for each matrix. */
static icl_status divide_by_norms(const icl_muon *muon, icl_tensor matrices, icl_error *error) {
    const icl_tensor norms = stacked(muon->norms, matrices.shape[0], 1, 1);

    ICL_CHECK(icl_reduce(muon->backend, ICL_NORM, 6, norms, matrices, error));
    ICL_CHECK(icl_scale_add(muon->backend, norms, 1, norms, 1, muon->least_norm, error));
    return icl_binary(muon->backend, ICL_DIVIDE, matrices, matrices, norms, error);
}

/* Orthogonalises matrices in muon->direction into muon->next, and overwrites the former. */
static icl_status orthogonalize(const icl_muon *muon, const matrix_group *group, icl_error *error) {
    const size_t count = group->count, side = shorter_side(group);
    icl_backend *backend = muon->backend;
    const icl_tensor square = stacked(muon->square, count, side, side);
    const icl_tensor polynomial = stacked(muon->polynomial, count, side, side);
    icl_tensor now = stacked(muon->direction, count, group->rows, group->columns);
    icl_tensor next = stacked(muon->next, count, group->rows, group->columns);

    ICL_CHECK(divide_by_norms(muon, now, error));
    if (group->rows > group->columns) {
        now = icl_tensor_swap_axes(now, 1, 2);
        next = icl_tensor_swap_axes(next, 1, 2);
    }
    for (int i = 0; i < ITERATIONS; i++) {
        const icl_tensor last = now;
        ICL_CHECK(icl_matmul(backend, square, 1, now, icl_tensor_swap_axes(now, 1, 2), 0, error));
        ICL_CHECK(icl_copy(backend, polynomial, square, error));
        ICL_CHECK(icl_matmul(backend, polynomial, coefficients[2], square, square, coefficients[1], error));
        ICL_CHECK(icl_copy(backend, next, now, error));
        ICL_CHECK(icl_matmul(backend, next, 1, polynomial, now, coefficients[0], error));
        now = next;
        next = last;
    }
    return ICL_OK;
}

static icl_status step_group(const icl_muon *muon, const matrix_group *group, const icl_adam_params *adam,
                             icl_tensor parameters, icl_tensor moment, icl_error *error) {
    const size_t sides[2] = {group->rows, group->columns};
    const double scale = 0.2 * sqrt((double)larger_of(sides[0], sides[1]));
    const icl_tensor direction = stacked(muon->direction, group->count, sides[0], sides[1]);
    const icl_tensor orthogonal = stacked(muon->next, group->count, sides[0], sides[1]);
    const icl_tensor before = matrices_of(muon->parameters, group);
    icl_backend *backend = muon->backend;

    ICL_CHECK(icl_scale_add(backend, direction, 1 + adam->beta1, matrices_of(moment, group), -adam->beta1,
                            matrices_of(muon->moment, group), error));
    ICL_CHECK(orthogonalize(muon, group, error));
    ICL_CHECK(icl_scale_add(backend, direction, scale, orthogonal, adam->weight_decay, before, error));
    ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, direction, direction, muon->taken, error));
    return icl_scale_add(backend, matrices_of(parameters, group), 1, before, -adam->learning_rate, direction, error);
}

icl_status icl_muon_keep(icl_muon *muon, icl_tensor parameters, icl_tensor moment, icl_error *error) {
    ICL_CHECK(icl_copy(muon->backend, muon->parameters, parameters, error));
    return icl_copy(muon->backend, muon->moment, moment, error);
}

icl_status icl_muon_step(icl_muon *muon, const icl_adam_params *adam, icl_tensor norm, icl_tensor parameters,
                         icl_tensor moment, icl_error *error) {
    /* 0 if the norm is finite, else NaN, which equals nothing. */
    ICL_CHECK(icl_binary(muon->backend, ICL_SUBTRACT, muon->taken, norm, norm, error));
    ICL_CHECK(icl_binary(muon->backend, ICL_EQUAL, muon->taken, muon->taken, muon->taken, error));
    for (size_t i = 0; i < muon->group_count; i++)
        ICL_CHECK(step_group(muon, &muon->groups[i], adam, parameters, moment, error));
    return ICL_OK;
}
