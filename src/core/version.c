#include "iclab/version.h"

#include "config.h"

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
