/* Tests the table of reproductions: each has a name of its own, a paper, a line that says what it shows, its cost, and
 * the numbers that its checks and their notes name. */
#include <stdlib.h>
#include <string.h>

#include "papers/study.h"
#include "papers/study_list.h"
#include "tap.h"

/* Says whether a text is a cost: a number and a unit ("4 s", "10 min"), or "a ..." or "weeks" if it is too long to wait
 * for. */
static bool is_time(const char *text) {
    char *unit = NULL;

    if (strncmp(text, "a ", 2) == 0 || strcmp(text, "weeks") == 0)
        return true;
    return strtod(text, &unit) > 0 &&
           (strcmp(unit, " s") == 0 || strcmp(unit, " min") == 0 || strcmp(unit, " h") == 0 || strcmp(unit, " d") == 0);
}

/* Says whether the numbers of a check exist, and its note has as many places as numbers. */
static bool is_sound(const icl_study_check_row *row, size_t numbers) {
    const size_t room = sizeof row->beside / sizeof *row->beside;
    size_t places = 0;
    bool exist = row->number < numbers;

    for (const char *place = row->note ? strchr(row->note, '{') : NULL; place; place = strchr(place + 1, '{')) {
        if (place[1] != '}' || places == room)
            return false;
        exist = exist && row->beside[places++] < numbers;
    }
    for (size_t i = places; i < room; i++)
        exist = exist && row->beside[i] == 0;
    return exist;
}

/* Says whether one of the first rows is of that paper. */
static bool is_above(const icl_catalogue *all, size_t count, const char *paper) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(all->rows[i].paper, paper) == 0)
            return true;
    return false;
}

int main(void) {
    tap_run tap = {0};
    icl_catalogue all = {0};
    icl_error error = {0};

    tap_status(&tap, icl_catalogue_open(&all, &error), &error, "the catalogue");
    tap_ok(&tap, all.count > 50 && all.file_count > 0, "there are %zu, of which %zu files", all.count, all.file_count);
    for (size_t i = 0; i < all.count; i++) {
        const icl_reproduction *reproduction = all.rows[i].reproduction, *found = NULL;
        const char *paper = all.rows[i].paper;
        size_t costs = 0;
        tap_ok(&tap,
               reproduction->name && icl_catalogue_find(&all, reproduction->name, &found, NULL) == ICL_OK &&
                   found == reproduction,
               "%s is found by its name", reproduction->name ? reproduction->name : "(none)");
        tap_ok(&tap, reproduction->source && strncmp(reproduction->source, "arXiv ", 6) == 0, "of %s",
               reproduction->source ? reproduction->source : "(none)");
        tap_ok(&tap, strstr(paper, "arXiv ") != NULL, "of %s", paper);
        tap_ok(&tap, i == 0 || strcmp(paper, all.rows[i - 1].paper) == 0 || !is_above(&all, i - 1, paper),
               "beside the others of that paper");
        tap_ok(&tap, reproduction->about && strlen(reproduction->about) > 20 && !strchr(reproduction->about, '\n'),
               "shows %s", reproduction->about ? reproduction->about : "(nothing)");
        for (size_t scale = 0; scale < ICL_SCALES; scale++)
            costs += reproduction->cost[scale] && is_time(reproduction->cost[scale]);
        tap_ok(&tap, reproduction->cost[ICL_SCALE_CI] && costs >= 2 && reproduction->plan,
               "says what two scales or three cost, and is run");
        for (size_t k = 0; k < reproduction->check_count; k++)
            tap_ok(&tap, is_sound(&reproduction->checks[k], reproduction->numbers), "has the numbers of %s, \"%s\"",
                   reproduction->checks[k].quantity, reproduction->checks[k].note ? reproduction->checks[k].note : "");
    }
    icl_catalogue_close(&all);
    return tap_done(&tap);
}
