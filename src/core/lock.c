
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/file.h"

struct icl_lock {
    char *path;
    int file;
};

/* Returns whether the path still names the open file: its last holder may have removed it in between. */
static bool is_there(const icl_lock *lock) {
    struct stat opened, named;

    return fstat(lock->file, &opened) == 0 && lstat(lock->path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* *held: this lock now holds the file. */
static icl_status take(icl_lock *lock, bool *held, icl_error *error) {
    int failure;

    *held = false;
    for (;;) {
        lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (lock->file < 0)
            return icl_file_fail(error, "open", lock->path, errno);
        failure = icl_file_lock(lock->file);
        *held = failure == 0 && is_there(lock);
        if (*held)
            return ICL_OK;
        close(lock->file);
        if (failure == EAGAIN)
            return ICL_OK;
        if (failure != 0)
            return icl_file_fail(error, "lock", lock->path, failure);
    }
}

static icl_status take_folder(icl_lock *lock, bool *held, icl_error *error) {
    lock->file = open(lock->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock->file < 0)
        return icl_file_fail(error, "open", lock->path, errno);
    *held = icl_folder_lock(lock->file) != EAGAIN;
    if (!*held)
        close(lock->file);
    return ICL_OK;
}

static icl_status attempt(const char *path, icl_status (*how)(icl_lock *, bool *, icl_error *), icl_lock **lock,
                          icl_error *error) {
    icl_status status = ICL_OK;
    icl_lock *created = NULL;
    bool held = false;

    *lock = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "lock", &created, error));
    ICL_TRY(icl_duplicate(path, &created->path, error));
    ICL_TRY(how(created, &held, error));
    if (held) {
        *lock = created;
        created = NULL;
    }
done:
    if (created)
        icl_free(&created->path);
    icl_free(&created);
    return status;
}

icl_status icl_lock_try(const char *path, icl_lock **lock, icl_error *error) {
    return attempt(path, take, lock, error);
}

icl_status icl_lock_folder(const char *path, icl_lock **lock, icl_error *error) {
    return attempt(path, take_folder, lock, error);
}

static icl_status refuse_link(const char *path, icl_error *error) {
    struct stat found;

    if (lstat(path, &found) == 0 && S_ISLNK(found.st_mode))
        return icl_file_fail(error, "lock files in", path, ELOOP);
    return ICL_OK;
}

icl_status icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error) {
    icl_status status = ICL_OK;
    char *claims = NULL, *path = NULL;

    *lock = NULL;
    ICL_TRY(icl_path_join(folder, "claims", &claims, error));
    ICL_TRY(refuse_link(claims, error));
    ICL_TRY(icl_folder_create(claims, error));
    ICL_TRY(icl_path_join(claims, name, &path, error));
    ICL_TRY(icl_lock_try(path, lock, error));
done:
    icl_free(&claims);
    icl_free(&path);
    return status;
}

void icl_lock_release(icl_lock **lock) {
    if (*lock) {
        icl_file_unlock((*lock)->file);
        close((*lock)->file);
        icl_free(&(*lock)->path);
    }
    icl_free(lock);
}

void icl_lock_remove(icl_lock **lock) {
    if (*lock && is_there(*lock))
        (void)unlink((*lock)->path);
    icl_lock_release(lock);
}
