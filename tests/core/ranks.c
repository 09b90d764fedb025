/* Ranks: how work is divided, and what holds without any others. A world of several is tests/tools/ranks.sh. */
#include "iclab/ranks.h"

#include "core/allocate.h"
#include "tap.h"

/* Every item has one owner, in order, and nobody has two more than another. */
static bool divides(size_t count, size_t ranks) {
    size_t next = 0, least = count, most = 0;

    for (size_t i = 0; i < ranks; i++) {
        const icl_ranks rank = {.index = i, .count = ranks};
        size_t first, last;
        icl_ranks_part(&rank, count, &first, &last);
        if (first != next || last < first)
            return false;
        next = last;
        least = last - first < least ? last - first : least;
        most = last - first > most ? last - first : most;
    }
    return next == count && most - least <= 1;
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    bool good = true;
    char *text = NULL;
    const icl_ranks alone = icl_ranks_alone();
    double rows[2] = {1, 2};

    for (size_t count = 0; count <= 40; count++)
        for (size_t ranks = 1; ranks <= 12; ranks++)
            good = good && divides(count, ranks);
    tap_ok(&tap, good, "up to 40 items among up to 12 ranks");
    tap_ok(&tap, divides(SIZE_MAX, 7), "as many as there can be among 7");

    tap_ok(&tap, icl_ranks_is_first(NULL) && icl_ranks_is_first(&alone), "alone is first");
    tap_ok(&tap, icl_ranks_agree(NULL, ICL_ERROR_IO, &error) == ICL_ERROR_IO, "alone one agrees with oneself");
    tap_status(&tap, icl_duplicate("text", &text, &error), &error, "a text");
    tap_ok(&tap,
           icl_ranks_share_text(&alone, &text, &error) == ICL_OK &&
               icl_ranks_gather_rows(&alone, rows, 2, 1, &error) == ICL_OK &&
               icl_ranks_check_same(NULL, 7, "it", &error) == ICL_OK && strcmp(text, "text") == 0 && rows[0] == 1 &&
               rows[1] == 2,
           "and has all there is");
    icl_free(&text);
    return tap_done(&tap);
}
