/*
 * Looped linear attention compared with the exact optimum: Gatmiry, Saunshi, Reddi, Jegelka, Kumar 2024, "Can Looped
 * Transformers Learn to Implement Multi-step Gradient Descent for In-context Learning?" (arXiv 2410.08292).
 *
 * One layer applied L times is L steps of gradient descent with one preconditioner A, near the inverse of the inputs'
 * covariance with a deviation for finite n; L free layers have one each. Here the covariance is I and A = -a I. The
 * paper prints no numbers, and its d, n are not known: optima are computed exactly, for tied and free layers. The
 * paper's layer also has a vector u, which is 0 at the optimum and here by construction.
 *
 * Multiples of the identity need not be the optimum of loops. If the expected loss curves down along antisymmetric A
 * (measures.h), as for two loops with many pairs and four with d = 5, n = 20, training leaves them and ends below their
 * loss: then a looped layer must reach the exact loss or less. The curvature tells, without training, which cells these
 * are. The deviation vanishes for large n, so that A still approaches the inverse covariance.
 *
 * Looped more often than trained, the layer is a longer descent with the same a, whose loss is a polynomial's
 * expectation: known, and not bound to fall.
 */
#include <math.h>

#include "papers/papers.h"

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

/* Longer contexts for LOOPED_LAYERS loops: A approaches the inverse covariance. */
static const size_t longer[] = {40, 80, 160};
enum { LONGER = sizeof longer / sizeof *longer };

static const struct {
    size_t sizes, layers, contexts; /* number of sizes; most layers; number of contexts */
    icl_descent_budget training;
    size_t spectra;
    double tolerance; /* relative tolerance of losses and step lengths */
} budgets[ICL_SCALES] = {{1, 3, 2, {300, 1000, 50000}, 20000, .05},
                         {SIZES, 4, LONGER, {1500, 5000, 1000000}, 100000, .02},
                         {SIZES, 4, LONGER, {1500, 5000, 1000000}, 100000, .02}};

/* ---- More loops than trained ---- */

/* The layer is applied to these inputs: with `variance` times the identity, steps are `variance` times as long as on
 * whitened inputs, and so is the loss of a query of that variance. */
static const struct {
    const char *name, *settings;
    size_t n;
    double variance;
    size_t judged[7]; /* numbers of loops, ended by 0 */
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

/* ---- Cells ---- */

/* Adds the trained layer with more loops: untrained cells, at = {loops, shift, whether it is judged}. */
static void add_loops(icl_study *study, const icl_study_cell *trained) {
    for (size_t shift = 0; shift < SHIFTS; shift++)
        for (size_t loops = 1, next = 0; loops <= MOST_LOOPS; loops++) {
            const bool is_judged = loops == shifts[shift].judged[next];
            const icl_study_cell *cell =
                ICL_ADD_CELL(study, .name = ICL_PHRASE("%zu loops of %d, %s", loops, LOOPED_LAYERS, shifts[shift].name),
                             .group = trained->name, .data = trained, .at = {loops, shift, is_judged},
                             .curve = shifts[shift].name, .x = (double)loops);
            icl_study_need(study, cell, trained);
            next += is_judged;
        }
}

static void add_layers(icl_study *study, size_t d, size_t n, size_t layers, bool is_tied, const char *curve, double x) {
    const icl_descent_problem problem = {.dimension = d, .context = n, .steps = layers, .is_tied = is_tied};
    const icl_study_cell *cell = icl_study_add_descent(study, &problem, &budgets[study->scale].training, curve, x);

    if (cell && is_tied && d == LOOPED_D && n == LOOPED_N && layers == LOOPED_LAYERS)
        add_loops(study, cell);
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < SIZES && i < budgets[study->scale].sizes; i++)
        for (int is_tied = 0; is_tied < 2; is_tied++)
            for (size_t layers = 1; layers <= budgets[study->scale].layers; layers++)
                add_layers(study, sizes[i].d, sizes[i].n, layers, is_tied == 1, is_tied ? "looped" : "untied",
                           (double)layers);
    for (size_t i = 0; i < LONGER && i < budgets[study->scale].contexts; i++)
        add_layers(study, LOOPED_D, longer[i], LOOPED_LAYERS, true, "learned", (double)longer[i]);
}

/* ---- Numbers ---- */

/* For trained layers, the curvature of the expected loss along antisymmetric A; for more loops, whether their loss is a
 * mean. */
enum { CURVATURE = ICL_DESCENT_NUMBERS, IS_MEAN, NUMBERS };

/* Measures the loss with more loops. For few loops it is the mean, if its standard error is below a hundredth. For many
 * loops the tail is so heavy that a million sequences determine neither the mean nor its standard error; the exact loss
 * of the optimum's layer and the difference to it scatter far less. */
static icl_status measure_loops(icl_study *study, const icl_study_cell *cell, icl_number *numbers, icl_error *error) {
    const icl_study_cell *layer = cell->data;
    const icl_descent_problem problem = icl_study_descent(layer);
    const size_t loops = cell->at[0], shift = cell->at[1];
    float values[LOOPED_D * LOOPED_D], optimum[LOOPED_D * LOOPED_D];
    const float *const vectors[] = {optimum, values};
    icl_paired_loss losses[2];
    icl_trainer *trained = NULL;
    double best[LOOPED_LAYERS], exact;

    ICL_CHECK(icl_study_trained(study, layer, &trained, error));
    ICL_CHECK(icl_trainer_get_parameters(trained, values, error));
    ICL_CHECK(icl_descent_optimum(&problem, best, NULL, error));
    ICL_CHECK(exact_loss(shift, best[0], loops, &exact, error));
    for (size_t i = 0; i < LOOPED_D * LOOPED_D; i++)
        optimum[i] = i % (LOOPED_D + 1) == 0 ? (float)-best[0] : 0;
    ICL_CHECK(icl_reproduce_losses_as(study->run, layer->complete,
                                      ICL_PHRASE("model.layers=%zu %s", loops, shifts[shift].settings),
                                      budgets[study->scale].training.sequences, 2, vectors, losses, error));
    const bool is_mean = loops <= MOST_MEASURED && losses[1].se < .01 * exact;
    numbers[IS_MEAN].value = is_mean;
    numbers[ICL_DESCENT_LOSS] = is_mean ? (icl_number){losses[1].mse, losses[1].se}
                                        : (icl_number){exact + losses[1].excess, losses[1].excess_se};
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_descent_problem problem = icl_study_descent(cell);
    icl_number *const curvature = &numbers[CURVATURE];
    double best[ICL_DESCENT_MOST_STEPS];

    if (!trained)
        return measure_loops(study, cell, numbers, error);
    ICL_CHECK(
        icl_study_measure_descent(study, cell, trained, budgets[study->scale].training.sequences, numbers, error));
    if (!problem.is_tied || problem.steps == 1)
        return ICL_OK;
    ICL_CHECK(icl_descent_optimum(&problem, best, NULL, error));
    return icl_looped_skew_curvature(&problem, best[0], study->run->params->seed, budgets[study->scale].spectra,
                                     &curvature->value, &curvature->standard_error, error);
}

/* ---- Judging ---- */

static double loss_of_loops(const icl_study *study, const icl_study_cell *cell, double length) {
    double loss = (double)NAN;

    ICL_STUDY_CALL(study, exact_loss, cell->at[1], length, cell->at[0], &loss);
    return loss;
}

static void judge_loops(icl_study *study, const icl_study_cell *cell) {
    const icl_study_cell *layer = cell->data;
    const icl_number ours = cell->numbers[ICL_DESCENT_LOSS];
    const double exact = loss_of_loops(study, cell, icl_study_best_descent(study, layer).lengths[0]);

    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(ours), .target = exact,
              .tolerance = budgets[study->scale].tolerance * exact + 4 * ours.standard_error, .evidence = ICL_COMPUTED,
              .source = "as many steps of the optimum's a",
              .note = ICL_PHRASE("%s; of the learned a alone %.4g",
                                 cell->numbers[IS_MEAN].value > 0 ? "measured" : "the target and the difference to it",
                                 loss_of_loops(study, cell, layer->numbers[ICL_DESCENT_LENGTHS].value)));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_descent_problem problem = icl_study_descent(cell);
    const icl_number curvature = cell->numbers[CURVATURE], length = cell->numbers[ICL_DESCENT_LENGTHS];
    const double tolerance = budgets[study->scale].tolerance;
    const bool can_turn = problem.is_tied && problem.steps > 1;
    const bool is_minimum = !can_turn || curvature.value > -4 * curvature.standard_error;

    if (cell->data) {
        if (cell->at[2] > 0)
            judge_loops(study, cell);
        return;
    }
    if (can_turn)
        ICL_JUDGE(study, .quantity = "curvature, antisymmetric A", ICL_OURS(curvature),
                  .note = is_minimum ? "a I is a minimum" : "a I is a saddle: the exact loss is a bound alone");
    icl_study_judge_descent(study, cell, tolerance, is_minimum ? ICL_WITHIN : ICL_AT_MOST);
    if (!problem.is_tied)
        return;
    const double best = icl_study_best_descent(study, cell).lengths[0];
    ICL_JUDGE(study, .quantity = "a of A = -a I", ICL_OURS(length), .target = best, .tolerance = tolerance * best,
              .evidence = is_minimum ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "exact optimum",
              .note = ICL_PHRASE("Dist(A, I) %.4f%s", cell->numbers[ICL_DESCENT_DISTANCE].value,
                                 is_minimum ? "" : "; of a saddle"));
}

/* Longer contexts bring the layer nearer to the inverse covariance. */
static void conclude(icl_study *study) {
    for (size_t i = 1; i < LONGER; i++) {
        const icl_study_cell *longer_cell, *cell;
        cell = icl_study_find(study, ICL_PHRASE("tied-d%d-n%zu-L%d", LOOPED_D, longer[i - 1], LOOPED_LAYERS));
        longer_cell = icl_study_find(study, ICL_PHRASE("tied-d%d-n%zu-L%d", LOOPED_D, longer[i], LOOPED_LAYERS));
        if (cell && longer_cell && cell->is_measured && longer_cell->is_measured)
            ICL_JUDGE(study, .what = ICL_PHRASE("n = %zu beside %zu", longer[i], longer[i - 1]),
                      .quantity = "distance of -A to the inverse covariance",
                      ICL_OURS(longer_cell->numbers[ICL_DESCENT_TO_INVERSE]),
                      .target = cell->numbers[ICL_DESCENT_TO_INVERSE].value, .criterion = ICL_AT_MOST,
                      .evidence = ICL_STATED, .source = "figure: A approaches theory");
    }
}

/* ---- Figures ---- */

static double least_loss(const icl_study *study, const icl_study_cell *cell) {
    return icl_study_best_descent(study, cell).loss;
}

static double least_distance(const icl_study *study, const icl_study_cell *cell) {
    return 1 - icl_study_best_descent(study, cell).lengths[0];
}

static double exact_loss_of_loops(const icl_study *study, const icl_study_cell *cell) {
    return loss_of_loops(study, cell, icl_study_best_descent(study, cell->data).lengths[0]);
}

#define LOSS_FIGURE(size, text)                                                                                        \
    {                                                                                                                  \
        .figure = {"loss-against-depth" size, "Linear attention, looped and not, " text, "layers or loops",            \
                   "squared error", .log_y = true},                                                                    \
        .only = size "-", .number = ICL_DESCENT_LOSS, .expected = least_loss, .expected_label = "exact for a I"        \
    }

static const icl_study_figure_row figures[] = {
    LOSS_FIGURE("-d5-n20", "d = 5, n = 20"),
    LOSS_FIGURE("-d5-n10", "d = 5, n = 10"),
    LOSS_FIGURE("-d10-n20", "d = 10, n = 20"),
    {.figure = {"loss-against-loops", "Two loops trained, applied again and again, d = 5, n = 20", "loops",
                "squared error", .log_y = true},
     .only = "loops",
     .number = ICL_DESCENT_LOSS,
     .expected = exact_loss_of_loops,
     .expected_label = "exact"},
    {.figure = {"distance-against-context", "Two loops: how far -A is from the inverse covariance, d = 5",
                "pairs in the context", "||A + I|| / ||I||", .log_x = true, .log_y = true},
     .curve = "learned",
     .number = ICL_DESCENT_TO_INVERSE,
     .expected = least_distance,
     .expected_label = "best multiple of the identity"},
};

const icl_reproduction icl_looped_exact =
    ICL_STUDY(.name = "looped-exact", .source = "arXiv 2410.08292, figures",
              .about = "a looped layer and free ones beside exact optima, and more loops than were trained",
              .claim = "A layer of linear attention trained in loops is as many steps of gradient descent with one "
                       "preconditioner.",
              .scope = "A met table means that looped and untied layers reach the exact optima of at most four "
                       "steps on white inputs; other covariances and loops within larger models were not tested.",
              .cost = {"4 s", "3 min", NULL}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude, ICL_FIGURES(figures));
