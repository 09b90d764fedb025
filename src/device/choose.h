/* Opening the device that a spec means where several could be meant. */
#ifndef ICLAB_DEVICE_CHOOSE_H
#define ICLAB_DEVICE_CHOOSE_H

#include "core/apart.h"
#include "iclab/backend.h"

/* "auto": the fastest of the host and of the GPUs and accelerators that open. Without any of these the host, at once.
 * In a process apart, `trial` hears which device is opened next; else it is NULL. */
icl_status icl_open_auto(const icl_backend_params *params, icl_apart *trial, icl_backend **backend, icl_error *error);

/* The OpenCL device of exactly this spec. */
icl_status icl_open_exactly(const icl_backend_params *params, const char *spec, icl_backend **backend,
                            icl_error *error);

/* "opencl:WANTED": of the devices that match, a GPU before an accelerator before a CPU, and the fastest of several GPUs
 * or accelerators. */
icl_status icl_open_opencl(const icl_backend_params *params, const char *wanted, icl_backend **backend,
                           icl_error *error);

#endif
