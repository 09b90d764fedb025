/* File calls beside those of iclab/file.h: temporary files and locks. */
#ifndef ICLAB_CORE_FILE_H
#define ICLAB_CORE_FILE_H

#include "iclab/status.h"

/* Makes a new file, open for writing, with the usual permissions, under a name that no other process uses, on any
 * machine or in any container. The caller frees *temporary, its path, with icl_free, and closes *file. */
icl_status icl_temporary_create(const char *path, char **temporary, int *file, icl_error *error);

/* ---- Locks of open files (file_lock.c) ---- */

/*
 * A lock of an open file excludes every other opening of that file, by other processes and by this one.
 *
 * POSIX record locks would not do: they belong to a process, so that its threads do not exclude each other, and any
 * close of the file drops them.
 */

/* Takes the lock of a file that is open for writing, or of an open folder, without waiting. Returns 0 or a value of
 * errno: EAGAIN if another opening holds the lock. The lock ends when the last descriptor of this opening is closed, in
 * whichever process. */
int icl_file_lock(int file);
int icl_folder_lock(int folder);

/* Releases the lock, even if another process inherited the descriptor. */
void icl_file_unlock(int file);

/* ---- Lock files (lock.c) ---- */

/*
 * A lock file, which keeps other processes, and other threads of this one, from the same work.
 *
 * The system releases it when the process ends, however it ends, so that no lock is ever left behind. On a network file
 * system it works between machines if that supports record locks (NFS 4 does).
 */
typedef struct icl_lock icl_lock;

/* Takes the lock of a file, which is made if it is missing, and stays, empty. *lock is NULL with ICL_OK if the lock is
 * already held; otherwise release it with icl_lock_release or icl_lock_remove. ICL_ERROR_IO if there are no locks, or
 * if the path is a folder or a symbolic link, which could make or open a file anywhere. */
icl_status icl_lock_try(const char *path, icl_lock **lock, icl_error *error);

/* As above, for folder/claims/NAME. The folder "claims" is made if it is missing and must not be a symbolic link. */
icl_status icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error);

/* Locks a folder itself, between the processes of one machine; removing files in the folder does not break the lock. As
 * above, but if the file system cannot lock folders, *lock is returned without a real lock. */
icl_status icl_lock_folder(const char *path, icl_lock **lock, icl_error *error);

void icl_lock_release(icl_lock **lock);

/* Removes the file, too, unless someone replaced it. A process that had already opened the file notices, and locks a
 * new one. */
void icl_lock_remove(icl_lock **lock);

#endif
