/*
 * What a task draws has the distribution it claims. Sequences are a function of the seed, so the checks cannot flake;
 * bounds are 4.5 standard errors of each statistic, which about 300 true statistics pass with probability .998.
 */
#include <math.h>
#include <stdint.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "make_task.h"
#include "task/covariance.h"
#include "task/streams.h"

enum { SEQUENCES = 8192, SEED = 3 };

static const double BOUND = 4.5;

/* A batch of SEQUENCES on the host, in double. */
typedef struct drawn {
    size_t n, d;
    float *tokens, *targets, *noise, *weights;
} drawn;

static void drawn_release(drawn *all) {
    icl_free(&all->tokens);
    icl_free(&all->targets);
    icl_free(&all->noise);
    icl_free(&all->weights);
}

static icl_status read_tensor(icl_tensor tensor, float **values, icl_error *error) {
    const icl_status status = icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error);
    return status == ICL_OK ? icl_tensor_read(tensor, *values, error) : status;
}

static icl_status draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, drawn *all, icl_error *error) {
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    icl_status status;

    *all = (drawn){.n = icl_task_context(task), .d = icl_task_dimension(task)};
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(icl_batch_create(task, backend, purpose, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, seed, 0, &batch, error));
    ICL_TRY(read_tensor(batch.inputs, &all->tokens, error));
    ICL_TRY(read_tensor(batch.targets, &all->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_NOISE), &all->noise, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_COEFFICIENTS), &all->weights, error));
done:
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

/* |estimate - truth| in standard errors. */
static double deviation(double sum, double sum_of_squares, double count, double truth) {
    const double mean = sum / count, variance = sum_of_squares / count - mean * mean;
    return fabs(mean - truth) / sqrt(variance / count + 1e-300);
}

/* The largest deviation of E[v_i] from 0 and of E[v_i v_j] from covariance, over vectors of
 * d numbers `stride` apart. */
static double moment_deviation(const float *values, size_t stride, size_t count, size_t d, const double *covariance) {
    double worst = 0;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i + 1; j++) { /* j = i + 1 stands for the constant 1 */
            double sum = 0, squares = 0;
            for (size_t s = 0; s < count; s++) {
                const float *v = values + s * stride;
                const double product = (double)v[i] * (j <= i ? (double)v[j] : 1);
                sum += product;
                squares += product * product;
            }
            worst = fmax(worst, deviation(sum, squares, (double)count, j <= i ? covariance[i * d + j] : 0));
        }
    return worst;
}

/* root root^T, or the identity. */
static void square(const double *root, size_t d, double *product) {
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            product[i * d + j] = root ? 0 : i == j;
            for (size_t k = 0; root && k < d; k++)
                product[i * d + j] += root[i * d + k] * root[j * d + k];
        }
}

static void check_inputs_and_weights(tap_run *tap, const char *overrides) {
    icl_task *task = NULL;
    icl_error error = {0};
    drawn all = {0};
    double covariance[16 * 16];

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, draw(task, ICL_FOR_TRAINING, SEED, &all, &error), &error, "draw")) {
        const icl_task_prior *prior = icl_task_get_prior(task);
        double worst;
        square(prior->covariance_root, all.d, covariance);
        worst = moment_deviation(all.tokens, all.d + 1, SEQUENCES * (all.n + 1), all.d, covariance);
        tap_ok(tap, worst < BOUND, "mean and covariance of x (%.2f standard errors)", worst);
        square(prior->weight_root, all.d, covariance);
        worst = moment_deviation(all.weights, all.d, SEQUENCES, all.d, covariance);
        tap_ok(tap, worst < BOUND, "mean and covariance of w (%.2f standard errors)", worst);
    }
    drawn_release(&all);
    icl_task_destroy(&task);
}

/* Label noise (y_i - <w, x_i>) / sigma, [SEQUENCES][n]: mean 0, variance 1, independent of x. */
static void check_label_noise(tap_run *tap, const drawn *all) {
    double mean = 0, square_sum = 0, fourth = 0, cross = 0, cross_square = 0, count = 0, deviations[3];

    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t i = 0; i < all->n; i++) {
            const float *token = all->tokens + (s * (all->n + 1) + i) * (all->d + 1);
            double noise = (double)token[all->d], with_input;
            for (size_t k = 0; k < all->d; k++)
                noise -= (double)token[k] * (double)all->weights[s * all->d + k];
            noise /= (double)all->noise[s];
            with_input = noise * (double)token[0];
            mean += noise;
            square_sum += noise * noise;
            fourth += noise * noise * noise * noise;
            cross += with_input;
            cross_square += with_input * with_input;
            count++;
        }
    deviations[0] = deviation(mean, square_sum, count, 0);
    deviations[1] = deviation(square_sum, fourth, count, 1);
    deviations[2] = deviation(cross, cross_square, count, 0);
    for (int i = 0; i < 3; i++)
        tap_ok(tap, deviations[i] < BOUND, "label noise, statistic %d (%.2f standard errors)", i, deviations[i]);
}

static void check_noise_levels(tap_run *tap, const char *overrides, size_t moments, const double *expected) {
    icl_task *task = NULL;
    icl_error error = {0};
    drawn all = {0};

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, draw(task, ICL_FOR_TRAINING, SEED, &all, &error), &error, "draw") && all.noise) {
        for (size_t power = 1; power <= moments; power++) {
            double sum = 0, squares = 0, worst;
            for (size_t s = 0; s < SEQUENCES; s++) {
                const double value = pow((double)all.noise[s], (double)power);
                sum += value;
                squares += value * value;
            }
            worst = deviation(sum, squares, SEQUENCES, expected[power - 1]);
            tap_ok(tap, worst < BOUND, "E[sigma^%zu] = %g (%.2f standard errors)", power, expected[power - 1], worst);
        }
        tap_ok(tap, fabs(icl_task_get_prior(task)->mean_square_noise - expected[1]) < 1e-9 * expected[1],
               "the prior's E[sigma^2]");
        check_label_noise(tap, &all);
    }
    drawn_release(&all);
    icl_task_destroy(&task);
}

/* Every task draws x_1 of the first sequences from the same normals when seed, purpose and step agree, and from others
 * as soon as one differs. */
static size_t shared_numbers(const drawn *a, const drawn *b) {
    const size_t count = SEQUENCES * (a->n + 1) * (a->d + 1);
    size_t shared = 0;
    for (size_t k = 0; k < count; k++)
        shared += a->tokens[k] == b->tokens[k] && a->tokens[k] != 0;
    return shared;
}

static void check_purposes(tap_run *tap) {
    static const struct {
        icl_task_purpose purpose;
        uint32_t seed;
    } draws[] = {{ICL_FOR_TRAINING, 1}, {ICL_FOR_EVALUATION, 1}, {ICL_FOR_FITTING, 1}, {ICL_FOR_TRAINING, 2}};
    enum { DRAWS = sizeof draws / sizeof *draws };
    drawn all[DRAWS] = {{0}};
    icl_task *task = NULL;
    icl_error error = {0};

    tap_status(tap, make_task("task.d=3 task.n=5", &task, &error), &error, "a small task");
    for (size_t i = 0; i < DRAWS; i++)
        tap_status(tap, draw(task, draws[i].purpose, draws[i].seed, &all[i], &error), &error, "draw");
    for (size_t i = 0; i < DRAWS; i++)
        for (size_t j = 0; j < i; j++) {
            /* Of 2^17 to 2^18 floats a few agree by chance: neighbours are 2^-24 apart, relative
             * to a normal's density. */
            const size_t shared = shared_numbers(&all[i], &all[j]);
            tap_ok(tap, shared < 20, "draws %zu and %zu have nothing in common (%zu equal numbers)", j, i, shared);
        }
    for (size_t i = 0; i < DRAWS; i++)
        drawn_release(&all[i]);
    icl_task_destroy(&task);
}

static void check_streams(tap_run *tap) {
    bool distinct = true;
    for (int a = 0; a < 3 * ICL_ROLE_COUNT; a++)
        for (int b = 0; b < a; b++)
            distinct = distinct &&
                       icl_task_stream((icl_task_purpose)(a / ICL_ROLE_COUNT), (icl_task_role)(a % ICL_ROLE_COUNT)) !=
                           icl_task_stream((icl_task_purpose)(b / ICL_ROLE_COUNT), (icl_task_role)(b % ICL_ROLE_COUNT));
    tap_ok(tap, distinct, "every purpose and role has its own stream");
}

static void check_rotation(tap_run *tap, size_t d) {
    double *rotation = NULL, *other = NULL, worst = 0, distance = 0;
    icl_error error = {0};

    tap_status(tap, icl_random_rotation(d, 1, &rotation, &error), &error, "a rotation");
    tap_status(tap, icl_random_rotation(d, 2, &other, &error), &error, "another");
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            double rows = 0, columns = 0;
            for (size_t k = 0; k < d; k++) {
                rows += rotation[i * d + k] * rotation[j * d + k];
                columns += rotation[k * d + i] * rotation[k * d + j];
            }
            worst = fmax(worst, fmax(fabs(rows - (i == j)), fabs(columns - (i == j))));
            distance = fmax(distance, fabs(rotation[i * d + j] - other[i * d + j]));
        }
    tap_ok(tap, worst < 4 * (double)d * 2.3e-16, "d = %zu: orthogonal to rounding (%.1e)", d, worst);
    tap_ok(tap, d == 1 || distance > 0.1, "another seed gives another rotation");
    icl_free(&rotation);
    icl_free(&other);
}

/* The columns of a turned covariance's root R are its axes: R^T R has the eigenvalues alone, in their order; and S, the
 * root of its inverse, which the weights have, those of the same axes: R^T S = I. Roots are rounded to floats. */
static void check_axes(tap_run *tap) {
    static const double spectrum[] = {4, 1, .25, 9};
    icl_task *task = NULL;
    icl_error error = {0};
    double worst = 0;

    if (tap_status(tap,
                   make_task("task.d=4 task.n=5 task.covariance=spectrum:4,1,0.25,9 task.rotate=true "
                             "task.weights=inverse-covariance",
                             &task, &error),
                   &error, "a covariance with axes of its own")) {
        const icl_task_prior *prior = icl_task_get_prior(task);
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 4; j++) {
                double square = 0, product = 0;
                for (size_t k = 0; k < 4; k++) {
                    square += prior->covariance_root[k * 4 + i] * prior->covariance_root[k * 4 + j];
                    product += prior->covariance_root[k * 4 + i] * prior->weight_root[k * 4 + j];
                }
                worst = fmax(worst, fabs(square - (i == j ? spectrum[i] : 0)) / sqrt(spectrum[i] * spectrum[j]));
                worst = fmax(worst, fabs(product - (i == j)) * sqrt(spectrum[j] / spectrum[i]));
            }
        tap_ok(tap, worst < 0x1p-22, "its eigenvalues are those asked for (%.1e)", worst);
    }
    icl_task_destroy(&task);
}

/* The same bits on every machine and compiler: a known answer. */
static void check_rotation_bits(tap_run *tap) {
    double *rotation = NULL;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, a word at a time */
    icl_error error = {0};

    if (tap_status(tap, icl_random_rotation(5, 1, &rotation, &error), &error, "a rotation"))
        for (size_t i = 0; i < 25; i++) {
            uint64_t word;
            memcpy(&word, &rotation[i], sizeof word);
            hash = (hash ^ word) * 0x100000001b3u;
        }
    tap_ok(tap, hash == 0xaa71e6bf5c2465dbu, "its bits (%016llx)", (unsigned long long)hash);
    icl_free(&rotation);
}

int main(void) {
    tap_run tap = {0};

    check_inputs_and_weights(&tap, "task.d=4 task.n=3");
    check_inputs_and_weights(&tap, "task.d=5 task.n=4 task.covariance=spectrum:1,1,0.25,0.0625,1 task.rotate=true "
                                   "task.weights=inverse-covariance");
    check_inputs_and_weights(&tap, "task.d=3 task.n=2 task.covariance=spectrum:9,1,0.01");
    check_noise_levels(&tap, "task.d=2 task.n=6 task.noise=uniform:6", 4, (double[]){3, 12, 54, 1296.0 / 5});
    check_noise_levels(&tap, "task.d=2 task.n=6 task.noise=choice:1,3,5", 4,
                       (double[]){3, 35.0 / 3, 51, (1 + 81 + 625) / 3.0});
    check_noise_levels(&tap, "task.d=2 task.n=6 task.noise=fixed:0.5", 2, (double[]){0.5, 0.25});
    check_purposes(&tap);
    check_streams(&tap);
    check_rotation_bits(&tap);
    check_axes(&tap);
    check_rotation(&tap, 1);
    check_rotation(&tap, 5);
    check_rotation(&tap, 40);
    return tap_done(&tap);
}
