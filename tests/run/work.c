/* Tests the list of work: each item is done once, after the one that it begins with; progress is told; and a stop ends
 * it. */
#include "run/sweep/work.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

#include "../core/scratch.h"

/* The clock, in seconds; each item takes 70. */
static double now = 1000;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
double __wrap_icl_clock_seconds(void);
double __wrap_icl_clock_seconds(void) {
    return now;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

enum {
    ITEMS = 4,
    WAITS = 0,
    BEFORE = 2,
    FINISHED = 3
}; /* WAITS begins with BEFORE; FINISHED is finished from the start */

typedef struct items {
    char folder[512];
    bool finished[ITEMS];
    size_t done[ITEMS], order[16], count;
    size_t fails;                   /* the item whose work fails; ITEMS: none */
    volatile sig_atomic_t *stop_at; /* set after the first item that is done; NULL: no stop */
    char said[8][128];
    size_t said_count;
} items;

static icl_status look(void *context, size_t item, icl_item_state *state, icl_error *error) {
    const items *all = context;

    (void)error;
    *state = all->finished[item]                       ? ICL_ITEM_FINISHED
             : item == WAITS && !all->finished[BEFORE] ? ICL_ITEM_WAITING
                                                       : ICL_ITEM_OPEN;
    return ICL_OK;
}

static icl_status claim(void *context, size_t item, icl_lock **lock, icl_error *error) {
    const items *all = context;
    char name[32];

    snprintf(name, sizeof name, "item-%zu", item);
    return icl_lock_claim(all->folder, name, lock, error);
}

static icl_status work(void *context, size_t item, icl_work_stop *stop, icl_error *error) {
    items *all = context;

    if (item == all->fails)
        return icl_fail(error, ICL_ERROR_DEVICE, "item %zu fails", item);
    now += 70;
    all->done[item]++;
    all->order[all->count++] = item;
    if (all->stop_at)
        *all->stop_at = 1;
    icl_work_look(stop, NULL);
    all->finished[item] = all->done[item] > 0 && (!all->stop_at || stop->stop);
    return ICL_OK;
}

static void say(void *user, const char *text) {
    items *all = user;
    if (all->said_count < 8)
        snprintf(all->said[all->said_count++], sizeof all->said[0], "%s", text);
}

static icl_work_list list_of(items *all) {
    return (icl_work_list){.count = ITEMS,
                           .noun = "things",
                           .look = look,
                           .claim = claim,
                           .work = work,
                           .context = all,
                           .say = say,
                           .user = all};
}

static void begin(items *all, const scratch_folder *scratch) {
    *all = (items){.finished = {[FINISHED] = true}, .fails = ITEMS};
    snprintf(all->folder, sizeof all->folder, "%s", scratch->folder);
}

static void test_order(tap_run *tap, const scratch_folder *scratch) {
    items all;
    icl_error error = {0};
    size_t unfinished = 0;

    begin(&all, scratch);
    const icl_work_list list = list_of(&all);
    tap_status(tap, icl_work_count(&list, &unfinished, &error), &error, "what is to do");
    tap_ok(tap, unfinished == 3, "three of four: %zu", unfinished);
    tap_status(tap, icl_work_finish(&list, &error), &error, "all of it");
    tap_ok(tap, all.count == 3 && all.order[0] == 1 && all.order[1] == BEFORE && all.order[2] == WAITS,
           "each is done once, and one after the item that it begins with");
    /* One item was finished before. After the first of three, two are left, of 70 s each. */
    tap_ok(tap,
           all.said_count == 2 && strcmp(all.said[0], "2 of 4 things finished, about 2 min left") == 0 &&
               strcmp(all.said[1], "3 of 4 things finished, about 70 s left") == 0,
           "progress is said twice: %s; %s", all.said[0], all.said[1]);
    tap_status(tap, icl_work_finish(&list, &error), &error, "again");
    tap_ok(tap, all.count == 3, "nothing is done twice");
}

/* Waits for an item that another process holds; the lock's holder finishes it at the second look. */
static icl_status look_and_finish(void *context, size_t item, icl_item_state *state, icl_error *error) {
    items *all = context;

    ICL_CHECK(look(all, item, state, error));
    if (item == 1 && ++all->done[1] == 3)
        all->finished[1] = true;
    return ICL_OK;
}

static void test_others(tap_run *tap, const scratch_folder *scratch) {
    items all;
    icl_lock *held = NULL;
    icl_error error = {0};

    begin(&all, scratch);
    icl_work_list list = list_of(&all);
    list.look = look_and_finish;
    tap_status(tap, claim(&all, 1, &held, &error), &error, "another process holds an item");
    tap_status(tap, icl_work_finish(&list, &error), &error, "all of it");
    tap_ok(tap, all.count == 2 && all.order[0] == BEFORE && all.order[1] == WAITS && all.finished[1],
           "the others are done, and the end is that of the one that is held");
    icl_lock_release(&held);
}

static void test_ends(tap_run *tap, const scratch_folder *scratch) {
    volatile sig_atomic_t stop = 0;
    items all;
    icl_error error = {0};

    begin(&all, scratch);
    icl_work_list list = list_of(&all);
    list.stop = all.stop_at = &stop;
    tap_ok(tap,
           icl_work_finish(&list, &error) == ICL_ERROR_INTERRUPTED && all.count == 1 && all.finished[1] &&
               strcmp(error.message, "stopped before all things were finished") == 0,
           "a stop ends it behind the item at hand, whose session sees it: %s", error.message);
    begin(&all, scratch);
    list = list_of(&all);
    list.parent = (long)getppid() + 1;
    tap_ok(tap, icl_work_finish(&list, &error) == ICL_ERROR_INTERRUPTED && all.count == 0,
           "nothing is done for a parent that is gone");
    begin(&all, scratch);
    all.fails = BEFORE;
    list = list_of(&all);
    tap_ok(tap, icl_work_finish(&list, &error) == ICL_ERROR_DEVICE && strcmp(error.message, "item 2 fails") == 0,
           "a failure is passed on: %s", error.message);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    test_order(&tap, &scratch);
    test_others(&tap, &scratch);
    test_ends(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
