/*
 * The loss around models (arXiv 2310.01082, section 3): noise of the gradient before training, smoothness along the
 * steps of Adam and of SGD with momentum, and robust condition numbers along their trajectories.
 *
 * Noise: how far the gradient of a batch of 1000 sequences lies from that of many. Its distribution has a light tail
 * with normal inputs, and a heavy one with heavy-tailed inputs. The tail index is Hill's, of the largest 5 %: P(noise >
 * x) ~ x^-index.
 *
 * Smoothness: with the step s_t = x_(t+1) - x_t and the Hessian H_t there, the directional smoothness s_t^T H_t s_t /
 * |s_t|^2, lower for Adam than for SGD; and the local smoothness |H_t s_t| / |s_t|, which grows with the gradient's
 * norm: evidence of (L0, L1)-smoothness, |H| <= L0 + L1 |gradient|. Both use the loss on 1000 sequences, as many as in
 * a step's batch and fresh for each step; the study judges medians over steps. With many more heavy-tailed sequences,
 * the loss is that of a few sequences, for which Adam's models are wrong by orders of magnitude: on 4000 fixed ones the
 * order in S3 is the other way round (log ratio 4.8 +- .5, seeds 1 to 6).
 *
 * Condition: R = max |H_ii| / median |H_ii|, and the ratio of SGD's to Adam's after 750 and 1250 iterations in three
 * settings. H is that of the loss on a batch of 1000 sequences, as in the authors' code. If contexts are short or
 * inputs heavy-tailed, single sequences dominate it, so a seed's ratio is the geometric mean of the ratios on several
 * batches, the same for both optimizers.
 */
#include <inttypes.h>
#include <math.h>

#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"
#include "probe/curvature.h"

enum { BATCH = 1000, LAYERS = 3, ADAM = ICL_LANDSCAPE_ADAM, SGD = ICL_LANDSCAPE_SGD };

/* ---- Noise: a model before training for each setting and depth ---- */

enum { BINS = 40 };

#define TAIL .05

static const struct {
    const char *name, *about;
    size_t setting, layers;
    icl_scale first;
} models[] = {
    {"S1", "normal inputs, n = 20", ICL_LANDSCAPE_S1, LAYERS, ICL_SCALE_CI},
    {"S2", "normal inputs, n = 5", ICL_LANDSCAPE_S2, LAYERS, ICL_SCALE_SHORT},
    {"S3", "heavy-tailed inputs, n = 20", ICL_LANDSCAPE_S3, LAYERS, ICL_SCALE_CI},
    {"sphere", "inputs on the unit sphere, n = 20", ICL_LANDSCAPE_SPHERE, LAYERS, ICL_SCALE_SHORT},
    {"S1-depth2", "S1, 2 layers", ICL_LANDSCAPE_S1, 2, ICL_SCALE_SHORT},
    {"S1-depth6", "S1, 6 layers", ICL_LANDSCAPE_S1, 6, ICL_SCALE_SHORT},
    {"S1-depth8", "S1, 8 layers", ICL_LANDSCAPE_S1, 8, ICL_SCALE_FULL},
};

static const struct {
    size_t batches, sequences; /* sequences: for the full gradient, from which noise is the distance */
} noise_budgets[ICL_SCALES] = {{500, 40000}, {2000, 100000}, {10000, 100000}};

static void plan_noise(icl_study *study) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const icl_landscape_cell cell = {.setting = models[i].setting, .layers = models[i].layers, .steps = 1};
        if (study->scale >= models[i].first)
            ICL_ADD_CELL(study, .name = models[i].name, .data = models[i].about, .recipe = "landscape",
                         .settings = {icl_landscape_changes(&cell).text}, .is_untrained = true);
    }
}

/* LARGEST is over the median. SHARES are shares of the batches, in bins of equal width of log(noise / median). */
enum { MEDIAN = 0, INDEX, LARGEST, SHARES, NOISE_NUMBERS = SHARES + BINS };

/* Returns the noise over its median at a place in bins. */
static double noise_at(double bin) {
    return exp(log(.25) + bin * ((log(64) - log(.25)) / BINS));
}

static double distance(const double *a, const double *b, size_t size) {
    double square = 0;
    for (size_t i = 0; i < size; i++)
        square += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(square);
}

/* Sorts the distances. */
static void summarise(double *distances, size_t count, icl_number *numbers) {
    const size_t largest = (size_t)(TAIL * (double)count);
    const double median = icl_median(distances, count), index = icl_tail_index(distances, count, largest);
    const double low = log(.25), width = (log(64) - low) / BINS;

    numbers[MEDIAN].value = median;
    numbers[INDEX] = (icl_number){index, index / sqrt((double)largest)};
    numbers[LARGEST].value = distances[count - 1] / median;
    for (size_t i = 0; i < BINS; i++)
        numbers[SHARES + i].value = 0;
    for (size_t i = 0; i < count; i++) {
        const double bin = floor((log(distances[i] / median) - low) / width);
        numbers[SHARES + (bin < 0 ? 0 : bin >= BINS ? BINS - 1 : (size_t)bin)].value += 1 / (double)count;
    }
}

/* Measures the gradient [N] of many sequences at the trainer's parameters. */
static icl_status measure_gradient(const icl_study *study, icl_trainer *trainer, double *gradient, icl_error *error) {
    icl_landscape_view view = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_landscape_view_open(study, trainer, noise_budgets[study->scale].sequences, &view, error));
    ICL_TRY(icl_objective_gradient(view.objective, view.at, NULL, gradient, error));
done:
    icl_landscape_view_close(&view);
    return status;
}

/* Measures the noise. The batches' sequences are not among those of the full gradient. */
static icl_status measure_noise(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, icl_number *numbers,
                                icl_error *error) {
    const size_t count = noise_budgets[study->scale].batches, size = icl_model_size(icl_trainer_model(trainer));
    icl_landscape_view view = {0};
    double *full = NULL, *gradient = NULL, *distances = NULL;
    icl_status status = ICL_OK;

    icl_reproduce_say(study->run, "%s: %zu gradients", cell->name, count);
    ICL_TRY(icl_study_room(study, count, sizeof *distances, &distances, error));
    ICL_TRY(icl_study_room(study, size, sizeof *full, &full, error));
    ICL_TRY(icl_study_room(study, size, sizeof *gradient, &gradient, error));
    ICL_TRY(measure_gradient(study, trainer, full, error));
    ICL_TRY(icl_landscape_view_open(study, trainer, BATCH, &view, error));
    for (size_t i = 0; i < count; i++) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_objective_draw(view.objective, study->run->params->seed, ((uint64_t)1 << 20) + i, error));
        ICL_TRY(icl_objective_gradient(view.objective, view.at, NULL, gradient, error));
        distances[i] = distance(gradient, full, size);
    }
    summarise(distances, count, numbers);
done:
    icl_landscape_view_close(&view);
    return status;
}

static const icl_study_check_row noise_checks[] = {
    ICL_ROW(.quantity = "tail index of the noise", .number = INDEX,
            .note = "median {}; the largest of all batches is {} times that", .beside = {MEDIAN, LARGEST}),
};

static void draw_noise(icl_study *study, const icl_study_cell *cell) {
    double x[BINS], y[BINS];

    for (size_t i = 0; i < BINS; i++) {
        const double share = cell->numbers[SHARES + i].value;
        x[i] = noise_at((double)i + .5);
        y[i] = share > 0 ? share : (double)NAN; /* a logarithmic axis has no point for 0 */
    }
    ICL_STUDY_FIGURE(study, .name = ICL_PHRASE("noise-%s", cell->name),
                     .title = ICL_PHRASE("Gradient noise before training: %s", (const char *)cell->data),
                     .x_label = "|gradient of a batch - full gradient| / median", .y_label = "share of batches",
                     .log_x = true, .log_y = true, .count = 1,
                     .series = &(icl_series){"batches of 1000", ICL_SERIES_OURS, BINS, x, y, NULL});
}

static bool is_measured(const icl_study_cell *cell) {
    return cell && cell->is_measured;
}

/* Judges the median against the mode of the authors' histogram of S1, and the tails. */
static void conclude_noise(icl_study *study) {
    const icl_study_cell *light = icl_study_find(study, "S1"), *heavy = icl_study_find(study, "S3");

    if (is_measured(light))
        ICL_JUDGE(study, .what = "S1", .quantity = "median noise", ICL_OURS(light->numbers[MEDIAN]), .target = 2.1,
                  .tolerance = 1, .evidence = ICL_READ, .source = "authors' notebook: mode",
                  .note = "of one initial model");
    if (is_measured(light) && is_measured(heavy)) {
        const icl_number a = heavy->numbers[INDEX], b = light->numbers[INDEX];
        ICL_JUDGE(study, .what = "S3 against S1", .quantity = "ratio of the tail indices", .ours = a.value / b.value,
                  .standard_error = a.value / b.value * hypot(a.standard_error / a.value, b.standard_error / b.value),
                  .target = 1, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                  .source = "heavier with heavy-tailed inputs");
    }
    for (size_t i = 0; i < study->count; i++)
        if (is_measured(study->cells[i]))
            draw_noise(study, study->cells[i]);
}

const icl_reproduction icl_landscape_noise =
    ICL_STUDY(.name = "landscape-noise", .source = "arXiv 2310.01082, section 3",
              .about = "distribution of the stochastic gradient's noise before training, with its tail index",
              .claim = "The noise of the stochastic gradient has a heavier tail where inputs are heavy-tailed.",
              .scope = "A met table means that the noise of gradients has a heavier tail with heavy-tailed "
                       "inputs before any training; noise along a training and its effect on optimizers were not "
                       "tested.",
              .cost = {"3 s", "1 min", "5 min"}, .numbers = NOISE_NUMBERS, .plan = plan_noise, .measure = measure_noise,
              ICL_CHECKS(noise_checks), .conclude = conclude_noise);

/* ---- Smoothness and condition: at[] is the setting, the optimizer, and the number of the seed ---- */

/* Adds the cells of a setting: trainings with snapshots, or models before their training. */
static void add_seeds(icl_study *study, size_t setting, size_t seeds, size_t steps, bool is_untrained) {
    const char *name = icl_landscape_settings[setting].name;

    for (size_t seed = 0; seed < seeds; seed++)
        for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            const icl_landscape_cell cell = {setting, (icl_landscape_optimizer)optimizer, LAYERS, steps, 0, false};
            ICL_ADD_CELL(study, .seed = icl_study_seed(study, seed), .recipe = "landscape", .group = name,
                         .name = is_untrained ? ICL_PHRASE("%s, %s", name, icl_landscape_optimizers[optimizer])
                                              : icl_landscape_name(&cell).text,
                         .settings = {icl_landscape_changes(&cell).text,
                                      is_untrained ? "" : ICL_PHRASE("train.snapshot_every=%d", ICL_LANDSCAPE_EVERY)},
                         .is_untrained = is_untrained, .may_diverge = true, .at = {setting, optimizer, seed});
        }
}

static bool is_wanted(const icl_study *study, size_t setting) {
    const icl_study_cell *cell = icl_landscape_find(study, setting, ADAM, 0, 0);
    return cell && cell->is_wanted;
}

/* ---- Smoothness ---- */

enum { MOST_POINTS = 200, MOST_STEPS = ICL_LANDSCAPE_SEEDS * MOST_POINTS };

/* Only one step in `every` is measured. */
static const struct {
    size_t settings, seeds, steps, every;
} smoothness_budgets[ICL_SCALES] = {{1, 2, 250, 10}, {3, 6, 1500, 30}, {ICL_LANDSCAPE_SETTINGS, 6, 10000, 50}};

static void plan_smoothness(icl_study *study) {
    for (size_t setting = 0; setting < smoothness_budgets[study->scale].settings; setting++)
        add_seeds(study, setting, smoothness_budgets[study->scale].seeds, smoothness_budgets[study->scale].steps, true);
}

/* Numbers of each measured step: the directional smoothness, and log10 of the gradient's norm and of the local
 * smoothness; NaN follows the last step. */
enum {
    DIRECTIONAL = 0,
    GRADIENT = DIRECTIONAL + MOST_POINTS,
    LOCAL = GRADIENT + MOST_POINTS,
    SMOOTHNESS_NUMBERS = LOCAL + MOST_POINTS
};

/* Makes the trainer's next step s [N], from x, at which the view then looks, to x + s. */
static icl_status make_step(icl_landscape_view *view, double *step, icl_error *error) {
    ICL_CHECK(icl_landscape_view_look(view, error));
    ICL_CHECK(icl_trainer_run(view->trainer, 1, error));
    ICL_CHECK(icl_trainer_get_parameters(view->trainer, view->held, error));
    for (size_t i = 0; i < view->size; i++)
        step[i] = (double)view->held[i] - view->at[i];
    return ICL_OK;
}

/* *count is the number of steps measured before. gradient: [N] scratch. */
static icl_status measure_step(icl_landscape_view *view, const double *step, double *gradient, icl_number *numbers,
                               size_t *count, icl_error *error) {
    icl_smoothness smoothness = {0};
    double square = 0;

    ICL_CHECK(icl_smoothness_along(view->objective, view->at, step, &smoothness, error));
    ICL_CHECK(icl_objective_gradient(view->objective, view->at, NULL, gradient, error));
    for (size_t i = 0; i < view->size; i++)
        square += gradient[i] * gradient[i];
    if (!(smoothness.local > 0 && isfinite(smoothness.local) && square > 0 && isfinite(square)))
        return ICL_OK; /* the trainer skipped the step, or the loss overflows: nothing can be measured */
    numbers[DIRECTIONAL + *count].value = smoothness.directional;
    numbers[GRADIENT + *count].value = log10(square) / 2;
    numbers[LOCAL + (*count)++].value = log10(smoothness.local);
    return ICL_OK;
}

/* Run folders do not have consecutive steps, so the trainer runs here. A run that diverges ends early. */
static icl_status measure_smoothness(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer,
                                     icl_number *numbers, icl_error *error) {
    const size_t every = smoothness_budgets[study->scale].every, steps = smoothness_budgets[study->scale].steps;
    icl_landscape_view view = {0};
    double *vectors = NULL; /* the step, and the gradient */
    size_t count = 0;
    icl_status status = ICL_OK;

    icl_reproduce_say(study->run, "%s, seed %" PRIu32 ": %zu steps", cell->name, cell->seed, steps);
    ICL_TRY(icl_landscape_view_open(study, trainer, BATCH, &view, error));
    ICL_TRY(icl_study_room(study, 2 * view.size, sizeof *vectors, &vectors, error));
    for (size_t step = every; step <= steps; step += every) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_trainer_run(trainer, every - 1, error));
        ICL_TRY(make_step(&view, vectors, error));
        ICL_TRY(icl_objective_draw(view.objective, study->run->params->seed, step, error));
        ICL_TRY(measure_step(&view, vectors, vectors + view.size, numbers, &count, error));
    }
done:
    icl_landscape_view_close(&view);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : status;
}

/* Copies the numbers of a cell's steps from `first` on, up to the first NaN; returns how many there are. */
static size_t copy_steps(const icl_study_cell *cell, size_t first, double *values) {
    size_t count = 0;

    while (count < MOST_POINTS && !isnan(cell->numbers[first + count].value)) {
        values[count] = cell->numbers[first + count].value;
        count++;
    }
    return count;
}

/* Copies all steps of one optimizer. */
typedef struct cloud {
    size_t count;
    double gradients[MOST_STEPS], smoothness[MOST_STEPS];
} cloud;

static void fill_cloud(const icl_study *study, size_t setting, size_t optimizer, cloud *steps) {
    const icl_study_cell *cell;

    steps->count = 0;
    for (size_t seed = 0; (cell = icl_landscape_find(study, setting, optimizer, seed, 0)) != NULL; seed++) {
        copy_steps(cell, LOCAL, steps->smoothness + steps->count);
        steps->count += copy_steps(cell, GRADIENT, steps->gradients + steps->count);
    }
}

static void judge_slope(icl_study *study, const icl_study_cell *point) {
    icl_number slope;
    cloud steps;

    fill_cloud(study, point->at[0], point->at[1], &steps);
    slope.value = icl_slope(steps.gradients, steps.smoothness, steps.count, &slope.standard_error);
    ICL_JUDGE(study, .quantity = "slope of log smoothness over log gradient", ICL_OURS(slope), .target = 0,
              .criterion = ICL_AT_LEAST, .evidence = ICL_STATED, .source = "a rising cloud",
              .note = ICL_PHRASE("%zu steps", steps.count));
}

/* Computes log(Adam's median directional smoothness / SGD's), seed by seed; medians of steps into valleys can be
 * negative, and such seeds are left out. */
static void judge_direction(icl_study *study, size_t setting) {
    const size_t seeds = smoothness_budgets[study->scale].seeds;
    const char *aside = setting == ICL_LANDSCAPE_S3 ? "; of 4000 fixed sequences it was the other way round" : "";
    double gaps[ICL_LANDSCAPE_SEEDS] = {0}, medians[ICL_LANDSCAPE_OPTIMIZERS] = {0};
    size_t count = 0;

    for (size_t seed = 0; seed < seeds; seed++) {
        double median[ICL_LANDSCAPE_OPTIMIZERS], values[MOST_POINTS];
        for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            const icl_study_cell *cell = icl_landscape_find(study, setting, optimizer, seed, 0);
            median[optimizer] = icl_median(values, copy_steps(cell, DIRECTIONAL, values));
            medians[optimizer] += median[optimizer] / (double)seeds;
        }
        if (median[ADAM] > 0 && median[SGD] > 0)
            gaps[count++] = log(median[ADAM] / median[SGD]);
    }
    ICL_JUDGE(
        study, .what = icl_landscape_settings[setting].name, .quantity = "log of directional smoothness, Adam / SGD",
        .ours = count > 0 ? icl_mean(gaps, count) : (double)NAN, .standard_error = icl_standard_error(gaps, count),
        .target = 0, .criterion = ICL_AT_MOST, .evidence = ICL_STATED, .source = "lower for Adam",
        .note = ICL_PHRASE("medians along the way: Adam %.3g, SGD %.3g; %zu of %zu seeds%s", medians[ADAM],
                           medians[SGD], count, seeds, aside));
}

static void draw_smoothness(icl_study *study, size_t setting) {
    const icl_landscape_setting *shown = &icl_landscape_settings[setting];
    cloud steps[ICL_LANDSCAPE_OPTIMIZERS];
    icl_series series[ICL_LANDSCAPE_OPTIMIZERS];

    for (size_t i = 0; i < ICL_LANDSCAPE_OPTIMIZERS; i++) {
        fill_cloud(study, setting, i, &steps[i]);
        series[i] = (icl_series){icl_landscape_labels[i], ICL_SERIES_CLOUD,    steps[i].count,
                                 steps[i].gradients,      steps[i].smoothness, NULL};
    }
    ICL_STUDY_FIGURE(study, .name = ICL_PHRASE("smoothness-%s", shown->name),
                     .title = ICL_PHRASE("Local smoothness against the gradient: %s", shown->about),
                     .x_label = "log10 of the gradient's norm", .y_label = "log10 of |H s| / |s|",
                     .count = ICL_LANDSCAPE_OPTIMIZERS, .series = series);
}

static void conclude_smoothness(icl_study *study) {
    for (size_t setting = 0; setting < ICL_LANDSCAPE_SETTINGS; setting++)
        if (is_wanted(study, setting)) {
            judge_direction(study, setting);
            draw_smoothness(study, setting);
        }
}

const icl_reproduction icl_landscape_smoothness = ICL_STUDY(
        .name = "landscape-smoothness", .source = "arXiv 2310.01082, section 3",
        .about = "smoothness of the loss along the steps of Adam and SGD, and against the gradient's norm",
        .claim =
            "Adam steps in directions along which the loss is smoother than along those of SGD, and the loss is less "
            "smooth where its gradient is larger.",
        .scope = "A met table means that smoothness rises with the gradient and is lower along Adam's "
                 "steps in these small models; other batches than those of 1,000 sequences and larger "
                 "models were not judged.",
        .cost = {"2 s", "2 min", "20 min"}, .numbers = SMOOTHNESS_NUMBERS, .plan = plan_smoothness,
        .measure = measure_smoothness, .judge = judge_slope, .conclude = conclude_smoothness);

/* ---- Condition ---- */

enum { MOST_MODELS = 41, CONDITION_SETTINGS = 3, JUDGED_TIMES = 2 };

/* H is measured on this many batches if ratios are judged, otherwise on one. */
static const struct {
    size_t settings, seeds, steps, batches;
    size_t judged[JUDGED_TIMES]; /* iterations; 0: none */
} condition_budgets[ICL_SCALES] = {
    {1, 2, 250, 1, {250, 0}},
    {CONDITION_SETTINGS, 6, 1250, 5, {750, 1250}},
    {CONDITION_SETTINGS, 6, 10000, 20, {750, 1250}},
};

/* The paper prints mean and standard deviation of the ratio over six seeds. */
static const struct {
    double mean, deviation;
} printed[CONDITION_SETTINGS][JUDGED_TIMES] = {
    {{1.76, .40}, {1.58, .41}}, {{3.14, .97}, {5.98, 2.86}}, {{9.57, 13.3}, {6.53, 3.55}}};

static void plan_condition(icl_study *study) {
    for (size_t setting = 0; setting < condition_budgets[study->scale].settings; setting++)
        add_seeds(study, setting, condition_budgets[study->scale].seeds, condition_budgets[study->scale].steps, false);
}

/* Logarithms to base e: of R on one batch at each snapshot; if ratios are judged, the mean over the batches of log R,
 * and of log(max |lambda| / median). */
enum {
    ALONG = 0,
    JUDGED = MOST_MODELS,
    EIGENVALUES = JUDGED + JUDGED_TIMES,
    CONDITION_NUMBERS = EIGENVALUES + JUDGED_TIMES
};

static icl_status measure_batch(const icl_study *study, icl_landscape_view *view, double *hessian, size_t batch,
                                icl_robust_condition *condition, icl_error *error) {
    ICL_CHECK(icl_reproduce_poll(study->run, error));
    ICL_CHECK(icl_objective_draw(view->objective, study->run->params->seed, batch, error));
    ICL_CHECK(icl_hessian(view->objective, view->at, hessian, error));
    return icl_robust_condition_of(hessian, view->size, condition, error);
}

/* Averages over batches 1 to `batches`; `condition` is the result of batch 0, which is used if one batch is enough. */
static icl_status measure_judged(const icl_study *study, icl_landscape_view *view, double *hessian,
                                 icl_robust_condition condition, size_t judged, icl_number *numbers, icl_error *error) {
    const size_t batches = condition_budgets[study->scale].batches;
    double diagonal = 0, eigenvalues = 0;

    for (size_t batch = 1; batch <= batches; batch++) {
        if (batches > 1)
            ICL_CHECK(measure_batch(study, view, hessian, batch, &condition, error));
        diagonal += log(condition.diagonal) / (double)batches;
        eigenvalues += log(condition.eigenvalues) / (double)batches;
    }
    numbers[JUDGED + judged].value = diagonal;
    numbers[EIGENVALUES + judged].value = eigenvalues;
    return ICL_OK;
}

static icl_status measure_condition(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                    icl_number *numbers, icl_error *error) {
    const size_t *judged = condition_budgets[study->scale].judged;
    icl_landscape_view view = {0};
    icl_robust_condition condition = {0};
    double *hessian = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_landscape_view_open(study, trained, BATCH, &view, error));
    ICL_TRY(icl_study_room(study, view.size * view.size, sizeof *hessian, &hessian, error));
    for (size_t step = 0; step <= condition_budgets[study->scale].steps; step += ICL_LANDSCAPE_EVERY) {
        if (step == 0 && cell->at[1] == SGD)
            continue; /* both start alike */
        ICL_TRY(icl_landscape_view_go(study, cell, step, &view, error));
        ICL_TRY(measure_batch(study, &view, hessian, 0, &condition, error));
        numbers[ALONG + step / ICL_LANDSCAPE_EVERY].value = log(condition.diagonal);
        for (size_t k = 0; k < JUDGED_TIMES; k++)
            if (judged[k] == step && step > 0)
                ICL_TRY(measure_judged(study, &view, hessian, condition, k, numbers, error));
    }
done:
    icl_landscape_view_close(&view);
    return status;
}

/* Computes log(R of SGD / R of Adam) for each seed; returns the number of seeds. If Adam diverged the value is minus
 * infinity, the worst result for it; seeds in which only SGD diverged are left out. */
static size_t log_ratios(const icl_study *study, size_t setting, size_t number, double ratios[ICL_LANDSCAPE_SEEDS]) {
    size_t count = 0;

    for (size_t seed = 0; seed < condition_budgets[study->scale].seeds; seed++) {
        const double adam = icl_landscape_find(study, setting, ADAM, seed, 0)->numbers[number].value;
        const double sgd = icl_landscape_find(study, setting, SGD, seed, 0)->numbers[number].value;
        if (isnan(adam))
            ratios[count++] = -(double)INFINITY;
        else if (!isnan(sgd))
            ratios[count++] = sgd - adam;
    }
    return count;
}

/* Judges the mean over seeds, as printed; single seeds scatter by factors of ten. */
static void judge_ratio(icl_study *study, size_t setting, size_t judged) {
    const size_t seeds = condition_budgets[study->scale].seeds;
    double logs[ICL_LANDSCAPE_SEEDS] = {0}, ratios[ICL_LANDSCAPE_SEEDS] = {0}, others[ICL_LANDSCAPE_SEEDS] = {0};
    const size_t count = log_ratios(study, setting, JUDGED + judged, logs);
    const size_t other_count = log_ratios(study, setting, EIGENVALUES + judged, others);
    size_t above = 0;

    for (size_t i = 0; i < count; i++) {
        ratios[i] = exp(logs[i]);
        above += logs[i] > 0;
    }
    const icl_phrase theirs = icl_phrase_print("printed %.3g, deviation %.3g; ", printed[setting][judged].mean,
                                               printed[setting][judged].deviation);
    const double error = icl_standard_error(ratios, count);
    ICL_JUDGE(study,
              .what = ICL_PHRASE("%s, iteration %zu", icl_landscape_settings[setting].name,
                                 condition_budgets[study->scale].judged[judged]),
              .quantity = "R of SGD / R of Adam", .ours = count > 0 ? icl_mean(ratios, count) : (double)NAN,
              .standard_error = error, .target = 1, .criterion = ICL_AT_LEAST, .evidence = ICL_STATED,
              .source = "R above 1 in every setting",
              .note = ICL_PHRASE("%s%zu seeds from %" PRIu32 ": %zu of %zu above 1, deviation %.2g, geometric mean "
                                 "%.3g, by eigenvalues %.3g",
                                 study->scale == ICL_SCALE_CI ? "" : theirs.text, seeds, study->run->params->seed,
                                 above, count, error * sqrt((double)count), exp(icl_mean(logs, count)),
                                 exp(icl_mean(others, other_count))));
}

/* Judges whether the setting's ratio lies above that of S1: not below it by more than two standard errors. */
static void judge_order(icl_study *study, size_t setting, size_t judged) {
    double ratios[ICL_LANDSCAPE_SEEDS] = {0}, firsts[ICL_LANDSCAPE_SEEDS] = {0};
    const size_t count = log_ratios(study, setting, JUDGED + judged, ratios);
    const size_t first_count = log_ratios(study, ICL_LANDSCAPE_S1, JUDGED + judged, firsts);
    const double deviation = hypot(icl_standard_error(ratios, count), icl_standard_error(firsts, first_count));

    ICL_JUDGE(study,
              .what = ICL_PHRASE("%s against S1, iteration %zu", icl_landscape_settings[setting].name,
                                 condition_budgets[study->scale].judged[judged]),
              .quantity = "log of the ratio of the ratios",
              .ours = icl_mean(ratios, count) - icl_mean(firsts, first_count), .standard_error = deviation, .target = 0,
              .tolerance = 2 * deviation, .criterion = ICL_AT_LEAST, .evidence = ICL_STATED,
              .source = "larger in S2 and S3 than in S1", .note = "tolerance: two standard errors");
}

/* Copies log R of each seed at a snapshot, NaN if it diverged; returns the number of seeds. Both optimizers start
 * alike. */
static size_t along(const icl_study *study, size_t setting, size_t optimizer, size_t point,
                    double values[ICL_LANDSCAPE_SEEDS]) {
    const size_t seeds = condition_budgets[study->scale].seeds, trained = point == 0 ? ADAM : optimizer;

    for (size_t seed = 0; seed < seeds; seed++)
        values[seed] = icl_landscape_find(study, setting, trained, seed, 0)->numbers[ALONG + point].value;
    return seeds;
}

/* Shows setting 1 by snapshot, next to what can be read off the picture in the authors' notebook. */
static void judge_curve(icl_study *study) {
    static const struct {
        const char *what;
        size_t optimizer, point;
        double target;
    } seen[] = {{"S1, both, iteration 0", ADAM, 0, 270},
                {"S1, Adam, iteration 250", ADAM, 1, 8},
                {"S1, SGD, iteration 250", SGD, 1, 300}};

    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        double values[ICL_LANDSCAPE_SEEDS];
        const size_t seeds = along(study, ICL_LANDSCAPE_S1, seen[i].optimizer, seen[i].point, values);
        for (size_t seed = 0; seed < seeds; seed++)
            values[seed] /= log(10);
        ICL_JUDGE(study, .what = seen[i].what, .quantity = "log10 of R", .ours = icl_mean(values, seeds),
                  .standard_error = icl_standard_error(values, seeds), .target = log10(seen[i].target), .tolerance = .6,
                  .evidence = ICL_READ, .source = "authors' notebook",
                  .note = "off a picture of one run; tolerance: a factor of 4");
    }
}

/* Draws geometric means over the seeds that did not diverge. */
static void draw_condition(icl_study *study, size_t setting) {
    const size_t points = condition_budgets[study->scale].steps / ICL_LANDSCAPE_EVERY + 1;
    double iterations[MOST_MODELS], means[ICL_LANDSCAPE_OPTIMIZERS][MOST_MODELS];
    icl_series series[ICL_LANDSCAPE_OPTIMIZERS];

    for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
        for (size_t point = 0; point < points; point++) {
            double values[ICL_LANDSCAPE_SEEDS];
            const size_t seeds = along(study, setting, optimizer, point, values);
            size_t count = 0;
            for (size_t seed = 0; seed < seeds; seed++)
                if (!isnan(values[seed]))
                    values[count++] = values[seed];
            iterations[point] = (double)(point * ICL_LANDSCAPE_EVERY);
            means[optimizer][point] = exp(icl_mean(values, count));
        }
        series[optimizer] = (icl_series){icl_landscape_labels[optimizer],
                                         optimizer == ADAM ? ICL_SERIES_OURS : ICL_SERIES_LINE,
                                         points,
                                         iterations,
                                         means[optimizer],
                                         NULL};
    }
    ICL_STUDY_FIGURE(study, .name = ICL_PHRASE("condition-%s", icl_landscape_settings[setting].name),
                     .title = ICL_PHRASE("Robust condition number: %s", icl_landscape_settings[setting].about),
                     .x_label = "iteration", .y_label = "max |H_ii| / median |H_ii|", .log_y = true,
                     .count = ICL_LANDSCAPE_OPTIMIZERS, .series = series);
}

static void conclude_condition(icl_study *study) {
    for (size_t setting = 0; setting < CONDITION_SETTINGS; setting++) {
        if (!is_wanted(study, setting))
            continue;
        if (setting == ICL_LANDSCAPE_S1)
            judge_curve(study);
        for (size_t k = 0; k < JUDGED_TIMES && condition_budgets[study->scale].judged[k] > 0; k++) {
            judge_ratio(study, setting, k);
            if (setting != ICL_LANDSCAPE_S1 && is_wanted(study, ICL_LANDSCAPE_S1))
                judge_order(study, setting, k);
        }
        draw_condition(study, setting);
    }
}

const icl_reproduction icl_landscape_condition = ICL_STUDY(
        .name = "landscape-condition", .source = "arXiv 2310.01082, section 3",
        .about = "robust condition numbers of the loss along the trajectories of Adam and SGD",
        .claim =
            "Adam walks where the loss is better conditioned than where SGD does, and more so with short contexts or "
            "heavy-tailed inputs.",
        .scope = "A met table means that Adam's path has a lower robust condition number than SGD's at two "
                 "moments of these trainings; that this causes Adam's lead was not tested.",
        .cost = {"3 s", "4 min", "30 min"}, .numbers = CONDITION_NUMBERS, .plan = plan_condition,
        .measure = measure_condition, .conclude = conclude_condition);
