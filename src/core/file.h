/* Files, beside what iclab/file.h has: the beginning of one, and one that is being written. */
#ifndef ICLAB_CORE_FILE_H
#define ICLAB_CORE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* *data, freed with icl_free, holds the first *size bytes of a regular file, at most `count`; *whole is the size of all
 * of it. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it is no regular file. */
icl_status icl_file_read_first(const char *path, size_t count, char **data, size_t *size, uint64_t *whole,
                               icl_error *error);

/* Makes a new file, open for writing, with the permissions of any other, under a name that nobody else has, on no
 * machine and in no container. *temporary, its path, is freed with icl_free, and *file closed. */
icl_status icl_temporary_create(const char *path, char **temporary, int *file, icl_error *error);

#endif
