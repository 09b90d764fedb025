/* Results of iclab predict without a run, printed and written. */
#ifndef ICLAB_TOOLS_REGRESSION_H
#define ICLAB_TOOLS_REGRESSION_H

#include "command.h"
#include "iclab/regression.h"
#include "preparation.h"

typedef struct regression_print {
    const icl_regression_outcome *outcome;
    prepared_tables tables;
    uint32_t seed;
} regression_print;

/* Prints tables for people to stdout. */
icl_status print_regression(const regression_print *print, icl_error *error);

/* Adds to the result the scores, its tables columns, preparation, omitted and predicted, and the summary. */
icl_status keep_regression_result(const regression_print *print, result_writer *keep, icl_error *error);

/* Writes into a folder, which is made: heldout.csv and, if rows were predicted, predictions.csv, with the separator and
 * the decimal mark of the table whose rows they describe; the changes to the tables; the figure predicted; and
 * report.html. *is_undrawn becomes true if there is no gnuplot to draw the figures. */
icl_status write_regression(const regression_print *print, const char *folder, bool *is_undrawn, icl_error *error);

#endif
