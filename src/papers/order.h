/*
 * Orders that a paper shows: groups of models, each above the next.
 *
 * The worst of a group has to be above the best of the next one by two standard errors.
 */
#ifndef ICLAB_PAPERS_ORDER_H
#define ICLAB_PAPERS_ORDER_H

#include "papers/reproduce.h"

/* A model in its group, 0 for the one that is to be highest. A value that is NaN is missing. */
typedef struct icl_ranked {
    const char *name;
    size_t group;
    double value, standard_error;
} icl_ranked;

/* The worst of a group and the best of the next one. */
typedef struct icl_order_gap {
    const icl_ranked *worst, *best;
    double gap, standard_error; /* of their values, taken as independent */
} icl_order_gap;

/* Between group `above` and `above` + 1. False where one of them has no model, or one that is missing. */
bool icl_order_find_gap(const icl_ranked *all, size_t count, size_t above, icl_order_gap *found);

typedef struct icl_order {
    const char *quantity, *source;
    const char *const *groups;   /* [count] their names, from the highest on */
    const char *const *unjudged; /* [count - 1] why the row of a group has no verdict; NULL: it has one */
    size_t count;
} icl_order;

/* A finding for each group but the last: how far it is above the next. `where` tells these models from those of other
 * findings: "keys of 16". */
icl_status icl_reproduce_order(icl_reproducing *run, const icl_order *order, const char *where, const icl_ranked *all,
                               size_t count, icl_error *error);

#endif
