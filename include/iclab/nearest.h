/* Finds what the user probably meant: the known name nearest to a mistyped one. */
#ifndef ICLAB_NEAREST_H
#define ICLAB_NEAREST_H

#include <stddef.h>

#include "iclab/export.h"

ICL_C_BEGIN

/* Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn a into b, letter case
 * ignored (the optimal string alignment distance). Only the first 127 bytes of each text count. */
ICL_API size_t icl_edit_distance(const char *a, const char *b);

/* Returns the candidate nearest to `name`, the first one of a tie; NULL if there are no candidates. */
ICL_API const char *icl_nearest(const char *name, const char *const *candidates, size_t count);

ICL_C_END

#endif
