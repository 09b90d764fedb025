/* Results of iclab predict, printed and written. */
#ifndef ICLAB_TOOLS_PREDICTION_H
#define ICLAB_TOOLS_PREDICTION_H

#include "command.h"
#include "iclab/predict.h"
#include "iclab/text.h"

typedef struct prediction_print {
    const icl_predict_outcome *outcome;
    const icl_table *table;
    const char *fresh; /* the file of the rows predicted; NULL: the table's own */
    uint32_t seed;
    const icl_table *fresh_table; /* of that file, or NULL */
    const char *impute;           /* the rule by which missing features are filled in, where some are */
} prediction_print;

/* To stdout: tables for people. */
icl_status print_prediction(const prediction_print *print, icl_error *error);

/* To the result: the scores; its tables columns, preparation, omitted and predicted; and the summary. */
icl_status keep_prediction_result(const prediction_print *print, result_writer *keep, icl_error *error);

/* Writes heldout.csv, standardization.csv and, where rows were predicted, predictions.csv in a folder, which is made;
 * what was done to the tables; and the figure predicted. heldout.csv and predictions.csv have the separator and the
 * decimal mark of the table whose rows they are about, and its order of rows; a row to be predicted that was left out
 * has no numbers. And report.html, of the run's model on the device. *is_undrawn becomes true where there is no gnuplot
 * to draw the figures. */
icl_status write_prediction(const prediction_print *print, const char *folder, const char *run,
                            const icl_capabilities *device, bool *is_undrawn, icl_error *error);

#endif
