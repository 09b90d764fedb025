#ifndef ICLAB_DEVICE_SHORT_STEP_H
#define ICLAB_DEVICE_SHORT_STEP_H

#include "iclab/backend.h"

/* Seconds of a short training step on the device, the best of a few after one that compiles and warms up; half a second
 * in all, where nothing has to be compiled. The counters stay as they are. */
icl_status icl_time_short_step(icl_backend *backend, double *seconds, icl_error *error);

#endif
