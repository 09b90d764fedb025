/* Declarations that the files of this room share with each other and with the tests of trials. */
#ifndef ICLAB_DEVICE_DEVICE_H
#define ICLAB_DEVICE_DEVICE_H

#include "backend/contract.h"

/* Opens the OpenCL device of exactly this spec. */
icl_status icl_open_exactly(const icl_backend_params *params, const char *spec, icl_backend **backend,
                            icl_error *error);

/* Chooses in a child process the device that "auto" takes, and logs the choice. *device is "cpu" if a driver ended that
 * process, which is logged as well. */
icl_status icl_trial_choose(const icl_backend_params *params, char device[ICL_NAME_CAPACITY], icl_error *error);

/* Lists every OpenCL device with the verdict of its self-test. If a device ends the child process, another process
 * tries the devices that are left. *devices is freed with icl_free. */
icl_status icl_trial_list(const icl_log *log, double seconds, icl_device **devices, size_t *count, icl_error *error);

#endif
