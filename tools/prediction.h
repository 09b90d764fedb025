/* Results of iclab predict, printed and written. */
#ifndef ICLAB_TOOLS_PREDICTION_H
#define ICLAB_TOOLS_PREDICTION_H

#include "command.h"
#include "iclab/predict.h"
#include "iclab/text.h"

typedef struct prediction_print {
    const icl_predict_outcome *outcome;
    const icl_table *table;
    const char *fresh; /* the file of the predicted rows; NULL: the table's own */
    uint32_t seed;
    const icl_table *fresh_table; /* the table of that file, or NULL */
    const char *impute;           /* the rule that fills in missing features, if there are any */
} prediction_print;

/* Prints tables for people to stdout. */
icl_status print_prediction(const prediction_print *print, icl_error *error);

/* Adds to the result the scores, its tables columns, preparation, omitted and predicted, and the summary. */
icl_status keep_prediction_result(const prediction_print *print, result_writer *keep, icl_error *error);

/* Writes into a folder, which is made: heldout.csv, standardization.csv and, if rows were predicted, predictions.csv;
 * the changes to the tables; the figure predicted; and report.html, of the run's model on the device. heldout.csv and
 * predictions.csv have the separator, the decimal mark and the order of rows of the table whose rows they describe; a
 * row to be predicted that was left out has no numbers. *is_undrawn becomes true if there is no gnuplot to draw the
 * figures. */
icl_status write_prediction(const prediction_print *print, const char *folder, const char *run,
                            const icl_capabilities *device, bool *is_undrawn, icl_error *error);

#endif
