/* Facts about this process: the file that it was loaded from, its build, and the time. dladdr and realpath are beyond
 * POSIX.1-2008. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "config.h"
#include "core/process.h"
#include "iclab/host.h"
#include "iclab/version.h"

/* The loader knows a program by the name that it was started with. That may be found in PATH, or relative to a folder
 * that was left since; in this case Linux is asked. */
bool icl_image_path(char path[PATH_MAX]) {
    static const char here;
    Dl_info image;

    if (dladdr(&here, &image) == 0 || !image.dli_fname)
        return false;
    if (image.dli_fname[0] != '/' && realpath("/proc/self/exe", path))
        return true;
    return realpath(image.dli_fname, path) != NULL;
}

const char *icl_version(void) {
    return ICL_VERSION;
}

icl_build icl_build_facts(void) {
    return (icl_build){.commit = ICL_COMMIT,
                       .commit_date = ICL_COMMIT_DATE,
                       .compiler = ICL_COMPILER,
                       .libraries = ICL_LIBRARIES,
                       .recipe_folder = ICL_RECIPE_DIR};
}

double icl_clock_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
