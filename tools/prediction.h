/* What iclab predict prints and writes. */
#ifndef ICLAB_TOOLS_PREDICTION_H
#define ICLAB_TOOLS_PREDICTION_H

#include "iclab/predict.h"

typedef struct prediction_print {
    const icl_predict_outcome *outcome;
    const icl_table *table;
    const char *fresh; /* the file of the rows predicted; NULL: the table's own */
    uint32_t seed;
} prediction_print;

/* To stdout: tables for people, or one JSON object a line. */
icl_status print_prediction(const prediction_print *print, icl_error *error);
icl_status print_prediction_json(const prediction_print *print, icl_error *error);

/* Writes heldout.csv, standardization.csv and, where rows were predicted, predictions.csv in a folder, which is made;
 * and the figure predicted. *is_undrawn becomes true where there is no gnuplot to draw it. */
icl_status write_prediction(const prediction_print *print, const char *folder, bool *is_undrawn, icl_error *error);

#endif
