#pragma once

#include <stddef.h>

double sum(const double *values, size_t count);
double sum_of_positive(const double *values, size_t count);
double *copy(const double *values, size_t count);
int never_called(int value);
