/* Locks that the system refuses: it is no error that another process holds one, but it is one that a lock cannot be had
 * at all, or whoever waits for it would wait for ever. */
#include <errno.h>

#include "core/file.h"
#include "iclab/file.h"
#include "tap.h"

#include "scratch.h"

/* ---- The system's answer, planted by the linker's --wrap ---- */

static int planted;            /* errno of the next request; 0: the system's own */
static scratch_folder *losing; /* its "lock" is removed by the last holder just before the next request; NULL: none */
static bool is_remade;         /* then another holder makes a new file in its place */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
int __real_fcntl64(int file, int command, void *argument);
int __wrap_fcntl64(int file, int command, void *argument);

int __wrap_fcntl64(int file, int command, void *argument) {
    if (losing && unlink(scratch_path(losing, "lock")) == 0 && is_remade)
        scratch_write(losing, "lock", "", 0);
    losing = NULL;
    if (planted == 0)
        return __real_fcntl64(file, command, argument);
    errno = planted;
    return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* EINVAL comes from a kernel without locks of open file descriptions. */
static void check_other_kind(tap_run *tap, scratch_folder *scratch) {
    icl_lock *lock = NULL, *second = NULL;
    icl_error error = {0};

    planted = EINVAL;
    tap_ok(tap, icl_lock_try(scratch_path(scratch, "lock"), &lock, &error) == ICL_OK && lock, "flock serves instead");
    tap_ok(tap, icl_lock_try(scratch_path(scratch, "lock"), &second, &error) == ICL_OK && !second, "and excludes, too");
    icl_lock_release(&lock);
    tap_ok(tap, icl_lock_try(scratch_path(scratch, "lock"), &lock, &error) == ICL_OK && lock, "until its release");
    icl_lock_release(&lock);
    planted = 0;
}

/* If the path no longer names the locked file, the lock excludes nobody: the lock of the new file is taken instead. */
static void check_lost_file(tap_run *tap, scratch_folder *scratch) {
    for (int i = 0; i < 2; i++) {
        icl_lock *lock = NULL, *second = NULL;
        icl_error error = {0};

        losing = scratch;
        is_remade = i > 0;
        tap_ok(tap, icl_lock_try(scratch_path(scratch, "lock"), &lock, &error) == ICL_OK && lock && !losing,
               "a file that is removed%s before its lock is there: %s", is_remade ? " and made anew" : "",
               error.message);
        tap_ok(tap, icl_path_exists(scratch_path(scratch, "lock")), "the lock is that of a file which is there");
        tap_ok(tap, icl_lock_try(scratch_path(scratch, "lock"), &second, &error) == ICL_OK && !second,
               "and no second one is had");
        icl_lock_release(&second);
        icl_lock_release(&lock);
    }
}

int main(void) {
    static const struct {
        int failure;
        icl_status status;
    } cases[] = {{EACCES, ICL_OK}, {EAGAIN, ICL_OK}, {ENOLCK, ICL_ERROR_IO}, {EINTR, ICL_ERROR_IO}};
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_lock *lock = NULL;
        icl_error error = {0};
        planted = cases[i].failure;
        const icl_status status = icl_lock_try(scratch_path(&scratch, "lock"), &lock, &error);
        planted = 0;
        tap_ok(&tap, status == cases[i].status && !lock, "%s: %s", strerror(cases[i].failure),
               status == ICL_OK ? "held by another" : error.message);
        icl_lock_release(&lock);
    }
    check_other_kind(&tap, &scratch);
    check_lost_file(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
