/* Records of runs and results: counts in JSON, and what every record says about the program and the device. */
#ifndef ICLAB_RUN_RECORD_H
#define ICLAB_RUN_RECORD_H

#include <stdint.h>

#include "core/json_parse.h"
#include "core/recipe_keys.h"
#include "iclab/backend.h"
#include "iclab/json.h"

/* A number of JSON as a count of steps or of sequences; 0 where it is none: below 0, NaN, or more than a run has.
 * Anybody may have written the JSON. */
static inline uint64_t icl_count_in(double number) {
    return number > 0 && number <= (double)ICL_MAX_STEPS ? (uint64_t)number : 0;
}

/* Adds version, commit and compiler. */
void icl_provenance_add_program(icl_json *json);

/* Adds device, device_name, device_kind, platform, driver, gemm and fast_math. */
void icl_provenance_add_device(icl_json *json, const icl_capabilities *device);

/* Reads a record of the folder. *record, to be deleted with cJSON_Delete, is NULL where there is none or where it cannot
 * be read. */
icl_status icl_record_read(const char *folder, const char *name, cJSON **record, icl_error *error);

#endif
