/* Locks where the system refuses them: what another process holds is no error; a lock that cannot be had at all is one,
 * or who waits for it would wait for ever. */
#include <errno.h>

#include "core/lock.h"
#include "tap.h"

#include "scratch.h"

/* ---- The system's answer, planted by the linker's --wrap ---- */

static int planted; /* errno of the next request; 0: the system's own */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
int __real_fcntl64(int file, int command, void *argument);
int __wrap_fcntl64(int file, int command, void *argument);

int __wrap_fcntl64(int file, int command, void *argument) {
    if (planted == 0)
        return __real_fcntl64(file, command, argument);
    errno = planted;
    return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* A kernel that does not know locks of open files says EINVAL. */
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
    scratch_close(&scratch);
    return tap_done(&tap);
}
