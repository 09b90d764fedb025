/* Random orders of rows: which are held out together, and which a prompt shows. Functions of the seed alone. */
#ifndef ICLAB_PREDICT_SPLITS_H
#define ICLAB_PREDICT_SPLITS_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* The random streams of this room. */
#define ICL_SPLIT_STREAM  0x70720000u /* step: the repetition */
#define ICL_PROMPT_STREAM 0x70720001u /* step: 2^20 times the split's number, and the prompt's */

/* Puts `count` items in a random order, each order equally likely but for ties of 32-bit words, which keep theirs. */
icl_status icl_shuffle(uint32_t seed, uint32_t stream, uint64_t step, size_t count, size_t *items, icl_error *error);

/* Items [first, end) of `count` that fold number `fold` of `folds` holds: sizes differ by at most 1. */
void icl_fold_range(size_t count, size_t folds, size_t fold, size_t *first, size_t *end);

#endif
