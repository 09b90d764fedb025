#include <float.h>

#include "conformance/case.h"

double icl_gamma(double k, double unit) {
    return k * unit / (1 - k * unit);
}

double icl_device_rounded(const icl_truth *truth, double value) {
    return truth->unit > DBL_EPSILON ? (double)(float)value : value;
}
