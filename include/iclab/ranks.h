/*
 * Ranks: processes, on one machine or many, that were started together to work on one thing (mpirun -n N).
 *
 * All calls here are collective: every rank makes the same ones in the same order. A rank that failed must not stay
 * away from the next one, or the others would wait for ever: it takes its failure to icl_ranks_agree, which makes it
 * everybody's. In a world of one rank they do nothing. The functions that move the bytes are handed in, so that the
 * library itself needs no MPI (tools/ranks_mpi.c).
 */
#ifndef ICLAB_RANKS_H
#define ICLAB_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* What moves the bytes. */
typedef struct icl_ranks_calls {
    /* Sends the bytes of one rank to all others. */
    icl_status (*broadcast)(void *data, size_t size, size_t from, icl_error *error);
    /* `data` holds the blocks of all ranks one after another, sizes[r] bytes of rank r; each rank brings its own and
     * gets the others'. */
    icl_status (*gather)(void *data, const size_t *sizes, size_t count, icl_error *error);
} icl_ranks_calls;

/* The world of ranks, as one of its processes sees it. */
typedef struct icl_ranks {
    size_t index, count;             /* this process, and the number of them; only rank 0 writes and prints */
    size_t local_index, local_count; /* index and number among the ranks of this machine */
    const icl_ranks_calls *calls;    /* NULL in a world of one rank, and so are the next two */
    size_t *sizes;                   /* [count], scratch of the calls below, */
    uint64_t *numbers;               /* and [count] again, so that none of them can fail on one rank alone */
} icl_ranks;

/* A process on its own. */
ICL_API icl_ranks icl_ranks_alone(void);

/* Returns whether this rank writes files and prints. NULL counts as a single rank here and below. */
ICL_API bool icl_ranks_is_first(const icl_ranks *ranks);

/* Makes the ranks agree on an outcome: every rank brings the status of its own work. If any failed, all return the
 * status and message of the first that did. */
ICL_API icl_status icl_ranks_agree(const icl_ranks *ranks, icl_status own, icl_error *error);

/* Sends rank 0's bytes to all. */
ICL_API icl_status icl_ranks_share(const icl_ranks *ranks, void *data, size_t size, icl_error *error);

/* Sends rank 0's text to all others, whose *text is replaced by new memory, freed with icl_text_free. */
ICL_API icl_status icl_ranks_share_text(const icl_ranks *ranks, char **text, icl_error *error);

/* Divides `count` items among the ranks: each rank gets a contiguous range, from *first up to *last, as evenly as
 * possible. */
ICL_API void icl_ranks_part(const icl_ranks *ranks, size_t count, size_t *first, size_t *last);

/* Gathers rows [count][width]: each rank brings the rows of its part and gets all others. */
ICL_API icl_status icl_ranks_gather_rows(const icl_ranks *ranks, double *rows, size_t count, size_t width,
                                         icl_error *error);

/* Checks that a number is the same on all ranks: if it is not, returns ICL_ERROR_DEVICE on every rank; `what` names the
 * number in the message. */
ICL_API icl_status icl_ranks_check_same(const icl_ranks *ranks, uint64_t number, const char *what, icl_error *error);

ICL_C_END

#endif
