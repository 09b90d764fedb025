/* dladdr and realpath are beyond POSIX.1-2008. */
#define _GNU_SOURCE      /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#define _DARWIN_C_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include "core/image.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The loader knows a program by the name that it was started with, which may be relative to a folder that was left
 * since, or be found in PATH: there Linux is asked. */
bool icl_image_path(char path[PATH_MAX]) {
    static const char here;
    Dl_info image;

    if (dladdr(&here, &image) == 0 || !image.dli_fname)
        return false;
    if (image.dli_fname[0] != '/' && realpath("/proc/self/exe", path))
        return true;
    return realpath(image.dli_fname, path) != NULL;
}
