/* The path of the running code. */
#ifndef ICLAB_CORE_PROCESS_H
#define ICLAB_CORE_PROCESS_H

#include <limits.h>
#include <stdbool.h>

/* Returns the absolute path, without symbolic links, of the shared library that holds this code, or of the program if
 * the library is linked statically. False if the system does not tell. */
bool icl_image_path(char path[PATH_MAX]);

#endif
