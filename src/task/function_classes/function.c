#include "task/function_classes/function.h"

#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/number.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/streams.h"

#define SQRT_1_3 0.57735026918962576451

/* ---- Mixtures ---- */

/* Recipe keys of functions; members have the keys' names. */
typedef struct function_keys {
    icl_function_class class;
    const char *mixture;
    size_t support, hidden_units, depth;
    double output_scale;
} function_keys;

#define KEY(field)  ICL_KEY("task", function_keys, field)
#define NAME(field) ICL_KEY_NAME("task", function_keys, field)

static const icl_recipe_key mixture_rows[] = {
    {KEY(mixture), "linear:1,sparse:1",
     .help = "classes of a mixture and their weights: CLASS:WEIGHT,CLASS:WEIGHT,..."},
};
static const icl_recipe_group mixture_keys = ICL_RECIPE_GROUP(mixture_rows);

static icl_status reject_mixture(const icl_recipe *recipe, const char *item, size_t length, const char *why,
                                 icl_error *error) {
    return icl_recipe_reject(recipe, NAME(mixture), error, "CLASS:WEIGHT,CLASS:WEIGHT,... of task.class: \"%.*s\" %s",
                             (int)length, item, why);
}

/* Reads one CLASS:WEIGHT of this length. */
static icl_status read_item(const icl_recipe *recipe, const icl_choice *words, const char *item, size_t length,
                            icl_mixture *mixture, icl_error *error) {
    const char *colon = memchr(item, ':', length);
    const size_t name = colon ? (size_t)(colon - item) : length;
    double weight = 1;

    while (words->word && (strlen(words->word) != name || memcmp(words->word, item, name) != 0))
        words++;
    if (!words->word || words->value == ICL_CLASS_MIXTURE)
        return reject_mixture(recipe, item, length, "is none", error);
    for (size_t i = 0; i < mixture->count; i++)
        if ((int)mixture->classes[i] == words->value)
            return reject_mixture(recipe, item, length, "is there twice", error);
    if (colon && !(icl_parse_number(colon + 1, length - name - 1, &weight) && weight >= 1e-6 && weight <= 1e6))
        return reject_mixture(recipe, item, length, "has no weight from 1e-6 to 1e6", error);
    if (mixture->count == ICL_MOST_COMPONENTS)
        return reject_mixture(recipe, item, length, "is one too many", error);
    mixture->classes[mixture->count] = (icl_function_class)words->value;
    mixture->shares[mixture->count++] = weight;
    return ICL_OK;
}

/* Reads task.mixture: words of task.class, except mixture itself, with positive weights. */
static icl_status read_mixture(const icl_recipe *recipe, const char *text, const icl_choice *words,
                               icl_mixture *mixture, icl_error *error) {
    double total = 0;

    *mixture = (icl_mixture){0};
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        ICL_CHECK(read_item(recipe, words, at, length, mixture, error));
        at += length;
        if (!*at)
            break;
    }
    for (size_t i = 0; i < mixture->count; i++)
        total += mixture->shares[i];
    for (size_t i = 0; i < mixture->count; i++)
        mixture->shares[i] /= total;
    return ICL_OK;
}

/* Returns the index of the component that a random word chooses. */
static size_t choose_component(const icl_mixture *mixture, uint32_t word) {
    const double place = ((double)word + .5) * 0x1p-32;
    double below = 0;

    for (size_t i = 0; i + 1 < mixture->count; i++) {
        below += mixture->shares[i];
        if (place < below)
            return i;
    }
    return mixture->count - 1;
}

/* ---- The recipe ---- */

static const icl_recipe_key support_rows[] = {
    {KEY(support), "3", 1, ICL_MAX_EXTENT, .help = "weights of a sparse function that are not 0"},
};
static const icl_recipe_key hidden_rows[] = {
    {KEY(hidden_units), "100", 1, 65536, .help = "of a two-layer network that is to be learned"},
};
static const icl_recipe_key depth_rows[] = {
    {KEY(depth), "4", 0, 16, .help = "of a decision tree that is to be learned"},
};
static const icl_recipe_group support_keys = ICL_RECIPE_GROUP(support_rows),
                              hidden_keys = ICL_RECIPE_GROUP(hidden_rows), depth_keys = ICL_RECIPE_GROUP(depth_rows);
static const icl_recipe_group *const sparse_groups[] = {&support_keys, &icl_lasso_keys, NULL};
static const icl_recipe_group *const network_groups[] = {&hidden_keys, &icl_network_keys, NULL};
static const icl_recipe_group *const tree_groups[] = {&depth_keys, NULL};
static const icl_recipe_group *const mixture_groups[] = {
    &mixture_keys, &support_keys, &icl_lasso_keys, &hidden_keys, &icl_network_keys, &depth_keys, NULL};

static const icl_choice classes[] = {{"linear", ICL_CLASS_LINEAR},
                                     {"sparse", ICL_CLASS_SPARSE, sparse_groups},
                                     {"relu-network", ICL_CLASS_RELU_NETWORK, network_groups},
                                     {"decision-tree", ICL_CLASS_DECISION_TREE, tree_groups},
                                     {"quadratic", ICL_CLASS_QUADRATIC},
                                     {"threshold", ICL_CLASS_THRESHOLD},
                                     {"mixture", ICL_CLASS_MIXTURE, mixture_groups},
                                     {0}};

static const icl_recipe_key rows[] = {
    {KEY(class), "linear", .choices = classes, .help = "functions that sequences are of"},
    {KEY(output_scale), "1", 1e-6, 1e6, .help = "factor of the functions' values"},
};
const icl_recipe_group icl_function_keys = ICL_RECIPE_GROUP(rows);

/* A mixture brings the keys of all classes into use; those of classes that it lacks keep their defaults. */
static icl_status check_components(const icl_recipe *recipe, const icl_function_law *law, icl_error *error) {
    for (const icl_choice *class = classes; class->word; class ++) {
        if (class->value == ICL_CLASS_MIXTURE || icl_function_has(law, (icl_function_class) class->value))
            continue;
        for (const icl_recipe_group *const *group = class->keys; group && *group; group++)
            for (const icl_recipe_key *key = (*group)->rows; key < (*group)->rows + (*group)->count; key++)
                if (icl_recipe_left_default(recipe, key->section, key->name))
                    return icl_recipe_reject(recipe, key->section, key->name, error,
                                             "%s, its default, or %s in task.mixture", key->default_value, class->word);
    }
    return ICL_OK;
}

icl_status icl_function_read(const icl_recipe *recipe, size_t dimension, icl_function_law *law, icl_error *error) {
    const icl_recipe_group *const groups[] = {&icl_function_keys, &mixture_keys, &support_keys,
                                              &hidden_keys,       &depth_keys,   NULL};
    function_keys keys;

    for (const icl_recipe_group *const *group = groups; *group; group++)
        icl_recipe_read(recipe, *group, &keys);
    *law = (icl_function_law){.kind = keys.class,
                              .dimension = dimension,
                              .support = keys.support,
                              .hidden = keys.hidden_units,
                              .depth = keys.depth,
                              .scale = keys.output_scale};
    if (law->kind == ICL_CLASS_MIXTURE) {
        ICL_CHECK(read_mixture(recipe, keys.mixture, classes, &law->mixture, error));
        ICL_CHECK(check_components(recipe, law, error));
    }
    if (icl_function_has(law, ICL_CLASS_SPARSE) && law->support > dimension)
        return icl_recipe_reject(recipe, NAME(support), error, "at most the %zu coordinates of x", dimension);
    return ICL_OK;
}

const char *icl_function_class_name(icl_function_class kind) {
    const icl_choice *class = classes;
    while (class->value != (int)kind)
        class ++;
    return class->word;
}

bool icl_function_has(const icl_function_law *law, icl_function_class kind) {
    for (size_t i = 0; i < icl_function_components(law); i++)
        if (icl_function_component(law, i) == kind)
            return true;
    return false;
}

/* ---- Functions in doubles ---- */

static size_t inner_nodes(const icl_function_law *law) {
    return ((size_t)1 << law->depth) - 1;
}

static size_t size_of(const icl_function_law *law, icl_function_class kind) {
    switch (kind) {
    case ICL_CLASS_RELU_NETWORK:
        return law->hidden * (law->dimension + 1);
    case ICL_CLASS_DECISION_TREE:
        return 2 * inner_nodes(law) + 1;
    default:
        return law->dimension;
    }
}

/* Returns the number of words of a function: one for each double, but for a sparse function two for each weight, its
 * coordinate and its value. */
static size_t words_of(const icl_function_law *law, icl_function_class kind) {
    return kind == ICL_CLASS_SPARSE ? 2 * law->support : size_of(law, kind);
}

/* Returns the largest measure of a component, and one more in a mixture, to say which component it is. */
static size_t largest(const icl_function_law *law, size_t (*measure)(const icl_function_law *, icl_function_class)) {
    size_t most = 0;
    for (size_t i = 0; i < icl_function_components(law); i++) {
        const size_t own = measure(law, icl_function_component(law, i));
        most = own > most ? own : most;
    }
    return most + (law->kind == ICL_CLASS_MIXTURE);
}

size_t icl_function_size(const icl_function_law *law) {
    return largest(law, size_of);
}

static size_t draw_below(icl_words *stream, size_t count) {
    return (size_t)((uint64_t)icl_words_next(stream) * count >> 32);
}

/* Draws a sparse function. Since no normal is 0, 0 marks the coordinates that are left. */
static void draw_sparse(const icl_function_law *law, icl_words *stream, double *w) {
    for (size_t i = 0; i < law->dimension; i++)
        w[i] = 0;
    for (size_t j = 0; j < law->support; j++) {
        size_t passed = draw_below(stream, law->dimension - j), at = 0;
        while (w[at] != 0 || passed > 0)
            passed -= w[at++] == 0;
        w[at] = icl_words_normal(stream);
    }
}

static void draw(const icl_function_law *law, icl_function_class kind, icl_words *stream, double *function) {
    const size_t size = size_of(law, kind), nodes = kind == ICL_CLASS_DECISION_TREE ? inner_nodes(law) : 0;

    if (kind == ICL_CLASS_SPARSE) {
        draw_sparse(law, stream, function);
        return;
    }
    for (size_t i = 0; i < nodes; i++)
        function[i] = (double)draw_below(stream, law->dimension);
    for (size_t i = nodes; i < size; i++)
        function[i] = icl_words_normal(stream);
}

void icl_function_draw(const icl_function_law *law, icl_random_key key, uint64_t number, double *function) {
    const uint64_t words = (largest(law, words_of) + 3) / 4 * 4;
    icl_words stream = {.key = key, .next = number * words};

    if (law->kind == ICL_CLASS_MIXTURE) {
        const size_t chosen = choose_component(&law->mixture, icl_words_next(&stream));
        *function++ = (double)chosen;
        draw(law, icl_function_component(law, chosen), &stream, function);
    } else {
        draw(law, law->kind, &stream, function);
    }
}

void icl_function_of_pool(const icl_function_classes *state, uint64_t m, double *function) {
    icl_function_draw(&state->law, (icl_random_key){.seed = state->pool_key, .stream = ICL_CLASSES_POOL_STREAM}, m,
                      function);
}

static double product(const double *w, const float *x, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += w[i] * (double)x[i];
    return sum;
}

static double square_product(const double *w, const float *x, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += w[i] * ((double)x[i] * (double)x[i]);
    return SQRT_1_3 * sum;
}

static double network_value(const icl_function_law *law, const double *function, const float *x) {
    const size_t d = law->dimension, h = law->hidden;
    double sum = 0;

    for (size_t j = 0; j < h; j++) {
        const double unit = product(function + j * d, x, d);
        sum += unit > 0 ? function[h * d + j] * unit : 0;
    }
    return sqrt(2 / (double)h) * sum;
}

static double tree_value(const icl_function_law *law, const double *function, const float *x) {
    size_t node = 0;
    for (size_t level = 0; level < law->depth; level++)
        node = 2 * node + (x[(size_t)function[node]] > 0 ? 2 : 1);
    return function[node];
}

double icl_function_value(const icl_function_law *law, const double *function, const float *x) {
    icl_function_class kind = law->kind;

    if (kind == ICL_CLASS_MIXTURE)
        kind = icl_function_component(law, (size_t)*function++);
    switch (kind) {
    case ICL_CLASS_RELU_NETWORK:
        return law->scale * network_value(law, function, x);
    case ICL_CLASS_DECISION_TREE:
        return law->scale * tree_value(law, function, x);
    case ICL_CLASS_QUADRATIC:
        return law->scale * square_product(function, x, law->dimension);
    case ICL_CLASS_THRESHOLD:
        return product(function, x, law->dimension) > 0 ? law->scale : -law->scale;
    default:
        return law->scale * product(function, x, law->dimension);
    }
}

static double mean_square_of(const icl_function_law *law, icl_function_class kind) {
    if (kind == ICL_CLASS_SPARSE)
        return (double)law->support;
    return kind == ICL_CLASS_DECISION_TREE || kind == ICL_CLASS_THRESHOLD ? 1 : (double)law->dimension;
}

double icl_function_mean_square(const icl_function_law *law) {
    double sum = 0;
    for (size_t i = 0; i < icl_function_components(law); i++)
        sum += icl_function_share(law, i) * mean_square_of(law, icl_function_component(law, i));
    return law->scale * law->scale * sum;
}
