/*
 * OpenCL drivers tried in a process apart, because a driver that crashes or waits for ever takes the process with it
 * that loads it. The process is a fork, see core/apart.h: this one must not have used OpenCL or OpenMP before.
 */
#ifndef ICLAB_DEVICE_TRIAL_H
#define ICLAB_DEVICE_TRIAL_H

#include "backend/contract.h"
#include "core/apart.h"

/* From the process apart: what it is at, such as "opencl:0.0 (its name)". Nothing where `trial` is NULL. */
void icl_trial_at(icl_apart *trial, const char *device);

/* The device that "auto" takes, and the log of the choice, from a process apart. *device is "cpu" where a driver ended
 * that process, which is logged as well. */
icl_status icl_trial_choose(const icl_backend_params *params, char device[ICL_NAME_CAPACITY], icl_error *error);

/* Every OpenCL device with the verdict of its self-test, a process apart for all that are left after one that ended it.
 * *devices is freed with icl_free. */
icl_status icl_trial_list(const icl_log *log, double seconds, icl_device **devices, size_t *count, icl_error *error);

/* Opens an OpenCL device for its self-test and notes the outcome. */
void icl_device_test(const icl_opencl_device *opencl, icl_device *device);

#endif
