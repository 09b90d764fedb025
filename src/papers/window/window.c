/*
 * Windows of softmax attention: Collins et al. 2024, "In-Context Learning with Transformers: Softmax Attention Adapts
 * to Function Lipschitzness" (arXiv 2402.11639). A prediction is an average of labels, with weights softmax(x_i^T M
 * x_q); the larger M, the narrower the window of inputs that count. The paper's constants, grids and plotted values
 * were not at hand.
 *
 * Width (figure 3): the spectral norm of M against the Lipschitz constant, the noise and the length of the context.
 * The study judges whether each trained M is near the best w I for its task, which a search finds here, and whether w
 * rises with L, 1/sigma and n. For affine functions the loss is (L^2 / 3d) E ||sum_i beta_i x_i - x_q||^2 + sigma^2 E
 * sum_i beta_i^2: only L / sigma matters.
 *
 * Other functions (figure 5): a window has learned the Lipschitz constant, not the class of functions. The paper trains
 * on L = 1 and finds low errors on any class with L = 1, high errors on the class of training with another L. Here
 * every window meets every task; cells are chosen by the classes of the tests. "Any L-Lipschitz task" is more than
 * these classes: the last class of tests has functions that no training knows, Gaussian processes on the circle.
 *
 * Functions of k of d directions (section 4 and figure 10): softmax attention learns which they are, M near w B B^T,
 * and linear attention does not. The alignment rho(M, B) (numeric/matrix.h) and the test error while training, for
 * affine, quadratic and cosine functions, each with both kinds of attention from the same random M. Linear attention is
 * blind to even functions: E[y x] = 0. On affine ones it takes a step of gradient descent, whose M keeps to the
 * subspace as well; but it cannot learn the offset, so that the error distinguishes the two.
 */
#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "model/model.h"
#include "numeric/matrix.h"
#include "papers/papers.h"
#include "probe/window.h"
#include "task/parts.h"

/* ---- One window ---- */

enum { MOST_ELEMENTS = 36 }; /* entries of M, d <= 6 */

/* A task of the recipe "window", and the kind of its attention. */
typedef struct window {
    const char *function; /* value of task.function */
    size_t d, n;
    double lipschitz, sigma;
    size_t subspace; /* k, with a random initial M; 0: functions of all of x, and M = I at first */
    bool is_linear;  /* linear attention, without the exponential */
} window;

static icl_phrase folder_of(const window *w) {
    return icl_phrase_print("%s-d%zu%s-n%zu-L%.3g-sigma%.3g%s", w->function, w->d, w->subspace > 0 ? "-k2" : "", w->n,
                            w->lipschitz, w->sigma, w->is_linear ? "-linear" : "");
}

/* Writes the settings that describe a window's task. */
static icl_phrase task_of(const window *w) {
    return icl_phrase_print("task.function=%s task.d=%zu task.n=%zu task.lipschitz=%.9g task.noise=fixed:%.9g "
                            "task.subspace=%zu eval.seed=1",
                            w->function, w->d, w->n, w->lipschitz, w->sigma, w->subspace);
}

static icl_phrase training_of(size_t steps, size_t batch, double rate, size_t snapshot_every) {
    return icl_phrase_print("train.steps=%zu train.batch=%zu train.learning_rate=%.9g train.snapshot_every=%zu", steps,
                            batch, rate, snapshot_every);
}

static icl_status read_matrix(icl_trainer *trainer, double *M, icl_error *error) {
    const size_t d = icl_task_dimension(icl_trainer_task(trainer));
    float values[MOST_ELEMENTS];

    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    return icl_matrix_of_model(icl_trainer_model(trainer), values, "M", d, d, M, error);
}

static icl_status draw_sequences(const icl_study *study, const icl_study_cell *cell, icl_task_purpose purpose,
                                 size_t count, icl_window_set *set, icl_error *error) {
    const icl_reproduce_params *params = study->run->params;

    ICL_CHECK(icl_reproduce_poll(study->run, error));
    return icl_window_draw(params->backend, cell->complete, purpose, params->seed, count, set, error);
}

/* Numbers of a comparison: the ratio of one window's loss to another's, and both losses. */
enum { RATIO = 0, LOSS, OTHER_LOSS, COMPARED };

static void note_ratio(const icl_window_ratio *ratio, icl_number *numbers) {
    numbers[RATIO] = (icl_number){ratio->ratio, ratio->standard_error};
    numbers[LOSS].value = ratio->of.loss;
    numbers[OTHER_LOSS].value = ratio->to.loss;
}

static void copy_values(const icl_number *numbers, size_t count, double *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = numbers[i].value;
}

static icl_status measure_matrix(icl_trainer *trained, icl_number *numbers, icl_error *error) {
    const size_t d = icl_task_dimension(icl_trainer_task(trained));
    double M[MOST_ELEMENTS];

    ICL_CHECK(read_matrix(trained, M, error));
    for (size_t i = 0; i < d * d; i++)
        numbers[i].value = M[i];
    return ICL_OK;
}

/* ---- Width: a window at each place of an axis ---- */

typedef struct width {
    window window;
    double known_best; /* the best w by another search; 0: not searched */
    icl_scale first;
} width;

static const width by_lipschitz[] = {
    {{"affine", 5, 20, .3, 1}, .11, ICL_SCALE_SHORT},  {{"affine", 5, 20, 1, 1}, .98, ICL_SCALE_CI},
    {{"affine", 5, 20, 3, 1}, 2.9, ICL_SCALE_CI},      {{"affine", 5, 20, 10, 1}, 5.7, ICL_SCALE_CI},
    {{"affine", 5, 20, 30, 1}, 6.6, ICL_SCALE_SHORT},  {{"affine", 2, 20, .3, 1}, .25, ICL_SCALE_SHORT},
    {{"affine", 2, 20, 1, 1}, 1.5, ICL_SCALE_SHORT},   {{"affine", 2, 20, 3, 1}, 3.8, ICL_SCALE_SHORT},
    {{"affine", 2, 20, 10, 1}, 8.6, ICL_SCALE_SHORT},  {{"affine", 2, 20, 30, 1}, 14.8, ICL_SCALE_SHORT},
    {{"affine", 5, 100, .3, 1}, .50, ICL_SCALE_SHORT}, {{"affine", 5, 100, 1, 1}, 2.5, ICL_SCALE_SHORT},
    {{"affine", 5, 100, 3, 1}, 5.0, ICL_SCALE_SHORT},  {{"affine", 5, 100, 10, 1}, 9.8, ICL_SCALE_SHORT},
    {{"affine", 5, 100, 30, 1}, 11.3, ICL_SCALE_SHORT}};

/* An even function of small range: scores do not correlate with it, so that with large noise nothing beats the mean of
 * all labels, w = 0. The cosine has no windows there. */
static const width by_noise[] = {
    {{"relu", 5, 20, 1, 1 / .3}, 0, ICL_SCALE_SHORT},  {{"relu", 5, 20, 1, 1}, 0, ICL_SCALE_CI},
    {{"relu", 5, 20, 1, 1. / 3}, 0, ICL_SCALE_CI},     {{"relu", 5, 20, 1, .1}, 0, ICL_SCALE_CI},
    {{"relu", 5, 20, 1, 1. / 30}, 0, ICL_SCALE_SHORT}, {{"relu", 2, 20, 1, 1 / .3}, 0, ICL_SCALE_SHORT},
    {{"relu", 2, 20, 1, 1}, 0, ICL_SCALE_SHORT},       {{"relu", 2, 20, 1, 1. / 3}, 0, ICL_SCALE_SHORT},
    {{"relu", 2, 20, 1, .1}, 0, ICL_SCALE_SHORT},      {{"relu", 2, 20, 1, 1. / 30}, 0, ICL_SCALE_SHORT},
    {{"cosine", 2, 20, 1, 1. / 3}, 0, ICL_SCALE_FULL}, {{"cosine", 2, 20, 1, .1}, 0, ICL_SCALE_FULL},
    {{"cosine", 2, 20, 1, 1. / 30}, 0, ICL_SCALE_FULL}};

static const width by_context[] = {
    {{"affine", 5, 5, 3, 1}, 0, ICL_SCALE_CI},      {{"affine", 5, 10, 3, 1}, 0, ICL_SCALE_SHORT},
    {{"affine", 5, 20, 3, 1}, 2.9, ICL_SCALE_CI},   {{"affine", 5, 50, 3, 1}, 0, ICL_SCALE_CI},
    {{"affine", 5, 100, 3, 1}, 5, ICL_SCALE_SHORT}, {{"affine", 2, 5, 3, 1}, 0, ICL_SCALE_SHORT},
    {{"affine", 2, 10, 3, 1}, 0, ICL_SCALE_SHORT},  {{"affine", 2, 20, 3, 1}, 3.8, ICL_SCALE_SHORT},
    {{"affine", 2, 50, 3, 1}, 0, ICL_SCALE_SHORT},  {{"affine", 2, 100, 3, 1}, 0, ICL_SCALE_SHORT}};

typedef struct axis {
    const char *study, *name, *label, *title; /* texts of the figure */
    const width *widths;
    size_t count, ci_batch;
} axis;

static const axis axes[] = {
    {"window-lipschitz", "L", "L / sigma", "Softmax attention: narrower windows for steeper functions (figure 3)",
     by_lipschitz, sizeof by_lipschitz / sizeof *by_lipschitz, 512},
    {"window-noise", "1 / sigma", "1 / sigma", "Softmax attention: wider windows for noisier labels (figure 3)",
     by_noise, sizeof by_noise / sizeof *by_noise, 512},
    {"window-context", "n", "n", "Softmax attention: narrower windows in longer contexts (figure 3)", by_context,
     sizeof by_context / sizeof *by_context, 256},
};

static const axis *axis_of(const icl_study *study) {
    const axis *along = axes;

    while (strcmp(along->study, study->run->reproduction->name) != 0)
        along++;
    return along;
}

static const struct {
    size_t steps, batch, sequences;
} width_budgets[ICL_SCALES] = {{400, 0, 8192}, {1500, 512, 32768}, {6000, 1024, 100000}};

/* The ratio of a step's signal to its noise grows with L / sigma, and with n; if it is low, many sequences and small
 * steps keep M's random part small, and if it is high, large steps reach large w. */
static icl_phrase choose_training(const window *w, size_t steps, size_t batch) {
    const double ratio = w->lipschitz / w->sigma;
    const double rate = ratio < 1 ? .003 : ratio < 3 ? .03 : ratio < 10 ? .1 : ratio < 30 ? .3 : 1;
    const size_t times = ratio >= 1 ? 1 : w->n > 50 ? 2 : 16;

    return training_of(steps, times * batch, rate, 0);
}

static void plan_width(icl_study *study) {
    const axis *along = axis_of(study);
    const bool by_n = along->widths == by_context;
    const size_t batch = study->scale == ICL_SCALE_CI ? along->ci_batch : width_budgets[study->scale].batch;

    for (size_t i = 0; i < along->count; i++) {
        const width *row = &along->widths[i];
        const window *w = &row->window;
        const icl_phrase folder = folder_of(w), curve = icl_phrase_print("%s, d %zu", w->function, w->d);
        if (study->scale < row->first)
            continue;
        ICL_ADD_CELL(study, .recipe = "window", .folder = folder.text, .is_outside = true, .group = folder.text,
                     .name = ICL_PHRASE("%s, n %zu, L %.3g, sigma %.3g", curve.text, w->n, w->lipschitz, w->sigma),
                     .settings = {task_of(w).text, choose_training(w, width_budgets[study->scale].steps, batch).text},
                     .curve = by_n ? curve.text : ICL_PHRASE("%s, n %zu", curve.text, w->n),
                     .x = by_n ? (double)w->n : w->lipschitz / w->sigma, .data = row);
    }
}

/* Numbers after the comparison with the best window: its w, ||M||_2, Dist(M, I) (numeric/matrix.h), the loss of the
 * mean of all labels, and over how many labels and how far the trained window averages. */
enum { BEST = COMPARED, NORM, DISTANCE, MEAN_LOSS, NEIGHBOURS, REACH, WIDTH_NUMBERS };

/* The best window is searched for on separate sequences. */
static icl_status measure_width(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                                icl_error *error) {
    const size_t sequences = width_budgets[study->scale].sequences, d = icl_task_dimension(icl_trainer_task(trained));
    icl_window_set fitting = {0}, fresh = {0};
    double M[MOST_ELEMENTS], scaled[MOST_ELEMENTS] = {0}, smallest;
    icl_status status = ICL_OK;

    ICL_TRY(read_matrix(trained, M, error));
    ICL_TRY(icl_singular_extremes(M, d, d, &smallest, &numbers[NORM].value, error));
    numbers[DISTANCE].value = icl_matrix_distance(M, d);
    ICL_TRY(draw_sequences(study, cell, ICL_FOR_FITTING, sequences, &fitting, error));
    ICL_TRY(draw_sequences(study, cell, ICL_FOR_EVALUATION, sequences, &fresh, error));
    numbers[BEST].value = icl_window_search(&fitting, NULL);
    numbers[MEAN_LOSS].value = icl_window_measure(&fresh, scaled, true).loss;
    for (size_t i = 0; i < d; i++)
        scaled[i * d + i] = numbers[BEST].value;
    const icl_window_ratio ratio = icl_window_compare(&fresh, M, true, scaled, true);
    note_ratio(&ratio, numbers);
    numbers[NEIGHBOURS].value = ratio.of.neighbours;
    numbers[REACH].value = ratio.of.reach;
done:
    icl_window_release(&fitting);
    icl_window_release(&fresh);
    return status;
}

static double best_width(const icl_study *study, const icl_study_cell *cell) {
    (void)study;
    return cell->numbers[BEST].value;
}

static const icl_study_check_row width_checks[] = {
    ICL_ROW(.quantity = "spectral norm of M", .number = NORM, .expected = best_width, .relative = {.25, .2, .1},
            .evidence = ICL_COMPUTED, .source = "best w I, searched for here",
            .note = "averages over {} labels, within {} of the query", .beside = {NEIGHBOURS, REACH}),
    ICL_ROW(.quantity = "loss / best window's", .number = RATIO, .target = 1, .absolute = {.02, .02, .02},
            .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "best w I, searched for here",
            .note = "loss {}, of the best window {}, of the mean label {}", .beside = {LOSS, OTHER_LOSS, MEAN_LOSS}),
    ICL_ROW(.quantity = "Dist(M, I)", .number = DISTANCE, .absolute = {.25, .2, .1}, .criterion = ICL_AT_MOST,
            .evidence = ICL_STATED, .source = "authors' reply: optimal M are w I"),
};

/* Judges a width. The other search knows the best w only to one step of its grid: 1 / .85 = 1.18. */
static void judge_width(icl_study *study, const icl_study_cell *cell) {
    const width *row = cell->data;

    if (row->known_best > 0)
        ICL_JUDGE(study, .quantity = "best w", ICL_OURS(cell->numbers[BEST]), .target = row->known_best,
                  .tolerance = .18 * row->known_best, .evidence = ICL_COMPUTED,
                  .source = "independent search on a grid of 15 %");
}

/* Returns the least ratio of a spectral norm to the one before on that curve; infinite if there are no two. */
static double least_ratio(const icl_study *study, const char *curve) {
    const icl_study_cell *before = NULL;
    double least = HUGE_VAL;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (!cell->is_wanted || strcmp(cell->curve, curve) != 0)
            continue;
        if (before)
            least = fmin(least, cell->numbers[NORM].value / before->numbers[NORM].value);
        before = cell;
    }
    return least;
}

static void judge_order(icl_study *study, const char *curve) {
    const double least = least_ratio(study, curve);

    if (least < HUGE_VAL)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s: rises with %s", curve, axis_of(study)->name),
                  .quantity = "least ratio of neighbours", .ours = least, .target = 1, .criterion = ICL_AT_LEAST,
                  .evidence = ICL_STATED, .source = "figure 3, authors' reply");
}

static void conclude_width(icl_study *study) {
    const axis *along = axis_of(study);
    icl_curves curves = ICL_CURVES(.name = along->study, .title = along->title, .x_label = along->label,
                                   .y_label = "spectral norm of M", .log_x = true, .log_y = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const double known_best = ((const width *)cell->data)->known_best;
        if (i == 0 || strcmp(study->cells[i - 1]->curve, cell->curve) != 0)
            judge_order(study, cell->curve);
        if (!cell->is_wanted)
            continue;
        icl_study_plot(study, &curves, cell->curve, ICL_SERIES_OURS, cell->x, cell->numbers[NORM].value);
        icl_study_plot(study, &curves, ICL_PHRASE("%s, best w", cell->curve), ICL_SERIES_REFERENCE, cell->x,
                       cell->numbers[BEST].value);
        if (known_best > 0)
            icl_study_plot(study, &curves, ICL_PHRASE("%s, on a grid of 15 %%", cell->curve), ICL_SERIES_PUBLISHED,
                           cell->x, known_best);
    }
    icl_study_draw(study, &curves);
}

#define WIDTH_STUDY                                                                                                    \
    .source = "arXiv 2402.11639, figure 3", .numbers = WIDTH_NUMBERS, .plan = plan_width, .measure = measure_width,    \
    ICL_CHECKS(width_checks), .judge = judge_width, .conclude = conclude_width

const icl_reproduction icl_window_lipschitz =
    ICL_STUDY(.name = "window-lipschitz",
              .about = "the width of softmax attention's window against the Lipschitz constant of affine functions",
              .claim = "Softmax attention learns a narrower window for functions with a larger Lipschitz constant.",
              .scope = "A met table means that a trained window is the best multiple of the identity for its "
                       "slope, and rises with it, on inputs of the unit sphere in 2 and 5 dimensions; other laws "
                       "of inputs and several heads were not tested.",
              .cost = {"3 s", "1 min", "10 min"}, WIDTH_STUDY);

const icl_reproduction icl_window_noise =
    ICL_STUDY(.name = "window-noise",
              .about = "the width of softmax attention's window against the noise of the labels",
              .claim = "Softmax attention learns a wider window where labels are noisier.",
              .scope = "A met table means that a trained window is the best multiple of the identity for its "
                       "noise and is wider for more; noise that depends on the input and other laws of inputs "
                       "were not tested.",
              .cost = {"3 s", "1 min", "10 min"}, WIDTH_STUDY);

const icl_reproduction icl_window_context =
    ICL_STUDY(.name = "window-context",
              .about = "the width of softmax attention's window against the length of the context",
              .claim = "Softmax attention learns a narrower window where the context is longer.",
              .scope = "A met table means that a trained window is the best multiple of the identity for 5 to "
                       "100 examples and narrows with their number; contexts longer than that and lengths other "
                       "than the training's were not tested.",
              .cost = {"2 s", "1 min", "5 min"}, WIDTH_STUDY);

/* ---- Other functions: windows are helpers, and a cell for each task compares all of them; at[0] is the task. Those
 * from TASKS on are tests alone ---- */

enum { CONSTANTS = 3, CLASSES = 3, TASKS = CLASSES * CONSTANTS, TESTS = TASKS + CONSTANTS };

/* An error counts as low up to this share above the error of the window trained on the task itself. The paper gives no
 * number. */
#define LOW .25

#define TASKS_OF(class)                                                                                                \
    {class, 2, 20, .1, 1. / 3}, {class, 2, 20, 1, 1. / 3}, {                                                           \
        class, 2, 20, 10, 1. / 3                                                                                       \
    }

static const window tasks[TESTS] = {TASKS_OF("affine"), TASKS_OF("relu"), TASKS_OF("cosine"), TASKS_OF("process")};

static const struct {
    size_t first; /* index of the first constant in use */
    size_t steps, batch, sequences;
} task_budgets[ICL_SCALES] = {{1, 300, 512, 8192}, {0, 1500, 1024, 32768}, {0, 6000, 2048, 200000}};

static bool has_task(const icl_study *study, size_t task) {
    return task % CONSTANTS >= task_budgets[study->scale].first;
}

static void plan_generalize(icl_study *study) {
    const size_t batch = task_budgets[study->scale].batch, steps = task_budgets[study->scale].steps;
    const icl_study_cell *trained[TASKS] = {0};

    for (size_t task = task_budgets[study->scale].first; task < TASKS; task++) {
        const window *w = &tasks[task];
        const double rate = w->lipschitz > 1 ? 1 : .1;
        if (has_task(study, task))
            trained[task] = ICL_ADD_CELL(
                study, .recipe = "window", .name = folder_of(w).text, .is_outside = true, .is_helper = true,
                .settings = {task_of(w).text, training_of(steps, w->lipschitz < 1 ? 4 * batch : batch, rate, 0).text});
    }
    for (size_t task = 0; task < TESTS; task++) {
        if (!has_task(study, task))
            continue;
        const icl_study_cell *test =
            ICL_ADD_CELL(study, .name = ICL_PHRASE("test %s, L %g", tasks[task].function, tasks[task].lipschitz),
                         .group = tasks[task].function, .at = {task});
        for (size_t other = 0; other < TASKS; other++)
            if (trained[other])
                icl_study_need(study, test, trained[other]);
    }
}

/* Numbers of a window: M. Numbers of a task: the comparison of each window with the one trained on the task, and for
 * functions that no window was trained on with the best w I. */
enum { TASK_MATRIX = 0, TASK_RATIOS = 4, TASK_NUMBERS = TASK_RATIOS + TASKS * COMPARED };

static const icl_number *compared(const icl_study_cell *test, size_t trained) {
    return test->numbers + TASK_RATIOS + trained * COMPARED;
}

/* ---- Gaussian processes on the circle: f(t) = slope g(t) / max |g'| + b of the angle t, with the largest slope and b
 * drawn as those of the classes are, slope ~ U(0, L) and b ~ U(-L, L), and
 *
 *     g(t) = sum_{k=1}^{WAVES} (a_k cos k t + b_k sin k t) / k^(3/2),  a_k, b_k ~ N(0, 1)
 *
 * g' is looked at on a grid, which misses less than (pi WAVES / GRID)^2 / 2 = .6 % of the largest |g'|. ---- */

enum { WAVES = 6, TERMS = 2 * WAVES, GRID = 180, WORDS = TERMS + 2 };

#define PROCESS_STREAM 0x70726f63u

static double unit_uniform(uint32_t word) {
    return ((double)word + .5) / 4294967296.;
}

/* slopes [GRID][TERMS]: g' by the terms of g, cos t, sin t, cos 2 t, ... */
static void tabulate_slopes(double *slopes) {
    for (size_t i = 0; i < (size_t)GRID * TERMS; i++) {
        const size_t at = i / TERMS, k = 1 + i % TERMS / 2;
        const double angle = 2 * acos(-1.) * (double)(k * at) / GRID;
        slopes[i] = (i % 2 == 0 ? -sin(angle) : cos(angle)) / sqrt((double)k);
    }
}

static double steepest_of(const double *coefficients, const double *slopes) {
    double steepest = 0;

    for (size_t at = 0; at < GRID; at++) {
        double slope = 0;
        for (size_t i = 0; i < TERMS; i++)
            slope += coefficients[i] * slopes[at * TERMS + i];
        steepest = fmax(steepest, fabs(slope));
    }
    return steepest;
}

static double value_of(const double *coefficients, const float *x) {
    const double angle = atan2((double)x[1], (double)x[0]);
    double sum = 0;

    for (size_t i = 0; i < TERMS; i++) {
        const size_t wave = 1 + i / 2;
        const double k = (double)wave;
        sum += coefficients[i] * (i % 2 == 0 ? cos(k * angle) : sin(k * angle)) / (k * sqrt(k));
    }
    return sum;
}

/* Puts a process of each sequence's own in place of its function; d = 2. */
static void relabel(uint32_t seed, double lipschitz, icl_window_set *set) {
    const size_t tokens = set->context + 1;
    const icl_random_key key = {.seed = seed, .stream = PROCESS_STREAM};
    double slopes[GRID * TERMS], coefficients[TERMS];

    tabulate_slopes(slopes);
    for (size_t s = 0; s < set->count; s++) {
        for (size_t i = 0; i < TERMS; i++)
            coefficients[i] = (double)icl_normal_from_word(icl_random_word(key, s * WORDS + i));
        const double slope = lipschitz * unit_uniform(icl_random_word(key, s * WORDS + TERMS));
        const double offset = lipschitz * (2 * unit_uniform(icl_random_word(key, s * WORDS + TERMS + 1)) - 1);
        const double factor = slope / steepest_of(coefficients, slopes);
        for (size_t i = 0; i < tokens; i++) {
            float *token = set->tokens + (s * tokens + i) * 3;
            const double value = factor * value_of(coefficients, token) + offset;
            if (i < set->context)
                token[2] = (float)value;
            else
                set->targets[s] = (float)value;
        }
    }
}

/* Draws such functions at the inputs of the affine task of the same constant. */
static icl_status draw_processes(const icl_study *study, size_t test, icl_task_purpose purpose, icl_window_set *set,
                                 icl_error *error) {
    const icl_study_cell *affine = icl_study_find(study, folder_of(&tasks[test % CONSTANTS]).text);

    ICL_CHECK(draw_sequences(study, affine, purpose, task_budgets[study->scale].sequences, set, error));
    relabel(icl_study_seed(study, purpose == ICL_FOR_FITTING ? 1 : 0), tasks[test].lipschitz, set);
    return ICL_OK;
}

/* ---- Windows on functions ---- */

/* Draws the sequences of a test, and gives the window [2][2] that the others are compared with. */
static icl_status draw_test(const icl_study *study, size_t test, icl_window_set *set, double *matched,
                            icl_error *error) {
    icl_window_set fitting = {0};
    icl_status status = ICL_OK;

    if (test < TASKS) {
        const icl_study_cell *own = icl_study_find(study, folder_of(&tasks[test]).text);
        copy_values(own->numbers + TASK_MATRIX, 4, matched);
        return draw_sequences(study, own, ICL_FOR_EVALUATION, task_budgets[study->scale].sequences, set, error);
    }
    ICL_TRY(draw_processes(study, test, ICL_FOR_FITTING, &fitting, error));
    matched[1] = matched[2] = 0;
    matched[0] = matched[3] = icl_window_search(&fitting, NULL);
    ICL_TRY(draw_processes(study, test, ICL_FOR_EVALUATION, set, error));
done:
    icl_window_release(&fitting);
    return status;
}

static icl_status measure_task(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                               icl_error *error) {
    double M[4], matched[4];
    icl_window_set set = {0};
    icl_status status = ICL_OK;

    if (trained)
        return measure_matrix(trained, numbers + TASK_MATRIX, error);
    ICL_TRY(draw_test(study, cell->at[0], &set, matched, error));
    for (size_t task = 0; task < TASKS; task++) {
        const icl_study_cell *other = icl_study_find(study, folder_of(&tasks[task]).text);
        if (!other)
            continue;
        copy_values(other->numbers + TASK_MATRIX, 4, M);
        const icl_window_ratio ratio = icl_window_compare(&set, M, true, matched, true);
        note_ratio(&ratio, numbers + TASK_RATIOS + task * COMPARED);
    }
done:
    icl_window_release(&set);
    return status;
}

/* Windows of the same constant and another class must be as good as one trained on the class itself. */
static void judge_other_classes(icl_study *study, const icl_study_cell *cell) {
    const size_t test = cell->at[0];
    size_t worst = (test + CONSTANTS) % TASKS;

    for (size_t trained = test % CONSTANTS; trained < TASKS; trained += CONSTANTS)
        if (trained != test && compared(cell, trained)[RATIO].value > compared(cell, worst)[RATIO].value)
            worst = trained;
    const icl_number *numbers = compared(cell, worst);
    ICL_JUDGE(study, .what = ICL_PHRASE("%s; trained on other classes", cell->name), .quantity = "loss / matched loss",
              ICL_OURS(numbers[RATIO]), .target = 1, .tolerance = LOW, .criterion = ICL_AT_MOST, .evidence = ICL_STATED,
              .source = "figure 5: low error on any class",
              .note = ICL_PHRASE("worst of them: %s; loss %.4g, matched %.4g", tasks[worst].function,
                                 numbers[LOSS].value, numbers[OTHER_LOSS].value));
}

/* Windows of the same class and another constant must be worse than a low error. The paper trained on L = 1; windows
 * trained on other constants are only shown, and one of them is a counterexample: cosines of L = .1 need a window that
 * serves those of L = 1. No window was trained on processes. */
static void judge_task(icl_study *study, const icl_study_cell *cell) {
    const size_t test = cell->at[0], first = test - test % CONSTANTS;

    judge_other_classes(study, cell);
    for (size_t trained = first; test < TASKS && trained < first + CONSTANTS; trained++) {
        const icl_number *numbers = compared(cell, trained);
        if (trained != test && has_task(study, trained))
            ICL_JUDGE(study, .what = ICL_PHRASE("%s; trained on L %g", cell->name, tasks[trained].lipschitz),
                      .quantity = "loss / matched loss", ICL_OURS(numbers[RATIO]), .target = 1 + LOW,
                      .criterion = ICL_AT_LEAST,
                      .evidence = tasks[trained].lipschitz == 1 ? ICL_STATED : ICL_EVIDENCE_NONE,
                      .source = "figure 5: high error with another L",
                      .note = ICL_PHRASE("loss %.4g, matched %.4g%s", numbers[LOSS].value, numbers[OTHER_LOSS].value,
                                         numbers[RATIO].value < 1 + LOW ? ": a counterexample" : ""));
    }
}

/* Draws loss / matched loss of every window on every task: as a matrix of log10, whose rows are test tasks and columns
 * training tasks, the first of the tests; and against the ratio of constants, a series for each
 * class of training, low at ratio 1, whatever the class. */
static void draw_tests(icl_study *study) {
    double matrix[TESTS * TASKS], ratios[CLASSES][TESTS * CONSTANTS], losses[CLASSES][TESTS * CONSTANTS];
    icl_series series[CLASSES];
    icl_phrase texts[TESTS];
    const char *names[TESTS];
    size_t used = 0, tests = 0;

    for (size_t family = 0; family < CLASSES; family++)
        series[family] =
            (icl_series){tasks[family * CONSTANTS].function, ICL_SERIES_CLOUD, 0, ratios[family], losses[family], NULL};
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (!cell->is_helper) {
            const window *test = &tasks[cell->at[0]];
            texts[tests] = icl_phrase_print("%s, L %g", test->function, test->lipschitz);
            names[tests] = texts[tests].text;
            tests++;
        }
        for (size_t trained = 0; !cell->is_helper && trained < TASKS; trained++) {
            const double loss = compared(cell, trained)[RATIO].value;
            const size_t family = trained / CONSTANTS, point = series[family].count;
            if (!has_task(study, trained))
                continue;
            matrix[used++] = log10(loss);
            losses[family][point] = loss;
            ratios[family][point] = tasks[trained].lipschitz / tasks[cell->at[0]].lipschitz;
            series[family].count++;
        }
    }
    ICL_STUDY_MAPS(
        study, .name = "window-generalize-matrix", .title = "Loss of windows on other functions than they learned",
        .row_label = "tested on", .column_label = "trained on", .value_label = "log10 of loss / matched loss",
        .count = 1,
        .maps = &(icl_heat_map){"classes and constants", tests, tests - tests / (CLASSES + 1), matrix, names, names});
    ICL_STUDY_FIGURE(study, .name = "window-generalize",
                     .title = "Windows trained on one class, tested on every class and L (figure 5)",
                     .x_label = "L in training / L in the test",
                     .y_label = "loss / loss of the window trained on the test's own task", .log_x = true,
                     .log_y = true, .count = CLASSES, .series = series);
}

static void conclude_generalize(icl_study *study) {
    bool is_any_wanted = false; /* if no cell was wanted, old pictures stay */

    for (size_t i = 0; i < study->count; i++)
        is_any_wanted = is_any_wanted || study->cells[i]->is_wanted;
    if (is_any_wanted)
        draw_tests(study);
}

const icl_reproduction icl_window_generalize = ICL_STUDY(
        .name = "window-generalize", .source = "arXiv 2402.11639, figure 5",
        .about = "windows trained on one class of functions and Lipschitz constant, tested on all others",
        .claim =
            "A window that softmax attention has learned serves other functions with the same Lipschitz constant, and "
            "fails on functions of its own class with another one.",
        .scope = "A met table means that windows serve other classes with the same Lipschitz constant within 25 %, "
                 "Gaussian processes among them, and that those trained on L 1 fail on their own class with another "
                 "one by at least as much, as cosines trained on L 0.1 do not at L 1; functions of more than two "
                 "inputs were not tested.",
        .cost = {"4 s", "1 min", "10 min"}, .numbers = TASK_NUMBERS, .plan = plan_generalize, .measure = measure_task,
        .judge = judge_task, .conclude = conclude_generalize);

/* ---- Functions of k of d directions; at[0] is 1 for linear attention ---- */

enum { D = 6, K = 2, POINTS = 8 };

static const struct {
    size_t steps, batch, sequences;
} subspace_budgets[ICL_SCALES] = {{240, 256, 4096}, {2400, 512, 16384}, {16000, 1024, 100000}};

static void plan_subspace(icl_study *study) {
    static const char *const classes[CLASSES] = {"affine", "quadratic", "cosine"}, *const kinds[] = {"softmax",
                                                                                                     "linear"};
    const size_t steps = subspace_budgets[study->scale].steps, batch = subspace_budgets[study->scale].batch;

    for (size_t family = 0; family < CLASSES; family++) {
        const icl_study_cell *softmax = NULL, *cell;
        for (size_t kind = 0; kind < 2; kind++, softmax = cell) {
            const window w = {classes[family], D, 40, 1, .1, K, kind == 1};
            cell = ICL_ADD_CELL(study, .name = ICL_PHRASE("%s, %s", w.function, kinds[kind]), .group = w.function,
                                .recipe = "window", .folder = folder_of(&w).text, .is_outside = true, .at = {kind},
                                .settings = {task_of(&w).text, training_of(steps, batch, .3, steps / POINTS).text,
                                             "model.initialization=normal model.init_std=0.1",
                                             kind == 1 ? "model.attention=linear" : NULL});
            if (softmax)
                icl_study_need(study, cell, softmax);
        }
    }
}

/* Softmax attention is compared with the best window, and linear attention with softmax attention. The numbers after
 * that are M at the end, and rho and the loss after each of POINTS equal parts of the steps. */
enum {
    SUBSPACE_MATRIX = COMPARED,
    RHO = SUBSPACE_MATRIX + D * D,
    LOSSES = RHO + POINTS,
    SUBSPACE_NUMBERS = LOSSES + POINTS
};

static icl_status follow(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, const icl_window_set *set,
                         icl_number *numbers, icl_error *error) {
    const double *rotation = icl_task_subspace(icl_trainer_task(trained)).rotation;
    double M[D * D];

    for (size_t i = 0; i < POINTS; i++) {
        const size_t step = (i + 1) * (subspace_budgets[study->scale].steps / POINTS);
        ICL_CHECK(icl_study_go_to_step(study, cell, step, trained, error));
        ICL_CHECK(read_matrix(trained, M, error));
        numbers[LOSSES + i].value = icl_window_measure(set, M, cell->at[0] == 0).loss;
        ICL_CHECK(icl_subspace_alignment(M, rotation, D, K, &numbers[RHO + i].value, error));
    }
    return ICL_OK;
}

/* Finds the best window w B B^T [D][D], on other sequences than those of the test. */
static icl_status find_best(const icl_study *study, const icl_study_cell *cell, const double *rotation, double *best,
                            icl_error *error) {
    icl_window_set set = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < (size_t)D * D; i++) {
        best[i] = 0;
        for (size_t k = 0; k < K; k++)
            best[i] += rotation[i / D * D + k] * rotation[i % D * D + k];
    }
    ICL_TRY(draw_sequences(study, cell, ICL_FOR_FITTING, subspace_budgets[study->scale].sequences, &set, error));
    const double w = icl_window_search(&set, best);
    for (size_t i = 0; i < (size_t)D * D; i++)
        best[i] *= w;
done:
    icl_window_release(&set);
    return status;
}

static icl_status measure_subspace(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                   icl_number *numbers, icl_error *error) {
    const bool is_linear = cell->at[0] == 1;
    const double *rotation = icl_task_subspace(icl_trainer_task(trained)).rotation;
    double M[D * D], other[D * D];
    icl_window_set set = {0};
    icl_status status = ICL_OK;

    ICL_TRY(read_matrix(trained, M, error));
    ICL_TRY(measure_matrix(trained, numbers + SUBSPACE_MATRIX, error));
    if (is_linear)
        copy_values(icl_study_find(study, ICL_PHRASE("%s, softmax", cell->group))->numbers + SUBSPACE_MATRIX,
                    (size_t)D * D, other);
    else
        ICL_TRY(find_best(study, cell, rotation, other, error));
    ICL_TRY(draw_sequences(study, cell, ICL_FOR_EVALUATION, subspace_budgets[study->scale].sequences, &set, error));
    const icl_window_ratio ratio = icl_window_compare(&set, M, !is_linear, other, true);
    note_ratio(&ratio, numbers);
    ICL_TRY(follow(study, cell, trained, &set, numbers, error));
done:
    icl_window_release(&set);
    return status;
}

/* The steps of ci end before affine functions reach their large w, so that their loss may lie half above the best
 * window's. */
static const icl_study_check_row subspace_checks[] = {
    ICL_ROW(.quantity = "rho(M, B)", .only = "softmax", .number = RHO + POINTS - 1, .absolute = {.25, .1, .05},
            .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "figure 10: softmax learns the subspace",
            .note = "after an eighth of the steps {}", .beside = {RHO}),
    ICL_ROW(.quantity = "loss / best window's", .only = "softmax", .number = RATIO, .target = 1,
            .absolute = {.5, .1, .05}, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
            .source = "best w B B^T, searched for here", .note = "loss {}, best {}", .beside = {LOSS, OTHER_LOSS}),
    ICL_ROW(.quantity = "rho(M, B)", .only = "affine, linear", .number = RHO + POINTS - 1, .target = .5,
            .criterion = ICL_AT_LEAST, .note = "a step of gradient descent keeps to the subspace too"),
    ICL_ROW(.quantity = "rho(M, B)", .only = "quadratic, linear", .number = RHO + POINTS - 1, .target = .5,
            .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "figure 10: linear attention does not"),
    ICL_ROW(.quantity = "rho(M, B)", .only = "cosine, linear", .number = RHO + POINTS - 1, .target = .5,
            .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "figure 10: linear attention does not"),
    ICL_ROW(.quantity = "loss / softmax's loss", .only = "linear", .number = RATIO, .target = 2,
            .criterion = ICL_AT_LEAST, .evidence = ICL_STATED, .source = "figure 10: its test error stays",
            .note = "linear {}, softmax {}", .beside = {LOSS, OTHER_LOSS}),
};

static void draw_courses(icl_study *study, const char *name, const char *label, size_t first) {
    static const char title[] = "Softmax attention learns a subspace, linear attention does not (figure 10)";
    icl_curves curves =
        ICL_CURVES(.name = name, .title = title, .x_label = "training steps", .y_label = label, .log_y = true);
    const size_t every = subspace_budgets[study->scale].steps / POINTS;

    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < POINTS; k++)
            icl_study_plot(study, &curves, study->cells[i]->name,
                           study->cells[i]->at[0] == 1 ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS,
                           (double)((k + 1) * every), study->cells[i]->numbers[first + k].value);
    icl_study_draw(study, &curves);
}

static void conclude_subspace(icl_study *study) {
    draw_courses(study, "window-subspace-alignment", "rho(M, B)", RHO);
    draw_courses(study, "window-subspace-error", "test error", LOSSES);
}

const icl_reproduction icl_window_subspace =
    ICL_STUDY(.name = "window-subspace", .source = "arXiv 2402.11639, figure 10",
              .about = "functions of two of six directions: softmax attention learns which, linear attention does not",
              .claim = "Softmax attention learns the subspace that labels depend on, and linear attention does not.",
              .scope = "A met table means that softmax attention with one free matrix finds two directions where "
                       "linear attention does not find them or errs more, on noisy functions of three classes; "
                       "several layers are those of window-layers.",
              .cost = {"4 s", "1 min", "10 min"}, .numbers = SUBSPACE_NUMBERS, .plan = plan_subspace,
              .measure = measure_subspace, ICL_CHECKS(subspace_checks), .conclude = conclude_subspace);
