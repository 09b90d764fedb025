/* Internals of the task room: files of text, read in pieces. */
#ifndef ICLAB_TASK_CORPUS_H
#define ICLAB_TASK_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

typedef struct icl_corpus_file icl_corpus_file;

/* Regular files, one after the other, as one sequence of bytes. They are never held in memory, nor open between two
 * reads. */
typedef struct icl_corpus {
    uint64_t size;          /* bytes of all files */
    uint64_t hash;          /* of these bytes (FNV-1a, 64 bits) */
    bool is_utf8;           /* whether they are valid UTF-8 */
    icl_corpus_file *files; /* [count], private */
    size_t count, capacity;
} icl_corpus;

/* Finds the files: a comma-separated list of files and folders; a folder stands for the files in it, in the order of
 * their names by bytes, without those whose names begin with a dot. Reads all of them once, for the hash. Messages
 * call the list `what`. ICL_ERROR_INPUT if a name is missing or is no regular file, ICL_ERROR_IO if one cannot be
 * read. */
icl_status icl_corpus_open(const char *list, const char *what, icl_corpus **corpus, icl_error *error);

/* Sets *corpus to NULL; NULL is allowed. */
void icl_corpus_close(icl_corpus **corpus);

/* Reads `count` bytes from byte `first` on, which must be there (asserted). Any number of threads may read.
 * ICL_ERROR_IO if a file is gone, or is not as it was found: another file, another size or another time of change. */
icl_status icl_corpus_read(const icl_corpus *corpus, uint64_t first, size_t count, unsigned char *bytes,
                           icl_error *error);

#endif
