#include "run/sweep/work.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/host.h"

/* How long to wait before looking again at items that others hold. */
#define WAIT_NANOSECONDS 100000000

/* One process at work. */
typedef struct worker {
    const icl_work_list *list;
    icl_work_stop stop;
    bool *finished; /* [list->count]: what is known */
    double started; /* seconds */
    size_t found;   /* items that were finished then */
} worker;

void icl_work_look(void *stop, const icl_session_progress *progress) {
    icl_work_stop *own = stop;
    const icl_work_list *list = own->list;

    (void)progress;
    if ((list->stop && *list->stop) || (list->parent != 0 && (long)getppid() != list->parent))
        own->stop = 1;
}

static icl_status look(worker *w, size_t item, icl_item_state *state, icl_error *error) {
    *state = ICL_ITEM_FINISHED;
    if (!w->finished[item])
        ICL_CHECK(w->list->look(w->list->context, item, state, error));
    w->finished[item] = *state == ICL_ITEM_FINISHED;
    return ICL_OK;
}

/* Looks at the items that are not known to be finished, which others may have finished meanwhile. */
static icl_status count_finished(worker *w, size_t *count, icl_error *error) {
    *count = 0;
    for (size_t item = 0; item < w->list->count; item++) {
        icl_item_state state;
        ICL_CHECK(look(w, item, &state, error));
        *count += w->finished[item];
    }
    return ICL_OK;
}

static void say(const worker *w, const char *format, ...) ICL_PRINTF(2, 3);

static void say(const worker *w, const char *format, ...) {
    char text[128];
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    w->list->say(w->list->user, text);
}

/* "5 of 12 cells finished, about 40 s left" by what all workers together finished since this one began. */
static icl_status say_progress(worker *w, icl_error *error) {
    const icl_work_list *list = w->list;
    size_t count;
    double left;

    if (!list->say)
        return ICL_OK;
    ICL_CHECK(count_finished(w, &count, error));
    if (count == list->count || count <= w->found)
        return ICL_OK;
    left = (icl_clock_seconds() - w->started) / (double)(count - w->found) * (double)(list->count - count);
    if (left < 100)
        say(w, "%zu of %zu %s finished, about %.0f s left", count, list->count, list->noun, left);
    else if (left < 6000)
        say(w, "%zu of %zu %s finished, about %.0f min left", count, list->count, list->noun, left / 60);
    else
        say(w, "%zu of %zu %s finished, about %.1f h left", count, list->count, list->noun, left / 3600);
    return ICL_OK;
}

/* *did: the item was done here. */
static icl_status claim_and_work(worker *w, size_t item, bool *did, icl_error *error) {
    const icl_work_list *list = w->list;
    icl_lock *lock = NULL;
    icl_item_state state;
    icl_status status = ICL_OK;

    ICL_TRY(list->claim(list->context, item, &lock, error));
    if (!lock)
        goto done;
    ICL_TRY(look(w, item, &state, error));
    if (state == ICL_ITEM_OPEN) {
        ICL_TRY(list->work(list->context, item, &w->stop, error));
        w->finished[item] = *did = true;
    }
done:
    icl_lock_release(&lock);
    return status;
}

/* One round over the items. *left: those that are not finished behind it. */
static icl_status work_through(worker *w, size_t *left, icl_error *error) {
    *left = 0;
    for (size_t item = 0; item < w->list->count; item++) {
        icl_item_state state;
        bool did = false;
        icl_work_look(&w->stop, NULL);
        if (w->stop.stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped before all %s were finished", w->list->noun);
        ICL_CHECK(look(w, item, &state, error));
        if (state == ICL_ITEM_OPEN)
            ICL_CHECK(claim_and_work(w, item, &did, error));
        if (did)
            ICL_CHECK(say_progress(w, error));
        *left += !w->finished[item];
    }
    return ICL_OK;
}

icl_status icl_work_finish(const icl_work_list *list, icl_error *error) {
    worker w = {.list = list, .stop = {.list = list}, .started = icl_clock_seconds()};
    size_t left;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(list->count > 0 ? list->count : 1, sizeof *w.finished, list->noun, &w.finished, error));
    ICL_TRY(count_finished(&w, &w.found, error));
    for (;;) {
        ICL_TRY(work_through(&w, &left, error));
        if (left == 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NANOSECONDS}, NULL);
    }
done:
    icl_free(&w.finished);
    return status;
}

icl_status icl_work_count(const icl_work_list *list, size_t *unfinished, icl_error *error) {
    *unfinished = 0;
    for (size_t item = 0; item < list->count; item++) {
        icl_item_state state;
        ICL_CHECK(list->look(list->context, item, &state, error));
        *unfinished += state != ICL_ITEM_FINISHED;
    }
    return ICL_OK;
}
