#include "papers/induction/moments.h"

#include <math.h>

double icl_moments_plateau(const icl_moments *moments, double *length) {
    const double start = moments->all[0].loss;
    size_t longest = 0;
    double level = (double)NAN;

    for (size_t first = 0; first < moments->count; first++) {
        double least = moments->all[first].loss, largest = least;
        size_t last = first;
        if (least > .9 * start || least < .5 * log(2))
            continue;
        while (last + 1 < moments->count) {
            const double next = moments->all[last + 1].loss;
            if (next < .5 * log(2) || fmax(largest, next) - fmin(least, next) > ICL_MOMENTS_BAND)
                break;
            least = fmin(least, next);
            largest = fmax(largest, next);
            last++;
        }
        if (last - first > longest) {
            longest = last - first;
            level = .5 * (least + largest);
        }
    }
    *length = longest > 0 ? moments->all[longest].step - moments->all[0].step : 0;
    return level;
}

double icl_moments_below(const icl_moments *moments, double loss) {
    for (size_t i = 0; i < moments->count; i++)
        if (moments->all[i].loss < loss)
            return moments->all[i].step;
    return (double)NAN;
}

static double value_of(const icl_moment *at, bool induction) {
    return induction ? at->induction : at->previous;
}

double icl_moments_onset(const icl_moments *moments, bool induction) {
    double least = value_of(&moments->all[0], induction);

    for (size_t i = 0; i < moments->count; i++) {
        const double value = value_of(&moments->all[i], induction);
        least = fmin(least, value);
        if (value > least + ICL_MOMENTS_RISE)
            return moments->all[i].step;
    }
    return (double)NAN;
}
