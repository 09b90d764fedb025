/* Files and folders: read whole, and written so that a reader sees the old content or the new one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/file.h"

/* ---- Temporary files, which then replace another ---- */

/* Temporary files are named PATH.DIGITS.tmp. The process that writes one holds its lock, so that others can tell it
 * from a file that a killed process left. */

#define SUFFIX ".tmp"

/* O_EXCL makes the name unique; the clock makes a second try unlikely. */
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

/* Returns whether another process took the file for a leftover before it was locked. */
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

/* Returns whether the file found is called NAME.DIGITS.tmp. */
static bool is_temporary(const char *found, const char *name) {
    const size_t length = strlen(name);

    if (strncmp(found, name, length) != 0 || found[length] != '.')
        return false;
    found += length + 1;
    return *found >= '0' && *found <= '9' && strcmp(found + strspn(found, "0123456789"), SUFFIX) == 0;
}

/* Removes the temporary files that killed processes left beside a file, if the file system has locks. */
static void temporary_clean(const char *path, const char *folder) {
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

/* ---- Reading and writing ---- */

#define READ_BLOCK ((size_t)1 << 16)

icl_status icl_file_fail(icl_error *error, const char *verb, const char *path, int number) {
    char reason[128];
    if (strerror_r(number, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", number);
    return icl_fail(error, ICL_ERROR_IO, "cannot %s %s: %s", verb, path, reason);
}

/* Makes room for at least one more block, and for the NUL. */
static icl_status grow(char **data, size_t *capacity, size_t used, const char *path, icl_error *error) {
    const size_t wanted = *capacity == 0 ? READ_BLOCK : *capacity * 2;
    char *larger = NULL;
    icl_status status;

    if (used + READ_BLOCK + 1 <= *capacity)
        return ICL_OK;
    if (wanted < *capacity)
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: too large for this machine's memory", path);
    status = icl_allocate(wanted + READ_BLOCK + 1, 1, path, &larger, error);
    if (status != ICL_OK)
        return status;
    if (used > 0)
        memcpy(larger, *data, used);
    icl_free(data);
    *data = larger;
    *capacity = wanted + READ_BLOCK + 1;
    return ICL_OK;
}

/* Opens a file without waiting, because opening a pipe that nobody writes to would block for ever. Reads of a file
 * wait as usual; those of a pipe wait once expect_writer has found a writer, such as a command that a shell runs
 * alongside. */
static icl_status open_to_read(const char *path, int *file, struct stat *facts, icl_error *error) {
    int flags;

    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0)
        return icl_file_fail(error, "open", path, errno);
    flags = fcntl(*file, F_GETFL);
    if (fstat(*file, facts) == 0 && flags >= 0 &&
        (S_ISFIFO(facts->st_mode) || fcntl(*file, F_SETFL, flags & ~O_NONBLOCK) == 0))
        return ICL_OK;
    close(*file);
    return icl_file_fail(error, "read", path, errno);
}

/* Called after the first read of a pipe: refuses one without a writer, which reads as empty at once; lets further reads
 * wait for the writer. */
static icl_status expect_writer(const char *path, int file, ssize_t count, icl_error *error) {
    if (count == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: a pipe that nobody writes to: expected a file", path);
    return fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK) == 0 ? ICL_OK
                                                                         : icl_file_fail(error, "read", path, errno);
}

icl_status icl_file_read(const char *path, size_t limit, char **data, size_t *size, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t used = 0, capacity = 0;
    struct stat facts = {0};
    bool is_new_pipe;
    int file = -1;

    ICL_CHECK(open_to_read(path, &file, &facts, error));
    is_new_pipe = S_ISFIFO(facts.st_mode);
    for (;;) {
        ssize_t count;
        ICL_TRY(grow(&text, &capacity, used, path, error));
        count = read(file, text + used, READ_BLOCK);
        if (count < 0 && errno == EINTR)
            continue;
        if (is_new_pipe) {
            ICL_TRY(expect_writer(path, file, count, error));
            is_new_pipe = false;
            if (count < 0)
                continue;
        }
        if (count < 0) {
            status = icl_file_fail(error, "read", path, errno);
            goto done;
        }
        if (count == 0)
            break;
        used += (size_t)count;
        if (limit > 0 && used > limit) {
            status = icl_fail(error, ICL_ERROR_INPUT, "%s: longer than the %zu bytes expected here", path, limit);
            goto done;
        }
    }
    text[used] = '\0';
    *data = text;
    *size = used;
    text = NULL;
done:
    icl_free(&text);
    close(file);
    return status;
}

static int write_all(int file, const char *data, size_t size) {
    while (size > 0) {
        const ssize_t count = write(file, data, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno;
        data += count;
        size -= (size_t)count;
    }
    return 0;
}

/* Returns the folder that holds `path`, in new memory. */
static icl_status parent_folder(const char *path, char **folder, icl_error *error) {
    const char *name = icl_path_name(path);
    icl_status status;

    if (name == path)
        return icl_duplicate(".", folder, error);
    status = icl_duplicate(path, folder, error);
    if (status == ICL_OK)
        (*folder)[name - path > 1 ? name - path - 1 : 1] = '\0';
    return status;
}

/* Flushes a folder: a rename survives a power failure only after that. Some file systems refuse to flush a folder; this
 * is ignored, because the data itself is safe. */
static void flush_folder(const char *folder) {
    const int directory = open(folder, O_RDONLY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory);
        close(directory);
    }
}

icl_status icl_file_write(const char *path, const void *data, size_t size, icl_error *error) {
    icl_status status = ICL_OK;
    char *folder = NULL, *temporary = NULL;
    int file = -1, failure;

    ICL_TRY(parent_folder(path, &folder, error));
    temporary_clean(path, folder);
    ICL_TRY(icl_temporary_create(path, &temporary, &file, error));
    failure = write_all(file, data, size);
    if (failure == 0 && fsync(file) != 0)
        failure = errno;
    if (failure == 0 && rename(temporary, path) != 0)
        failure = errno;
    close(file); /* ends its lock, too; fsync has already reported any failure */
    if (failure != 0) {
        (void)unlink(temporary);
        status = icl_file_fail(error, "write", path, failure);
        goto done;
    }
    flush_folder(folder);
done:
    icl_free(&temporary);
    icl_free(&folder);
    return status;
}

icl_status icl_file_write_in(const char *folder, const char *name, const void *data, size_t size, icl_error *error) {
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(folder, name, &path, error));
    ICL_TRY(icl_file_write(path, data, size, error));
done:
    icl_free(&path);
    return status;
}

static icl_status make_one_folder(const char *path, icl_error *error) {
    struct stat found;
    int failure;

    if (mkdir(path, 0777) == 0)
        return ICL_OK;
    failure = errno;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return ICL_OK;
    return icl_file_fail(error, "make the folder", path, failure);
}

icl_status icl_folder_create(const char *path, icl_error *error) {
    icl_status status = ICL_OK;
    char *partial = NULL;

    ICL_TRY(icl_duplicate(path, &partial, error));
    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] == '/' && path[i - 1] != '/') {
            partial[i] = '\0';
            ICL_TRY(make_one_folder(partial, error));
            partial[i] = '/';
        }
    }
    ICL_TRY(make_one_folder(path, error));
done:
    icl_free(&partial);
    return status;
}

bool icl_path_exists(const char *path) {
    struct stat found;
    return stat(path, &found) == 0;
}

icl_status icl_path_join(const char *folder, const char *name, char **path, icl_error *error) {
    const size_t length = strlen(folder);
    const char *separator = length == 0 || folder[length - 1] == '/' ? "" : "/";
    const size_t capacity = length + strlen(name) + 2;
    const icl_status status = icl_allocate(capacity, 1, "path", path, error);

    if (status == ICL_OK)
        snprintf(*path, capacity, "%s%s%s", folder, separator, name);
    return status;
}

const char *icl_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
