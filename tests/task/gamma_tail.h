/* The gamma distribution by libm, for tests of tables and of numbers drawn from them. */
#ifndef ICLAB_TESTS_GAMMA_TAIL_H
#define ICLAB_TESTS_GAMMA_TAIL_H

#include <math.h>
#include <stdbool.h>

/* Returns P(a, x), or 1 - P(a, x): the series if x < a + 1, else Lentz's continued fraction (Abramowitz and Stegun
 * 6.5.29, 6.5.31). */
static inline double gamma_tail(double a, double x, bool upper) {
    const double factor = exp(a * log(x) - x - lgamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int j = 1; term > 1e-17 * sum; j++)
            sum += term *= x / (a + j);
        return upper ? 1 - factor * sum : factor * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d, change = 0;
    for (int j = 1; fabs(change - 1) > 1e-16 && j < 1000000; j++) {
        const double step = -j * (j - a);
        b += 2;
        d = 1 / (step * d + b);
        c = b + step / c;
        change = d * c;
        fraction *= change;
    }
    return upper ? factor * fraction : 1 - factor * fraction;
}

#endif
