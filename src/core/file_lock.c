/* Locks of open files: open file description locks if the system has them (over NFS they reach the server), else
 * flock. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

int icl_folder_lock(int folder) {
    if (flock(folder, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK ? EAGAIN : errno;
}

int icl_file_lock(int file) {
#ifdef F_OFD_SETLK
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(file, F_OFD_SETLK, &whole) == 0)
        return 0;
    if (errno != EINVAL) /* EINVAL: the kernel does not know them */
        return errno == EACCES ? EAGAIN : errno;
#endif
    return icl_folder_lock(file);
}

void icl_file_unlock(int file) {
#ifdef F_OFD_SETLK
    struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    (void)fcntl(file, F_OFD_SETLK, &whole);
#endif
    (void)flock(file, LOCK_UN);
}
