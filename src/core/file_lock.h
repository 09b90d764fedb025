/*
 * A lock of an open file, which excludes every other opening of that file, by other processes and by this one.
 *
 * POSIX record locks would not do: they belong to a process, so that its threads do not exclude each other, and any
 * close of the file drops them.
 */
#ifndef ICLAB_CORE_FILE_LOCK_H
#define ICLAB_CORE_FILE_LOCK_H

/* Takes the lock of a file that is open for writing, or of an open folder, without waiting. Returns 0 or a value of
 * errno: EAGAIN if another opening holds the lock. The lock ends when the last descriptor of this opening is closed, in
 * whichever process. */
int icl_file_lock(int file);
int icl_folder_lock(int folder);

/* Releases the lock, even if another process inherited the descriptor. */
void icl_file_unlock(int file);

#endif
