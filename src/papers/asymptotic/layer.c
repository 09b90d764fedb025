/*
 * One layer of linear attention on a fixed set of sequences: drawn, solved without a ridge, trained, and its exact
 * errors.
 *
 * The trained layer is f = Z + P Z Z^T Q Z with P = (0 ... 0, 1) in its last row, which leaves the first d columns of
 * Q: Gamma. For the query it attends with Gamma^T x_query to the keys (sqrt(d) x_i, y_i / sqrt(d)) of the tokens
 * (sqrt(d) x_i, y_i), and reads y_i: the prediction is x_query^T Gamma v, v as in asymptotic.h. The query's value is 0.
 *
 * Full gradient descent with momentum b and rate r converges if r < 2 (1 + b) / c for the largest curvature c. It takes
 * r = 1 / c with an estimate of c by the power iteration, for which there is room. From 0 it stays in the span of the
 * H, so that it ends at the solution of least norm.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "iclab/train.h"
#include "papers/asymptotic/asymptotic.h"
#include "papers/reproduce.h"

#define TASK_STREAM     0x61737930u
#define SEQUENCE_STREAM 0x61737931u

/* Sequences whose features are held at a time; steps of a power iteration. */
enum { CHUNK = 256, POWER_STEPS = 30 };

#define MOMENTUM 0.95

/* ---- Drawing ---- */

/* Random numbers in the order in which they are asked for. */
typedef struct draws {
    icl_random_key key;
    uint64_t index;
} draws;

static uint32_t draw_word(draws *from) {
    return icl_random_word(from->key, from->index++);
}

static double draw_normal(draws *from) {
    return (double)icl_normal_from_word(draw_word(from));
}

/* Draws chi^2 with this many degrees of freedom: twice a Gamma variate, by rejection (Marsaglia and Tsang 2000, "A
 * simple method for generating gamma variables"); for one degree a normal's square. */
static double draw_chi_square(draws *from, size_t freedom) {
    const double shift = (double)freedom / 2 - 1. / 3, scale = 1 / sqrt(9 * shift);

    if (freedom == 1)
        return pow(draw_normal(from), 2);
    for (;;) {
        const double normal = draw_normal(from), cube = pow(1 + scale * normal, 3);
        const double uniform = ((double)draw_word(from) + .5) / 4294967296.0;
        if (cube > 0 && log(uniform) < normal * normal / 2 + shift * (1 - cube + log(cube)))
            return 2 * shift * cube;
    }
}

/* Draws x ~ N(0, I / d), and returns <w, x>. */
static double draw_input(draws *from, const double *w, size_t d, double *x) {
    double product = 0;

    for (size_t j = 0; j < d; j++) {
        x[j] = draw_normal(from) / sqrt((double)d);
        product += w[j] * x[j];
    }
    return product;
}

static void draw_tasks(const icl_pretraining_size *size, uint32_t seed, uint64_t number, double *tasks) {
    draws from = {.key = {.seed = seed, .stream = TASK_STREAM, .step = number}};

    for (size_t k = 0; k < size->tasks; k++) {
        double *w = tasks + k * size->d, square = 0;
        for (size_t j = 0; j < size->d; j++) {
            w[j] = draw_normal(&from);
            square += w[j] * w[j];
        }
        for (size_t j = 0; j < size->d; j++)
            w[j] *= sqrt((double)size->d / square);
    }
}

/* Draws v from its law. The factor of ww^T / d makes the covariance I - ww^T / (d s) of a standard normal vector. */
static void draw_values(const icl_pretraining_size *size, const double *w, draws *from, double *v) {
    const double d = (double)size->d, l = (double)size->context, s = 1 + size->noise;
    const double q = s * draw_chi_square(from, size->context), factor = 1 - sqrt(1 - 1 / s);
    double along = 0;

    for (size_t j = 0; j < size->d; j++) {
        v[j] = draw_normal(from);
        along += w[j] * v[j] / d;
    }
    for (size_t j = 0; j < size->d; j++)
        v[j] = d / l * (q * w[j] / (d * s) + sqrt(q / d) * (v[j] - factor * along * w[j]));
    v[size->d] = q / l;
}

/* Draws the pairs of a sequence into tokens [l][d + 1], and v of the numbers that were written. x is room for d. */
static void draw_pairs(const icl_pretraining_size *size, const double *w, draws *from, double *x, float *tokens,
                       double *v) {
    const size_t d = size->d;
    const double l = (double)size->context;

    memset(v, 0, (d + 1) * sizeof *v);
    for (size_t i = 0; i < size->context; i++) {
        float *token = tokens + i * (d + 1);
        token[d] = (float)(draw_input(from, w, d, x) + sqrt(size->noise) * draw_normal(from));
        for (size_t j = 0; j < d; j++) {
            token[j] = (float)(sqrt((double)d) * x[j]);
            v[j] += sqrt((double)d) / l * (double)token[d] * (double)token[j];
        }
        v[d] += (double)token[d] * (double)token[d] / l;
    }
}

/* Each sequence has a stream of its own. */
static void draw_sequence(const icl_pretraining *drawn, icl_random_key key, size_t i, float *tokens) {
    const icl_pretraining_size *size = &drawn->size;
    const size_t d = size->d, row = (size->context + 1) * (d + 1);
    double *const query = drawn->queries + i * d, *const v = drawn->values + i * (d + 1);
    draws from = {key, (uint64_t)i << 32};
    const double *w = drawn->tasks + draw_word(&from) % size->tasks * d;

    if (tokens)
        draw_pairs(size, w, &from, query, tokens + i * row, v);
    else
        draw_values(size, w, &from, v);
    drawn->labels[i] = draw_input(&from, w, d, query) + sqrt(size->noise) * draw_normal(&from);
    for (size_t j = 0; tokens && j <= d; j++)
        tokens[(i + 1) * row - d - 1 + j] = j < d ? (float)(sqrt((double)d) * query[j]) : 0;
}

icl_status icl_pretraining_draw(const icl_pretraining_size *size, uint32_t seed, uint64_t number, float *tokens,
                                icl_pretraining *drawn, icl_error *error) {
    const icl_random_key key = {.seed = seed, .stream = SEQUENCE_STREAM, .step = number};
    const size_t d = size->d, n = size->sequences;
    double *memory = NULL;

    *drawn = (icl_pretraining){.size = *size};
    ICL_CHECK(icl_allocate(size->tasks * d + n * (2 * d + 2), sizeof *memory, "sequences", &memory, error));
    drawn->memory = drawn->tasks = memory;
    drawn->queries = drawn->tasks + size->tasks * d;
    drawn->values = drawn->queries + n * d;
    drawn->labels = drawn->values + n * (d + 1);
    draw_tasks(size, seed, number, drawn->tasks);
    for (size_t i = 0; i < n; i++)
        draw_sequence(drawn, key, i, tokens);
    return ICL_OK;
}

/* ---- Least squares ---- */

static double dot(size_t count, const double *a, const double *b) {
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* out [d][d + 1] += factor x v^T. */
static void add_features(size_t d, double factor, const double *x, const double *v, double *out) {
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b <= d; b++)
            out[a * (d + 1) + b] += factor * x[a] * v[b];
}

static icl_status fail_dependent(const icl_pretraining_size *size, icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT,
                    "ridgeless regression: %zu sequences for %zu features are linearly dependent to rounding; expected "
                    "independent ones",
                    size->sequences, size->d * (size->d + 1));
}

/* Gamma = sum_i c_i H_i, where c solves sum_j <H_i, H_j> c_j = y_i. */
static icl_status interpolate(const icl_pretraining *sequences, double *gamma, icl_error *error) {
    const size_t d = sequences->size.d, n = sequences->size.sequences;
    const double *const x = sequences->queries, *const v = sequences->values;
    double *memory = NULL, *products, *c;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(n, (n + 1) * sizeof *memory, "products of sequences", &memory, error));
    products = memory;
    c = products + n * n;
    memcpy(c, sequences->labels, n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            products[i * n + j] = dot(d, x + i * d, x + j * d) * dot(d + 1, v + i * (d + 1), v + j * (d + 1));
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'L', (int)n, 1, products, (int)n, c, (int)n) != 0)
        ICL_TRY(fail_dependent(&sequences->size, error));
    memset(gamma, 0, d * (d + 1) * sizeof *gamma);
    for (size_t i = 0; i < n; i++)
        add_features(d, c[i], x + i * d, v + i * (d + 1), gamma);
done:
    icl_free(&memory);
    return status;
}

/* Solves sum_i H_i <H_i, Gamma> = sum_i y_i H_i. The matrix is held as one triangle, in LAPACK's rectangular packed
 * format. */
static icl_status solve_normal_equations(const icl_pretraining *sequences, double *gamma, icl_error *error) {
    const size_t d = sequences->size.d, n = sequences->size.sequences, features = d * (d + 1);
    double *triangle = NULL, *chunk = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(features * (features + 1) / 2, sizeof *triangle, "normal equations", &triangle, error));
    ICL_TRY(icl_allocate(features, CHUNK * sizeof *chunk, "features of sequences", &chunk, error));
    memset(gamma, 0, features * sizeof *gamma);
    for (size_t first = 0; first < n; first += CHUNK) {
        const size_t count = n - first < CHUNK ? n - first : CHUNK;
        memset(chunk, 0, count * features * sizeof *chunk);
        for (size_t i = first; i < first + count; i++) {
            const double *x = sequences->queries + i * d, *v = sequences->values + i * (d + 1);
            add_features(d, 1, x, v, chunk + (i - first) * features);
            add_features(d, sequences->labels[i], x, v, gamma);
        }
        LAPACKE_dsfrk_work(LAPACK_COL_MAJOR, 'N', 'L', 'N', (int)features, (int)count, 1, chunk, (int)features, 1,
                           triangle);
    }
    if (LAPACKE_dpftrf_work(LAPACK_COL_MAJOR, 'N', 'L', (int)features, triangle) != 0)
        ICL_TRY(fail_dependent(&sequences->size, error));
    LAPACKE_dpftrs_work(LAPACK_COL_MAJOR, 'N', 'L', (int)features, 1, triangle, gamma, (int)features);
done:
    icl_free(&chunk);
    icl_free(&triangle);
    return status;
}

icl_status icl_ridgeless(const icl_pretraining *sequences, double *gamma, icl_error *error) {
    const icl_pretraining_size *size = &sequences->size;

    return (size->sequences <= size->d * (size->d + 1) ? interpolate : solve_normal_equations)(sequences, gamma, error);
}

/* ---- Exact errors ---- */

/* Adds a task's share of 1/d (s d - 2 <Gamma, w E v^T> + tr Gamma E v v^T Gamma^T) to which the block d / l s I and the
 * corner, which all tasks share, do not belong. */
static double error_of_task(const icl_pretraining_size *size, const double *gamma, const double *w) {
    const double d = (double)size->d, l = (double)size->context, s = 1 + size->noise;
    double sum = 0;

    for (size_t a = 0; a < size->d; a++) {
        const double *row = gamma + a * (size->d + 1);
        const double along = dot(size->d, row, w), corner = s * row[size->d];
        sum += -2 * w[a] * (along + corner) + (1 + 1 / l) * along * along + 2 * (1 + 2 / l) * along * corner;
    }
    return sum / d;
}

icl_layer_errors icl_gamma_errors(const icl_pretraining *sequences, const double *gamma) {
    const icl_pretraining_size *size = &sequences->size;
    const double d = (double)size->d, l = (double)size->context, s = 1 + size->noise;
    double square = 0, corner = 0, trace = 0, common;
    icl_layer_errors errors = {0};

    for (size_t a = 0; a < size->d; a++) {
        const double *row = gamma + a * (size->d + 1);
        square += dot(size->d, row, row);
        trace += row[a];
        corner += row[size->d] * row[size->d];
    }
    common = s + (d / l * s * square + s * s * (1 + 2 / l) * corner) / d;
    errors.icl = common - 2 * trace / d + (1 + 1 / l) * square / d;
    for (size_t k = 0; k < size->tasks; k++)
        errors.idg += error_of_task(size, gamma, sequences->tasks + k * size->d) / (double)size->tasks;
    errors.idg += common;
    return errors;
}

/* ---- Training: a task that is always the same sequences ---- */

typedef struct fixed_set {
    const icl_pretraining *sequences;
    const float *tokens;
} fixed_set;

static icl_status create_task(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const fixed_set *set = task->family->settings;

    (void)recipe, (void)error;
    task->shape = icl_regression_shape(set->sequences->size.d, set->sequences->size.context);
    return ICL_OK;
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const fixed_set *set = task->family->settings;

    (void)purpose, (void)seed, (void)step, (void)error;
    memcpy(values->inputs, set->tokens, values->size * task->shape.positions * task->shape.inputs * sizeof(float));
    for (size_t i = 0; i < values->size; i++)
        values->targets[i] = (float)set->sequences->labels[i];
    return ICL_OK;
}

static icl_status create_model(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const size_t d = model->shape.inputs - 1;

    (void)recipe;
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){d, d}, error, "inputs"));
    return icl_model_add_parameter(model, 2, (size_t[]){d, 1}, error, "label");
}

static void start_at_zero(const icl_model *model, uint32_t seed, float *values) {
    (void)seed;
    memset(values, 0, model->size * sizeof *values);
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const size_t d = model->shape.inputs - 1, pairs = model->shape.positions - 1;
    const icl_attention_params to_inputs = {.scale = 1 / (double)pairs};
    const icl_attention_params to_labels = {.scale = 1 / (sqrt((double)d) * (double)pairs)};
    const icl_variable x = icl_tape_slice(tape, inputs, 2, 0, d), y = icl_tape_slice(tape, inputs, 2, d, 1);
    const icl_variable query = icl_tape_slice(tape, x, 1, pairs, 1);

    (void)depth;
    return icl_tape_binary(tape, ICL_ADD,
                           icl_tape_attention(tape, &to_inputs, icl_tape_matmul(tape, 1, query, parameters[0]), x, y),
                           icl_tape_attention(tape, &to_labels, icl_tape_matmul(tape, 1, query, parameters[1]), y, y));
}

static const icl_model_family one_layer = {
    .name = "one-layer", .create = create_model, .initialize = start_at_zero, .predict = predict};

/* Makes one step of the power iteration for sum_i H_i H_i^T: out = sum_i H_i <H_i, in> / |in|, both [d][d + 1].
 * Returns |out|, which tends to the largest eigenvalue. */
static double multiply(const icl_pretraining *sequences, const double *in, double *out) {
    const size_t d = sequences->size.d;
    double square = 0, length = 0;

    for (size_t f = 0; f < d * (d + 1); f++)
        length += in[f] * in[f];
    memset(out, 0, d * (d + 1) * sizeof *out);
    for (size_t i = 0; i < sequences->size.sequences; i++) {
        const double *x = sequences->queries + i * d, *v = sequences->values + i * (d + 1);
        double product = 0;
        for (size_t f = 0; f < d * (d + 1); f++)
            product += in[f] * x[f / (d + 1)] * v[f % (d + 1)];
        for (size_t f = 0; f < d * (d + 1); f++)
            out[f] += product / sqrt(length) * x[f / (d + 1)] * v[f % (d + 1)];
    }
    for (size_t f = 0; f < d * (d + 1); f++)
        square += out[f] * out[f];
    return sqrt(square);
}

/* Estimates the largest curvature of the loss, 2 / n times the largest eigenvalue of sum_i H_i H_i^T, from below. */
static icl_status estimate_curvature(const icl_pretraining *sequences, double *curvature, icl_error *error) {
    const size_t d = sequences->size.d, count = d * (d + 1);
    double *memory = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * count, sizeof *memory, "power iteration", &memory, error));
    for (size_t f = 0; f < count; f++)
        memory[f] = sequences->queries[f / (d + 1)] * sequences->values[f % (d + 1)];
    for (size_t step = 0; step < POWER_STEPS; step++)
        *curvature = 2 / (double)sequences->size.sequences *
                     multiply(sequences, memory + step % 2 * count, memory + (step + 1) % 2 * count);
done:
    icl_free(&memory);
    return status;
}

static icl_status set_recipe(const icl_pretraining *sequences, size_t steps, icl_recipe *recipe, icl_error *error) {
    double curvature = 0;

    ICL_CHECK(estimate_curvature(sequences, &curvature, error));
    ICL_CHECK(icl_recipe_set_count(recipe, "train", "batch", sequences->size.sequences, error));
    ICL_CHECK(icl_recipe_set_count(recipe, "train", "steps", steps, error));
    ICL_CHECK(icl_recipe_set_text(recipe, "train", "optimizer", "sgd", error));
    ICL_CHECK(icl_recipe_set_number(recipe, "train", "momentum", MOMENTUM, error));
    ICL_CHECK(icl_recipe_set_number(recipe, "train", "learning_rate", 1 / curvature, error));
    return icl_reproduce_override_all(recipe, "train.schedule=constant train.warmup=0 train.clip=0", error);
}

icl_status icl_train_on_sequences(icl_backend *backend, const icl_pretraining *sequences, const float *tokens,
                                  size_t steps, double *gamma, icl_error *error) {
    const fixed_set set = {sequences, tokens};
    const icl_task_family task = {.name = "fixed-set", .settings = &set, .create = create_task, .draw = draw_batch};
    const icl_trainer_parts parts = {.task = &task, .model = &one_layer};
    const size_t d = sequences->size.d;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    float *learned = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d * (d + 1), sizeof *learned, "parameters", &learned, error));
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(set_recipe(sequences, steps, recipe, error));
    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, steps, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, learned, error));
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b <= d; b++)
            gamma[a * (d + 1) + b] = (double)(b < d ? learned[a * d + b] : learned[d * d + a]);
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_free(&learned);
    return status;
}

/* ---- One run ---- */

/* With tokens [n][l + 1][d + 1] the layer is trained, too; gamma is room for [d][d + 1]. */
static icl_status run_on(const icl_layer_run *run, const icl_pretraining_size *size, float *tokens, double *gamma,
                         icl_layer_errors errors[2], icl_error *error) {
    icl_pretraining drawn = {.memory = NULL};
    icl_status status = ICL_OK;

    ICL_TRY(icl_pretraining_draw(size, run->seed, run->number, tokens, &drawn, error));
    ICL_TRY(icl_ridgeless(&drawn, gamma, error));
    errors[0] = errors[1] = icl_gamma_errors(&drawn, gamma);
    if (tokens) {
        ICL_TRY(icl_train_on_sequences(run->backend, &drawn, tokens, run->steps, gamma, error));
        errors[1] = icl_gamma_errors(&drawn, gamma);
    }
done:
    icl_free(&drawn.memory);
    return status;
}

icl_status icl_run_layer(const icl_layer_run *run, const icl_pretraining_size *size, icl_layer_errors errors[2],
                         icl_error *error) {
    const size_t d = size->d, count = size->sequences * (size->context + 1) * (d + 1);
    double *gamma = NULL;
    float *tokens = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d * (d + 1), sizeof *gamma, "a layer", &gamma, error));
    if (run->steps > 0)
        ICL_TRY(icl_allocate(count, sizeof *tokens, "tokens", &tokens, error));
    ICL_TRY(run_on(run, size, tokens, gamma, errors, error));
done:
    icl_free(&tokens);
    icl_free(&gamma);
    return status;
}
