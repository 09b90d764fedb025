/* Where this code lies on the disk. */
#ifndef ICLAB_CORE_PROCESS_H
#define ICLAB_CORE_PROCESS_H

#include <limits.h>
#include <stdbool.h>

/* The absolute path, without symbolic links, of the shared library that this code is part of, or of the program where
 * it is linked into one. False where the system does not tell. */
bool icl_image_path(char path[PATH_MAX]);

#endif
