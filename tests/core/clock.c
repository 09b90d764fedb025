/* The clock counts seconds, and agrees with the system's monotonic clock, which is never set. */
#include <time.h>

#include "iclab/host.h"
#include "tap.h"

static double system_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(void) {
    enum { READINGS = 1000 };
    tap_run tap = {0};
    int between = 0;

    /* Numbers this large are rounded by less than a microsecond. */
    for (int i = 0; i < READINGS; i++) {
        const double before = system_seconds(), now = icl_clock_seconds(), after = system_seconds();
        between += now > before - 1e-6 && now < after + 1e-6;
    }
    tap_ok(&tap, between == READINGS, "%d of %d readings lie between two of the system's", between, (int)READINGS);
    return tap_done(&tap);
}
