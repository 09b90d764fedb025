/*
 * The list of a run's files: files.txt, a line "HASH SIZE NAME" for each.
 *
 * Whoever changes files takes the list away first and writes it anew at the end, so that a process that is killed in
 * between leaves files without a list, and never a list that does not hold. Folders without one are those, and of older
 * versions: nothing is known of their files.
 */
#ifndef ICLAB_RUN_FILES_H
#define ICLAB_RUN_FILES_H

#include <stdint.h>

#include "core/json_parse.h"
#include "core/recipe_keys.h"
#include "iclab/backend.h"
#include "iclab/json.h"
#include "iclab/status.h"

typedef struct icl_run_files icl_run_files;

/* Reads the list and takes it away. Without one, the files that a run has are listed at the end. */
icl_status icl_run_files_open(const char *folder, icl_run_files **files, icl_error *error);

/* The file was changed, made or removed. One that only grew is read from its old end. */
icl_status icl_run_files_update(icl_run_files *files, const char *name, icl_error *error);

/* The file may be another from here on: it is read from its beginning. */
void icl_run_files_forget(icl_run_files *files, const char *name);

/* Writes the list, in one piece. */
icl_status icl_run_files_write(icl_run_files *files, icl_error *error);

void icl_run_files_close(icl_run_files **files);

/* Writes a file of the run, and the list. */
icl_status icl_run_file_write(const char *folder, const char *name, const char *text, icl_error *error);

/* ICL_ERROR_INPUT where a listed file is there and another than it was. NULL: all but the contents of snapshots;
 * otherwise this one alone. A folder that a training changes meanwhile is looked at again. */
icl_status icl_run_files_check(const char *folder, const char *name, icl_error *error);

/* ---- Records in JSON: what every one says about the program and the device, and how to read one ---- */

/* A number of JSON as a count of steps or of sequences; 0 where it is none: below 0, NaN, or more than a run has.
 * Anybody may have written the JSON. */
static inline uint64_t icl_count_in(double number) {
    return number > 0 && number <= (double)ICL_MAX_STEPS ? (uint64_t)number : 0;
}

/* Adds version, commit and compiler. */
void icl_provenance_add_program(icl_json *json);

/* Adds device, device_name, device_kind, platform, driver, gemm and fast_math. */
void icl_provenance_add_device(icl_json *json, const icl_capabilities *device);

/* Reads a record of the folder. *record, to be deleted with cJSON_Delete, is NULL where there is none or where it
 * cannot be read. */
icl_status icl_record_read(const char *folder, const char *name, cJSON **record, icl_error *error);

#endif
