/*
 * The lock of an open file, which excludes every other opening of that file: of other processes, and of this one.
 *
 * Record locks of POSIX are no use here: they belong to a process, so that its threads do not exclude each other, and
 * any close of the file drops them.
 */
#ifndef ICLAB_CORE_FILE_LOCK_H
#define ICLAB_CORE_FILE_LOCK_H

/* Takes the lock of a file that is open for writing, or of a folder that is open, without waiting. 0, or errno's value:
 * EAGAIN while another opening has the lock. It ends with the last descriptor of this opening, whoever inherited it. */
int icl_file_lock(int file);
int icl_folder_lock(int folder);

/* Gives the lock back, also where another process inherited the descriptor. */
void icl_file_unlock(int file);

#endif
