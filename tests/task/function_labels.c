/*
 * Function classes whose labels are classes: frequencies of labels within five standard errors, and reference
 * predictors beside direct sums and a descent of their own.
 */
#include "function_shown.h"
#include "iclab/loss.h"

static double sigmoid(double t) {
    return 1 / (1 + exp(-t));
}

static double logit(double p) {
    return log(p) - log(1 - p);
}

static double class_of(const shown *all, size_t s, size_t i) {
    return (double)all->targets[s * all->points + i];
}

static icl_status open_with_weights(shown *all, size_t count, const char *overrides, float **w, icl_error *error) {
    ICL_CHECK(shown_open(all, count, overrides, error));
    return read_tensor(icl_batch_side(&all->batch, ICL_SIDE_COEFFICIENTS), w, error);
}

/* ---- Labels ---- */

/* A label behind its input is the target of that input, as -1 or 1, in the query's place, too. */
static size_t count_wrong_tokens(const shown *all) {
    size_t wrong = 0;

    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->points; i++) {
            wrong += class_of(all, s, i) != 0 && class_of(all, s, i) != 1;
            wrong += i + 1 < all->points && y_of(all, s, i) != 2 * class_of(all, s, i) - 1;
        }
    return wrong;
}

static icl_status check_signs(tap_run *tap, icl_error *error) {
    shown all = {0};
    statistic flips = {0}, pairs = {0};
    float *w = NULL;
    size_t wrong = 0;
    icl_status status = ICL_OK;

    ICL_TRY(open_with_weights(&all, 1024, "task.d=3 task.n=6 task.label_law=signs task.flipped=0.2", &w, error));
    tap_ok(tap, all.task->shape.loss == ICL_LOSS_LOGISTIC && all.levels[0] == 0, "classes have the logistic loss");
    for (size_t s = 0; s < all.count; s++) {
        double count = 0;
        for (size_t i = 0; i < all.points; i++)
            count += (dot(w + s * 3, x_of(&all, s, i), 3) > 0) != (class_of(&all, s, i) == 1);
        add(&flips, count / 7);
        add(&pairs, pow(count - 7 * .2, 2));
    }
    tap_ok(tap, count_wrong_tokens(&all) == 0, "tokens show -1 and 1 where targets are 0 and 1");
    tap_ok(tap, deviation(&flips, .2) < BOUND && deviation(&pairs, 7 * .16) < BOUND,
           "signs: a share of %.4f is wrong, beside .2, independently", flips.sum / flips.count);
    shown_close(&all);
    icl_free(&w);
    ICL_TRY(open_with_weights(&all, 64, "task.d=3 task.n=6 task.label_law=signs", &w, error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i < all.points; i++)
            wrong += (dot(w + s * 3, x_of(&all, s, i), 3) > 0) != (class_of(&all, s, i) == 1);
    tap_ok(tap, wrong == 0, "signs: without flips they are those of the values");
done:
    icl_free(&w);
    shown_close(&all);
    return status;
}

/* In each of six ranges of f the labels are 1 as often as its logistic function says. */
static icl_status check_logistic_labels(tap_run *tap, icl_error *error) {
    static const double ends[] = {-3, -1, 0, 1, 3};
    enum { RANGES = 6 };
    shown all = {0};
    statistic seen[RANGES] = {{0}}, slope = {0};
    double worst = 0;
    float *w = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(open_with_weights(&all, 8192, "task.d=3 task.n=6 task.label_law=logistic task.output_scale=2", &w, error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i < all.points; i++) {
            const double f = dot(w + s * 3, x_of(&all, s, i), 3);
            int range = 0;
            while (range < RANGES - 1 && f > ends[range])
                range++;
            add(&seen[range], class_of(&all, s, i) - sigmoid(f));
            add(&slope, f * (class_of(&all, s, i) - sigmoid(f))); /* of the likelihood, by a factor of f */
        }
    for (int r = 0; r < RANGES; r++)
        worst = fmax(worst, deviation(&seen[r], 0));
    worst = fmax(worst, deviation(&slope, 0));
    tap_ok(tap, worst < BOUND && count_wrong_tokens(&all) == 0,
           "logistic: P(y = 1) = 1 / (1 + exp(-f)) in all ranges of f, in steepness (%.1f standard errors)", worst);
done:
    icl_free(&w);
    shown_close(&all);
    return status;
}

/* ---- Predictors ---- */

/* Gradient descent on the logistic loss and the penalty, to the end. */
static double descend(const shown *all, size_t s, size_t k, double penalty) {
    double w[MOST] = {0}, curvature = penalty;

    for (size_t i = 0; i < k; i++)
        curvature += dot(x_of(all, s, i), x_of(all, s, i), all->d) / 4;
    for (int step = 0; step < 40000; step++) {
        double slope[MOST], score;
        for (size_t j = 0; j < all->d; j++)
            slope[j] = penalty * w[j];
        for (size_t i = 0; i < k; i++) {
            score = 0;
            for (size_t j = 0; j < all->d; j++)
                score += w[j] * (double)x_of(all, s, i)[j];
            for (size_t j = 0; j < all->d; j++)
                slope[j] -= (class_of(all, s, i) - sigmoid(score)) * (double)x_of(all, s, i)[j];
        }
        for (size_t j = 0; j < all->d; j++)
            w[j] -= slope[j] / curvature;
    }
    double sum = 0;
    for (size_t j = 0; j < all->d; j++)
        sum += w[j] * (double)x_of(all, s, k)[j];
    return sum;
}

static icl_status check_logistic(tap_run *tap, icl_error *error) {
    static const struct {
        const char *name;
        double penalty;
    } rows[] = {{"logistic:0.3", .3}, {"logistic:0.02", .02}};
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(
        shown_open(&all, 6, "task.d=3 task.n=8 task.label_law=signs task.flipped=0.1 task.logistic=0.3,0.02", error));
    for (size_t i = 0; i < 2; i++) {
        ICL_TRY(run(&all, rows[i].name, error));
        const double worst = largest_miss(&all, 0, 4, descend, rows[i].penalty);
        tap_ok(tap, worst < 1e-6, "%s: the minimum that gradient descent finds (%.1e)", rows[i].name, worst);
    }
done:
    shown_close(&all);
    return status;
}

/* Means of labels become logits: of votes by Laplace's rule, of averages cut to k / (k + 1). */
static icl_status check_means(tap_run *tap, icl_error *error) {
    shown all;
    size_t wrong = 0;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 32, "task.d=3 task.n=7 task.label_law=logistic", error));
    ICL_TRY(run(&all, "nearest:3", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < 4; k++) { /* the three nearest are all there are */
            double votes = 0;
            for (size_t i = 0; i < k; i++)
                votes += class_of(&all, s, i);
            const double p = (votes + 1) / ((double)k + 2);
            worst = fmax(worst, fabs(output(&all, s, k) - logit(p)));
        }
    tap_ok(tap, worst < 1e-12, "nearest:3: votes by Laplace's rule (%.1e)", worst);
    ICL_TRY(run(&all, "averaging", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += y_of(&all, s, i) * dot(x_of(&all, s, i), x_of(&all, s, k), 3) / (double)k;
            const double most = (double)k / (double)(k + 1), mean = fmax(-most, fmin(sum, most));
            wrong += fabs(output(&all, s, k) - logit(.5 * (1 + mean))) > 1e-9;
        }
    tap_ok(tap, wrong == 0, "averaging: its mean as a logit, cut to k / (k + 1)");
done:
    shown_close(&all);
    return status;
}

/* The posterior over a pool by direct products; where labels are signs, those that fit, or fit best. */
static icl_status check_posterior(tap_run *tap, const char *law, double flipped, icl_error *error) {
    enum { POOL = 5 };
    shown all;
    double worst = 0;
    char text[160];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.d=2 task.n=6 task.pool=5 task.label_law=%s", law);
    ICL_TRY(shown_open(&all, 64, text, error));
    ICL_TRY(run(&all, "dmmse", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++) {
            double sum = 0, total = 0;
            for (size_t m = 0; m < POOL; m++) {
                double w[2], p = 1, chance = 0;
                icl_function_of_pool(all.task->state, m, w);
                for (size_t i = 0; i <= k; i++) {
                    const float *x = x_of(&all, s, i);
                    const double f = w[0] * (double)x[0] + w[1] * (double)x[1];
                    chance = flipped < 0 ? sigmoid(f) : f > 0 ? 1 - flipped : flipped;
                    p *= i == k ? 1 : class_of(&all, s, i) == 1 ? chance : 1 - chance;
                }
                sum += p * chance;
                total += p;
            }
            worst = fmax(worst, fabs(sigmoid(output(&all, s, k)) - sum / total));
        }
    tap_ok(tap, worst < 1e-9, "dmmse: the posterior over the pool of %s (%.1e)", law, worst);
done:
    shown_close(&all);
    return status;
}

static icl_status check_posteriors(tap_run *tap, icl_error *error) {
    ICL_CHECK(check_posterior(tap, "logistic", -1, error));
    ICL_CHECK(check_posterior(tap, "signs task.flipped=0.3", .3, error));
    return check_posterior(tap, "signs", 0, error);
}

static statistic logistic_loss_at(const shown *all, size_t k) {
    statistic seen = {0};
    for (size_t s = 0; s < all->count; s++) {
        const double z = output(all, s, k), y = class_of(all, s, k);
        add(&seen, icl_loss_of(ICL_LOSS_LOGISTIC, 1, &z, &y));
    }
    return seen;
}

/* Who knows nothing pays log 2 everywhere, and everyone does before the first label; the most probable w is better
 * than averages behind twenty labels, and those than nothing. */
static icl_status check_losses(tap_run *tap, icl_error *error) {
    static const char *const names[] = {"logistic:1", "averaging", "zero"};
    shown all;
    double means[3];
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 400, "task.d=3 task.n=19 task.label_law=logistic task.output_scale=2", error));
    for (int i = 0; i < 3; i++) {
        ICL_TRY(run(&all, names[i], error));
        const statistic first = logistic_loss_at(&all, 0), last = logistic_loss_at(&all, 19);
        tap_ok(tap, fabs(first.sum / first.count - log(2)) < 1e-12, "%s: log 2 before the first label", names[i]);
        means[i] = last.sum / last.count;
    }
    tap_ok(tap, means[0] < means[1] - .02 && means[1] < means[2] - .02 && fabs(means[2] - log(2)) < 1e-12,
           "behind 19 labels: logistic regression %.3f, averaging %.3f, nothing %.3f", means[0], means[1], means[2]);
done:
    shown_close(&all);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_error * error) = {
        check_signs, check_logistic_labels, check_logistic, check_means, check_posteriors, check_losses};
    return test_predictors(checks, sizeof checks / sizeof *checks);
}
