/*
 * The list of a run's files: files.txt, a line "HASH SIZE NAME" for each.
 *
 * A change of files begins by removing the list and ends by writing a new one, so that a process that is killed in
 * between leaves files without a list, and never a wrong list. Folders without a list come from such processes or from
 * older versions: nothing is known of their files.
 */
#ifndef ICLAB_RUN_FILES_H
#define ICLAB_RUN_FILES_H

#include <stdint.h>

#include "core/json_parse.h"
#include "core/recipe_keys.h"
#include "iclab/backend.h"
#include "iclab/json.h"
#include "iclab/status.h"

/* The beginning of a recipe whose task or model is the program's own; their names follow on the line. */
#define ICL_OWN_PARTS "; trained by a program with its own "

typedef struct icl_run_files icl_run_files;

/* Reads the list and removes it. If there is none, the files that the run has are listed at the end. */
icl_status icl_run_files_open(const char *folder, icl_run_files **files, icl_error *error);

/* Records that the file was changed, made or removed. Reads a file that only grew from its old end. */
icl_status icl_run_files_update(icl_run_files *files, const char *name, icl_error *error);

/* Marks the file as possibly replaced: it will be read from its beginning. */
void icl_run_files_forget(icl_run_files *files, const char *name);

/* Writes the list, atomically. */
icl_status icl_run_files_write(icl_run_files *files, icl_error *error);

void icl_run_files_close(icl_run_files **files);

/* Writes a file of the run, and the list. */
icl_status icl_run_file_write(const char *folder, const char *name, const char *text, icl_error *error);

/* ICL_ERROR_INPUT if a listed file is there and is not as it was. name NULL: checks all files, but not the contents of
 * snapshots; otherwise only that file. A folder that a training changes meanwhile is checked again. */
icl_status icl_run_files_check(const char *folder, const char *name, icl_error *error);

/* ---- Records in JSON: their common part about the program and the device, and reading them ---- */

/* Returns a number of JSON as a count of steps or of sequences; 0 if it is not one: negative, NaN, or more than a run
 * has. The JSON may come from anybody. */
static inline uint64_t icl_count_in(double number) {
    return number > 0 && number <= (double)ICL_MAX_STEPS ? (uint64_t)number : 0;
}

/* Adds version, commit and compiler. */
void icl_provenance_add_program(icl_json *json);

/* Adds device, device_name, device_kind, platform, driver, gemm, fast_math and precision. */
void icl_provenance_add_device(icl_json *json, const icl_capabilities *device);

/* Reads a record of the folder. *record, to be deleted with cJSON_Delete, is NULL if there is none or it cannot be
 * read. */
icl_status icl_record_read(const char *folder, const char *name, cJSON **record, icl_error *error);

#endif
