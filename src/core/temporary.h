/*
 * Files that are written before they take the place of another.
 *
 * Their names are PATH.DIGITS.tmp. Whoever writes one holds its lock, so that others tell it from what a killed process
 * left.
 */
#ifndef ICLAB_CORE_TEMPORARY_H
#define ICLAB_CORE_TEMPORARY_H

#include "iclab/status.h"

/* Makes a new file, open for writing, with the permissions of any other, under a name that nobody else has, on no
 * machine and in no container. *temporary, its path, is freed with icl_free, and *file closed. */
icl_status icl_temporary_create(const char *path, char **temporary, int *file, icl_error *error);

/* Removes what killed processes left of a file in its folder, where the file system has locks. */
void icl_temporary_clean(const char *path, const char *folder);

#endif
