/*
 * Windows in a subspace, by its size and its surroundings, the link, the slope and the noise (Collins et al. 2024,
 * window.c, section 4; window-subspace has one size). Functions see k of d directions, x = B u + B' v, u and v on
 * spheres. With M = w B B^T scores are w <u, u_q>: the window of the same functions of k inputs, whatever d is.
 *
 * So three things are judged: softmax attention that begins with a random M ends at w B B^T, with the best w of its
 * task; that w is the one of k inputs without any others; and inside the subspace it depends on slope and noise as
 * windows do.
 */
#include <math.h>

#include "model/model.h"
#include "numeric/matrix.h"
#include "papers/papers.h"
#include "probe/window.h"
#include "task/parts.h"

enum { MOST_D = 8, CONTEXT = 40 };

typedef struct case_of {
    const char *function;
    size_t d, k;
    double lipschitz, sigma;
    icl_scale first;
} case_of;

enum { BASE = 0, WIDER, LARGER, STEEPER, NOISIER };

static const case_of cases[] = {
    [BASE] = {"affine", 4, 2, 1, .3, ICL_SCALE_CI},
    [WIDER] = {"affine", 8, 2, 1, .3, ICL_SCALE_CI},
    [LARGER] = {"affine", 8, 4, 1, .3, ICL_SCALE_SHORT},
    [STEEPER] = {"affine", 6, 2, 3, .3, ICL_SCALE_CI},
    [NOISIER] = {"affine", 6, 2, 1, 1, ICL_SCALE_SHORT},
    {"relu", 6, 2, 1, .3, ICL_SCALE_SHORT},
    {"relu", 6, 2, 3, .3, ICL_SCALE_SHORT},
};

static const struct {
    size_t steps, batch, sequences;
} budgets[ICL_SCALES] = {{600, 256, 8192}, {2400, 512, 32768}, {16000, 1024, 131072}};

static icl_phrase name_of(const case_of *c) {
    return icl_phrase_print("%s, d %zu, k %zu, L %g, sigma %g", c->function, c->d, c->k, c->lipschitz, c->sigma);
}

/* Steps are larger where they carry more signal. */
static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_of *c = &cases[i];
        const double ratio = c->lipschitz / c->sigma;
        if (study->scale >= c->first)
            ICL_ADD_CELL(study, .name = name_of(c).text, .recipe = "window", .seed = icl_study_seed(study, 0),
                         .data = c, .folder = ICL_PHRASE("case%zu", i),
                         .settings = {ICL_PHRASE("task.function=%s task.d=%zu task.subspace=%zu task.n=%d "
                                                 "task.lipschitz=%g task.noise=fixed:%g",
                                                 c->function, c->d, c->k, CONTEXT, c->lipschitz, c->sigma),
                                      ICL_PHRASE("train.steps=%zu train.batch=%zu train.learning_rate=%g "
                                                 "model.initialization=normal model.init_std=0.1",
                                                 budgets[study->scale].steps, budgets[study->scale].batch,
                                                 ratio < 3    ? .05
                                                 : ratio < 10 ? .15
                                                              : .3)});
    }
}

/* ---- Measuring ---- */

/* rho(M, B), w of B^T M B, its distance from a multiple of I, the best w, the best w of k inputs alone, and the loss
 * over that of the best w B B^T. */
enum { RHO = 0, INSIDE, DISTANCE, BEST, ALONE, RATIO, NUMBERS };

/* inside [k][k] = B^T M B, B the first k columns of the rotation [d][d]. */
static void restrict_to(const double *M, const double *rotation, size_t d, size_t k, double *inside) {
    for (size_t i = 0; i < k * k; i++) {
        inside[i] = 0;
        for (size_t a = 0; a < d * d; a++)
            inside[i] += rotation[a / d * d + i / k] * M[a] * rotation[a % d * d + i % k];
    }
}

/* Finds the best w of M = w shape, NULL for I, on sequences of the recipe. */
static icl_status find_best(const icl_study *study, const icl_recipe *recipe, const double *shape, double *w,
                            icl_error *error) {
    icl_window_set set = {0};
    icl_status status = icl_window_draw(study->run->params->backend, recipe, ICL_FOR_FITTING, study->run->params->seed,
                                        budgets[study->scale].sequences, &set, error);

    if (status == ICL_OK)
        *w = icl_window_search(&set, shape);
    icl_window_release(&set);
    return status;
}

/* The same functions of k inputs, which are all there is. */
static icl_status find_alone(const icl_study *study, const icl_study_cell *cell, double *w, icl_error *error) {
    const case_of *c = cell->data;
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(cell->complete, &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, ICL_PHRASE("task.subspace=0 task.d=%zu", c->k), error));
    ICL_TRY(find_best(study, recipe, NULL, w, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const case_of *c = cell->data;
    const size_t d = c->d, k = c->k;
    const double *rotation = icl_task_subspace(icl_trainer_task(trained)).rotation;
    double M[MOST_D * MOST_D], best[MOST_D * MOST_D], inside[MOST_D * MOST_D];
    icl_window_set fresh = {0};
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_parameters(study, trained, &values, error));
    ICL_TRY(icl_matrix_of_model(icl_trainer_model(trained), values, "M", d, d, M, error));
    ICL_TRY(icl_subspace_alignment(M, rotation, d, k, &numbers[RHO].value, error));
    restrict_to(M, rotation, d, k, inside);
    numbers[INSIDE].value = icl_matrix_multiple(inside, k);
    numbers[DISTANCE].value = icl_matrix_distance(inside, k);
    for (size_t i = 0; i < d * d; i++) {
        best[i] = 0;
        for (size_t j = 0; j < k; j++)
            best[i] += rotation[i / d * d + j] * rotation[i % d * d + j];
    }
    ICL_TRY(icl_reproduce_poll(study->run, error));
    ICL_TRY(find_best(study, cell->complete, best, &numbers[BEST].value, error));
    ICL_TRY(find_alone(study, cell, &numbers[ALONE].value, error));
    for (size_t i = 0; i < d * d; i++)
        best[i] *= numbers[BEST].value;
    ICL_TRY(icl_window_draw(study->run->params->backend, cell->complete, ICL_FOR_EVALUATION, study->run->params->seed,
                            budgets[study->scale].sequences, &fresh, error));
    const icl_window_ratio ratio = icl_window_compare(&fresh, M, true, best, true);
    numbers[RATIO] = (icl_number){ratio.ratio, ratio.standard_error};
done:
    icl_window_release(&fresh);
    return status;
}

/* ---- Judging ---- */

static double best_width(const icl_study *study, const icl_study_cell *cell) {
    (void)study;
    return cell->numbers[BEST].value;
}

/* The loss is flat around the best w, which two sets of sequences know to a twentieth. */
static const icl_study_check_row checks[] = {
    ICL_ROW(.quantity = "rho(M, B)", .number = RHO, .absolute = {.4, .15, .05}, .criterion = ICL_AT_MOST,
            .evidence = ICL_READ, .source = "softmax learns the subspace"),
    ICL_ROW(.quantity = "w of M in the subspace", .number = INSIDE, .expected = best_width, .relative = {.5, .2, .1},
            .evidence = ICL_COMPUTED, .source = "best w B B^T, searched for here", .note = "Dist(B^T M B, I) {}",
            .beside = {DISTANCE}),
    ICL_ROW(.quantity = "best w of k inputs alone", .number = ALONE, .expected = best_width, .relative = {.1, .05, .03},
            .evidence = ICL_COMPUTED, .source = "scores are w <u, u_q>"),
    ICL_ROW(.quantity = "loss / best window's", .number = RATIO, .target = 1, .absolute = {.2, .05, .03}, .errors = 3,
            .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "best w B B^T, searched for here"),
};

static void judge_order(icl_study *study, size_t narrow, size_t wide, const char *source) {
    const icl_study_cell *first = icl_study_find(study, name_of(&cases[narrow]).text);
    const icl_study_cell *second = icl_study_find(study, name_of(&cases[wide]).text);

    if (first && second && first->is_wanted && second->is_wanted)
        ICL_JUDGE(study,
                  .what = ICL_PHRASE("L %g, sigma %g over L %g, sigma %g", cases[narrow].lipschitz, cases[narrow].sigma,
                                     cases[wide].lipschitz, cases[wide].sigma),
                  .quantity = "ratio of w in the subspace",
                  .ours = first->numbers[INSIDE].value / second->numbers[INSIDE].value, .target = 1,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = source);
}

static void conclude(icl_study *study) {
    judge_order(study, STEEPER, BASE, "steeper functions, narrower windows");
    judge_order(study, BASE, NOISIER, "noisier labels, wider windows");
}

const icl_reproduction icl_window_directions =
    ICL_STUDY(.name = "window-directions", .source = "arXiv 2402.11639, section 4",
              .about = "windows in subspaces of several sizes, by link, slope and noise",
              .claim = "In a subspace of k of d directions softmax attention learns the window of k inputs, whatever d "
                       "is, narrower for steeper functions and wider for noisier labels.",
              .scope = "A met table means that one free matrix finds k of d directions with the window of k "
                       "inputs for these sizes; more than four directions and directions that change between "
                       "sequences were not tested.",
              .cost = {"5 s", "1 min", "10 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure,
              ICL_CHECKS(checks), .conclude = conclude);
