/*
 * Simple function classes, learned in context: Garg and others 2022, "What can transformers learn in-context? A case
 * study of simple function classes" (arXiv 2208.01066).
 *
 * Errors by the number of labelled pairs, figures 2 and 5 (garg-curves). The bound for linear functions without noise
 * is least squares, with the error 1 - k / d for k < d and 0 from there on. Reference predictors are judged by such
 * closed forms, and at scales short and full by rows that another program printed (Leiay/looped_transformer, the same
 * tasks), within three standard errors of both. Trained models are judged by the bound at scale short, and at full by
 * the rows of that program's model of the same size.
 *
 * A model of linear functions is tested on inputs that it was not trained on, section 4 and appendix B.1 (garg-shifts).
 * Errors are over the mean of f^2 under each shift.
 *
 *     skewed       the covariance has eigenvalues i^-2, turned at random
 *     scaled       inputs half and twice as large
 *     orthants     a sequence's inputs lie in one orthant, and the query after k pairs anywhere: the bound is still
 *                  1 - k / d, since least squares knows w on the span of k inputs, whatever these are
 *     orthogonal   the query is orthogonal to all inputs before it: nothing is known of its label, and the bound is 1
 *     repeated     the query is one of the inputs before it: its label was shown, and the bound is 0
 *
 * The paper has curves for these: the model follows least squares under the last three, and under the first two where
 * inputs are not too far from those of training.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "papers/papers.h"

/* Settings of all models of the paper's own size, d = 20. */
#define PAPER                                                                                                          \
    "task.d=20 model.layers=12 model.heads=8 model.width=256 train.learning_rate=0.0001 train.schedule=constant "      \
    "train.warmup=0 task.curriculum=2000 "

/* The linear functions of a scale: n labelled pairs of dimension d, and the training of their model. At scale ci the
 * model hardly learns: it is only for the predictors and the shape of the curve. */
static const struct {
    size_t dimension, pairs, sequences;
    const char *settings;
} linear[ICL_SCALES] = {
    {3, 5, 4096, "task.d=3 task.n=5 model.layers=1 model.width=16 train.warmup=20 train.steps=150 eval.sequences=4096"},
    {5, 10, 20000, "train.steps=10000 eval.sequences=20000"},
    {20, 40, 10000, PAPER "task.n=40 train.steps=500000 eval.sequences=10000"},
};

/* ---- Errors by position ---- */

/* Copies errors after `first` to `last` labelled pairs, over `unit`; errors that the predictor lacks stay unchanged. */
static void copy_errors(const icl_evaluation *evaluation, const char *predictor, double unit, size_t first, size_t last,
                        icl_number *errors) {
    const icl_score *score = icl_reproduce_score(evaluation, predictor);

    for (size_t k = first; score && k <= last && k < score->position_count; k++)
        errors[k] = (icl_number){score->positions[k].loss / unit, score->positions[k].se / unit};
}

static double bound_of(size_t k, size_t d) {
    return k < d ? 1 - (double)k / (double)d : 0;
}

/* ---- Figures of errors ---- */

/* Measures a curve of errors after 0, 1, … pairs. */
static void plot_errors(icl_study *study, icl_curves *curves, const char *label, icl_series_style style,
                        const icl_number *errors, size_t points) {
    for (size_t k = 0; k < points; k++)
        if (!isnan(errors[k].value))
            icl_study_plot_number(study, curves, label, style, (double)k, errors[k]);
}

static icl_figure figure_of(const char *name, const char *title, const char *y_label) {
    return (icl_figure){.name = name,
                        .title = title,
                        .x_label = "labelled pairs k",
                        .y_label = y_label,
                        .log_y = true,
                        .least_y = 1e-4};
}

/* ---- Curves: cells ---- */

static const char *const predictors[] = {"model",   "zero",       "averaging",  "nearest:3",   "least-squares",
                                         "lasso:1", "lasso:0.1",  "lasso:0.01", "lasso:0.001", "lasso:0.0001",
                                         "tree",    "tree-signs", "network"};

/* The numbers are errors after k < POINTS pairs, predictor by predictor. */
enum { POINTS = 101, PREDICTORS = sizeof predictors / sizeof *predictors, CURVE_NUMBERS = PREDICTORS * POINTS };

/* An error that another program printed; a list ends with an error of 0. */
typedef struct printed_error {
    size_t pairs;
    double error;
} printed_error;

static const printed_error by_least_squares[] = {{5, .765}, {10, .515}, {15, .248}, {0, 0}},
                           by_nearest[] = {{10, .904}, {20, .769}, {40, .710}, {0, 0}},
                           by_lasso[] = {{5, .645}, {10, .0498}, {0, 0}},
                           linear_functions[] = {{5, .769},   {10, .519},  {15, .247},   {18, .112},   {19, .0592},
                                                 {20, .0204}, {21, .0077}, {25, .00135}, {40, 4.8e-4}, {0, 0}},
                           sparse[] = {{5, .584}, {10, .085}, {15, .0153}, {20, .0048}, {40, .0017}, {0, 0}},
                           relu_network[] = {{20, .4107}, {50, .2441}, {100, .1695}, {0, 0}},
                           decision_tree[] = {{100, .12}, {0, 0}};

/* A model of a class of functions, or a predictor without one. */
typedef struct curve_cell {
    const char *name, *predictor, *functions; /* predictor: NULL for a model; functions: their name in titles */
    icl_scale first;
    double unit;          /* the mean of f^2 */
    const char *settings; /* NULL: those of `linear`, whose dimension is the unit */
    const printed_error *printed;
} curve_cell;

/* The printed errors of predictors come from 1280 prompts, d = 20, 40 pairs; ours come from twice as many. */
enum { SEQUENCES = 2560, PRINTED_SEQUENCES = 1280 };
#define PREDICTOR "task.d=20 task.n=40 model.layers=1 model.width=8 eval.sequences=2560 eval.predictors="
#define MODEL     PAPER "train.steps=500000 eval.sequences=1280 "
#define LONG      MODEL "task.n=100 task.curriculum_n=25 task.curriculum_points=5 "
#define SPARSE    "task.class=sparse "

static const curve_cell curve_cells[] = {
    {"least-squares", "least-squares", NULL, ICL_SCALE_SHORT, 20, PREDICTOR "least-squares", by_least_squares},
    {"nearest", "nearest:3", NULL, ICL_SCALE_SHORT, 20, PREDICTOR "nearest:3", by_nearest},
    {"lasso", "lasso:0.01", NULL, ICL_SCALE_SHORT, 3, PREDICTOR "lasso:0.01 task.lasso=0.01 " SPARSE, by_lasso},
    {"linear", NULL, "Linear functions", ICL_SCALE_CI, 0, NULL, linear_functions},
    {"sparse", NULL, "Sparse linear functions", ICL_SCALE_FULL, 3, MODEL "task.n=40 " SPARSE, sparse},
    {"relu-network", NULL, "Two-layer networks", ICL_SCALE_FULL, 20, LONG "task.class=relu-network", relu_network},
    {"decision-tree", NULL, "Decision trees", ICL_SCALE_FULL, 1, LONG "task.class=decision-tree", decision_tree},
};

static void plan_curves(icl_study *study) {
    for (size_t i = 0; i < sizeof curve_cells / sizeof *curve_cells; i++) {
        const curve_cell *cell = &curve_cells[i];
        if (study->scale >= cell->first)
            ICL_ADD_CELL(study, .name = cell->name, .group = cell->predictor ? "predictors" : NULL, .recipe = "garg",
                         .seed = icl_study_seed(study, 0), .data = cell, .is_untrained = cell->predictor != NULL,
                         .settings = {cell->settings ? cell->settings : linear[study->scale].settings});
    }
}

static icl_status measure_curves(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    const curve_cell *curve = cell->data;
    const double unit = curve->settings ? curve->unit : (double)linear[study->scale].dimension;
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    for (size_t i = 0; i < PREDICTORS; i++)
        copy_errors(evaluation, predictors[i], unit, 0, POINTS - 1, numbers + i * POINTS);
    return ICL_OK;
}

/* Returns the errors of a predictor among the cell's numbers. */
static const icl_number *errors_of(const icl_study_cell *cell, const char *predictor) {
    size_t i = 0;
    while (strcmp(predictors[i], predictor) != 0)
        i++;
    return cell->numbers + i * POINTS;
}

/* ---- Curves: judging ---- */

static double zero_form(size_t k, size_t d) {
    (void)k, (void)d;
    return 1;
}

static double averaging_form(size_t k, size_t d) {
    return k == 0 ? 1 : (double)(d + 1) / (double)k;
}

/* Judges the position at which a predictor is farthest from its closed form, in standard errors. If that is 0, errors
 * are rounding. */
static void judge_form(icl_study *study, const char *what, const icl_number *errors,
                       double (*form_of)(size_t k, size_t d), const char *source) {
    const size_t d = linear[study->scale].dimension;
    double worst = 0;
    size_t farthest = 0;

    for (size_t k = 0; k <= linear[study->scale].pairs; k++) {
        const double form = form_of(k, d);
        const double distance =
            form > 0 ? fabs(errors[k].value - form) / errors[k].standard_error : errors[k].value / 1e-6;
        if (!(distance <= worst)) {
            worst = distance;
            farthest = k;
        }
    }
    ICL_JUDGE(study, .what = what, .quantity = "distance from closed form, standard errors", .ours = worst,
              .tolerance = 4, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = source,
              .note = ICL_PHRASE("farthest at k = %zu: %.4g beside %.4g", farthest, errors[farthest].value,
                                 form_of(farthest, d)));
}

/* Judges a model of linear functions at scale short: near the bound while pairs are few, and not far after d. */
static void judge_bound(icl_study *study, const icl_number *model) {
    const size_t d = linear[study->scale].dimension;
    const icl_evidence evidence = study->scale == ICL_SCALE_SHORT ? ICL_COMPUTED : ICL_EVIDENCE_NONE;

    for (size_t k = 0; k <= 3; k++)
        ICL_JUDGE(study, .what = ICL_PHRASE("model, seed %" PRIu32 ", after %zu pairs", icl_study_seed(study, 0), k),
                  .quantity = "error / d", ICL_OURS(model[k]), .target = bound_of(k, d),
                  .tolerance = .12 * bound_of(k, d), .evidence = evidence, .source = "least squares, 1 - k / d");
    if (study->scale == ICL_SCALE_SHORT)
        ICL_JUDGE(study, .what = "model, one pair more than d", .quantity = "error / d", ICL_OURS(model[d + 1]),
                  .target = .13, .criterion = ICL_AT_MOST, .evidence = evidence,
                  .source = "such a model in PyTorch: .12");
}

/* Predictors must be within three standard errors of both; models as low as the printed error or lower, except for a
 * tenth and three standard errors. */
static void judge_printed(icl_study *study, const icl_study_cell *cell) {
    const curve_cell *curve = cell->data;
    const char *predictor = curve->predictor;
    const icl_number *errors = errors_of(cell, predictor ? predictor : "model");

    for (const printed_error *printed = curve->printed; printed->error > 0; printed++) {
        const icl_number ours = errors[printed->pairs];
        const double both = ours.standard_error * sqrt(1 + (double)SEQUENCES / PRINTED_SEQUENCES);
        ICL_JUDGE(study,
                  .what = ICL_PHRASE("%s, %s, after %zu pairs", predictor ? predictor : cell->name,
                                     predictor ? "d = 20" : "12 layers", printed->pairs),
                  .quantity = "error / mean square", ICL_OURS(ours), .target = printed->error,
                  .tolerance = predictor ? 3 * both : .1 * printed->error + 3 * ours.standard_error,
                  .criterion = predictor ? ICL_WITHIN : ICL_AT_MOST, .evidence = ICL_READ,
                  .source = curve->printed == decision_tree ? "section 5" : "Leiay/looped_transformer, saved results",
                  .note = predictor ? "within three standard errors of both" : NULL);
    }
}

static void draw_model(icl_study *study, const icl_study_cell *cell) {
    const curve_cell *curve = cell->data;
    const size_t d = linear[study->scale].dimension;
    const icl_phrase name = icl_phrase_print("garg-curves-%s", cell->name);
    const icl_phrase title =
        icl_phrase_print("%s: errors by labelled pairs (figure %d)", curve->functions, curve->settings ? 5 : 2);
    icl_curves curves = {.figure = figure_of(name.text, title.text, "squared error / mean square")};

    for (size_t i = 0; i < PREDICTORS; i++)
        plot_errors(study, &curves, i == 0 ? "transformer" : predictors[i],
                    i == 0 ? ICL_SERIES_LINE : ICL_SERIES_REFERENCE, cell->numbers + i * POINTS, POINTS);
    for (size_t k = 0; !curve->settings && k < d; k++)
        icl_study_plot(study, &curves, "1 - k / d", ICL_SERIES_PUBLISHED, (double)k, bound_of(k, d));
    icl_study_draw(study, &curves);
}

static void judge_curves(icl_study *study, const icl_study_cell *cell) {
    const curve_cell *curve = cell->data;

    if (!curve->settings) {
        judge_form(study, "the prediction 0", errors_of(cell, "zero"), zero_form, "1 at every position");
        judge_form(study, "averaging", errors_of(cell, "averaging"), averaging_form, "(d + 1) / k");
        judge_form(study, "least squares", errors_of(cell, "least-squares"), bound_of, "1 - k / d, then 0");
        judge_bound(study, errors_of(cell, "model"));
    }
    if (curve->settings || study->scale == ICL_SCALE_FULL)
        judge_printed(study, cell);
    if (!curve->predictor)
        draw_model(study, cell);
}

const icl_reproduction icl_garg_curves =
    ICL_STUDY(.name = "garg-curves", .source = "arXiv 2208.01066, figures 2 and 5",
              .about =
                  "errors of a transformer by the number of labelled pairs, beside least squares and other predictors",
              .claim =
                  "A transformer that is trained on functions of a class learns a new one from labelled pairs in its "
                  "context, a linear one about as well as least squares.",
              .scope = "A met table means that reference predictors follow their closed forms and, above scale "
                       "ci, that a trained model is near least squares on linear functions; at scale short no "
                       "other class of functions is trained, and its model is far smaller than the paper's.",
              .cost = {"2 s", "5 min", "a week"}, .numbers = CURVE_NUMBERS, .plan = plan_curves,
              .measure = measure_curves, .judge = judge_curves);

/* ---- Shifts: cells ---- */

/* Inputs that differ from those of training: all of them, or only the query after k pairs, a probe. */
typedef struct shift {
    const char *name, *settings;
    double factor;                                                /* of the mean of f^2 */
    enum { NO_PROBE = 0, OF_PAIRS, BOUND_ONE, BOUND_ZERO } bound; /* of a probe's error */
    double tolerance; /* for a model at scale short: relative, or absolute if the bound is 0 */
} shift;

static const shift shifts[] = {
    {"orthants", "task.orthant=true task.probe=anywhere", 1, OF_PAIRS, .25},
    {"orthogonal", "task.probe=orthogonal", 1, BOUND_ONE, .12},
    {"repeated", "task.probe=repeated", 1, BOUND_ZERO, .05},
    {"as trained", "", 1, NO_PROBE, 0},
    {"skewed covariance", "task.covariance=power:2 task.rotate=true", 1, NO_PROBE, 0},
    {"inputs halved", "task.input_scale=0.5", .25, NO_PROBE, 0},
    {"inputs doubled", "task.input_scale=2", 4, NO_PROBE, 0},
};

/* The numbers are errors after k < SHIFT_POINTS pairs, for each shift of the model and then of least squares. */
enum { SHIFT_POINTS = 41, SHIFTS = sizeof shifts / sizeof *shifts, SHIFT_NUMBERS = SHIFTS * 2 * SHIFT_POINTS };

static void plan_shifts(icl_study *study) {
    ICL_ADD_CELL(study, .name = "linear", .recipe = "garg", .seed = icl_study_seed(study, 0),
                 .settings = {linear[study->scale].settings});
}

/* ---- Shifts: errors ---- */

/* Returns after how many pairs a probe stands: 1, 1 + stride, …, up to the last number of pairs. */
static size_t last_probed(const icl_study *study, const shift *probe) {
    return probe->bound == BOUND_ONE ? linear[study->scale].dimension - 1 : linear[study->scale].pairs;
}

static size_t probe_stride(const icl_study *study, const shift *probe) {
    enum { MOST = 10 };
    return (last_probed(study, probe) + MOST - 1) / MOST;
}

/* Measures the errors after `first` to `last` pairs of the model and of least squares on the task with these
 * settings. */
static icl_status measure_shift(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, size_t number,
                                const char *settings, size_t first, size_t last, icl_number *numbers,
                                icl_error *error) {
    const double unit = shifts[number].factor * (double)linear[study->scale].dimension;
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, ICL_PHRASE("%s eval.predictors=least-squares", settings),
                                 &evaluation, error));
    copy_errors(evaluation, "model", unit, first, last, numbers + 2 * number * SHIFT_POINTS);
    copy_errors(evaluation, "least-squares", unit, first, last, numbers + (2 * number + 1) * SHIFT_POINTS);
    return ICL_OK;
}

static icl_status measure_shifts(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    for (size_t i = 0; i < SHIFTS; i++) {
        if (shifts[i].bound == NO_PROBE)
            ICL_CHECK(measure_shift(study, cell, trained, i, shifts[i].settings, 0, linear[study->scale].pairs, numbers,
                                    error));
        for (size_t k = 1; shifts[i].bound != NO_PROBE && k <= last_probed(study, &shifts[i]);
             k += probe_stride(study, &shifts[i]))
            ICL_CHECK(measure_shift(study, cell, trained, i,
                                    ICL_PHRASE("%s task.probe_at=%zu eval.sequences=%zu", shifts[i].settings, k,
                                               linear[study->scale].sequences / 4),
                                    k, k, numbers, error));
    }
    return ICL_OK;
}

/* ---- Shifts: judging ---- */

/* Judges the model and least squares after k pairs. */
static void judge_probe(icl_study *study, const shift *probe, size_t k, icl_number model, icl_number least_squares) {
    const double bound = probe->bound == BOUND_ONE    ? 1
                         : probe->bound == BOUND_ZERO ? 0
                                                      : bound_of(k, linear[study->scale].dimension);

    ICL_JUDGE(study, .what = ICL_PHRASE("model, %s, after %zu pairs", probe->name, k), .quantity = "error / d",
              ICL_OURS(model), .target = bound, .tolerance = probe->tolerance * (bound > 0 ? bound : 1),
              .evidence = study->scale == ICL_SCALE_SHORT ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "bound");
    ICL_JUDGE(study, .what = ICL_PHRASE("least-squares, %s, after %zu pairs", probe->name, k), .quantity = "error / d",
              ICL_OURS(least_squares), .target = bound, .tolerance = 4 * least_squares.standard_error + 1e-6,
              .evidence = ICL_COMPUTED, .source = "bound");
}

/* Shows the model next to least squares on the same sequences: at two pairs, at d, and at the last. */
static void show_shift(icl_study *study, const shift *shown, const icl_number *model, const icl_number *least_squares) {
    const size_t places[] = {2, linear[study->scale].dimension, linear[study->scale].pairs};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        ICL_JUDGE(study, .what = ICL_PHRASE("model, %s, after %zu pairs", shown->name, places[i]),
                  .quantity = "error / mean square", ICL_OURS(model[places[i]]),
                  .note = ICL_PHRASE("least squares %.4g", least_squares[places[i]].value));
}

static void judge_shifts(icl_study *study, const icl_study_cell *cell) {
    icl_curves queries = {.figure = figure_of("garg-shifts-queries",
                                              "Queries that differ from the inputs before them (appendix B.1)",
                                              "squared error / d")};
    icl_curves inputs = {.figure =
                             figure_of("garg-shifts-inputs", "Inputs of another covariance or scale (appendix B.1)",
                                       "squared error / mean square")};

    for (size_t i = 0; i < SHIFTS; i++) {
        const shift *shown = &shifts[i];
        const bool is_probe = shown->bound != NO_PROBE;
        const icl_number *model = cell->numbers + 2 * i * SHIFT_POINTS, *squares = model + SHIFT_POINTS;
        icl_curves *curves = is_probe ? &queries : &inputs;
        for (size_t k = 1; is_probe && k < 4 && k <= last_probed(study, shown); k += probe_stride(study, shown))
            judge_probe(study, shown, k, model[k], squares[k]);
        if (!is_probe)
            show_shift(study, shown, model, squares);
        plot_errors(study, curves, ICL_PHRASE("%s: transformer", shown->name), ICL_SERIES_OURS, model, SHIFT_POINTS);
        if (shown->factor == 1) /* least squares does not depend on the scale */
            plot_errors(study, curves, ICL_PHRASE("%s: least squares", shown->name), ICL_SERIES_REFERENCE, squares,
                        SHIFT_POINTS);
    }
    icl_study_draw(study, &queries);
    icl_study_draw(study, &inputs);
}

const icl_reproduction icl_garg_shifts = ICL_STUDY(
        .name = "garg-shifts", .source = "arXiv 2208.01066, section 4",
        .about = "a model of linear functions on skewed, scaled, orthogonal and repeated inputs, beside least squares",
        .claim =
            "A transformer that is trained on linear functions follows least squares on queries and inputs that its "
            "training did not show, if they are not too far from those of training.",
        .scope = "A met table means that a model follows the bound where only the directions of queries or "
                 "inputs change; skewed and scaled inputs are shown and not judged, and at scale ci the "
                 "model is not judged at all.",
        .cost = {"3 s", "5 min", "2 d"}, .numbers = SHIFT_NUMBERS, .plan = plan_shifts, .measure = measure_shifts,
        .judge = judge_shifts);
