/*
 * Reference predictors of function classes by neighbours, trees, networks and pools: a table, direct sums, every split
 * of a tree, differences of a network's loss.
 */
#include "function_shown.h"
#include "task/streams.h"

/* A pool of 4096 at the same setting: mean error over D on fresh functions .52, on the pool's .256; one pool each. */
static icl_status check_pool_row(tap_run *tap, icl_error *error) {
    static const struct {
        const char *more;
        double error;
    } rows[] = {{"task.fresh_functions=true", .52}, {"", .256}};

    for (size_t i = 0; i < 2; i++) {
        shown all;
        char text[160];
        double sum = 0;
        icl_status status = ICL_OK;

        snprintf(text, sizeof text, "task.d=8 task.n=15 task.noise=0.5 task.pool=4096 %s", rows[i].more);
        ICL_TRY(shown_open(&all, 512, text, error));
        ICL_TRY(run(&all, "dmmse", error));
        for (size_t k = 0; k < all.points; k++)
            sum += loss_at(&all, k).sum / (double)all.count / 8 / (double)all.points;
        tap_ok(tap, fabs(sum - rows[i].error) < .08 * rows[i].error, "dmmse %s: mean error %.4f beside %.3f",
               rows[i].more, sum, rows[i].error);
    done:
        shown_close(&all);
        ICL_CHECK(status);
    }
    return ICL_OK;
}

/* All of them give the same in either layout, and 0 where a label stands. */
static icl_status check_layouts(tap_run *tap, icl_error *error) {
    static const char *const settings[] = {"task.class=sparse", "task.class=decision-tree", "task.class=relu-network",
                                           "task.class=quadratic"};
    size_t wrong = 0, compared = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        shown joined = {0}, all = {0};
        char text[160];
        const icl_reference_predictor *at;
        snprintf(text, sizeof text, "task.d=3 task.n=4 task.noise=1 task.pool=4 %s", settings[i]);
        status = shown_open(&joined, 4, text, error);
        snprintf(text, sizeof text, "task.d=3 task.n=4 task.noise=1 task.pool=4 task.layout=separate %s", settings[i]);
        status = status == ICL_OK ? shown_open(&all, 4, text, error) : status;
        for (at = joined.task ? joined.task->family->references(joined.task) : NULL; status == ICL_OK && at && at->name;
             at++, compared++) {
            status = run(&joined, at->name, error);
            status = status == ICL_OK ? run(&all, at->name, error) : status;
            for (size_t s = 0; s < 4; s++)
                for (size_t t = 0; t < 9; t++)
                    wrong += all.outputs[s * 9 + t] != (t % 2 == 0 ? joined.outputs[s * 5 + t / 2] : 0);
        }
        shown_close(&joined);
        shown_close(&all);
        ICL_CHECK(status);
    }
    tap_ok(tap, wrong == 0 && compared >= 24, "separate labels: the same predictions by %zu predictors", compared);
    return ICL_OK;
}

/* ---- Neighbours, trees, networks, pools ---- */

static icl_status check_nearest(tap_run *tap, icl_error *error) {
    shown all;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 32, "task.d=3 task.n=7 task.noise=1", error));
    ICL_TRY(run(&all, "nearest:3", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++) {
            double sum = 0, count = 0;
            for (size_t i = 0; i < k; i++) { /* one of the three when fewer than three are nearer */
                size_t nearer = 0;
                double distance[2] = {0};
                for (size_t o = 0; o < k; o++) {
                    for (size_t j = 0; j < all.d; j++) {
                        const double own = (double)x_of(&all, s, i)[j] - (double)x_of(&all, s, k)[j];
                        const double other = (double)x_of(&all, s, o)[j] - (double)x_of(&all, s, k)[j];
                        distance[0] += own * own;
                        distance[1] += other * other;
                    }
                    nearer += distance[1] < distance[0];
                    distance[0] = distance[1] = 0;
                }
                sum += nearer < 3 ? y_of(&all, s, i) : 0;
                count += nearer < 3;
            }
            worst = fmax(worst, fabs(output(&all, s, k) - (count > 0 ? sum / count : 0)));
        }
    tap_ok(tap, worst < 1e-9, "nearest:3: the mean label of those that fewer than three are nearer than");
done:
    shown_close(&all);
    return status;
}

/* The squared error about the mean of those of `set` on one side of a threshold. */
static double side_error(const shown *all, size_t s, const bool *set, size_t k, size_t j, double threshold,
                         bool above) {
    double sum = 0, squares = 0, count = 0;

    for (size_t i = 0; i < k; i++)
        if (set[i] && ((double)x_of(all, s, i)[j] > threshold) == above) {
            sum += y_of(all, s, i);
            squares += y_of(all, s, i) * y_of(all, s, i);
            count++;
        }
    return count > 0 ? squares - sum * sum / count : 0;
}

/* Grows the tree by trying every input's coordinate as threshold, and follows x_k. */
static double grow(const shown *all, size_t s, size_t k, size_t depth, const bool *set) {
    double sum = 0, count = 0, best = (double)INFINITY, threshold = 0;
    size_t at = 0;
    bool kept[MOST];

    for (size_t i = 0; i < k; i++) {
        sum += set[i] ? y_of(all, s, i) : 0;
        count += set[i];
    }
    if (depth == 0 || count < 2)
        return count > 0 ? sum / count : 0;
    for (size_t j = 0; j < all->d; j++)
        for (size_t i = 0; i < k; i++)
            for (size_t o = 0; o < k && set[i]; o++) { /* midway between i and the next one above it */
                const double low = (double)x_of(all, s, i)[j], high = (double)x_of(all, s, o)[j];
                bool is_next = set[o] && high > low;
                for (size_t p = 0; p < k; p++)
                    is_next =
                        is_next && !(set[p] && (double)x_of(all, s, p)[j] > low && (double)x_of(all, s, p)[j] < high);
                if (!is_next)
                    continue;
                const double left = side_error(all, s, set, k, j, low, false),
                             right = side_error(all, s, set, k, j, low, true);
                if (left + right < best - 1e-12) {
                    best = left + right;
                    at = j;
                    threshold = .5 * (low + high);
                }
            }
    for (size_t i = 0; i < k; i++)
        kept[i] = set[i] && ((double)x_of(all, s, i)[at] > threshold) == ((double)x_of(all, s, k)[at] > threshold);
    return grow(all, s, k, depth - 1, kept);
}

static icl_status check_tree(tap_run *tap, icl_error *error) {
    const bool everything[MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    shown all;
    double worst = 0, sum = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 32, "task.class=decision-tree task.depth=2 task.d=3 task.n=12 task.noise=0.5", error));
    ICL_TRY(run(&all, "tree", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++)
            worst = fmax(worst, fabs(output(&all, s, k) - grow(&all, s, k, 2, everything)));
    tap_ok(tap, worst < 1e-9, "tree: the branch of the tree that every split was tried for (%.1e)", worst);
    shown_close(&all);
    /* One coordinate, so that a tree of depth 1 is its sign. */
    ICL_TRY(shown_open(&all, 64, "task.class=decision-tree task.depth=1 task.d=1 task.n=16 task.noise=0", error));
    ICL_TRY(run(&all, "tree-signs", error));
    sum = loss_at(&all, 16).sum;
    tap_ok(tap, sum < 1e-9, "tree-signs: a tree of one coordinate is learned (%.1e)", sum);
done:
    shown_close(&all);
    return status;
}

/* It repeats the labels that it was trained on. */
static icl_status check_network(tap_run *tap, icl_error *error) {
    shown all;
    double before, after;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 16,
                       "task.class=relu-network task.hidden_units=24 task.d=3 task.n=4 task.noise=0 "
                       "task.probe=repeated task.network_steps=400 task.network_rate=0.02",
                       error));
    ICL_TRY(run(&all, "zero", error));
    before = loss_at(&all, 4).sum;
    ICL_TRY(run(&all, "network", error));
    after = loss_at(&all, 4).sum;
    tap_ok(tap, after < 1e-3 * before, "network: fits four pairs (%.1e of the labels' squares)", after / before);
done:
    shown_close(&all);
    return status;
}

enum { UNITS = 3, PARAMETERS = UNITS * 4 + 1 };

/* v . max(0, U x + a) + c of d = 2, from U, a, v, c one behind the other. */
static double network_value(const double *p, const float *x) {
    double sum = p[UNITS * 4];
    for (size_t j = 0; j < UNITS; j++)
        sum += p[UNITS * 3 + j] * fmax(0, p[2 * j] * (double)x[0] + p[2 * j + 1] * (double)x[1] + p[UNITS * 2 + j]);
    return sum;
}

static double network_loss(const shown *all, size_t s, size_t k, const double *p) {
    double sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += pow(network_value(p, x_of(all, s, i)) - y_of(all, s, i), 2) / (double)k;
    return sum;
}

/* Three steps of Adam by differences of the loss. */
static double train_network(const shown *all, size_t s, size_t k, double rate) {
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
            slope[i] = network_loss(all, s, k, p) / (2 * h);
            p[i] = kept - h;
            slope[i] -= network_loss(all, s, k, p) / (2 * h);
            p[i] = kept;
        }
        for (size_t i = 0; i < PARAMETERS; i++) {
            mean[i] = .9 * mean[i] + .1 * slope[i];
            square[i] = .999 * square[i] + .001 * slope[i] * slope[i];
            p[i] -= rate * mean[i] / (1 - pow(.9, step)) / (sqrt(square[i] / (1 - pow(.999, step))) + 1e-8);
        }
    }
    return network_value(p, x_of(all, s, k));
}

/* Where a gradient is 0 but for the rounding of differences, Adam's first steps go by that: few sequences of few. */
static icl_status check_network_steps(tap_run *tap, icl_error *error) {
    shown all;
    size_t near = 0, count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 16,
                       "task.class=relu-network task.hidden_units=3 task.d=2 task.n=6 task.noise=0.1 "
                       "task.network_steps=3 task.network_rate=0.1",
                       error));
    ICL_TRY(run(&all, "network", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 3; k < all.points; k++, count++)
            near += fabs(output(&all, s, k) - train_network(&all, s, k, .1)) < 1e-4;
    tap_ok(tap, near > .9 * (double)count, "network: %zu of %zu predictions are those of differences", near, count);
done:
    shown_close(&all);
    return status;
}

/* In proportion to the density of what a label misses its value by. */
static double normal_density(double miss, double sigma) {
    return exp(-.5 * miss * miss / (sigma * sigma)) / sigma;
}
static double wide_density(double miss, double sigma) {
    return .8 * normal_density(miss, sigma) + .2 * normal_density(miss, 4);
}
static double student_density(double miss, double sigma) {
    const double square = 1 + miss * miss / (3 * sigma * sigma);
    return 1 / (sigma * square * square);
}

static icl_status check_posterior_under(tap_run *tap, const char *noise, double (*density)(double, double),
                                        icl_error *error) {
    enum { POOL = 5 };
    shown all;
    double worst = 0;
    char text[200];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.d=2 task.n=6 task.noise=choice:0.3,1 task.pool=5 task.fresh_functions=true %s",
             noise);
    ICL_TRY(shown_open(&all, 32, text, error));
    ICL_TRY(run(&all, "dmmse", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++) {
            double sum = 0, total = 0;
            for (size_t m = 0; m < POOL; m++) {
                double w[2], p = 1;
                icl_function_of_pool(all.task->state, m, w);
                for (size_t i = 0; i < k; i++) {
                    const float *x = x_of(&all, s, i);
                    p *= density(y_of(&all, s, i) - w[0] * (double)x[0] - w[1] * (double)x[1], (double)all.levels[s]);
                }
                sum += p * (w[0] * (double)x_of(&all, s, k)[0] + w[1] * (double)x_of(&all, s, k)[1]);
                total += p;
            }
            if (total > 1e-200) /* else all of them underflow here */
                worst = fmax(worst, fabs(output(&all, s, k) - sum / total));
        }
    tap_ok(tap, worst < 1e-9, "dmmse %s: the posterior mean over the pool (%.1e)", noise, worst);
done:
    shown_close(&all);
    return status;
}

static icl_status check_posterior(tap_run *tap, icl_error *error) {
    shown all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(check_posterior_under(tap, "", normal_density, error));
    ICL_TRY(check_posterior_under(tap, "task.outliers=0.2 task.outlier_size=4", wide_density, error));
    ICL_TRY(check_posterior_under(tap, "task.noise_law=student-t task.noise_unit=scale", student_density, error));
    ICL_TRY(shown_open(&all, 64, "task.d=3 task.n=2 task.noise=0 task.pool=50", error));
    ICL_TRY(run(&all, "dmmse", error));
    tap_ok(tap, loss_at(&all, 2).sum < 1e-6 && loss_at(&all, 0).sum > 1,
           "dmmse: knows the function from two exact pairs");
done:
    shown_close(&all);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_error * error) = {
        check_pool_row, check_layouts, check_nearest, check_tree, check_network, check_network_steps, check_posterior};
    return test_predictors(checks, sizeof checks / sizeof *checks);
}
