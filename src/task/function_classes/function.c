#include "task/function_classes/function.h"

#include <math.h>

#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"

#define SQRT_1_3 0.57735026918962576451

static const icl_recipe_key support_rows[] = {
    {"task", "support", ICL_KEY_COUNT, "3", 1, ICL_MAX_EXTENT, .help = "weights of a sparse function that are not 0"},
};
static const icl_recipe_key hidden_rows[] = {
    {"task", "hidden_units", ICL_KEY_COUNT, "100", 1, 65536, .help = "of a two-layer network that is to be learned"},
};
static const icl_recipe_key depth_rows[] = {
    {"task", "depth", ICL_KEY_COUNT, "4", 0, 16, .help = "of a decision tree that is to be learned"},
};
static const icl_recipe_group support_keys = ICL_RECIPE_GROUP(support_rows),
                              hidden_keys = ICL_RECIPE_GROUP(hidden_rows), depth_keys = ICL_RECIPE_GROUP(depth_rows);
static const icl_recipe_group *const sparse_groups[] = {&support_keys, &icl_lasso_keys, NULL};
static const icl_recipe_group *const network_groups[] = {&hidden_keys, &icl_network_keys, NULL};
static const icl_recipe_group *const tree_groups[] = {&depth_keys, NULL};

static const icl_choice classes[] = {{"linear", ICL_CLASS_LINEAR},
                                     {"sparse", ICL_CLASS_SPARSE, sparse_groups},
                                     {"relu-network", ICL_CLASS_RELU_NETWORK, network_groups},
                                     {"decision-tree", ICL_CLASS_DECISION_TREE, tree_groups},
                                     {"quadratic", ICL_CLASS_QUADRATIC},
                                     {0}};

static const icl_recipe_key rows[] = {
    {"task", "class", ICL_KEY_WORD, "linear", .choices = classes, .help = "functions that sequences are of"},
    {"task", "output_scale", ICL_KEY_NUMBER, "1", 1e-6, 1e6, .help = "factor of the functions' values"},
};
const icl_recipe_group icl_function_keys = ICL_RECIPE_GROUP(rows);

icl_status icl_function_read(const icl_recipe *recipe, size_t dimension, icl_function_law *law, icl_error *error) {
    *law = (icl_function_law){.kind = (icl_function_class)icl_recipe_choice(recipe, "task", "class"),
                              .dimension = dimension,
                              .support = (size_t)icl_recipe_count(recipe, "task", "support"),
                              .hidden = (size_t)icl_recipe_count(recipe, "task", "hidden_units"),
                              .depth = (size_t)icl_recipe_count(recipe, "task", "depth"),
                              .scale = icl_recipe_number(recipe, "task", "output_scale")};
    if (law->kind == ICL_CLASS_SPARSE && law->support > dimension)
        return icl_recipe_reject(recipe, "task", "support", error, "at most the %zu coordinates of x", dimension);
    return ICL_OK;
}

static size_t inner_nodes(const icl_function_law *law) {
    return ((size_t)1 << law->depth) - 1;
}

size_t icl_function_size(const icl_function_law *law) {
    switch (law->kind) {
    case ICL_CLASS_RELU_NETWORK:
        return law->hidden * (law->dimension + 1);
    case ICL_CLASS_DECISION_TREE:
        return 2 * inner_nodes(law) + 1;
    default:
        return law->dimension;
    }
}

/* A word for each double, and two for each weight of a sparse function: its coordinate and its value. */
static uint64_t count_words(const icl_function_law *law) {
    const uint64_t words = law->kind == ICL_CLASS_SPARSE ? 2 * law->support : icl_function_size(law);
    return (words + 3) / 4 * 4;
}

static size_t draw_below(icl_words *from, size_t count) {
    return (size_t)((uint64_t)icl_words_next(from) * count >> 32);
}

/* No normal is 0, so that 0 marks the coordinates that are left. */
static void draw_sparse(const icl_function_law *law, icl_words *from, double *w) {
    for (size_t i = 0; i < law->dimension; i++)
        w[i] = 0;
    for (size_t j = 0; j < law->support; j++) {
        size_t passed = draw_below(from, law->dimension - j), at = 0;
        while (w[at] != 0 || passed > 0)
            passed -= w[at++] == 0;
        w[at] = icl_words_normal(from);
    }
}

void icl_function_draw(const icl_function_law *law, icl_random_key key, uint64_t number, double *function) {
    const size_t size = icl_function_size(law), nodes = law->kind == ICL_CLASS_DECISION_TREE ? inner_nodes(law) : 0;
    icl_words from = {.key = key, .next = number * count_words(law)};

    if (law->kind == ICL_CLASS_SPARSE) {
        draw_sparse(law, &from, function);
        return;
    }
    for (size_t i = 0; i < nodes; i++)
        function[i] = (double)draw_below(&from, law->dimension);
    for (size_t i = nodes; i < size; i++)
        function[i] = icl_words_normal(&from);
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
    switch (law->kind) {
    case ICL_CLASS_RELU_NETWORK:
        return law->scale * network_value(law, function, x);
    case ICL_CLASS_DECISION_TREE:
        return law->scale * tree_value(law, function, x);
    case ICL_CLASS_QUADRATIC:
        return law->scale * square_product(function, x, law->dimension);
    default:
        return law->scale * product(function, x, law->dimension);
    }
}

double icl_function_mean_square(const icl_function_law *law) {
    const double unit = law->kind == ICL_CLASS_SPARSE          ? (double)law->support
                        : law->kind == ICL_CLASS_DECISION_TREE ? 1
                                                               : (double)law->dimension;
    return law->scale * law->scale * unit;
}
