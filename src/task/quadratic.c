/*
 * Quadratic targets in context: what theorem 4.2 of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are
 * Versatile In-Context Learners" (arXiv 2402.14180) says of linear transformers. The paper's text was not at hand; the
 * task is
 *
 *     x_i ~ N(0, I), or another law (task.inputs);  W_ab ~ N(0, s^2), independent, s^2 = 1 / (d (d + 2))
 *     y_i = x_i^T W x_i + sigma eps_i,  target = x_t^T W x_t, without noise
 *
 * so that E y^2 = s^2 E |x|^4 = 1 without noise for normal inputs.
 *
 * Only strict ops decide bits: W = (s I) G of normals G, V = X W, and each label is the dot product
 * [x_i, sigma eps_i] . [v_i, 1]. The noise lies in the tokens' last column until the labels overwrite it; the query's
 * stays 0, so that the same product gives the target.
 */
#include "task/parts.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/ops.h"
#include "numeric/matrix.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/task.h"

/* task->state. */
typedef struct quadratic {
    icl_inputs inputs;
    icl_random_params noise_level; /* the key is left open */
    double mean_square_noise;      /* E[sigma^2] */
    double scale;                  /* standard deviation of the entries of W, a float */
} quadratic;

/* The tensors that a batch keeps in icl_batch.scratch. */
enum {
    NORMALS = 0, /* [B, d, d]: G */
    WEIGHTS,     /* [B, d, d]: W */
    SCALE,       /* [1, d, d]: s I */
    MAPPED,      /* [B, n + 1, d + 1]: (v_i, 1) */
    LABELS,      /* [B, n + 1, 1]: eps_i of the context, then the labels; the last is the target */
    LEVELS,      /* [B, 1, 1]: sigma */
    RADII,       /* [B, n + 1, 1]: the normals that radii are made from, if inputs have radii */
    RADIUS,      /* the table of icl_spherical; absent likewise */
};

const icl_recipe_group *const icl_quadratic_regression_keys[] = {&icl_pairs_keys, &icl_noise_keys, &icl_inputs_keys,
                                                                 NULL};

/* Returns 1 / sqrt(d (d + 2)), rounded to float: then E y^2 = 1 for x ~ N(0, I). */
static double scale_of(size_t dimension) {
    const double d = (double)dimension;
    return (double)(float)(1 / sqrt(d * (d + 2)));
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    quadratic *state = NULL;
    icl_noise noise;

    ICL_CHECK(icl_allocate(1, sizeof *state, "quadratic regression", &state, error));
    task->state = state;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    ICL_CHECK(icl_noise_read(recipe, &noise, error));
    state->noise_level = noise.level;
    state->mean_square_noise = noise.mean_square;
    state->scale = scale_of(icl_task_dimension(task));
    return icl_inputs_read(recipe, icl_task_dimension(task), &state->inputs, error);
}

/* ---- Batches ---- */

static icl_status write_scale(const icl_task *task, icl_tensor scale, icl_error *error) {
    const size_t d = icl_task_dimension(task);
    double *values = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(d * d, sizeof *values, "scale of the weights", &values, error));
    for (size_t i = 0; i < d; i++)
        values[i * d + i] = ((const quadratic *)task->state)->scale;
    ICL_TRY(icl_tensor_write_double(scale, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task);
    const quadratic *state = task->state;
    icl_tensor *scratch = batch->scratch;

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, d}, &scratch[NORMALS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, d}, &scratch[WEIGHTS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){1, d, d}, &scratch[SCALE], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &scratch[MAPPED], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, 1}, &scratch[LABELS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &scratch[LEVELS], error));
    ICL_CHECK(icl_inputs_create_radii(&state->inputs, backend, size, n + 1, &scratch[RADII], &scratch[RADIUS], error));
    ICL_CHECK(write_scale(task, scratch[SCALE], error));
    /* Sampling never writes these: the ones, and the query's label slot. */
    ICL_CHECK(icl_fill(backend, scratch[MAPPED], 1, error));
    ICL_CHECK(icl_fill(backend, batch->inputs, 0, error));
    batch->targets = icl_tensor_slice(scratch[LABELS], 1, n, 1);
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, scratch[WEIGHTS], error));
    return icl_batch_add_side(batch, ICL_SIDE_NOISE, scratch[LEVELS], error);
}

/* Samples sigma eps_i into the label slots of the context. */
static icl_status sample_noise(const quadratic *state, icl_backend *backend, const icl_random_key *keys,
                               icl_batch *batch, icl_tensor slots, icl_error *error) {
    const icl_tensor eps = icl_tensor_slice(batch->scratch[LABELS], 1, 0, slots.shape[1]);
    const icl_random_params normal = {.key = keys[ICL_ROLE_LABEL_NOISE], .distribution = ICL_NORMAL};
    icl_random_params level = state->noise_level;

    level.key = keys[ICL_ROLE_NOISE_LEVEL];
    ICL_CHECK(icl_random_fill(backend, &level, batch->scratch[LEVELS], error));
    ICL_CHECK(icl_random_fill(backend, &normal, eps, error));
    return icl_matmul_strict(backend, slots, eps, batch->scratch[LEVELS], error);
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), rows = batch->size * (n + 1);
    const quadratic *state = task->state;
    const icl_tensor *scratch = batch->scratch, inputs = icl_tensor_slice(batch->inputs, 2, 0, d);
    const icl_tensor slots = icl_tensor_slice(icl_tensor_slice(batch->inputs, 2, d, 1), 1, 0, n);
    const icl_tensor left = icl_tensor_reshape(batch->inputs, 3, (size_t[]){rows, 1, d + 1});
    const icl_tensor right = icl_tensor_reshape(scratch[MAPPED], 3, (size_t[]){rows, d + 1, 1});
    icl_random_key keys[ICL_ROLE_COUNT];

    for (int role = 0; role < ICL_ROLE_COUNT; role++)
        keys[role] = (icl_random_key){seed, icl_task_stream(purpose, (icl_task_role)role), step};
    const icl_random_params normal = {.key = keys[ICL_ROLE_WEIGHTS], .distribution = ICL_NORMAL};
    ICL_CHECK(icl_inputs_sample(&state->inputs, backend, purpose, seed, step, inputs, scratch[RADII], scratch[RADIUS],
                                error));
    ICL_CHECK(icl_random_fill(backend, &normal, scratch[NORMALS], error));
    ICL_CHECK(icl_matmul_strict(backend, scratch[WEIGHTS], scratch[SCALE], scratch[NORMALS], error));
    ICL_CHECK(icl_matmul_strict(backend, icl_tensor_slice(scratch[MAPPED], 2, 0, d), inputs, scratch[WEIGHTS], error));
    ICL_CHECK(sample_noise(state, backend, keys, batch, slots, error));
    ICL_CHECK(
        icl_matmul_strict(backend, icl_tensor_reshape(scratch[LABELS], 3, (size_t[]){rows, 1, 1}), left, right, error));
    return icl_copy(backend, slots, icl_tensor_slice(scratch[LABELS], 1, 0, n), error);
}

/* ---- Reference predictors ---- */

/*
 *     zero           0
 *     ols            least squares on x: all that is linear in x
 *     step           the best step of gradient descent on the products of two coordinates
 *     quadratic-ols  least squares on these products; of all that fit the context, the least W
 *     oracle         ridge regression on them that knows sigma: the posterior mean, the floor of all learners
 *
 * Labels are linear in the features phi(x) = (x_a^2, …, sqrt(2) x_a x_b, …), with phi(x) . phi(x') = (x . x')^2, and
 * their coefficients are N(0, s^2), independent. With the rows Phi of a context the ridge prediction is
 *
 *     phi_t^T (Phi^T Phi + rho)^-1 Phi^T y = (Phi phi_t)^T (Phi Phi^T + rho)^-1 y,  rho = sigma^2 / s^2,
 *
 * by the eigenvectors of the smaller of the two matrices; least squares has rho = 0, without eigenvalues that are 0.
 */

/* An eigenvalue below this share of the largest one counts as 0. */
#define NEGLIGIBLE 1e-11

/* ---- The best step ---- */

/*
 * Returns the best step length for one kind of feature. The trace has one dimension, the traceless part
 * (d + 2)(d - 1) / 2. M = 1/n Phi^T Phi has the mean c: 2, and d + 2 for the trace. E M^2 = (1 - 1/n) c^2 + f/n with
 * f = 2 (d + 4)(d + 6), and (d + 2)(d + 4)(d + 6) for the trace, from E |x|^4 phi phi^T. A step of length a has the
 * error c (1 - 2 a c + a^2 (E M^2 + rho c / n)) in each dimension, which is least at a = c / (E M^2 + rho c / n).
 */
static double step_length(double c, double f, double n, double rho, double *loss) {
    const double square = (1 - 1 / n) * c * c + (f + rho * c) / n;
    *loss = c * (1 - c * c / square);
    return c / square;
}

icl_quadratic_step icl_quadratic_best_step(size_t dimension, size_t context, double mean_square_noise) {
    const double d = (double)dimension, n = (double)context, variance = 1 / (d * (d + 2));
    const double rho = mean_square_noise / variance, sixth = (d + 4) * (d + 6);
    icl_quadratic_step step = {0};
    double traceless, trace;

    step.traceless = step_length(2, 2 * sixth, n, rho, &traceless);
    step.trace = step_length(d + 2, (d + 2) * sixth, n, rho, &trace);
    step.loss = variance * ((d + 2) * (d - 1) / 2 * traceless + trace);
    step.loss_by_trace = variance * ((d + 2) * (d - 1) + trace);
    return step;
}

/* ---- One sequence ---- */

typedef struct method {
    bool steps;       /* takes the best step instead of regressing */
    size_t degree;    /* of the features: 1 or 2 */
    bool knows_noise; /* takes rho as above, not 0 */
} method;

/* The method of a prediction, and the data that all sequences share. */
typedef struct prediction {
    const method *by;
    const double *noise; /* [count]; NULL if the method does not know it */
    icl_quadratic_step step;
} prediction;

/* Returns the number of features of degree 1 or 2 of d coordinates. */
static size_t count_features(size_t d, size_t degree) {
    return degree == 2 ? d * (d + 1) / 2 : d;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void fill_features(const float *x, size_t d, size_t degree, double *out) {
    if (degree == 1)
        for (size_t a = 0; a < d; a++)
            out[a] = (double)x[a];
    for (size_t a = 0, k = 0; degree == 2 && a < d; a++)
        for (size_t b = a; b < d; b++)
            out[k++] = (a == b ? 1 : sqrt(2)) * (double)x[a] * (double)x[b];
}

/* Returns the ridge prediction from phi [n + 1][g], the query's last, and y [n]. work: 2 m m + 6 m doubles, m the
 * smaller of n and g. */
static double regress(const double *phi, const double *y, size_t n, size_t g, double rho, double *work) {
    const size_t m = smaller(n, g);
    const bool by_features = g <= n;
    double *matrix = work, *vectors = matrix + m * m, *values = vectors + m * m, *right = values + m, *left = right + m;
    double sum = 0;

    memset(work, 0, (2 * m * m + 3 * m) * sizeof *work);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++)
            for (size_t k = 0; k < (by_features ? n : g); k++)
                matrix[i * m + j] += by_features ? phi[k * g + i] * phi[k * g + j] : phi[i * g + k] * phi[j * g + k];
        for (size_t k = 0; k < n && by_features; k++)
            right[i] += phi[k * g + i] * y[k];
        if (!by_features)
            right[i] = y[i];
        left[i] = by_features ? phi[n * g + i] : icl_dot(phi + i * g, phi + n * g, g);
    }
    if (!icl_symmetric_eigen(m, matrix, values, vectors, left + m))
        return (double)NAN;
    for (size_t k = 0; k < m; k++)
        if (values[k] > NEGLIGIBLE * values[m - 1])
            sum += icl_dot(vectors + k * m, left, m) * icl_dot(vectors + k * m, right, m) / (values[k] + rho);
    return sum;
}

/* Returns the step's prediction from features of degree 2. */
static double take_step(const icl_quadratic_step *step, size_t d, const double *phi, const double *y, size_t n) {
    const size_t g = count_features(d, 2);
    const double *query = phi + n * g;
    double sum = 0;

    for (size_t j = 0; j < n; j++) {
        double squares[2] = {0, 0}; /* |x|^2: the features x_a^2 stand at 0, d, d + (d - 1), … */
        for (size_t a = 0, k = 0; a < d; k += d - a++) {
            squares[0] += phi[j * g + k];
            squares[1] += query[k];
        }
        const double trace = squares[0] * squares[1] / (double)d;
        sum += y[j] * (step->traceless * (icl_dot(phi + j * g, query, g) - trace) + step->trace * trace);
    }
    return sum / (double)n;
}

static void predict_one(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                        double *output) {
    const prediction *result = settings;
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), g = count_features(d, result->by->degree);
    double *phi = work, *y = phi + (n + 1) * g;

    for (size_t i = 0; i <= n; i++)
        fill_features(inputs + i * (d + 1), d, result->by->degree, phi + i * g);
    for (size_t i = 0; i < n; i++)
        y[i] = (double)inputs[i * (d + 1) + d];
    if (result->by->steps) {
        *output = take_step(&result->step, d, phi, y, n);
        return;
    }
    const double sigma = (result->noise ? result->noise[number] : 0) / ((const quadratic *)task->state)->scale;
    *output = regress(phi, y, n, g, sigma * sigma, y + n);
}

/* ---- The predictors ---- */

static icl_status read_noise(const icl_shown_sequences *shown, double **noise, icl_error *error) {
    const icl_tensor levels = icl_batch_side(shown->batch, ICL_SIDE_NOISE);

    ICL_CHECK(icl_allocate(icl_tensor_count(&levels), sizeof **noise, "noise levels", noise, error));
    return icl_tensor_read_double(levels, *noise, error);
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const quadratic *state = shown->task->state;
    const method *chosen = predictor->settings;
    const size_t d = icl_task_dimension(shown->task), n = icl_task_context(shown->task);
    const size_t g = count_features(d, chosen->degree), m = smaller(n, g);
    prediction all = {.by = chosen, .step = icl_quadratic_best_step(d, n, state->mean_square_noise)};
    double *noise = NULL;
    icl_status status = ICL_OK;

    if (chosen->knows_noise)
        ICL_TRY(read_noise(shown, &noise, error));
    all.noise = noise;
    ICL_TRY(icl_task_for_each(shown->task, predict_one, &all, (n + 1) * g + n + 2 * m * m + 6 * m, shown->count,
                              shown->inputs, outputs, error));
done:
    icl_free(&noise);
    return status;
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const method linear = {false, 1, false}, step = {true, 2, false}, squares = {false, 2, false},
                        ridge = {false, 2, true};
    static const icl_reference_predictor all[] = {
        {"zero", NULL, icl_task_predict_zero}, {"ols", &linear, predict},   {"step", &step, predict},
        {"quadratic-ols", &squares, predict},  {"oracle", &ridge, predict}, {0}};

    (void)task;
    return all;
}

const icl_task_family icl_quadratic_regression = {
    .name = "quadratic-regression",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = batch_create,
    .sample = sample,
    .references = references,
};
