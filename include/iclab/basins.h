/*
 * The minima that a training of a linear transformer saw before its first step (train.starts). Scouts, small models
 * with random signs and sizes of every coefficient, are trained shortly; those that end within two percent of each
 * other's loss share a basin.
 */
#ifndef ICLAB_BASINS_H
#define ICLAB_BASINS_H

#include <stdint.h>

#include "iclab/export.h"
#include "iclab/json.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* The most basins whose losses are kept. */
#define ICL_LISTED_BASINS 8

/* The minima that the scouts of a training saw. */
typedef struct icl_basins_seen {
    uint64_t scouts;                  /* 0: there were none */
    uint64_t count;                   /* basins that they ended in */
    double losses[ICL_LISTED_BASINS]; /* mean losses without the largest thousandth, ascending: the first of `count` */
} icl_basins_seen;

/* Prints a line or two for people; freed with icl_text_free. `start` is icl_train_progress.start. */
ICL_API icl_status icl_basins_text(const icl_basins_seen *seen, uint64_t start, char **text, icl_error *error);

/* Adds scouts, basin_count, and basins, a list of objects with a loss; nothing if there were no scouts. */
ICL_API void icl_basins_add_json(const icl_basins_seen *seen, icl_json *json);

ICL_C_END

#endif
