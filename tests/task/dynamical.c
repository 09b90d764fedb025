/* Dynamical systems: the same bits on every device; transitions, states and observations that follow the formulas of
 * src/task/dynamical_system.c, by exact properties and by moments within five standard errors. */
#include "frame.h"

#define FAMILY "task.family=dynamical-system "

enum { SEQUENCES = 4096 };

/* out = M x. */
static void apply(const float *matrix, const double *x, size_t rows, size_t columns, double *out) {
    for (size_t i = 0; i < rows; i++) {
        out[i] = 0;
        for (size_t j = 0; j < columns; j++)
            out[i] += (double)matrix[i * columns + j] * x[j];
    }
}

/* Returns the largest |W W^T - I|. */
static double from_orthogonal(const float *transition, size_t h) {
    double worst = 0;
    for (size_t i = 0; i < h; i++)
        for (size_t j = 0; j < h; j++) {
            double sum = 0;
            for (size_t k = 0; k < h; k++)
                sum += (double)transition[i * h + k] * (double)transition[j * h + k];
            worst = fmax(worst, fabs(sum - (i == j)));
        }
    return worst;
}

/* s = h: W is orthogonal and uniform, so that its trace has mean 0 and mean square 1; targets are the next inputs; the
 * residual of W is noise. */
static void check_full(task_test *test) {
    enum { H = 4, T = 9 };
    drawn all = {0};
    statistic noise = {0}, trace = {0}, trace_square = {0}, start = {0}, product = {0};
    double worst = 0;
    size_t shifted = 0;

    draw(&all, test->device, SEQUENCES, FAMILY "task.hidden=4 task.positions=9 task.process_noise=0.3");
    for (size_t i = 0; i < SEQUENCES; i++) {
        const float *W = all.transition + i * H * H, *in = all.inputs + i * T * H, *target = all.targets + i * T * H;
        double left_over = 0, diagonal = 0, first = 0;
        for (size_t t = 0; t < T; t++) {
            double state[H], next[H];
            for (size_t k = 0; k < H; k++)
                state[k] = (double)in[t * H + k];
            apply(W, state, H, H, next);
            for (size_t k = 0; k < H; k++) {
                left_over += ((double)target[t * H + k] - next[k]) * ((double)target[t * H + k] - next[k]);
                shifted += t + 1 < T && target[t * H + k] != in[(t + 1) * H + k];
            }
            if (t == 0)
                add(&product, ((double)target[0] - next[0]) * next[0]);
        }
        for (size_t k = 0; k < H; k++) {
            diagonal += (double)W[k * H + k];
            first += (double)in[k] * (double)in[k];
        }
        worst = fmax(worst, from_orthogonal(W, H));
        add(&noise, left_over / (T * H));
        add(&trace, diagonal);
        add(&trace_square, diagonal * diagonal);
        add(&start, first);
    }
    tap_ok(&test->tap, worst < 1e-6 && shifted == 0, "W is orthogonal (%.2g), and targets are the next observations",
           worst);
    tap_ok(&test->tap, deviation(&noise, .09) < BOUND && deviation(&product, 0) < BOUND,
           "the noise has variance 0.3^2");
    tap_ok(&test->tap, deviation(&trace, 0) < BOUND && deviation(&trace_square, 1) < BOUND, "W is uniform");
    tap_ok(&test->tap, deviation(&start, H) < BOUND, "h_1 ~ N(0, I)");
    release(&all);
}

/* Constructed tokens are (0, s_t, s_t, s_(t-1)) of the same sequences. */
static void check_constructed(task_test *test) {
    enum { S = 4, T = 9 };
    drawn plain = {0}, tokens = {0};
    size_t wrong = 0;

    draw(&plain, test->device, SEQUENCES, FAMILY "task.hidden=4 task.positions=9");
    draw(&tokens, test->device, SEQUENCES, FAMILY "task.hidden=4 task.positions=9 task.constructed=true");
    for (size_t i = 0; i < (size_t)SEQUENCES * T; i++)
        for (size_t k = 0; k < S; k++) {
            const float *token = tokens.inputs + i * 4 * S, *own = plain.inputs + i * S;
            wrong += token[k] != 0 || token[S + k] != own[k] || token[2 * S + k] != own[k];
            wrong += token[3 * S + k] != (i % T > 0 ? own[k - S] : 0);
            wrong += tokens.targets[i * S + k] != plain.targets[i * S + k];
        }
    tap_ok(&test->tap, wrong == 0 && tokens.task->shape.inputs == 4 * S && tokens.task->shape.outputs == S,
           "constructed tokens are (0, s_t, s_t, s_(t-1)), with the same targets");
    release(&plain);
    release(&tokens);
}

/* s = C h + noise: s_1 and s_2 have the moments that follow from C and W. */
static void check_partial(task_test *test) {
    enum { H = 6, S = 3, T = 4 };
    drawn all = {0};
    statistic entry = {0}, first = {0}, lagged = {0};

    draw(&all, test->device, SEQUENCES,
         FAMILY "task.observation=partial task.hidden=6 task.observed=3 task.positions=4 "
                "task.observation_noise=0.5");
    for (size_t i = 0; i < SEQUENCES; i++) {
        const float *W = all.transition + i * H * H, *C = all.observation + i * S * H, *s = all.inputs + i * T * S;
        double square = 0, excess = -S * .25, correlation = 0, row[H], turned[H];
        for (size_t a = 0; a < S; a++) {
            excess += (double)s[a] * (double)s[a];
            for (size_t k = 0; k < H; k++)
                square += (double)C[a * H + k] * (double)C[a * H + k];
        }
        for (size_t a = 0; a < S; a++) { /* M = C W C^T: E[s_2 s_1^T] = M, so E[s_2^T M s_1] = ||M||^2 */
            for (size_t k = 0; k < H; k++)
                row[k] = (double)C[a * H + k];
            apply(W, row, H, H, turned);
            for (size_t b = 0; b < S; b++) {
                double m = 0;
                for (size_t k = 0; k < H; k++)
                    m += (double)C[b * H + k] * turned[k];
                correlation += ((double)s[S + b] * (double)s[a] - m) * m;
            }
        }
        add(&entry, square / (S * H));
        add(&first, excess - square);
        add(&lagged, correlation);
    }
    tap_ok(&test->tap, deviation(&entry, .5) < BOUND, "C has entries of variance 1/2");
    tap_ok(&test->tap, deviation(&first, 0) < BOUND, "s_1 = C h_1 + noise");
    tap_ok(&test->tap, deviation(&lagged, 0) < BOUND, "s_2 goes with C W h_1");
    release(&all);
}

static double gelu(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + .044715 * x * x * x)));
}

/* Returns E gelu(sqrt(1.1) |h| z)^2, with h a normal vector in n dimensions and z a normal number, by sums over a
 * grid. */
static double mean_square_unit(int n) {
    double sum = 0, weights = 0;
    for (int i = 0; i < 1200; i++)
        for (int j = -400; j <= 400; j++) {
            const double r = .01 * (i + .5), z = .02 * j;
            const double weight = pow(r, n - 1) * exp(-(r * r + z * z) / 2), value = gelu(sqrt(1.1) * r * z);
            weights += weight;
            sum += weight * value * value;
        }
    return sum / weights;
}

/* s = B gelu(A h): its mean square at the first position has heavy tails, and so takes many sequences. */
static void check_nonlinear(task_test *test) {
    enum { H = 5, S = 2, STEPS = 8 };
    drawn all = {0};
    statistic square = {0}, mixed = {0};
    const double expected = H * 1.1 * mean_square_unit(H);

    draw(&all, test->device, SEQUENCES,
         FAMILY "task.observation=nonlinear task.hidden=5 task.observed=2 task.positions=1");
    for (uint64_t step = 0; step < STEPS; step++) {
        draw_step(&all, SEED, step);
        for (size_t i = 0; i < SEQUENCES; i++) {
            const float *s = all.inputs + i * S;
            add(&square, ((double)s[0] * (double)s[0] + (double)s[1] * (double)s[1]) / S);
            add(&mixed, (double)s[0] * (double)s[1]);
        }
    }
    tap_ok(&test->tap, deviation(&square, expected) < BOUND && deviation(&mixed, 0) < BOUND,
           "s = B gelu(A h) has the mean square %.4g (%.4g)", expected, square.sum / square.count);
    release(&all);
}

/* W is symmetric, with eigenvalues uniform in the band, which is checked by the means of them and of their squares;
 * states stay within the clip, and some reach it. */
static void check_contracting(task_test *test) {
    enum { H = 4, T = 5 };
    drawn all = {0};
    statistic mean = {0}, square = {0};
    double skew = 0, largest = 0;

    draw(&all, test->device, SEQUENCES,
         FAMILY "task.transition=contracting task.hidden=4 task.positions=5 "
                "task.state_clip=1.5 task.process_noise=1 task.least_eigenvalue=0.4");
    for (size_t i = 0; i < SEQUENCES; i++) {
        const float *W = all.transition + i * H * H;
        double trace = 0, norm = 0;
        for (size_t a = 0; a < H; a++) {
            trace += (double)W[a * H + a];
            for (size_t b = 0; b < H; b++) {
                norm += (double)W[a * H + b] * (double)W[a * H + b];
                skew = fmax(skew, fabs((double)W[a * H + b] - (double)W[b * H + a]));
            }
        }
        add(&mean, trace / H);
        add(&square, norm / H);
        for (size_t k = 0; k < T * H; k++)
            largest = fmax(largest, fabs((double)all.targets[i * T * H + k]));
    }
    tap_ok(&test->tap, skew < 1e-6 && deviation(&mean, .65) < BOUND && deviation(&square, .65 * .65 + .25 / 12) < BOUND,
           "a contracting W is symmetric, with eigenvalues from 0.4 to 0.9");
    tap_ok(&test->tap, largest == 1.5, "states are clipped (%g)", largest);
    release(&all);
}

/* Tokens are (s_t, u_t), what is left of W s_t + G u_t is noise, u ~ N(0, I), and G has entries of variance 1 / h.
 * Constructed tokens hold (0, z_t, s_t, z_(t-1)). */
static void check_driven(task_test *test) {
    enum { H = 4, U = 2, P = H + U, T = 9, TOKEN = 2 * (H + P) };
    drawn all = {0}, tokens = {0};
    statistic noise = {0}, entry = {0}, input = {0}, product = {0};
    double worst = 0;
    size_t wrong = 0;

    draw(&all, test->device, SEQUENCES, FAMILY "task.hidden=4 task.controls=2 task.positions=9 task.process_noise=0.3");
    for (size_t i = 0; i < SEQUENCES; i++) {
        const float *WG = all.transition + i * H * P, *in = all.inputs + i * T * P, *target = all.targets + i * T * H;
        double left_over = 0, square = 0, inputs = 0, along = 0;
        float W[H * H];
        for (size_t t = 0; t < T; t++) {
            double seen[P], next[H];
            for (size_t k = 0; k < P; k++)
                seen[k] = (double)in[t * P + k];
            apply(WG, seen, H, P, next);
            for (size_t k = 0; k < H; k++) {
                left_over += pow((double)target[t * H + k] - next[k], 2);
                along += ((double)target[t * H + k] - next[k]) * seen[H];
                wrong += t + 1 < T && target[t * H + k] != in[(t + 1) * P + k];
            }
            for (size_t k = H; k < P; k++)
                inputs += seen[k] * seen[k];
        }
        for (size_t k = 0; k < H; k++) {
            memcpy(W + k * H, WG + k * P, H * sizeof *W);
            for (size_t j = H; j < P; j++)
                square += pow((double)WG[k * P + j], 2);
        }
        worst = fmax(worst, from_orthogonal(W, H));
        add(&noise, left_over / (T * H));
        add(&product, along);
        add(&input, inputs / (T * U));
        add(&entry, square / (H * U));
    }
    tap_ok(&test->tap, worst < 1e-6 && wrong == 0, "W is orthogonal (%.2g), and targets are the next states", worst);
    tap_ok(&test->tap, deviation(&noise, .09) < BOUND && deviation(&product, 0) < BOUND,
           "what is left of W s + G u has variance 0.3^2, and does not go with u");
    tap_ok(&test->tap, deviation(&input, 1) < BOUND && deviation(&entry, 1. / H) < BOUND,
           "u has entries of variance 1, and G of 1 / h");
    draw(&tokens, test->device, SEQUENCES,
         FAMILY "task.hidden=4 task.controls=2 task.positions=9 task.process_noise=0.3 task.constructed=true");
    for (size_t i = 0; i < (size_t)SEQUENCES * T; i++) {
        const float *token = tokens.inputs + i * TOKEN, *own = all.inputs + i * P;
        for (size_t k = 0; k < P; k++) {
            wrong += token[H + k] != own[k] || token[2 * H + P + k] != (i % T > 0 ? own[k - P] : 0);
            wrong += k < H && (token[k] != 0 || token[H + P + k] != own[k]);
        }
    }
    tap_ok(&test->tap, wrong == 0 && tokens.task->shape.inputs == TOKEN && tokens.task->shape.outputs == H,
           "constructed tokens are (0, z_t, s_t, z_(t-1))");
    release(&all);
    release(&tokens);
}

static void check_all_bits(task_test *test) {
    static const char *const settings[] = {FAMILY,
                                           FAMILY "task.constructed=true task.positions=7",
                                           FAMILY "task.controls=3 task.positions=6",
                                           FAMILY "task.observation=partial task.hidden=15",
                                           FAMILY "task.observation=nonlinear task.hidden=1 task.observed=3",
                                           FAMILY "task.transition=contracting task.state_clip=2 task.positions=1"};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_bits(test, settings[i], 21, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all_bits,  check_full,        check_constructed, check_partial,
                                         check_nonlinear, check_contracting, check_driven};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
