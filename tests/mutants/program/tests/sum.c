#include "below/sum.h"

#include <stdio.h>

int main(void) {
    const double values[] = {1, 2, -4};
    int failed = 0;

    if (sum(values, 3) != -1)
        failed = 1;
    printf("%s 1 - a sum\n", failed ? "not ok" : "ok");
    if (sum_of_positive(values, 3) != 3)
        failed = 1;
    printf("%s 2 - a sum of what is positive\n1..2\n", failed ? "not ok" : "ok");
    return failed;
}
