/*
 * Which algorithm a transformer is nearest to: Akyurek, Schuurmans, Andreas, Ma, Zhou 2022, "What learning algorithm is
 * in-context learning? Investigations with linear models" (arXiv 2211.15661), the figures of squared prediction
 * distances and of implied weights, by position, depth, width and label noise.
 *
 * Linear functions, x, w ~ N(0, I_d), a label at every position. Rows about the algorithms alone have closed forms,
 * with S = X^T X of k pairs and without noise:
 *
 *     gradient step, least squares    min(k, d) / d - k / (k + d + 1), of predictions and of weights alike
 *     least squares, f(x)             1 - k / d, then 0
 *     ridge, least squares            E sum over s > 0 of (penalty / (s + penalty))^2 / d, s the eigenvalues of S
 *
 * A model is held to what holds for every predictor: its distance to the posterior mean is its loss less the least one,
 * and a distance to a linear predictor is that of the weights and what no linear function explains. Which algorithm it
 * is nearest to follows from what the paper says: a gradient step for one layer, least squares for deep models without
 * noise, with noise sigma the ridge of penalty sigma^2. The paper prints no tables. Distances are over d.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/algorithms/compare.h"
#include "papers/curves.h"
#include "papers/order.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"
#include "papers/wishart_sample.h"

#define SOURCE_OF_PHASES "depth phases"

static const icl_algorithm rows[] = {
    {"gradient step", 1, 0}, {"2 gradient steps", 2, 0}, {"ridge 1/16", 0, .0625}, {"ridge 1/4", 0, .25},
    {"ridge 1/2", 0, .5},    {"ridge 1", 0, 1},          {"ridge 2", 0, 2},        {"ridge 4", 0, 4},
    {"ridge 8", 0, 8},       {"ridge 16", 0, 16},        {"least squares", 0, 0},
};
enum {
    ROWS = sizeof rows / sizeof *rows,
    STEP = 0,
    TWO_STEPS,
    FIRST_RIDGE,
    QUARTER,
    ONE = 5,
    LEAST_SQUARES = ROWS - 1
};
enum { MOST_PAIRS = 40, MOST_CELLS = 10 };

/* A model; which figures it is in. */
typedef struct cell {
    size_t layers, width;
    double noise;
    bool by_depth, by_width;
} cell;

/* By depth in the order of layers. At ci they hardly learn: that scale is for what holds for every predictor. At short
 * noise 1 is the most: two layers with noise 2 are then worse than a gradient step. */
static const cell ci_cells[] = {{1, 16, 0, true, true}, {2, 8, 0, true, true}, {1, 16, .5, false, false}};
static const cell short_cells[] = {{1, 64, 0, true, false},
                                   {2, 64, 0, true, true},
                                   {3, 64, 0, true, false},
                                   {2, 64, 1, false, false},
                                   {2, 16, 0, false, true}};
static const cell full_cells[] = {{1, 512, 0, true, false},  {2, 512, 0, true, false},  {4, 512, 0, true, false},
                                  {8, 512, 0, true, false},  {16, 512, 0, true, true},  {16, 16, 0, false, true},
                                  {16, 32, 0, false, true},  {16, 128, 0, false, true}, {16, 512, .5, false, false},
                                  {16, 512, 1, false, false}};

#define FULL "task.d=8 task.n=40 model.heads=4 train.learning_rate=0.0001 train.schedule=cosine train.warmup=100000"

typedef struct setting {
    size_t dimension, pairs, steps, sequences, prompts, probes;
    const char *overrides;
    const cell *cells;
    size_t count;
} setting;

static const setting settings[ICL_SCALES] = {
    {3, 6, 150, 4000, 128, 32, "task.d=3 task.n=6 train.warmup=20", ci_cells, sizeof ci_cells / sizeof *ci_cells},
    {5, 10, 5000, 10000, 256, 32, "train.warmup=500", short_cells, sizeof short_cells / sizeof *short_cells},
    {8, 40, 500000, 10000, 256, 64, FULL, full_cells, sizeof full_cells / sizeof *full_cells},
};

static const setting *setting_of(const icl_reproducing *run) {
    return &settings[run->params->scale];
}

/* ---- One model ---- */

typedef struct compared {
    icl_reproducing *run;
    const cell *of;
    char name[48];
    icl_seeded made;
    icl_algorithms algorithms;
    icl_predicted predicted;
    icl_weights_at weights[MOST_PAIRS + 1];
    icl_measured mean[ROWS]; /* distance of the model to each, over k = 1 ... n */
} compared;

/* What spans models. */
typedef struct study {
    icl_curves by_depth, by_width, by_penalty;
    icl_ranked depths[MOST_CELLS]; /* distances to least squares */
    char names[MOST_CELLS][48];
    size_t depth_count;
} study;

static size_t column(size_t row) {
    return ICL_COLUMN_ALGORITHMS + row;
}

static icl_status distance(const compared *all, size_t a, size_t b, size_t first, size_t last, icl_measured *found,
                           icl_error *error) {
    const icl_term term = {1, a, b};
    return icl_predicted_distance(&all->predicted, &term, 1, first, last, (double)setting_of(all->run)->dimension,
                                  found, error);
}

/* Over all positions; terms of factors. */
static icl_status combine(const compared *all, const icl_term *terms, size_t count, icl_measured *found,
                          icl_error *error) {
    const setting *is = setting_of(all->run);
    return icl_predicted_distance(&all->predicted, terms, count, 1, is->pairs, (double)is->dimension, found, error);
}

static icl_status compare(compared *all, icl_error *error) {
    const setting *is = setting_of(all->run);
    char overrides[128];
    const icl_seeded_cell trained = {.name = all->name,
                                     .recipe = "garg",
                                     .overrides = {is->overrides, overrides},
                                     .steps = is->steps,
                                     .seed = all->run->params->seed};

    icl_print(overrides, sizeof overrides, "model.layers=%zu model.width=%zu task.noise=fixed:%g", all->of->layers,
              all->of->width, all->of->noise);
    ICL_CHECK(icl_reproduce_train_seed(all->run, &trained, &all->made, error));
    ICL_CHECK(icl_algorithms_create(rows, ROWS, is->dimension, is->pairs, all->of->noise * all->of->noise,
                                    &all->algorithms, error));
    ICL_CHECK(
        icl_algorithms_predict(all->run, all->made.trainer, &all->algorithms, is->sequences, &all->predicted, error));
    for (size_t row = 0; row < ROWS; row++)
        ICL_CHECK(distance(all, ICL_COLUMN_MODEL, column(row), 1, is->pairs, &all->mean[row], error));
    return all->of->by_depth ? icl_algorithms_probe(all->run, all->made.trainer, &all->algorithms, is->prompts,
                                                    is->probes, all->weights, error)
                             : ICL_OK;
}

static void release(compared *all) {
    icl_seeded_release(&all->made);
    icl_algorithms_release(&all->algorithms);
    icl_free(&all->predicted.values);
}

/* ---- Algorithms against closed forms ---- */

/* The position at which ours is farthest from what is expected there, in standard errors of both. Where these are 0,
 * what differs is rounding. */
static icl_status judge_farthest(icl_reproducing *run, const char *what, const char *form, const icl_measured *ours,
                                 const icl_measured *expected, icl_error *error) {
    const size_t pairs = setting_of(run)->pairs;
    double worst = 0;
    size_t at = 1;

    for (size_t k = 1; k <= pairs; k++) {
        const double error_of_both = hypot(ours[k].standard_error, expected[k].standard_error);
        const double gap = fabs(ours[k].mean - expected[k].mean) / fmax(error_of_both, 1e-7);
        if (!(gap <= worst)) {
            worst = gap;
            at = k;
        }
    }
    return ICL_FOUND(run, error, .what = what, .quantity = "farthest from expected, standard errors", .ours = worst,
                     .target = 0, .tolerance = 4, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = form,
                     .note = ICL_PHRASE("k = %zu: %.4g beside %.4g", at, ours[at].mean, expected[at].mean));
}

static double ridge_from_least_squares(const void *user, size_t d, const double *eigenvalues) {
    const double penalty = *(const double *)user;
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += eigenvalues[i] > 1e-9 ? pow(penalty / (eigenvalues[i] + penalty), 2) : 0;
    return sum / (double)d;
}

static icl_status judge_algorithms(const compared *all, icl_error *error) {
    enum { SAMPLES = 4000 };
    icl_reproducing *run = all->run;
    const size_t d = setting_of(run)->dimension, pairs = setting_of(run)->pairs;
    icl_measured ours[4][MOST_PAIRS + 1] = {0}, expected[4][MOST_PAIRS + 1] = {0};

    for (size_t k = 1; k <= pairs; k++) {
        const double known = fmin((double)k, (double)d) / (double)d, penalty = 1 / (double)k; /* of S / k */
        ICL_CHECK(distance(all, column(STEP), column(LEAST_SQUARES), k, k, &ours[0][k], error));
        ICL_CHECK(distance(all, column(LEAST_SQUARES), ICL_COLUMN_TARGET, k, k, &ours[1][k], error));
        ICL_CHECK(distance(all, column(ONE), column(LEAST_SQUARES), k, k, &ours[2][k], error));
        ours[3][k] = all->weights[k].between;
        expected[0][k].mean = expected[3][k].mean = known - (double)k / (double)(k + d + 1);
        expected[1][k].mean = 1 - known;
        ICL_CHECK(icl_wishart_mean(d, k, run->params->seed, SAMPLES, ridge_from_least_squares, &penalty,
                                   &expected[2][k].mean, &expected[2][k].standard_error, error));
    }
    ICL_CHECK(judge_farthest(run, "gradient step to least squares", "closed form", ours[0], expected[0], error));
    ICL_CHECK(judge_farthest(run, "least squares to f(x)", "closed form", ours[1], expected[1], error));
    ICL_CHECK(judge_farthest(run, "ridge 1 to least squares", "eigenvalues of samples", ours[2], expected[2], error));
    return judge_farthest(run, "weights, gradient step to least squares", "closed form", ours[3], expected[3], error);
}

/* ---- What holds for every predictor ---- */

/* The posterior mean's row. */
static size_t find_bayes(const cell *of) {
    for (size_t row = FIRST_RIDGE; row < ROWS; row++)
        if (rows[row].penalty == of->noise * of->noise)
            return row;
    return LEAST_SQUARES;
}

/* E (A - B)^2 = E (A - f)^2 - E (B - f)^2 for the posterior mean B of f. */
static icl_status judge_posterior(const compared *all, const char *who, size_t of, icl_error *error) {
    const size_t bayes = column(find_bayes(all->of));
    const icl_term terms[] = {{1, of, bayes}, {1, bayes, ICL_COLUMN_TARGET}, {-1, of, ICL_COLUMN_TARGET}};
    icl_measured excess, gap;

    ICL_CHECK(combine(all, terms, 3, &gap, error));
    ICL_CHECK(distance(all, of, bayes, 1, setting_of(all->run)->pairs, &excess, error));
    return ICL_FOUND(all->run, error, .what = ICL_PHRASE("%s, %s: distance to the posterior mean", all->name, who),
                     .quantity = "less its excess loss", .ours = gap.mean, .standard_error = gap.standard_error,
                     .target = 0, .tolerance = 4 * gap.standard_error, .evidence = ICL_COMPUTED,
                     .source = "orthogonality", .note = ICL_PHRASE("of %.4g", excess.mean));
}

/* E (f - <w_A, x>)^2 = |w - w_A|^2 + what f's own linear function w leaves: prompts against probes behind prompts. */
static icl_status judge_weights(const compared *all, const char *who, bool is_model, icl_error *error) {
    const size_t pairs = setting_of(all->run)->pairs;
    const size_t predictor = is_model ? ICL_COLUMN_MODEL : ICL_COLUMN_NEIGHBOURS;
    icl_measured ours[MOST_PAIRS + 1] = {0}, expected[MOST_PAIRS + 1] = {0};

    for (size_t k = 1; k <= pairs; k++) {
        const icl_implied_at *at = is_model ? &all->weights[k].model : &all->weights[k].neighbours;
        ICL_CHECK(distance(all, predictor, column(ONE), k, k, &ours[k], error));
        expected[k] = (icl_measured){at->distances[ONE].mean + at->residual.mean,
                                     hypot(at->distances[ONE].standard_error, at->residual.standard_error)};
    }
    return judge_farthest(all->run, ICL_PHRASE("%s to ridge 1", who), "implied weights and residual", ours, expected,
                          error);
}

/* ---- Which algorithm it is nearest to ---- */

/* Of the rows from `first` to before `end`. */
static size_t find_nearest(const compared *all, size_t first, size_t end) {
    size_t nearest = first;
    for (size_t row = first; row < end; row++)
        if (all->mean[row].mean < all->mean[nearest].mean)
            nearest = row;
    return nearest;
}

static icl_status show_distance(const compared *all, size_t row, icl_error *error) {
    const setting *is = setting_of(all->run);
    const bool is_printed = all->run->params->scale == ICL_SCALE_FULL && row == LEAST_SQUARES &&
                            all->of->layers == 16 && all->of->width == 512 && all->of->noise == 0;

    return ICL_FOUND(all->run, error, .what = ICL_PHRASE("%s, to %s", all->name, rows[row].name),
                     .quantity = "distance / d, mean over k", .ours = all->mean[row].mean,
                     .standard_error = all->mean[row].standard_error, .target = .01 / (double)is->dimension,
                     .criterion = ICL_AT_MOST, .evidence = is_printed ? ICL_READ : ICL_EVIDENCE_NONE,
                     .source = is_printed ? "below .01 in all" : NULL,
                     .note = ICL_PHRASE("nearest: %s", rows[find_nearest(all, 0, ROWS)].name));
}

/* Nearer to one algorithm than to another, by two standard errors of the difference. */
static icl_status judge_nearer(const compared *all, size_t to, size_t than, icl_error *error) {
    const icl_term terms[] = {{1, ICL_COLUMN_MODEL, column(to)}, {-1, ICL_COLUMN_MODEL, column(than)}};
    const bool is_judged = all->run->params->scale != ICL_SCALE_CI;
    icl_measured gap;

    ICL_CHECK(combine(all, terms, 2, &gap, error));
    return ICL_FOUND(all->run, error,
                     .what = ICL_PHRASE("%s, nearer to %s than %s", all->name, rows[to].name, rows[than].name),
                     .quantity = "difference of distances / d", .ours = gap.mean, .standard_error = gap.standard_error,
                     .target = -2 * gap.standard_error, .criterion = ICL_AT_MOST,
                     .evidence = is_judged ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = SOURCE_OF_PHASES);
}

/* One layer: a gradient step rather than least squares. Two to four: a ridge. From the third on least squares rather
 * than a gradient step. */
static icl_status judge_phase(const compared *all, icl_error *error) {
    const size_t layers = all->of->layers;

    if (layers == 1)
        return judge_nearer(all, STEP, LEAST_SQUARES, error);
    if (layers <= 4)
        ICL_CHECK(judge_nearer(all, find_nearest(all, FIRST_RIDGE, LEAST_SQUARES), LEAST_SQUARES, error));
    return layers >= 3 ? judge_nearer(all, LEAST_SQUARES, STEP, error) : ICL_OK;
}

/* With noise: of all ridges the posterior mean. What a model has not learned makes its predictions smaller, as a larger
 * penalty does: at scale short, of two layers and few steps, the next penalty on either side will do, a factor of 2. */
static icl_status judge_penalty(const compared *all, icl_curves *curves, icl_error *error) {
    const icl_scale scale = all->run->params->scale;
    const double right = all->of->noise * all->of->noise;
    const size_t nearest = find_nearest(all, FIRST_RIDGE, ROWS);

    for (size_t row = FIRST_RIDGE; row < LEAST_SQUARES; row++)
        ICL_CHECK(icl_curves_add(curves, ICL_PHRASE("noise %g", all->of->noise), ICL_SERIES_OURS, rows[row].penalty,
                                 all->mean[row].mean, error));
    return ICL_FOUND(all->run, error, .what = ICL_PHRASE("%s, nearest ridge", all->name),
                     .quantity = "log2 of penalty / sigma^2", .ours = log2(rows[nearest].penalty / right), .target = 0,
                     .tolerance = scale == ICL_SCALE_SHORT ? 1 : 0,
                     .evidence = scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_INFERRED, .source = "posterior mean",
                     .note = ICL_PHRASE("%s, at a distance of %.4g", rows[nearest].name, all->mean[nearest].mean));
}

/* ---- Figures ---- */

static bool is_drawn(size_t row) {
    return row == STEP || row == TWO_STEPS || row == QUARTER || row == ONE || row == LEAST_SQUARES;
}

/* Distances of predictions, or of weights, by labelled pairs. */
static icl_status draw_by_pairs(const compared *all, bool is_of_weights, icl_error *error) {
    char figure[80], title[112];
    icl_curves curves = {.figure = {.name = figure,
                                    .title = title,
                                    .x_label = "labelled pairs k",
                                    .y_label = is_of_weights ? "|w - w_A|^2 / d, or a share" : "mean (A - B)^2 / d",
                                    .log_y = true,
                                    .least_y = 1e-3}};
    icl_status status = ICL_OK;

    snprintf(figure, sizeof figure, "algorithms-%s-%s", is_of_weights ? "weights" : "distance", all->name);
    snprintf(title, sizeof title, "%s: %s by labelled pairs", all->name,
             is_of_weights ? "implied weights" : "distance to algorithms");
    for (size_t k = 1; k <= setting_of(all->run)->pairs; k++) {
        const icl_weights_at *weights = &all->weights[k];
        icl_measured at;
        for (size_t row = 0; row < ROWS; row++) {
            ICL_TRY(distance(all, ICL_COLUMN_MODEL, column(row), k, k, &at, error));
            if (is_drawn(row))
                ICL_TRY(icl_curves_add(&curves, rows[row].name, ICL_SERIES_OURS, (double)k,
                                       is_of_weights ? weights->model.distances[row].mean : at.mean, error));
        }
        ICL_TRY(distance(all, ICL_COLUMN_MODEL, ICL_COLUMN_NEIGHBOURS, k, k, &at, error));
        ICL_TRY(icl_curves_add(&curves, is_of_weights ? "not linear: 3 nearest inputs" : "3 nearest inputs",
                               ICL_SERIES_REFERENCE, (double)k,
                               is_of_weights ? 1 - weights->neighbours.linear : at.mean, error));
        if (is_of_weights)
            ICL_TRY(icl_curves_add(&curves, "not linear: model", ICL_SERIES_REFERENCE, (double)k,
                                   1 - weights->model.linear, error));
    }
    ICL_TRY(icl_curves_draw(all->run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

/* ---- All models ---- */

static icl_status add_to_study(const compared *all, study *to, icl_error *error) {
    for (size_t row = 0; row < ROWS; row++) {
        if (all->of->by_depth && is_drawn(row))
            ICL_CHECK(icl_curves_add(&to->by_depth, rows[row].name, ICL_SERIES_OURS, (double)all->of->layers,
                                     all->mean[row].mean, error));
        if (all->of->by_width && is_drawn(row))
            ICL_CHECK(icl_curves_add(&to->by_width, rows[row].name, ICL_SERIES_OURS, (double)all->of->width,
                                     all->mean[row].mean, error));
    }
    if (all->of->by_depth) {
        snprintf(to->names[to->depth_count], sizeof to->names[0], "%s", all->name);
        to->depths[to->depth_count] =
            (icl_ranked){to->names[to->depth_count], to->depth_count, all->mean[LEAST_SQUARES].mean,
                         all->mean[LEAST_SQUARES].standard_error};
        to->depth_count++;
    }
    return all->of->noise > 0 ? judge_penalty(all, &to->by_penalty, error) : ICL_OK;
}

static icl_status judge_model(const compared *all, icl_error *error) {
    ICL_CHECK(judge_posterior(all, "model", ICL_COLUMN_MODEL, error));
    if (all->of->noise > 0)
        return judge_posterior(all, "gradient step", column(STEP), error);
    ICL_CHECK(show_distance(all, STEP, error));
    ICL_CHECK(show_distance(all, LEAST_SQUARES, error));
    return ICL_OK;
}

static icl_status judge_depth(const compared *all, icl_error *error) {
    const size_t pairs = setting_of(all->run)->pairs;

    ICL_CHECK(judge_phase(all, error));
    ICL_CHECK(judge_weights(all, all->name, true, error));
    ICL_CHECK(ICL_FOUND(all->run, error, .what = ICL_PHRASE("%s, after %zu pairs", all->name, pairs),
                        .quantity = "share linear in x", .ours = all->weights[pairs].model.linear,
                        .note = ICL_PHRASE("3 nearest inputs: %.4g", all->weights[pairs].neighbours.linear)));
    ICL_CHECK(draw_by_pairs(all, false, error));
    return draw_by_pairs(all, true, error);
}

/* "L3", "L3-width16", "L2-noise0.5": width and noise where they are not the usual ones. */
static void name(const cell *of, char text[48]) {
    int used = snprintf(text, 48, "L%zu", of->layers);

    if (!of->by_depth && of->noise == 0)
        used += snprintf(text + used, 48 - (size_t)used, "-width%zu", of->width);
    if (of->noise > 0)
        icl_print(text + used, 48 - (size_t)used, "-noise%g", of->noise);
}

static icl_status run_cell(icl_reproducing *run, const cell *of, study *to, icl_error *error) {
    compared all = {.run = run, .of = of};
    icl_status status = ICL_OK;

    name(of, all.name);
    if (!icl_reproduce_wants(run, all.name))
        return ICL_OK;
    ICL_TRY(compare(&all, error));
    if (of == setting_of(run)->cells) {
        ICL_TRY(judge_algorithms(&all, error));
        ICL_TRY(judge_weights(&all, "3 nearest inputs", false, error));
    }
    ICL_TRY(judge_model(&all, error));
    if (of->by_depth)
        ICL_TRY(judge_depth(&all, error));
    ICL_TRY(add_to_study(&all, to, error));
done:
    release(&all);
    return status;
}

/* Distances to least squares fall with depth. */
static icl_status judge_depths(icl_reproducing *run, const study *of, icl_error *error) {
    const char *names[MOST_CELLS], *unjudged[MOST_CELLS];

    for (size_t i = 0; i < of->depth_count; i++) {
        names[i] = of->names[i];
        unjudged[i] = run->params->scale == ICL_SCALE_CI ? "models of this scale hardly learn" : NULL;
    }
    const icl_order order = {.quantity = "distance / d to least squares",
                             .source = SOURCE_OF_PHASES,
                             .groups = names,
                             .unjudged = unjudged,
                             .count = of->depth_count};
    return icl_reproduce_order(run, &order, "by depth", of->depths, of->depth_count, error);
}

/* Nothing where no model of the figure was asked for. */
static icl_status draw(icl_reproducing *run, const icl_curves *curves, icl_error *error) {
    return curves->curve_count > 0 ? icl_curves_draw(run, curves, error) : ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    study all = {.by_depth.figure = {.name = "algorithms-distance-depth",
                                     .title = "Distance to algorithms by depth, without noise",
                                     .x_label = "layers",
                                     .y_label = "mean (A - B)^2 / d",
                                     .log_y = true},
                 .by_width.figure = {.name = "algorithms-distance-width",
                                     .title = "Distance to algorithms by width, without noise",
                                     .x_label = "width",
                                     .y_label = "mean (A - B)^2 / d",
                                     .log_x = true,
                                     .log_y = true},
                 .by_penalty.figure = {.name = "algorithms-distance-penalty",
                                       .title = "With noise: distance to ridge regressions",
                                       .x_label = "penalty",
                                       .y_label = "mean (A - B)^2 / d",
                                       .log_x = true,
                                       .log_y = true}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < setting_of(run)->count; i++)
        ICL_TRY(icl_reproduce_next(run, run_cell(run, &setting_of(run)->cells[i], &all, error)));
    ICL_TRY(judge_depths(run, &all, error));
    ICL_TRY(draw(run, &all.by_depth, error));
    ICL_TRY(draw(run, &all.by_width, error));
    ICL_TRY(draw(run, &all.by_penalty, error));
done:
    icl_curves_release(&all.by_depth);
    icl_curves_release(&all.by_width);
    icl_curves_release(&all.by_penalty);
    return status;
}

const icl_reproduction icl_algorithms_distance = {
    .name = "algorithms-distance",
    .source = "arXiv 2211.15661",
    .about = "a transformer's distance to gradient descent, ridge and least squares, by position, depth, width, noise",
    .cost = {"3 s", "5 min", "weeks"},
    .is_shared = true,
    .run = reproduce,
};
