/* Mixtures of function classes: components by their shares, and the Bayes predictor against integrals over weights on
 * fine grids, before the first label, and against predictors that take all functions to be of one class. */
#include "frame.h"
#include "task/function_classes/family.h"
#include "task/function_classes/predictors.h"

#define FAMILY "task.family=function-classes "

/* ---- What is drawn ---- */

static void check_components(task_test *test) {
    enum { COUNT = 4096, CLASSES = 3 };
    static const double shares[CLASSES] = {.5, .125, .375};
    static const double squares[CLASSES] = {4, 1, 2}; /* of linear, decision-tree, sparse */
    const icl_random_key key = {.seed = 3, .stream = 5};
    drawn all = {0};
    statistic chosen[CLASSES] = {{0}}, square[CLASSES] = {{0}};
    double function[64], worst = 0, sum = 0;

    draw(&all, test->device, COUNT,
         FAMILY "task.d=4 task.n=1 task.noise=0 task.class=mixture task.support=2 task.depth=2 "
                "task.mixture=linear:4,decision-tree,sparse:3");
    const icl_function_law *law = &((const icl_function_classes *)all.task->state)->law;
    for (size_t s = 0; s < COUNT; s++) {
        icl_function_draw(law, key, s, function);
        const size_t place = (size_t)function[0];
        const double value = icl_function_value(law, function, input_at(&all, s, 0));
        for (size_t c = 0; c < CLASSES; c++)
            add(&chosen[c], c == place);
        add(&square[place], value * value);
        sum += pow(target_at(&all, s, 0), 2) / COUNT;
    }
    for (size_t c = 0; c < CLASSES; c++) {
        worst = fmax(worst, deviation(&chosen[c], shares[c]));
        worst = fmax(worst, deviation(&square[c], squares[c]));
    }
    tap_ok(&test->tap, worst < BOUND,
           "components are drawn by their weights, each with its own E f^2 (%.1f standard errors)", worst);
    tap_ok(&test->tap, fabs(icl_function_mean_square(law) - 2.875) < 1e-12 && fabs(sum - 2.875) < .4,
           "E f^2 is 2.875 by the shares, and %.2f of targets", sum);
    release(&all);
}

/* ---- Bayes by integrals ---- */

/* A class's integrals over w of N(w; 0, I) prod_(i < k) N(y_i; f_w(x_i), sigma^2), and of that times f_w(x_k), by the
 * trapezium rule, d = 1 or 2, without the labels' factors of 2 pi. */
typedef struct integrals {
    double total, sum;
} integrals;

typedef double value_of(const double *w, const float *x);

static integrals integrate(const drawn *batch, size_t s, size_t k, size_t dimension, double step, double sigma,
                           value_of *f) {
    const int most = (int)(7 / step);
    integrals found = {0, 0};

    for (int a = -most; a <= most; a++)
        for (int b = dimension > 1 ? -most : 0; b <= (dimension > 1 ? most : 0); b++) {
            const double w[2] = {a * step, b * step};
            double log_weight = -.5 * (w[0] * w[0] + w[1] * w[1]) - (double)k * log(sigma);
            for (size_t i = 0; i < k; i++)
                log_weight -= .5 * pow((label_at(batch, s, i) - f(w, input_at(batch, s, i))) / sigma, 2);
            const double weight = exp(log_weight) * pow(step / sqrt(2 * 3.14159265358979323846), (double)dimension);
            found.total += weight;
            found.sum += weight * f(w, input_at(batch, s, k));
        }
    return found;
}

static double linear(const double *w, const float *x) {
    return 2 * w[0] * (double)x[0];
}
static double quadratic(const double *w, const float *x) {
    return 2 * w[0] * (double)x[0] * (double)x[0] / sqrt(3);
}
static double plane(const double *w, const float *x) {
    return w[0] * (double)x[0] + w[1] * (double)x[1];
}
static double outer(const double *w, const float *x) {
    return w[0] * (double)x[0] + w[1] * (double)x[2];
}
static double last(const double *w, const float *x) {
    return plane(w, x + 1);
}
static double first(const double *w, const float *x) {
    return w[0] * (double)x[0];
}
static double second(const double *w, const float *x) {
    return w[0] * (double)x[1];
}

/* A hypothesis with its probability. */
typedef struct part {
    double share, sigma, step;
    size_t dimension;
    value_of *f;
} part;

static void check_integrals(task_test *test, const char *setting, const char *name, size_t sequences, const part *parts,
                            size_t count) {
    drawn all = {0};
    double worst = 0;
    size_t wrong = 0;

    draw(&all, test->device, sequences, FAMILY "%s", setting);
    predict(&all, name);
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0, total = 0;
            for (size_t i = 0; i < count; i++) {
                const integrals own = integrate(&all, s, k, parts[i].dimension, parts[i].step,
                                                (double)(float)parts[i].sigma, parts[i].f); /* levels are floats */
                sum += parts[i].share * own.sum;
                total += parts[i].share * own.total;
            }
            worst = fmax(worst, fabs(output_at(&all, s, k) - sum / total));
            wrong += k == 0 && output_at(&all, s, k) != 0;
        }
    tap_ok(&test->tap, worst < 1e-10, "%s, %s: the mean by integrals over all weights (%.1e)", name, setting, worst);
    tap_ok(&test->tap, wrong == 0, "%s: the prior mean, 0, before the first label", name);
    release(&all);
}

#define ONE   "task.d=1 task.n=5 task.output_scale=2 task.class=mixture task.mixture=linear:1,quadratic:3 "
#define PLANE "task.d=2 task.n=4 task.class=mixture task.support=1 task.mixture=sparse:2,linear:1 task.noise=0.6"

static void check_bayes(task_test *test) {
    static const double step = 1. / 128;
    static const part one[] = {{.25, .8, step, 1, linear}, {.75, .8, step, 1, quadratic}};
    static const part levels[] = {{.125, .3, step, 1, linear},
                                  {.125, 1.5, step, 1, linear},
                                  {.375, .3, step, 1, quadratic},
                                  {.375, 1.5, step, 1, quadratic}};
    static const part planes[] = {
        {1. / 3, .6, 1. / 16, 2, plane}, {1. / 3, .6, step, 1, first}, {1. / 3, .6, step, 1, second}};

    static const part pairs[] = {{1, .6, 1. / 16, 2, plane}, {1, .6, 1. / 16, 2, outer}, {1, .6, 1. / 16, 2, last}};

    check_integrals(test, "task.d=3 task.n=3 task.class=sparse task.support=2 task.noise=0.6", "bayes", 3, pairs, 3);
    check_integrals(test, ONE "task.noise=0.8", "bayes", 16, one, 2);
    check_integrals(test, ONE "task.noise=choice:0.3,1.5", "bayes", 16, levels, 4);
    check_integrals(test, ONE "task.noise=0.8", "bayes:quadratic", 4, one + 1, 1);
    check_integrals(test, "task.d=1 task.n=5 task.output_scale=2 task.noise=choice:0.3,1.5", "bayes", 8, levels, 2);
    check_integrals(test, PLANE, "bayes", 3, planes, 3);
    check_integrals(test, "task.d=2 task.n=4 task.class=sparse task.support=1 task.noise=0.6", "bayes", 4, planes + 1,
                    2);
}

/* ---- An unknown level of noise ---- */

/* Returns the likelihood of y_0 … y_(k-1) for f(x) = w phi(x), w ~ N(0, 1), given sigma, by the lemma of Sherman and
 * Morrison and without factors of 2 pi; and that times E f(x_k). There is one weight, so that no recursion is
 * needed. */
static integrals given_level(const drawn *batch, size_t s, size_t k, double sigma, value_of *f) {
    const double one[1] = {1}, precision = 1 / (sigma * sigma);
    double squares = 0, products = 0, features = 0;

    for (size_t i = 0; i < k; i++) {
        const double phi = f(one, input_at(batch, s, i)), y = label_at(batch, s, i);
        squares += y * y;
        products += y * phi;
        features += phi * phi;
    }
    const double variance = 1 / (1 + features * precision), mean = variance * products * precision;
    const double density =
        exp(-(double)k * log(sigma) + .5 * log(variance) - .5 * precision * (squares - products * mean));
    return (integrals){density, density * mean * f(one, input_at(batch, s, k))};
}

/* Averages over sigma ~ U[0, S] by the midpoint rule, which shares no nodes with the predictor's rule. */
static void check_uniform(task_test *test, const char *setting, double largest, const part *parts, size_t count) {
    enum { LEVELS = 20000 };
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, 12, FAMILY "%s", setting);
    predict(&all, "bayes");
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.length; k++) {
            double sum = 0, total = 0;
            for (size_t l = 0; l < LEVELS; l++)
                for (size_t i = 0; i < count; i++) {
                    const integrals own = given_level(&all, s, k, largest * (l + .5) / LEVELS, parts[i].f);
                    sum += parts[i].share * own.sum;
                    total += parts[i].share * own.total;
                }
            worst = fmax(worst, fabs(output_at(&all, s, k) - sum / total));
        }
    tap_ok(&test->tap, worst < 3e-6, "bayes, %s: the mean by an integral over sigma (%.1e)", setting, worst);
    release(&all);
}

static void check_levels(task_test *test) {
    static const part both[] = {{.25, 0, 0, 1, linear}, {.75, 0, 0, 1, quadratic}};

    for (size_t kind = 0; kind < 3; kind++) {
        const icl_random_params laws[] = {{.distribution = ICL_UNIFORM, .high = 3},
                                          {.distribution = ICL_UNIFORM, .high = 0},
                                          {.distribution = ICL_CHOICE, .choice_count = 2, .choices = {1, 2}}};
        static const double means[] = {1.5, 0, 1.5}, squares[] = {3, 0, 2.5};
        double total = 0, mean = 0, square = 0, share;
        for (size_t i = 0; i < icl_noise_level_count(&laws[kind], 40); i++) {
            const double level = icl_noise_level(&laws[kind], 40, i, &share);
            total += share;
            mean += share * level;
            square += share * level * level;
        }
        tap_ok(&test->tap,
               fabs(total - 1) < 1e-9 && fabs(mean - means[kind]) < 3e-6 && fabs(square - squares[kind]) < 1e-6,
               "law %zu of the level: probabilities %.12f, mean %.8f, mean square %.8f", kind, total, mean, square);
    }
    check_uniform(test, "task.d=1 task.n=8 task.output_scale=2 task.noise=uniform:1", 1, both, 1);
    check_uniform(test, "task.d=1 task.n=8 task.output_scale=2 task.noise=uniform:4", 4, both, 1);
    check_uniform(test, ONE "task.noise=uniform:2", 2, both, 2);
}

/* ---- Losses ---- */

/* Compares the loss of a predictor with that of bayes, by sequence, over all positions with a label before them. */
static void compare_with(task_test *test, drawn *batch, const char *name, const double *bayes) {
    statistic more = {0};

    predict(batch, name);
    for (size_t s = 0; s < batch->count; s++) {
        double sum = 0;
        for (size_t k = 1; k < batch->length; k++) {
            const double target = target_at(batch, s, k);
            const double theirs = output_at(batch, s, k) - target, best = bayes[s * batch->length + k] - target;
            sum += (theirs * theirs - best * best) / (double)(batch->length - 1);
        }
        add(&more, sum);
    }
    tap_ok(&test->tap, more.sum > 0 && deviation(&more, 0) > BOUND,
           "%s loses %.3f more than bayes, %.0f standard errors", name, more.sum / more.count, deviation(&more, 0));
}

/* The error is orthogonal to the prediction at every position, as for any conditional mean. */
static void check_calibration(task_test *test, const drawn *batch) {
    double worst = 0;

    for (size_t k = 1; k < batch->length; k++) {
        statistic seen = {0};
        for (size_t s = 0; s < batch->count; s++)
            add(&seen, output_at(batch, s, k) * (target_at(batch, s, k) - output_at(batch, s, k)));
        worst = fmax(worst, deviation(&seen, 0));
    }
    tap_ok(&test->tap, worst < BOUND, "bayes: nothing of what it misses follows its prediction (%.1f standard errors)",
           worst);
}

static void check_losses(task_test *test) {
    /* Predictors whose variance is infinite for as many pairs as weights are left out. */
    static const char *const names[] = {"bayes:linear", "bayes:sparse", "bayes:quadratic",
                                        "ridge",        "lasso:0.1",    "zero"};
    drawn all = {0};

    draw(&all, test->device, 1000,
         FAMILY "task.d=4 task.n=8 task.class=mixture task.mixture=linear,sparse,quadratic task.support=2 "
                "task.noise=0.5");
    predict(&all, "bayes");
    check_calibration(test, &all);
    double *bayes = take_outputs(&all);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_with(test, &all, names[i], bayes);
    icl_free(&bayes);
    release(&all);
}

/* Without noise, functions of two coordinates are found from three pairs. */
static void check_exact(task_test *test) {
    drawn all = {0};

    draw(&all, test->device, 200, FAMILY "task.d=6 task.n=3 task.class=sparse task.support=2 task.noise=0");
    predict(&all, "bayes");
    const double before = loss_at(&all, 0).sum / 200, after = loss_at(&all, 3).sum / 200;
    tap_ok(&test->tap, before > 1 && after < .01, "sparse, without noise: %.2f, and from three pairs %.1e", before,
           after);
    release(&all);
}

/* ---- Where there is none ---- */

static void check_rows(task_test *test, const char *setting, bool has_all, bool has_linear) {
    drawn all = {0};
    bool seen[2] = {false};

    draw(&all, test->device, 1, FAMILY "%s", setting);
    for (const icl_reference_predictor *at = all.task->family->references(all.task); at->name; at++) {
        seen[0] = seen[0] || strcmp(at->name, "bayes") == 0;
        seen[1] = seen[1] || strcmp(at->name, "bayes:linear") == 0;
    }
    tap_ok(&test->tap, seen[0] == has_all && seen[1] == has_linear, "%s: %s, %s", setting,
           has_all ? "bayes" : "no bayes", has_linear ? "bayes:linear" : "no bayes:linear");
    release(&all);
}

/* One coordinate of d at each level of noise gives as many hypotheses as Bayes weighs, then more. */
static void check_most(task_test *test) {
    icl_function_classes classes = {.law = {.kind = ICL_CLASS_SPARSE, .dimension = 10000, .support = 1},
                                    .noise_level = {.distribution = ICL_CHOICE, .choice_count = 2, .choices = {1, 2}}};

    tap_ok(&test->tap, icl_bayes_exists(&classes, ICL_BAYES_ALL), "bayes weighs 20,000 hypotheses");
    classes.law.dimension++;
    tap_ok(&test->tap, !icl_bayes_exists(&classes, ICL_BAYES_ALL), "and not 20,002");
}

static void check_existence(task_test *test) {
    check_most(test);
    check_rows(test, "task.noise=1", false, false);
    check_rows(test, "task.noise=choice:1,2", true, false);
    check_rows(test, "task.class=sparse task.noise=1", true, false);
    check_rows(test, "task.class=sparse task.d=200 task.noise=1", false, false);
    check_rows(test, "task.class=mixture task.mixture=linear,quadratic task.noise=uniform:1", true, true);
    check_rows(test, "task.noise=uniform:1", true, false);
    check_rows(test, "task.class=sparse task.d=20 task.noise=uniform:1", false, false);
    check_rows(test, "task.class=mixture task.noise=1 task.outliers=0.1", false, false);
    check_rows(test, "task.class=mixture task.noise=1 task.noise_law=student-t", false, false);
    check_rows(test, "task.class=mixture task.noise=1 task.noise_varies=by-place", false, false);
    check_rows(test, "task.class=mixture task.label_law=signs", false, false);
    check_rows(test, "task.class=mixture task.mixture=threshold,linear task.noise=1", false, true);
    check_rows(test, "task.class=mixture task.mixture=linear,relu-network task.noise=1", false, true);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_components, check_bayes, check_levels,
                                         check_losses,     check_exact, check_existence};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
