#include <stdio.h>
#include <stdlib.h>

#include "above/mean.h"

/* A block that leaks is not seen while its address still stands somewhere: the last of several may, not all. */
enum { MOST = 8, TIMES = 8 };

int main(int count, char **arguments) {
    double values[MOST], result;
    size_t given = 0;

    for (int i = 1; i < count && given < MOST; i++)
        values[given++] = strtod(arguments[i], NULL);
    for (int time = 0; time < TIMES; time++)
        if (!mean(values, given, &result))
            return 2;
    printf("%s than 1: %g\n", result > 1 ? "more" : "less", result);
    return 0;
}
