/* What every record says about the program and the device. */
#ifndef ICLAB_RUN_PROVENANCE_H
#define ICLAB_RUN_PROVENANCE_H

#include "iclab/backend.h"
#include "iclab/json.h"

/* Adds version, commit and compiler. */
void icl_provenance_add_program(icl_json *json);

/* Adds device, device_name, device_kind, platform, driver, gemm and fast_math. */
void icl_provenance_add_device(icl_json *json, const icl_capabilities *device);

/* Adds date, of now in UTC, and host. */
void icl_provenance_add_place(icl_json *json);

#endif
