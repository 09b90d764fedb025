/* What a reproduction wrote into its folder. */
#ifndef ICLAB_TESTS_PAPERS_CONTENTS_H
#define ICLAB_TESTS_PAPERS_CONTENTS_H

#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

/* The text of a file, which is freed by the caller; NULL where there is none. */
static inline char *contents(const char *folder, const char *name) {
    char *path = NULL, *text = NULL;
    size_t size = 0;
    icl_error error = {0};

    if (icl_path_join(folder, name, &path, &error) == ICL_OK)
        (void)icl_file_read(path, 0, &text, &size, &error);
    icl_free(&path);
    return text;
}

/* NULL: there is to be no such file. */
static inline void check_contents(tap_run *tap, const char *folder, const char *name, const char *expected) {
    char *text = contents(folder, name);

    if (!tap_ok(tap, text ? expected && strcmp(text, expected) == 0 : !expected, "%s holds what it should", name))
        tap_note("seen: %s", text ? text : "nothing");
    icl_free(&text);
}

#endif
