/* What a command finds: its rows and its summary, printed as JSON lines where those are asked for, and kept as
 * result.json and CSV in a folder (iclab/result.h). */
#ifndef ICLAB_TOOLS_KEPT_H
#define ICLAB_TOOLS_KEPT_H

#include "iclab/json.h"
#include "iclab/result.h"

typedef struct kept {
    const char *folder; /* that takes the result; NULL: none */
    bool is_default;    /* nobody asked for the folder: one that cannot be written is no failure */
    bool json, quiet;   /* print the rows and the summary; say nothing on stderr but warnings */
    bool is_wrapped;    /* print the summary as {"summary":{...}} */
    icl_result_facts facts;
    icl_result *result; /* made by kept_begin */
} kept;

/* Makes the result; what it takes is given back by kept_end, which may be called without it. */
icl_status kept_begin(kept *keep, icl_error *error);
void kept_end(kept *keep);

/* Takes a row, which is cleared, to the main table. */
icl_status kept_row(kept *keep, icl_json *row, icl_error *error);

/* The same for a table of another name, and for rows that are lines of text already. */
icl_status kept_row_of(kept *keep, const char *table, icl_json *row, icl_error *error);
icl_status kept_lines(kept *keep, const char *table, const char *lines, icl_error *error);

/* Makes the folder. A run may lie where its reader cannot write: a default folder is left out then, which is said on
 * stderr. */
icl_status kept_open_folder(kept *keep, icl_error *error);

/* Writes the files, then prints the summary with "folder" as its last member where there is one. Says on stderr where
 * the files are. The summary is cleared in any case. */
icl_status kept_finish(kept *keep, icl_json *summary, icl_error *error);

#endif
