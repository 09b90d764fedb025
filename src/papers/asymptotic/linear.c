/*
 * One layer of linear attention learns in context from enough sequences of enough tasks: Lu et al. 2025
 * (asymptotic.h). The layer is ridgeless regression, so that the study draws sequences and solves; where it trains,
 * gradient descent must end at the same errors. n sequences stand for tau = n / (d (d + 1)), which is n / d^2 in the
 * limit and puts the peak at tau = 1 for every d. The errors are exact for each solution; only sequences and tasks are
 * random.
 *
 * The limit follows from that of linear regression with correlated features (Hastie, Montanari, Rosset, Tibshirani
 * 2022, "Surprises in high-dimensional ridgeless least squares interpolation", Annals of Statistics 50). To leading
 * order v has second moments S = R + x I, x = (1 + rho) / alpha, on the training's tasks, and (1 + x) I on fresh ones;
 * the best Gamma is R S^-1. n sequences act as a ridge s, 0 if they are more than the features, else by
 * 1/d tr S (S + s)^-1 = tau, and as noise of the size of the training tasks' own error e:
 *
 *     Gamma ~ R (S + s)^-1 with variance e / tau S (S + s)^-2,
 *     idg = e = 1 + rho - 2/d tr R^2 (S + s)^-1 + 1/d tr R^2 S (S + s)^-2 + e / tau 1/d tr S^2 (S + s)^-2,
 *     icl = 1 + rho - 2/d tr R (S + s)^-1 + (1 + x) (1/d tr R^2 (S + s)^-2 + e / tau 1/d tr S (S + s)^-2).
 *
 * With z = x + s all traces are polynomials in m = 1/d tr (R + z)^-1 and m' = -1/d tr (R + z)^-2. Marchenko and
 * Pastur's equation z m^2 / kappa + (z + 1 - 1 / kappa) m = 1, into which s m = 1 - tau is put, gives s = (1 - tau) /
 * (tau M), where M is the m(x) of kappa / tau. The result is the paper's Result 1, to rounding (tests/papers).
 */
#include <math.h>

#include "numeric/statistics.h"
#include "papers/asymptotic/asymptotic.h"
#include "papers/papers.h"

#define NOISE 0.01

/* Numbers of a cell: means over runs of the errors of least squares, and of the layer that was trained on the same
 * sequences. */
enum { ICL = 0, IDG, TRAINED_ICL, TRAINED_IDG, NUMBERS };

enum { MOST_RUNS = 256, STEPS = 1000 }; /* at most, of a cell; of gradient descent */

typedef enum sweep_part { BY_SEQUENCES = 0, BY_TASKS, TRAINED, PUBLISHED } sweep_part;

/* Points of one d and alpha: each tau with each kappa. Lists end with 0. */
typedef struct sweep {
    sweep_part part;
    icl_scale first, last; /* the scales that have it */
    size_t d, runs;
    double alpha, taus[12], kappas[10];
} sweep;

#define TAUS      .1, .2, .35, .5, .75, .9, 1, 1.1, 1.25, 1.5, 2
#define CI_TAUS   .2, .5, .9, 1, 1.1, 1.5, 2
#define KAPPAS    .2, .4, .6, .8, 1, 1.2, 1.5, 2, 4
#define CI_KAPPAS .5, 1.5, 2

/* A sweep at twice another's d stands behind it. Sequences that are trained on have a sweep without training that they
 * are compared with. */
static const sweep sweeps[] = {
    {BY_SEQUENCES, ICL_SCALE_CI, ICL_SCALE_CI, 10, 32, 10, {CI_TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_CI, ICL_SCALE_CI, 20, 12, 10, {CI_TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 32, 10, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 40, 8, 10, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 32, 100, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 40, 8, 100, {TAUS}, {.5}},
    {BY_TASKS, ICL_SCALE_CI, ICL_SCALE_CI, 6, 256, 100, {10}, {CI_KAPPAS}},
    {BY_TASKS, ICL_SCALE_CI, ICL_SCALE_CI, 12, 128, 100, {10}, {CI_KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 10, 64, 10, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 16, 10, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 10, 64, 100, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 16, 100, {10}, {KAPPAS}},
    {TRAINED, ICL_SCALE_CI, ICL_SCALE_CI, 10, 4, 10, {.5, 2}, {.5}},
    {TRAINED, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 4, 10, {.2, .5, 2}, {.5}},
    {PUBLISHED, ICL_SCALE_FULL, ICL_SCALE_FULL, 100, 4, 10, {.2, .5, .85}, {.5}},
    {PUBLISHED, ICL_SCALE_FULL, ICL_SCALE_FULL, 100, 4, 100, {.2, .5, .85}, {.5}},
};

/* The authors' means and standard deviations of 10 runs, n = tau d^2: outputs/pnasA10_41350342.out and
 * pnasA100_41350343.out in Linear/Fig1_Linear_Double_Descent. */
static const struct {
    double alpha, tau;
    icl_layer_errors mean, deviation;
} published[] = {
    {10, .2, {.86685, .55308}, {.00519, .00978}},   {10, .5, {.83212, .25244}, {.00738, .00673}},
    {10, .85, {2.20048, .41897}, {.06253, .01573}}, {100, .2, {.81944, .49987}, {.00539, .01556}},
    {100, .5, {.70666, .12241}, {.00611, .00500}},  {100, .85, {3.95978, .11622}, {.19281, .00416}},
};

enum { PUBLISHED_RUNS = 10 };

/* ---- The limit ---- */

/* Returns m(z) = 1/d tr (R + z)^-1; *square, unless NULL, receives 1/d tr (R + z)^-2. */
static double resolvent(double kappa, double z, double *square) {
    const double c = 1 / kappa, linear = z + 1 - c, root = sqrt(linear * linear + 4 * z * c);
    /* Both are the positive root; each is used where nothing cancels. */
    const double m = linear < 0 ? (root - linear) / (2 * z * c) : 2 / (linear + root);

    if (square)
        *square = m * (c * m + 1) / (2 * c * z * m + linear);
    return m;
}

icl_layer_errors icl_limit_errors(const icl_limit_point *point) {
    const double tau = point->tau, rho = point->rho, x = (1 + rho) / point->alpha;
    const double s = tau < 1 ? (1 - tau) / (tau * resolvent(point->kappa / tau, x, NULL)) : 0, z = x + s;
    double m2;
    const double m = resolvent(point->kappa, z, &m2);
    const double mean = 1 - z * m, square = 1 - 2 * z * m + z * z * m2; /* 1/d tr of R / (R + z), and of its square */
    const double freedom = 1 - 2 * s * m + s * s * m2;                  /* 1/d tr S^2 / (S + s)^2 */
    icl_layer_errors errors;

    errors.idg = (rho + z * mean - s * square) / (1 - freedom / tau);
    errors.icl = 1 + rho - 2 * mean + (1 + x) * (square + errors.idg / tau * (m - s * m2));
    return errors;
}

/* ---- Cells ---- */

typedef struct point {
    const sweep *of;
    double tau, kappa;
} point;

static point point_of(const icl_study_cell *cell) {
    const sweep *of = &sweeps[cell->at[0]];
    return (point){of, of->taus[cell->at[1]], of->kappas[cell->at[2]]};
}

static const char *const part_names[] = {"sequences", "tasks", "trained", "published"};

static void plan_sweep(icl_study *study, size_t number) {
    const sweep *of = &sweeps[number];

    for (size_t t = 0; of->taus[t] > 0; t++)
        for (size_t k = 0; of->kappas[k] > 0; k++)
            ICL_ADD_CELL(study,
                         .name = ICL_PHRASE("%s-d%zu-alpha%g-kappa%g-tau%g", part_names[of->part], of->d, of->alpha,
                                            of->kappas[k], of->taus[t]),
                         .at = {number, t, k}, .curve = of->part > BY_TASKS ? NULL : ICL_PHRASE("d = %zu", of->d),
                         .x = of->part == BY_TASKS ? of->kappas[k] : of->taus[t]);
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        if (study->scale >= sweeps[i].first && study->scale <= sweeps[i].last)
            plan_sweep(study, i);
}

static icl_pretraining_size size_of(const point *at) {
    const double d = (double)at->of->d, features = at->of->part == PUBLISHED ? d * d : d * (d + 1);

    return (icl_pretraining_size){.d = at->of->d,
                                  .context = (size_t)lround(at->of->alpha * d),
                                  .tasks = (size_t)lround(at->kappa * d),
                                  .sequences = (size_t)lround(at->tau * features),
                                  .noise = NOISE};
}

static icl_layer_errors limit_of(const point *at) {
    return icl_limit_errors(&(icl_limit_point){at->tau, at->of->alpha, at->kappa, NOISE});
}

/* ---- Measuring ---- */

/* Runs that train share no numbers with those that do not. */
static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const point at = point_of(cell);
    const bool trains = at.of->part == TRAINED;
    const icl_pretraining_size size = size_of(&at);
    double values[NUMBERS][MOST_RUNS];

    (void)trained;
    for (size_t i = 0; i < at.of->runs; i++) {
        const icl_layer_run run = {.backend = study->run->params->backend,
                                   .steps = trains ? STEPS : 0,
                                   .seed = study->run->params->seed,
                                   .number = i + (trains ? MOST_RUNS : 0)};
        icl_layer_errors errors[2];
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(icl_run_layer(&run, &size, errors, error));
        values[ICL][i] = errors[0].icl;
        values[IDG][i] = errors[0].idg;
        values[TRAINED_ICL][i] = errors[1].icl;
        values[TRAINED_IDG][i] = errors[1].idg;
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        const icl_location mean = icl_locate_mean(values[i], at.of->runs);
        numbers[i] = (icl_number){mean.value, mean.standard_error};
    }
    return ICL_OK;
}

/* ---- Judging ---- */

static const char *const tests[] = {"squared error, fresh tasks", "squared error, the training's tasks"};

/* Judges both errors of a cell, or of several, against the limit. */
static void judge_limit(icl_study *study, const point *at, const char *what, const icl_number errors[2],
                        double tolerance, bool is_judged, const char *source) {
    const icl_layer_errors limit = limit_of(at);
    const double targets[] = {limit.icl, limit.idg};

    for (size_t i = 0; i < 2; i++)
        ICL_JUDGE(study, .what = what, .quantity = tests[i], ICL_OURS(errors[i]), .target = targets[i],
                  .tolerance = tolerance * targets[i] + 3 * errors[i].standard_error,
                  .evidence = is_judged ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = source,
                  .note = is_judged ? NULL : ICL_PHRASE("the limit is %.4g", targets[i]));
}

/* Returns whether finite d matters little: the authors' own runs at d = 100 are up to 8 % from the formula here, and
 * 15 % at tau = 1.15. */
static bool is_off_peak(const point *at) {
    return fabs(at->tau - 1) > .3;
}

/* Gradient descent must reach the errors of least squares on the same sequences. */
static void judge_trained(icl_study *study, const icl_study_cell *cell) {
    for (size_t i = 0; i < 2; i++) {
        const icl_number solved = cell->numbers[ICL + i];
        ICL_JUDGE(study, .quantity = tests[i], ICL_OURS(cell->numbers[TRAINED_ICL + i]), .target = solved.value,
                  .tolerance = .01 * solved.value, .evidence = ICL_COMPUTED, .source = "least squares, same sequences");
    }
}

static void judge_published(icl_study *study, const icl_study_cell *cell, const point *at) {
    for (size_t row = 0; row < sizeof published / sizeof *published; row++) {
        const double means[] = {published[row].mean.icl, published[row].mean.idg};
        const double deviations[] = {published[row].deviation.icl, published[row].deviation.idg};
        if (published[row].alpha != at->of->alpha || published[row].tau != at->tau)
            continue;
        for (size_t i = 0; i < 2; i++)
            ICL_JUDGE(study, .quantity = tests[i], ICL_OURS(cell->numbers[ICL + i]), .target = means[i],
                      .tolerance = 3 * hypot(cell->numbers[ICL + i].standard_error,
                                             deviations[i] / sqrt((double)PUBLISHED_RUNS)),
                      .evidence = ICL_READ, .source = "the authors' logs, 10 runs");
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const point at = point_of(cell);

    if (at.of->part == TRAINED)
        judge_trained(study, cell);
    else if (at.of->part == PUBLISHED)
        judge_published(study, cell, &at);
    else
        judge_limit(study, &at, NULL, cell->numbers + ICL, .15, at.of->d >= 40 && is_off_peak(&at), "d to infinity");
}

/* ---- Between cells ---- */

/* Returns the cell of a sweep at this tau and kappa; NULL if there is none. */
static const icl_study_cell *cell_at(const icl_study *study, const sweep *of, double tau, double kappa) {
    for (size_t i = 0; i < study->count; i++) {
        const point at = point_of(study->cells[i]);
        if (at.of == of && at.tau == tau && at.kappa == kappa)
            return study->cells[i]->is_wanted ? study->cells[i] : NULL;
    }
    return NULL;
}

/* Errors of d and 2 d, extrapolated to 1 / d = 0 along a line; what is left is of the order of 1 / d^2. */
static void judge_extrapolated(icl_study *study, const sweep *of, const sweep *twice) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i], *larger;
        const point at = point_of(cell);
        icl_number errors[2];
        if (at.of != of || !cell->is_wanted || !(larger = cell_at(study, twice, at.tau, at.kappa)))
            continue;
        for (size_t k = 0; k < 2; k++)
            errors[k] =
                (icl_number){2 * larger->numbers[ICL + k].value - cell->numbers[ICL + k].value,
                             hypot(2 * larger->numbers[ICL + k].standard_error, cell->numbers[ICL + k].standard_error)};
        judge_limit(study, &at,
                    ICL_PHRASE("d = %zu and %zu, extrapolated, alpha = %g, kappa = %g, tau = %g", of->d, twice->d,
                               of->alpha, at.kappa, at.tau),
                    errors, .05, is_off_peak(&at), "d to infinity");
    }
}

/* Judges sequences of which every token was drawn against those whose features were drawn from their law: runs of the
 * same distribution, so that the deviation of the larger number of runs serves for both. */
static void judge_tokens(icl_study *study, const sweep *tokens, const sweep *features) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i], *other;
        const point at = point_of(cell);
        if (at.of != tokens || !cell->is_wanted || !(other = cell_at(study, features, at.tau, at.kappa)))
            continue;
        for (size_t k = 0; k < 2; k++) {
            const icl_number ours = cell->numbers[ICL + k], law = other->numbers[ICL + k];
            ICL_JUDGE(study, .what = ICL_PHRASE("least squares of tokens, d = %zu, tau = %g", at.of->d, at.tau),
                      .quantity = tests[k], ICL_OURS(ours), .target = law.value,
                      .tolerance = 3 * law.standard_error * sqrt(1 + (double)features->runs / (double)tokens->runs),
                      .evidence = ICL_COMPUTED, .source = "features drawn from their law; three standard errors");
        }
    }
}

static void judge_ratio(icl_study *study, const char *what, const char *quantity, icl_number above, icl_number below) {
    const double ratio = above.value / below.value;

    ICL_JUDGE(study, .what = what, .quantity = quantity, .ours = ratio,
              .standard_error = ratio * hypot(above.standard_error / above.value, below.standard_error / below.value),
              .target = 2, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "figures 1 and 3");
}

static void judge_transitions(icl_study *study, const sweep *of) {
    const bool by_tasks = of->part == BY_TASKS;
    const icl_study_cell *before = by_tasks ? cell_at(study, of, 10, .5) : cell_at(study, of, .5, .5);
    const icl_study_cell *after = by_tasks ? cell_at(study, of, 10, 2) : cell_at(study, of, 2, .5);
    const icl_study_cell *peak = by_tasks ? NULL : cell_at(study, of, 1, .5);
    const icl_phrase what = icl_phrase_print("d = %zu, alpha = %g", of->d, of->alpha);

    if (before && after && by_tasks)
        judge_ratio(study, what.text, "fresh tasks, error of kappa = .5 by that of 2", before->numbers[ICL],
                    after->numbers[ICL]);
    if (before && after && peak) {
        judge_ratio(study, what.text, "fresh tasks, error of tau = 1 by that of .5", peak->numbers[ICL],
                    before->numbers[ICL]);
        judge_ratio(study, what.text, "fresh tasks, error of tau = 1 by that of 2", peak->numbers[ICL],
                    after->numbers[ICL]);
    }
}

/* Judges a sweep beside the others. Those of one scale share no points with those of another. */
static void judge_sweep(icl_study *study, const sweep *of) {
    for (const sweep *other = sweeps; other < sweeps + sizeof sweeps / sizeof *sweeps; other++)
        if (other->part <= BY_TASKS && other->alpha == of->alpha) {
            if (other->part == of->part && other->d == 2 * of->d)
                judge_extrapolated(study, of, other);
            if (of->part == TRAINED && other->part == BY_SEQUENCES && other->d == of->d)
                judge_tokens(study, of, other);
        }
    if (of->part <= BY_TASKS)
        judge_transitions(study, of);
}

/* ---- Figures, one for each alpha ---- */

enum { LINE = 60 };

/* Adds the limit of a sweep at LINE places, on either side of the pole. */
static void plot_limit(icl_study *study, icl_curves *curves, const sweep *of) {
    for (size_t i = 0; i <= LINE; i++) {
        const double share = (double)i / LINE;
        const double x = of->part == BY_TASKS ? .1 * pow(50, share) : .1 + 2.1 * share;
        const point at = of->part == BY_TASKS ? (point){of, of->taus[0], x} : (point){of, x, of->kappas[0]};
        const icl_layer_errors limit = limit_of(&at);
        if (of->part == BY_TASKS || fabs(x - 1) > .04) {
            icl_study_plot(study, curves, "limit, fresh tasks", ICL_SERIES_REFERENCE, x, limit.icl);
            icl_study_plot(study, curves, "limit, the training's", ICL_SERIES_REFERENCE, x, limit.idg);
        }
    }
}

/* Plots the cells of a part but those at the pole, whose means are huge and differ from run to run. */
static void draw_part(icl_study *study, sweep_part part, double alpha, icl_curves *curves) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const point at = point_of(cell);
        if (at.of->part != part || at.of->alpha != alpha || !cell->is_wanted)
            continue;
        if (at.tau != 1) {
            icl_study_plot_number(study, curves, ICL_PHRASE("%s, fresh tasks", cell->curve), ICL_SERIES_OURS, cell->x,
                                  cell->numbers[ICL]);
            icl_study_plot_number(study, curves, ICL_PHRASE("%s, the training's", cell->curve), ICL_SERIES_OURS,
                                  cell->x, cell->numbers[IDG]);
        }
        if (at.tau == at.of->taus[0] && at.kappa == at.of->kappas[0])
            plot_limit(study, curves, at.of);
    }
    icl_study_draw(study, curves);
}

static void draw_alpha(icl_study *study, double alpha) {
    const icl_phrase names[] = {icl_phrase_print("sequences-alpha%g", alpha), icl_phrase_print("tasks-alpha%g", alpha)};
    const icl_phrase titles[] = {icl_phrase_print("One layer by training sequences, alpha = %g", alpha),
                                 icl_phrase_print("One layer by training tasks, alpha = %g", alpha)};
    icl_curves by_sequences =
        ICL_CURVES(.name = names[0].text, .title = titles[0].text, .x_label = "sequences per feature, tau",
                   .y_label = "squared error", .log_y = true);
    icl_curves by_tasks =
        ICL_CURVES(.name = names[1].text, .title = titles[1].text, .x_label = "tasks per dimension, kappa",
                   .y_label = "squared error", .log_x = true, .log_y = true);

    draw_part(study, BY_SEQUENCES, alpha, &by_sequences);
    draw_part(study, BY_TASKS, alpha, &by_tasks);
}

static void conclude(icl_study *study) {
    for (const sweep *of = sweeps; of < sweeps + sizeof sweeps / sizeof *sweeps; of++)
        judge_sweep(study, of);
    draw_alpha(study, 10);
    draw_alpha(study, 100);
}

const icl_reproduction icl_asymptotic_linear = ICL_STUDY(
        .name = "asymptotic-linear", .source = "arXiv 2405.11751, figures 1 and 3",
        .about = "one layer of linear attention on a fixed set of sequences: double descent, and tasks that are enough",
        .claim = "On n sequences of k tasks one layer of linear attention errs most where n is the number of its "
                 "features, d (d + 1), and learns new tasks once k is above d; both as a formula says.",
        .scope = "A met table means that solved layers of finite size follow the formula of infinite size "
                 "within the error that is left, and that trained ones end at the solved ones; softmax "
                 "attention and more than one layer were not tested.",
        .cost = {"5 s", "3 min", "25 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
