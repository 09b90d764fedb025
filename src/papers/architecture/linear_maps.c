#include "papers/architecture/linear_maps.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "probe/linearity.h"

/* Of this file alone; tasks have streams of their own (task/streams.h). */
#define NOISE_STREAM 0x6c696e65u

enum { TOKENS = 4096, WIDTH = 32 };

/* Rows X, and rows Y that a map makes of them. */
typedef struct control {
    float x[TOKENS * WIDTH], y[TOKENS * WIDTH];
} control;

static float normal(uint32_t seed, uint32_t matrix, size_t index) {
    const icl_random_key key = {.seed = seed, .stream = NOISE_STREAM, .step = matrix};
    return icl_normal_from_word(icl_random_word(key, index));
}

/* Y = X (I - 2 v v^T / |v|^2), a reflection. */
static void reflect(control *c, uint32_t seed) {
    double square = 0;

    for (size_t i = 0; i < WIDTH; i++)
        square += pow((double)normal(seed, 3, i), 2);
    for (size_t t = 0; t < TOKENS; t++) {
        double product = 0;
        for (size_t i = 0; i < WIDTH; i++)
            product += (double)c->x[t * WIDTH + i] * (double)normal(seed, 3, i);
        for (size_t i = 0; i < WIDTH; i++)
            c->y[t * WIDTH + i] =
                (float)((double)c->x[t * WIDTH + i] - 2 * product / square * (double)normal(seed, 3, i));
    }
}

/* A linear map leaves no residual but that of rounding: of floats, whose square is below 2^-46 of the values', and of
 * sums of TOKENS doubles. */
icl_status icl_linear_maps_judge(icl_reproducing *run, icl_error *error) {
    const double n = TOKENS - 1, r = WIDTH, se = sqrt(2 * r * (n - r) / (n * n * (WIDTH * n + 2)));
    const uint32_t seed = run->params->seed;
    icl_linearity is;
    control *c = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *c, "controls", &c, error));
    for (size_t i = 0; i < (size_t)TOKENS * WIDTH; i++)
        c->x[i] = normal(seed, 1, i);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->x, &is, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "identity", .quantity = "linearity score", .ours = is.score, .target = 1,
                      .tolerance = 1e-12, .evidence = ICL_COMPUTED, .source = "a linear map"));
    reflect(c, seed);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->y, &is, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "an orthogonal map", .quantity = "linearity score", .ours = is.score,
                      .target = 1, .tolerance = 1e-12, .evidence = ICL_COMPUTED, .source = "a linear map"));
    for (size_t i = 0; i < (size_t)TOKENS * WIDTH; i++)
        c->y[i] = normal(seed, 2, i);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->y, &is, error));
    /* 4: a row in 16,000 is farther off by chance. */
    ICL_TRY(ICL_FOUND(run, error, .what = "independent noise", .quantity = "linearity score", .ours = is.score,
                      .standard_error = se, .target = r / n, .tolerance = 4 * se, .evidence = ICL_COMPUTED,
                      .source = "dimensions over tokens"));
done:
    icl_free(&c);
    return status;
}
