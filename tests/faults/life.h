/* The life of a small run, as the command lives it: train in a folder with checkpoints, then evaluate
 * what the folder holds. */
#ifndef ICLAB_TESTS_FAULTS_LIFE_H
#define ICLAB_TESTS_FAULTS_LIFE_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/backend.h"

/* Files of a run folder that two lives are compared by; text and bytes alike. */
enum { LIFE_RECIPE = 0, LIFE_METRICS, LIFE_MODEL, LIFE_CHECKPOINT, LIFE_FILES };

/* What training leaves; freed with life_release. */
typedef struct life_result {
    char *files[LIFE_FILES];
    size_t sizes[LIFE_FILES];
} life_result;

/* Trains. A folder that holds a run is resumed, as `iclab train --resume` would; another is begun. */
icl_status life_train(icl_backend *backend, const char *folder, icl_error *error);

/* Evaluates what training left, as `iclab eval` would. *table is freed with icl_free. */
icl_status life_evaluate(icl_backend *backend, const char *folder, char **table, icl_error *error);

/* Reads what is in the folder after training has finished. */
icl_status life_read(const char *folder, life_result *result, icl_error *error);
void life_release(life_result *result);

/* What differs between two finished lives, or NULL. Static storage. */
const char *life_difference(const life_result *left, const life_result *right);

/* Every file that is in the folder must be complete: false, with one line about the file that is not. */
bool life_folder_is_sound(const char *folder, char *complaint, size_t size);

#endif
