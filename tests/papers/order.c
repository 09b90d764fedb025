/* Orders of groups: which models a gap is between, what is missing, and what is judged with which verdict. */
#include "papers/order.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

#include "../core/scratch.h"

/* Four groups in no order, in which no model is both the lowest and the highest of a group but d. The gaps are 1, -2
 * and 4; between groups that are not neighbours, or the other ends of them, no number is the same. */
static const icl_ranked models[] = {{"c-low", 2, 9, .5},   {"a-high", 0, 20, .1}, {"b-low", 1, 10, .3},
                                    {"d", 3, 5, 0},        {"c-high", 2, 12, .4}, {"a-low", 0, 14, .6},
                                    {"b-high", 1, 13, .8}, {"c-middle", 2, 11, 7}};
enum { MODELS = sizeof models / sizeof *models };

static void test_gaps(tap_run *tap) {
    static const struct {
        const char *worst, *best;
        double gap, standard_error;
    } expected[] = {{"a-low", "b-high", 1, 1}, {"b-low", "c-high", -2, .5}, {"c-low", "d", 4, .5}};
    icl_ranked some[MODELS];
    icl_order_gap is = {0};

    for (size_t i = 0; i < 3; i++)
        tap_ok(tap,
               icl_order_find_gap(models, MODELS, i, &is) && strcmp(is.worst->name, expected[i].worst) == 0 &&
                   strcmp(is.best->name, expected[i].best) == 0 && fabs(is.gap - expected[i].gap) < 1e-12 &&
                   fabs(is.standard_error - expected[i].standard_error) < 1e-12,
               "group %zu: %s less %s, %g +- %g", i, expected[i].worst, expected[i].best, expected[i].gap,
               expected[i].standard_error);
    tap_ok(tap, !icl_order_find_gap(models, MODELS, 3, &is), "nothing is behind the last group");
    memcpy(some, models, sizeof some);
    some[7].value = (double)NAN; /* c-middle */
    tap_ok(tap,
           icl_order_find_gap(some, MODELS, 0, &is) && !icl_order_find_gap(some, MODELS, 1, &is) &&
               !icl_order_find_gap(some, MODELS, 2, &is),
           "a missing model leaves its group out, on both sides");
}

/* 1 +- 1 is missed, -2 +- .5 has no verdict, 4 +- .5 is met. */
static icl_status judge(icl_reproducing *run, icl_error *error) {
    static const char *const groups[] = {"A", "B", "C", "D"}, *const unjudged[] = {NULL, "too few seeds", NULL};
    const icl_order order = {"accuracy", "a figure", groups, unjudged, 4};

    return icl_reproduce_order(run, &order, "keys of 4", models, MODELS, error);
}

static void test_findings(tap_run *tap) {
    static const char expected[] =
        "what,quantity,ours,standard_error,target,tolerance,criterion,judgement,evidence,source,note\n"
        "\"A above B, keys of 4\",\"accuracy\",1,1,2,0,at least,missed,inferred,\"a figure\",\"a-low less b-high\"\n"
        "\"B above C, keys of 4\",\"accuracy\",-2,0.5,,,,shown,,\"a figure\",\"b-low less c-high; no verdict: too few "
        "seeds\"\n"
        "\"C above D, keys of 4\",\"accuracy\",4,0.5,1,0,at least,met,inferred,\"a figure\",\"c-low less d\"\n";
    const icl_reproduction reproduction = {.name = "example", .run = judge};
    icl_reproduce_summary summary = {0};
    scratch_folder scratch;
    char folder[512], path[600], *text = NULL;
    size_t size;
    icl_error error = {0};

    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "run"));
    snprintf(path, sizeof path, "%s/findings.csv", folder);
    const icl_reproduce_params params = {.folder = folder};
    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    tap_status(tap, icl_file_read(path, 0, &text, &size, &error), &error, "findings.csv");
    if (!tap_ok(tap, text && strcmp(text, expected) == 0, "three findings, one of them missed"))
        tap_note("seen: %s", text ? text : "nothing");
    icl_free(&text);
    (void)remove(path);
    snprintf(path, sizeof path, "%s/report.html", folder);
    (void)remove(path);
    scratch_close(&scratch);
}

int main(void) {
    tap_run tap = {0};

    test_gaps(&tap);
    test_findings(&tap);
    return tap_done(&tap);
}
