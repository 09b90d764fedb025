/*
 * Dynamical systems: the same bits on every device; transitions, states and observations that keep to the formulas of
 * src/task/dynamical_system.c, by exact properties and by moments within five standard errors.
 */
#include <math.h>

#include "same_bits.h"
#include "statistic.h"

enum { BATCH = 21, SEQUENCES = 4096, MOST_HIDDEN = 15 };

static const double BOUND = 5;

/* ---- Bits ---- */

/* Another purpose, seed or step has other numbers. */
static icl_status compare_others(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const struct {
        icl_task_purpose purpose;
        uint32_t seed;
        uint64_t step;
    } others[] = {{ICL_FOR_TRAINING, SEED, 5}, {ICL_FOR_EVALUATION, SEED, 5},
                  {ICL_FOR_FITTING, SEED, 5},  {ICL_FOR_TRAINING, SEED + 1, 5},
                  {ICL_FOR_TRAINING, SEED, 6}, {ICL_FOR_TRAINING, SEED, ((uint64_t)1 << 32) + 5}};
    icl_task *task = NULL;
    icl_batch batch = {0};
    parts first = {0}, other = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_task("task.family=dynamical-system", &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, BATCH, &batch, error));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ICL_TRY(icl_task_sample(task, backend, others[i].purpose, others[i].seed, others[i].step, &batch, error));
        ICL_TRY(parts_read(&batch, i == 0 ? &first : &other, error));
        if (i > 0)
            tap_ok(tap, parts_differ(&first, &other) == first.count[TOKENS] + first.count[TARGETS],
                   "another purpose, seed or step: other numbers throughout");
    }
done:
    parts_release(&first);
    parts_release(&other);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

/* ---- Definition ---- */

/* A batch for evaluation on the host. */
typedef struct drawn {
    icl_task_shape shape;
    float *inputs, *targets, *transition, *observation;
} drawn;

static icl_status read_tensor(icl_tensor tensor, float **values, icl_error *error) {
    if (!tensor.buffer)
        return ICL_OK;
    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error));
    return icl_tensor_read(tensor, *values, error);
}

static icl_status draw(const char *overrides, uint64_t step, icl_backend *backend, drawn *all, icl_error *error) {
    icl_task *task = NULL;
    icl_batch batch = {0};
    icl_status status = ICL_OK;

    *all = (drawn){0};
    ICL_TRY(make_task(overrides, &task, error));
    all->shape = *icl_task_get_shape(task);
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, step, &batch, error));
    ICL_TRY(read_tensor(batch.inputs, &all->inputs, error));
    ICL_TRY(read_tensor(batch.targets, &all->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_TRANSITION), &all->transition, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_OBSERVATION), &all->observation, error));
done:
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static void release(drawn *all) {
    icl_free(&all->inputs);
    icl_free(&all->targets);
    icl_free(&all->transition);
    icl_free(&all->observation);
}

/* out = M x. */
static void apply(const float *matrix, const double *x, size_t rows, size_t columns, double *out) {
    for (size_t i = 0; i < rows; i++) {
        out[i] = 0;
        for (size_t j = 0; j < columns; j++)
            out[i] += (double)matrix[i * columns + j] * x[j];
    }
}

/* The largest |W W^T - I|. */
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

/* s = h: W is orthogonal and uniform, so that its trace has the mean 0 and the square 1; targets are the next inputs;
 * what W leaves over is noise. */
static icl_status check_full(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { H = 4, T = 9 };
    drawn all;
    statistic noise = {0}, trace = {0}, trace_square = {0}, start = {0}, product = {0};
    double worst = 0;
    size_t shifted = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.family=dynamical-system task.hidden=4 task.positions=9 task.process_noise=0.3", 0, backend, &all,
                 error));
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
    tap_ok(tap, worst < 1e-6 && shifted == 0, "W is orthogonal (%.2g), and targets are the next observations", worst);
    tap_ok(tap, deviation(&noise, .09) < BOUND && deviation(&product, 0) < BOUND, "the noise has variance 0.3^2");
    tap_ok(tap, deviation(&trace, 0) < BOUND && deviation(&trace_square, 1) < BOUND, "W is uniform");
    tap_ok(tap, deviation(&start, H) < BOUND, "h_1 ~ N(0, I)");
done:
    release(&all);
    return status;
}

/* (0, s_t, s_t, s_(t-1)) of the same sequences. */
static icl_status check_constructed(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { S = 4, T = 9 };
    static const char *const settings = "task.family=dynamical-system task.hidden=4 task.positions=9";
    char overrides[160];
    drawn plain = {0}, tokens = {0};
    size_t wrong = 0;
    icl_status status = ICL_OK;

    snprintf(overrides, sizeof overrides, "%s task.constructed=true", settings);
    ICL_TRY(draw(settings, 0, backend, &plain, error));
    ICL_TRY(draw(overrides, 0, backend, &tokens, error));
    for (size_t i = 0; i < (size_t)SEQUENCES * T; i++)
        for (size_t k = 0; k < S; k++) {
            const float *token = tokens.inputs + i * 4 * S, *own = plain.inputs + i * S;
            wrong += token[k] != 0 || token[S + k] != own[k] || token[2 * S + k] != own[k];
            wrong += token[3 * S + k] != (i % T > 0 ? own[k - S] : 0);
            wrong += tokens.targets[i * S + k] != plain.targets[i * S + k];
        }
    tap_ok(tap, wrong == 0 && tokens.shape.inputs == 4 * S && tokens.shape.outputs == S,
           "constructed tokens are (0, s_t, s_t, s_(t-1)), with the same targets");
done:
    release(&plain);
    release(&tokens);
    return status;
}

/* s = C h + noise: s_1 and s_2 have the moments that C and W give them. */
static icl_status check_partial(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { H = 6, S = 3, T = 4 };
    drawn all;
    statistic entry = {0}, first = {0}, lagged = {0};
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.family=dynamical-system task.observation=partial task.hidden=6 task.observed=3 task.positions=4 "
                 "task.observation_noise=0.5",
                 0, backend, &all, error));
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
    tap_ok(tap, deviation(&entry, .5) < BOUND, "C has entries of variance 1/2");
    tap_ok(tap, deviation(&first, 0) < BOUND, "s_1 = C h_1 + noise");
    tap_ok(tap, deviation(&lagged, 0) < BOUND, "s_2 goes with C W h_1");
done:
    release(&all);
    return status;
}

static double gelu(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + .044715 * x * x * x)));
}

/* E gelu(sqrt(1.1) |h| z)^2, |h| of a normal vector in n dimensions and z a normal number, by sums over a grid. */
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

/* s = B gelu(A h): its mean square at the first position, which has heavy tails and so takes many sequences. */
static icl_status check_nonlinear(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { H = 5, S = 2, STEPS = 8 };
    drawn all = {0};
    statistic square = {0}, mixed = {0};
    const double expected = H * 1.1 * mean_square_unit(H);
    icl_status status = ICL_OK;

    for (uint64_t step = 0; step < STEPS; step++) {
        ICL_TRY(draw("task.family=dynamical-system task.observation=nonlinear task.hidden=5 task.observed=2 "
                     "task.positions=1",
                     step, backend, &all, error));
        for (size_t i = 0; i < SEQUENCES; i++) {
            const float *s = all.inputs + i * S;
            add(&square, ((double)s[0] * (double)s[0] + (double)s[1] * (double)s[1]) / S);
            add(&mixed, (double)s[0] * (double)s[1]);
        }
        release(&all);
    }
    tap_ok(tap, deviation(&square, expected) < BOUND && deviation(&mixed, 0) < BOUND,
           "s = B gelu(A h) has the mean square %.4g (%.4g)", expected, square.sum / square.count);
done:
    release(&all);
    return status;
}

/* W is symmetric, with eigenvalues uniform in the band: their mean, and that of their squares; states keep to the
 * clip, which some reach. */
static icl_status check_contracting(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { H = 4, T = 5 };
    drawn all;
    statistic mean = {0}, square = {0};
    double skew = 0, largest = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.family=dynamical-system task.transition=contracting task.hidden=4 task.positions=5 "
                 "task.state_clip=1.5 task.process_noise=1 task.least_eigenvalue=0.4",
                 0, backend, &all, error));
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
    tap_ok(tap, skew < 1e-6 && deviation(&mean, .65) < BOUND && deviation(&square, .65 * .65 + .25 / 12) < BOUND,
           "a contracting W is symmetric, with eigenvalues from 0.4 to 0.9");
    tap_ok(tap, largest == 1.5, "states are clipped (%g)", largest);
done:
    release(&all);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static const char *const settings[] = {
        "task.family=dynamical-system", "task.family=dynamical-system task.constructed=true task.positions=7",
        "task.family=dynamical-system task.observation=partial task.hidden=15",
        "task.family=dynamical-system task.observation=nonlinear task.hidden=1 task.observed=3",
        "task.family=dynamical-system task.transition=contracting task.state_clip=2 task.positions=1"};
    static icl_status (*const checks[])(tap_run * tap, icl_backend * backend, icl_error * error) = {
        compare_others, check_full, check_constructed, check_partial, check_nonlinear, check_contracting};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        tap_status(tap, two_devices_compare(tap, settings[i], BATCH, backend, cpu, &error), &error, "sampling runs");
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        tap_status(tap, checks[i](tap, backend, &error), &error, "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
