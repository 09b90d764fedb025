/* Words that stand for a value that is not there. */
#ifndef ICLAB_CORE_TABLE_MISSING_H
#define ICLAB_CORE_TABLE_MISSING_H

#include <stdbool.h>

/* Nothing, NA, N/A, NaN, null, none, ?, -, and how spreadsheets and programs spell these; letter case is ignored. */
bool icl_is_missing(const char *cell);

#endif
