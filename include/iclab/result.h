/*
 * The results of a command, stored as result.json and, with the same rows, as CSV.
 *
 *     command, command_line, recipe, seed      what was done
 *     date, host                               when and where: UTC, ISO 8601; the machine's name
 *     version, commit, compiler                by what
 *     device, device_name, device_kind, platform, driver, gemm, fast_math, precision    on what
 *     csv                                      the file beside it that has the rows as CSV
 *     summary                                  an object: the last line that --json prints
 *     rows                                     an array of objects: the other lines
 *
 * Other tables, if any, follow under their names. A member of rows that is itself an array of objects, as positions of
 * a score, stands in MEMBER.csv: its rows begin with the texts that the outer row begins with.
 */
#ifndef ICLAB_RESULT_H
#define ICLAB_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/backend.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* The names of both files within a folder. */
#define ICL_RESULT_FILE "result.json"
#define ICL_RESULT_CSV  "result.csv"

/* The main table's name. */
#define ICL_RESULT_ROWS "rows"

/* The largest number of tables, the main one included. */
#define ICL_RESULT_TABLES 8

/* The origin of a result. A member of result.json whose text is NULL is left out. */
typedef struct icl_result_facts {
    const char *command;        /* "eval" */
    const char *command_line;   /* as it was called */
    const char *recipe_name;    /* as the user gave it */
    const icl_backend *backend; /* the device and its choices; NULL: no recipe, or several devices */
    const uint64_t *seed;       /* may be NULL */
    const char *csv;            /* a file in the folder that has the rows already; NULL: they are written here */
} icl_result_facts;

/* Tables that grow row by row. */
typedef struct icl_result icl_result;

/* Makes one without rows. */
ICL_API icl_status icl_result_create(icl_result **result, icl_error *error);
ICL_API void icl_result_destroy(icl_result **result);

/* Adds a row, one line with a JSON object, copied, to a table, which is created with its first row. The main table
 * always exists. ICL_ERROR_INPUT for any other text, and for more than ICL_RESULT_TABLES tables. */
ICL_API icl_status icl_result_add(icl_result *result, const char *table, const char *line, icl_error *error);

/* Writes the files, each atomically and result.json last, in place of any older ones; creates the folder if it is
 * missing. `summary` is a JSON object on one line; NULL: an empty one. */
ICL_API icl_status icl_result_write(const icl_result *result, const char *folder, const icl_result_facts *facts,
                                    const char *summary, icl_error *error);

ICL_C_END

#endif
