/* File calls beside those of iclab/file.h: reading the beginning of a file, and making temporary ones. */
#ifndef ICLAB_CORE_FILE_H
#define ICLAB_CORE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* Reads the first *size bytes of a regular file, at most `count`, into *data, freed with icl_free; *whole is the size
 * of the file. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it is not a regular file. */
icl_status icl_file_read_first(const char *path, size_t count, char **data, size_t *size, uint64_t *whole,
                               icl_error *error);

/* Makes a new file, open for writing, with the usual permissions, under a name that no other process uses, on any
 * machine or in any container. The caller frees *temporary, its path, with icl_free, and closes *file. */
icl_status icl_temporary_create(const char *path, char **temporary, int *file, icl_error *error);

#endif
