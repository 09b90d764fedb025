#include "run/sweep/work.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "run/sweep/sweep.h"

/* ---- Lists of work ---- */

/* The wait before a new look at items that others hold. */
#define WAIT_NANOSECONDS 100000000

/* One process at work. */
typedef struct worker {
    const icl_work_list *list;
    icl_work_stop stop;
    bool *finished; /* [list->count]: those known to be finished */
    double started; /* seconds */
    size_t found;   /* items that were finished at that time */
} worker;

void icl_work_look(void *stop, const icl_session_progress *progress) {
    icl_work_stop *own = stop;
    const icl_work_list *list = own->list;

    (void)progress;
    if ((list->stop && *list->stop) || (list->parent != 0 && (long)getppid() != list->parent))
        own->stop = 1;
}

static icl_status look(worker *own, size_t item, icl_item_state *state, icl_error *error) {
    *state = ICL_ITEM_FINISHED;
    if (!own->finished[item])
        ICL_CHECK(own->list->look(own->list->context, item, state, error));
    own->finished[item] = *state == ICL_ITEM_FINISHED;
    return ICL_OK;
}

/* Counts the finished items. Looks again at those not known to be finished, because others may have finished them. */
static icl_status count_finished(worker *own, size_t *count, icl_error *error) {
    *count = 0;
    for (size_t item = 0; item < own->list->count; item++) {
        icl_item_state state;
        ICL_CHECK(look(own, item, &state, error));
        *count += own->finished[item];
    }
    return ICL_OK;
}

static void say(const worker *w, const char *format, ...) ICL_PRINTF(2, 3);

static void say(const worker *own, const char *format, ...) {
    char text[128];
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    own->list->say(own->list->user, text);
}

/* Says "5 of 12 cells finished, about 40 s left", from what all workers together finished since this one began. */
static icl_status say_progress(worker *own, icl_error *error) {
    const icl_work_list *list = own->list;
    size_t count;
    double left;

    if (!list->say)
        return ICL_OK;
    ICL_CHECK(count_finished(own, &count, error));
    if (count == list->count || count <= own->found)
        return ICL_OK;
    left = (icl_clock_seconds() - own->started) / (double)(count - own->found) * (double)(list->count - count);
    if (left < 100)
        say(own, "%zu of %zu %s finished, about %.0f s left", count, list->count, list->noun, left);
    else if (left < 6000)
        say(own, "%zu of %zu %s finished, about %.0f min left", count, list->count, list->noun, left / 60);
    else
        say(own, "%zu of %zu %s finished, about %.1f h left", count, list->count, list->noun, left / 3600);
    return ICL_OK;
}

/* Sets *did to true if the item was done here. */
static icl_status claim_and_work(worker *own, size_t item, bool *did, icl_error *error) {
    const icl_work_list *list = own->list;
    icl_lock *lock = NULL;
    icl_item_state state;
    icl_status status = ICL_OK;

    ICL_TRY(list->claim(list->context, item, &lock, error));
    if (!lock)
        goto done;
    ICL_TRY(look(own, item, &state, error));
    if (state == ICL_ITEM_OPEN) {
        ICL_TRY(list->work(list->context, item, &own->stop, error));
        own->finished[item] = *did = true;
    }
done:
    icl_lock_release(&lock);
    return status;
}

/* Goes once over the items. *left counts those that are not finished afterwards. */
static icl_status work_through(worker *own, size_t *left, icl_error *error) {
    *left = 0;
    for (size_t item = 0; item < own->list->count; item++) {
        icl_item_state state;
        bool did = false;
        icl_work_look(&own->stop, NULL);
        if (own->stop.stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped before all %s were finished", own->list->noun);
        ICL_CHECK(look(own, item, &state, error));
        if (state == ICL_ITEM_OPEN)
            ICL_CHECK(claim_and_work(own, item, &did, error));
        if (did)
            ICL_CHECK(say_progress(own, error));
        *left += !own->finished[item];
    }
    return ICL_OK;
}

icl_status icl_work_finish(const icl_work_list *list, icl_error *error) {
    worker own = {.list = list, .stop = {.list = list}, .started = icl_clock_seconds()};
    size_t left;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(list->count > 0 ? list->count : 1, sizeof *own.finished, list->noun, &own.finished, error));
    ICL_TRY(count_finished(&own, &own.found, error));
    for (;;) {
        ICL_TRY(work_through(&own, &left, error));
        if (left == 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NANOSECONDS}, NULL);
    }
done:
    icl_free(&own.finished);
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

/* ---- Workers ---- */

/* The pause between two looks at the workers. */
#define PAUSE_NANOSECONDS 20000000

static icl_status work_in_process(const icl_workers *params, size_t index, long parent, icl_error *error) {
    icl_backend_params device = params->device;
    icl_backend *backend = NULL;
    icl_status status = ICL_OK;

    device.spec = params->specs[index];
    ICL_TRY(icl_backend_open(&device, &backend, error));
    ICL_TRY(params->work(params->context, backend, parent, error));
done:
    icl_backend_close(&backend);
    return status;
}

/* Runs in the process of a worker; the exit code is the status. */
static int work_apart(const icl_workers *params, size_t index, long parent) {
    icl_error error = {0};
    const icl_status status = work_in_process(params, index, parent, &error);
    char text[ICL_NAME_CAPACITY + ICL_ERROR_CAPACITY];

    if (status != ICL_OK && status != ICL_ERROR_INTERRUPTED && params->fail) {
        snprintf(text, sizeof text, "%s: %s", params->specs[index], error.message);
        params->fail(params->user, text);
    }
    return (int)status;
}

typedef struct workers {
    const icl_workers *params;
    pid_t *processes; /* [count]; 0: ended */
    size_t running, stopped;
    bool told_to_stop;
    icl_status status; /* the first failure's */
    icl_error *error;
} workers;

static void take_end(workers *pool, size_t index, int state) {
    const char *spec = pool->params->specs[index];
    const icl_status ended = WIFEXITED(state) ? (icl_status)WEXITSTATUS(state) : ICL_ERROR_DEVICE;

    pool->processes[index] = 0;
    pool->running--;
    pool->stopped += ended == ICL_ERROR_INTERRUPTED;
    if (ended == ICL_OK || ended == ICL_ERROR_INTERRUPTED || pool->status != ICL_OK)
        return;
    if (WIFSIGNALED(state))
        pool->status = icl_fail(pool->error, ended, "worker %zu on %s was ended by signal %d; the same command goes on",
                                index, spec, WTERMSIG(state));
    else
        pool->status = icl_fail(pool->error, ended, "worker %zu on %s gave up (%s); the same command goes on", index,
                                spec, icl_status_name(ended));
}

static void tell_to_stop(workers *pool) {
    for (size_t i = 0; i < pool->params->count; i++)
        if (pool->processes[i] > 0)
            (void)kill(pool->processes[i], SIGTERM);
    pool->told_to_stop = true;
}

static void look_after(workers *pool) {
    const volatile sig_atomic_t *stop = pool->params->stop;

    while (pool->running > 0) {
        for (size_t i = 0; i < pool->params->count; i++) {
            int state = 0;
            if (pool->processes[i] > 0 && waitpid(pool->processes[i], &state, WNOHANG) == pool->processes[i])
                take_end(pool, i, state);
        }
        if (stop && *stop && !pool->told_to_stop)
            tell_to_stop(pool);
        if (pool->running > 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
    }
}

static icl_status start_all(workers *pool, icl_error *error) {
    const long parent = (long)getpid();

    assert(pool->processes);
    (void)fflush(NULL); /* otherwise every worker would print what is still buffered */
    for (size_t i = 0; i < pool->params->count; i++) {
        const pid_t process = fork();
        if (process == 0)
            _exit(work_apart(pool->params, i, parent));
        if (process < 0)
            return icl_file_fail(error, "start", "a worker process", errno);
        pool->processes[i] = process;
        pool->running++;
    }
    return ICL_OK;
}

icl_status icl_workers_run(const icl_workers *params, icl_error *error) {
    workers pool = {.params = params, .error = error};
    icl_status status = ICL_OK;

    if (params->count == 1)
        return work_in_process(params, 0, 0, error);
    ICL_TRY(icl_allocate(params->count, sizeof *pool.processes, "worker processes", &pool.processes, error));
    status = start_all(&pool, error);
    if (status != ICL_OK)
        tell_to_stop(&pool);
    look_after(&pool);
    if (status == ICL_OK)
        status = pool.status;
    if (status == ICL_OK && pool.stopped > 0)
        status = icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped before all work was finished");
done:
    icl_free(&pool.processes);
    return status;
}
