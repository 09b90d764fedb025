#include <stdio.h>
#include <stdlib.h>

#include "above/mean.h"

enum { MOST = 8 };

int main(int count, char **arguments) {
    double values[MOST], result;
    size_t given = 0;

    for (int i = 1; i < count && given < MOST; i++)
        values[given++] = strtod(arguments[i], NULL);
    if (!mean(values, given, &result))
        return 2;
    printf("%s than 1: %g\n", result > 1 ? "more" : "less", result);
    return 0;
}
