/* The table of reproductions: each has a name of its own, a paper, a line that says what it shows, and its cost. */
#include <stdlib.h>
#include <string.h>

#include "papers/reproduce.h"
#include "tap.h"

/* "4 s", "10 min": a number and a unit, but for what nobody waits for. */
static bool is_time(const char *text) {
    char *unit = NULL;

    if (strncmp(text, "a ", 2) == 0 || strcmp(text, "weeks") == 0)
        return true;
    return strtod(text, &unit) > 0 &&
           (strcmp(unit, " s") == 0 || strcmp(unit, " min") == 0 || strcmp(unit, " h") == 0 || strcmp(unit, " d") == 0);
}

int main(void) {
    tap_run tap = {0};
    size_t count = 0;
    const icl_reproduction *const *all = icl_reproductions(&count);

    tap_ok(&tap, count > 50, "there are %zu", count);
    for (size_t i = 0; i < count; i++) {
        const icl_reproduction *is = all[i], *found = NULL;
        size_t costs = 0;
        tap_ok(&tap, is->name && icl_reproduction_find(is->name, &found, NULL) == ICL_OK && found == is,
               "%s is found by its name", is->name ? is->name : "(none)");
        tap_ok(&tap, is->source && strncmp(is->source, "arXiv ", 6) == 0, "of %s", is->source ? is->source : "(none)");
        tap_ok(&tap, strstr(icl_reproduction_paper(i), "arXiv ") != NULL, "of %s", icl_reproduction_paper(i));
        tap_ok(&tap, is->about && strlen(is->about) > 20 && !strchr(is->about, '\n'), "shows %s",
               is->about ? is->about : "(nothing)");
        for (size_t scale = 0; scale < ICL_SCALES; scale++)
            costs += is->cost[scale] && is_time(is->cost[scale]);
        tap_ok(&tap, is->cost[ICL_SCALE_CI] && costs >= 2 && is->plan,
               "says what two scales or three cost, and is run");
    }
    return tap_done(&tap);
}
