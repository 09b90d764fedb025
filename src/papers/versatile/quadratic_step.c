/* The construction of quadratic_step.h. Names are those of model/sequence/family.c. */
#include "papers/versatile/quadratic_step.h"

#include <math.h>
#include <string.h>

enum { D = ICL_STEP_D, N = ICL_STEP_N, FEATURES = D * (D + 1) / 2 };

/* The named parameter within the flat vector, and its columns. */
static float *find(const icl_model *model, float *values, const char *name, size_t *columns, size_t *count) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, name) == 0) {
            *columns = info->shape[info->rank - 1];
            *count = info->count;
            return values + info->offset;
        }
    }
    return NULL;
}

/* A matrix that is zero but for what follows. */
static float *clear(const icl_model *model, float *values, const char *name, size_t *columns) {
    size_t count = 0;
    float *at = find(model, values, name, columns, &count);

    if (at)
        memset(at, 0, count * sizeof *at);
    return at;
}

/* The step lengths over features (x_a^2, …, sqrt(2) x_a x_b, …) in the order of their squares first: the trace's
 * direction has 1 / sqrt(d) at each square. */
static double step_between(const icl_quadratic_step *step, size_t i, size_t j) {
    const double both_squares = i < D && j < D ? 1.0 / D : 0;
    return step->traceless * ((i == j) - both_squares) + step->trace * both_squares;
}

/* Hidden number k of the first feed-forward part is a product of coordinates, and feature k stands behind the token. */
static bool construct_features(const icl_model *model, float *values) {
    size_t hidden = 0, width = 0;
    float *gate = clear(model, values, "block.0.feed_forward.gate", &hidden);
    float *up = clear(model, values, "block.0.feed_forward.up", &hidden);
    float *down = clear(model, values, "block.0.feed_forward.down", &width);
    size_t product = D;

    if (!gate || !up || !down || hidden < FEATURES || width < D + 1 + FEATURES)
        return false;
    for (size_t a = 0; a < D; a++)
        for (size_t b = a; b < D; b++) {
            const size_t k = a == b ? a : product++;
            gate[a * hidden + k] = 1;
            up[b * hidden + k] = a == b ? 1 : (float)sqrt(2);
            down[k * width + D + 1 + k] = 1;
        }
    return true;
}

/* Keys are features, queries those times the step lengths, over n and the attention's own factor; values are labels,
 * and the query's label slot collects the prediction. */
bool icl_versatile_construct_step(const icl_model *model, const icl_quadratic_step *lengths, uint32_t seed,
                                  float *values) {
    size_t width = 0;

    icl_model_initialize(model, seed, values);
    float *embedding = clear(model, values, "embedding.weight", &width);
    float *key = clear(model, values, "block.1.mixer.key", &width);
    float *query = clear(model, values, "block.1.mixer.query", &width);
    float *value = clear(model, values, "block.1.mixer.value", &width);
    float *output = clear(model, values, "block.1.mixer.output", &width);
    float *readout = clear(model, values, "readout.weight", &(size_t){0});
    if (!embedding || !key || !query || !value || !output || !readout ||
        !clear(model, values, "block.0.mixer.output", &width) ||
        !clear(model, values, "block.1.feed_forward.down", &width) || !construct_features(model, values))
        return false;
    for (size_t i = 0; i <= D; i++)
        embedding[i * width + i] = 1;
    for (size_t i = 0; i < FEATURES; i++) {
        key[(D + 1 + i) * width + i] = 1;
        for (size_t j = 0; j < FEATURES; j++)
            query[(D + 1 + i) * width + j] = (float)(step_between(lengths, i, j) * sqrt((double)width) / N);
    }
    value[D * width] = 1;
    output[D] = 1;
    readout[D] = 1;
    return true;
}
