/* Ranks by MPI: implements icl_ranks_calls over MPI_COMM_WORLD. */
#include <limits.h>
#include <mpi.h>
#include <time.h>

#include "iclab/host.h"
#include "workers.h"

/* MPI counts in int, so larger messages are sent in pieces. */
#define MOST_BYTES ((size_t)1 << 30)

/* How often waiting ranks check whether the others are there, instead of a loop that occupies a core. */
#define PAUSE_NANOSECONDS 1000000

static icl_status check(int code, const char *call, icl_error *error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code == MPI_SUCCESS)
        return ICL_OK;
    (void)MPI_Error_string(code, text, &length);
    return icl_fail(error, ICL_ERROR_DEVICE, "%s: %.*s", call, length, text);
}

static icl_status broadcast(void *data, size_t size, size_t from, icl_error *error) {
    icl_status status = ICL_OK;
    char *at = data;

    while (size > 0 && status == ICL_OK) {
        const size_t piece = size < MOST_BYTES ? size : MOST_BYTES;
        status = check(MPI_Bcast(at, (int)piece, MPI_BYTE, (int)from, MPI_COMM_WORLD), "MPI_Bcast", error);
        at += piece;
        size -= piece;
    }
    return status;
}

/* Gathers in one call; `places` has room for sizes and offsets of all ranks. */
static icl_status gather_at_once(void *data, const size_t *sizes, size_t count, int *places, icl_error *error) {
    int *lengths = places, *offsets = places + count, offset = 0;

    for (size_t i = 0; i < count; i++) {
        lengths[i] = (int)sizes[i];
        offsets[i] = offset;
        offset += lengths[i];
    }
    /* MPI's marker is a number made a pointer. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    const void *const in_place = MPI_IN_PLACE;
    return check(MPI_Allgatherv(in_place, 0, MPI_DATATYPE_NULL, data, lengths, offsets, MPI_BYTE, MPI_COMM_WORLD),
                 "MPI_Allgatherv", error);
}

static icl_status gather(void *data, const size_t *sizes, size_t count, icl_error *error) {
    icl_status status = ICL_OK;
    int *places = NULL;
    size_t all = 0;
    char *at = data;

    for (size_t i = 0; i < count; i++)
        all += sizes[i];
    if (all <= MOST_BYTES) {
        ICL_TRY(icl_allocate(2 * count, sizeof *places, "sizes of ranks", &places, error));
        ICL_TRY(gather_at_once(data, sizes, count, places, error));
    } else {
        for (size_t i = 0; i < count; at += sizes[i++])
            ICL_TRY(broadcast(at, sizes[i], i, error));
    }
done:
    icl_free(&places);
    return status;
}

static const icl_ranks_calls calls = {.broadcast = broadcast, .gather = gather};

/* Finds the ranks that are on this machine. */
static icl_status find_neighbours(icl_ranks *ranks, icl_error *error) {
    MPI_Comm machine;
    int index = 0, count = 1;

    ICL_CHECK(check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
                    "MPI_Comm_split_type", error));
    (void)MPI_Comm_rank(machine, &index);
    (void)MPI_Comm_size(machine, &count);
    (void)MPI_Comm_free(&machine);
    ranks->local_index = (size_t)index;
    ranks->local_count = (size_t)count;
    return ICL_OK;
}

icl_status ranks_join(icl_ranks *ranks, icl_error *error) {
    int provided, index = 0, count = 1;

    *ranks = icl_ranks_alone();
    if (ranks_launched() == 0)
        return ICL_OK;
    ICL_CHECK(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init", error));
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &index);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &count);
    ranks->index = (size_t)index;
    ranks->count = (size_t)count;
    ranks->calls = &calls;
    ICL_CHECK(icl_allocate(ranks->count, sizeof *ranks->sizes, "sizes of ranks", &ranks->sizes, error));
    ICL_CHECK(icl_allocate(ranks->count, sizeof *ranks->numbers, "numbers of ranks", &ranks->numbers, error));
    return find_neighbours(ranks, error);
}

void ranks_leave(icl_ranks *ranks) {
    MPI_Request all_here;
    int done = 0;

    if (!ranks->calls)
        return;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &all_here) == MPI_SUCCESS)
        while (MPI_Test(&all_here, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
            (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
    (void)MPI_Finalize();
    icl_free(&ranks->sizes);
    icl_free(&ranks->numbers);
    *ranks = icl_ranks_alone();
}
