/*
 * The same bits on every device: 100 batches against the cpu backend, all 32 bits of every element, and the first of
 * them against a recomputation on the host from the definition of the task and of the random numbers.
 */
#include "conformance/cases.h"
#include "same_bits.h"
#include "task/inputs.h"
#include "task/radius.h"
#include "task/streams.h"

enum { BATCH = 48, BATCHES = 100 };

/* What the definition below needs to know of inputs that are not normal. */
typedef struct recipe {
    const char *overrides;
    icl_input_law law;
    double first, second; /* of the law's numbers */
    const double *root;   /* of task.covariance alone */
} recipe;

static const recipe recipes[] = {
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

/* ---- The definition, on the host ---- */

static float normal(icl_task_role role, uint64_t step, uint64_t index) {
    const icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, role), step};
    return icl_normal_from_word(icl_random_word(key, index));
}

/* root [d][d] times normals, summed from left to right in float; the normals themselves without a root. */
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

static float noise_level(const icl_task_prior *prior, uint64_t step, uint64_t sequence) {
    icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_NOISE_LEVEL), step};
    const uint32_t word = icl_random_word(key, sequence);

    if (prior->noise == ICL_NOISE_UNIFORM)
        return (float)prior->noise_max * ((float)(word >> 8) * 0x1p-24f);
    return (float)prior->noise_levels[((uint64_t)word * prior->noise_count) >> 32];
}

/* Vector number `index` of the inputs before their covariance. */
static void input(const recipe *from, const double *table, size_t d, uint64_t step, uint64_t index, float *x) {
    const icl_random_key inputs = {SEED, icl_task_stream(ICL_FOR_TRAINING, ICL_ROLE_INPUTS), step};
    const icl_random_key radii = {SEED, icl_stream_for(ICL_FOR_TRAINING, ICL_RADIUS_STREAMS), step};
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
    (void)icl_truth_spherical(&truth, NULL);
    for (size_t k = 0; k < d; k++)
        x[k] = (float)out[k];
}

static void recompute(const recipe *from, const icl_task *task, uint64_t step, parts *all) {
    const icl_task_prior *prior = icl_task_get_prior(task);
    const size_t n = prior->context, d = prior->dimension;
    const double *root = from->law == ICL_INPUTS_NORMAL ? prior->covariance_root : from->root;
    double table[ICL_CHI_PIECES * ICL_CHI_TERMS] = {0};
    float normals[16];

    if (from->law == ICL_INPUTS_GAMMA)
        icl_radius_table(from->first, from->second, table);

    for (size_t s = 0; s < BATCH; s++) {
        float *tokens = all->values[TOKENS] + s * (n + 1) * (d + 1), *w = all->values[WEIGHTS] + s * d;
        const float sigma = noise_level(prior, step, s);

        for (size_t k = 0; k < d; k++)
            normals[k] = normal(ICL_ROLE_WEIGHTS, step, s * d + k);
        coloured(prior->weight_root, d, normals, w);
        all->values[NOISE][s] = sigma;
        for (size_t i = 0; i <= n; i++) {
            float *x = tokens + i * (d + 1);
            input(from, table, d, step, s * (n + 1) + i, normals);
            coloured(root, d, normals, x);
            x[d] = i < n ? label(d, x, w, normal(ICL_ROLE_LABEL_NOISE, step, s * n + i), sigma) : 0;
            if (i == n)
                all->values[TARGETS][s] = label(d, x, w, 0, sigma);
        }
    }
}

/* ---- The checks ---- */

static icl_status compare_recipe(tap_run *tap, const recipe *from, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    two_devices both;
    size_t different = 0, first = 0;
    icl_status status;

    ICL_TRY(two_devices_open(&both, from->overrides, BATCH, backend, cpu, error));
    for (uint64_t i = 0; i < BATCHES; i++) {
        const uint64_t step = shuffled_step(i, 37, BATCHES);
        ICL_TRY(two_devices_sample(&both, step, error));
        different += parts_differ(&both.seen, &both.expected);
        if (i == 1) {
            recompute(from, both.task, step, &both.expected);
            first = parts_differ(&both.seen, &both.expected);
        }
    }
    tap_ok(tap, different == 0, "100 batches have the cpu's bits: %s (%zu elements differ)", from->overrides,
           different);
    tap_ok(tap, first == 0, "and those of the definition (%zu elements differ)", first);
done:
    two_devices_close(&both);
    return status;
}

static void compare_recipes(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    icl_error error = {0};
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        tap_status(tap, compare_recipe(tap, &recipes[i], backend, cpu, &error), &error, "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, compare_recipes);
}
