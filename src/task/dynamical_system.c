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
 *
 * The paper gives neither the noise of most figures nor whether .5 and 1.1 are variances, as which they are taken here.
 *
 * Position t of T = task.positions holds s_t and has the target s_(t+1); with task.constructed it holds
 * (0, s_t, s_t, s_(t-1)), where s_0 = 0: what one layer of linear attention needs to take a step of gradient descent
 * (proposition 1).
 *
 * The host draws: sequence i owns as many consecutive words of the stream as it needs, in full blocks of four random
 * numbers, in the order W or Q, u, A, C or B, and for each of the T + 1 states its own n_h and the n_s of its
 * observation's noise. Everything is made of them in double precision by +, -, *, / and sqrt, and rounded once.
 */
#include "task/dynamical_system.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "numeric/parallel.h"
#include "task/draws.h"
#include "task/elementary.h"
#include "task/orthogonal.h"
#include "task/streams.h"

#define MOST_WIDTH     1024.0
#define OBSERVED_STD   0.70710678118654752440 /* of C: sqrt(1 / 2) */
#define NONLINEAR_STD  1.0488088481701515470  /* of A and B: sqrt(1.1) */
#define SQRT_2_OVER_PI 0.79788456080286535588

/* What a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, TRANSITION, OBSERVATION };

/* ---- The recipe ---- */

static const icl_recipe_key noisy_rows[] = {
    {"task", "observation_noise", ICL_KEY_NUMBER, "0.1", 0, 1e6,
     .help = "standard deviation of what is added to each observation"},
};
static const icl_recipe_key observed_rows[] = {
    {"task", "observed", ICL_KEY_COUNT, "5", 1, MOST_WIDTH, .help = "numbers n_s of an observation"},
};
static const icl_recipe_key eigenvalue_rows[] = {
    {"task", "least_eigenvalue", ICL_KEY_NUMBER, "0.3", 0, 1, .help = "of a transition that contracts"},
    {"task", "largest_eigenvalue", ICL_KEY_NUMBER, "0.9", 0, 1, .help = "of a transition that contracts"},
};
static const icl_recipe_group noisy = ICL_RECIPE_GROUP(noisy_rows), observed = ICL_RECIPE_GROUP(observed_rows),
                              eigenvalues = ICL_RECIPE_GROUP(eigenvalue_rows);
static const icl_recipe_group *const partial_groups[] = {&observed, &noisy, NULL};
static const icl_recipe_group *const nonlinear_groups[] = {&observed, NULL};
static const icl_recipe_group *const contracting_groups[] = {&eigenvalues, NULL};

static const icl_choice observation_words[] = {{"full", ICL_OBSERVED_FULLY},
                                               {"partial", ICL_OBSERVED_PARTLY, partial_groups},
                                               {"nonlinear", ICL_OBSERVED_NONLINEARLY, nonlinear_groups},
                                               {0}};
static const icl_choice transitions[] = {{"orthogonal", 0}, {"contracting", 1, contracting_groups}, {0}};

static const icl_recipe_key own_rows[] = {
    {"task", "positions", ICL_KEY_COUNT, "50", 1, ICL_MAX_EXTENT,
     .help = "observations T that are shown, each of which has the next one as target"},
    {"task", "hidden", ICL_KEY_COUNT, "10", 1, MOST_WIDTH, .help = "numbers n_h of a state"},
    {"task", "observation", ICL_KEY_WORD, "full", .choices = observation_words, .help = "what is seen of a state"},
    {"task", "transition", ICL_KEY_WORD, "orthogonal", .choices = transitions, .help = "how a state becomes the next"},
    {"task", "process_noise", ICL_KEY_NUMBER, "0.1", 0, 1e6,
     .help = "standard deviation of what is added to each state"},
    {"task", "state_clip", ICL_KEY_NUMBER, "0", 0, 1e6, .help = "the largest number of a state; 0: there is none"},
    {"task", "constructed", ICL_KEY_FLAG, "false", .help = "position t holds (0, s_t, s_t, s_(t-1)) and not s_t alone"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_dynamical_system_keys[] = {&own_keys, NULL};

static void read_settings(const icl_recipe *recipe, icl_dynamics *is) {
    is->hidden = (size_t)icl_recipe_count(recipe, "task", "hidden");
    is->observation = (icl_observation)icl_recipe_choice(recipe, "task", "observation");
    is->observed =
        is->observation == ICL_OBSERVED_FULLY ? is->hidden : (size_t)icl_recipe_count(recipe, "task", "observed");
    is->process_noise = icl_recipe_number(recipe, "task", "process_noise");
    is->observation_noise = icl_recipe_number(recipe, "task", "observation_noise");
    is->contracts = icl_recipe_choice(recipe, "task", "transition") == 1;
    is->least = icl_recipe_number(recipe, "task", "least_eigenvalue");
    is->largest = icl_recipe_number(recipe, "task", "largest_eigenvalue");
    is->clip = icl_recipe_number(recipe, "task", "state_clip");
    is->constructed = icl_recipe_flag(recipe, "task", "constructed");
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_dynamics *is = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *is, "dynamical system", &is, error));
    task->state = is;
    read_settings(recipe, is);
    if (is->contracts && is->least > is->largest)
        return icl_recipe_reject(recipe, "task", "least_eigenvalue", error, "at most task.largest_eigenvalue = %g",
                                 is->largest);
    task->shape = (icl_task_shape){.positions = (size_t)icl_recipe_count(recipe, "task", "positions"),
                                   .inputs = (is->constructed ? 4 : 1) * is->observed,
                                   .outputs = is->observed,
                                   .scored = (size_t)icl_recipe_count(recipe, "task", "positions"),
                                   .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

/* ---- One sequence ---- */

static void fill_normals(icl_words *from, double scale, size_t count, double *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = scale * icl_words_normal(from);
}

/* What a sequence is made with; [n_h] or matrices. */
typedef struct workspace {
    double *transition, *rotation, *eigenvalues, *state, *next, *units;
    double *hidden_map, *map; /* A [n_h, n_h]; C or B [n_s, n_h] */
    float *observations;      /* [T + 1][n_s] */
} workspace;

static size_t count_words(const icl_dynamics *is, size_t positions) {
    const size_t h = is->hidden, s = is->observed;
    size_t words = h * h + h * (positions + 1);

    if (is->contracts)
        words += h;
    if (is->observation == ICL_OBSERVED_PARTLY)
        words += s * h + s * (positions + 1);
    if (is->observation == ICL_OBSERVED_NONLINEARLY)
        words += h * h + s * h;
    return (words + 3) / 4 * 4;
}

/* W = Q diag(u) Q^T. */
static void draw_contraction(const icl_dynamics *is, icl_words *from, const workspace *w) {
    const size_t h = is->hidden;

    for (size_t i = 0; i < h; i++)
        w->eigenvalues[i] = is->least + (is->largest - is->least) * ((double)icl_words_next(from) + 0.5) * 0x1p-32;
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

/* h <- W h + p eps, clipped. */
static void advance(const icl_dynamics *is, icl_words *from, const workspace *w) {
    multiply(w->transition, w->state, is->hidden, is->hidden, w->next);
    for (size_t i = 0; i < is->hidden; i++) {
        const double value = w->next[i] + is->process_noise * icl_words_normal(from);
        w->state[i] = is->clip > 0 ? fmin(is->clip, fmax(-is->clip, value)) : value;
    }
}

/* That of GPT-2, as in iclab/kinds.h. Where exp would overflow, x is so negative that nothing is left of it. */
static double gelu(double x) {
    const double w = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x);
    return -2 * w > 700 ? 0 : x / (1 + icl_exponential(-2 * w));
}

/* s of the state at hand. */
static void observe(const icl_dynamics *is, icl_words *from, const workspace *w, float *observation) {
    const double *seen = w->state;
    const size_t h = is->hidden;

    if (is->observation == ICL_OBSERVED_NONLINEARLY) {
        multiply(w->hidden_map, w->state, h, h, w->units);
        for (size_t i = 0; i < h; i++)
            w->units[i] = gelu(w->units[i]);
        seen = w->units;
    }
    if (is->observation != ICL_OBSERVED_FULLY) {
        multiply(w->map, seen, is->observed, h, w->next);
        seen = w->next;
    }
    for (size_t i = 0; i < is->observed; i++) {
        const double noise =
            is->observation == ICL_OBSERVED_PARTLY ? is->observation_noise * icl_words_normal(from) : 0;
        observation[i] = (float)(seen[i] + noise);
    }
}

static void draw_sequence(const icl_dynamics *is, icl_words *from, size_t positions, const workspace *w) {
    const size_t h = is->hidden, s = is->observed;

    fill_normals(from, 1, h * h, w->transition);
    icl_orthogonalize(h, w->transition);
    if (is->contracts)
        draw_contraction(is, from, w);
    if (is->observation == ICL_OBSERVED_NONLINEARLY)
        fill_normals(from, NONLINEAR_STD, h * h, w->hidden_map);
    if (is->observation != ICL_OBSERVED_FULLY)
        fill_normals(from, is->observation == ICL_OBSERVED_PARTLY ? OBSERVED_STD : NONLINEAR_STD, s * h, w->map);
    for (size_t t = 0; t <= positions; t++) {
        if (t == 0)
            fill_normals(from, 1, h, w->state);
        else
            advance(is, from, w);
        observe(is, from, w, w->observations + t * s);
    }
}

/* ---- Many of them ---- */

typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    icl_dynamical_sequences to;
    double *doubles; /* of all threads' workspaces */
    float *floats;
} drawing;

static size_t count_doubles(const icl_dynamics *is) {
    const size_t h = is->hidden, s = is->observed;
    return 3 * h * h + 4 * h + s * h + s;
}

static workspace workspace_of(const drawing *all, size_t thread) {
    const icl_dynamics *is = all->task->state;
    const size_t h = is->hidden, s = is->observed;
    double *at = all->doubles + thread * count_doubles(is);
    workspace w = {.transition = at, .rotation = at + h * h, .hidden_map = at + 2 * h * h, .map = at + 3 * h * h};

    at += 3 * h * h + s * h;
    w.eigenvalues = at;
    w.state = at + h;
    w.units = at + 2 * h;
    w.next = at + 3 * h; /* [max(n_h, n_s)] */
    w.observations = all->floats + thread * (all->task->shape.positions + 1) * s;
    return w;
}

static void narrow(const double *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

/* Tokens [T][p], zeroed, of observations. */
static void arrange(const icl_task *task, const float *observations, float *inputs) {
    const icl_dynamics *is = task->state;
    const size_t s = is->observed, p = task->shape.inputs;

    for (size_t t = 0; t < task->shape.positions; t++) {
        float *token = inputs + t * p;
        if (!is->constructed) {
            memcpy(token, observations + t * s, s * sizeof *token);
            continue;
        }
        memset(token, 0, p * sizeof *token);
        memcpy(token + s, observations + t * s, s * sizeof *token);
        memcpy(token + 2 * s, observations + t * s, s * sizeof *token);
        if (t > 0)
            memcpy(token + 3 * s, observations + (t - 1) * s, s * sizeof *token);
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *all = context;
    const icl_task_shape *shape = &all->task->shape;
    const icl_dynamics *is = all->task->state;
    const size_t h = is->hidden, s = is->observed;
    const workspace w = workspace_of(all, thread);
    icl_words from = {.key = all->key, .next = (uint64_t)index * count_words(is, shape->positions)};

    draw_sequence(is, &from, shape->positions, &w);
    arrange(all->task, w.observations, all->to.inputs + index * shape->positions * shape->inputs);
    memcpy(all->to.targets + index * shape->positions * s, w.observations + s,
           shape->positions * s * sizeof *w.observations);
    if (all->to.transition)
        narrow(w.transition, h * h, all->to.transition + index * h * h);
    if (all->to.observation)
        narrow(w.map, s * h, all->to.observation + index * s * h);
}

icl_status icl_dynamical_draw(const icl_task *task, icl_random_key key, size_t count,
                              const icl_dynamical_sequences *sequences, icl_error *error) {
    const icl_dynamics *is = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {.task = task, .key = key, .to = *sequences};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(threads, count_doubles(is) * sizeof *all.doubles, "states", &all.doubles, error));
    ICL_TRY(icl_allocate(threads, (task->shape.positions + 1) * is->observed * sizeof *all.floats, "observations",
                         &all.floats, error));
    icl_parallel_for(count, threads, draw_one, &all);
done:
    icl_free(&all.doubles);
    icl_free(&all.floats);
    return status;
}

const float *icl_dynamical_observation(const icl_task *task, const float *inputs, size_t t) {
    const icl_dynamics *is = task->state;
    return inputs + t * task->shape.inputs + (is->constructed ? is->observed : 0);
}

/* ---- Batches ---- */

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_dynamics *is = task->state;
    const size_t positions = task->shape.positions, h = is->hidden, s = is->observed;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, task->shape.inputs}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, s}, &batch->scratch[TARGETS], error));
    batch->targets = batch->scratch[TARGETS];
    if (purpose == ICL_FOR_TRAINING)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, h, h}, &batch->scratch[TRANSITION], error));
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_TRANSITION, batch->scratch[TRANSITION], error));
    if (is->observation != ICL_OBSERVED_PARTLY)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, s, h}, &batch->scratch[OBSERVATION], error));
    return icl_batch_add_side(batch, ICL_SIDE_OBSERVATION, batch->scratch[OBSERVATION], error);
}

/* Host memory for a tensor, unless the batch has none. */
static icl_status allocate_like(icl_tensor tensor, float **values, icl_error *error) {
    return tensor.buffer ? icl_allocate(icl_tensor_count(&tensor), sizeof **values, "sequences", values, error)
                         : ICL_OK;
}

static icl_status write_tensor(icl_tensor tensor, const float *values, icl_error *error) {
    return values ? icl_tensor_write(tensor, values, error) : ICL_OK;
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_DYNAMICAL_STREAMS), step};
    icl_dynamical_sequences host = {0};
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(allocate_like(batch->inputs, &host.inputs, error));
    ICL_TRY(allocate_like(batch->targets, &host.targets, error));
    ICL_TRY(allocate_like(batch->scratch[TRANSITION], &host.transition, error));
    ICL_TRY(allocate_like(batch->scratch[OBSERVATION], &host.observation, error));
    ICL_TRY(icl_dynamical_draw(task, key, batch->size, &host, error));
    ICL_TRY(icl_tensor_write(batch->inputs, host.inputs, error));
    ICL_TRY(icl_tensor_write(batch->targets, host.targets, error));
    ICL_TRY(write_tensor(batch->scratch[TRANSITION], host.transition, error));
    ICL_TRY(write_tensor(batch->scratch[OBSERVATION], host.observation, error));
done:
    icl_free(&host.inputs);
    icl_free(&host.targets);
    icl_free(&host.transition);
    icl_free(&host.observation);
    return status;
}

const icl_task_family icl_dynamical_system = {
    .name = "dynamical-system",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .sample = sample,
    .draws_on_host = true,
    .references = icl_dynamical_references,
};
