/* Files and folders. A file is replaced whole or not at all: no reader ever sees half of one. */
#ifndef ICLAB_FILE_H
#define ICLAB_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* Reads a whole file of at most `limit` bytes (0: any). *data, freed with icl_text_free, has a NUL after its *size
 * bytes. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it is longer. */
ICL_API icl_status icl_file_read(const char *path, size_t limit, char **data, size_t *size, icl_error *error);

/* Replaces a file atomically: writes a new one in the same folder, flushes it to the disk and renames it over the old.
 * On failure the old file stands and nothing is left beside it. */
ICL_API icl_status icl_file_write(const char *path, const void *data, size_t size, icl_error *error);

/* As above, for folder/name. */
ICL_API icl_status icl_file_write_in(const char *folder, const char *name, const void *data, size_t size,
                                     icl_error *error);

/* Makes a folder and those above it; one that exists is fine. */
ICL_API icl_status icl_folder_create(const char *path, icl_error *error);

/* Returns whether a file or folder of that name is visible. */
ICL_API bool icl_path_exists(const char *path);

/* Returns folder/name in new memory, freed with icl_text_free; just the name if the folder is "". */
ICL_API icl_status icl_path_join(const char *folder, const char *name, char **path, icl_error *error);

/* Returns the part after the last '/', within `path`. */
ICL_API const char *icl_path_name(const char *path);

/* Fails with ICL_ERROR_IO, "cannot VERB PATH: " and the text of an errno value. */
ICL_API icl_status icl_file_fail(icl_error *error, const char *verb, const char *path, int number);

ICL_C_END

#endif
