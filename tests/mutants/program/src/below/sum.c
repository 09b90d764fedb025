#include "below/sum.h"

#include <stdlib.h>
#include <string.h>

double sum(const double *values, size_t count) {
    double total = 0.0;

    for (size_t i = 0; i < count; i++)
        total += values[i];
    return total;
}

/* No test gives a value that is 0, where > and >= are the same anyway. */
double sum_of_positive(const double *values, size_t count) {
    double total = 0.0;

    for (size_t i = 0; i < count; i++)
        if (values[i] > 0)
            total += values[i];
    return total;
}

double *copy(const double *values, size_t count) {
    double *made = malloc(count * sizeof *made);

    if (made)
        memcpy(made, values, count * sizeof *made);
    return made;
}

int never_called(int value) {
    return value + 7;
}
