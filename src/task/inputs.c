#include "task/inputs.h"

#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/ops.h"
#include "iclab/status.h"
#include "task/numbers.h"
#include "task/radius.h"
#include "task/streams.h"

/* Extents whose squares, summed over a context, stay normal floats. */
static const double LARGEST_EXTENT = 1e15, SMALLEST_EXTENT = 1e-15;

static bool is_extent(double value) {
    return value >= SMALLEST_EXTENT && value <= LARGEST_EXTENT;
}

static icl_status read_uniform(const icl_recipe *recipe, const char *list, icl_inputs *inputs, icl_error *error) {
    double limit = 0;
    size_t count = 0;

    if (!icl_parse_numbers(list, 1, &limit, &count) || count != 1 || !is_extent(limit))
        return icl_recipe_reject(recipe, "task", "inputs", error,
                                 "after uniform: one number from %g to %g, the largest coordinate", SMALLEST_EXTENT,
                                 LARGEST_EXTENT);
    inputs->law = ICL_INPUTS_UNIFORM;
    inputs->limit = (double)(float)limit;
    inputs->variance = inputs->limit * inputs->limit / 3;
    return ICL_OK;
}

static icl_status read_gamma(const icl_recipe *recipe, size_t dimension, const char *list, icl_inputs *inputs,
                             icl_error *error) {
    double values[2] = {0};
    size_t count = 0;

    if (!icl_parse_numbers(list, 2, values, &count) || count != 2)
        return icl_recipe_reject(recipe, "task", "inputs", error,
                                 "after gamma: two numbers, shape and scale of the squared norm");
    if (!(values[0] >= ICL_SMALLEST_SHAPE && values[0] <= ICL_LARGEST_SHAPE))
        return icl_recipe_reject(recipe, "task", "inputs", error, "a shape from %g to %g, not %g", ICL_SMALLEST_SHAPE,
                                 ICL_LARGEST_SHAPE, values[0]);
    if (!is_extent(values[1]))
        return icl_recipe_reject(recipe, "task", "inputs", error, "a scale from %g to %g, not %g", SMALLEST_EXTENT,
                                 LARGEST_EXTENT, values[1]);
    inputs->law = ICL_INPUTS_GAMMA;
    inputs->shape = values[0];
    inputs->scale = values[1];
    inputs->variance = values[0] * values[1] / (double)dimension;
    return ICL_OK;
}

static const icl_recipe_key keys[] = {
    {"task", "inputs", ICL_KEY_TEXT, "normal",
     .help = "law of x: normal | uniform:A (on [-A, A]) | sphere | gamma:K,THETA (of |x|^2)"},
};
const icl_recipe_group icl_inputs_keys = ICL_RECIPE_GROUP(keys);

icl_status icl_inputs_read(const icl_recipe *recipe, size_t dimension, icl_inputs *inputs, icl_error *error) {
    static const char uniform[] = "uniform:", gamma[] = "gamma:";
    const char *text = icl_recipe_text(recipe, "task", "inputs");

    *inputs = (icl_inputs){.variance = 1};
    if (strcmp(text, "normal") == 0)
        return ICL_OK;
    if (strcmp(text, "sphere") == 0) {
        inputs->law = ICL_INPUTS_SPHERE;
        inputs->variance = 1 / (double)dimension;
        return ICL_OK;
    }
    if (strncmp(text, uniform, sizeof uniform - 1) == 0)
        return read_uniform(recipe, text + sizeof uniform - 1, inputs, error);
    if (strncmp(text, gamma, sizeof gamma - 1) == 0)
        return read_gamma(recipe, dimension, text + sizeof gamma - 1, inputs, error);
    return icl_recipe_reject(recipe, "task", "inputs", error, "normal, uniform:A, sphere or gamma:SHAPE,SCALE");
}

bool icl_inputs_have_radii(const icl_inputs *inputs) {
    return inputs->law == ICL_INPUTS_GAMMA;
}

icl_status icl_inputs_write_table(const icl_inputs *inputs, icl_tensor table, icl_error *error) {
    double values[ICL_CHI_PIECES * ICL_CHI_TERMS];

    icl_radius_table(inputs->shape, inputs->scale, values);
    return icl_tensor_write_double(table, values, error);
}

icl_status icl_inputs_sample(const icl_inputs *inputs, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                             uint64_t step, icl_tensor out, icl_tensor normals, icl_tensor table, icl_error *error) {
    icl_random_params law = {.key = {seed, icl_task_stream(purpose, ICL_ROLE_INPUTS), step},
                             .distribution = ICL_NORMAL};
    const icl_random_params radius = {.key = {seed, icl_stream_for(purpose, ICL_RADIUS_STREAMS), step},
                                      .distribution = ICL_NORMAL};

    if (inputs->law == ICL_INPUTS_UNIFORM) {
        law.distribution = ICL_UNIFORM;
        law.low = -(float)inputs->limit;
        law.high = (float)inputs->limit;
    }
    ICL_CHECK(icl_random_fill(backend, &law, out, error));
    if (icl_inputs_have_radii(inputs))
        ICL_CHECK(icl_random_fill(backend, &radius, normals, error));
    if (inputs->law == ICL_INPUTS_SPHERE || inputs->law == ICL_INPUTS_GAMMA)
        ICL_CHECK(icl_spherical(backend, out, out, normals, table, error));
    return ICL_OK;
}
