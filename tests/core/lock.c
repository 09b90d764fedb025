/* Locks on files exclude others, also in this process, and end with their holder, even if it was killed. */
#include "core/file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iclab/file.h"
#include "iclab/text.h"
#include "tap.h"

#include "scratch.h"

/* Returns whether another process gets the lock. */
static bool others_get(const char *path) {
    int state = 0;
    const pid_t child = fork();

    if (child == 0) {
        icl_lock *lock = NULL;
        _exit(icl_lock_try(path, &lock, NULL) == ICL_OK && lock ? 1 : 0);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 1;
}

/* Starts a process that holds the lock until it is killed. */
static pid_t hold(const char *path) {
    int ready[2];
    char byte;
    pid_t child;

    if (pipe(ready) != 0)
        return -1;
    child = fork();
    if (child == 0) {
        icl_lock *lock = NULL;
        if (icl_lock_try(path, &lock, NULL) != ICL_OK || !lock || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (child > 0 && read(ready[0], &byte, 1) != 1)
        child = -1;
    close(ready[0]);
    return child;
}

/* Links are refused in a folder that others can write, because they may lead anywhere. */
static void check_links(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    icl_lock *lock = NULL;
    char target[512], folder[512], link[512];

    snprintf(target, sizeof target, "%s", scratch_path(scratch, "victim"));
    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "sweep"));
    snprintf(link, sizeof link, "%s", scratch_path(scratch, "link"));
    tap_ok(tap,
           symlink(target, link) == 0 && icl_lock_try(link, &lock, &error) == ICL_ERROR_IO && !lock &&
               !icl_path_exists(target),
           "a symbolic link makes no file elsewhere: %s", error.message);
    tap_ok(tap, icl_lock_claim(folder, "cell", &lock, &error) == ICL_OK && lock, "a claim in a folder of its own");
    icl_lock_remove(&lock);
    snprintf(link, sizeof link, "%s", scratch_path(scratch, "sweep/claims"));
    tap_ok(tap,
           rmdir(link) == 0 && mkdir(target, 0777) == 0 && symlink(target, link) == 0 &&
               icl_lock_claim(folder, "cell", &lock, &error) == ICL_ERROR_IO && !lock && rmdir(target) == 0 &&
               unlink(link) == 0,
           "a folder of claims that is a link gets none: %s", error.message);
}

/* Opening and closing the file in this process, as copying it does, keeps the lock. */
static void check_this_process(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    icl_lock *lock = NULL, *second = NULL;
    char path[512], *data = NULL;
    size_t size;

    snprintf(path, sizeof path, "%s", scratch_path(scratch, "lock"));
    tap_ok(tap, icl_lock_try(path, &lock, &error) == ICL_OK && lock, "a lock");
    tap_ok(tap, icl_lock_try(path, &second, &error) == ICL_OK && !second, "excludes this process, too");
    tap_ok(tap, icl_file_read(path, 0, &data, &size, &error) == ICL_OK && !others_get(path),
           "and holds when the file was read here");
    icl_text_free(&data);
    tap_ok(tap, unlink(path) == 0 && icl_lock_try(path, &second, &error) == ICL_OK && second,
           "who removes the file takes the lock of a new one");
    icl_lock_remove(&lock);
    tap_ok(tap, icl_path_exists(path), "  which the first does not remove");
    icl_lock_remove(&second);
}

static void check_folders(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    icl_lock *lock = NULL, *second = NULL;
    char folder[512];

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "folder"));
    tap_ok(tap, mkdir(folder, 0777) == 0 && icl_lock_try(folder, &lock, &error) == ICL_ERROR_IO && !lock,
           "a folder in a lock's place is refused: %s", error.message);
    tap_ok(tap, icl_lock_folder(folder, &lock, &error) == ICL_OK && lock, "a folder's own lock");
    tap_ok(tap, icl_lock_folder(folder, &second, &error) == ICL_OK && !second, "is held");
    icl_lock_release(&lock);
    tap_ok(tap, icl_lock_folder(folder, &second, &error) == ICL_OK && second, "until it is released");
    icl_lock_release(&second);
    tap_ok(tap, rmdir(folder) == 0 && icl_lock_folder(folder, &lock, &error) == ICL_ERROR_IO && !lock,
           "a missing folder: %s", error.message);
}

/* A child that inherits the descriptor, as one that tries a driver does, does not keep the lock. */
static void check_inheritance(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    icl_lock *lock = NULL;
    char path[512];

    snprintf(path, sizeof path, "%s", scratch_path(scratch, "lock"));
    (void)icl_lock_try(path, &lock, &error);
    const pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    icl_lock_release(&lock);
    tap_ok(tap, child > 0 && others_get(path), "a child that lives on does not hold what was released");
    if (child > 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    (void)unlink(path);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;
    icl_lock *lock = NULL;
    icl_error error = {0};
    char path[512];
    pid_t holder;

    scratch_open(&scratch);
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "lock"));
    tap_status(&tap, icl_lock_try(path, &lock, &error), &error, "a file that was not there");
    tap_ok(&tap, lock != NULL, "is locked");
    tap_ok(&tap, !others_get(path), "against others");
    icl_lock_release(&lock);
    tap_ok(&tap, !lock && others_get(path), "until it is released");

    holder = hold(path);
    tap_ok(&tap, holder > 0 && icl_lock_try(path, &lock, &error) == ICL_OK && !lock,
           "another process holds it: none, and no error");
    if (holder > 0) {
        (void)kill(holder, SIGKILL);
        (void)waitpid(holder, NULL, 0);
    }
    tap_ok(&tap, icl_lock_try(path, &lock, &error) == ICL_OK && lock, "free once that is killed");
    icl_lock_release(&lock);
    icl_lock_remove(&lock);
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "lock"));
    tap_ok(&tap, icl_lock_try(path, &lock, &error) == ICL_OK && lock, "taken again");
    icl_lock_remove(&lock);
    tap_ok(&tap, !icl_path_exists(path) && !lock, "a lock that is removed leaves no file");
    check_links(&tap, &scratch);
    check_this_process(&tap, &scratch);
    check_folders(&tap, &scratch);
    check_inheritance(&tap, &scratch);

    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "missing/lock"));
    tap_ok(&tap, icl_lock_try(path, &lock, &error) == ICL_ERROR_IO && !lock, "no such folder: %s", error.message);
    scratch_close(&scratch);
    return tap_done(&tap);
}
