#include "core/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/file_lock.h"
#include "iclab/file.h"

#define SUFFIX ".tmp"

/* O_EXCL makes the name unique; the clock spares tries. */
static int open_new(const char *path, char *temporary, size_t capacity) {
    for (;;) {
        struct timespec now = {0};
        int file;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        snprintf(temporary, capacity, "%s.%" PRIu64 SUFFIX, path,
                 (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
}

/* Whether another process took the file for a leftover before it was locked. */
static bool is_lost(const char *temporary, int file) {
    return icl_file_lock(file) == EAGAIN || access(temporary, F_OK) != 0;
}

icl_status icl_temporary_create(const char *path, char **temporary, int *file, icl_error *error) {
    const size_t capacity = strlen(path) + 32;

    ICL_CHECK(icl_allocate(capacity, 1, "file name", temporary, error));
    for (;;) {
        *file = open_new(path, *temporary, capacity);
        if (*file < 0)
            return icl_file_fail(error, "write", path, errno);
        if (!is_lost(*temporary, *file))
            return ICL_OK;
        close(*file);
    }
}

/* NAME.DIGITS.tmp */
static bool is_temporary(const char *found, const char *name) {
    const size_t length = strlen(name);

    if (strncmp(found, name, length) != 0 || found[length] != '.')
        return false;
    found += length + 1;
    return *found >= '0' && *found <= '9' && strcmp(found + strspn(found, "0123456789"), SUFFIX) == 0;
}

void icl_temporary_clean(const char *path, const char *folder) {
    const char *name = icl_path_name(path);
    const struct dirent *found;
    DIR *stream = opendir(folder);

    while (stream && (found = readdir(stream)) != NULL) {
        int file;
        if (!is_temporary(found->d_name, name))
            continue;
        file = openat(dirfd(stream), found->d_name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0)
            continue;
        if (icl_file_lock(file) == 0)
            (void)unlinkat(dirfd(stream), found->d_name, 0);
        close(file);
    }
    if (stream)
        closedir(stream);
}
