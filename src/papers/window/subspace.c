/*
 * Functions of k of d directions (Collins et al. 2024, arXiv 2402.11639, section 4 and figure 10): softmax attention
 * learns which they are, M near w B B^T, and linear attention does not. The alignment rho(M, B) (probe/singular.h) and
 * the test error while training, for affine, quadratic and cosine functions, each with both kinds of
 * attention from the same random M.
 *
 * Linear attention is blind to even functions: E[y x] = 0. On affine ones it takes a step of gradient descent, whose M
 * keeps to the subspace as well; what it cannot do there is learn the offset, so that its error is what
 * tells the two apart.
 */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "numeric/singular.h"
#include "papers/papers.h"
#include "papers/window/window.h"

enum { CLASSES = 3, KINDS = 2, D = 6, K = 2, N = 40, POINTS = ICL_WINDOW_SNAPSHOTS };

static const char *const classes[CLASSES] = {"affine", "quadratic", "cosine"};

typedef struct extent {
    size_t steps, batch, sequences;
    double rho;  /* the largest of a softmax window */
    double loss; /* its share above the best window's; the steps of ci end before affine functions' large w */
} extent;

static const extent extents[ICL_SCALES] = {
    {240, 256, 4096, .25, .5},
    {2400, 512, 16384, .1, .1},
    {16000, 1024, 100000, .05, .05},
};

/* One kind of attention on its way. */
typedef struct course {
    double steps[POINTS], rho[POINTS], losses[POINTS];
    double M[D * D]; /* at the end */
} course;

static icl_window_cell cell_of(const extent *is, size_t family, bool linear) {
    return (icl_window_cell){.function = classes[family],
                             .d = D,
                             .n = N,
                             .lipschitz = 1,
                             .sigma = .1,
                             .steps = is->steps,
                             .batch = is->batch,
                             .learning_rate = .3,
                             .subspace = K,
                             .linear = linear};
}

static icl_status follow(icl_reproducing *run, const icl_window_cell *cell, const icl_window_set *set,
                         const double *rotation, course *out, icl_error *error) {
    double along[ICL_WINDOW_SNAPSHOTS][ICL_WINDOW_MOST_ELEMENTS];

    ICL_CHECK(icl_window_learn(run, cell, out->M, along, error));
    for (size_t i = 0; i < POINTS; i++) {
        const size_t step = (i + 1) * (cell->steps / POINTS);
        out->steps[i] = (double)step;
        out->losses[i] = icl_window_measure(set, along[i], !cell->linear).loss;
        ICL_CHECK(icl_subspace_alignment(along[i], rotation, D, K, &out->rho[i], error));
    }
    return ICL_OK;
}

/* ---- Judging ---- */

/* The best window w B B^T [d][d], searched for on other sequences than those of the test. */
static icl_status find_best(icl_reproducing *run, const icl_recipe *recipe, size_t sequences, const double *rotation,
                            double *window, icl_error *error) {
    icl_window_set set = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < (size_t)D * D; i++) {
        window[i] = 0;
        for (size_t k = 0; k < K; k++)
            window[i] += rotation[i / D * D + k] * rotation[i % D * D + k];
    }
    ICL_TRY(icl_window_draw(run->params->backend, recipe, ICL_FOR_FITTING, run->params->seed, sequences, &set, error));
    const double w = icl_window_search(&set, window);
    for (size_t i = 0; i < (size_t)D * D; i++)
        window[i] *= w;
done:
    icl_window_release(&set);
    return status;
}

static icl_status judge_softmax(icl_reproducing *run, const char *family, const course *softmax,
                                const icl_window_ratio *beside_best, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    char what[64], note[64];

    snprintf(what, sizeof what, "%s, softmax", family);
    icl_print(note, sizeof note, "after %g steps %.3g", softmax->steps[0], softmax->rho[0]);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "rho(M, B)", .ours = softmax->rho[POINTS - 1],
                        .target = 0, .tolerance = is->rho, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
                        .source = "figure 10: softmax learns the subspace", .note = note));
    icl_print(note, sizeof note, "loss %.4g, best %.4g", beside_best->of.loss, beside_best->to.loss);
    return ICL_FOUND(run, error, .what = what, .quantity = "loss / best window's", .ours = beside_best->ratio,
                     .standard_error = beside_best->standard_error, .target = 1, .tolerance = is->loss,
                     .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "best w B B^T, searched for here",
                     .note = note);
}

static icl_status judge_linear(icl_reproducing *run, const char *family, bool is_even, const course *linear,
                               const icl_window_ratio *beside_softmax, icl_error *error) {
    char what[64], note[64];

    snprintf(what, sizeof what, "%s, linear", family);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "rho(M, B)", .ours = linear->rho[POINTS - 1],
                        .target = .5, .criterion = ICL_AT_LEAST, .evidence = is_even ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                        .source = is_even ? "figure 10: linear attention does not" : NULL,
                        .note = is_even ? NULL : "a step of gradient descent keeps to the subspace too"));
    icl_print(note, sizeof note, "linear %.4g, softmax %.4g", beside_softmax->of.loss, beside_softmax->to.loss);
    return ICL_FOUND(run, error, .what = what, .quantity = "loss / softmax's loss", .ours = beside_softmax->ratio,
                     .standard_error = beside_softmax->standard_error, .target = 2, .criterion = ICL_AT_LEAST,
                     .evidence = ICL_READ, .source = "figure 10: its test error stays", .note = note);
}

/* ---- Pictures ---- */

static icl_status draw(icl_reproducing *run, course all[CLASSES][KINDS], bool alignment, icl_error *error) {
    icl_series series[CLASSES * KINDS];
    char labels[CLASSES * KINDS][32];

    for (size_t i = 0; i < (size_t)CLASSES * KINDS; i++) {
        const course *is = &all[i / KINDS][i % KINDS];
        const bool linear = i % KINDS == 1;
        snprintf(labels[i], sizeof labels[i], "%s, %s", classes[i / KINDS], linear ? "linear" : "softmax");
        series[i] = (icl_series){labels[i],
                                 linear ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS,
                                 POINTS,
                                 is->steps,
                                 alignment ? is->rho : is->losses,
                                 NULL};
    }
    return ICL_DRAW_FIGURE(run, error, .name = alignment ? "window-subspace-alignment" : "window-subspace-error",
                           .title = "Softmax attention learns a subspace, linear attention does not (figure 10)",
                           .x_label = "training steps", .y_label = alignment ? "rho(M, B)" : "test error",
                           .log_y = true, .count = (size_t)CLASSES * KINDS, .series = series);
}

/* ---- One class ---- */

static icl_status reproduce_class(icl_reproducing *run, size_t family, course kinds[KINDS], icl_error *error) {
    const extent *is = &extents[run->params->scale];
    const icl_window_cell first = cell_of(is, family, false);
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_window_set set = {0};
    double best[D * D];
    icl_status status = ICL_OK;

    ICL_TRY(icl_window_recipe(run, &first, &recipe, error));
    ICL_TRY(icl_task_create(recipe, &task, error));
    const double *rotation = icl_task_get_prior(task)->subspace_rotation;
    ICL_TRY(icl_window_draw(run->params->backend, recipe, ICL_FOR_EVALUATION, run->params->seed, is->sequences, &set,
                            error));
    for (size_t kind = 0; kind < KINDS; kind++) {
        const icl_window_cell cell = cell_of(is, family, kind == 1);
        ICL_TRY(icl_reproduce_next(run, follow(run, &cell, &set, rotation, &kinds[kind], error)));
    }
    if (!icl_reproduce_judges(run))
        goto done;
    ICL_TRY(find_best(run, recipe, is->sequences, rotation, best, error));
    const icl_window_ratio beside_best = icl_window_compare(&set, kinds[0].M, true, best, true);
    const icl_window_ratio beside_softmax = icl_window_compare(&set, kinds[1].M, false, kinds[0].M, true);
    ICL_TRY(judge_softmax(run, classes[family], &kinds[0], &beside_best, error));
    ICL_TRY(judge_linear(run, classes[family], family > 0, &kinds[1], &beside_softmax, error));
done:
    icl_window_release(&set);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    course all[CLASSES][KINDS] = {{{{0}}}};

    for (size_t i = 0; i < (size_t)CLASSES * KINDS; i++)
        for (size_t k = 0; k < POINTS; k++)
            all[i / KINDS][i % KINDS].rho[k] = all[i / KINDS][i % KINDS].losses[k] = (double)NAN;
    for (size_t family = 0; family < CLASSES; family++)
        if (icl_reproduce_wants(run, classes[family]))
            ICL_CHECK(reproduce_class(run, family, all[family], error));
    if (run->findings == 0)
        return ICL_OK; /* nothing was chosen, and old pictures stand */
    ICL_CHECK(draw(run, all, true, error));
    return draw(run, all, false, error);
}

const icl_reproduction icl_window_subspace = {
    .name = "window-subspace",
    .source = "arXiv 2402.11639, figure 10",
    .about = "functions of two of six directions: softmax attention learns which, linear attention does not",
    .cost = {"4 s", "1 min", "10 min"},
    .is_shared = true,
    .run = reproduce,
};
