#include "task/function_classes/noise_levels.h"

#include <math.h>
#include <stdbool.h>

enum { NODES = 4 };

/* Of log(sigma / S). */
static const double LOWEST = -7, WIDEST = .5;

/* Abramowitz and Stegun, table 25.4, n = 4. */
static const double nodes[NODES] = {-.8611363115940526, -.3399810435848563, .3399810435848563, .8611363115940526};
static const double weights[NODES] = {.3478548451374538, .6521451548625461, .6521451548625461, .3478548451374538};

static bool is_continuous(const icl_random_params *law) {
    return law->distribution == ICL_UNIFORM && law->high > 0;
}

static size_t count_panels(size_t labels) {
    return (size_t)ceil(-LOWEST / fmin(WIDEST, 1 / sqrt(2 * (double)(labels > 0 ? labels : 1))));
}

size_t icl_noise_level_count(const icl_random_params *law, size_t labels) {
    if (is_continuous(law))
        return 1 + NODES * count_panels(labels);
    return law->distribution == ICL_UNIFORM ? 1 : law->choice_count;
}

double icl_noise_level(const icl_random_params *law, size_t labels, size_t i, double *share) {
    if (!is_continuous(law)) {
        *share = 1 / (double)icl_noise_level_count(law, labels);
        return law->distribution == ICL_UNIFORM ? 0 : (double)law->choices[i];
    }
    if (i == 0) {
        *share = exp(LOWEST);
        return (double)law->high * exp(LOWEST);
    }
    const double half = -LOWEST / (double)count_panels(labels) / 2;
    const size_t panel = (i - 1) / NODES, node = (i - 1) % NODES;
    const double t = LOWEST + half * (double)(2 * panel + 1) + half * nodes[node];
    *share = half * weights[node] * exp(t);
    return (double)law->high * exp(t);
}
