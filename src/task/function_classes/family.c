/*
 * Function classes with a label at every position: Garg, Tsipras, Liang, Valiant 2022, "What can transformers learn
 * in-context?" (arXiv 2208.01066).
 *
 *     f of task.class (function.h), x_0 … x_n (below),  y_i = f(x_i) + sigma eps_i, eps_i ~ N(0, 1), or another law
 *                               of labels (labels.h)
 *     task.layout = joined      position i of n + 1 holds (x_i, y_(i-1)), with y_(-1) = 0, and has the target f(x_i)
 *                   separate    position 2 i of 2 n + 1 holds x_i and has the target f(x_i); position 2 i + 1 holds y_i
 *                               as first coordinate beside zeros, and weighs 0
 *
 * Targets have no noise, except classes, which are their own targets. A causal model answers for x_k from k labelled
 * pairs, in either layout; one that is not causal sees the answers. The paper separates x_i and y_i, which takes twice
 * the positions and gives better models of the same width.
 *
 * task.pool = M: f is one of M functions, drawn uniformly (Raventos and others 2023, arXiv 2306.15063); with
 * task.fresh_functions it is none of them, which shows what a model learned of the pool and what of the class.
 *
 * The host draws. Functions, inputs, noise and choices have streams of their own, in which a sequence owns its words.
 * Everything is made of them in double precision by +, -, *, / and sqrt, and rounded once.
 */
#include "task/function_classes/family.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/task_family.h"
#include "numeric/parallel.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/streams.h"

/* ---- Curriculum ---- */

/*
 * A curriculum of training: few coordinates and few points at first, more at each rise (Garg and others 2022, arXiv
 * 2208.01066, appendix A.2).
 *
 *     rises = step / task.curriculum
 *     coordinates that are not 0:  min(d, task.curriculum_d + rises)
 *     labelled points in use:      min(n, task.curriculum_n + task.curriculum_points rises)
 *
 * The stage depends only on the step, so that runs resume and ranks agree.
 */

/* task.layout. */
typedef enum prompt_layout { LAYOUT_JOINED = 0, LAYOUT_SEPARATE } prompt_layout;

/* Recipe keys of this file; members have the keys' names. */
typedef struct class_keys {
    uint64_t curriculum;
    size_t curriculum_d, curriculum_n, curriculum_points, probe_at;
    double input_scale;
    bool orthant;
    icl_probe probe;
    prompt_layout layout;
} class_keys;

#define KEY(field)  ICL_KEY("task", class_keys, field)
#define NAME(field) ICL_KEY_NAME("task", class_keys, field)

static const icl_recipe_key stage_rows[] = {
    {KEY(curriculum_d), "5", 1, ICL_MAX_EXTENT, .help = "coordinates of x that are not 0 at first; each rise adds one"},
    {KEY(curriculum_n), "10", 0, ICL_MAX_EXTENT, .help = "labelled pairs in use at first"},
    {KEY(curriculum_points), "2", 0, ICL_MAX_EXTENT, .help = "pairs that each rise adds"},
};
static const icl_recipe_group stage_keys = ICL_RECIPE_GROUP(stage_rows);
static const icl_recipe_group *const stages[] = {&stage_keys, NULL};

static const icl_recipe_key curriculum_rows[] = {
    {KEY(curriculum), "0", 0, ICL_MAX_STEPS,
     .help = "training steps between rises of the coordinates and pairs in use; 0: all are, always", .keys = stages,
     .neutral = "0"},
};
static const icl_recipe_group curriculum_keys = ICL_RECIPE_GROUP(curriculum_rows);

/* Reads task.curriculum and the keys that it brings into use, for sequences of n = context labelled points of this
 * dimension. */
static icl_status read_curriculum(const icl_recipe *recipe, const class_keys *keys, size_t dimension, size_t context,
                                  icl_curriculum *curriculum, icl_error *error) {
    *curriculum = (icl_curriculum){.every = keys->curriculum,
                                   .slices = icl_recipe_count(recipe, "train", "slices"),
                                   .refresh = icl_recipe_count(recipe, "train", "refresh"),
                                   .first = {keys->curriculum_d, keys->curriculum_n},
                                   .last = {dimension, context},
                                   .more_points = keys->curriculum_points};
    if (curriculum->every > 0 && curriculum->first.dimension > dimension)
        return icl_recipe_reject(recipe, NAME(curriculum_d), error, "at most task.d = %zu", dimension);
    if (curriculum->every > 0 && curriculum->first.context > context)
        return icl_recipe_reject(recipe, NAME(curriculum_n), error, "at most task.n = %zu", context);
    return ICL_OK;
}

/* Returns first + rises * more, at most last. */
static size_t raised(size_t first, uint64_t rises, size_t more, size_t last) {
    return more > 0 && rises >= (last - first + more - 1) / more ? last : first + (size_t)rises * more;
}

/* Returns the stage of the training batch of this number. The number counts every slice, and steps that share a batch
 * once (train.slices, train.refresh). */
static icl_stage find_stage(const icl_curriculum *curriculum, uint64_t batch) {
    const icl_stage *first = &curriculum->first, *last = &curriculum->last;

    if (curriculum->every == 0)
        return *last;
    const uint64_t rises = batch / curriculum->slices * curriculum->refresh / curriculum->every;
    return (icl_stage){raised(first->dimension, rises, 1, last->dimension),
                       raised(first->context, rises, curriculum->more_points, last->context)};
}

/* ---- Prompts ---- */

/*
 * The inputs of a sequence with a label at every position, and their shifts (Garg and others 2022, arXiv 2208.01066,
 * section 4 and appendix B).
 *
 *     x_i = c R g_i,  g_i ~ N(0, I)       R R^T = task.covariance, c = task.input_scale
 *
 * task.orthant: all x_i get the signs of one orthant, which is drawn for each sequence. task.probe changes only one
 * x_k, k = task.probe_at:
 *
 *     anywhere     it keeps its own signs, beside task.orthant
 *     opposite     it has the signs of the opposite orthant, beside task.orthant
 *     orthogonal   its part that is orthogonal to x_0 … x_(k-1), stretched to length c sqrt(d); k < d
 *     repeated     one of x_0 … x_(k-1), drawn uniformly; k > 0
 */

static const icl_recipe_key place_rows[] = {
    {KEY(probe_at), "0", 0, ICL_MAX_EXTENT, .help = "pairs before the input that task.probe changes; 0: all n"},
};
static const icl_recipe_group place_keys = ICL_RECIPE_GROUP(place_rows);
static const icl_recipe_group *const place_groups[] = {&place_keys, NULL};

static const icl_choice probes[] = {{"none", ICL_PROBE_NONE},
                                    {"anywhere", ICL_PROBE_ANYWHERE, place_groups},
                                    {"opposite", ICL_PROBE_OPPOSITE, place_groups},
                                    {"orthogonal", ICL_PROBE_ORTHOGONAL, place_groups},
                                    {"repeated", ICL_PROBE_REPEATED, place_groups},
                                    {0}};

static const icl_recipe_key prompt_rows[] = {
    {KEY(input_scale), "1", 1e-6, 1e6, .help = "factor of the inputs"},
    {KEY(orthant), "false", .help = "all inputs of a sequence lie in one orthant, which is drawn"},
    {KEY(probe), "none", .choices = probes, .help = "how one input of a sequence differs"},
};
static const icl_recipe_group prompt_keys = ICL_RECIPE_GROUP(prompt_rows);

/* Reads the keys above, and those of the covariance. Release with icl_covariance_release, also after a failure. */
static icl_status read_prompt(const icl_recipe *recipe, const class_keys *keys, size_t dimension, size_t points,
                              icl_prompt_law *law, icl_error *error) {
    *law = (icl_prompt_law){.dimension = dimension,
                            .points = points,
                            .scale = keys->input_scale,
                            .orthant = keys->orthant,
                            .probe = keys->probe,
                            .probe_at = keys->probe_at > 0 ? keys->probe_at : points - 1};
    ICL_CHECK(icl_covariance_read(recipe, dimension, &law->covariance, error));
    if (law->probe != ICL_PROBE_NONE && law->probe_at >= points)
        return icl_recipe_reject(recipe, NAME(probe_at), error, "at most task.n = %zu", points - 1);
    if (law->probe == ICL_PROBE_ORTHOGONAL && law->probe_at >= dimension)
        return icl_recipe_reject(recipe, NAME(probe_at), error,
                                 "less than task.d = %zu: nothing is orthogonal to %zu inputs", dimension,
                                 law->probe_at);
    if ((law->probe == ICL_PROBE_ANYWHERE || law->probe == ICL_PROBE_OPPOSITE) && !law->orthant)
        return icl_recipe_reject(recipe, NAME(probe), error, "another one without task.orthant");
    return ICL_OK;
}

/* out = c R g. */
static void colour(const icl_prompt_law *law, const double *g, double *out) {
    const double *root = law->covariance.input_root;
    const size_t d = law->dimension;

    for (size_t i = 0; i < d; i++) {
        double sum = root ? 0 : g[i];
        for (size_t j = 0; root && j < d; j++)
            sum += root[i * d + j] * g[j];
        out[i] = law->scale * sum;
    }
}

/* Subtracts from v its parts along `count` orthonormal vectors, twice, which makes up for the rounding of the first
 * time, and scales it to this length. */
static void orthogonalize(const double *basis, size_t count, size_t d, double length, double *v) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t r = 0; r < count; r++) {
            const double share = icl_dot(basis + r * d, v, d);
            for (size_t i = 0; i < d; i++)
                v[i] -= share * basis[r * d + i];
        }
    const double norm = sqrt(icl_dot(v, v, d));
    for (size_t i = 0; i < d && norm > 0; i++)
        v[i] *= length / norm;
}

/* Makes x_k of x [n + 1][d] orthogonal to the inputs before it, which are overwritten by orthonormal ones. */
static void probe_orthogonally(const icl_prompt_law *law, double *x) {
    const size_t d = law->dimension, k = law->probe_at;

    for (size_t i = 0; i < k; i++)
        orthogonalize(x, i, d, 1, x + i * d);
    orthogonalize(x, k, d, law->scale * sqrt((double)d), x + k * d);
}

static void keep_signs(const icl_prompt_law *law, icl_words *stream, double *x) {
    const size_t d = law->dimension, k = law->probe_at;

    for (size_t j = 0; j < d; j++) {
        const double sign = icl_words_next(stream) >> 31 ? 1 : -1;
        for (size_t i = 0; i < law->points && law->orthant; i++) {
            const bool is_probe = i == k && law->probe != ICL_PROBE_NONE;
            if (!is_probe || law->probe != ICL_PROBE_ANYWHERE)
                x[i * d + j] = (is_probe && law->probe == ICL_PROBE_OPPOSITE ? -sign : sign) * fabs(x[i * d + j]);
        }
    }
}

/* Draws the inputs [n + 1][d] of sequence `number` of the key; work holds (n + 2) d doubles. A sequence owns (n + 1) d
 * words for g, d for signs and one to choose among inputs, in full blocks of four, so that inputs that are not shifted
 * do not change. */
static void draw_prompt(const icl_prompt_law *law, icl_random_key key, uint64_t number, double *work, float *inputs) {
    const size_t d = law->dimension, k = law->probe_at, count = law->points * d;
    const uint64_t words = (count + d + 1 + 3) / 4 * 4;
    double *x = work, *g = x + count;
    icl_words stream = {.key = key, .next = number * words};

    for (size_t i = 0; i < law->points; i++) {
        for (size_t j = 0; j < d; j++)
            g[j] = icl_words_normal(&stream);
        colour(law, g, x + i * d);
    }
    keep_signs(law, &stream, x);
    icl_narrow(x, count, inputs);
    if (law->probe == ICL_PROBE_REPEATED) {
        const size_t chosen = (size_t)((uint64_t)icl_words_next(&stream) * k >> 32);
        icl_narrow(x + chosen * d, d, inputs + k * d);
    } else if (law->probe == ICL_PROBE_ORTHOGONAL) {
        probe_orthogonally(law, x);
        icl_narrow(x + k * d, d, inputs + k * d);
    }
}

icl_prompt_layout icl_prompt_lay_out(const icl_prompt_law *law, bool is_separate) {
    const size_t d = law->dimension, points = law->points;
    return is_separate ? (icl_prompt_layout){2 * points - 1, d, 2, d}
                       : (icl_prompt_layout){points, d + 1, 1, 2 * d + 1};
}

/* ---- The family ---- */

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, LEVELS, COEFFICIENTS, WEIGHTS };

/* The words of a sequence in the stream of choices. */
enum { WORD_FUNCTION = 0, WORD_LEVEL, CHOICE_WORDS };

/* ---- The recipe ---- */

static const icl_choice layouts[] = {{"joined", LAYOUT_JOINED}, {"separate", LAYOUT_SEPARATE}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(layout), "joined", .choices = layouts,
     .help = "an input and the label before it share a position, or have one each"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_function_classes_family_keys[] = {
    &icl_pairs_keys,    &icl_label_keys,    &icl_covariance_keys,
    &icl_function_keys, &prompt_keys,       &curriculum_keys,
    &own_keys,          &icl_law_pool_keys, NULL};

static class_keys read_keys(const icl_recipe *recipe) {
    const icl_recipe_group *const groups[] = {&curriculum_keys, &stage_keys, &prompt_keys,
                                              &place_keys,      &own_keys,   NULL};
    class_keys keys;

    for (const icl_recipe_group *const *group = groups; *group; group++)
        icl_recipe_read(recipe, *group, &keys);
    return keys;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const class_keys keys = read_keys(recipe);
    const icl_law_pool pool = icl_law_pool_read(recipe);
    icl_function_classes *state = NULL;
    icl_noise sigma;

    ICL_CHECK(icl_allocate(1, sizeof *state, "function classes", &state, error));
    task->state = state;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    const size_t d = icl_task_dimension(task), n = icl_task_context(task);
    ICL_CHECK(icl_labels_read(recipe, &state->labels, &sigma, error));
    state->noise_level = sigma.level;
    ICL_CHECK(icl_function_read(recipe, d, &state->law, error));
    ICL_CHECK(read_prompt(recipe, &keys, d, n + 1, &state->prompt, error));
    ICL_CHECK(read_curriculum(recipe, &keys, d, n, &state->curriculum, error));
    state->pool = pool.pool;
    state->pool_key = (uint32_t)pool.pool_seed;
    state->is_fresh = pool.fresh_functions;
    ICL_CHECK(icl_class_references_create(recipe, sigma.mean_square, state, error));
    state->is_separate = keys.layout == LAYOUT_SEPARATE;
    if (state->is_separate) {
        task->shape.positions = 2 * n + 1;
        task->shape.inputs = d;
    }
    task->shape.first_scored = 0;
    task->shape.scored = task->shape.positions;
    if (icl_labels_are_classes(&state->labels))
        task->shape.loss = ICL_LOSS_LOGISTIC;
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_function_classes *state = task->state;
    if (state) {
        icl_covariance_release(&state->prompt.covariance);
        icl_free(&state->references);
    }
    icl_free(&task->state);
}

void icl_function_of_pool(const icl_function_classes *state, uint64_t m, double *function) {
    icl_function_draw(&state->law, (icl_random_key){.seed = state->pool_key, .stream = ICL_CLASSES_POOL_STREAM}, m,
                      function);
}

/* ---- One sequence ---- */

/* The side tensors of a batch, in the order in which batch_create adds them. */
enum { SIDE_LEVELS /* [B] */, SIDE_COEFFICIENTS /* [B][d] */ };

typedef struct drawing {
    const icl_function_classes *state;
    icl_random_key function, inputs, noise, rare, choices;
    icl_stage stage;
    icl_batch_values out;
    double *doubles; /* the work of all threads */
    float *points;   /* [n + 1][d] for each thread */
} drawing;

static size_t count_doubles(const icl_function_classes *state) {
    return icl_function_size(&state->law) + (state->prompt.points + 1) * state->prompt.dimension;
}

static void draw_function(const drawing *picture, size_t index, double *function) {
    const icl_function_classes *state = picture->state;

    if (state->pool > 0 && !state->is_fresh)
        icl_function_of_pool(
            state, icl_draw_below(picture->choices, (uint64_t)index * CHOICE_WORDS + WORD_FUNCTION, state->pool),
            function);
    else
        icl_function_draw(&state->law, picture->function, index, function);
}

/* Draws the inputs, and sets those that the stage leaves out to 0. */
static void draw_points(const drawing *picture, size_t index, double *work, float *points) {
    const icl_prompt_law *law = &picture->state->prompt;
    const size_t d = law->dimension;

    draw_prompt(law, picture->inputs, index, work, points);
    for (size_t i = 0; i < law->points; i++) {
        const size_t used = i <= picture->stage.context ? picture->stage.dimension : 0;
        memset(points + i * d + used, 0, (d - used) * sizeof *points);
    }
}

/* Writes the tokens and targets of inputs and a function. After the stage's last point everything is 0, labels
 * included. */
static void label(const drawing *picture, size_t index, const double *function, const float *points, double sigma) {
    const icl_label_law *law = &picture->state->labels;
    const icl_prompt_layout layout = icl_prompt_lay_out(&picture->state->prompt, picture->state->is_separate);
    const size_t d = picture->state->prompt.dimension, count = picture->state->prompt.points,
                 n = picture->stage.context;
    float *tokens = picture->out.inputs + index * layout.positions * layout.inputs;
    float *targets = picture->out.targets + index * layout.positions;
    icl_words noise = {.key = picture->noise, .next = (uint64_t)index * ((count + 3) / 4 * 4)};

    for (size_t i = 0; i < count && i <= n; i++) {
        const double value = icl_function_value(&picture->state->law, function, points + i * d);
        const double normal = i < n ? icl_words_normal(&noise) : 0;
        const double seen = icl_label_draw(law, value, sigma, normal, picture->rare, (uint64_t)index * count + i);
        float *token = tokens + i * layout.stride * layout.inputs;
        memcpy(token, points + i * d, d * sizeof *token);
        targets[i * layout.stride] = (float)(icl_labels_are_classes(law) ? (seen + 1) / 2 : value);
        if (i < n)
            token[layout.label] = (float)seen;
    }
}

/* Weights the points in use so that their losses count as much in all as those of all positions. */
static void weigh(const drawing *picture, size_t index) {
    const icl_prompt_layout layout = icl_prompt_lay_out(&picture->state->prompt, picture->state->is_separate);
    const size_t used = picture->stage.context + 1;
    float *weights = picture->out.weights + index * layout.positions;

    for (size_t i = 0; i < layout.positions; i++)
        weights[i] =
            i % layout.stride == 0 && i / layout.stride < used ? (float)((double)layout.positions / (double)used) : 0;
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_function_classes *state = picture->state;
    const size_t d = state->prompt.dimension;
    double *function = picture->doubles + thread * count_doubles(state);
    float *points = picture->points + thread * state->prompt.points * d;
    float *coefficients = picture->out.sides[SIDE_COEFFICIENTS];
    icl_random_params level = state->noise_level;

    level.key = picture->choices;
    const float sigma = icl_random_value(&level, (uint64_t)index * CHOICE_WORDS + WORD_LEVEL);
    draw_function(picture, index, function);
    draw_points(picture, index, function + icl_function_size(&state->law), points);
    label(picture, index, function, points, (double)sigma);
    picture->out.sides[SIDE_LEVELS][index] = sigma;
    for (size_t j = 0; j < d && coefficients; j++)
        coefficients[index * d + j] = (float)(state->law.scale * function[j]);
    if (picture->out.weights)
        weigh(picture, index);
}

/* ---- Batches ---- */

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_function_classes *state = task->state;
    const size_t d = state->prompt.dimension, points = task->shape.positions;
    icl_tensor *scratch = batch->scratch;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, task->shape.inputs}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, 1}, &scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &scratch[LEVELS], error));
    batch->targets = scratch[TARGETS];
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_NOISE, scratch[LEVELS], error));
    if (state->law.kind == ICL_CLASS_LINEAR || state->law.kind == ICL_CLASS_SPARSE) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, 1}, &scratch[COEFFICIENTS], error));
        ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, scratch[COEFFICIENTS], error));
    }
    if (state->is_separate || (purpose == ICL_FOR_TRAINING && state->curriculum.every > 0)) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, 1}, &scratch[WEIGHTS], error));
        batch->weights = scratch[WEIGHTS];
    }
    return ICL_OK;
}

static icl_status allocate(size_t threads, drawing *picture, icl_error *error) {
    const icl_function_classes *state = picture->state;

    ICL_CHECK(
        icl_allocate(threads, count_doubles(state) * sizeof *picture->doubles, "functions", &picture->doubles, error));
    return icl_allocate(threads, state->prompt.points * state->prompt.dimension * sizeof *picture->points, "points",
                        &picture->points, error);
}

static void release(drawing *picture) {
    icl_free(&picture->doubles);
    icl_free(&picture->points);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_function_classes *state = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {.state = state,
                   .out = *values,
                   .function = {seed, icl_stream_for(purpose, ICL_CLASSES_STREAMS), step},
                   .inputs = {seed, icl_stream_for(purpose, ICL_CLASSES_INPUT_STREAMS), step},
                   .noise = {seed, icl_stream_for(purpose, ICL_CLASSES_NOISE_STREAMS), step},
                   .rare = {seed, icl_stream_for(purpose, ICL_CLASSES_RARE_STREAMS), step},
                   .choices = {seed, icl_stream_for(purpose, ICL_CLASSES_CHOICE_STREAMS), step},
                   .stage =
                       purpose == ICL_FOR_TRAINING ? find_stage(&state->curriculum, step) : state->curriculum.last};
    icl_status status = ICL_OK;

    ICL_TRY(allocate(threads, &all, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
done:
    release(&all);
    return status;
}

const icl_task_family icl_function_classes_family = {
    .name = "function-classes",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = icl_class_references,
};
