#include "above/mean.h"

#include <stdlib.h>

#include "below/sum.h"

enum { EACH = 1 };

int mean(const double *values, size_t count, double *result) {
    double *own;

    if (count == 0)
        return 0;
    own = copy(values, count);
    if (!own)
        return 0;
    for (size_t i = 0; i < count; i++) /* a zero loses its sign */
        own[i] += 0.0;
    *result = ratio(sum(own, count * EACH), (double)count);
    free(own);
    return 1;
}

double ratio(double above, double below) {
    return above / below;
}
