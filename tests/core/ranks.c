/* Ranks: how work is divided, how a single rank behaves, and, among threads, what all ranks agree on.
 * tests/tools/ranks.sh tests ranks that are processes. */
#include "iclab/ranks.h"

#include "core/allocate.h"
#include "tap.h"
#include "thread_ranks.h"

/* Returns whether every item has one owner, in order, and the shares differ by one at most. */
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

/* ---- Several ---- */

enum { RANKS = 3 };

/* The outcome that each rank brings, and the one that it gets. */
typedef struct agreement {
    icl_status brings[RANKS], gets[RANKS];
    icl_error errors[RANKS];
    uint64_t numbers[RANKS];
} agreement;

static void agree(const icl_ranks *ranks, void *user) {
    agreement *all = user;
    icl_error *error = &all->errors[ranks->index];

    all->gets[ranks->index] = icl_ranks_agree(ranks, all->brings[ranks->index], error);
}

static void check_same(const icl_ranks *ranks, void *user) {
    agreement *all = user;
    all->gets[ranks->index] = icl_ranks_check_same(ranks, all->numbers[ranks->index], "it", &all->errors[ranks->index]);
}

/* All ranks get the failure of the first rank that failed, whichever it is. */
static void test_agreement(tap_run *tap) {
    for (size_t first = 0; first <= RANKS; first++) {
        agreement all = {{ICL_OK}, {ICL_OK}, {{0}}, {0}};
        char expected[32];
        bool good = true;
        for (size_t i = first; i < RANKS; i++) {
            all.brings[i] = i == first ? ICL_ERROR_IO : ICL_ERROR_INPUT;
            snprintf(all.errors[i].message, sizeof all.errors[i].message, "rank %zu has failed", i);
        }
        snprintf(expected, sizeof expected, "rank %zu has failed", first);
        good = thread_ranks_run(RANKS, agree, &all);
        for (size_t i = 0; i < RANKS; i++)
            good = good && all.gets[i] == (first < RANKS ? ICL_ERROR_IO : ICL_OK) &&
                   strcmp(all.errors[i].message, first < RANKS ? expected : "") == 0;
        tap_ok(tap, good, "failures from rank %zu on: all get its status, and \"%s\"", first, all.errors[0].message);
    }
}

static void test_sameness(tap_run *tap) {
    for (size_t other = 1; other <= RANKS; other++) {
        agreement all = {{ICL_OK}, {ICL_OK}, {{0}}, {5, 5, 5}};
        char expected[32];
        if (other < RANKS)
            all.numbers[other] = 6;
        snprintf(expected, sizeof expected, "rank %zu has other bits", other);
        bool good = thread_ranks_run(RANKS, check_same, &all);
        for (size_t i = 0; i < RANKS; i++)
            good = good &&
                   (other < RANKS ? all.gets[i] == ICL_ERROR_DEVICE && strstr(all.errors[i].message, expected) != NULL
                                  : all.gets[i] == ICL_OK);
        tap_ok(tap, good, "numbers of which that of rank %zu is another: %s", other, all.errors[0].message);
    }
}

/* Shares rank 0's text, whose length differs from the others', and gathers rows of all ranks. */
static void share(const icl_ranks *ranks, void *user) {
    bool *good = user;
    char *text = NULL;
    double rows[5] = {0};
    size_t first, last;

    good[ranks->index] = icl_duplicate(ranks->index == 0 ? "the text of rank 0" : "mine", &text, NULL) == ICL_OK &&
                         icl_ranks_share_text(ranks, &text, NULL) == ICL_OK && strcmp(text, "the text of rank 0") == 0;
    icl_free(&text);
    icl_ranks_part(ranks, 5, &first, &last);
    for (size_t i = first; i < last; i++)
        rows[i] = (double)i + 1;
    good[ranks->index] = icl_ranks_gather_rows(ranks, rows, 5, 1, NULL) == ICL_OK && good[ranks->index];
    for (size_t i = 0; i < 5; i++)
        good[ranks->index] = good[ranks->index] && rows[i] == (double)i + 1;
}

static void test_sharing(tap_run *tap) {
    bool good[RANKS] = {false};
    tap_ok(tap, thread_ranks_run(RANKS, share, good) && good[0] && good[1] && good[2],
           "a text of rank 0, and rows of all");
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
    test_agreement(&tap);
    test_sameness(&tap);
    test_sharing(&tap);
    return tap_done(&tap);
}
