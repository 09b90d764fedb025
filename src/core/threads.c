/* sched_getaffinity is specific to Linux. */
#ifdef __linux__
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif
#include "core/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/number.h"

/* The number of checks for work before a thread sleeps: 10 to 50 microseconds. */
#define LOOKS 1000

#define STACK_BYTES ((size_t)4 << 20) /* explicit, because some systems give other threads far less than the main one */

/* Tells the processor that this loop only waits, so that the other thread of its core can run. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* An event that one thread waits for and another one signals. */
typedef struct event {
    pthread_mutex_t mutex;
    pthread_cond_t happened;
    atomic_size_t count; /* how often it happened */
} event;

typedef struct worker {
    icl_threads *team;
    size_t number;
    pthread_t thread;
    event work; /* there is work, or the team ends */
} worker;

struct icl_threads {
    size_t started; /* running workers, without the caller */
    bool exhausted; /* the system cannot start more */
    worker *workers;
    event done;
    /* The current run, written before the workers are told. */
    icl_thread_task *task; /* NULL: the end */
    void *context;
    size_t used;
    atomic_size_t unfinished;
    /* The end of the run. */
    bool is_running; /* some worker has a share, for which nobody has waited */
    size_t seen;     /* how often a run had ended before */
};

/* ---- Events ---- */

static bool event_create(event *e) {
    if (pthread_mutex_init(&e->mutex, NULL) != 0)
        return false;
    if (pthread_cond_init(&e->happened, NULL) != 0) {
        pthread_mutex_destroy(&e->mutex);
        return false;
    }
    atomic_init(&e->count, 0);
    return true;
}

static void event_destroy(event *e) {
    pthread_cond_destroy(&e->happened);
    pthread_mutex_destroy(&e->mutex);
}

static void event_happens(event *e) {
    pthread_mutex_lock(&e->mutex);
    atomic_fetch_add_explicit(&e->count, 1, memory_order_release);
    pthread_cond_signal(&e->happened);
    pthread_mutex_unlock(&e->mutex);
}

/* Waits until the event has happened more than `seen` times. */
static void event_wait(event *e, size_t seen) {
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load_explicit(&e->count, memory_order_acquire) != seen)
            return;
        PAUSE();
    }
    pthread_mutex_lock(&e->mutex);
    while (atomic_load_explicit(&e->count, memory_order_acquire) == seen)
        pthread_cond_wait(&e->happened, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
}

/* ---- Workers ---- */

static void *work(void *argument) {
    worker *self = argument;
    icl_threads *team = self->team;

    for (size_t seen = 0;; seen++) {
        event_wait(&self->work, seen);
        if (!team->task)
            return NULL;
        team->task(team->context, self->number, team->used);
        if (atomic_fetch_sub_explicit(&team->unfinished, 1, memory_order_acq_rel) == 1)
            event_happens(&team->done);
    }
}

/* Starts a worker with all signals blocked: they are for the thread that started the team. */
static bool start(worker *w) {
    pthread_attr_t attributes;
    sigset_t all, before;
    bool started = false;

    if (!event_create(&w->work))
        return false;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        started = pthread_create(&w->thread, &attributes, work, w) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (!started)
        event_destroy(&w->work);
    return started;
}

/* Starts workers until `wanted` of them run, or the system cannot start more. */
static void start_workers(icl_threads *team, size_t wanted) {
    while (team->started < wanted && !team->exhausted) {
        worker *next = &team->workers[team->started];
        next->team = team;
        next->number = team->started + 1;
        team->exhausted = !start(next);
        team->started += !team->exhausted;
    }
}

/* ---- Teams ---- */

static size_t cores(void) {
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0)
        return (size_t)CPU_COUNT(&allowed);
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

size_t icl_threads_available(void) {
    enum { MOST = 4096 };
    const char *asked = getenv("OMP_NUM_THREADS");
    uint64_t count;

    if (asked && icl_parse_count(asked, strcspn(asked, ","), &count) && count >= 1 && count <= MOST)
        return (size_t)count;
    return cores();
}

icl_status icl_threads_create(size_t count, icl_threads **threads, icl_error *error) {
    icl_status status = ICL_OK;
    icl_threads *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "team of threads", &created, error));
    ICL_TRY(icl_allocate(count - 1, sizeof *created->workers, "threads", &created->workers, error));
    if (!event_create(&created->done)) {
        status = icl_fail(error, ICL_ERROR_MEMORY, "team of threads: the system gives no mutex");
        goto done;
    }
    *threads = created;
    created = NULL;
done:
    if (created)
        icl_free(&created->workers);
    icl_free(&created);
    return status;
}

/* Has `helpers` workers do their shares of a task for `used` threads. */
static void begin(icl_threads *threads, size_t helpers, size_t used, icl_thread_task *task, void *context) {
    threads->task = task;
    threads->context = context;
    threads->used = used;
    threads->seen = atomic_load_explicit(&threads->done.count, memory_order_relaxed);
    threads->is_running = helpers > 0;
    atomic_store_explicit(&threads->unfinished, helpers, memory_order_relaxed);
    for (size_t i = 0; i < helpers; i++)
        event_happens(&threads->workers[i].work);
}

static void finish(icl_threads *threads) {
    if (threads->is_running)
        event_wait(&threads->done, threads->seen);
    threads->is_running = false;
}

void icl_threads_run(icl_threads *threads, size_t count, icl_thread_task *task, void *context) {
    start_workers(threads, count - 1);
    const size_t helpers = count - 1 < threads->started ? count - 1 : threads->started;

    begin(threads, helpers, helpers + 1, task, context);
    task(context, 0, helpers + 1);
    finish(threads);
}

void icl_threads_run_beside(icl_threads *threads, icl_thread_task *task, void *context) {
    finish(threads);
    if (!task)
        return;
    start_workers(threads, 1);
    begin(threads, threads->started, threads->started + 1, task, context);
    if (threads->started == 0)
        task(context, 0, 1);
}

typedef struct pieces {
    icl_thread_items *task;
    void *context;
    size_t items, piece;
    atomic_size_t next; /* the first item that nobody has taken */
} pieces;

static void take_pieces(void *context, size_t thread, size_t count) {
    pieces *run = context;
    (void)count;
    for (;;) {
        const size_t first = atomic_fetch_add_explicit(&run->next, run->piece, memory_order_relaxed);
        if (first >= run->items)
            return;
        const size_t left = run->items - first;
        run->task(run->context, first, first + (left < run->piece ? left : run->piece), thread);
    }
}

void icl_threads_share(icl_threads *threads, size_t count, size_t items, icl_thread_items *task, void *context) {
    enum { PIECES = 8 }; /* few enough to cost nothing, enough to balance */
    pieces run = {.task = task, .context = context, .items = items};

    run.piece = (items + count * PIECES - 1) / (count * PIECES);
    atomic_init(&run.next, 0);
    icl_threads_run(threads, count, take_pieces, &run);
}

void icl_threads_destroy(icl_threads **threads) {
    icl_threads *team = *threads;

    if (!team)
        return;
    finish(team);
    team->task = NULL;
    for (size_t i = 0; i < team->started; i++)
        event_happens(&team->workers[i].work);
    for (size_t i = 0; i < team->started; i++) {
        pthread_join(team->workers[i].thread, NULL);
        event_destroy(&team->workers[i].work);
    }
    event_destroy(&team->done);
    icl_free(&team->workers);
    icl_free(threads);
}

/* ---- Loops ---- */

typedef struct loop {
    icl_parallel_body *body;
    void *context;
} loop;

static void run_items(void *context, size_t first, size_t last, size_t thread) {
    const loop *job = context;
    for (size_t i = first; i < last; i++)
        job->body(job->context, i, thread);
}

size_t icl_parallel_threads(void) {
    return icl_threads_available();
}

void icl_parallel_for(size_t count, size_t threads, icl_parallel_body *body, void *context) {
    loop job = {.body = body, .context = context};
    icl_threads *team = NULL;

    if (threads > 1 && count > 1 && icl_threads_create(threads, &team, NULL) == ICL_OK)
        icl_threads_share(team, threads, count, run_items, &job);
    else
        run_items(&job, 0, count, 0);
    icl_threads_destroy(&team);
}
