#include "papers/window/window.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "model/named_matrix.h"
#include "numeric/matrix.h"
#include "numeric/singular.h"
#include "papers/papers.h"

/* ---- Training ---- */

void icl_window_name(const icl_window_cell *cell, char name[ICL_WINDOW_NAME]) {
    icl_print(name, ICL_WINDOW_NAME, "%s, d %zu, n %zu, L %.3g, sigma %.3g", cell->function, cell->d, cell->n,
              cell->lipschitz, cell->sigma);
}

void icl_window_folder(const icl_window_cell *cell, char name[ICL_WINDOW_NAME]) {
    char subspace[24] = "";
    if (cell->subspace > 0)
        snprintf(subspace, sizeof subspace, "-k%zu", cell->subspace);
    icl_print(name, ICL_WINDOW_NAME, "%s-d%zu%s-n%zu-L%.3g-sigma%.3g%s", cell->function, cell->d, subspace, cell->n,
              cell->lipschitz, cell->sigma, cell->linear ? "-linear" : "");
}

static icl_status describe_task(const icl_window_cell *cell, icl_recipe *recipe, icl_error *error) {
    ICL_CHECK(icl_reproduce_override(recipe, error, "task.function=%s", cell->function));
    ICL_CHECK(icl_reproduce_override(recipe, error, "task.d=%zu", cell->d));
    ICL_CHECK(icl_reproduce_override(recipe, error, "task.n=%zu", cell->n));
    ICL_CHECK(icl_reproduce_override(recipe, error, "task.lipschitz=%.9g", cell->lipschitz));
    ICL_CHECK(icl_reproduce_override(recipe, error, "task.noise=fixed:%.9g", cell->sigma));
    return icl_reproduce_override(recipe, error, "task.subspace=%zu", cell->subspace);
}

/* From M = I, or for a subspace from a random M, which is watched on its way. */
static icl_status describe_start(const icl_window_cell *cell, icl_recipe *recipe, icl_error *error) {
    const size_t every = cell->subspace > 0 ? cell->steps / ICL_WINDOW_SNAPSHOTS : 0;

    if (cell->linear)
        ICL_CHECK(icl_reproduce_override(recipe, error, "model.attention=linear"));
    if (cell->subspace > 0) {
        ICL_CHECK(icl_reproduce_override(recipe, error, "model.initialization=normal"));
        ICL_CHECK(icl_reproduce_override(recipe, error, "model.init_std=0.1"));
    }
    return icl_reproduce_override(recipe, error, "train.snapshot_every=%zu", every);
}

icl_status icl_window_recipe(const icl_reproducing *run, const icl_window_cell *cell, icl_recipe **recipe,
                             icl_error *error) {
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("window", &made, error));
    ICL_TRY(describe_task(cell, made, error));
    ICL_TRY(describe_start(cell, made, error));
    ICL_TRY(icl_reproduce_override(made, error, "train.steps=%zu", cell->steps));
    ICL_TRY(icl_reproduce_override(made, error, "train.batch=%zu", cell->batch));
    ICL_TRY(icl_reproduce_override(made, error, "train.learning_rate=%.9g", cell->learning_rate));
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, run->params->seed));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

static icl_status read_snapshots(icl_reproducing *run, const icl_window_cell *cell, const icl_model *model,
                                 double along[ICL_WINDOW_SNAPSHOTS][ICL_WINDOW_MOST_ELEMENTS], icl_error *error) {
    char name[ICL_WINDOW_NAME], *folder = NULL;
    float values[ICL_WINDOW_MOST_ELEMENTS];
    icl_status status = ICL_OK;

    icl_window_folder(cell, name);
    ICL_TRY(icl_path_join(run->params->folder, name, &folder, error));
    for (size_t i = 0; i < ICL_WINDOW_SNAPSHOTS; i++) {
        ICL_TRY(icl_run_read_snapshot(folder, (i + 1) * (cell->steps / ICL_WINDOW_SNAPSHOTS), model, values, error));
        ICL_TRY(icl_matrix_of_model(model, values, "M", cell->d, cell->d, along[i], error));
    }
done:
    icl_free(&folder);
    return status;
}

icl_status icl_window_learn(icl_reproducing *run, const icl_window_cell *cell, double *M,
                            double along[ICL_WINDOW_SNAPSHOTS][ICL_WINDOW_MOST_ELEMENTS], icl_error *error) {
    char folder[ICL_WINDOW_NAME];
    float values[ICL_WINDOW_MOST_ELEMENTS];
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    assert(cell->d * cell->d <= ICL_WINDOW_MOST_ELEMENTS);
    icl_window_folder(cell, folder);
    ICL_TRY(icl_window_recipe(run, cell, &recipe, error));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_matrix_of_model(icl_trainer_model(trainer), values, "M", cell->d, cell->d, M, error));
    if (along)
        ICL_TRY(read_snapshots(run, cell, icl_trainer_model(trainer), along, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Measuring ---- */

/* Against the best window, which is searched for on sequences of its own. */
static icl_status measure(icl_reproducing *run, const icl_recipe *recipe, size_t sequences, icl_window_trained *trained,
                          icl_error *error) {
    const size_t d = (size_t)icl_recipe_count(recipe, "task", "d");
    const uint32_t seed = run->params->seed;
    icl_window_set fitting = {0}, fresh = {0};
    double scaled[ICL_WINDOW_MOST_ELEMENTS] = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_window_draw(run->params->backend, recipe, ICL_FOR_FITTING, seed, sequences, &fitting, error));
    ICL_TRY(icl_window_draw(run->params->backend, recipe, ICL_FOR_EVALUATION, seed, sequences, &fresh, error));
    trained->best = icl_window_search(&fitting, NULL);
    trained->of_mean = icl_window_measure(&fresh, scaled, true);
    for (size_t i = 0; i < d; i++)
        scaled[i * d + i] = trained->best;
    trained->beside_best = icl_window_compare(&fresh, trained->M, true, scaled, true);
done:
    icl_window_release(&fitting);
    icl_window_release(&fresh);
    return status;
}

icl_status icl_window_train(icl_reproducing *run, const icl_window_cell *cell, size_t sequences,
                            icl_window_trained *trained, icl_error *error) {
    icl_recipe *recipe = NULL;
    double smallest;
    icl_status status = ICL_OK;

    ICL_TRY(icl_window_learn(run, cell, trained->M, NULL, error));
    ICL_TRY(icl_singular_extremes(trained->M, cell->d, cell->d, &smallest, &trained->spectral_norm, error));
    trained->distance = icl_matrix_distance(trained->M, cell->d);
    ICL_TRY(icl_window_recipe(run, cell, &recipe, error));
    ICL_TRY(measure(run, recipe, sequences, trained, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Judging ---- */

/* The other search knows the best w to one step of its grid: 1 / .85 = 1.18. */
static icl_status judge_optimum(icl_reproducing *run, const char *name, const icl_window_trained *trained,
                                double printed, icl_error *error) {
    return ICL_FOUND(run, error, .what = name, .quantity = "best w", .ours = trained->best, .target = printed,
                     .tolerance = .18 * printed, .evidence = ICL_COMPUTED,
                     .source = "independent search on a grid of 15 %");
}

icl_status icl_window_judge(icl_reproducing *run, const icl_window_cell *cell, const icl_window_trained *trained,
                            double tolerance, double printed, icl_error *error) {
    char name[ICL_WINDOW_NAME], note[160];

    icl_window_name(cell, name);
    if (printed > 0)
        ICL_CHECK(judge_optimum(run, name, trained, printed, error));
    icl_print(note, sizeof note, "averages over %.3g of %zu labels, within %.3g of the query",
              trained->beside_best.of.neighbours, cell->n, trained->beside_best.of.reach);
    ICL_CHECK(ICL_FOUND(run, error, .what = name, .quantity = "spectral norm of M", .ours = trained->spectral_norm,
                        .target = trained->best, .tolerance = tolerance * trained->best, .evidence = ICL_COMPUTED,
                        .source = "best w I, searched for here", .note = note));
    icl_print(note, sizeof note, "loss %.4g, of the best window %.4g, of the mean label %.4g",
              trained->beside_best.of.loss, trained->beside_best.to.loss, trained->of_mean.loss);
    ICL_CHECK(ICL_FOUND(run, error, .what = name, .quantity = "loss / best window's",
                        .ours = trained->beside_best.ratio, .standard_error = trained->beside_best.standard_error,
                        .target = 1, .tolerance = .02, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                        .source = "best w I, searched for here", .note = note));
    return ICL_FOUND(run, error, .what = name, .quantity = "Dist(M, I)", .ours = trained->distance, .target = 0,
                     .tolerance = tolerance, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                     .source = "authors' reply: optimal M are w I");
}

icl_status icl_window_judge_order(icl_reproducing *run, const char *what, size_t count, const double *norms,
                                  icl_error *error) {
    double least = HUGE_VAL;

    if (count < 2)
        return ICL_OK;
    for (size_t i = 1; i < count; i++)
        least = fmin(least, norms[i] / norms[i - 1]);
    return ICL_FOUND(run, error, .what = what, .quantity = "least ratio of neighbours", .ours = least, .target = 1,
                     .criterion = ICL_AT_LEAST, .evidence = ICL_READ, .source = "figure 3, authors' reply");
}
