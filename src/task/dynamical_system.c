/*
 * Dynamical systems whose next observation is to be predicted: the tasks of von Oswald and others 2023, "Uncovering
 * mesa-optimization algorithms in Transformers" (arXiv 2309.05858), sections 2 and 5.
 *
 *     h_1 ~ N(0, I),  h_(t+1) = W h_t + p eps_t,  eps ~ N(0, I),  p = task.process_noise
 *     W uniform among the orthogonal matrices [n_h, n_h]; a new one for each sequence, like all matrices below
 *
 *     task.observation = full        s_t = h_t
 *                        partial     s_t = C h_t + r eps'_t, C_ij ~ N(0, 1/2), r = task.observation_noise
 *                        nonlinear   s_t = B gelu(A h_t), A [n_h, n_h] and B [n_s, n_h] of N(0, 1.1)
 *
 *     task.transition = contracting  W = Q diag(u) Q^T, Q a uniform rotation, u_i uniform between two eigenvalues
 *     task.state_clip = c            h_(t+1) is clipped to [-c, c] in each coordinate
 *     task.controls = n_u            h_(t+1) = W h_t + G u_t + p eps_t, u_t ~ N(0, I), G_ij ~ N(0, 1 / n_h), so that
 *                                    one input moves the state by about 1; a plant that is to be identified
 *
 * The paper gives neither the noise of most figures nor whether .5 and 1.1 are variances; here they are.
 *
 * Position t of T = task.positions holds z_t = (s_t, u_t), or s_t alone without inputs u, and has the target s_(t+1).
 * With task.constructed it holds (0, z_t, s_t, z_(t-1)), where z_0 = 0: what one layer of linear attention needs to
 * take a step of gradient descent (proposition 1).
 *
 * The host draws: sequence i owns as many consecutive words of the stream as it needs, in full blocks of four random
 * numbers, in the order W or Q, u, A, C or B, G, and for each of the T + 1 states its own n_h, the n_s of its
 * observation's noise and its n_u inputs. Everything is made of them in double precision by +, -, *, / and sqrt, and
 * rounded once.
 */
#include "task/parts.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/random.h"
#include "task/draws.h"
#include "task/laws.h"
#include "task/streams.h"

#define MOST_WIDTH     1024.0
#define OBSERVED_STD   0.70710678118654752440 /* of C: sqrt(1 / 2) */
#define NONLINEAR_STD  1.0488088481701515470  /* of A and B: sqrt(1.1) */
#define SQRT_2_OVER_PI 0.79788456080286535588

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, TRANSITION, OBSERVATION };

/* ---- The recipe ---- */

#define KEY(field)  ICL_KEY("task", icl_dynamics, field)
#define NAME(field) ICL_KEY_NAME("task", icl_dynamics, field)

static const icl_recipe_key noisy_rows[] = {
    {KEY(observation_noise), "0.1", 0, 1e6, .help = "standard deviation of what is added to each observation"},
};
static const icl_recipe_key observed_rows[] = {
    {KEY(observed), "5", 1, MOST_WIDTH, .help = "numbers n_s of an observation"},
};
static const icl_recipe_key driven_rows[] = {
    {KEY(controls), "0", 0, MOST_WIDTH, .help = "random inputs u_t, shown behind the state, of which the next depends"},
};
static const icl_recipe_key eigenvalue_rows[] = {
    {KEY(least_eigenvalue), "0.3", 0, 1, .help = "of a transition that contracts"},
    {KEY(largest_eigenvalue), "0.9", 0, 1, .help = "of a transition that contracts"},
};
static const icl_recipe_group noisy = ICL_RECIPE_GROUP(noisy_rows), observed = ICL_RECIPE_GROUP(observed_rows),
                              driven = ICL_RECIPE_GROUP(driven_rows), eigenvalues = ICL_RECIPE_GROUP(eigenvalue_rows);
static const icl_recipe_group *const full_groups[] = {&driven, NULL};
static const icl_recipe_group *const partial_groups[] = {&observed, &noisy, NULL};
static const icl_recipe_group *const nonlinear_groups[] = {&observed, NULL};
static const icl_recipe_group *const contracting_groups[] = {&eigenvalues, NULL};

static const icl_choice observation_words[] = {{"full", ICL_OBSERVED_FULLY, full_groups},
                                               {"partial", ICL_OBSERVED_PARTLY, partial_groups},
                                               {"nonlinear", ICL_OBSERVED_NONLINEARLY, nonlinear_groups},
                                               {0}};
static const icl_choice transitions[] = {
    {"orthogonal", ICL_TRANSITION_ORTHOGONAL}, {"contracting", ICL_TRANSITION_CONTRACTING, contracting_groups}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(positions), "50", 1, ICL_MAX_EXTENT,
     .help = "observations T that are shown, each of which has the next one as target"},
    {KEY(hidden), "10", 1, MOST_WIDTH, .help = "numbers n_h of a state"},
    {KEY(observation), "full", .choices = observation_words, .help = "what is seen of a state"},
    {KEY(transition), "orthogonal", .choices = transitions, .help = "how a state becomes the next"},
    {KEY(process_noise), "0.1", 0, 1e6, .help = "standard deviation of what is added to each state"},
    {KEY(state_clip), "0", 0, 1e6, .help = "the largest number of a state; 0: there is none"},
    {KEY(constructed), "false", .help = "position t holds (0, z_t, s_t, z_(t-1)) and not z_t = (s_t, u_t) alone"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_dynamical_system_keys[] = {&own_keys, NULL};

static void read_settings(const icl_recipe *recipe, icl_dynamics *system) {
    icl_recipe_read(recipe, &own_keys, system);
    icl_recipe_read(recipe, &noisy, system);
    icl_recipe_read(recipe, &observed, system);
    icl_recipe_read(recipe, &driven, system);
    icl_recipe_read(recipe, &eigenvalues, system);
    if (system->observation == ICL_OBSERVED_FULLY)
        system->observed = system->hidden;
    else
        system->controls = 0;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_dynamics *system = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *system, "dynamical system", &system, error));
    task->state = system;
    read_settings(recipe, system);
    if (system->transition == ICL_TRANSITION_CONTRACTING && system->least_eigenvalue > system->largest_eigenvalue)
        return icl_recipe_reject(recipe, NAME(least_eigenvalue), error, "at most task.largest_eigenvalue = %g",
                                 system->largest_eigenvalue);
    const size_t seen = system->observed + system->controls;
    task->shape = (icl_task_shape){.positions = system->positions,
                                   .inputs = system->constructed ? 2 * (system->observed + seen) : seen,
                                   .outputs = system->observed,
                                   .scored = system->positions,
                                   .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

/* ---- One sequence ---- */

static void fill_normals(icl_words *stream, double scale, size_t count, double *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = scale * icl_words_normal(stream);
}

/* The arrays of one sequence: [n_h], or matrices. */
typedef struct workspace {
    double *transition, *rotation, *eigenvalues, *state, *next, *units;
    double *hidden_map, *map;     /* A [n_h, n_h]; C or B [n_s, n_h] */
    double *drive, *pushed;       /* G [n_h, n_u]; G u [n_h] */
    double *input;                /* u_t [n_u] */
    float *observations, *inputs; /* [T + 1][n_s], [T + 1][n_u] */
} workspace;

static size_t count_words(const icl_dynamics *system, size_t positions) {
    const size_t h = system->hidden, s = system->observed;
    size_t words = h * h + h * (positions + 1) + system->controls * (h + positions + 1);

    if (system->transition == ICL_TRANSITION_CONTRACTING)
        words += h;
    if (system->observation == ICL_OBSERVED_PARTLY)
        words += s * h + s * (positions + 1);
    if (system->observation == ICL_OBSERVED_NONLINEARLY)
        words += h * h + s * h;
    return (words + 3) / 4 * 4;
}

/* Draws W = Q diag(u) Q^T. */
static void draw_contraction(const icl_dynamics *system, icl_words *stream, const workspace *w) {
    const size_t h = system->hidden;

    for (size_t i = 0; i < h; i++)
        w->eigenvalues[i] = system->least_eigenvalue + (system->largest_eigenvalue - system->least_eigenvalue) *
                                                           ((double)icl_words_next(stream) + 0.5) * 0x1p-32;
    memcpy(w->rotation, w->transition, h * h * sizeof *w->rotation);
    for (size_t i = 0; i < h; i++)
        for (size_t j = 0; j < h; j++) {
            double sum = 0;
            for (size_t k = 0; k < h; k++)
                sum += w->rotation[i * h + k] * w->eigenvalues[k] * w->rotation[j * h + k];
            w->transition[i * h + j] = sum;
        }
}

static void multiply(const double *matrix, const double *vector, size_t rows, size_t columns, double *out) {
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < columns; j++)
            sum += matrix[i * columns + j] * vector[j];
        out[i] = sum;
    }
}

/* h <- W h + G u + p eps, clipped. */
static void advance(const icl_dynamics *system, icl_words *stream, const workspace *w) {
    multiply(w->transition, w->state, system->hidden, system->hidden, w->next);
    multiply(w->drive, w->input, system->hidden, system->controls, w->pushed);
    for (size_t i = 0; i < system->hidden; i++) {
        const double value = w->next[i] + w->pushed[i] + system->process_noise * icl_words_normal(stream);
        w->state[i] = system->state_clip > 0 ? fmin(system->state_clip, fmax(-system->state_clip, value)) : value;
    }
}

/* Returns the GELU of GPT-2, as in iclab/kinds.h. If exp would overflow, x is so negative that the result is 0. */
static double gelu(double x) {
    const double w = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x);
    return -2 * w > 700 ? 0 : x / (1 + icl_exponential(-2 * w));
}

/* Writes the observation s of the current state. */
static void observe(const icl_dynamics *system, icl_words *stream, const workspace *w, float *observation) {
    const double *seen = w->state;
    const size_t h = system->hidden;

    if (system->observation == ICL_OBSERVED_NONLINEARLY) {
        multiply(w->hidden_map, w->state, h, h, w->units);
        for (size_t i = 0; i < h; i++)
            w->units[i] = gelu(w->units[i]);
        seen = w->units;
    }
    if (system->observation != ICL_OBSERVED_FULLY) {
        multiply(w->map, seen, system->observed, h, w->next);
        seen = w->next;
    }
    for (size_t i = 0; i < system->observed; i++) {
        const double noise =
            system->observation == ICL_OBSERVED_PARTLY ? system->observation_noise * icl_words_normal(stream) : 0;
        observation[i] = (float)(seen[i] + noise);
    }
}

static void draw_sequence(const icl_dynamics *system, icl_words *stream, size_t positions, const workspace *w) {
    const size_t h = system->hidden, s = system->observed;

    fill_normals(stream, 1, h * h, w->transition);
    icl_orthogonalize(h, w->transition);
    if (system->transition == ICL_TRANSITION_CONTRACTING)
        draw_contraction(system, stream, w);
    if (system->observation == ICL_OBSERVED_NONLINEARLY)
        fill_normals(stream, NONLINEAR_STD, h * h, w->hidden_map);
    if (system->observation != ICL_OBSERVED_FULLY)
        fill_normals(stream, system->observation == ICL_OBSERVED_PARTLY ? OBSERVED_STD : NONLINEAR_STD, s * h, w->map);
    fill_normals(stream, 1 / sqrt((double)h), h * system->controls, w->drive);
    for (size_t t = 0; t <= positions; t++) {
        if (t == 0)
            fill_normals(stream, 1, h, w->state);
        else
            advance(system, stream, w);
        observe(system, stream, w, w->observations + t * s);
        fill_normals(stream, 1, system->controls, w->input);
        icl_narrow(w->input, system->controls, w->inputs + t * system->controls);
    }
}

/* ---- Many sequences ---- */

typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    icl_dynamical_sequences out;
    double *doubles; /* the workspaces of all threads */
    float *floats;
} drawing;

static size_t count_doubles(const icl_dynamics *system) {
    const size_t h = system->hidden, s = system->observed, u = system->controls;
    return 3 * h * h + 4 * h + s * h + s + u * h + h + u;
}

static size_t count_floats(const icl_task *task) {
    const icl_dynamics *system = task->state;
    return (task->shape.positions + 1) * (system->observed + system->controls);
}

static workspace workspace_of(const drawing *picture, size_t thread) {
    const icl_dynamics *system = picture->task->state;
    const size_t h = system->hidden, s = system->observed, u = system->controls;
    double *at = picture->doubles + thread * count_doubles(system);
    workspace w = {.transition = at, .rotation = at + h * h, .hidden_map = at + 2 * h * h, .map = at + 3 * h * h};

    at += 3 * h * h + s * h;
    w.eigenvalues = at;
    w.state = at + h;
    w.units = at + 2 * h;
    w.next = at + 3 * h; /* [max(n_h, n_s)] */
    at += 4 * h + s;
    w.drive = at;
    w.pushed = at + h * u;
    w.input = at + h * u + h;
    w.observations = picture->floats + thread * count_floats(picture->task);
    w.inputs = w.observations + (picture->task->shape.positions + 1) * s;
    return w;
}

/* Copies z_t = (s_t, u_t). */
static void copy_seen(const icl_dynamics *system, const workspace *w, size_t t, float *to) {
    const size_t s = system->observed, u = system->controls;

    memcpy(to, w->observations + t * s, s * sizeof *to);
    if (u > 0)
        memcpy(to + s, w->inputs + t * u, u * sizeof *to);
}

/* Writes the tokens [T][p] of a sequence. */
static void arrange(const icl_task *task, const workspace *w, float *inputs) {
    const icl_dynamics *system = task->state;
    const size_t s = system->observed, seen = s + system->controls, p = task->shape.inputs;

    for (size_t t = 0; t < task->shape.positions; t++) {
        float *token = inputs + t * p;
        if (!system->constructed) {
            copy_seen(system, w, t, token);
            continue;
        }
        memset(token, 0, p * sizeof *token);
        copy_seen(system, w, t, token + s);
        memcpy(token + s + seen, w->observations + t * s, s * sizeof *token);
        if (t > 0)
            copy_seen(system, w, t - 1, token + 2 * s + seen);
    }
}

/* Writes (W G) [n_h][n_h + n_u]. */
static void write_transition(const icl_dynamics *system, const workspace *w, float *to) {
    const size_t h = system->hidden, u = system->controls;

    for (size_t i = 0; i < h; i++) {
        icl_narrow(w->transition + i * h, h, to + i * (h + u));
        icl_narrow(w->drive + i * u, u, to + i * (h + u) + h);
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_task_shape *shape = &picture->task->shape;
    const icl_dynamics *system = picture->task->state;
    const size_t h = system->hidden, s = system->observed;
    const workspace w = workspace_of(picture, thread);
    icl_words stream = {.key = picture->key, .next = (uint64_t)index * count_words(system, shape->positions)};

    draw_sequence(system, &stream, shape->positions, &w);
    arrange(picture->task, &w, picture->out.inputs + index * shape->positions * shape->inputs);
    memcpy(picture->out.targets + index * shape->positions * s, w.observations + s,
           shape->positions * s * sizeof *w.observations);
    if (picture->out.transition)
        write_transition(system, &w, picture->out.transition + index * h * (h + system->controls));
    if (picture->out.observation)
        icl_narrow(w.map, s * h, picture->out.observation + index * s * h);
}

icl_status icl_dynamical_draw(const icl_task *task, icl_random_key key, size_t count,
                              const icl_dynamical_sequences *sequences, icl_error *error) {
    const icl_dynamics *system = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {.task = task, .key = key, .out = *sequences};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(threads, count_doubles(system) * sizeof *all.doubles, "states", &all.doubles, error));
    ICL_TRY(icl_allocate(threads, count_floats(task) * sizeof *all.floats, "observations", &all.floats, error));
    icl_parallel_for(count, threads, draw_one, &all);
done:
    icl_free(&all.doubles);
    icl_free(&all.floats);
    return status;
}

const float *icl_dynamical_observation(const icl_task *task, const float *inputs, size_t t) {
    const icl_dynamics *system = task->state;
    return inputs + t * task->shape.inputs + (system->constructed ? system->observed : 0);
}

/* ---- Batches ---- */

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_dynamics *system = task->state;
    const size_t positions = task->shape.positions, h = system->hidden, s = system->observed, u = system->controls;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, task->shape.inputs}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, s}, &batch->scratch[TARGETS], error));
    batch->targets = batch->scratch[TARGETS];
    if (purpose == ICL_FOR_TRAINING)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, h, h + u}, &batch->scratch[TRANSITION], error));
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_TRANSITION, batch->scratch[TRANSITION], error));
    if (system->observation != ICL_OBSERVED_PARTLY)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, s, h}, &batch->scratch[OBSERVATION], error));
    return icl_batch_add_side(batch, ICL_SIDE_OBSERVATION, batch->scratch[OBSERVATION], error);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_DYNAMICAL_STREAMS), step};
    const icl_dynamical_sequences sequences = {values->inputs, values->targets, values->sides[0], values->sides[1]};

    return icl_dynamical_draw(task, key, values->size, &sequences, error);
}

/* ---- Reference predictors ---- */

/*
 * Predictors that see only z_1 … z_t, where z = s without inputs u. With x_i = z_(i-1) and y_i = s_i, i = 2 … t, the
 * pairs that a position has seen, and C_t = sum_i y_i x_i^T:
 *
 *     zero            0
 *     gd              a C_t z_t: one step of gradient descent from W = 0 on (1/2) sum_i ||y_i - W x_i||^2
 *     gd-mean         a C_t z_t / (t - 1): as gd, for the mean over the pairs
 *     ridge:LAMBDA    W_t z_t, W_t = C_t (sum_i x_i x_i^T + LAMBDA I)^-1
 *
 * von Oswald and others 2023 (arXiv 2309.05858), section 3; 2212.07677 has the step. a is the number of least squared
 * error, the same at all positions. The ridge solution is updated with R = (sum_i x_i x_i^T + LAMBDA I)^-1:
 *
 *     R <- R - R x x^T R / (1 + x^T R x),   W <- W + (y - W x) (R x)^T with the new R
 */

/* The sequences that steps are fitted to: one number needs few. */
enum { FIT_SEQUENCES = 512, FIT_SEED = 1 };

/* The numbers of s_t, and of z_t. */
typedef struct widths {
    size_t state, seen;
} widths;

static widths widths_of(const icl_task *task) {
    const icl_dynamics *system = task->state;
    return (widths){system->observed, system->observed + system->controls};
}

/* matrix [rows, columns] += factor u v^T. */
static void add_outer(double *matrix, size_t rows, size_t columns, double factor, const double *u, const double *v) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            matrix[i * columns + j] += factor * u[i] * v[j];
}

/* Reads z_t. */
static void read_seen(const icl_task *task, const float *inputs, size_t t, double *seen) {
    const float *shown = icl_dynamical_observation(task, inputs, t);
    for (size_t i = 0; i < widths_of(task).seen; i++)
        seen[i] = (double)shown[i];
}

/* ---- Gradient descent ---- */

typedef struct descent {
    bool mean;
    double step;
} descent;

static void descend(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const descent *rule = settings;
    const size_t n = widths_of(task).state, p = widths_of(task).seen;
    double *cross = work, *before = cross + n * p, *now = before + p;

    (void)number;
    memset(cross, 0, n * p * sizeof *cross);
    for (size_t t = 0; t < task->shape.positions; t++) {
        double *out = outputs + t * n;
        read_seen(task, inputs, t, now);
        if (t > 0)
            add_outer(cross, n, p, 1, now, before);
        multiply(cross, now, n, p, out);
        for (size_t i = 0; i < n; i++)
            out[i] *= rule->mean && t > 0 ? rule->step / (double)t : rule->step;
        memcpy(before, now, p * sizeof *now);
    }
}

static icl_status run_descent(const icl_task *task, const descent *rule, size_t count, const float *inputs,
                              double *outputs, icl_error *error) {
    const size_t n = widths_of(task).state, p = widths_of(task).seen;
    return icl_task_for_each(task, descend, rule, n * p + 2 * p, count, inputs, outputs, error);
}

icl_status icl_dynamical_step(const icl_task *task, bool mean, double *step, icl_error *error) {
    const icl_task_shape *shape = &task->shape;
    const icl_random_key key = {FIT_SEED, icl_stream_for(ICL_FOR_FITTING, ICL_DYNAMICAL_STREAMS), 0};
    const size_t outputs = FIT_SEQUENCES * shape->positions * shape->outputs;
    icl_dynamical_sequences drawn = {0};
    double *predicted = NULL, product = 0, square = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(FIT_SEQUENCES * shape->positions, shape->inputs * sizeof *drawn.inputs, "sequences",
                         &drawn.inputs, error));
    ICL_TRY(icl_allocate(outputs, sizeof *drawn.targets, "sequences", &drawn.targets, error));
    ICL_TRY(icl_allocate(outputs, sizeof *predicted, "predictions", &predicted, error));
    ICL_TRY(icl_dynamical_draw(task, key, FIT_SEQUENCES, &drawn, error));
    ICL_TRY(run_descent(task, &(descent){mean, 1}, FIT_SEQUENCES, drawn.inputs, predicted, error));
    for (size_t i = 0; i < outputs; i++) {
        product += predicted[i] * (double)drawn.targets[i];
        square += predicted[i] * predicted[i];
    }
    *step = square > 0 ? product / square : 0;
done:
    icl_free(&drawn.inputs);
    icl_free(&drawn.targets);
    icl_free(&predicted);
    return status;
}

static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const icl_task_shape *shape = &task->shape;
    const size_t position = shape->inputs * sizeof(float) + shape->outputs * (sizeof(float) + sizeof(double));

    (void)predictor;
    return (double)FIT_SEQUENCES * (double)(shape->positions * position);
}

static const bool of_sum = false, of_mean = true;

static icl_status predict_by_descent(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                     double *outputs, icl_error *error) {
    descent rule = {.mean = *(const bool *)predictor->settings};

    ICL_CHECK(icl_dynamical_step(shown->task, rule.mean, &rule.step, error));
    return run_descent(shown->task, &rule, shown->count, shown->inputs, outputs, error);
}

/* ---- Ridge regression ---- */

static void regress(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const double lambda = *(const double *)settings;
    const size_t n = widths_of(task).state, p = widths_of(task).seen;
    double *solution = work, *inverse = solution + n * p, *before = inverse + p * p, *now = before + p;
    double *gain = now + p, *miss = gain + p;

    (void)number;
    memset(solution, 0, (n + p) * p * sizeof *solution);
    for (size_t i = 0; i < p; i++)
        inverse[i * p + i] = 1 / lambda;
    for (size_t t = 0; t < task->shape.positions; t++) {
        double product = 1;
        read_seen(task, inputs, t, now);
        if (t > 0) {
            multiply(inverse, before, p, p, gain);
            for (size_t i = 0; i < p; i++)
                product += before[i] * gain[i];
            add_outer(inverse, p, p, -1 / product, gain, gain);
            multiply(solution, before, n, p, miss);
            for (size_t i = 0; i < n; i++)
                miss[i] = now[i] - miss[i];
            add_outer(solution, n, p, 1 / product, miss, gain); /* the new R x is the old one over 1 + x^T R x */
        }
        multiply(solution, now, n, p, outputs + t * n);
        memcpy(before, now, p * sizeof *now);
    }
}

static icl_status predict_by_ridge(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                   double *outputs, icl_error *error) {
    const size_t n = widths_of(shown->task).state, p = widths_of(shown->task).seen;
    return icl_task_for_each(shown->task, regress, predictor->settings, (n + p) * p + 3 * p + n, shown->count,
                             shown->inputs, outputs, error);
}

static const double lambdas[] = {.001, .1, 1, 10};

/* ---- The Kalman filter ---- */

/*
 * The Kalman filter of a dynamical system whose W and C are known: E[s_(t+1) | s_1 … s_t], the prediction of least
 * squared error. From h = 0, P = I, for each s_t (Kalman 1960):
 *
 *     observe   for each number i of s_t, c its row of C:  v = P c,  g = v / (c . v + r^2),
 *               h <- h + g (s_ti - c . h),  P <- P - g v^T
 *     advance   h <- W h,  P <- W P W^T + p^2 I;  the prediction is C h
 *
 * Numbers are observed one after another, because their noises are independent. Of a state that is seen fully the
 * prediction is (W G) z_t.
 */

/* What is known of all sequences at hand. */
typedef struct known_system {
    float *transition;  /* [count][n_h][n_h], or (W G) [count][n_h][n_h + n_u] */
    float *observation; /* [count][n_s][n_h]; NULL if the state is seen fully */
} known_system;

typedef struct belief {
    double *state, *next, *row, *gain; /* [n_h] */
    double *covariance, *half;         /* [n_h, n_h] */
} belief;

static belief place_belief(double *work, size_t h) {
    return (belief){.state = work,
                    .next = work + h,
                    .row = work + 2 * h,
                    .gain = work + 3 * h,
                    .covariance = work + 4 * h,
                    .half = work + 4 * h + h * h};
}

static void read_row(const float *observation, size_t row, size_t h, double *out) {
    for (size_t j = 0; j < h; j++)
        out[j] = (double)observation[row * h + j];
}

static void update_belief(const belief *now, size_t h, double seen, double noise) {
    double variance, miss;

    for (size_t i = 0; i < h; i++)
        now->gain[i] = icl_dot(now->covariance + i * h, now->row, h);
    variance = icl_dot(now->row, now->gain, h) + noise * noise;
    if (!(variance > 0)) /* the number was known before */
        return;
    miss = (seen - icl_dot(now->row, now->state, h)) / variance;
    for (size_t i = 0; i < h; i++) {
        now->state[i] += now->gain[i] * miss;
        for (size_t j = 0; j < h; j++)
            now->covariance[i * h + j] -= now->gain[i] * now->gain[j] / variance;
    }
}

static void advance_belief(const belief *now, size_t h, const float *transition, double noise) {
    for (size_t i = 0; i < h; i++) {
        now->next[i] = 0;
        for (size_t k = 0; k < h; k++)
            now->next[i] += (double)transition[i * h + k] * now->state[k];
        for (size_t j = 0; j < h; j++) {
            double sum = 0;
            for (size_t k = 0; k < h; k++)
                sum += (double)transition[i * h + k] * now->covariance[k * h + j];
            now->half[i * h + j] = sum;
        }
    }
    memcpy(now->state, now->next, h * sizeof *now->state);
    for (size_t i = 0; i < h; i++)
        for (size_t j = 0; j < h; j++) {
            double sum = i == j ? noise * noise : 0;
            for (size_t k = 0; k < h; k++)
                sum += now->half[i * h + k] * (double)transition[j * h + k];
            now->covariance[i * h + j] = sum;
        }
}

static void filter_sequence(const icl_task *task, const void *settings, size_t number, const float *inputs,
                            double *work, double *outputs) {
    const known_system *systems = settings;
    const icl_dynamics *system = task->state;
    const size_t h = system->hidden, s = system->observed;
    const float *observation = systems->observation + number * s * h;
    const belief now = place_belief(work, h);

    memset(work, 0, (4 * h + 2 * h * h) * sizeof *work);
    for (size_t i = 0; i < h; i++)
        now.covariance[i * h + i] = 1;
    for (size_t t = 0; t < task->shape.positions; t++) {
        const float *seen = icl_dynamical_observation(task, inputs, t);
        for (size_t i = 0; i < s; i++) {
            read_row(observation, i, h, now.row);
            update_belief(&now, h, (double)seen[i], system->observation_noise);
        }
        advance_belief(&now, h, systems->transition + number * h * h, system->process_noise);
        for (size_t i = 0; i < s; i++) {
            read_row(observation, i, h, now.row);
            outputs[t * s + i] = icl_dot(now.row, now.state, h);
        }
    }
}

/* Predicts (W G) z_t. */
static void advance_sequence(const icl_task *task, const void *settings, size_t number, const float *inputs,
                             double *work, double *outputs) {
    const size_t n = widths_of(task).state, p = widths_of(task).seen;
    const float *transition = ((const known_system *)settings)->transition + number * n * p;

    for (size_t t = 0; t < task->shape.positions; t++) {
        read_seen(task, inputs, t, work);
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t j = 0; j < p; j++)
                sum += (double)transition[i * p + j] * work[j];
            outputs[t * n + i] = sum;
        }
    }
}

static icl_status read_side(const icl_batch *batch, const char *name, float **values, icl_error *error) {
    const icl_tensor side = icl_batch_side(batch, name);

    if (!side.buffer)
        return ICL_OK;
    ICL_CHECK(icl_allocate(icl_tensor_count(&side), sizeof **values, name, values, error));
    return icl_tensor_read(side, *values, error);
}

static icl_status filter(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                         icl_error *error) {
    const icl_dynamics *system = shown->task->state;
    const size_t h = system->hidden;
    known_system known = {0};
    icl_status status = ICL_OK;

    ICL_TRY(read_side(shown->batch, ICL_SIDE_TRANSITION, &known.transition, error));
    ICL_TRY(read_side(shown->batch, ICL_SIDE_OBSERVATION, &known.observation, error));
    if (!known.transition)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: the batch lacks the side tensor %s, as those for training do",
                         predictor->name, ICL_SIDE_TRANSITION));
    if (known.observation)
        ICL_TRY(icl_task_for_each(shown->task, filter_sequence, &known, 4 * h + 2 * h * h, shown->count, shown->inputs,
                                  outputs, error));
    else
        ICL_TRY(icl_task_for_each(shown->task, advance_sequence, &known, widths_of(shown->task).seen, shown->count,
                                  shown->inputs, outputs, error));
done:
    icl_free(&known.transition);
    icl_free(&known.observation);
    return status;
}

/* ---- The tables ---- */

#define FROM_OBSERVATIONS                                                                                              \
    {"zero", NULL, icl_task_predict_zero}, {"gd", &of_sum, predict_by_descent, NULL, fit_bytes},                       \
        {"gd-mean", &of_mean, predict_by_descent, NULL, fit_bytes}, {"ridge:0.001", &lambdas[0], predict_by_ridge},    \
        {"ridge:0.1", &lambdas[1], predict_by_ridge}, {"ridge:1", &lambdas[2], predict_by_ridge}, {                    \
        "ridge:10", &lambdas[3], predict_by_ridge                                                                      \
    }

static const icl_reference_predictor from_observations[] = {FROM_OBSERVATIONS, {0}};
static const icl_reference_predictor of_states[] = {FROM_OBSERVATIONS, {"floor", NULL, filter}, {0}};
static const icl_reference_predictor of_observations[] = {FROM_OBSERVATIONS, {"kalman", NULL, filter}, {0}};

static const icl_reference_predictor *references(const icl_task *task) {
    const icl_dynamics *system = task->state;

    if (system->state_clip > 0 || system->observation == ICL_OBSERVED_NONLINEARLY)
        return from_observations;
    return system->observation == ICL_OBSERVED_FULLY ? of_states : of_observations;
}

const icl_task_family icl_dynamical_system = {
    .name = "dynamical-system",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
