/*
 * What the layers of a trained linear transformer are, after Vladymyrov et al. 2024 (arXiv 2402.14180), section 5 and
 * its heat maps: the four numbers of each diagonal layer beside the optimum found by direct minimisation, and the
 * matrices of full layers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "probe/linear_layers.h"
#include "report/layer_maps.h"

enum { CHOICE_1_3 = 8, MOST_LAYERS = 3 };

/* Times n, in the order of icl_linear_term: direct minimisation of the diagonal layers' loss
 * (Nelder-Mead), sigma in {1, 3}. */
static const double two_layers[2][ICL_LINEAR_TERMS] = {{-.326, -.0048, -.456, -.0067}, {-.346, -.0029, -2.358, -.0200}};
static const double three_layers[3][ICL_LINEAR_TERMS] = {
    {-.282, -.0063, -.339, -.0075}, {-.697, -.0541, -.293, -.0227}, {-2.288, .0205, -5.974, .0536}};

/* Where the loss is flat, weights that are as good differ: 10 % and .02 for the two large ones of a
 * layer, the small ones are shown. */
static double tolerance(double target) {
    return .1 * fabs(target) + .02;
}

static icl_status report_layer(icl_reproducing *run, const char *name, size_t layer, bool is_last,
                               const double ours[ICL_LINEAR_TERMS], const double *target, icl_error *error) {
    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        /* The last layer's x is never read: there w_xx may be anything. */
        const bool is_large = term == ICL_TERM_YX || (term == ICL_TERM_XX && !is_last);
        char what[96], quantity[32], note[64] = "";
        snprintf(what, sizeof what, "%s, layer %zu", name, layer + 1);
        snprintf(quantity, sizeof quantity, "n %s", icl_linear_term_name((icl_linear_term)term));
        if (target && !is_large)
            icl_print(note, sizeof note, "the optimum's: %.4g", target[term]);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = ours[term],
                            .target = target ? target[term] : 0, .tolerance = target ? tolerance(target[term]) : 0,
                            .evidence = target && is_large ? ICL_COMPUTED : ICL_EVIDENCE_NONE,
                            .source = "direct minimisation", .note = note[0] ? note : NULL));
    }
    return ICL_OK;
}

/* A trained cell's layers; model and layers are cleared by the caller. */
static icl_status train_layers(icl_reproducing *run, const icl_versatile_cell *cell, size_t seeds,
                               icl_versatile_model *model, icl_linear_layers **layers, icl_error *error) {
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_versatile_train(run, cell, seeds, model, error));
    const icl_model *trained = icl_trainer_model(model->trainer);
    const icl_task *task = icl_trainer_task(model->trainer);
    ICL_TRY(icl_allocate(icl_model_size(trained), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(model->trainer, values, error));
    ICL_TRY(icl_linear_layers_create(trained, icl_task_dimension(task), icl_task_context(task), values, layers, error));
done:
    icl_free(&values);
    return status;
}

static icl_status reproduce_diagonal(icl_reproducing *run, size_t depth, const double (*targets)[ICL_LINEAR_TERMS],
                                     icl_error *error) {
    const icl_versatile_cell cell = {depth, ICL_VERSATILE_DIAG, CHOICE_1_3};
    char name[ICL_VERSATILE_NAME];
    icl_versatile_model model = {0};
    icl_linear_layers *layers = NULL;
    icl_status status = ICL_OK;

    icl_versatile_name(&cell, name);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(train_layers(run, &cell, run->params->scale == ICL_SCALE_CI ? 1 : 3, &model, &layers, error));
    if (!icl_reproduce_judges(run))
        goto done;
    for (size_t layer = 0; layer < depth; layer++) {
        double terms[ICL_LINEAR_TERMS];
        icl_linear_layers_terms(layers, layer, terms);
        ICL_TRY(report_layer(run, name, layer, layer + 1 == depth, terms, targets[layer], error));
    }
done:
    icl_linear_layers_destroy(&layers);
    icl_versatile_model_clear(&model);
    return status;
}

/* ---- Full layers ---- */

/* The share of a block's squared entries that lie off its diagonal. */
static double off_diagonal_share(const double *matrix, size_t width, size_t size) {
    double all = 0, off = 0;

    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++) {
            const double square = matrix[i * width + j] * matrix[i * width + j];
            all += square;
            off += i != j ? square : 0;
        }
    return all > 0 ? off / all : 0;
}

static icl_status report_full_layer(icl_reproducing *run, const icl_linear_layers *layers, const char *name,
                                    size_t layer, size_t d, icl_error *error) {
    for (int part = ICL_MODEL_P; part <= ICL_MODEL_Q; part++) {
        const double *matrix = icl_linear_layers_matrix(layers, layer, 0, (icl_model_part)part);
        char what[96];
        snprintf(what, sizeof what, "%s, layer %zu, %s", name, layer + 1, part == ICL_MODEL_P ? "P" : "Q");
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "share off the diagonal of x",
                            .ours = off_diagonal_share(matrix, d + 1, d)));
    }
    return ICL_OK;
}

static icl_status reproduce_full(icl_reproducing *run, size_t depth, icl_error *error) {
    const icl_versatile_cell cell = {depth, ICL_VERSATILE_FULL, CHOICE_1_3};
    char name[ICL_VERSATILE_NAME];
    icl_versatile_model model = {0};
    icl_linear_layers *layers = NULL;
    icl_layer_maps maps = {0};
    icl_status status = ICL_OK;

    icl_versatile_name(&cell, name);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(train_layers(run, &cell, run->params->scale == ICL_SCALE_CI ? 1 : 2, &model, &layers, error));
    if (!icl_reproduce_judges(run))
        goto done;
    const size_t d = icl_task_dimension(icl_trainer_task(model.trainer));
    for (size_t layer = 0; layer < depth; layer++)
        ICL_TRY(report_full_layer(run, layers, name, layer, d, error));
    ICL_TRY(icl_layer_maps_create(icl_trainer_model(model.trainer), d, layers, &maps, error));
    ICL_TRY(ICL_DRAW_HEAT_MAPS(run, error, .name = "weights", .title = "P and Q of a full model, sigma in {1, 3}",
                               .row_label = "x, and last y", .column_label = "x, and last y", .count = maps.count,
                               .maps = maps.maps));
done:
    icl_layer_maps_release(&maps);
    icl_linear_layers_destroy(&layers);
    icl_versatile_model_clear(&model);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;

    ICL_CHECK(reproduce_diagonal(run, 2, two_layers, error));
    if (!is_ci)
        ICL_CHECK(reproduce_diagonal(run, MOST_LAYERS, three_layers, error));
    return reproduce_full(run, is_ci ? 2 : 4, error);
}

const icl_reproduction icl_versatile_weights = {
    .name = "versatile-weights",
    .source = "arXiv 2402.14180, section 5 and its heat maps of weights",
    .about = "the four numbers of diagonal layers beside the optimum, and full layers as heat maps",
    .cost = {"5 s", "1 min", NULL},
    .run = reproduce,
};
