/*
 * Reference predictors of function classes: losses against closed forms and tables within standard errors; regressions
 * against the normal equations and other minimisers of their objectives; neighbours, trees, networks and pools against
 * direct sums, every split of a tree, and differences of a network's loss.
 */
#include "eliminate.h"
#include "frame.h"
#include "task/function_classes/family.h"
#include "task/streams.h"

#define FAMILY "task.family=function-classes "

/* The most inputs of a sequence. */
enum { MOST = 20 };

/* ---- Closed forms and tables ---- */

/* Errors over d on linear functions without noise are: 1, (d + 1) / k, 1 - k / d. */
static void check_closed_forms(task_test *test) {
    enum { D = 5, N = 10 };
    static const char *const names[] = {"zero", "averaging", "least-squares"};
    drawn all = {0};

    draw(&all, test->device, 4096, FAMILY "task.d=5 task.n=10 task.noise=0");
    for (size_t i = 0; i < 3; i++) {
        double worst = 0;
        predict(&all, names[i]);
        for (size_t k = 0; k <= N; k++) {
            const double form = i == 0 || k == 0 ? 1 : i == 1 ? (D + 1) / (double)k : fmax(0, 1 - (double)k / D);
            const statistic seen = loss_at(&all, k);
            worst = fmax(worst, form > 0 ? deviation(&seen, form * D) : seen.sum / seen.count > 1e-6 ? 99 : 0);
        }
        tap_ok(&test->tap, worst < BOUND, "%s: its closed form at every position (%.1f standard errors)", names[i],
               worst);
    }
    release(&all);
}

/* Errors over D of ridge at D = 8, K = 16, noise .5, after 0 … 15 pairs, are compared with another program's, whose
 * standard errors are like ours. */
static void check_ridge_row(task_test *test) {
    static const double row[] = {.98, .89, .76, .66, .55, .43, .33, .24, .18, .128, .101, .080, .065, .051, .044, .038};
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 2048, FAMILY "task.d=8 task.n=15 task.noise=0.5");
    predict(&all, "ridge");
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const statistic seen = loss_at(&all, k);
        const double mean = seen.sum / seen.count / 8, variance = seen.squares / seen.count / 64 - mean * mean;
        const double rounding = k < 9 ? .005 : .0005;
        worst = fmax(worst, (fabs(mean - row[k]) - rounding) / sqrt(2 * variance / seen.count));
    }
    tap_ok(&test->tap, worst < 3, "ridge: the row of D = 8, noise .5 (%.1f standard errors of both)", worst);
    release(&all);
}

/* ---- Regression ---- */

/* Returns x_k . w by elimination: from (X^T X + penalty I) w = X^T y with a penalty or at least as many pairs as
 * coordinates, else w = X^T (X X^T)^-1 y. */
static double solve(const drawn *batch, size_t s, size_t k, double penalty) {
    const size_t d = batch->d;
    const bool is_long = penalty > 0 || k >= d;
    const size_t size = is_long ? d : k;
    double matrix[MOST * MOST], right[MOST], sum = 0;

    for (size_t a = 0; a < size; a++) {
        right[a] = is_long ? 0 : label_at(batch, s, a);
        for (size_t i = 0; i < k && is_long; i++)
            right[a] += label_at(batch, s, i) * (double)input_at(batch, s, i)[a];
        for (size_t b = 0; b < size; b++) {
            double *entry = &matrix[a * size + b];
            *entry = is_long ? (a == b ? penalty : 0) : dot(input_at(batch, s, a), input_at(batch, s, b), d);
            for (size_t i = 0; i < k && is_long; i++)
                *entry += (double)input_at(batch, s, i)[a] * (double)input_at(batch, s, i)[b];
        }
    }
    eliminate(size, size, matrix, right);
    for (size_t a = 0; a < size; a++)
        sum += right[a] *
               (is_long ? (double)input_at(batch, s, k)[a] : dot(input_at(batch, s, a), input_at(batch, s, k), d));
    return sum;
}

/* outliers: the share of labels whose noise has this variance. */
static void check_regression_with(task_test *test, const char *more, double outliers, double variance) {
    drawn all = {0};

    draw(&all, test->device, 16, FAMILY "task.d=4 task.n=9 task.noise=choice:0.5,2 task.output_scale=3 %s", more);
    for (int penalized = 0; penalized < 2; penalized++) {
        double worst = 0;
        predict(&all, penalized ? "ridge" : "least-squares");
        for (size_t s = 0; s < all.count; s++)
            for (size_t k = 0; k < all.length; k++) {
                const double level = (double)all.noise[s], noise = (1 - outliers) * level * level + outliers * variance;
                const double expected = k > 0 ? solve(&all, s, k, penalized ? noise / 9 : 0) : 0;
                worst = fmax(worst, fabs(output_at(&all, s, k) - expected) / (1 + fabs(expected)));
            }
        tap_ok(&test->tap, worst < 1e-6, "%s %s: the normal equations (%.1e)", penalized ? "ridge" : "least-squares",
               more, worst);
    }
    release(&all);
}

/* In pairs a predictor answers for the last input alone, as where each input has a prediction. Where noise varies, none
 * is given that knows the noise of each label. */
static void check_pairs(task_test *test) {
    static const char *const names[] = {"averaging", "nearest:3", "ridge", "lasso:0.1"};
    drawn joined = {0}, all = {0};

    draw(&joined, test->device, 16, FAMILY "task.d=4 task.n=9 task.noise=1 task.class=sparse");
    draw(&all, test->device, 16, FAMILY "task.d=4 task.n=9 task.noise=1 task.class=sparse task.layout=pairs");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t wrong = 0;
        predict(&joined, names[i]);
        predict(&all, names[i]);
        for (size_t s = 0; s < all.count; s++)
            wrong += all.outputs[s] != output_at(&joined, s, joined.length - 1);
        tap_ok(&test->tap, wrong == 0 && all.scored == 1, "pairs, %s: the last prediction", names[i]);
    }
    release(&joined);
    release(&all);
}

static void check_regression(task_test *test) {
    check_regression_with(test, "", 0, 0);
    check_regression_with(test, "task.outliers=0.2 task.outlier_size=3", .2, 9);
}

/* Minimizes |y - X w|^2 / (2 k) + A |w|_1 by proximal gradient descent, to convergence. */
static double descend_lasso(const drawn *batch, size_t s, size_t k, double penalty) {
    double w[MOST] = {0}, sum = 0, trace = 0;

    for (size_t i = 0; i < k; i++)
        trace += dot(input_at(batch, s, i), input_at(batch, s, i), batch->d) / (double)k;
    for (int step = 0; step < 20000; step++) {
        double slope[MOST] = {0};
        for (size_t i = 0; i < k; i++) {
            double miss = -label_at(batch, s, i);
            for (size_t j = 0; j < batch->d; j++)
                miss += w[j] * (double)input_at(batch, s, i)[j];
            for (size_t j = 0; j < batch->d; j++)
                slope[j] += miss * (double)input_at(batch, s, i)[j] / (double)k;
        }
        for (size_t j = 0; j < batch->d; j++) {
            const double free = w[j] - slope[j] / trace;
            w[j] = copysign(fmax(0, fabs(free) - penalty / trace), free);
        }
    }
    for (size_t j = 0; j < batch->d; j++)
        sum += w[j] * (double)input_at(batch, s, k)[j];
    return sum;
}

static void check_lasso(task_test *test) {
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 4, FAMILY "task.d=4 task.n=9 task.noise=0.3 task.class=sparse task.lasso=0.2");
    predict(&all, "lasso:0.2");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 5; k < all.length; k += 2)
            worst = fmax(worst, fabs(output_at(&all, s, k) - descend_lasso(&all, s, k, .2)));
    tap_ok(&test->tap, worst < 1e-4, "lasso: the minimum that proximal gradient descent finds (%.1e)", worst);
    release(&all);
}

/* d = 1, least-squares on squares: one pair determines y = a x^2. */
static void check_squares(task_test *test) {
    drawn all = {0};
    double sum = 0;

    draw(&all, test->device, 64, FAMILY "task.d=3 task.n=5 task.noise=0 task.class=quadratic");
    predict(&all, "squares");
    for (size_t k = 3; k < all.length; k++)
        sum += loss_at(&all, k).sum;
    tap_ok(&test->tap, sum < 1e-6 && loss_at(&all, 2).sum > 1, "squares: quadratic functions from d pairs (%.1e)", sum);
    release(&all);
}

/* ---- Noise with tails and outliers ---- */

/* Returns a label's density, up to a factor, given the function's value. */
typedef double density_of(double label, double value, double sigma);

static double normal_density(double label, double value, double sigma) {
    return exp(-.5 * pow((label - value) / sigma, 2)) / sigma;
}
static double student_density(double label, double value, double sigma) {
    return pow(1 + pow((label - value) / sigma, 2) / 3, -2) / sigma;
}
static double wide_density(double label, double value, double sigma) {
    return .8 * normal_density(label, value, sigma) + .2 * normal_density(label, value, 4);
}
static double multiplied_density(double label, double value, double sigma) {
    return .7 * normal_density(label, value, sigma) + .3 * normal_density(label, 5 * value, 5 * sigma);
}

/* Returns the logarithm of the posterior of w, d = 1 and c = 2, after the first k pairs. */
static double posterior_at(const drawn *batch, size_t s, size_t k, double w, density_of *density) {
    double sum = -.5 * w * w / 4;
    for (size_t i = 0; i < k; i++)
        sum += log(density(label_at(batch, s, i), w * (double)input_at(batch, s, i)[0], .5));
    return sum;
}

/* At reweighted's weight the posterior has slope 0, curves down, and is not below its value at ridge's. */
static void check_mode(task_test *test, const char *noise, density_of *density) {
    const double h = 1e-4;
    drawn all = {0};
    double steepest = 0;
    size_t wrong = 0;

    draw(&all, test->device, 32, FAMILY "task.d=1 task.n=6 task.output_scale=2 task.noise=0.5 %s", noise);
    predict(&all, "ridge");
    double *ridge = take_outputs(&all);
    predict(&all, "reweighted");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            const double x = (double)input_at(&all, s, k)[0], w = output_at(&all, s, k) / x;
            const double here = posterior_at(&all, s, k, w, density);
            const double above = posterior_at(&all, s, k, w + h, density),
                         below = posterior_at(&all, s, k, w - h, density);
            steepest = fmax(steepest, fabs(above - below) / (2 * h));
            wrong += above + below > 2 * here;
            wrong += here < posterior_at(&all, s, k, ridge[s * all.length + k] / x, density) - 1e-9;
        }
    tap_ok(&test->tap, steepest < 1e-4 && wrong == 0, "reweighted, %s: a mode of the posterior (slope %.1e)", noise,
           steepest);
    icl_free(&ridge);
    release(&all);
}

static void check_reweighted(task_test *test) {
    drawn all = {0};

    check_mode(test, "task.noise_law=student-t task.noise_unit=scale", student_density);
    check_mode(test, "task.outliers=0.2 task.outlier_size=4", wide_density);
    check_mode(test, "task.outliers=0.3 task.outlier_law=multiplied task.outlier_size=5", multiplied_density);
    draw(&all, test->device, 400, FAMILY "task.d=3 task.n=12 task.noise=0.3 task.outliers=0.2");
    predict(&all, "ridge");
    const statistic ridge = loss_at(&all, 12);
    predict(&all, "reweighted");
    const statistic own = loss_at(&all, 12);
    tap_ok(&test->tap, deviation(&ridge, own.sum / own.count) > BOUND && own.sum < ridge.sum / 3,
           "behind twelve pairs, a fifth of them outliers: reweighted %.3f, ridge %.3f", own.sum / own.count,
           ridge.sum / ridge.count);
    release(&all);
}

static void check_posterior_under(task_test *test, const char *noise, density_of *density) {
    enum { POOL = 5 };
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 32,
         FAMILY "task.d=2 task.n=6 task.noise=choice:0.3,1 task.pool=5 task.fresh_functions=true %s", noise);
    predict(&all, "dmmse");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0, total = 0;
            for (size_t m = 0; m < POOL; m++) {
                double w[2], p = 1;
                icl_function_of_pool(all.task->state, m, w);
                for (size_t i = 0; i < k; i++) {
                    const float *x = input_at(&all, s, i);
                    p *= density(label_at(&all, s, i), w[0] * (double)x[0] + w[1] * (double)x[1], (double)all.noise[s]);
                }
                sum += p * (w[0] * (double)input_at(&all, s, k)[0] + w[1] * (double)input_at(&all, s, k)[1]);
                total += p;
            }
            if (total > 1e-200) /* else all of them underflow */
                worst = fmax(worst, fabs(output_at(&all, s, k) - sum / total));
        }
    tap_ok(&test->tap, worst < 1e-9, "dmmse %s: the posterior mean over the pool (%.1e)", noise, worst);
    release(&all);
}

static void check_posterior(task_test *test) {
    drawn all = {0};

    check_posterior_under(test, "", normal_density);
    check_posterior_under(test, "task.outliers=0.2 task.outlier_size=4", wide_density);
    check_posterior_under(test, "task.noise_law=student-t task.noise_unit=scale", student_density);
    draw(&all, test->device, 64, FAMILY "task.d=3 task.n=2 task.noise=0 task.pool=50");
    predict(&all, "dmmse");
    tap_ok(&test->tap, loss_at(&all, 2).sum < 1e-6 && loss_at(&all, 0).sum > 1,
           "dmmse: knows the function from two exact pairs");
    release(&all);
}

/* With a pool of 4096 in the same setting, the known mean error over D is .52 on fresh functions, and .256 on the
 * pool's, each for one pool. */
static void check_pool_row(task_test *test) {
    static const struct {
        const char *more;
        double error;
    } rows[] = {{"task.fresh_functions=true", .52}, {"", .256}};

    for (size_t i = 0; i < 2; i++) {
        drawn all = {0};
        double sum = 0;

        draw(&all, test->device, 512, FAMILY "task.d=8 task.n=15 task.noise=0.5 task.pool=4096 %s", rows[i].more);
        predict(&all, "dmmse");
        for (size_t k = 0; k < all.length; k++)
            sum += loss_at(&all, k).sum / (double)all.count / 8 / (double)all.length;
        tap_ok(&test->tap, fabs(sum - rows[i].error) < .08 * rows[i].error, "dmmse %s: mean error %.4f beside %.3f",
               rows[i].more, sum, rows[i].error);
        release(&all);
    }
}

/* All predictors return the same in either layout, and 0 at positions of labels. */
static void check_layouts(task_test *test) {
    static const char *const settings[] = {"task.class=sparse", "task.class=decision-tree", "task.class=relu-network",
                                           "task.class=quadratic"};
    size_t wrong = 0, compared = 0;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        drawn joined = {0}, all = {0};
        draw(&joined, test->device, 4, FAMILY "task.d=3 task.n=4 task.noise=1 task.pool=4 %s", settings[i]);
        draw(&all, test->device, 4, FAMILY "task.d=3 task.n=4 task.noise=1 task.pool=4 task.layout=separate %s",
             settings[i]);
        const icl_reference_predictor *at = joined.task->family->references(joined.task);
        for (; at->name; at++, compared++) {
            predict(&joined, at->name);
            predict(&all, at->name);
            for (size_t s = 0; s < 4; s++)
                for (size_t t = 0; t < 9; t++)
                    wrong += all.outputs[s * 9 + t] != (t % 2 == 0 ? joined.outputs[s * 5 + t / 2] : 0);
        }
        release(&joined);
        release(&all);
    }
    tap_ok(&test->tap, wrong == 0 && compared >= 24, "separate labels: the same predictions by %zu predictors",
           compared);
}

/* ---- Neighbours, trees, networks ---- */

static void check_nearest(task_test *test) {
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 32, FAMILY "task.d=3 task.n=7 task.noise=1");
    predict(&all, "nearest:3");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0, count = 0;
            for (size_t i = 0; i < k; i++) { /* i is one of the three if fewer than three are nearer */
                size_t nearer = 0;
                double distance[2] = {0};
                for (size_t o = 0; o < k; o++) {
                    for (size_t j = 0; j < all.d; j++) {
                        const double own = (double)input_at(&all, s, i)[j] - (double)input_at(&all, s, k)[j];
                        const double other = (double)input_at(&all, s, o)[j] - (double)input_at(&all, s, k)[j];
                        distance[0] += own * own;
                        distance[1] += other * other;
                    }
                    nearer += distance[1] < distance[0];
                    distance[0] = distance[1] = 0;
                }
                sum += nearer < 3 ? label_at(&all, s, i) : 0;
                count += nearer < 3;
            }
            worst = fmax(worst, fabs(output_at(&all, s, k) - (count > 0 ? sum / count : 0)));
        }
    tap_ok(&test->tap, worst < 1e-9, "nearest:3: the mean label of those that fewer than three are nearer than");
    release(&all);
}

/* Returns the squared error around the mean of those members of `set` on one side of a threshold. */
static double side_error(const drawn *batch, size_t s, const bool *set, size_t k, size_t j, double threshold,
                         bool above) {
    double sum = 0, squares = 0, count = 0;

    for (size_t i = 0; i < k; i++)
        if (set[i] && ((double)input_at(batch, s, i)[j] > threshold) == above) {
            sum += label_at(batch, s, i);
            squares += label_at(batch, s, i) * label_at(batch, s, i);
            count++;
        }
    return count > 0 ? squares - sum * sum / count : 0;
}

/* Grows the tree, trying each coordinate of every input as threshold, and follows x_k. */
static double grow(const drawn *batch, size_t s, size_t k, size_t depth, const bool *set) {
    double sum = 0, count = 0, best = (double)INFINITY, threshold = 0;
    size_t at = 0;
    bool kept[MOST];

    for (size_t i = 0; i < k; i++) {
        sum += set[i] ? label_at(batch, s, i) : 0;
        count += set[i];
    }
    if (depth == 0 || count < 2)
        return count > 0 ? sum / count : 0;
    for (size_t j = 0; j < batch->d; j++)
        for (size_t i = 0; i < k; i++)
            for (size_t o = 0; o < k && set[i]; o++) { /* midway between i and the next one above it */
                const double low = (double)input_at(batch, s, i)[j], high = (double)input_at(batch, s, o)[j];
                bool is_next = set[o] && high > low;
                for (size_t p = 0; p < k; p++)
                    is_next = is_next && !(set[p] && (double)input_at(batch, s, p)[j] > low &&
                                           (double)input_at(batch, s, p)[j] < high);
                if (!is_next)
                    continue;
                const double left = side_error(batch, s, set, k, j, low, false),
                             right = side_error(batch, s, set, k, j, low, true);
                if (left + right < best - 1e-12) {
                    best = left + right;
                    at = j;
                    threshold = .5 * (low + high);
                }
            }
    for (size_t i = 0; i < k; i++)
        kept[i] = set[i] &&
                  ((double)input_at(batch, s, i)[at] > threshold) == ((double)input_at(batch, s, k)[at] > threshold);
    return grow(batch, s, k, depth - 1, kept);
}

static void check_tree(task_test *test) {
    const bool everything[MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    drawn all = {0};
    double worst = 0, sum = 0;

    draw(&all, test->device, 32, FAMILY "task.class=decision-tree task.depth=2 task.d=3 task.n=12 task.noise=0.5");
    predict(&all, "tree");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++)
            worst = fmax(worst, fabs(output_at(&all, s, k) - grow(&all, s, k, 2, everything)));
    tap_ok(&test->tap, worst < 1e-9, "tree: the branch of the tree that every split was tried for (%.1e)", worst);
    release(&all);
    /* With one coordinate, a tree of depth 1 is its sign. */
    draw(&all, test->device, 64, FAMILY "task.class=decision-tree task.depth=1 task.d=1 task.n=16 task.noise=0");
    predict(&all, "tree-signs");
    sum = loss_at(&all, 16).sum;
    tap_ok(&test->tap, sum < 1e-9, "tree-signs: a tree of one coordinate is learned (%.1e)", sum);
    release(&all);
}

/* The network repeats the labels that it was trained on. */
static void check_network(task_test *test) {
    drawn all = {0};
    double before, after;

    draw(&all, test->device, 16,
         FAMILY "task.class=relu-network task.hidden_units=24 task.d=3 task.n=4 task.noise=0 "
                "task.probe=repeated task.network_steps=400 task.network_rate=0.02");
    predict(&all, "zero");
    before = loss_at(&all, 4).sum;
    predict(&all, "network");
    after = loss_at(&all, 4).sum;
    tap_ok(&test->tap, after < 1e-3 * before, "network: fits four pairs (%.1e of the labels' squares)", after / before);
    release(&all);
}

enum { UNITS = 3, PARAMETERS = UNITS * 4 + 1 };

/* Returns v . max(0, U x + a) + c for d = 2, with U, a, v, c stored in this order. */
static double network_value(const double *p, const float *x) {
    double sum = p[UNITS * 4];
    for (size_t j = 0; j < UNITS; j++)
        sum += p[UNITS * 3 + j] * fmax(0, p[2 * j] * (double)x[0] + p[2 * j + 1] * (double)x[1] + p[UNITS * 2 + j]);
    return sum;
}

static double network_loss(const drawn *batch, size_t s, size_t k, const double *p) {
    double sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += pow(network_value(p, input_at(batch, s, i)) - label_at(batch, s, i), 2) / (double)k;
    return sum;
}

/* Takes three steps of Adam with differences of the loss. */
static double train_network(const drawn *batch, size_t s, size_t k, double rate) {
    double p[PARAMETERS], mean[PARAMETERS] = {0}, square[PARAMETERS] = {0};

    for (size_t i = 0; i < PARAMETERS; i++) {
        const icl_random_key key = {.stream = ICL_CLASSES_NETWORK_STREAM};
        p[i] = (2 * ((double)icl_random_word(key, i) + .5) * 0x1p-32 - 1) / sqrt(i < 3 * UNITS ? 2 : UNITS);
    }
    for (int step = 1; step <= 3; step++) {
        double slope[PARAMETERS];
        for (size_t i = 0; i < PARAMETERS; i++) {
            const double kept = p[i], h = 1e-6;
            p[i] = kept + h;
            slope[i] = network_loss(batch, s, k, p) / (2 * h);
            p[i] = kept - h;
            slope[i] -= network_loss(batch, s, k, p) / (2 * h);
            p[i] = kept;
        }
        for (size_t i = 0; i < PARAMETERS; i++) {
            mean[i] = .9 * mean[i] + .1 * slope[i];
            square[i] = .999 * square[i] + .001 * slope[i] * slope[i];
            p[i] -= rate * mean[i] / (1 - pow(.9, step)) / (sqrt(square[i] / (1 - pow(.999, step))) + 1e-8);
        }
    }
    return network_value(p, input_at(batch, s, k));
}

/* If a gradient is 0 except for the rounding of differences, that rounding decides Adam's first steps: this happens in
 * few sequences, which may differ. */
static void check_network_steps(task_test *test) {
    drawn all = {0};
    size_t near = 0, count = 0;

    draw(&all, test->device, 16,
         FAMILY "task.class=relu-network task.hidden_units=3 task.d=2 task.n=6 task.noise=0.1 "
                "task.network_steps=3 task.network_rate=0.1");
    predict(&all, "network");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 3; k < all.length; k++, count++)
            near += fabs(output_at(&all, s, k) - train_network(&all, s, k, .1)) < 1e-4;
    tap_ok(&test->tap, near > .9 * (double)count, "network: %zu of %zu predictions are those of differences", near,
           count);
    release(&all);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_closed_forms, check_ridge_row,    check_pool_row, check_layouts,
                                         check_pairs,        check_regression,   check_lasso,    check_squares,
                                         check_reweighted,   check_posterior,    check_nearest,  check_tree,
                                         check_network,      check_network_steps};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
