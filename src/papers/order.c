#include "papers/order.h"

#include <math.h>
#include <stdio.h>

/* The lowest of a group, or with `best` the highest; NULL as icl_order_find_gap has it. */
static const icl_ranked *find_extreme(const icl_ranked *all, size_t count, size_t group, bool best) {
    const icl_ranked *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (all[i].group != group)
            continue;
        if (isnan(all[i].value))
            return NULL;
        if (!found || (best ? all[i].value > found->value : all[i].value < found->value))
            found = &all[i];
    }
    return found;
}

bool icl_order_find_gap(const icl_ranked *all, size_t count, size_t above, icl_order_gap *found) {
    const icl_ranked *worst = find_extreme(all, count, above, false), *best = find_extreme(all, count, above + 1, true);

    if (!worst || !best)
        return false;
    *found =
        (icl_order_gap){worst, best, worst->value - best->value, hypot(worst->standard_error, best->standard_error)};
    return true;
}

icl_status icl_reproduce_order(icl_reproducing *run, const icl_order *order, const char *where, const icl_ranked *all,
                               size_t count, icl_error *error) {
    for (size_t above = 0; above + 1 < order->count; above++) {
        const char *reason = order->unjudged[above];
        char what[160], note[192];
        icl_order_gap is;

        if (!icl_order_find_gap(all, count, above, &is))
            continue;
        snprintf(what, sizeof what, "%s above %s, %s", order->groups[above], order->groups[above + 1], where);
        snprintf(note, sizeof note, "%s less %s%s%s", is.worst->name, is.best->name, reason ? "; no verdict: " : "",
                 reason ? reason : "");
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = order->quantity, .ours = is.gap,
                            .standard_error = is.standard_error, .target = 2 * is.standard_error,
                            .criterion = ICL_AT_LEAST, .evidence = reason ? ICL_EVIDENCE_NONE : ICL_INFERRED,
                            .source = order->source, .note = note));
    }
    return ICL_OK;
}
