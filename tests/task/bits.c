/* Batches of in-context regression have the same bits on every device: all 32 bits of every element are compared with
 * the cpu backend, and one batch with a recomputation on the host from the definition of the task and of the random
 * numbers: linear regression in the same floats, functions and quadratic targets in double precision. */
#include "conformance/cases.h"
#include "frame.h"
#include "task/laws.h"
#include "task/parts.h"
#include "task/streams.h"

enum { STEP = 5 }; /* the step of the recomputed batch */

static icl_random_key key_of(uint32_t stream) {
    return (icl_random_key){SEED, stream, STEP};
}

static float normal(icl_task_role role, uint64_t index) {
    return icl_normal_from_word(icl_random_word(key_of(icl_task_stream(ICL_FOR_TRAINING, role)), index));
}

/* Draws the batch that is recomputed. */
static void draw_for_training(drawn *batch, task_test *test, size_t count, const char *overrides) {
    open_batch(batch, test->device, ICL_FOR_TRAINING, count, overrides);
    draw_step(batch, SEED, STEP);
}

/* ---- Linear regression ---- */

/* The settings of inputs that the definition below needs if they are not normal. */
typedef struct linear_recipe {
    const char *overrides;
    icl_input_law law;
    double first, second; /* the numbers of the law */
    const double *root;   /* of task.covariance only */
} linear_recipe;

static const linear_recipe linear_recipes[] = {
    {"task.d=10 task.n=20 task.noise=uniform:5", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=3 task.n=1 task.noise=choice:1,3,5", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=1 task.n=4 task.noise=fixed:0.25", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=5 task.n=20 task.noise=fixed:0 task.covariance=spectrum:1,1,0.25,0.0625,1 task.rotate=true "
     "task.weights=inverse-covariance",
     ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=4 task.n=3 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25,9", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=2 task.n=30 task.noise=choice:0,1e-30", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=2 task.n=30 task.noise=uniform:1e-22 task.covariance=spectrum:1e-22,1e24", ICL_INPUTS_NORMAL, 0, 0, NULL},
    {"task.d=3 task.n=7 task.noise=fixed:0 task.inputs=uniform:1.5", ICL_INPUTS_UNIFORM, 1.5, 0, NULL},
    {"task.d=6 task.n=4 task.noise=uniform:1 task.inputs=sphere", ICL_INPUTS_SPHERE, 0, 0, NULL},
    {"task.d=5 task.n=20 task.noise=fixed:0 task.inputs=gamma:0.1,10", ICL_INPUTS_GAMMA, 0.1, 10, NULL},
    {"task.d=2 task.n=3 task.noise=fixed:1 task.inputs=gamma:3,2 task.covariance=spectrum:4,0.25", ICL_INPUTS_GAMMA, 3,
     2, (const double[]){2, 0, 0, 0.5}},
};

/* Computes root [d][d] times normals, summed from left to right in float; copies the normals if there is no root. */
static void coloured(const double *root, size_t d, const float *normals, float *out) {
    for (size_t i = 0; i < d; i++) {
        volatile float sum = root ? (float)root[i * d] * normals[0] : normals[i];
        for (size_t j = 1; root && j < d; j++) {
            volatile float product = (float)root[i * d + j] * normals[j];
            sum = sum + product;
        }
        out[i] = sum;
    }
}

static float label(size_t d, const float *x, const float *w, float noise, float sigma) {
    volatile float sum = x[0] * w[0];
    for (size_t j = 1; j < d; j++) {
        volatile float product = x[j] * w[j];
        sum = sum + product;
    }
    {
        volatile float product = noise * sigma;
        sum = sum + product;
    }
    return sum;
}

static float noise_level(const icl_task_prior *prior, uint64_t sequence) {
    const uint32_t word = icl_random_word(key_of(icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_NOISE_LEVEL)), sequence);

    if (prior->noise == ICL_NOISE_UNIFORM)
        return (float)prior->noise_max * ((float)(word >> 8) * 0x1p-24f);
    return (float)prior->noise_levels[((uint64_t)word * prior->noise_count) >> 32];
}

/* Computes vector number `index` of the inputs, before their covariance. */
static void input(const linear_recipe *from, const double *table, size_t d, uint64_t index, float *x) {
    const icl_random_key inputs = key_of(icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_INPUTS));
    const icl_random_key radii = key_of(icl_stream_for(ICL_FOR_TRAINING, ICL_RADIUS_STREAMS));
    const int radius = from->law == ICL_INPUTS_GAMMA ? 1 : -1;
    icl_case c = {.op = ICL_OP_spherical, .rank = {1, 1, radius, radius}, .shape = {{d}, {d}, {1}}};
    double out[16], in[16], z, tables[ICL_CHI_PIECES * ICL_CHI_TERMS], bounds[16];
    icl_truth truth = {.c = &c, .operand = {out, in, &z, tables}, .bound = {bounds}};

    for (size_t k = 0; k < d; k++) {
        const uint32_t word = icl_random_word(inputs, index * d + k);
        const volatile float share = (float)(2 * from->first) * ((float)(word >> 8) * 0x1p-24f);
        x[k] = from->law == ICL_INPUTS_UNIFORM ? -(float)from->first + share : icl_normal_from_word(word);
        in[k] = (double)x[k];
    }
    if (from->law != ICL_INPUTS_SPHERE && from->law != ICL_INPUTS_GAMMA)
        return;
    memcpy(tables, table, sizeof tables);
    z = (double)icl_normal_from_word(icl_random_word(radii, index));
    (void)icl_describe(ICL_OP_spherical)->truth(&truth, NULL);
    for (size_t k = 0; k < d; k++)
        x[k] = (float)out[k];
}

static void recompute(const linear_recipe *from, drawn *batch) {
    const icl_task_prior *prior = icl_task_get_prior(batch->task);
    const size_t n = prior->context, d = prior->dimension;
    const double *root = from->law == ICL_INPUTS_NORMAL ? prior->covariance_root : from->root;
    double table[ICL_CHI_PIECES * ICL_CHI_TERMS] = {0};
    float normals[16];

    if (from->law == ICL_INPUTS_GAMMA)
        icl_radius_table(from->first, from->second, table);

    for (size_t s = 0; s < batch->count; s++) {
        float *tokens = batch->inputs + s * (n + 1) * (d + 1), *w = batch->coefficients + s * d;
        const float sigma = noise_level(prior, s);

        for (size_t k = 0; k < d; k++)
            normals[k] = normal(ICL_ROLE_WEIGHTS, s * d + k);
        coloured(prior->weight_root, d, normals, w);
        batch->noise[s] = sigma;
        for (size_t i = 0; i <= n; i++) {
            float *x = tokens + i * (d + 1);
            input(from, table, d, s * (n + 1) + i, normals);
            coloured(root, d, normals, x);
            x[d] = i < n ? label(d, x, w, normal(ICL_ROLE_LABEL_NOISE, s * n + i), sigma) : 0;
            if (i == n)
                batch->targets[s] = label(d, x, w, 0, sigma);
        }
    }
}

static void check_linear(task_test *test) {
    drawn ours = {0}, expected = {0};

    for (size_t i = 0; i < sizeof linear_recipes / sizeof *linear_recipes; i++) {
        check_bits(test, linear_recipes[i].overrides, 48, 100);
        draw_for_training(&ours, test, 48, linear_recipes[i].overrides);
        draw_for_training(&expected, test, 48, linear_recipes[i].overrides);
        recompute(&linear_recipes[i], &expected);
        const size_t different = count_different(&ours, &expected);
        tap_ok(&test->tap, different == 0, "and those of the definition (%zu elements differ)", different);
    }
    release(&ours);
    release(&expected);
}

/* ---- Functions on the sphere ---- */

#define FUNCTIONS "task.family=functions task.inputs=sphere "

/* Inputs are of length 1 within a few roundings; labels pass through fewer than 60 roundings of terms that add up to
 * less than 10. */
typedef struct function_recipe {
    const char *overrides;
    char class; /* the first letter of task.function */
    double lipschitz, sigma, nuisance;
} function_recipe;

static const function_recipe function_recipes[] = {
    {FUNCTIONS "task.d=5 task.n=20 task.noise=fixed:0.5 task.lipschitz=3", 'a', 3, .5, 0},
    {FUNCTIONS "task.d=3 task.n=7 task.noise=fixed:0 task.function=relu", 'r', 1, 0, 0},
    {FUNCTIONS "task.d=2 task.n=9 task.noise=fixed:2 task.function=cosine task.lipschitz=10", 'c', 10, 2, 0},
    {FUNCTIONS "task.d=4 task.n=5 task.noise=fixed:0 task.function=quadratic", 'q', 1, 0, 0},
    {FUNCTIONS "task.d=6 task.n=5 task.noise=fixed:1 task.function=cosine task.subspace=2 task.nuisance=0.5", 'c', 1, 1,
     .5},
    {FUNCTIONS "task.d=3 task.n=4 task.noise=fixed:0 task.function=affine task.subspace=1 task.nuisance=2", 'a', 1, 0,
     2},
};

static double uniform(uint64_t index, double limit) {
    const icl_random_params params = {.key = key_of(icl_stream_for(ICL_FOR_TRAINING, ICL_COEFFICIENT_STREAMS)),
                                      .low = (float)-limit,
                                      .high = (float)limit};
    return (double)icl_random_value(&params, index);
}

static double evaluate(const function_recipe *recipe, size_t sequence, double s) {
    const size_t own = recipe->class == 'r' ? 2 : 1, first = sequence * (own + 1);
    const double slope = uniform(first, recipe->lipschitz), offset = uniform(first + own, recipe->lipschitz);

    switch (recipe->class) {
    case 'r':
        return (s > 0 ? slope * s : uniform(first + 1, recipe->lipschitz) * -s) + offset;
    case 'c':
        return slope * cos(2 * s) / 2 + offset;
    case 'q':
        return slope * s * s / 2 + offset;
    default:
        return slope * s + offset;
    }
}

/* Computes the lengths of x inside the subspace (or in all of it if there is none) and outside, and s = a^T B^T x. */
static double project(icl_subspace subspace, size_t d, const float *x, const float *a, double *inside,
                      double *outside) {
    const size_t k = subspace.rotation ? subspace.directions : d;
    double s = 0, squares[2] = {0, 0};

    for (size_t column = 0; column < d; column++) {
        double part = subspace.rotation ? 0 : (double)x[column];
        for (size_t i = 0; subspace.rotation && i < d; i++)
            part += subspace.rotation[i * d + column] * (double)x[i];
        squares[column >= k] += part * part;
        s += column < k ? part * (double)a[column] : 0;
    }
    *inside = sqrt(squares[0]);
    *outside = sqrt(squares[1]);
    return s;
}

static void check_function(task_test *test, const function_recipe *recipe) {
    drawn all = {0};
    double length = 0, label = 0, largest = 0;

    check_bits(test, recipe->overrides, 29, 12);
    draw_for_training(&all, test, 29, recipe->overrides);
    const icl_subspace subspace = icl_task_subspace(all.task);
    const size_t n = icl_task_context(all.task), k = subspace.rotation ? subspace.directions : all.d;
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i <= n; i++) {
            const float *x = input_at(&all, s, i);
            double inside, outside;
            const double at = project(subspace, all.d, x, all.coefficients + s * k, &inside, &outside);
            const double noise = i < n ? recipe->sigma * (double)normal(ICL_ROLE_LABEL_NOISE, s * n + i) : 0;
            const double seen = i < n ? (double)x[all.d] : target_at(&all, s, 0);
            length = fmax(length, fmax(fabs(inside - 1), fabs(outside - recipe->nuisance)));
            label = fmax(label, fabs(seen - evaluate(recipe, s, at) - noise));
            largest = fmax(largest, fabs(at));
        }
    tap_ok(&test->tap, length < 3e-6, "lengths inside and outside of the subspace are 1 and c (%.2g)", length);
    tap_ok(&test->tap, label < 60 * 10 * 0x1p-24 * fmax(recipe->lipschitz, recipe->sigma),
           "labels and targets are the function's (%.2g)", label);
    tap_ok(&test->tap, largest > .5 && largest < 1 + 1e-6, "projections use the sphere (%.3g)", largest);
    release(&all);
}

/* task.rotation_seed decides on which directions functions depend. */
static void check_rotation(task_test *test, const char *overrides, uint32_t seed) {
    enum { D = 5 };
    drawn all = {0};
    double *expected = NULL, worst = 0;

    open_batch(&all, test->device, ICL_FOR_TRAINING, 1, overrides);
    tap_need(icl_random_rotation(D, seed, &expected, tap_error()));
    for (size_t i = 0; i < (size_t)D * D; i++)
        worst = fmax(worst, fabs(icl_task_subspace(all.task).rotation[i] - (double)(float)expected[i]));
    tap_ok(&test->tap, worst == 0, "%s: the subspace is that of the seed", overrides);
    icl_free(&expected);
    release(&all);
}

static void check_functions(task_test *test) {
    for (size_t i = 0; i < sizeof function_recipes / sizeof *function_recipes; i++)
        check_function(test, &function_recipes[i]);
    check_rotation(test, FUNCTIONS "task.d=5 task.n=7 task.subspace=2 task.rotation_seed=1", 1);
    check_rotation(test, FUNCTIONS "task.d=5 task.n=7 task.subspace=2 task.rotation_seed=2", 2);
}

/* ---- Quadratic targets ---- */

/* A label is a sum of d^2 + 1 products of three numbers, each through at most d + 4 roundings. */
static void check_quadratic(task_test *test, const char *law, double sigma) {
    drawn all = {0};
    char overrides[128];
    double worst = 0;

    snprintf(overrides, sizeof overrides, "task.family=quadratic-regression %s", law);
    check_bits(test, overrides, 17, 6);
    draw_for_training(&all, test, 17, overrides);
    const size_t d = all.d, n = all.length - 1;
    for (size_t s = 0; s < all.count; s++)
        for (size_t i = 0; i <= n; i++) {
            const float *x = input_at(&all, s, i);
            double label = i < n ? sigma * (double)normal(ICL_ROLE_LABEL_NOISE, s * n + i) : 0, size = fabs(label);
            for (size_t k = 0; k < d * d; k++) {
                const double weight = (double)normal(ICL_ROLE_WEIGHTS, s * d * d + k) / sqrt((double)(d * (d + 2)));
                label += (double)x[k / d] * weight * (double)x[k % d];
                size += fabs((double)x[k / d] * weight * (double)x[k % d]);
            }
            const double seen = i < n ? (double)x[d] : target_at(&all, s, 0);
            worst = fmax(worst, fabs(seen - label) / (size * 2 * (double)(d + 4) * 0x1p-24));
            worst = i == n && x[d] != 0 ? (double)INFINITY : worst;
        }
    tap_ok(&test->tap, worst <= 1, "labels and targets are x^T W x, noise beside the labels alone (%.2g)", worst);
    release(&all);
}

static void check_all_quadratic(task_test *test) {
    check_quadratic(test, "task.d=3 task.n=9 task.noise=fixed:0.5", .5);
    check_quadratic(test, "task.d=1 task.n=1 task.noise=fixed:0", 0);
    check_quadratic(test, "task.d=5 task.n=4 task.noise=fixed:2 task.inputs=sphere", 2);
    check_quadratic(test, "task.d=2 task.n=6 task.noise=fixed:1 task.inputs=gamma:2,1", 1);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_linear, check_functions, check_all_quadratic};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
