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
    scratch_close(&scratch);
    return tap_done(&tap);
}
