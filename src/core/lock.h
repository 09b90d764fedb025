/*
 * A lock on a file, to keep others from work: other processes, and other threads of this one.
 *
 * The system releases it when the process ends, however it ends, so that no lock is ever left behind. Over a network
 * file system it holds between machines where that supports record locks (NFS 4 does).
 */
#ifndef ICLAB_CORE_LOCK_H
#define ICLAB_CORE_LOCK_H

#include "iclab/status.h"

typedef struct icl_lock icl_lock;

/* Takes the lock of the file, which is made where it is missing and stays, empty. *lock is NULL with ICL_OK while
 * it is held already; otherwise it is given back with icl_lock_release or icl_lock_remove. ICL_ERROR_IO where there are
 * no locks, or where the path is a folder or a symbolic link, which could make or open a file anywhere. */
icl_status icl_lock_try(const char *path, icl_lock **lock, icl_error *error);

/* The same of folder/claims/NAME, in a folder that is made where it is missing and must not be a symbolic link. */
icl_status icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error);

/* Locks a folder itself, which holds also where someone removes files in it, between the processes of one machine. As
 * above, but *lock is held in name only where the file system cannot lock folders. */
icl_status icl_lock_folder(const char *path, icl_lock **lock, icl_error *error);

void icl_lock_release(icl_lock **lock);

/* Removes the file, too, unless someone replaced it. Who had opened it before sees that, and takes the lock of a new
 * one. */
void icl_lock_remove(icl_lock **lock);

#endif
