/*
 * Inspections of the weights of a linear transformer: heat maps of P and Q, the four numbers that each layer has on its
 * diagonals (Vladymyrov et al. 2024, arXiv 2402.14180, section 3), and how far it is from patterns of the literature.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "numeric/matrix.h"
#include "probe/inspection.h"

/* ---- Heat maps of P and Q ---- */

typedef struct layer_maps {
    size_t count;
    icl_heat_map *maps; /* [count]: P and Q of each head, layer by layer */
    char (*labels)[64]; /* as long as its longest */
} layer_maps;

static void add_map(const icl_linear_layers *layers, size_t layer, size_t head, size_t heads, icl_model_part part,
                    size_t d, layer_maps *maps) {
    char *label = maps->labels[maps->count];
    const char *name = part == ICL_MODEL_P ? "P" : "Q";

    if (heads > 1)
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu, head %zu", name, layer + 1, head + 1);
    else
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu", name, layer + 1);
    maps->maps[maps->count++] = (icl_heat_map){
        .label = label, .rows = d + 1, .columns = d + 1, .values = icl_linear_layers_matrix(layers, layer, head, part)};
}

static icl_status create_maps(const icl_model *model, size_t d, const icl_linear_layers *layers, layer_maps *maps,
                              icl_error *error) {
    const size_t depth = icl_model_layers(model), heads = icl_model_heads(model);

    *maps = (layer_maps){0};
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->maps, "heat maps", &maps->maps, error));
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->labels, "labels", &maps->labels, error));
    for (size_t layer = 0; layer < depth; layer++)
        for (size_t head = 0; head < heads; head++) {
            add_map(layers, layer, head, heads, ICL_MODEL_P, d, maps);
            add_map(layers, layer, head, heads, ICL_MODEL_Q, d, maps);
        }
    return ICL_OK;
}

static void release_maps(layer_maps *maps) {
    icl_free(&maps->maps);
    icl_free(&maps->labels);
}

/* R^T A R costs d^4: for more inputs it is left out. */
enum { MOST_INPUTS_IN_BASIS = 64 };

/* More make no picture that could be looked at. */
enum { MOST_MAPS = 64 };

/* ---- One layer ---- */

icl_inspect_step icl_inspect_measure_step(const icl_inspection *run, const icl_linear_layers *layers, size_t layer,
                                          double *matrices) {
    const double *root = icl_task_get_prior(run->task)->covariance_root;
    double *step = matrices, *whitened = matrices + run->d * run->d;
    icl_inspect_step is = {.whitened_multiple = (double)NAN, .whitened = (double)NAN};

    icl_linear_layers_step(layers, layer, step);
    is.multiple = icl_matrix_multiple(step, run->d);
    is.distance = icl_matrix_distance(step, run->d);
    if (root && run->d <= MOST_INPUTS_IN_BASIS) {
        icl_matrix_in_basis(root, step, run->d, whitened);
        is.whitened_multiple = icl_matrix_multiple(whitened, run->d);
        is.whitened = icl_matrix_distance(whitened, run->d);
    }
    return is;
}

typedef struct layer_shape {
    double terms[ICL_LINEAR_TERMS];
    icl_linear_patterns patterns;
    icl_inspect_step step;
} layer_shape;

/* The share of |T|^2 that the four numbers make up (icl_linear_patterns). */
static double explained(const layer_shape *shape) {
    return 1 - shape->patterns.diagonal * shape->patterns.diagonal;
}

static icl_status report_layer(icl_inspection *run, size_t layer, const layer_shape *shape, icl_error *error) {
    const struct {
        const char *what, *quantity;
        double value;
    } rows[] = {
        {"diagonal: w_xx, w_xy, w_yx, w_yy", "share of the squared entries that they explain", explained(shape)},
        {"diagonal: w_xx, w_xy, w_yx, w_yy", "distance from the pattern", shape->patterns.diagonal},
        {"GD++: w_xx, w_yx", "distance from the pattern", shape->patterns.gdpp},
        {"gradient descent: w_yx", "distance from the pattern", shape->patterns.descent},
        {"sparse: P = [0 0; 0 1], Q = [A 0; 0 0]", "distance from the pattern", shape->patterns.sparse},
        {"sparse-b: P = [B 0; 0 1], Q = [A 0; 0 0]", "distance from the pattern", shape->patterns.sparse_b},
        {"A of the gradient step", "n times the nearest multiple of I", shape->step.multiple},
        {"A of the gradient step", "Dist(A, I)", shape->step.distance},
        {"A of the gradient step", "n times the nearest multiple of I of R^T A R", shape->step.whitened_multiple},
        {"A of the gradient step", "Dist(R^T A R, I)", shape->step.whitened},
    };

    for (int term = 0; term < ICL_LINEAR_TERMS; term++)
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer + 1, .what = icl_linear_term_name((icl_linear_term)term),
                                    .quantity = "n times the coefficient", .value = shape->terms[term]));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!isnan(rows[i].value))
            ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer + 1, .what = rows[i].what,
                                        .quantity = rows[i].quantity, .value = rows[i].value));
    return ICL_OK;
}

/* ---- The table ---- */

enum { COLUMNS = 13 };

static icl_status write_row(icl_inspection *run, size_t layer, const layer_shape *shape, icl_error *error) {
    const double numbers[COLUMNS] = {(double)(layer + 1),       shape->terms[ICL_TERM_XX], shape->terms[ICL_TERM_XY],
                                     shape->terms[ICL_TERM_YX], shape->terms[ICL_TERM_YY], explained(shape),
                                     shape->patterns.diagonal,  shape->patterns.gdpp,      shape->patterns.descent,
                                     shape->patterns.sparse,    shape->patterns.sparse_b,  shape->step.distance,
                                     shape->step.whitened};
    char texts[COLUMNS][ICL_INSPECT_CELL];
    const char *cells[COLUMNS];

    for (size_t i = 0; i < COLUMNS; i++)
        cells[i] = icl_inspect_number(numbers[i], texts[i]);
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_table(icl_inspection *run, const icl_linear_layers *layers, icl_error *error) {
    static const icl_report_column columns[COLUMNS] = {
        {"layer", true},           {"n w_xx", true},   {"n w_xy", true},
        {"n w_yx", true},          {"n w_yy", true},   {"explained", true},
        {"diagonal", true},        {"GD++", true},     {"GD", true},
        {"sparse", true},          {"sparse-b", true}, {"Dist(A, I)", true},
        {"Dist(R^T A R, I)", true}};
    double *matrices = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * run->d * run->d, sizeof *matrices, "matrix of a step", &matrices, error));
    ICL_TRY(icl_inspect_table_begin(run, columns, COLUMNS, error));
    for (size_t layer = 0; layer < icl_model_layers(run->model); layer++) {
        layer_shape shape = {.patterns = icl_linear_layers_patterns(layers, layer),
                             .step = icl_inspect_measure_step(run, layers, layer, matrices)};
        icl_linear_layers_terms(layers, layer, shape.terms);
        ICL_TRY(report_layer(run, layer, &shape, error));
        ICL_TRY(write_row(run, layer, &shape, error));
    }
    ICL_TRY(icl_inspect_table_end(run, error));
done:
    icl_free(&matrices);
    return status;
}

/* ---- The section ---- */

static const char gauge[] =
    "A layer is e <- e + c sum over heads of P G Q e, with G the sum of e e^T over the context, c = 1 or "
    "1/n. (P, Q) and (a P, Q / a) are the same layer for every a: shown are the two of equal Frobenius norm "
    "whose Q has a block of x with trace >= 0, so that the last corner of P is negative where a layer steps "
    "downhill.";

static const char legend[] =
    "n w_xx, n w_xy, n w_yx, n w_yy: a layer's four numbers, the sums over heads of products of the mean "
    "diagonal entries of P (x's or y's) and Q, times n c. explained: the share of the layer's squared "
    "entries that these four make up. Then distances, from 0, the layer is of that form, to 1, it has "
    "nothing of it: diagonal (the four numbers alone), GD++ (w_xx and w_yx), GD (gradient descent: w_yx), "
    "sparse (P = [0 0; 0 1], Q = [A 0; 0 0]) and sparse-b (P = [B 0; 0 1]). Dist(A, I) is the distance of "
    "the gradient step's A from the nearest multiple of I, Dist(R^T A R, I) the same in white inputs g, x = "
    "R g, where inputs have a covariance. Entries that nothing reads do not count.";

icl_status icl_inspect_weights(icl_inspection *run, const icl_linear_layers *layers, icl_error *error) {
    layer_maps maps = {0};
    icl_status status = ICL_OK;

    ICL_TRY(create_maps(run->model, run->d, layers, &maps, error));
    const size_t shown = maps.count < MOST_MAPS ? maps.count : MOST_MAPS;
    ICL_TRY(icl_inspect_section(run, "Weights", error));
    ICL_TRY(ICL_INSPECT_HEAT_MAPS(run, error, .name = "weights",
                                  .title = "P and Q of each layer (last row and column: y)", .count = shown,
                                  .maps = maps.maps));
    if (shown < maps.count)
        ICL_TRY(icl_inspect_paragraph(run, error, "These are the first %zu of %zu matrices.", shown, maps.count));
    ICL_TRY(icl_inspect_paragraph(run, error, "%s", gauge));
    ICL_TRY(icl_inspect_paragraph(run, error, "%s", legend));
    ICL_TRY(write_table(run, layers, error));
done:
    release_maps(&maps);
    return status;
}
