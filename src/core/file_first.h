/* The beginning of a file, to look at before all of it is read. */
#ifndef ICLAB_CORE_FILE_FIRST_H
#define ICLAB_CORE_FILE_FIRST_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* *data, freed with icl_free, holds the first *size bytes of a regular file, at most `count`; *whole is the size of all
 * of it. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it is no regular file. */
icl_status icl_file_read_first(const char *path, size_t count, char **data, size_t *size, uint64_t *whole,
                               icl_error *error);

#endif
