/*
 * One layer of linear attention learns in context from enough sequences of enough tasks: Lu et al. 2025
 * (asymptotic.h). The layer is ridgeless regression, so that the study draws sequences and solves; where it trains,
 * gradient descent must end at the same errors. n sequences stand for tau = n / (d (d + 1)), which is n / d^2 in the
 * limit and puts the peak at tau = 1 for every d. The errors are exact for each solution; only sequences and tasks are
 * random.
 *
 * The limit follows from that of linear regression with correlated features (Hastie, Montanari, Rosset, Tibshirani
 * 2022, "Surprises in high-dimensional ridgeless least squares interpolation", Annals of Statistics 50). To leading
 * order v has second moments S = R + x I, x = (1 + rho) / alpha, on the training's tasks, and (1 + x) I on fresh ones;
 * the best Gamma is R S^-1. n sequences act as a ridge s, 0 if they are more than the features, else by
 * 1/d tr S (S + s)^-1 = tau, and as noise of the size of the training tasks' own error e:
 *
 *     Gamma ~ R (S + s)^-1 with variance e / tau S (S + s)^-2,
 *     idg = e = 1 + rho - 2/d tr R^2 (S + s)^-1 + 1/d tr R^2 S (S + s)^-2 + e / tau 1/d tr S^2 (S + s)^-2,
 *     icl = 1 + rho - 2/d tr R (S + s)^-1 + (1 + x) (1/d tr R^2 (S + s)^-2 + e / tau 1/d tr S (S + s)^-2).
 *
 * With z = x + s all traces are polynomials in m = 1/d tr (R + z)^-1 and m' = -1/d tr (R + z)^-2. Marchenko and
 * Pastur's equation z m^2 / kappa + (z + 1 - 1 / kappa) m = 1, into which s m = 1 - tau is put, gives s = (1 - tau) /
 * (tau M), where M is the m(x) of kappa / tau. The result is the paper's Result 1, to rounding (tests/papers).
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "iclab/train.h"
#include "numeric/statistics.h"
#include "papers/asymptotic/asymptotic.h"
#include "papers/papers.h"
#include "papers/reproduce.h"

/* ---- The layer ---- */

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

/* Gives the errors of least squares, and those of the layer trained on the same sequences; without training, the first
 * ones twice. */
static icl_status run_layer(const icl_layer_run *run, const icl_pretraining_size *size, icl_layer_errors errors[2],
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

#define NOISE 0.01

/* Numbers of a cell: means over runs of the errors of least squares, and of the layer that was trained on the same
 * sequences. */
enum { ICL = 0, IDG, TRAINED_ICL, TRAINED_IDG, NUMBERS };

enum { MOST_RUNS = 256, STEPS = 1000 }; /* at most, of a cell; of gradient descent */

typedef enum sweep_part { BY_SEQUENCES = 0, BY_TASKS, TRAINED, PUBLISHED } sweep_part;

/* Points of one d and alpha: each tau with each kappa. Lists end with 0. */
typedef struct sweep {
    sweep_part part;
    icl_scale first, last; /* the scales that have it */
    size_t d, runs;
    double alpha, taus[12], kappas[10];
} sweep;

#define TAUS      .1, .2, .35, .5, .75, .9, 1, 1.1, 1.25, 1.5, 2
#define CI_TAUS   .2, .5, .9, 1, 1.1, 1.5, 2
#define KAPPAS    .2, .4, .6, .8, 1, 1.2, 1.5, 2, 4
#define CI_KAPPAS .5, 1.5, 2

/* A sweep at twice another's d stands behind it. Sequences that are trained on have a sweep without training that they
 * are compared with. */
static const sweep sweeps[] = {
    {BY_SEQUENCES, ICL_SCALE_CI, ICL_SCALE_CI, 10, 32, 10, {CI_TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_CI, ICL_SCALE_CI, 20, 12, 10, {CI_TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 32, 10, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 40, 8, 10, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 32, 100, {TAUS}, {.5}},
    {BY_SEQUENCES, ICL_SCALE_SHORT, ICL_SCALE_FULL, 40, 8, 100, {TAUS}, {.5}},
    {BY_TASKS, ICL_SCALE_CI, ICL_SCALE_CI, 6, 256, 100, {10}, {CI_KAPPAS}},
    {BY_TASKS, ICL_SCALE_CI, ICL_SCALE_CI, 12, 128, 100, {10}, {CI_KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 10, 64, 10, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 16, 10, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 10, 64, 100, {10}, {KAPPAS}},
    {BY_TASKS, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 16, 100, {10}, {KAPPAS}},
    {TRAINED, ICL_SCALE_CI, ICL_SCALE_CI, 10, 4, 10, {.5, 2}, {.5}},
    {TRAINED, ICL_SCALE_SHORT, ICL_SCALE_FULL, 20, 4, 10, {.2, .5, 2}, {.5}},
    {PUBLISHED, ICL_SCALE_FULL, ICL_SCALE_FULL, 100, 4, 10, {.2, .5, .85}, {.5}},
    {PUBLISHED, ICL_SCALE_FULL, ICL_SCALE_FULL, 100, 4, 100, {.2, .5, .85}, {.5}},
};

/* The authors' means and standard deviations of 10 runs, n = tau d^2: outputs/pnasA10_41350342.out and
 * pnasA100_41350343.out in Linear/Fig1_Linear_Double_Descent. */
static const struct {
    double alpha, tau;
    icl_layer_errors mean, deviation;
} published[] = {
    {10, .2, {.86685, .55308}, {.00519, .00978}},   {10, .5, {.83212, .25244}, {.00738, .00673}},
    {10, .85, {2.20048, .41897}, {.06253, .01573}}, {100, .2, {.81944, .49987}, {.00539, .01556}},
    {100, .5, {.70666, .12241}, {.00611, .00500}},  {100, .85, {3.95978, .11622}, {.19281, .00416}},
};

enum { PUBLISHED_RUNS = 10 };

/* ---- The limit ---- */

/* Returns m(z) = 1/d tr (R + z)^-1; *square, unless NULL, receives 1/d tr (R + z)^-2. */
static double resolvent(double kappa, double z, double *square) {
    const double c = 1 / kappa, linear = z + 1 - c, root = sqrt(linear * linear + 4 * z * c);
    /* Both are the positive root; each is used where nothing cancels. */
    const double m = linear < 0 ? (root - linear) / (2 * z * c) : 2 / (linear + root);

    if (square)
        *square = m * (c * m + 1) / (2 * c * z * m + linear);
    return m;
}

icl_layer_errors icl_limit_errors(const icl_limit_point *point) {
    const double tau = point->tau, rho = point->rho, x = (1 + rho) / point->alpha;
    const double s = tau < 1 ? (1 - tau) / (tau * resolvent(point->kappa / tau, x, NULL)) : 0, z = x + s;
    double m2;
    const double m = resolvent(point->kappa, z, &m2);
    const double mean = 1 - z * m, square = 1 - 2 * z * m + z * z * m2; /* 1/d tr of R / (R + z), and of its square */
    const double freedom = 1 - 2 * s * m + s * s * m2;                  /* 1/d tr S^2 / (S + s)^2 */
    icl_layer_errors errors;

    errors.idg = (rho + z * mean - s * square) / (1 - freedom / tau);
    errors.icl = 1 + rho - 2 * mean + (1 + x) * (square + errors.idg / tau * (m - s * m2));
    return errors;
}

/* ---- Cells ---- */

typedef struct point {
    const sweep *of;
    double tau, kappa;
} point;

static point point_of(const icl_study_cell *cell) {
    const sweep *of = &sweeps[cell->at[0]];
    return (point){of, of->taus[cell->at[1]], of->kappas[cell->at[2]]};
}

static const char *const part_names[] = {"sequences", "tasks", "trained", "published"};

static void plan_sweep(icl_study *study, size_t number) {
    const sweep *of = &sweeps[number];

    for (size_t t = 0; of->taus[t] > 0; t++)
        for (size_t k = 0; of->kappas[k] > 0; k++)
            ICL_ADD_CELL(study,
                         .name = ICL_PHRASE("%s-d%zu-alpha%g-kappa%g-tau%g", part_names[of->part], of->d, of->alpha,
                                            of->kappas[k], of->taus[t]),
                         .at = {number, t, k}, .curve = of->part > BY_TASKS ? NULL : ICL_PHRASE("d = %zu", of->d),
                         .x = of->part == BY_TASKS ? of->kappas[k] : of->taus[t]);
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        if (study->scale >= sweeps[i].first && study->scale <= sweeps[i].last)
            plan_sweep(study, i);
}

static icl_pretraining_size size_of(const point *at) {
    const double d = (double)at->of->d, features = at->of->part == PUBLISHED ? d * d : d * (d + 1);

    return (icl_pretraining_size){.d = at->of->d,
                                  .context = (size_t)lround(at->of->alpha * d),
                                  .tasks = (size_t)lround(at->kappa * d),
                                  .sequences = (size_t)lround(at->tau * features),
                                  .noise = NOISE};
}

static icl_layer_errors limit_of(const point *at) {
    return icl_limit_errors(&(icl_limit_point){at->tau, at->of->alpha, at->kappa, NOISE});
}

/* ---- Measuring ---- */

/* Runs that train share no numbers with those that do not. */
static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const point at = point_of(cell);
    const bool trains = at.of->part == TRAINED;
    const icl_pretraining_size size = size_of(&at);
    double values[NUMBERS][MOST_RUNS];

    (void)trained;
    for (size_t i = 0; i < at.of->runs; i++) {
        const icl_layer_run run = {.backend = study->run->params->backend,
                                   .steps = trains ? STEPS : 0,
                                   .seed = study->run->params->seed,
                                   .number = i + (trains ? MOST_RUNS : 0)};
        icl_layer_errors errors[2];
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(run_layer(&run, &size, errors, error));
        values[ICL][i] = errors[0].icl;
        values[IDG][i] = errors[0].idg;
        values[TRAINED_ICL][i] = errors[1].icl;
        values[TRAINED_IDG][i] = errors[1].idg;
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        const icl_location mean = icl_locate_mean(values[i], at.of->runs);
        numbers[i] = (icl_number){mean.value, mean.standard_error};
    }
    return ICL_OK;
}

/* ---- Judging ---- */

static const char *const tests[] = {"squared error, fresh tasks", "squared error, the training's tasks"};

/* Judges both errors of a cell, or of several, against the limit. */
static void judge_limit(icl_study *study, const point *at, const char *what, const icl_number errors[2],
                        double tolerance, bool is_judged, const char *source) {
    const icl_layer_errors limit = limit_of(at);
    const double targets[] = {limit.icl, limit.idg};

    for (size_t i = 0; i < 2; i++)
        ICL_JUDGE(study, .what = what, .quantity = tests[i], ICL_OURS(errors[i]), .target = targets[i],
                  .tolerance = tolerance * targets[i] + 3 * errors[i].standard_error,
                  .evidence = is_judged ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = source,
                  .note = is_judged ? NULL : ICL_PHRASE("the limit is %.4g", targets[i]));
}

/* Returns whether finite d matters little: the authors' own runs at d = 100 are up to 8 % from the formula here, and
 * 15 % at tau = 1.15. */
static bool is_off_peak(const point *at) {
    return fabs(at->tau - 1) > .3;
}

/* Gradient descent must reach the errors of least squares on the same sequences. */
static void judge_trained(icl_study *study, const icl_study_cell *cell) {
    for (size_t i = 0; i < 2; i++) {
        const icl_number solved = cell->numbers[ICL + i];
        ICL_JUDGE(study, .quantity = tests[i], ICL_OURS(cell->numbers[TRAINED_ICL + i]), .target = solved.value,
                  .tolerance = .01 * solved.value, .evidence = ICL_COMPUTED, .source = "least squares, same sequences");
    }
}

static void judge_published(icl_study *study, const icl_study_cell *cell, const point *at) {
    for (size_t row = 0; row < sizeof published / sizeof *published; row++) {
        const double means[] = {published[row].mean.icl, published[row].mean.idg};
        const double deviations[] = {published[row].deviation.icl, published[row].deviation.idg};
        if (published[row].alpha != at->of->alpha || published[row].tau != at->tau)
            continue;
        for (size_t i = 0; i < 2; i++)
            ICL_JUDGE(study, .quantity = tests[i], ICL_OURS(cell->numbers[ICL + i]), .target = means[i],
                      .tolerance = 3 * hypot(cell->numbers[ICL + i].standard_error,
                                             deviations[i] / sqrt((double)PUBLISHED_RUNS)),
                      .evidence = ICL_READ, .source = "the authors' logs, 10 runs");
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const point at = point_of(cell);

    if (at.of->part == TRAINED)
        judge_trained(study, cell);
    else if (at.of->part == PUBLISHED)
        judge_published(study, cell, &at);
    else
        judge_limit(study, &at, NULL, cell->numbers + ICL, .15, at.of->d >= 40 && is_off_peak(&at), "d to infinity");
}

/* ---- Between cells ---- */

/* Returns the cell of a sweep at this tau and kappa; NULL if there is none. */
static const icl_study_cell *cell_at(const icl_study *study, const sweep *of, double tau, double kappa) {
    for (size_t i = 0; i < study->count; i++) {
        const point at = point_of(study->cells[i]);
        if (at.of == of && at.tau == tau && at.kappa == kappa)
            return study->cells[i]->is_wanted ? study->cells[i] : NULL;
    }
    return NULL;
}

/* Errors of d and 2 d, extrapolated to 1 / d = 0 along a line; what is left is of the order of 1 / d^2. */
static void judge_extrapolated(icl_study *study, const sweep *of, const sweep *twice) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i], *larger;
        const point at = point_of(cell);
        icl_number errors[2];
        if (at.of != of || !cell->is_wanted || !(larger = cell_at(study, twice, at.tau, at.kappa)))
            continue;
        for (size_t k = 0; k < 2; k++)
            errors[k] =
                (icl_number){2 * larger->numbers[ICL + k].value - cell->numbers[ICL + k].value,
                             hypot(2 * larger->numbers[ICL + k].standard_error, cell->numbers[ICL + k].standard_error)};
        judge_limit(study, &at,
                    ICL_PHRASE("d = %zu and %zu, extrapolated, alpha = %g, kappa = %g, tau = %g", of->d, twice->d,
                               of->alpha, at.kappa, at.tau),
                    errors, .05, is_off_peak(&at), "d to infinity");
    }
}

/* Judges sequences of which every token was drawn against those whose features were drawn from their law: runs of the
 * same distribution, so that the deviation of the larger number of runs serves for both. */
static void judge_tokens(icl_study *study, const sweep *tokens, const sweep *features) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i], *other;
        const point at = point_of(cell);
        if (at.of != tokens || !cell->is_wanted || !(other = cell_at(study, features, at.tau, at.kappa)))
            continue;
        for (size_t k = 0; k < 2; k++) {
            const icl_number ours = cell->numbers[ICL + k], law = other->numbers[ICL + k];
            ICL_JUDGE(study, .what = ICL_PHRASE("least squares of tokens, d = %zu, tau = %g", at.of->d, at.tau),
                      .quantity = tests[k], ICL_OURS(ours), .target = law.value,
                      .tolerance = 3 * law.standard_error * sqrt(1 + (double)features->runs / (double)tokens->runs),
                      .evidence = ICL_COMPUTED, .source = "features drawn from their law; three standard errors");
        }
    }
}

static void judge_ratio(icl_study *study, const char *what, const char *quantity, icl_number above, icl_number below) {
    const double ratio = above.value / below.value;

    ICL_JUDGE(study, .what = what, .quantity = quantity, .ours = ratio,
              .standard_error = ratio * hypot(above.standard_error / above.value, below.standard_error / below.value),
              .target = 2, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "figures 1 and 3");
}

static void judge_transitions(icl_study *study, const sweep *of) {
    const bool by_tasks = of->part == BY_TASKS;
    const icl_study_cell *before = by_tasks ? cell_at(study, of, 10, .5) : cell_at(study, of, .5, .5);
    const icl_study_cell *after = by_tasks ? cell_at(study, of, 10, 2) : cell_at(study, of, 2, .5);
    const icl_study_cell *peak = by_tasks ? NULL : cell_at(study, of, 1, .5);
    const icl_phrase what = icl_phrase_print("d = %zu, alpha = %g", of->d, of->alpha);

    if (before && after && by_tasks)
        judge_ratio(study, what.text, "fresh tasks, error of kappa = .5 by that of 2", before->numbers[ICL],
                    after->numbers[ICL]);
    if (before && after && peak) {
        judge_ratio(study, what.text, "fresh tasks, error of tau = 1 by that of .5", peak->numbers[ICL],
                    before->numbers[ICL]);
        judge_ratio(study, what.text, "fresh tasks, error of tau = 1 by that of 2", peak->numbers[ICL],
                    after->numbers[ICL]);
    }
}

/* Judges a sweep beside the others. Those of one scale share no points with those of another. */
static void judge_sweep(icl_study *study, const sweep *of) {
    for (const sweep *other = sweeps; other < sweeps + sizeof sweeps / sizeof *sweeps; other++)
        if (other->part <= BY_TASKS && other->alpha == of->alpha) {
            if (other->part == of->part && other->d == 2 * of->d)
                judge_extrapolated(study, of, other);
            if (of->part == TRAINED && other->part == BY_SEQUENCES && other->d == of->d)
                judge_tokens(study, of, other);
        }
    if (of->part <= BY_TASKS)
        judge_transitions(study, of);
}

/* ---- Figures, one for each alpha ---- */

enum { LINE = 60 };

/* Adds the limit of a sweep at LINE places, on either side of the pole. */
static void plot_limit(icl_study *study, icl_curves *curves, const sweep *of) {
    for (size_t i = 0; i <= LINE; i++) {
        const double share = (double)i / LINE;
        const double x = of->part == BY_TASKS ? .1 * pow(50, share) : .1 + 2.1 * share;
        const point at = of->part == BY_TASKS ? (point){of, of->taus[0], x} : (point){of, x, of->kappas[0]};
        const icl_layer_errors limit = limit_of(&at);
        if (of->part == BY_TASKS || fabs(x - 1) > .04) {
            icl_study_plot(study, curves, "limit, fresh tasks", ICL_SERIES_REFERENCE, x, limit.icl);
            icl_study_plot(study, curves, "limit, the training's", ICL_SERIES_REFERENCE, x, limit.idg);
        }
    }
}

/* Plots the cells of a part but those at the pole, whose means are huge and differ from run to run. */
static void draw_part(icl_study *study, sweep_part part, double alpha, icl_curves *curves) {
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const point at = point_of(cell);
        if (at.of->part != part || at.of->alpha != alpha || !cell->is_wanted)
            continue;
        if (at.tau != 1) {
            icl_study_plot_number(study, curves, ICL_PHRASE("%s, fresh tasks", cell->curve), ICL_SERIES_OURS, cell->x,
                                  cell->numbers[ICL]);
            icl_study_plot_number(study, curves, ICL_PHRASE("%s, the training's", cell->curve), ICL_SERIES_OURS,
                                  cell->x, cell->numbers[IDG]);
        }
        if (at.tau == at.of->taus[0] && at.kappa == at.of->kappas[0])
            plot_limit(study, curves, at.of);
    }
    icl_study_draw(study, curves);
}

static void draw_alpha(icl_study *study, double alpha) {
    const icl_phrase names[] = {icl_phrase_print("sequences-alpha%g", alpha), icl_phrase_print("tasks-alpha%g", alpha)};
    const icl_phrase titles[] = {icl_phrase_print("One layer by training sequences, alpha = %g", alpha),
                                 icl_phrase_print("One layer by training tasks, alpha = %g", alpha)};
    icl_curves by_sequences =
        ICL_CURVES(.name = names[0].text, .title = titles[0].text, .x_label = "sequences per feature, tau",
                   .y_label = "squared error", .log_y = true);
    icl_curves by_tasks =
        ICL_CURVES(.name = names[1].text, .title = titles[1].text, .x_label = "tasks per dimension, kappa",
                   .y_label = "squared error", .log_x = true, .log_y = true);

    draw_part(study, BY_SEQUENCES, alpha, &by_sequences);
    draw_part(study, BY_TASKS, alpha, &by_tasks);
}

static void conclude(icl_study *study) {
    for (const sweep *of = sweeps; of < sweeps + sizeof sweeps / sizeof *sweeps; of++)
        judge_sweep(study, of);
    draw_alpha(study, 10);
    draw_alpha(study, 100);
}

const icl_reproduction icl_asymptotic_linear = ICL_STUDY(
        .name = "asymptotic-linear", .source = "arXiv 2405.11751, figures 1 and 3",
        .about = "one layer of linear attention on a fixed set of sequences: double descent, and tasks that are enough",
        .claim = "On n sequences of k tasks one layer of linear attention errs most where n is the number of its "
                 "features, d (d + 1), and learns new tasks once k is above d; both as a formula says.",
        .scope = "A met table means that solved layers of finite size follow the formula of infinite size "
                 "within the error that is left, and that trained ones end at the solved ones; softmax "
                 "attention and more than one layer were not tested.",
        .cost = {"5 s", "3 min", "25 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
