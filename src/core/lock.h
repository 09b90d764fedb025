/*
 * A lock file, which keeps other processes, and other threads of this one, from the same work.
 *
 * The system releases it when the process ends, however it ends, so that no lock is ever left behind. On a network file
 * system it works between machines if that supports record locks (NFS 4 does).
 */
#ifndef ICLAB_CORE_LOCK_H
#define ICLAB_CORE_LOCK_H

#include "iclab/status.h"

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
