/* The version of this library: that of the headers when a program is compiled, and that of the library when it runs. */
#ifndef ICLAB_VERSION_H
#define ICLAB_VERSION_H

#include "iclab/export.h"

/* The version of these headers. */
#define ICL_VERSION_MAJOR 0
#define ICL_VERSION_MINOR 1
#define ICL_VERSION_PATCH 0

/* True if these headers are of the given version or of a later one. It may stand in a preprocessor condition. */
#define ICL_VERSION_AT_LEAST(major, minor, patch)                                                                      \
    (ICL_VERSION_MAJOR > (major) ||                                                                                    \
     (ICL_VERSION_MAJOR == (major) &&                                                                                  \
      (ICL_VERSION_MINOR > (minor) || (ICL_VERSION_MINOR == (minor) && ICL_VERSION_PATCH >= (patch)))))

ICL_C_BEGIN

/* Returns the version of the running library, "MAJOR.MINOR.PATCH". Static storage. */
ICL_API const char *icl_version(void);

/* How the library was built. All texts are in static storage and never NULL. */
typedef struct icl_build {
    const char *commit;        /* the first 12 digits of the commit; "unknown" outside of a repository */
    const char *commit_date;   /* day of the commit, YYYY-MM-DD; empty if it is unknown */
    const char *compiler;      /* name and version */
    const char *libraries;     /* the libraries that it was built with: "OpenCL 3.0, CLBlast 1.5.3, ..." */
    const char *recipe_folder; /* folder of the installed recipes, unless the installation was moved */
} icl_build;

/* Returns how the running library was built. */
ICL_API icl_build icl_build_facts(void);

ICL_C_END

#endif
