#include "task/function_classes/predictors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_keys.h"
#include "numeric/parallel.h"
#include "task/task.h"

enum { MOST_REFERENCES = 36, MOST_PENALTIES = 12, NAME = 32 };

/* The settings that a row of the table points to. */
typedef struct settings {
    const icl_points_predictor *predictor;
    double number;
    char name[NAME];
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

/* ---- One sequence ---- */

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
    const icl_prompt_layout layout = icl_prompt_lay_out(&state->prompt, state->is_separate);
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
    for (size_t i = 0; i < layout.positions; i++)
        outputs[i] = i % layout.stride == 0 ? found[i / layout.stride] : 0;
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

/* ---- Without regression ---- */

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

/* ---- The table ---- */

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
        char name[NAME];
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
        char name[NAME];
        snprintf(name, sizeof name, "bayes:%s", icl_function_class_name(kind));
        if (icl_bayes_exists(state, (int)kind))
            add(table, name, &icl_points_bayes, (double)kind);
    }
}

/* Returns whether labels can differ from values, with this mean of sigma^2. */
static bool is_noisy(const icl_noise_law *law, double mean_square) {
    return mean_square > 0 || (law->outliers > 0 && !law->multiplies);
}

icl_status icl_class_references_create(const icl_recipe *recipe, double mean_square_noise, icl_function_classes *state,
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
    if (state->labels.noise.freedom > 0 || state->labels.noise.outliers > 0)
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
    if (state->pool > 0)
        add(table, "dmmse", &icl_points_posterior, 0);
    return ICL_OK;
}

const icl_reference_predictor *icl_class_references(const icl_task *task) {
    return ((const icl_function_classes *)task->state)->references->rows;
}
