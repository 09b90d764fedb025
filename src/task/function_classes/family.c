/*
 * Function classes with a label at every position: Garg, Tsipras, Liang, Valiant 2022, "What can transformers learn
 * in-context?" (arXiv 2208.01066).
 *
 *     f of task.class (function.h), x_0 … x_n (below),  y_i = f(x_i) + sigma eps_i, eps_i ~ N(0, 1), or another law
 *                               of labels (labels.h)
 *     task.layout = joined      position i of n + 1 holds (x_i, y_(i-1)), with y_(-1) = 0, and has the target f(x_i)
 *                   separate    position 2 i of 2 n + 1 holds x_i and has the target f(x_i); position 2 i + 1 holds y_i
 *                               as first coordinate beside zeros, and weighs 0
 *                   pairs       position i of n + 1 holds (x_i, y_i), the last one (x_n, 0), whose target f(x_n) is the
 *                               only one: what linear transformers and softmax attention read
 *
 * Targets have no noise, except classes, which are their own targets. A causal model answers for x_k from k labelled
 * pairs, in the first two layouts; one that is not causal sees the answers. The paper separates x_i and y_i, which
 * takes twice the positions and gives better models of the same width.
 *
 * task.pool = M: f is one of M functions, drawn uniformly (Raventos and others 2023, arXiv 2306.15063); with
 * task.fresh_functions it is none of them, which shows what a model learned of the pool and what of the class.
 *
 * The host draws. Functions, inputs, noise and choices have streams of their own, in which a sequence owns its words.
 * Everything is made of them in double precision by +, -, *, / and sqrt, and rounded once.
 */
#include "task/function_classes/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/task_family.h"
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

/* Recipe keys of this file; members have the keys' names. */
typedef struct class_keys {
    uint64_t curriculum;
    size_t curriculum_d, curriculum_n, curriculum_points, probe_at;
    double input_scale;
    bool orthant;
    icl_probe probe;
    icl_prompt_kind layout;
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

static icl_prompt_layout lay_out_prompt(const icl_prompt_law *law, icl_prompt_kind kind) {
    const size_t d = law->dimension, points = law->points;

    switch (kind) {
    case ICL_PROMPT_SEPARATE:
        return (icl_prompt_layout){2 * points - 1, d, 2, d, 0};
    case ICL_PROMPT_PAIRS:
        return (icl_prompt_layout){points, d + 1, 1, d, points - 1};
    case ICL_PROMPT_JOINED:
    default:
        return (icl_prompt_layout){points, d + 1, 1, 2 * d + 1, 0};
    }
}

/* ---- Reference predictors (predictors.h) ---- */

enum { MOST_REFERENCES = 36, MOST_PENALTIES = 12, NAME_CAPACITY = 32 };

/* The settings that a row of the table points to. */
typedef struct settings {
    const icl_points_predictor *predictor;
    double number;
    char name[NAME_CAPACITY];
} settings;

struct icl_class_references {
    icl_reference_predictor rows[MOST_REFERENCES + 1];
    settings settings[MOST_REFERENCES];
    size_t count;
};

static const icl_recipe_key lasso_rows[] = {
    {"task", "lasso", ICL_KEY_TEXT, "1,0.1,0.01,0.001,0.0001",
     .help = "penalties of the lassos among the reference predictors"},
};
const icl_recipe_group icl_lasso_keys = ICL_RECIPE_GROUP(lasso_rows);

/* ---- Prediction for one sequence ---- */

/* The settings and data that all sequences have in common. */
typedef struct prediction {
    const settings *own;
    const void *shared;
    const float *levels; /* sigma of each */
} prediction;

/* Turns predicted means of labels -1 and 1 into logits. */
static void make_logits(size_t count, double *found) {
    for (size_t k = 0; k < count; k++) {
        const double most = (double)k / (double)(k + 1), mean = fmax(-most, fmin(found[k], most));
        found[k] = log((1 + mean) / (1 - mean));
    }
}

static void predict_one(const icl_task *task, const void *given, size_t number, const float *inputs, double *work,
                        double *outputs) {
    const prediction *result = given;
    const icl_function_classes *state = task->state;
    const icl_points_predictor *predictor = result->own->predictor;
    const icl_prompt_layout layout = lay_out_prompt(&state->prompt, state->layout);
    const icl_points points = {.state = state,
                               .dimension = state->prompt.dimension,
                               .count = state->prompt.points,
                               .layout = layout,
                               .tokens = inputs,
                               .sigma = (double)result->levels[number]};
    double *found = work;

    predictor->predict(&points, result->own->number, result->shared, work + points.count, found);
    if (icl_labels_are_classes(&state->labels) && !predictor->gives_logits)
        make_logits(points.count, found);
    for (size_t i = layout.first_scored; i < layout.positions; i++)
        outputs[i - layout.first_scored] = i % layout.stride == 0 ? found[i / layout.stride] : 0;
}

static icl_status predict(const icl_reference_predictor *reference, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const icl_function_classes *state = shown->task->state;
    const size_t d = state->prompt.dimension, points = state->prompt.points;
    const icl_tensor levels = icl_batch_side(shown->batch, ICL_SIDE_NOISE);
    const settings *config = reference->settings;
    const icl_points_predictor *predictor = config->predictor;
    const size_t work = points + (predictor->count_work ? predictor->count_work(d, points, state) : 0);
    float *sigmas = NULL;
    void *shared = NULL;
    icl_status status = ICL_OK;

    if (predictor->share)
        ICL_TRY(predictor->share(state, &shared, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&levels), sizeof *sigmas, "noise levels", &sigmas, error));
    ICL_TRY(icl_tensor_read(levels, sigmas, error));
    ICL_TRY(icl_task_for_each(shown->task, predict_one, &(prediction){config, shared, sigmas}, work, shown->count,
                              shown->inputs, outputs, error));
done:
    icl_free(&sigmas);
    icl_free(&shared);
    return status;
}

/* ---- Predictors without regression ---- */

static void predict_zero(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    (void)number;
    (void)shared;
    (void)work;
    memset(outputs, 0, points->count * sizeof *outputs);
}

const icl_points_predictor icl_points_zero = {.predict = predict_zero};

/* Predicts <x_k, sum> / k with the sum of y_i x_i. */
static void predict_averaging(const icl_points *points, double number, const void *shared, double *work,
                              double *outputs) {
    const size_t d = points->dimension;

    (void)number;
    (void)shared;
    memset(work, 0, d * sizeof *work);
    for (size_t k = 0; k < points->count; k++) {
        const float *x = icl_points_x(points, k);
        double sum = 0;
        for (size_t j = 0; j < d; j++)
            sum += (double)x[j] * work[j];
        outputs[k] = k > 0 ? sum / (double)k : 0;
        for (size_t j = 0; j < d && k + 1 < points->count; j++)
            work[j] += icl_points_y(points, k) * (double)x[j];
    }
}

static size_t count_vector(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)count;
    (void)state;
    return dimension;
}

const icl_points_predictor icl_points_averaging = {.predict = predict_averaging, .count_work = count_vector};

static double square_distance(const float *a, const float *b, size_t d) {
    double sum = 0;
    for (size_t j = 0; j < d; j++)
        sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sum;
}

/* Predicts the mean label of the `number` inputs before position k that are nearest to x_k, or of all if there are
 * fewer; of two at the same distance the first counts. */
static void predict_nearest(const icl_points *points, double number, const void *shared, double *work,
                            double *outputs) {
    const double more = icl_labels_are_classes(&points->state->labels) ? 2 : 0;

    (void)shared;
    for (size_t k = 0; k < points->count; k++) {
        const size_t most = fmin(number, (double)k);
        double sum = 0;
        for (size_t i = 0; i < k; i++)
            work[i] = square_distance(icl_points_x(points, i), icl_points_x(points, k), points->dimension);
        for (size_t found = 0; found < most; found++) {
            size_t nearest = 0;
            for (size_t i = 1; i < k; i++)
                if (work[i] < work[nearest])
                    nearest = i;
            sum += icl_points_y(points, nearest);
            work[nearest] = (double)INFINITY;
        }
        outputs[k] = most > 0 ? sum / ((double)most + more) : 0;
    }
}

static size_t count_points(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)dimension;
    (void)state;
    return count;
}

const icl_points_predictor icl_points_nearest = {.predict = predict_nearest, .count_work = count_points};

/* ---- The table of predictors ---- */

static void add(struct icl_class_references *table, const char *name, const icl_points_predictor *predictor,
                double number) {
    settings *config = &table->settings[table->count];

    *config = (settings){.predictor = predictor, .number = number};
    snprintf(config->name, sizeof config->name, "%s", name);
    table->rows[table->count++] = (icl_reference_predictor){config->name, config, predict};
}

/* Adds NAME:A for each penalty A of task.NAME, the only key of the group. */
static icl_status add_penalized(const icl_recipe *recipe, const icl_recipe_group *group,
                                const icl_points_predictor *predictor, struct icl_class_references *table,
                                icl_error *error) {
    const char *section = group->rows[0].section, *key = group->rows[0].name;
    double penalties[MOST_PENALTIES];
    size_t count = 0;

    if (!icl_parse_numbers(icl_recipe_text(recipe, section, key), MOST_PENALTIES, penalties, &count) ||
        count > MOST_PENALTIES)
        return icl_recipe_reject(recipe, section, key, error, "up to %d numbers, separated by commas", MOST_PENALTIES);
    for (size_t i = 0; i < count; i++) {
        char name[NAME_CAPACITY];
        if (!(penalties[i] > 0 && penalties[i] <= 1e6))
            return icl_recipe_reject(recipe, section, key, error, "penalties above 0 and up to 1e6, not %g",
                                     penalties[i]);
        icl_print(name, sizeof name, "%s:%g", key, penalties[i]);
        add(table, name, predictor, penalties[i]);
    }
    return ICL_OK;
}

/* Adds bayes unless it equals ridge, which is told the level, and bayes:CLASS for each class of a mixture. */
static void add_bayes(const icl_function_classes *state, struct icl_class_references *table) {
    const bool is_ridge =
        state->law.kind == ICL_CLASS_LINEAR && icl_noise_level_count(&state->noise_level, state->prompt.points - 1) < 2;

    if (icl_bayes_exists(state, ICL_BAYES_ALL) && !is_ridge)
        add(table, "bayes", &icl_points_bayes, ICL_BAYES_ALL);
    for (size_t i = 0; i < state->law.mixture.count; i++) {
        const icl_function_class kind = icl_function_component(&state->law, i);
        char name[NAME_CAPACITY];
        snprintf(name, sizeof name, "bayes:%s", icl_function_class_name(kind));
        if (icl_bayes_exists(state, (int)kind))
            add(table, name, &icl_points_bayes, (double)kind);
    }
}

/* Returns whether labels can differ from values, with this mean of sigma^2. */
static bool is_noisy(const icl_noise_law *law, double mean_square) {
    return mean_square > 0 || (law->outliers > 0 && !law->multiplies);
}

/* Lists the predictors of the class in state->references; mean_square_noise is the mean of sigma^2. */
static icl_status create_references(const icl_recipe *recipe, double mean_square_noise, icl_function_classes *state,
                                    icl_error *error) {
    struct icl_class_references *table = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *table, "reference predictors", &table, error));
    state->references = table;
    add(table, "zero", &icl_points_zero, 0);
    add(table, "averaging", &icl_points_averaging, 0);
    add(table, "nearest:3", &icl_points_nearest, 3);
    add(table, "least-squares", &icl_points_ridge, 0);
    if (is_noisy(&state->labels.noise, mean_square_noise))
        add(table, "ridge", &icl_points_ridge, 1);
    if (icl_labels_are_classes(&state->labels))
        ICL_CHECK(add_penalized(recipe, &icl_logistic_keys, &icl_points_logistic, table, error));
    if (icl_label_has_tails(&state->labels) && state->labels.varies == ICL_NOISE_STEADY)
        add(table, "reweighted", &icl_points_reweighted, 0);
    add_bayes(state, table);
    if (icl_function_has(&state->law, ICL_CLASS_QUADRATIC))
        add(table, "squares", &icl_points_squares, 0);
    if (icl_function_has(&state->law, ICL_CLASS_SPARSE))
        ICL_CHECK(add_penalized(recipe, &icl_lasso_keys, &icl_points_lasso, table, error));
    if (icl_function_has(&state->law, ICL_CLASS_DECISION_TREE)) {
        add(table, "tree", &icl_points_tree, 0);
        add(table, "tree-signs", &icl_points_tree, 1);
    }
    if (icl_function_has(&state->law, ICL_CLASS_RELU_NETWORK)) {
        icl_recipe_read(recipe, &icl_network_keys, state);
        add(table, "network", &icl_points_network, 0);
    }
    if (state->pool > 0 && state->labels.varies == ICL_NOISE_STEADY)
        add(table, "dmmse", &icl_points_posterior, 0);
    return ICL_OK;
}

const icl_reference_predictor *icl_class_references(const icl_task *task) {
    return ((const icl_function_classes *)task->state)->references->rows;
}

/* ---- The family ---- */

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, LEVELS, COEFFICIENTS, WEIGHTS };

/* The words of a sequence in the stream of choices. */
enum { WORD_FUNCTION = 0, WORD_LEVEL, CHOICE_WORDS };

/* ---- The recipe ---- */

static const icl_choice layouts[] = {
    {"joined", ICL_PROMPT_JOINED}, {"separate", ICL_PROMPT_SEPARATE}, {"pairs", ICL_PROMPT_PAIRS}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(layout), "joined", .choices = layouts,
     .help = "an input and the label before it share a position, or have one each, or it and its own label share one"},
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
    ICL_CHECK(create_references(recipe, sigma.mean_square, state, error));
    state->layout = keys.layout;
    if (state->layout == ICL_PROMPT_PAIRS && state->curriculum.every > 0)
        return icl_recipe_reject(recipe, NAME(curriculum), error, "0 beside task.layout = pairs");
    const icl_prompt_layout layout = lay_out_prompt(&state->prompt, state->layout);
    task->shape.positions = layout.positions;
    task->shape.inputs = layout.inputs;
    task->shape.first_scored = layout.first_scored;
    task->shape.scored = layout.positions - layout.first_scored;
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

/* Returns what sigma is multiplied by at label i < n of a sequence, whose input is x. */
static double noise_factor(icl_noise_change varies, const float *x, size_t i, size_t n) {
    switch (varies) {
    case ICL_NOISE_BY_INPUT:
        return fabs((double)x[0]);
    case ICL_NOISE_BY_PLACE:
        return i < n ? sqrt((double)(2 * i + 1) / (double)n) : 1;
    case ICL_NOISE_STEADY:
    default:
        return 1;
    }
}

/* Writes the tokens and targets of inputs and a function. After the stage's last point everything is 0, labels
 * included. */
static void label(const drawing *picture, size_t index, const double *function, const float *points, double sigma) {
    const icl_label_law *law = &picture->state->labels;
    const icl_prompt_layout layout = lay_out_prompt(&picture->state->prompt, picture->state->layout);
    const size_t d = picture->state->prompt.dimension, count = picture->state->prompt.points,
                 n = picture->stage.context, scored = layout.positions - layout.first_scored;
    float *tokens = picture->out.inputs + index * layout.positions * layout.inputs;
    float *targets = picture->out.targets + index * scored;
    icl_words noise = {.key = picture->noise, .next = (uint64_t)index * ((count + 3) / 4 * 4)};

    for (size_t i = 0; i < count && i <= n; i++) {
        const double value = icl_function_value(&picture->state->law, function, points + i * d);
        const double normal = i < n ? icl_words_normal(&noise) : 0;
        const double own = sigma * noise_factor(law->varies, points + i * d, i, count - 1);
        const double seen = icl_label_draw(law, value, own, normal, picture->rare, (uint64_t)index * count + i);
        const size_t position = i * layout.stride;
        float *token = tokens + position * layout.inputs;
        memcpy(token, points + i * d, d * sizeof *token);
        if (position >= layout.first_scored)
            targets[position - layout.first_scored] = (float)(icl_labels_are_classes(law) ? (seen + 1) / 2 : value);
        if (i < n)
            token[layout.label] = (float)seen;
    }
}

/* Weights the points in use so that their losses count as much in all as those of all positions. */
static void weigh(const drawing *picture, size_t index) {
    const icl_prompt_layout layout = lay_out_prompt(&picture->state->prompt, picture->state->layout);
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
    const size_t d = state->prompt.dimension, points = task->shape.positions, scored = task->shape.scored;
    icl_tensor *scratch = batch->scratch;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, points, task->shape.inputs}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, scored, 1}, &scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &scratch[LEVELS], error));
    batch->targets = scratch[TARGETS];
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_NOISE, scratch[LEVELS], error));
    if (state->law.kind == ICL_CLASS_LINEAR || state->law.kind == ICL_CLASS_SPARSE) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, 1}, &scratch[COEFFICIENTS], error));
        ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, scratch[COEFFICIENTS], error));
    }
    if (state->layout == ICL_PROMPT_SEPARATE || (purpose == ICL_FOR_TRAINING && state->curriculum.every > 0)) {
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
