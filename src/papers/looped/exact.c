/*
 * Looped linear attention beside the exact optimum: Gatmiry, Saunshi, Reddi, Jegelka, Kumar 2024, "Can Looped
 * Transformers Learn to Implement Multi-step Gradient Descent for In-context Learning?" (arXiv 2410.08292).
 *
 * One layer applied L times is L steps of gradient descent with one preconditioner A, near the inverse of the inputs'
 * covariance with a deviation for finite n; L free layers have one each. Here the covariance is I and A = -a I. The
 * paper prints no numbers, and its d, n are not known: optima are computed exactly, for tied and free layers. It also
 * has a vector u, which is 0 at the optimum and here by construction.
 *
 * Multiples of the identity need not be the optimum of loops. Where the expected loss curves down along antisymmetric A
 * (looped/skew.h), as for two loops with many pairs and four with d = 5, n = 20, training leaves them, and ends below:
 * there the exact loss is what a looped layer has to reach at least. The curvature tells, without training, which cells
 * these are. The deviation ends with n, so that A still approaches the inverse covariance.
 *
 * Looped more often than trained, the layer is a longer descent with the same a, whose loss is a polynomial's
 * expectation: known, and not bound to fall.
 */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/looped/skew.h"
#include "papers/losses.h"
#include "papers/papers.h"
#include "papers/trained_descent.h"

enum {
    MOST_LAYERS = 4,
    MOST_LOOPS = ICL_DESCENT_MOST_STEPS,
    LOOPED_D = 5,
    LOOPED_N = 20,
    LOOPED_LAYERS = 2,
    MOST_MEASURED = 4
};

static const struct { size_t d, n; } sizes[] = {{5, 20}, {5, 10}, {10, 20}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Longer contexts for LOOPED_LAYERS loops: A goes to the inverse covariance. */
static const size_t longer[] = {40, 80, 160};
enum { LONGER = sizeof longer / sizeof *longer };

static const struct {
    size_t sizes, layers, contexts; /* the first so many; at most; the first so many */
    size_t stage, last, sequences, spectra;
    double tolerance; /* of losses and step lengths, relative */
} budgets[ICL_SCALES] = {{1, 3, 2, 300, 1000, 50000, 20000, .05},
                         {SIZES, 4, LONGER, 1500, 5000, 1000000, 100000, .02},
                         {SIZES, 4, LONGER, 1500, 5000, 1000000, 100000, .02}};

/* ---- Losses by depth ---- */

/* Whether multiples of the identity are a minimum, for loops that could do better with a turn (looped/skew.h); a row
 * says so. */
static icl_status judge_curvature(icl_reproducing *run, const icl_descent_training *training,
                                  const icl_trained_descent *trained, bool *is_minimum, icl_error *error) {
    char name[ICL_TRAINED_DESCENT_NAME];
    double curvature, standard_error;

    icl_descent_training_name(training, name);
    ICL_CHECK(icl_looped_skew_curvature(&training->problem, trained->best[0], run->params->seed,
                                        budgets[run->params->scale].spectra, &curvature, &standard_error, error));
    *is_minimum = curvature > -4 * standard_error;
    return ICL_FOUND(run, error, .what = name, .quantity = "curvature, antisymmetric A", .ours = curvature,
                     .standard_error = standard_error,
                     .note = *is_minimum ? "a I is a minimum" : "a I is a saddle: the exact loss is a bound alone");
}

static icl_status judge_length(icl_reproducing *run, const icl_descent_training *training,
                               const icl_trained_descent *trained, bool is_minimum, icl_error *error) {
    char name[ICL_TRAINED_DESCENT_NAME], note[64];

    icl_descent_training_name(training, name);
    icl_print(note, sizeof note, "Dist(A, I) %.4f%s", trained->distance, is_minimum ? "" : "; of a saddle");
    return ICL_FOUND(run, error, .what = name, .quantity = "a of A = -a I", .ours = trained->lengths[0],
                     .target = trained->best[0], .tolerance = budgets[run->params->scale].tolerance * trained->best[0],
                     .evidence = is_minimum ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "exact optimum",
                     .note = note);
}

static icl_status judge(icl_reproducing *run, const icl_descent_training *training, const icl_trained_descent *trained,
                        icl_error *error) {
    bool is_minimum = true;

    if (training->problem.is_tied && training->problem.steps > 1)
        ICL_CHECK(judge_curvature(run, training, trained, &is_minimum, error));
    ICL_CHECK(icl_judge_descent(run, training, trained, budgets[run->params->scale].tolerance,
                                is_minimum ? ICL_WITHIN : ICL_AT_MOST, error));
    return training->problem.is_tied ? judge_length(run, training, trained, is_minimum, error) : ICL_OK;
}

/* ---- More loops than trained ---- */

/* What the layer is applied to: inputs of `variance` times the identity are steps of `variance` times the length on
 * whitened ones, and the loss of a query of that variance. */
static const struct {
    const char *name, *overrides;
    size_t n;
    double variance;
    size_t judged[7]; /* numbers of loops, up to 0 */
} shifts[] = {
    {"as trained", "", LOOPED_N, 1, {3, 4, 5, 6, 7, 8, 0}},
    {"n = 40", "task.n=40", 40, 1, {2, 4, 8, 0}},
    {"half the variance", "task.covariance=spectrum:.5,.5,.5,.5,.5", LOOPED_N, .5, {2, 4, 8, 0}},
};
enum { SHIFTS = sizeof shifts / sizeof *shifts };

static icl_status exact_loss(size_t shift, double length, size_t loops, double *loss, icl_error *error) {
    const icl_descent_problem problem = {.dimension = LOOPED_D, .context = shifts[shift].n, .steps = loops};
    double lengths[MOST_LOOPS];

    for (size_t k = 0; k < loops; k++)
        lengths[k] = shifts[shift].variance * length;
    ICL_CHECK(icl_descent_loss(&problem, lengths, loss, error));
    *loss *= shifts[shift].variance;
    return ICL_OK;
}

typedef struct looped {
    size_t shift, loops;
    icl_paired_loss loss;
    double exact;      /* of the optimum's a */
    double of_lengths; /* of the learned a */
    bool is_measured;  /* or the exact loss and the difference to the optimum's layer, sequence by sequence */
} looped;

/* The mean of few loops, where its standard error is below a hundredth. Of many loops it has so heavy a tail that a
 * million sequences tell neither it nor its standard error, and the difference to the optimum's layer scatters far
 * less. */
static icl_status measure_loops(icl_reproducing *run, const icl_trained_descent *trained, const float *const vectors[2],
                                looped *is, icl_error *error) {
    char overrides[96];
    icl_paired_loss losses[2];

    snprintf(overrides, sizeof overrides, "model.layers=%zu %s", is->loops, shifts[is->shift].overrides);
    ICL_CHECK(icl_reproduce_losses_as(run, trained->recipe, overrides, budgets[run->params->scale].sequences, 2,
                                      vectors, losses, error));
    ICL_CHECK(exact_loss(is->shift, trained->best[0], is->loops, &is->exact, error));
    ICL_CHECK(exact_loss(is->shift, trained->lengths[0], is->loops, &is->of_lengths, error));
    is->loss = losses[1];
    is->is_measured = is->loops <= MOST_MEASURED && is->loss.se < .01 * is->exact;
    if (!is->is_measured)
        is->loss = (icl_paired_loss){.mse = is->exact + losses[1].excess, .se = losses[1].excess_se};
    return ICL_OK;
}

static icl_status judge_loops(icl_reproducing *run, const looped *is, icl_error *error) {
    char what[64], note[96];

    snprintf(what, sizeof what, "%zu loops of %d, %s", is->loops, LOOPED_LAYERS, shifts[is->shift].name);
    icl_print(note, sizeof note, "%s; of the learned a alone %.4g",
              is->is_measured ? "measured" : "the target and the difference to it", is->of_lengths);
    return ICL_FOUND(run, error, .what = what, .quantity = "squared error", .ours = is->loss.mse,
                     .standard_error = is->loss.se, .target = is->exact,
                     .tolerance = budgets[run->params->scale].tolerance * is->exact + 4 * is->loss.se,
                     .evidence = ICL_COMPUTED, .source = "as many steps of the optimum's a", .note = note);
}

static icl_status loop_shift(icl_reproducing *run, size_t shift, const icl_trained_descent *trained,
                             const float *const vectors[2], icl_curves *curves, icl_error *error) {
    char label[64];

    snprintf(label, sizeof label, "%s, exact", shifts[shift].name);
    for (size_t loops = 1, next = 0; loops <= MOST_LOOPS; loops++) {
        looped is = {.shift = shift, .loops = loops};
        ICL_CHECK(measure_loops(run, trained, vectors, &is, error));
        ICL_CHECK(icl_curves_add(curves, shifts[shift].name, ICL_SERIES_OURS, (double)loops, is.loss.mse, error));
        ICL_CHECK(icl_curves_add(curves, label, ICL_SERIES_PUBLISHED, (double)loops, is.exact, error));
        if (loops != shifts[shift].judged[next])
            continue;
        ICL_CHECK(judge_loops(run, &is, error));
        next++;
    }
    return ICL_OK;
}

static icl_status loop_more(icl_reproducing *run, const icl_trained_descent *trained, icl_error *error) {
    icl_curves curves = {.figure = {.name = "loss-against-loops",
                                    .title = "Two loops trained, applied again and again, d = 5, n = 20",
                                    .x_label = "loops",
                                    .y_label = "squared error",
                                    .log_y = true}};
    float values[LOOPED_D * LOOPED_D], optimum[LOOPED_D * LOOPED_D];
    const float *const vectors[] = {optimum, values};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < LOOPED_D * LOOPED_D; i++)
        optimum[i] = i % (LOOPED_D + 1) == 0 ? (float)-trained->best[0] : 0;
    ICL_TRY(icl_trainer_get_parameters(trained->trainer, values, error));
    for (size_t shift = 0; shift < SHIFTS; shift++)
        ICL_TRY(loop_shift(run, shift, trained, vectors, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

/* ---- Cells ---- */

/* What a figure needs; NaN where the cell was not asked for. */
typedef struct cell_result {
    double loss, to_inverse;
} cell_result;

static const cell_result nothing = {(double)NAN, (double)NAN};

static icl_status reproduce_cell(icl_reproducing *run, const icl_descent_problem *problem, cell_result *result,
                                 icl_error *error) {
    const icl_descent_training training = {.problem = *problem,
                                           .stage = budgets[run->params->scale].stage,
                                           .last = budgets[run->params->scale].last,
                                           .sequences = budgets[run->params->scale].sequences};
    icl_trained_descent trained = {.recipe = NULL};
    icl_status status = ICL_OK;

    if (!icl_descent_training_wanted(run, &training))
        return ICL_OK;
    ICL_TRY(icl_train_descent(run, &training, &trained, error));
    *result = (cell_result){trained.loss, trained.to_inverse};
    ICL_TRY(judge(run, &training, &trained, error));
    if (problem->is_tied && problem->dimension == LOOPED_D && problem->context == LOOPED_N &&
        problem->steps == LOOPED_LAYERS)
        ICL_TRY(loop_more(run, &trained, error));
done:
    icl_trained_descent_release(&trained);
    return status;
}

static icl_status reproduce_size(icl_reproducing *run, size_t d, size_t n, icl_error *error) {
    static const char *const labels[2][2] = {{"untied", "untied, exact"}, {"looped", "looped, exact for a I"}};
    char name[64], title[128];
    icl_curves curves = {
        .figure = {
            .name = name, .title = title, .x_label = "layers or loops", .y_label = "squared error", .log_y = true}};
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "loss-against-depth-d%zu-n%zu", d, n);
    snprintf(title, sizeof title, "Linear attention, looped and not, d = %zu, n = %zu", d, n);
    for (int is_tied = 0; is_tied < 2; is_tied++)
        for (size_t layers = 1; layers <= budgets[run->params->scale].layers; layers++) {
            const icl_descent_problem problem = {
                .dimension = d, .context = n, .steps = layers, .is_tied = is_tied == 1};
            cell_result result = nothing;
            double least;
            ICL_TRY(icl_reproduce_next(run, reproduce_cell(run, &problem, &result, error)));
            ICL_TRY(icl_descent_optimum(&problem, NULL, &least, error));
            ICL_TRY(icl_curves_add(&curves, labels[is_tied][0], ICL_SERIES_OURS, (double)layers, result.loss, error));
            ICL_TRY(icl_curves_add(&curves, labels[is_tied][1], ICL_SERIES_PUBLISHED, (double)layers, least, error));
        }
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

/* ---- Longer contexts ---- */

static icl_status reproduce_context(icl_reproducing *run, size_t i, double *previous, icl_curves *curves,
                                    icl_error *error) {
    const icl_descent_problem problem = {
        .dimension = LOOPED_D, .context = longer[i], .steps = LOOPED_LAYERS, .is_tied = true};
    double least, length[LOOPED_LAYERS];
    cell_result result = nothing;
    char what[32];

    ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &problem, &result, error)));
    ICL_CHECK(icl_descent_optimum(&problem, length, &least, error));
    ICL_CHECK(icl_curves_add(curves, "learned", ICL_SERIES_OURS, (double)longer[i], result.to_inverse, error));
    ICL_CHECK(icl_curves_add(curves, "best multiple of the identity", ICL_SERIES_PUBLISHED, (double)longer[i],
                             1 - length[0], error));
    if (i > 0 && !isnan(*previous) && !isnan(result.to_inverse)) {
        snprintf(what, sizeof what, "n = %zu beside %zu", longer[i], longer[i - 1]);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "distance of -A to the inverse covariance",
                            .ours = result.to_inverse, .target = *previous, .criterion = ICL_AT_MOST,
                            .evidence = ICL_READ, .source = "figure: A approaches theory"));
    }
    *previous = result.to_inverse;
    return ICL_OK;
}

static icl_status reproduce_contexts(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "distance-against-context",
                                    .title = "Two loops: how far -A is from the inverse covariance, d = 5",
                                    .x_label = "pairs in the context",
                                    .y_label = "||A + I|| / ||I||",
                                    .log_x = true,
                                    .log_y = true}};
    double previous = (double)NAN;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < LONGER && i < budgets[run->params->scale].contexts; i++)
        ICL_TRY(reproduce_context(run, i, &previous, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < SIZES && i < budgets[run->params->scale].sizes; i++)
        ICL_CHECK(reproduce_size(run, sizes[i].d, sizes[i].n, error));
    return reproduce_contexts(run, error);
}

const icl_reproduction icl_looped_exact = {
    .name = "looped-exact",
    .source = "arXiv 2410.08292, figures",
    .about = "a looped layer and free ones beside exact optima, and more loops than were trained",
    .cost = {"4 s", "3 min", NULL},
    .is_shared = true,
    .run = reproduce,
};
