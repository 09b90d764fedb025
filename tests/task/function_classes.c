/* Function classes: the same bits on every device; functions, pools, noise, shifts of the inputs and curricula that
 * follow the formulas of src/task/function_classes/, by exact properties and by moments within standard errors; and the
 * integrals of the noise density that reference predictors use. */
#include "frame.h"
#include "task/function_classes/family.h"

#define FAMILY "task.family=function-classes task.d=4 task.n=6 "

enum { BATCH = 21, SEQUENCES = 2048, D = 4, N = 6, POINTS = N + 1, TOKEN = D + 1 };

static const double PI = 3.14159265358979323846;

static bool same_input(const float *a, const float *b) {
    return memcmp(a, b, D * sizeof *a) == 0;
}

/* ---- Functions ---- */

/* Targets are <w, x>, rounded once; labels stand one position later, with noise of the side tensor's level. */
static void check_linear(task_test *test) {
    drawn all = {0};
    statistic noise = {0}, square = {0};
    size_t wrong = 0; /* products below 100 are rounded */

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=choice:0.5,2 task.output_scale=3");
    for (size_t s = 0; s < all.count; s++) {
        double sum = 0, squares = 0;
        wrong += input_at(&all, s, 0)[D] != 0;
        for (size_t i = 0; i < POINTS; i++)
            wrong += fabs(target_at(&all, s, i) - dot(all.coefficients + s * D, input_at(&all, s, i), D)) > 1e-5;
        for (size_t i = 1; i < POINTS; i++) {
            const double miss = (double)input_at(&all, s, i)[D] - target_at(&all, s, i - 1);
            sum += miss / (double)all.noise[s] / N;
            squares += miss * miss / ((double)all.noise[s] * (double)all.noise[s]) / N;
        }
        add(&noise, sum);
        add(&square, squares);
        wrong += all.noise[s] != .5F && all.noise[s] != 2;
    }
    tap_ok(&test->tap, wrong == 0, "linear: targets are <w, x> of the side tensor, and the first token has no label");
    tap_ok(&test->tap, deviation(&noise, 0) < BOUND && deviation(&square, 1) < BOUND,
           "linear: labels have the noise of their sequence (%.1f, %.1f standard errors)", deviation(&noise, 0),
           deviation(&square, 1));
    release(&all);
}

/* The separate layout holds the same inputs, targets and labels at their own positions; positions of x have weight 13 /
 * 7. */
static void check_layouts(task_test *test) {
    enum { POSITIONS = 2 * N + 1 };
    drawn joined = {0}, all = {0};
    size_t wrong = 0;

    draw(&joined, test->device, SEQUENCES, FAMILY "task.noise=1");
    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=1 task.layout=separate");
    for (size_t s = 0; s < all.count; s++)
        for (size_t t = 0; t < POSITIONS; t++) {
            const float *seen = all.inputs + (s * POSITIONS + t) * D, *before = input_at(&joined, s, (t + 1) / 2);
            const bool is_input = t % 2 == 0;
            const double weight = is_input ? 13. / 7 : 0;
            wrong += is_input ? !same_input(seen, before) : seen[0] != before[D] || seen[1] != 0 || seen[D - 1] != 0;
            wrong += (double)all.targets[s * POSITIONS + t] != (is_input ? target_at(&joined, s, t / 2) : 0);
            wrong += fabs((double)all.weights[s * POSITIONS + t] - weight) > 1e-6;
        }
    tap_ok(&test->tap, wrong == 0, "separate labels: the same numbers at positions of their own");
    release(&joined);
    release(&all);
}

/* Pairs hold the same inputs with their own labels, and the last one, without a label, has the only target. */
static void check_pairs(task_test *test) {
    drawn joined = {0}, all = {0};
    size_t wrong = 0;

    draw(&joined, test->device, SEQUENCES, FAMILY "task.noise=1");
    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=1 task.layout=pairs");
    for (size_t s = 0; s < all.count; s++) {
        for (size_t i = 0; i < POINTS; i++) {
            const float *seen = all.inputs + (s * POINTS + i) * (D + 1);
            wrong += !same_input(seen, input_at(&joined, s, i));
            wrong += seen[D] != (i < N ? input_at(&joined, s, i + 1)[D] : 0);
        }
        wrong += (double)all.targets[s] != target_at(&joined, s, N);
    }
    tap_ok(&test->tap, wrong == 0 && !all.weights, "pairs: the same numbers, and the target of the last");
    release(&joined);
    release(&all);
}

/* Noise that varies within a sequence is steady noise times the input's first coordinate, or times the root of a
 * variance that rises evenly; targets and inputs stay. */
static void check_varying(task_test *test) {
    drawn steady = {0}, other = {0};

    draw(&steady, test->device, SEQUENCES, FAMILY "task.noise=1");
    for (int by_place = 0; by_place < 2; by_place++) {
        double worst = 0;
        size_t wrong = 0;
        draw(&other, test->device, SEQUENCES, FAMILY "task.noise=1 task.noise_varies=%s",
             by_place ? "by-place" : "by-input");
        for (size_t s = 0; s < other.count; s++)
            for (size_t i = 0; i < N; i++) {
                const double target = target_at(&steady, s, i), label = (double)input_at(&steady, s, i + 1)[D];
                const double factor =
                    by_place ? sqrt((2. * (double)i + 1) / N) : fabs((double)input_at(&steady, s, i)[0]);
                const double miss = (double)input_at(&other, s, i + 1)[D] - target - factor * (label - target);
                wrong +=
                    target_at(&other, s, i) != target || !same_input(input_at(&other, s, i), input_at(&steady, s, i));
                worst = fmax(worst, fabs(miss) / (1 + factor) / (1 + fabs(target) + fabs(label)));
            }
        tap_ok(&test->tap, wrong == 0 && worst < 0x1p-22, "noise that varies %s: as steady noise times a factor (%.1e)",
               by_place ? "by place" : "by input", worst);
        release(&other);
    }
    release(&steady);
}

/* Checks E f^2, and the factor of f when inputs double. */
static void check_class(task_test *test, const char *class, double mean_square, double factor) {
    drawn one = {0}, two = {0};
    statistic seen = {0};
    size_t wrong = 0;

    draw(&one, test->device, SEQUENCES, FAMILY "task.noise=0 task.class=%s", class);
    draw(&two, test->device, SEQUENCES, FAMILY "task.noise=0 task.input_scale=2 task.class=%s", class);
    for (size_t s = 0; s < one.count; s++) {
        double sum = 0;
        for (size_t i = 0; i < POINTS; i++) {
            sum += target_at(&one, s, i) * target_at(&one, s, i) / POINTS;
            wrong += target_at(&two, s, i) != factor * target_at(&one, s, i);
        }
        add(&seen, sum);
    }
    tap_ok(&test->tap, deviation(&seen, mean_square) < BOUND, "%s: E f^2 is %g (%.4f, %.1f standard errors)", class,
           mean_square, seen.sum / seen.count, deviation(&seen, mean_square));
    tap_ok(&test->tap, wrong == 0, "%s: twice the inputs give %g times the values", class, factor);
    release(&one);
    release(&two);
}

static void check_classes(task_test *test) {
    check_class(test, "linear", D, 2);
    check_class(test, "sparse", 3, 2);
    check_class(test, "relu-network", D, 2);
    check_class(test, "decision-tree", 1, 1);
    check_class(test, "threshold", 1, 1);
    check_class(test, "quadratic", D, 4);
}

/* Three weights of four are used, and each is left out equally often. */
static void check_sparse(task_test *test) {
    drawn all = {0};
    statistic used[D] = {{0}};
    size_t wrong = 0;
    double worst = 0;

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=0 task.class=sparse task.support=3");
    for (size_t s = 0; s < all.count; s++) {
        size_t count = 0;
        for (size_t j = 0; j < D; j++) {
            const bool is_used = all.coefficients[s * D + j] != 0;
            add(&used[j], is_used);
            count += is_used;
        }
        wrong += count != 3;
    }
    for (size_t j = 0; j < D; j++)
        worst = fmax(worst, deviation(&used[j], .75));
    tap_ok(&test->tap, wrong == 0 && worst < BOUND,
           "sparse: 3 weights, each coordinate as often (%.1f standard errors)", worst);
    release(&all);
}

/* A tree of depth 2 has at most four values, which depend on the signs of x only, and uses at most three
 * coordinates. */
static void check_tree(task_test *test) {
    drawn all = {0};
    size_t wrong = 0, most = 0;

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=0 task.class=decision-tree task.depth=2");
    for (size_t s = 0; s < all.count; s++) {
        size_t values = 0;
        for (size_t i = 0; i < POINTS; i++) {
            bool is_new = true;
            for (size_t k = 0; k < i; k++) {
                bool same_signs = true;
                for (size_t j = 0; j < D; j++)
                    same_signs = same_signs && (input_at(&all, s, i)[j] > 0) == (input_at(&all, s, k)[j] > 0);
                wrong += same_signs && target_at(&all, s, i) != target_at(&all, s, k);
                is_new = is_new && target_at(&all, s, i) != target_at(&all, s, k);
            }
            values += is_new;
        }
        most = values > most ? values : most;
    }
    tap_ok(&test->tap, wrong == 0 && most == 4, "decision-tree: at most %zu values, by the signs of x alone", most);
    release(&all);
}

/* ---- A pool ---- */

static bool same_function(const drawn *a, size_t s, const drawn *b, size_t t) {
    return same_input(a->coefficients + s * D, b->coefficients + t * D);
}

/* Counts distinct functions, up to `most`, and puts the first sequence of each into `firsts`. */
static size_t count_functions(const drawn *all, size_t most, size_t *firsts) {
    size_t count = 0;

    for (size_t s = 0; s < all->count && count < most; s++) {
        size_t i = 0;
        while (i < count && !same_function(all, s, all, firsts[i]))
            i++;
        if (i == count)
            firsts[count++] = s;
    }
    return count;
}

static size_t count_shared(const drawn *a, const size_t *firsts, size_t count, const drawn *b) {
    size_t shared = 0;
    for (size_t i = 0; i < count; i++) {
        size_t s = 0;
        while (s < b->count && !same_function(a, firsts[i], b, s))
            s++;
        shared += s < b->count;
    }
    return shared;
}

static void check_pool(task_test *test) {
    drawn all = {0}, other = {0};
    size_t firsts[6] = {0};

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=0 task.pool=3");
    tap_ok(&test->tap, count_functions(&all, 6, firsts) == 3, "a pool of 3 functions");
    for (size_t i = 0; i < 3; i++) {
        statistic seen = {0};
        for (size_t s = 0; s < all.count; s++)
            add(&seen, same_function(&all, s, &all, firsts[i]));
        tap_ok(&test->tap, deviation(&seen, 1. / 3) < BOUND, "one of them: %.3f of the sequences",
               seen.sum / seen.count);
    }
    open_batch(&other, test->device, ICL_FOR_TRAINING, BATCH, FAMILY "task.noise=0 task.pool=5");
    draw_step(&other, SEED + 1, 9);
    tap_ok(&test->tap, count_shared(&all, firsts, 3, &other) == 3,
           "a pool of 5 begins with them, whatever the seed and step");
    draw(&other, test->device, SEQUENCES, FAMILY "task.noise=0 task.pool=3 task.pool_seed=2");
    tap_ok(&test->tap, count_shared(&all, firsts, 3, &other) == 0, "another task.pool_seed has others");
    draw(&other, test->device, SEQUENCES, FAMILY "task.noise=0 task.pool=3 task.fresh_functions=true");
    tap_ok(&test->tap, count_shared(&all, firsts, 3, &other) == 0 && count_functions(&other, 6, firsts) == 6,
           "fresh functions are none of them");
    release(&all);
    release(&other);
}

/* Returns the difference of label i of a sequence from its value. */
static double miss(const drawn *all, size_t s, size_t i) {
    return label_at(all, s, i) - target_at(all, s, i);
}

static double normal_beyond(double size) {
    return erfc(size / sqrt(2));
}

/* Returns the distribution function at t of Student's law, nu = 1 and 3. */
static double student_below(int freedom, double t) {
    const double u = t / sqrt(freedom);
    return .5 + (freedom == 3 ? u / (1 + u * u) + atan(u) : atan(u)) / PI;
}

/* ---- Outliers ---- */

/* Labels have noise .75 N(0, .25) + .25 N(0, 16), independently: its variance, the share beyond 2, and the spread of
 * that number. */
static void check_wide(task_test *test) {
    drawn all = {0};
    statistic square = {0}, beyond = {0}, pairs = {0};
    const double share = .75 * normal_beyond(4) + .25 * normal_beyond(.5);

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=0.5 task.outliers=0.25 task.outlier_size=4");
    for (size_t s = 0; s < all.count; s++) {
        double squares = 0, count = 0;
        for (size_t i = 0; i < N; i++) {
            squares += miss(&all, s, i) * miss(&all, s, i) / N;
            count += fabs(miss(&all, s, i)) > 2;
        }
        add(&square, squares);
        add(&beyond, count / N);
        add(&pairs, pow(count - N * share, 2));
    }
    tap_ok(&test->tap, deviation(&square, .75 * .25 + .25 * 16) < BOUND, "wide: the variance is %.3f beside 4.1875",
           square.sum / square.count);
    tap_ok(&test->tap, deviation(&beyond, share) < BOUND, "wide: %.4f of the labels are beyond 2, beside %.4f",
           beyond.sum / beyond.count, share);
    tap_ok(&test->tap, deviation(&pairs, N * share * (1 - share)) < BOUND, "wide: labels are outliers independently");
    release(&all);
}

/* Without noise a label is its value, or three times its value. */
static void check_multiplied(task_test *test) {
    drawn all = {0};
    statistic share = {0};
    size_t wrong = 0;

    draw(&all, test->device, SEQUENCES,
         FAMILY "task.noise=0 task.outliers=0.4 task.outlier_law=multiplied task.outlier_size=3");
    for (size_t s = 0; s < all.count; s++) {
        double count = 0;
        for (size_t i = 0; i < N; i++) {
            const double ratio = label_at(&all, s, i) / target_at(&all, s, i);
            wrong += fabs(ratio - 1) > 1e-6 && fabs(ratio - 3) > 1e-6;
            count += ratio > 2;
        }
        add(&share, count / N);
    }
    tap_ok(&test->tap, wrong == 0 && deviation(&share, .4) < BOUND, "multiplied: %.4f of the labels, beside .4",
           share.sum / share.count);
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        wrong = 0;
        draw(&all, test->device, SEQUENCES, FAMILY "task.noise=1 task.outliers=%s",
             everywhere ? "1 task.outlier_law=multiplied task.outlier_size=2" : "1e-12 task.outlier_size=1e6");
        for (size_t s = 0; s < all.count; s++)
            for (size_t i = 0; i < N; i++)
                wrong += fabs(label_at(&all, s, i)) > 80;
        tap_ok(&test->tap, wrong == 0, everywhere ? "a share of 1: all labels" : "a share of 1e-12: none");
    }
    release(&all);
}

/* ---- Heavy tails ---- */

static void check_student(task_test *test, int freedom, bool is_scale) {
    static const double quantiles[] = {-6, -2, -.8, 0, .5, 1.5, 4, 20};
    enum { COUNT = sizeof quantiles / sizeof *quantiles };
    const double unit = 2 * (is_scale ? 1 : sqrt((freedom - 2.) / freedom));
    drawn all = {0};
    statistic below[COUNT] = {{0}};
    double worst = 0;

    draw(&all, test->device, SEQUENCES,
         FAMILY "task.noise=2 task.noise_law=student-t task.freedom=%d task.noise_unit=%s", freedom,
         is_scale ? "scale" : "deviation");
    for (size_t s = 0; s < all.count; s++)
        for (int q = 0; q < COUNT; q++) {
            double share = 0;
            for (size_t i = 0; i < N; i++)
                share += (miss(&all, s, i) < unit * quantiles[q]) / (double)N;
            add(&below[q], share);
        }
    for (int q = 0; q < COUNT; q++)
        worst = fmax(worst, deviation(&below[q], student_below(freedom, quantiles[q])));
    tap_ok(&test->tap, worst < BOUND, "student-t: %d degrees of freedom, sigma a %s (%.1f standard errors)", freedom,
           is_scale ? "scale" : "deviation", worst);
    release(&all);
}

/* Noise with nu = 12 has the moments of second and fourth order. */
static void check_moments(task_test *test) {
    drawn all = {0};
    statistic square = {0}, fourth = {0};

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=1 task.noise_law=student-t task.freedom=12");
    for (size_t s = 0; s < all.count; s++) {
        double squares = 0, fourths = 0;
        for (size_t i = 0; i < N; i++) {
            squares += pow(miss(&all, s, i), 2) / N;
            fourths += pow(miss(&all, s, i), 4) / N;
        }
        add(&square, squares);
        add(&fourth, fourths);
    }
    tap_ok(&test->tap, deviation(&square, 1) < BOUND && deviation(&fourth, 3 + 6. / 8) < BOUND,
           "student-t: variance 1 and kurtosis 3.75 with 12 degrees of freedom (%.3f, %.3f)", square.sum / square.count,
           fourth.sum / fourth.count);
    release(&all);
}

static void check_tails(task_test *test) {
    check_student(test, 1, true);
    check_student(test, 3, true);
    check_student(test, 3, false);
    check_moments(test);
}

/* Other settings of noise change labels only, and outliers leave the noise of other labels as it was. */
static void check_streams(task_test *test) {
    drawn plain = {0}, other = {0};
    size_t same = 0, wrong = 0;

    draw(&plain, test->device, SEQUENCES, FAMILY "task.noise=1");
    draw(&other, test->device, SEQUENCES, FAMILY "task.noise=1 task.outliers=0.5");
    for (size_t s = 0; s < plain.count; s++)
        for (size_t i = 0; i < N; i++) {
            wrong += !same_input(input_at(&plain, s, i), input_at(&other, s, i)) ||
                     target_at(&plain, s, i) != target_at(&other, s, i);
            same += input_at(&plain, s, i + 1)[D] == input_at(&other, s, i + 1)[D];
        }
    tap_ok(&test->tap, wrong == 0 && same > plain.count * N * 4 / 10 && same < plain.count * N * 6 / 10,
           "half of the labels are what they are without outliers, and all else");
    release(&plain);
    release(&other);
}

/* ---- The density ---- */

/* Integrates the density over labels, around 3, by the trapezium rule in asinh((y - 3) / .01); the result is the same
 * for every sigma. */
static double integrate(const icl_noise_law *law, double sigma) {
    double sum = 0;
    for (int step = -34 * 512; step <= 34 * 512; step++) {
        const double u = step / 512., y = 3 + .01 * sinh(u);
        sum += exp(icl_label_density(&(icl_label_law){.noise = *law}, y, 3, sigma)) * .01 * cosh(u) / 512;
    }
    return sum;
}

static void check_density(task_test *test) {
    static const icl_noise_law laws[] = {
        {.unit = 1},
        {.unit = 1, .outliers = .3, .outlier_size = 5},
        {.unit = 1, .outliers = .3, .outlier_size = 5, .multiplies = true},
        {.unit = 1, .outliers = 1, .outlier_size = 5, .multiplies = true},
        {.freedom = 3, .unit = .57735026918962576, .outliers = .1, .outlier_size = 5},
    };
    double worst = 0;

    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        /* The integral is sqrt(2 pi), with three degrees of freedom pi sqrt(3) / 2. */
        const double expected = laws[l].freedom > 0 ? PI * sqrt(3) / 2 : sqrt(2 * PI);
        worst = fmax(worst, fabs(integrate(&laws[l], .5) / expected - 1));
        worst = fmax(worst, fabs(integrate(&laws[l], 2) / expected - 1));
    }
    tap_ok(&test->tap, worst < 1e-8, "densities have integrals that do not depend on sigma (%.1e)", worst);
    tap_ok(&test->tap,
           fabs(icl_noise_law_variance(&laws[1], 2) - (.7 * 4 + .3 * 25)) < 1e-12 &&
               fabs(icl_noise_law_variance(&laws[4], 2) - (.9 * 4 + .1 * 25)) < 1e-12 &&
               icl_noise_law_variance(&laws[2], 2) == 4,
           "variances of noise: of all labels, and that of plain ones where outliers are multiplied");
}

/* ---- Shifts ---- */

/* Counts numbers whose size differs from the plain one's, or whose sign is wrong: it is that of their sequence's
 * orthant, but at the probe that of the plain number if probe_sign is 0, else probe_sign times the orthant's. */
static size_t count_wrong_signs(const drawn *plain, const drawn *shifted, size_t probe, int probe_sign) {
    size_t wrong = 0;

    for (size_t s = 0; s < plain->count; s++)
        for (size_t i = 0; i < POINTS; i++)
            for (size_t j = 0; j < D; j++) {
                const float before = input_at(plain, s, i)[j], after = input_at(shifted, s, i)[j];
                const bool same_side = (after > 0) == (input_at(shifted, s, i == 0 ? 1 : 0)[j] > 0);
                wrong += fabsf(before) != fabsf(after);
                wrong += i != probe ? !same_side : probe_sign == 0 ? before != after : same_side != (probe_sign > 0);
            }
    return wrong;
}

static void check_orthants(task_test *test) {
    drawn plain = {0}, shifted = {0};

    draw(&plain, test->device, SEQUENCES, FAMILY "task.noise=0");
    draw(&shifted, test->device, SEQUENCES, FAMILY "task.noise=0 task.orthant=true");
    tap_ok(&test->tap, count_wrong_signs(&plain, &shifted, POINTS, 0) == 0,
           "orthant: all inputs in one, of the same sizes");
    draw(&shifted, test->device, SEQUENCES,
         FAMILY "task.noise=0 task.orthant=true task.probe=anywhere task.probe_at=3");
    tap_ok(&test->tap, count_wrong_signs(&plain, &shifted, 3, 0) == 0, "anywhere: x_3 alone is as it was");
    draw(&shifted, test->device, SEQUENCES, FAMILY "task.noise=0 task.orthant=true task.probe=opposite");
    tap_ok(&test->tap, count_wrong_signs(&plain, &shifted, N, -1) == 0, "opposite: x_n alone in the opposite orthant");
    release(&plain);
    release(&shifted);
}

static void check_probes(task_test *test) {
    enum { AT = 3 };
    drawn plain = {0}, orthogonal = {0}, repeated = {0};
    statistic chosen[AT] = {{0}};
    size_t wrong = 0, others = 0;
    double worst = 0;

    draw(&plain, test->device, SEQUENCES, FAMILY "task.noise=0");
    draw(&orthogonal, test->device, SEQUENCES,
         FAMILY "task.noise=0 task.probe=orthogonal task.probe_at=3 task.input_scale=2");
    draw(&repeated, test->device, SEQUENCES, FAMILY "task.noise=0 task.probe=repeated task.probe_at=3");
    for (size_t s = 0; s < plain.count; s++) {
        const float *probe = input_at(&orthogonal, s, AT), *twin = input_at(&repeated, s, AT);
        size_t matches = 0;
        wrong += fabs(sqrt(dot(probe, probe, D)) - 4) > 1e-5; /* 2 sqrt(d) */
        for (size_t i = 0; i < POINTS; i++) {
            const float *before = input_at(&plain, s, i);
            if (i < AT) {
                wrong += fabs(dot(probe, input_at(&orthogonal, s, i), D)) > 1e-5 * sqrt(dot(before, before, D));
                add(&chosen[i], same_input(twin, before));
                matches += same_input(twin, before);
            }
            others += i != AT && !same_input(before, input_at(&repeated, s, i));
            others += i != AT && input_at(&orthogonal, s, i)[0] != 2 * before[0];
        }
        wrong += matches != 1;
    }
    for (size_t i = 0; i < AT; i++)
        worst = fmax(worst, deviation(&chosen[i], 1. / AT));
    tap_ok(&test->tap, wrong == 0 && others == 0, "orthogonal and repeated probes; nothing else changes");
    tap_ok(&test->tap, worst < BOUND, "each input is repeated as often (%.1f standard errors)", worst);
    release(&plain);
    release(&orthogonal);
    release(&repeated);
}

/* The inputs' variances are 1, 1/4, 1/9, 1/16 over their mean, along the axes. */
static void check_covariance(task_test *test) {
    const double mean = (1 + 1. / 4 + 1. / 9 + 1. / 16) / D;
    drawn all = {0};
    statistic seen[D] = {{0}};
    double worst = 0;

    draw(&all, test->device, SEQUENCES, FAMILY "task.noise=0 task.covariance=power:2");
    for (size_t s = 0; s < all.count; s++)
        for (size_t j = 0; j < D; j++)
            add(&seen[j], (double)input_at(&all, s, 0)[j] * (double)input_at(&all, s, 0)[j]);
    for (size_t j = 0; j < D; j++)
        worst = fmax(worst, deviation(&seen[j], 1 / (double)((j + 1) * (j + 1)) / mean));
    tap_ok(&test->tap, worst < BOUND, "power:2: eigenvalues as i^-2, of mean 1 (%.1f standard errors)", worst);
    release(&all);
}

/* ---- A curriculum ---- */

static void check_stage(task_test *test, const char *more, uint64_t batch, size_t dimension, size_t context) {
    drawn all = {0};
    size_t wrong = 0;
    char overrides[192];

    snprintf(overrides, sizeof overrides,
             FAMILY "task.noise=1 task.curriculum=10 task.curriculum_d=2 task.curriculum_n=1 %s", more);
    open_batch(&all, test->device, ICL_FOR_TRAINING, BATCH, overrides);
    draw_step(&all, SEED, batch);
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = 0; i < POINTS; i++) {
            const double weight = i <= context ? (double)POINTS / (double)(context + 1) : 0;
            for (size_t j = 0; j < D; j++)
                wrong += (input_at(&all, s, i)[j] != 0) != (i <= context && j < dimension);
            wrong += (input_at(&all, s, i)[D] != 0) != (i > 0 && i <= context);
            wrong += fabs((double)all.weights[s * POINTS + i] - weight) > 1e-6;
            wrong += fabs(target_at(&all, s, i) - dot(all.coefficients + s * D, input_at(&all, s, i), D)) > 1e-5;
        }
    tap_ok(&test->tap, wrong == 0, "%s, batch %zu: %zu coordinates, %zu pairs", more, (size_t)batch, dimension,
           context);
    release(&all);
}

static void check_stages(task_test *test) {
    static const struct {
        const char *more;
        uint64_t batch;
        size_t dimension, context;
    } rows[] = {{"", 0, 2, 1},
                {"", 9, 2, 1},
                {"", 10, 3, 3},
                {"", 20, 4, 5},
                {"", 30, 4, 6},
                {"", (uint64_t)1 << 40, 4, 6},
                {"task.curriculum_points=0", 1000, 4, 1},
                {"train.slices=3", 29, 2, 1},
                {"train.slices=3", 30, 3, 3},
                {"train.refresh=5", 2, 3, 3}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_stage(test, rows[i].more, rows[i].batch, rows[i].dimension, rows[i].context);
}

static void check_evaluation(task_test *test) {
    drawn plain = {0}, all = {0};
    size_t different = 0;

    draw(&plain, test->device, SEQUENCES, FAMILY "task.noise=0");
    draw(&all, test->device, SEQUENCES,
         FAMILY "task.noise=0 task.curriculum=10 task.curriculum_d=2 task.curriculum_n=1");
    for (size_t i = 0; i < all.count * POINTS * TOKEN; i++)
        different += all.inputs[i] != plain.inputs[i];
    tap_ok(&test->tap, different == 0 && !all.weights, "evaluation has no curriculum");
    release(&plain);
    release(&all);
}

/* ---- Bits ---- */

static void check_all_bits(task_test *test) {
    static const char *const settings[] = {
        FAMILY,
        "task.family=function-classes task.class=relu-network task.hidden_units=7 task.d=3 task.pool=5",
        "task.family=function-classes task.class=decision-tree task.orthant=true task.probe=opposite",
        "task.family=function-classes task.class=quadratic task.covariance=power:1 task.rotate=true task.curriculum=1",
        ("task.family=function-classes task.layout=separate task.noise=1 task.curriculum=1 task.noise_law=student-t "
         "task.class=mixture"),
        "task.family=function-classes task.layout=pairs task.noise=1 task.noise_varies=by-input task.outliers=0.1",
        "task.family=function-classes task.noise=1 task.noise_varies=by-place",
        "task.family=function-classes task.class=sparse task.probe=orthogonal task.probe_at=9 task.label_law=logistic"};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_bits(test, settings[i], BATCH, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {
        check_all_bits, check_linear, check_layouts,    check_pairs,      check_varying,   check_classes, check_sparse,
        check_tree,     check_pool,   check_wide,       check_multiplied, check_tails,     check_streams, check_density,
        check_orthants, check_probes, check_covariance, check_stages,     check_evaluation};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
