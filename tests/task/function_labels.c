/* Function classes whose labels are classes: frequencies of labels within five standard errors, and reference
 * predictors against direct sums and an independent descent. */
#include "frame.h"
#include "iclab/loss.h"
#include "task/function_classes/family.h"

#define FAMILY "task.family=function-classes "

enum { MOST = 3 }; /* coordinates */

static double sigmoid(double t) {
    return 1 / (1 + exp(-t));
}

static double logit(double p) {
    return log(p) - log(1 - p);
}

/* Returns the value of the linear function of sequence s at input i, d = 3. */
static double value_at(const drawn *batch, size_t s, size_t i) {
    return dot(batch->coefficients + s * 3, input_at(batch, s, i), 3);
}

/* ---- Labels ---- */

/* Counts tokens that are wrong: the label after an input, -1 or 1, must be that input's target, 0 or 1, up to the
 * query. */
static size_t count_wrong_tokens(const drawn *batch) {
    size_t wrong = 0;

    for (size_t s = 0; s < batch->count; s++)
        for (size_t i = 0; i < batch->length; i++) {
            wrong += target_at(batch, s, i) != 0 && target_at(batch, s, i) != 1;
            wrong += i + 1 < batch->length && label_at(batch, s, i) != 2 * target_at(batch, s, i) - 1;
        }
    return wrong;
}

static void check_signs(task_test *test) {
    drawn all = {0};
    statistic flips = {0}, pairs = {0};
    size_t wrong = 0;

    draw(&all, test->device, 1024, FAMILY "task.d=3 task.n=6 task.label_law=signs task.flipped=0.2");
    tap_ok(&test->tap, all.task->shape.loss == ICL_LOSS_LOGISTIC && all.noise[0] == 0,
           "classes have the logistic loss");
    for (size_t s = 0; s < all.count; s++) {
        double count = 0;
        for (size_t i = 0; i < all.length; i++)
            count += (value_at(&all, s, i) > 0) != (target_at(&all, s, i) == 1);
        add(&flips, count / 7);
        add(&pairs, pow(count - 7 * .2, 2));
    }
    tap_ok(&test->tap, count_wrong_tokens(&all) == 0, "tokens show -1 and 1 where targets are 0 and 1");
    tap_ok(&test->tap, deviation(&flips, .2) < BOUND && deviation(&pairs, 7 * .16) < BOUND,
           "signs: a share of %.4f is wrong, beside .2, independently", flips.sum / flips.count);
    release(&all);
    draw(&all, test->device, 64, FAMILY "task.d=3 task.n=6 task.label_law=signs");
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i < all.length; i++)
            wrong += (value_at(&all, s, i) > 0) != (target_at(&all, s, i) == 1);
    tap_ok(&test->tap, wrong == 0, "signs: without flips they are those of the values");
    release(&all);
}

/* In each of six ranges of f, labels are 1 as often as its logistic function predicts. */
static void check_logistic_labels(task_test *test) {
    static const double ends[] = {-3, -1, 0, 1, 3};
    enum { RANGES = 6 };
    drawn all = {0};
    statistic seen[RANGES] = {{0}}, slope = {0};
    double worst = 0;

    draw(&all, test->device, 8192, FAMILY "task.d=3 task.n=6 task.label_law=logistic task.output_scale=2");
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i < all.length; i++) {
            const double f = value_at(&all, s, i);
            int range = 0;
            while (range < RANGES - 1 && f > ends[range])
                range++;
            add(&seen[range], target_at(&all, s, i) - sigmoid(f));
            add(&slope, f * (target_at(&all, s, i) - sigmoid(f))); /* slope of the likelihood in a factor of f */
        }
    for (int r = 0; r < RANGES; r++)
        worst = fmax(worst, deviation(&seen[r], 0));
    worst = fmax(worst, deviation(&slope, 0));
    tap_ok(&test->tap, worst < BOUND && count_wrong_tokens(&all) == 0,
           "logistic: P(y = 1) = 1 / (1 + exp(-f)) in all ranges of f, in steepness (%.1f standard errors)", worst);
    release(&all);
}

/* ---- Predictors ---- */

/* Minimizes the logistic loss with the penalty by gradient descent, to convergence. */
static double descend(const drawn *batch, size_t s, size_t k, double penalty) {
    double w[MOST] = {0}, curvature = penalty;

    for (size_t i = 0; i < k; i++)
        curvature += dot(input_at(batch, s, i), input_at(batch, s, i), batch->d) / 4;
    for (int step = 0; step < 40000; step++) {
        double slope[MOST], score;
        for (size_t j = 0; j < batch->d; j++)
            slope[j] = penalty * w[j];
        for (size_t i = 0; i < k; i++) {
            score = 0;
            for (size_t j = 0; j < batch->d; j++)
                score += w[j] * (double)input_at(batch, s, i)[j];
            for (size_t j = 0; j < batch->d; j++)
                slope[j] -= (target_at(batch, s, i) - sigmoid(score)) * (double)input_at(batch, s, i)[j];
        }
        for (size_t j = 0; j < batch->d; j++)
            w[j] -= slope[j] / curvature;
    }
    double sum = 0;
    for (size_t j = 0; j < batch->d; j++)
        sum += w[j] * (double)input_at(batch, s, k)[j];
    return sum;
}

static void check_logistic(task_test *test) {
    static const struct {
        const char *name;
        double penalty;
    } rows[] = {{"logistic:0.3", .3}, {"logistic:0.02", .02}};
    drawn all = {0};

    draw(&all, test->device, 6,
         FAMILY "task.d=3 task.n=8 task.label_law=signs task.flipped=0.1 task.logistic=0.3,0.02");
    for (size_t i = 0; i < 2; i++) {
        predict(&all, rows[i].name);
        double worst = 0;
        for (size_t s = 0; s < all.count; s++)
            for (size_t k = 0; k < all.length; k += 4)
                worst = fmax(worst, fabs(output_at(&all, s, k) - descend(&all, s, k, rows[i].penalty)));
        tap_ok(&test->tap, worst < 1e-6, "%s: the minimum that gradient descent finds (%.1e)", rows[i].name, worst);
    }
    release(&all);
}

/* Means of labels become logits: votes by Laplace's rule, averages after they are cut to k / (k + 1). */
static void check_means(task_test *test) {
    drawn all = {0};
    size_t wrong = 0;
    double worst = 0;

    draw(&all, test->device, 32, FAMILY "task.d=3 task.n=7 task.label_law=logistic");
    predict(&all, "nearest:3");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < 4; k++) { /* up to three labels, so that all are the nearest */
            double votes = 0;
            for (size_t i = 0; i < k; i++)
                votes += target_at(&all, s, i);
            const double p = (votes + 1) / ((double)k + 2);
            worst = fmax(worst, fabs(output_at(&all, s, k) - logit(p)));
        }
    tap_ok(&test->tap, worst < 1e-12, "nearest:3: votes by Laplace's rule (%.1e)", worst);
    predict(&all, "averaging");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += label_at(&all, s, i) * dot(input_at(&all, s, i), input_at(&all, s, k), 3) / (double)k;
            const double most = (double)k / (double)(k + 1), mean = fmax(-most, fmin(sum, most));
            wrong += fabs(output_at(&all, s, k) - logit(.5 * (1 + mean))) > 1e-9;
        }
    tap_ok(&test->tap, wrong == 0, "averaging: its mean as a logit, cut to k / (k + 1)");
    release(&all);
}

/* Checks the posterior over a pool by direct products; if labels are signs, the functions that fit, or fit best. */
static void check_posterior(task_test *test, const char *law, double flipped) {
    enum { POOL = 5 };
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 64, FAMILY "task.d=2 task.n=6 task.pool=5 task.label_law=%s", law);
    predict(&all, "dmmse");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0, total = 0;
            for (size_t m = 0; m < POOL; m++) {
                double w[2], p = 1, chance = 0;
                icl_function_of_pool(all.task->state, m, w);
                for (size_t i = 0; i <= k; i++) {
                    const float *x = input_at(&all, s, i);
                    const double f = w[0] * (double)x[0] + w[1] * (double)x[1];
                    chance = flipped < 0 ? sigmoid(f) : f > 0 ? 1 - flipped : flipped;
                    p *= i == k ? 1 : target_at(&all, s, i) == 1 ? chance : 1 - chance;
                }
                sum += p * chance;
                total += p;
            }
            worst = fmax(worst, fabs(sigmoid(output_at(&all, s, k)) - sum / total));
        }
    tap_ok(&test->tap, worst < 1e-9, "dmmse: the posterior over the pool of %s (%.1e)", law, worst);
    release(&all);
}

static void check_posteriors(task_test *test) {
    check_posterior(test, "logistic", -1);
    check_posterior(test, "signs task.flipped=0.3", .3);
    check_posterior(test, "signs", 0);
}

static statistic logistic_loss_at(const drawn *batch, size_t k) {
    statistic seen = {0};
    for (size_t s = 0; s < batch->count; s++) {
        const double z = output_at(batch, s, k), y = target_at(batch, s, k);
        add(&seen, icl_loss_of(ICL_LOSS_LOGISTIC, 1, &z, &y));
    }
    return seen;
}

/* A predictor that knows nothing has loss log 2 everywhere, and so has every predictor before the first label; after
 * nineteen labels the most probable w is better than averages, and these are better than nothing. */
static void check_losses(task_test *test) {
    static const char *const names[] = {"logistic:1", "averaging", "zero"};
    drawn all = {0};
    double means[3];

    draw(&all, test->device, 400, FAMILY "task.d=3 task.n=19 task.label_law=logistic task.output_scale=2");
    for (int i = 0; i < 3; i++) {
        predict(&all, names[i]);
        const statistic first = logistic_loss_at(&all, 0), last = logistic_loss_at(&all, 19);
        tap_ok(&test->tap, fabs(first.sum / first.count - log(2)) < 1e-12, "%s: log 2 before the first label",
               names[i]);
        means[i] = last.sum / last.count;
    }
    tap_ok(&test->tap, means[0] < means[1] - .02 && means[1] < means[2] - .02 && fabs(means[2] - log(2)) < 1e-12,
           "behind 19 labels: logistic regression %.3f, averaging %.3f, nothing %.3f", means[0], means[1], means[2]);
    release(&all);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_signs, check_logistic_labels, check_logistic,
                                         check_means, check_posteriors,      check_losses};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
