#include "papers/induction/moments.h"

#include <math.h>

double icl_moments_plateau(const icl_moments *of, double *length) {
    const double start = of->all[0].loss;
    size_t longest = 0;
    double level = (double)NAN;

    for (size_t first = 0; first < of->count; first++) {
        double least = of->all[first].loss, largest = least;
        size_t last = first;
        if (least > .9 * start || least < .5 * log(2))
            continue;
        while (last + 1 < of->count) {
            const double next = of->all[last + 1].loss;
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
    *length = longest > 0 ? of->all[longest].step - of->all[0].step : 0;
    return level;
}

double icl_moments_below(const icl_moments *of, double loss) {
    for (size_t i = 0; i < of->count; i++)
        if (of->all[i].loss < loss)
            return of->all[i].step;
    return (double)NAN;
}

static double value_of(const icl_moment *at, bool induction) {
    return induction ? at->induction : at->previous;
}

double icl_moments_onset(const icl_moments *of, bool induction) {
    double least = value_of(&of->all[0], induction);

    for (size_t i = 0; i < of->count; i++) {
        const double value = value_of(&of->all[i], induction);
        least = fmin(least, value);
        if (value > least + ICL_MOMENTS_RISE)
            return of->all[i].step;
    }
    return (double)NAN;
}
