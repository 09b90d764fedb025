/*
 * The prior over tables: the same bits on every device; the laws of what is drawn against their definitions; guides
 * against second fits without the row; buckets against numerical integrals; and the exact predictor of Gaussian
 * processes, whose loss is its own entropy and whose intervals cover what they say.
 */
#include "frame.h"

#include "task/tables/tables.h"

#define TABLES "task.family=tables "
/* Gaussian processes that the kernel describes as they are shown. */
#define PURE                                                                                                           \
    TABLES "task.networks=0 task.linear=0 task.trees=0 task.causal=0 task.discrete=0 task.warped=0 "                   \
           "task.missing=0 task.tails=0 "

enum { ROWS = 4, FEATURES = 2, DRAWS = 4000, MANY_DRAWS = 60000 };

static icl_words words_of(uint32_t stream) {
    return (icl_words){.key = {SEED, stream, 0}};
}

/* ---- Generators ---- */

/* Rows 0 and 3 are the same in the features that functions use, and row 2 is the sum of rows 0 and 1. */
static const double points[ROWS][FEATURES + 1] = {{0.5, 9, -0.25}, {-1, 3, 1}, {-0.5, -7, 0.75}, {0.5, -4, -0.25}};
static const size_t used[FEATURES] = {0, 2};

static void draw_values(icl_table_source source, icl_words *words, double *weights, double *values) {
    static double x[ROWS][FEATURES + 1], work[1 << 12];
    const icl_drawn_table table = {.rows = ROWS, .features = FEATURES + 1, .x = x[0]};

    memcpy(x, points, sizeof x);
    if (icl_table_draw_work(ROWS) <= sizeof work / sizeof *work)
        icl_table_draw_function(source, words, &table, used, FEATURES, weights, values, work);
}

static double kernel_at(const double *weights, size_t i, size_t k) {
    double square = 0;
    for (size_t j = 0; j < FEATURES; j++)
        square += weights[used[j]] * pow(points[i][used[j]] - points[k][used[j]], 2);
    return exp(-square / 2);
}

/* Products of values at two points have the kernel as their mean, and weights are r^-1 exp(-2 s - N(0, 1)). */
static void check_covariance(task_test *test) {
    icl_words words = words_of(1);
    statistic products[ROWS][ROWS] = {{{0}}}, lengths = {0};
    double worst = 0;

    for (size_t t = 0; t < MANY_DRAWS; t++) {
        double weights[FEATURES + 1] = {0}, values[ROWS];
        draw_values(ICL_TABLE_GAUSSIAN_PROCESS, &words, weights, values);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t k = 0; k <= i; k++)
                add(&products[i][k], values[i] * values[k] - kernel_at(weights, i, k));
        add(&lengths, log(FEATURES * weights[0])); /* mean -2 E[s] = -0.2, s uniform in (-0.9, 1.1) */
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k <= i; k++)
            worst = fmax(worst, deviation(&products[i][k], i == k ? ICL_TABLE_JITTER : 0));
    tap_ok(&test->tap, worst < BOUND, "Gaussian processes have the kernel as covariance: %.2f standard errors", worst);
    tap_ok(&test->tap,
           deviation(&lengths, -0.2) < BOUND && fabs(lengths.squares / lengths.count - 1 - 4.0 / 3 - 0.04) < 0.2,
           "their lengths have the law that is stated: %.2f", deviation(&lengths, -0.2));
}

/* Values are functions of the used features alone. */
static void check_functions(task_test *test) {
    icl_words words = words_of(2);
    statistic leaves = {0}, large = {0};
    double apart[ICL_TABLE_SOURCES] = {0}, bent = 0, spread[ICL_TABLE_SOURCES] = {0};

    for (size_t t = 0; t < DRAWS; t++)
        for (int source = 0; source < ICL_TABLE_CAUSAL; source++) {
            double weights[FEATURES + 1] = {0}, values[ROWS];
            draw_values((icl_table_source)source, &words, weights, values);
            apart[source] = fmax(apart[source], fabs(values[0] - values[3]));
            spread[source] = fmax(spread[source], fabs(values[0] - values[1]));
            if (source == ICL_TABLE_LINEAR) {
                bent = fmax(bent, fabs(values[2] - values[0] - values[1]) / (1 + fabs(values[2])));
                add(&large, fabs(values[0] - values[2]) > sqrt(2.0)); /* it is w_1 + w_2 over 1 */
            } else if (source == ICL_TABLE_TREES) {
                add(&leaves, values[0] * values[0]);
            }
        }
    for (int source = 0; source < ICL_TABLE_CAUSAL; source++)
        tap_ok(&test->tap,
               spread[source] > 0.1 && apart[source] < (source == ICL_TABLE_GAUSSIAN_PROCESS ? 0.02 : 1e-12),
               "source %d makes functions of the features in use: equal rows differ by %.2g", source, apart[source]);
    tap_ok(&test->tap, bent < 1e-12 && large.sum > 0, "linear functions are linear: %.2g", bent);
    tap_ok(&test->tap, deviation(&leaves, 4.5) < BOUND, "a sum of 1 to 8 trees has mean square 4.5: %.2f",
           deviation(&leaves, 4.5));
}

/* Student's law with two degrees of freedom: P(|w| > t) = 1 - t / sqrt(2 + t^2). */
static void check_weights(task_test *test) {
    icl_words words = words_of(3);
    statistic beyond[2] = {{0}};

    for (size_t t = 0; t < DRAWS; t++) {
        double x[2] = {1, 0}, values[2], none[1];
        const icl_drawn_table table = {.rows = 2, .features = 1, .x = x};
        icl_table_draw_function(ICL_TABLE_LINEAR, &words, &table, (const size_t[]){0}, 1, none, values, NULL);
        add(&beyond[0], fabs(values[0]) > 1);
        add(&beyond[1], fabs(values[0]) > 4);
    }
    const double expected[] = {1 - 1 / sqrt(3.0), 1 - 4 / sqrt(18.0)};
    tap_ok(&test->tap, deviation(&beyond[0], expected[0]) < BOUND && deviation(&beyond[1], expected[1]) < BOUND,
           "linear weights have Student's law: %.2f and %.2f", deviation(&beyond[0], expected[0]),
           deviation(&beyond[1], expected[1]));
}

/* ---- Tables ---- */

enum { D = 5, N = 20, LEAST = 4, TABLE_COUNT = 2000 };
#define SIZES "task.d=5 task.n=20 task.least=4 task.unlabelled=6 task.guides=false "

typedef struct shown_law {
    size_t labelled[N - LEAST + 1], columns[D], features[D];
    double off;   /* the largest distance of a mean from 0, of a mean square from 1 (or 0), of weights from their sum */
    size_t wrong; /* flags out of order, labels where there should be none, classes that are none */
} shown_law;

static void count_table(const drawn *all, size_t s, shown_law *law) {
    const float *weights = all->weights + s * all->scored, *targets = all->targets + s * all->scored;
    size_t labelled = 0, features = 0;
    double sum = 0;

    while (labelled < all->length && input_at(all, s, labelled)[D + 1] == 1)
        labelled++;
    for (size_t i = labelled; i < all->length; i++)
        law->wrong += input_at(all, s, i)[D + 1] != 0 || input_at(all, s, i)[D] != 0;
    for (size_t i = 0; i < all->scored; i++) {
        sum += (double)weights[i];
        law->wrong += (weights[i] > 0) != (LEAST + i >= labelled);
        law->wrong += !(targets[i] >= 0 && targets[i] < (float)all->task->shape.outputs);
    }
    law->off = fmax(law->off, fabs(sum / (double)all->scored - 1));
    for (size_t j = 0; j <= D; j++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < labelled; i++) {
            mean += (double)input_at(all, s, i)[j] / (double)labelled;
            square += pow((double)input_at(all, s, i)[j], 2) / (double)labelled;
        }
        if (j < D) {
            law->columns[j] += square > 0;
            features += square > 0;
        }
        law->off = fmax(law->off, square > 0 ? fmax(fabs(mean), fabs(square - 1)) : 0);
    }
    law->wrong += labelled < LEAST || labelled > N || features == 0;
    if (labelled >= LEAST && labelled <= N)
        law->labelled[labelled - LEAST]++;
    if (features > 0)
        law->features[features - 1]++;
}

/* c = m + floor(M u^2), M = N + 1 - m: P(c <= m + k) = sqrt((k + 1) / M). */
static double law_of_labelled(const shown_law *law) {
    const double most = N + 1 - LEAST;
    double worst = 0;

    for (size_t k = 0; k <= N - LEAST; k++) {
        const double p = sqrt((double)(k + 1) / most) - sqrt((double)k / most);
        const double sigma = sqrt(TABLE_COUNT * p * (1 - p));
        worst = fmax(worst, fabs((double)law->labelled[k] - TABLE_COUNT * p) / sigma);
    }
    return worst;
}

static void check_tables(task_test *test) {
    shown_law law = {{0}};
    drawn all = {0};
    size_t in_all = 0;

    draw(&all, test->device, TABLE_COUNT, TABLES SIZES "task.discrete=0 task.missing=0 task.trees=0 task.causal=0");
    for (size_t s = 0; s < all.count; s++)
        count_table(&all, s, &law);
    for (size_t j = 0; j < D; j++)
        in_all += law.columns[j];
    tap_ok(&test->tap, law.wrong == 0, "labels, flags, weights and classes stand where they should: %zu do not",
           law.wrong);
    tap_ok(&test->tap, law.off < 2e-5, "labelled rows have mean 0 and mean square 1, and weights mean 1: off by %.2g",
           law.off);
    tap_ok(&test->tap, law_of_labelled(&law) < BOUND, "the number of labelled rows has its law: %.2f",
           law_of_labelled(&law));
    tap_ok(&test->tap, unevenness(law.features, D, TABLE_COUNT, 1) < BOUND, "1 to %d features, equally often: %.2f", D,
           unevenness(law.features, D, TABLE_COUNT, 1));
    tap_ok(&test->tap, unevenness(law.columns, D, in_all, 1) < BOUND, "in each column equally often: %.2f",
           unevenness(law.columns, D, in_all, 1));
    release(&all);
}

/* Every source is drawn, also the last one alone, and habits change what they say. */
static void check_sources(task_test *test) {
    static const char *const only[] = {"gaussian_processes", "networks", "linear", "trees", "causal"};
    size_t holes = 0, finite = 0, numbers = 0;
    drawn all = {0};

    for (size_t k = 0; k < ICL_TABLE_SOURCES; k++) {
        char text[256] = TABLES SIZES "task.missing=1";
        for (size_t other = 0; other < ICL_TABLE_SOURCES; other++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " task.%s=%d", only[other], other == k);
        draw(&all, test->device, 64, "%s", text);
        for (size_t i = 0; i < all.sizes[INPUTS]; i++) {
            finite += isfinite(all.inputs[i]);
            numbers++;
        }
        for (size_t i = 0; i < all.count * all.length; i++)
            holes += all.inputs[i * (D + 2)] == 0;
        release(&all);
    }
    tap_ok(&test->tap, finite == numbers && holes > 0, "each source alone gives finite numbers: %zu of %zu", finite,
           numbers);
}

static void check_table_bits(task_test *test) {
    check_bits(test, TABLES "task.d=6 task.n=24 task.unlabelled=8 task.least=4", 20, 4);
}

/* ---- Guides ---- */

enum { SHOWN = 12, ASKED = 3, WIDE = 3, ALL = SHOWN + ASKED };

static double table_x[ALL][WIDE], table_y[SHOWN];

static void solve(size_t n, double a[SHOWN + 1][SHOWN + 1], double *b) {
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++) {
            const double factor = a[i][k] / a[k][k];
            for (size_t j = k; j < n && i != k; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= i != k ? factor * b[k] : 0;
        }
    for (size_t i = 0; i < n; i++)
        b[i] /= a[i][i];
}

/* Returns what ridge predicts for row i of z from the labelled rows but `left`: with an intercept without penalty. */
static double ridge_without(double z[ALL][WIDE], const double *y, size_t i, size_t left, double penalty) {
    double a[SHOWN + 1][SHOWN + 1] = {{0}}, b[SHOWN + 1] = {0};

    for (size_t r = 0; r < SHOWN; r++)
        for (size_t j = 0; j <= WIDE && r != left; j++) {
            for (size_t k = 0; k <= WIDE; k++)
                a[j][k] += (j < WIDE ? z[r][j] : 1) * (k < WIDE ? z[r][k] : 1);
            b[j] += (j < WIDE ? z[r][j] : 1) * y[r];
        }
    for (size_t j = 0; j < WIDE; j++)
        a[j][j] += penalty;
    solve(WIDE + 1, a, b);
    return b[WIDE] + b[0] * z[i][0] + b[1] * z[i][1] + b[2] * z[i][2];
}

static double guide_kernel(double z[ALL][WIDE], size_t i, size_t k, bool smooth, double length) {
    double square = 0, absolute = 0;
    for (size_t j = 0; j < WIDE; j++) {
        square += pow(z[i][j] - z[k][j], 2);
        absolute += fabs(z[i][j] - z[k][j]);
    }
    return smooth ? pow(1 + square / (4 * WIDE * length), -2) : 1 / (1 + absolute / (WIDE * length));
}

static double process_without(double z[ALL][WIDE], const double *y, size_t i, size_t left, bool smooth, double length,
                              double noise) {
    double a[SHOWN + 1][SHOWN + 1] = {{0}}, b[SHOWN + 1] = {0}, sum = 0;

    for (size_t r = 0; r < SHOWN; r++) {
        for (size_t k = 0; k < SHOWN; k++)
            a[r][k] = r == left || k == left ? r == k : guide_kernel(z, r, k, smooth, length) + (r == k ? noise : 0);
        b[r] = r == left ? 0 : y[r];
    }
    solve(SHOWN, a, b);
    for (size_t r = 0; r < SHOWN; r++)
        sum += r == left ? 0 : b[r] * guide_kernel(z, i, r, smooth, length);
    return sum;
}

/* Returns the variance of the target of row i under a process that knows the labelled rows but `left`. */
static double variance_without(double z[ALL][WIDE], size_t i, size_t left, bool smooth, double length, double noise) {
    double a[SHOWN + 1][SHOWN + 1] = {{0}}, b[SHOWN + 1] = {0}, variance = 1 + noise;

    for (size_t r = 0; r < SHOWN; r++) {
        for (size_t k = 0; k < SHOWN; k++)
            a[r][k] = r == left || k == left ? r == k : guide_kernel(z, r, k, smooth, length) + (r == k ? noise : 0);
        b[r] = r == left ? 0 : guide_kernel(z, i, r, smooth, length);
    }
    solve(SHOWN, a, b);
    for (size_t r = 0; r < SHOWN; r++)
        variance -= r == left ? 0 : b[r] * guide_kernel(z, i, r, smooth, length);
    return variance;
}

static double neighbours_without(double z[ALL][WIDE], const double *y, size_t i, size_t left) {
    bool taken[SHOWN] = {false};
    double sum = 0;

    for (int round = 0; round < 5; round++) {
        double least = HUGE_VAL;
        size_t best = 0;
        for (size_t k = 0; k < SHOWN; k++) {
            const double square = pow(z[i][0] - z[k][0], 2) + pow(z[i][1] - z[k][1], 2) + pow(z[i][2] - z[k][2], 2);
            if (k == left || taken[k] || square >= least)
                continue;
            least = square;
            best = k;
        }
        taken[best] = true;
        sum += y[best] / 5;
    }
    return sum;
}

static const double penalties[] = {0.1, 1, 10, 100}, noises[] = {0.03, 0.3};
static const double lengths[2][3] = {{0.25, 1, 4}, {0.5, 2, 8}};

static double guess(int guide, size_t setting, double z[ALL][WIDE], const double *y, size_t i, size_t left) {
    if (guide == ICL_GUIDE_RIDGE)
        return ridge_without(z, y, i, left, penalties[setting % 4]);
    if (guide == ICL_GUIDE_NEIGHBOURS)
        return neighbours_without(z, y, i, left);
    return process_without(z, y, i, left, guide == ICL_GUIDE_SMOOTH, lengths[guide == ICL_GUIDE_ROUGH][setting / 2],
                           noises[setting % 2]);
}

static double guessed_variance(int guide, size_t setting, double z[ALL][WIDE], size_t i) {
    return guide < ICL_GUIDE_SMOOTH
               ? 1
               : variance_without(z, i, i, guide == ICL_GUIDE_SMOOTH, lengths[guide == ICL_GUIDE_ROUGH][setting / 2],
                                  noises[setting % 2]);
}

/* Returns the largest difference of a guide, predictions and deviations, from fits without the row, with the setting
 * of least error. */
static double guide_error(int guide, double z[ALL][WIDE], const double *y, const float *inputs, size_t p) {
    const size_t settings[] = {4, 1, 6, 6};
    double least = HUGE_VAL, worst = 0, scale = 0;
    size_t best = 0;

    for (size_t setting = 0; setting < settings[guide]; setting++) {
        double loss = 0;
        for (size_t i = 0; i < SHOWN; i++)
            loss += pow(y[i] - guess(guide, setting, z, y, i, i), 2);
        if (loss < least) {
            least = loss;
            best = setting;
        }
    }
    for (size_t i = 0; i < SHOWN; i++)
        scale += pow(y[i] - guess(guide, best, z, y, i, i), 2) / guessed_variance(guide, best, z, i) / SHOWN;
    for (size_t i = 0; i < ALL; i++) {
        const float *shown = inputs + i * p + WIDE + 2 * (size_t)guide;
        const double spread = sqrt(scale * guessed_variance(guide, best, z, i));
        worst = fmax(worst, fabs((double)shown[0] - guess(guide, best, z, y, i, i)));
        worst = fmax(worst, fabs((double)shown[1] - spread));
    }
    return worst;
}

static void check_guides(task_test *test) {
    static const size_t places[WIDE] = {0, 1, 2};
    static double work[1 << 12], z[ALL][WIDE], y[SHOWN];
    static float inputs[ALL * 16];
    const icl_table_view view = {WIDE, true};
    const icl_table_shown shown = {ALL, SHOWN, WIDE, table_x[0], table_y, places};
    icl_words words = words_of(4);
    icl_table_scale scale;

    for (size_t i = 0; i < ALL; i++)
        for (size_t j = 0; j < WIDE; j++)
            table_x[i][j] = 3 + 2 * icl_words_normal(&words);
    for (size_t i = 0; i < SHOWN; i++)
        table_y[i] = 10 + table_x[i][0] + sin(table_x[i][1]) + 0.3 * icl_words_normal(&words);
    tap_ok(&test->tap,
           icl_table_show_work(ALL, SHOWN, WIDE) <= sizeof work / sizeof *work && icl_table_inputs(view) <= 16,
           "the test has room for the guides");
    icl_table_show(view, &shown, &scale, work, inputs);
    for (size_t i = 0; i < ALL; i++)
        for (size_t j = 0; j < WIDE; j++)
            z[i][j] = (table_x[i][j] - scale.centres[j]) / scale.scales[j];
    for (size_t i = 0; i < SHOWN; i++)
        y[i] = (table_y[i] - scale.target_centre) / scale.target_scale;
    for (int guide = 0; guide < ICL_GUIDES; guide++) {
        const double error = guide_error(guide, z, y, inputs, icl_table_inputs(view));
        tap_ok(&test->tap, error < 1e-6, "guide %d predicts as fits without the row do: %.2g", guide, error);
    }
}

/* ---- Buckets ---- */

/* The density of the buckets' law, by its definition. */
static double density_at(size_t buckets, const double *shares, double x) {
    const double first = icl_bucket_border(buckets, 1), last = icl_bucket_border(buckets, buckets - 1);
    const double width = icl_bucket_border(buckets, 2) - first;
    const size_t k = icl_bucket_of(buckets, x);

    if (k == 0 || k + 1 == buckets)
        return shares[k] * sqrt(2 / acos(-1.0)) / width * exp(-pow((k == 0 ? first - x : x - last) / width, 2) / 2);
    return shares[k] / (icl_bucket_border(buckets, k + 1) - icl_bucket_border(buckets, k));
}

static void check_buckets(task_test *test) {
    enum { BUCKETS = 10, STEPS = 4000000 };
    double shares[BUCKETS], total = 0, sum = 0, below = 0, worst = 0;
    const double low = -30, step = 60.0 / STEPS;
    size_t quantile = 0, off = 0;
    static const double levels[] = {0.001, 0.1, 0.25, 0.5, 0.9, 0.999};

    for (size_t k = 1; k < BUCKETS; k++) { /* Student's law below t: 1/2 + t / (2 sqrt(2 + t^2)) */
        const double t = icl_bucket_border(BUCKETS, k) / 0.6;
        worst = fmax(worst, fabs(0.5 + 0.5 * t / sqrt(2 + t * t) - (double)k / BUCKETS));
        off += icl_bucket_of(BUCKETS, icl_bucket_border(BUCKETS, k)) != k;
    }
    tap_ok(&test->tap, worst < 1e-14 && off == 0, "borders are quantiles: %.2g", worst);
    worst = 0;
    for (size_t k = 0; k < BUCKETS; k++)
        total += shares[k] = (double)(1 + (k * 7) % 5);
    for (size_t k = 0; k < BUCKETS; k++)
        shares[k] /= total;
    for (size_t i = 0; i < STEPS; i++) {
        const double x = low + ((double)i + 0.5) * step, mass = density_at(BUCKETS, shares, x) * step;
        sum += x * mass;
        below += mass;
        while (quantile < 6 && below >= levels[quantile]) {
            worst = fmax(worst, fabs(icl_bucket_quantile(BUCKETS, shares, levels[quantile]) - x));
            quantile++;
        }
    }
    /* Each jump of the density costs at most a step times it, here 1.5e-5 times 1; beyond +-30 there is nothing. */
    tap_ok(&test->tap, fabs(below - 1) < 1e-4 && fabs(icl_bucket_mean(BUCKETS, shares) - sum) < 3e-4,
           "the mean is the integral: %.2g", icl_bucket_mean(BUCKETS, shares) - sum);
    tap_ok(&test->tap, quantile == 6 && worst < 2e-3, "quantiles are those of the integral: %.2g", worst);
    icl_bucket_normal(BUCKETS, 0.3, 0.7, shares);
    for (size_t k = 0; k < BUCKETS; k++) { /* Simpson's rule between the borders */
        const double from = k == 0 ? -12 : icl_bucket_border(BUCKETS, k);
        const double to = k + 1 == BUCKETS ? 12 : icl_bucket_border(BUCKETS, k + 1), h = (to - from) / 2000;
        double integral = 0;
        for (size_t i = 0; i <= 2000; i++)
            integral += (i == 0 || i == 2000 ? 1
                         : i % 2             ? 4
                                             : 2) *
                        exp(-pow((from + (double)i * h - 0.3) / 0.7, 2) / 2);
        worst = fmax(k == 0 ? 0 : worst, fabs(integral * h / 3 / (0.7 * sqrt(2 * acos(-1.0))) - shares[k]));
    }
    tap_ok(&test->tap, worst < 1e-9, "normal shares are integrals: %.2g", worst);
}

/* ---- The exact predictor ---- */

/* If p is the law of the class, E[-log p(class)] is its entropy, and the buckets wholly within the middle 80 % hold the
 * class as often as p says. One value a table: the rows of a table share its function. */
static void check_exact(task_test *test) {
    statistic surprise = {0}, covered = {0}, beside = {0};
    drawn all = {0};

    draw(&all, test->device, 600, PURE "task.d=4 task.n=24 task.unlabelled=8 task.buckets=60");
    predict(&all, "gaussian-process");
    double *exact = take_outputs(&all);
    predict(&all, "smooth");
    const size_t classes = all.task->shape.outputs;
    for (size_t s = 0; s < all.count; s++) {
        double loss = 0, hits = 0, more = 0, rows = 0;
        for (size_t i = 0; i < all.scored; i++) {
            const size_t at = s * all.scored + i, class = (size_t)all.targets[at];
            const double *logits = exact + at * classes;
            double below = 0;
            if (all.weights[at] == 0)
                continue;
            for (size_t k = 0; k < classes; k++) {
                const double p = exp(logits[k]);
                const bool is_within = below >= 0.1 && below + p <= 0.9;
                loss += p > 0 ? p * logits[k] : 0; /* minus the entropy */
                hits += is_within ? (double)(k == class) - p : 0;
                below += p;
            }
            loss -= logits[class];
            more += logits[class] - all.outputs[at * classes + class];
            rows++;
        }
        add(&surprise, loss / rows);
        add(&covered, hits / rows);
        add(&beside, more / rows);
    }
    tap_ok(&test->tap, deviation(&surprise, 0) < BOUND, "the exact loss is the entropy: %.2f standard errors",
           deviation(&surprise, 0));
    tap_ok(&test->tap, deviation(&covered, 0) < BOUND, "intervals cover what they say: %.2f", deviation(&covered, 0));
    tap_ok(&test->tap, beside.sum / beside.count > 2 * standard_error(&beside),
           "nothing is better: smooth loses %.3f +- %.3f more", beside.sum / beside.count, standard_error(&beside));
    icl_free(&exact);
    release(&all);
}

static void check_predictors(task_test *test) {
    static const char *const with[] = {"mean", "ridge", "neighbours", "smooth", "rough", "gaussian-process"};
    drawn all = {0};

    draw(&all, test->device, 2, PURE "task.d=2 task.n=9");
    tap_ok(&test->tap, has_predictors(&all, with, 6), "a task of Gaussian processes has the exact predictor");
    draw(&all, test->device, 2, TABLES "task.d=2 task.n=9");
    tap_ok(&test->tap, has_predictors(&all, with, 5), "a mixture has none");
    draw(&all, test->device, 2, TABLES "task.d=2 task.n=9 task.guides=false");
    tap_ok(&test->tap, has_predictors(&all, with, 1), "without guides there is the mean alone");
    predict(&all, "mean");
    tap_ok(&test->tap, mean_of_classes(&all, icl_loss_of) < log(10000), "the mean loses less than its share for all");
    release(&all);
}

int main(int argument_count, char **arguments) {
    static task_check *const checks[] = {check_table_bits, check_covariance, check_functions, check_weights,
                                         check_tables,     check_sources,    check_guides,    check_buckets,
                                         check_exact,      check_predictors};
    return run_checks(argument_count, arguments, checks, sizeof checks / sizeof *checks);
}
