/* Statistics of small samples, against what they are by hand. */
#include "numeric/statistics.h"

#include <math.h>

#include "tap.h"

int main(void) {
    tap_run tap = {0};
    double odd[] = {5, 1, 3}, even[] = {4, 1, (double)NAN, 2}, tail[] = {100, 1, 2, 3, (double)NAN, 4, 5, 6, 7, 8};
    double powers[] = {2, 16, 1, 8, 4};
    const double steps[] = {1, 2, 3, 6};

    tap_ok(&tap, icl_median(odd, 3) == 3, "the median of three is the middle one");
    tap_ok(&tap, icl_median(even, 4) == 3 && icl_lower_median(even, 4) == 2, "of four, with NaN as the largest");
    tap_ok(&tap, isnan(icl_median(odd, 0)), "and of none NaN");
    tap_ok(&tap, icl_trimmed_mean(tail, 10, 0.2) == 4.5, "the trimmed mean leaves out the largest and NaN");
    tap_ok(&tap, icl_mean(steps, 4) == 3, "mean");
    tap_ok(&tap, fabs(icl_standard_error(steps, 4) - sqrt(14.0 / 3 / 4)) < 1e-15 && icl_standard_error(steps, 1) == 0,
           "its standard error, 0 for one value");
    /* Hill's estimator: the mean of ln(x / x_(k + 1)) over the k largest, and one over it. */
    tap_ok(&tap,
           fabs(icl_tail_index(powers, 5, 2) - 2 / (3 * log(2))) < 1e-15 &&
               fabs(icl_tail_index(powers, 5, 4) - 4 / (10 * log(2))) < 1e-15,
           "the tail index of powers of two");
    return tap_done(&tap);
}
