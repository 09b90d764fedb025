/* Tests statistics of small samples against numbers by hand. */
#include "numeric/statistics.h"

#include <math.h>

#include "tap.h"

/* Tests locations of -1, 0, … 9998, with one value far out. */
static void test_locations(tap_run *tap) {
    enum { COUNT = 10000 };
    static double values[COUNT];
    icl_location median, middle, mean;

    for (int i = 0; i < COUNT; i++)
        values[i] = i == 17 ? 1e12 : i - 1.0;
    mean = icl_locate_mean(values, COUNT);
    median = icl_locate_median(values, COUNT);
    middle = icl_locate_middle_mean(values, COUNT, 0.1);
    tap_ok(tap, mean.value > 1e7 && mean.low < 0 && mean.high > 1e8, "one value takes the mean with it: %g -+ %g",
           mean.value, mean.standard_error);
    tap_ok(tap, median.value == 4999.5 && median.low == 4900 && median.high == 5100 && median.standard_error == 50,
           "not the median, whose interval is of order statistics: %g in %g to %g", median.value, median.low,
           median.high);
    tap_ok(tap, middle.value == 4999.5, "nor the mean of the middle: %g", middle.value);
}

static void test_middle_mean(tap_run *tap) {
    double values[] = {-100, 1, 2, 4, 9, 10, 11, 12, 13, 500}, few[] = {3, 1};
    /* The value at each end is replaced by its neighbour: 1 1 2 4 9 10 11 12 13 13. */
    const double winsorized[] = {1, 1, 2, 4, 9, 10, 11, 12, 13, 13};
    icl_location is = icl_locate_middle_mean(values, 10, 0.1);

    tap_ok(tap, is.value == 62.0 / 8, "the mean of the middle eight of ten");
    tap_ok(tap, fabs(is.standard_error - icl_standard_error(winsorized, 10) / 0.8) < 1e-12, "its standard error: %g",
           is.standard_error);
    tap_ok(tap, fabs(is.high - is.value - 2 * is.standard_error) < 1e-12 && is.low + is.high == 2 * is.value,
           "and two of them either way");
    is = icl_locate_middle_mean(few, 2, 0.1);
    tap_ok(tap, is.value == 2 && is.standard_error == 1, "of two values, none is left out");
    is = icl_locate_median(few, 2);
    tap_ok(tap, is.value == 2 && is.low == 1 && is.high == 3, "their median lies between them");
    tap_ok(tap, isnan(icl_locate_median(few, 0).value), "and of none it is NaN");
}

int main(void) {
    tap_run tap = {0};
    double odd[] = {5, 1, 3}, even[] = {4, 1, (double)NAN, 2}, tail[] = {100, 1, 2, 3, (double)NAN, 4, 5, 6, 7, 8};
    double powers[] = {2, 16, 1, 8, 4};
    const double steps[] = {1, 2, 3, 6}, ranks[] = {1, 2, 3, 4};

    tap_ok(&tap, icl_median(odd, 3) == 3, "the median of three is the middle one");
    tap_ok(&tap, icl_median(even, 4) == 3 && icl_lower_median(even, 4) == 2, "of four, with NaN as the largest");
    tap_ok(&tap, isnan(icl_median(odd, 0)), "and of none NaN");
    tap_ok(&tap, icl_trimmed_mean(tail, 10, 0.2) == 4.5, "the trimmed mean leaves out the largest and NaN");
    tap_ok(&tap, icl_mean(steps, 4) == 3, "mean");
    tap_ok(&tap, fabs(icl_standard_error(steps, 4) - sqrt(14.0 / 3 / 4)) < 1e-15 && icl_standard_error(steps, 1) == 0,
           "its standard error, 0 for one value");
    tap_ok(&tap,
           fabs(icl_standard_error_of_sums(12, 50, 4) - sqrt(14.0 / 3 / 4)) < 1e-15 &&
               icl_standard_error_of_sums(3, 9, 1) == 0 && icl_standard_error_of_sums(6, 12, 3) == 0,
           "the same by sums, 0 for one value and for equal ones");
    /* Hill's estimator is 1 over the mean of ln(x / x_(k + 1)) over the k largest. */
    tap_ok(&tap,
           fabs(icl_tail_index(powers, 5, 2) - 2 / (3 * log(2))) < 1e-15 &&
               fabs(icl_tail_index(powers, 5, 4) - 4 / (10 * log(2))) < 1e-15,
           "the tail index of powers of two");
    /* The places are ceil(.5 5) = 3 and ceil(.8 5) = 4 of four; one, and a larger share, have the largest. */
    tap_ok(&tap,
           icl_conformal_quantile(ranks, 4, 1, .5) == 3 && icl_conformal_quantile(ranks, 4, 1, .8) == 4 &&
               icl_conformal_quantile(ranks, 4, 1, .81) == 4 && icl_conformal_quantile(ranks, 1, 1, .5) == 1 &&
               icl_conformal_quantile(ranks, 2, 2, .3) == 2 && icl_conformal_quantile(ranks, 2, 2, .5) == 4,
           "quantiles that hold a share of what comes next");
    test_locations(&tap);
    test_middle_mean(&tap);
    return tap_done(&tap);
}
