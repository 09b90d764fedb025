#include "core/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/file.h"

struct icl_lock {
    int file;
};

icl_status icl_lock_try(const char *path, icl_lock **lock, icl_error *error) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    icl_status status = ICL_OK;
    icl_lock *made = NULL;

    *lock = NULL;
    ICL_TRY(icl_allocate(1, sizeof *made, "lock", &made, error));
    made->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (made->file < 0) {
        status = icl_file_fail(error, "open", path, errno);
        goto done;
    }
    if (fcntl(made->file, F_SETLK, &whole) == 0) {
        *lock = made;
        return ICL_OK;
    }
    if (errno != EACCES && errno != EAGAIN)
        status = icl_file_fail(error, "lock", path, errno);
    close(made->file);
done:
    icl_free(&made);
    return status;
}

void icl_lock_release(icl_lock **lock) {
    if (*lock)
        close((*lock)->file);
    icl_free(lock);
}
