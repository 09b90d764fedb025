#include "iclab/ranks.h"

#include <string.h>

#include "core/allocate.h"

icl_ranks icl_ranks_alone(void) {
    return (icl_ranks){.count = 1, .local_count = 1};
}

static bool is_alone(const icl_ranks *ranks) {
    return !ranks || ranks->count <= 1;
}

bool icl_ranks_is_first(const icl_ranks *ranks) {
    return is_alone(ranks) || ranks->index == 0;
}

/* Returns the first item of a rank's part; the first count % ranks parts have one item more. */
static size_t part_begins(size_t count, size_t rank, size_t ranks) {
    const size_t longer = count % ranks;
    return count / ranks * rank + (rank < longer ? rank : longer);
}

void icl_ranks_part(const icl_ranks *ranks, size_t count, size_t *first, size_t *last) {
    const size_t all = is_alone(ranks) ? 1 : ranks->count, index = is_alone(ranks) ? 0 : ranks->index;

    *first = part_begins(count, index, all);
    *last = part_begins(count, index + 1, all);
}

/* Gathers every rank's number into ranks->numbers. */
static icl_status gather_numbers(const icl_ranks *ranks, uint64_t own, icl_error *error) {
    for (size_t i = 0; i < ranks->count; i++)
        ranks->sizes[i] = sizeof own;
    ranks->numbers[ranks->index] = own;
    return ranks->calls->gather(ranks->numbers, ranks->sizes, ranks->count, error);
}

icl_status icl_ranks_agree(const icl_ranks *ranks, icl_status own, icl_error *error) {
    icl_error common = {0};
    size_t failed = 0;

    if (is_alone(ranks))
        return own;
    ICL_CHECK(gather_numbers(ranks, (uint64_t)own, error));
    while (failed < ranks->count && ranks->numbers[failed] == ICL_OK)
        failed++;
    if (failed == ranks->count)
        return ICL_OK;
    if (failed == ranks->index && error)
        common = *error;
    ICL_CHECK(ranks->calls->broadcast(&common, sizeof common, failed, error));
    if (error)
        *error = common;
    return (icl_status)ranks->numbers[failed];
}

icl_status icl_ranks_share(const icl_ranks *ranks, void *data, size_t size, icl_error *error) {
    return is_alone(ranks) ? ICL_OK : ranks->calls->broadcast(data, size, 0, error);
}

icl_status icl_ranks_share_text(const icl_ranks *ranks, char **text, icl_error *error) {
    icl_status status = ICL_OK;
    uint64_t size = 0;

    if (is_alone(ranks))
        return ICL_OK;
    if (ranks->index == 0)
        size = strlen(*text) + 1;
    ICL_CHECK(icl_ranks_share(ranks, &size, sizeof size, error));
    if (ranks->index != 0) {
        icl_free(text);
        status = icl_allocate((size_t)size, 1, "text of rank 0", text, error);
    }
    ICL_CHECK(icl_ranks_agree(ranks, status, error));
    return icl_ranks_share(ranks, *text, (size_t)size, error);
}

icl_status icl_ranks_gather_rows(const icl_ranks *ranks, double *rows, size_t count, size_t width, icl_error *error) {
    if (is_alone(ranks))
        return ICL_OK;
    for (size_t i = 0; i < ranks->count; i++)
        ranks->sizes[i] =
            (part_begins(count, i + 1, ranks->count) - part_begins(count, i, ranks->count)) * width * sizeof *rows;
    return ranks->calls->gather(rows, ranks->sizes, ranks->count, error);
}

icl_status icl_ranks_check_same(const icl_ranks *ranks, uint64_t number, const char *what, icl_error *error) {
    if (is_alone(ranks))
        return ICL_OK;
    ICL_CHECK(gather_numbers(ranks, number, error));
    for (size_t i = 1; i < ranks->count; i++)
        if (ranks->numbers[i] != ranks->numbers[0])
            return icl_fail(error, ICL_ERROR_DEVICE,
                            "%s: rank %zu has other bits than rank 0: expected the same kind of device and "
                            "the same build on every rank",
                            what, i);
    return ICL_OK;
}
