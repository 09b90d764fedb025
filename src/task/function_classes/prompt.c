#include "task/function_classes/prompt.h"

#include <math.h>

#include "core/recipe_keys.h"
#include "task/draws.h"

static const icl_recipe_key place_rows[] = {
    {"task", "probe_at", ICL_KEY_COUNT, "0", 0, ICL_MAX_EXTENT,
     .help = "pairs before the input that task.probe changes; 0: all n"},
};
static const icl_recipe_group place_keys = ICL_RECIPE_GROUP(place_rows);
static const icl_recipe_group *const place_groups[] = {&place_keys, NULL};

static const icl_choice probes[] = {{"none", ICL_PROBE_NONE},
                                    {"anywhere", ICL_PROBE_ANYWHERE, place_groups},
                                    {"opposite", ICL_PROBE_OPPOSITE, place_groups},
                                    {"orthogonal", ICL_PROBE_ORTHOGONAL, place_groups},
                                    {"repeated", ICL_PROBE_REPEATED, place_groups},
                                    {0}};

static const icl_recipe_key rows[] = {
    {"task", "input_scale", ICL_KEY_NUMBER, "1", 1e-6, 1e6, .help = "factor of the inputs"},
    {"task", "orthant", ICL_KEY_FLAG, "false", .help = "all inputs of a sequence lie in one orthant, which is drawn"},
    {"task", "probe", ICL_KEY_WORD, "none", .choices = probes, .help = "how one input of a sequence differs"},
};
const icl_recipe_group icl_prompt_keys = ICL_RECIPE_GROUP(rows);

icl_status icl_prompt_read(const icl_recipe *recipe, size_t dimension, size_t points, icl_prompt_law *law,
                           icl_error *error) {
    const size_t at = (size_t)icl_recipe_count(recipe, "task", "probe_at");

    *law = (icl_prompt_law){.dimension = dimension,
                            .points = points,
                            .scale = icl_recipe_number(recipe, "task", "input_scale"),
                            .orthant = icl_recipe_flag(recipe, "task", "orthant"),
                            .probe = (icl_probe)icl_recipe_choice(recipe, "task", "probe"),
                            .probe_at = at > 0 ? at : points - 1};
    ICL_CHECK(icl_covariance_read(recipe, dimension, &law->covariance, error));
    if (law->probe != ICL_PROBE_NONE && law->probe_at >= points)
        return icl_recipe_reject(recipe, "task", "probe_at", error, "at most task.n = %zu", points - 1);
    if (law->probe == ICL_PROBE_ORTHOGONAL && law->probe_at >= dimension)
        return icl_recipe_reject(recipe, "task", "probe_at", error,
                                 "less than task.d = %zu: nothing is orthogonal to %zu inputs", dimension,
                                 law->probe_at);
    if ((law->probe == ICL_PROBE_ANYWHERE || law->probe == ICL_PROBE_OPPOSITE) && !law->orthant)
        return icl_recipe_reject(recipe, "task", "probe", error, "another one without task.orthant");
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

static double dot(const double *a, const double *b, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Takes from v its parts along `count` orthonormal vectors, twice, which makes up for the rounding of the first time,
 * and gives it this length. */
static void orthogonalize(const double *basis, size_t count, size_t d, double length, double *v) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t r = 0; r < count; r++) {
            const double share = dot(basis + r * d, v, d);
            for (size_t i = 0; i < d; i++)
                v[i] -= share * basis[r * d + i];
        }
    const double norm = sqrt(dot(v, v, d));
    for (size_t i = 0; i < d && norm > 0; i++)
        v[i] *= length / norm;
}

/* x [n + 1][d]; what stands before x_k is made orthonormal, and is of no more use. */
static void probe_orthogonally(const icl_prompt_law *law, double *x) {
    const size_t d = law->dimension, k = law->probe_at;

    for (size_t i = 0; i < k; i++)
        orthogonalize(x, i, d, 1, x + i * d);
    orthogonalize(x, k, d, law->scale * sqrt((double)d), x + k * d);
}

static void keep_signs(const icl_prompt_law *law, icl_words *from, double *x) {
    const size_t d = law->dimension, k = law->probe_at;

    for (size_t j = 0; j < d; j++) {
        const double sign = icl_words_next(from) >> 31 ? 1 : -1;
        for (size_t i = 0; i < law->points && law->orthant; i++) {
            const bool is_probe = i == k && law->probe != ICL_PROBE_NONE;
            if (!is_probe || law->probe != ICL_PROBE_ANYWHERE)
                x[i * d + j] = (is_probe && law->probe == ICL_PROBE_OPPOSITE ? -sign : sign) * fabs(x[i * d + j]);
        }
    }
}

static void narrow(const double *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

void icl_prompt_draw(const icl_prompt_law *law, icl_random_key key, uint64_t number, double *work, float *inputs) {
    const size_t d = law->dimension, k = law->probe_at, count = law->points * d;
    const uint64_t words = (count + d + 1 + 3) / 4 * 4;
    double *x = work, *g = x + count;
    icl_words from = {.key = key, .next = number * words};

    for (size_t i = 0; i < law->points; i++) {
        for (size_t j = 0; j < d; j++)
            g[j] = icl_words_normal(&from);
        colour(law, g, x + i * d);
    }
    keep_signs(law, &from, x);
    narrow(x, count, inputs);
    if (law->probe == ICL_PROBE_REPEATED) {
        const size_t chosen = (size_t)((uint64_t)icl_words_next(&from) * k >> 32);
        narrow(x + chosen * d, d, inputs + k * d);
    } else if (law->probe == ICL_PROBE_ORTHOGONAL) {
        probe_orthogonally(law, x);
        narrow(x + k * d, d, inputs + k * d);
    }
}

icl_prompt_layout icl_prompt_lay_out(const icl_prompt_law *law, bool is_separate) {
    const size_t d = law->dimension, points = law->points;
    return is_separate ? (icl_prompt_layout){2 * points - 1, d, 2, d}
                       : (icl_prompt_layout){points, d + 1, 1, 2 * d + 1};
}
