/* Teams of threads run every share once, for any number of threads, in run after run; they are smaller if the system
 * starts no more threads, and idle without work. */
#include "core/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

/* ---- The system's limit, planted by the linker's --wrap ---- */

static atomic_int threads_left = 1000000;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument) {
    return atomic_fetch_sub(&threads_left, 1) > 0 ? __real_pthread_create(thread, attributes, function, argument)
                                                  : 11; /* EAGAIN */
}

/* ---- Shares ---- */

enum { MOST = 9 };

typedef struct shares {
    int seen[MOST]; /* how often each thread's share was done; written by that thread only */
    size_t count;   /* as the threads saw it */
} shares;

static void take_share(void *context, size_t thread, size_t count) {
    shares *all = context;
    all->seen[thread]++;
    if (thread == 0)
        all->count = count;
}

/* Returns whether exactly the threads below `expected` had a share. */
static bool each_once(icl_threads *team, size_t asked, size_t expected) {
    shares all = {{0}};
    bool right = true;
    icl_threads_run(team, asked, take_share, &all);
    for (size_t i = 0; i < MOST; i++)
        right = right && all.seen[i] == (i < expected);
    return right && all.count == expected;
}

static void check_shares(tap_run *tap) {
    for (size_t size = 1; size <= MOST; size++) {
        icl_threads *team = NULL;
        icl_error error = {0};
        bool right = true;
        tap_status(tap, icl_threads_create(size, &team, &error), &error, "a team");
        for (int round = 0; team && round < 300; round++)
            for (size_t count = 1; count <= size; count++)
                right = each_once(team, count, count) && right;
        tap_ok(tap, right, "of %zu, any number of threads has its shares, each once", size);
        icl_threads_destroy(&team);
        tap_ok(tap, team == NULL, "destroyed");
    }
    icl_threads *none = NULL;
    icl_threads_destroy(&none);
}

/* ---- Items ---- */

enum { ITEMS = 200 };

typedef struct handed_out {
    atomic_int seen[ITEMS + 1];
    atomic_size_t most_threads;
    atomic_bool slow; /* the first piece waits until all others are done */
    atomic_size_t done;
    size_t items;
} handed_out;

static void take_items(void *context, size_t first, size_t last, size_t thread) {
    handed_out *all = context;
    if (first == 0 && atomic_load(&all->slow))
        while (atomic_load(&all->done) < all->items - last)
            (void)sched_yield();
    for (size_t i = first; i < last; i++)
        atomic_fetch_add(&all->seen[i], 1);
    atomic_fetch_add(&all->done, last - first);
    if (thread + 1 > atomic_load(&all->most_threads))
        atomic_store(&all->most_threads, thread + 1);
}

static bool each_item_once(icl_threads *team, size_t count, size_t items, bool slow) {
    handed_out all = {.slow = slow, .items = items};
    bool right = true;
    icl_threads_share(team, count, items, take_items, &all);
    for (size_t i = 0; i <= ITEMS; i++)
        right = right && atomic_load(&all.seen[i]) == (i < items);
    return right && atomic_load(&all.most_threads) <= count;
}

static void check_items(tap_run *tap) {
    icl_threads *team = NULL;
    icl_error error = {0};
    bool right = true;

    tap_status(tap, icl_threads_create(3, &team, &error), &error, "a team of 3");
    for (size_t count = 1; count <= 3; count++)
        for (size_t items = 1; items <= ITEMS; items++)
            right = each_item_once(team, count, items, false) && right;
    tap_ok(tap, right, "1 to %d items: each is done once", ITEMS);
    tap_ok(tap, each_item_once(team, 2, ITEMS, true) && each_item_once(team, 3, 3, true),
           "where one thread is held up with the first piece, the others do all the rest");
    icl_threads_destroy(&team);
}

static void check_limit(tap_run *tap) {
    icl_threads *team = NULL;
    icl_error error = {0};
    bool right;

    tap_status(tap, icl_threads_create(6, &team, &error), &error, "a team of 6");
    threads_left = 3;
    right = each_once(team, 2, 2) && each_once(team, 6, 4) && each_once(team, 5, 4) && each_once(team, 3, 3);
    threads_left = 1000000;
    tap_ok(tap, right && each_once(team, 6, 4), "where 3 can be started, 4 do the work");
    icl_threads_destroy(&team);
    tap_status(tap, icl_threads_create(4, &team, &error), &error, "a team of 4");
    threads_left = 0;
    tap_ok(tap, each_once(team, 4, 1), "where none can, the caller does it alone");
    threads_left = 1000000;
    icl_threads_destroy(&team);
}

/* ---- One task beside the caller ---- */

typedef struct errand {
    pthread_t caller;
    atomic_bool may_end; /* set by the caller after the start */
    bool is_elsewhere, is_done;
} errand;

static void run_errand(void *context, size_t thread, size_t count) {
    errand *e = context;
    (void)count;
    while (thread > 0 && !atomic_load(&e->may_end))
        (void)sched_yield();
    e->is_elsewhere = !pthread_equal(pthread_self(), e->caller);
    e->is_done = true;
}

/* Returns whether the errand was done by the time that it was waited for, beside the caller or by it. */
static bool run_one_errand(icl_threads *team, bool elsewhere) {
    errand e = {.caller = pthread_self()};

    icl_threads_run_beside(team, run_errand, &e);
    atomic_store(&e.may_end, true);
    icl_threads_run_beside(team, NULL, NULL);
    return e.is_done && e.is_elsewhere == elsewhere;
}

static void check_errands(tap_run *tap) {
    icl_threads *team = NULL;
    icl_error error = {0};
    bool right = true;

    tap_status(tap, icl_threads_create(2, &team, &error), &error, "a team of 2");
    threads_left = 0;
    right = run_one_errand(team, false);
    icl_threads_destroy(&team);
    threads_left = 1000000;
    tap_ok(tap, right, "where no thread can be started, the caller does the errand");
    tap_status(tap, icl_threads_create(2, &team, &error), &error, "a team of 2");
    for (int round = 0; round < 300; round++)
        right = run_one_errand(team, true) && each_once(team, 2, 2) && right;
    tap_ok(tap, right, "another thread does it while the caller goes on, between runs too");
    icl_threads_destroy(&team);
}

/* ---- What one run writes, the next one reads ---- */

enum { CELLS = 64, ROUNDS = 3000 };

typedef struct relay {
    unsigned long long cells[2][CELLS];
    int round;
} relay;

/* Sets each cell to a weighted sum of its neighbours in the round before. */
static void pass_on(void *context, size_t thread, size_t count) {
    relay *all = context;
    const unsigned long long *from = all->cells[all->round % 2];
    unsigned long long *to = all->cells[(all->round + 1) % 2];
    for (size_t i = thread; i < CELLS; i += count)
        to[i] = from[(i + 1) % CELLS] + 3 * from[(i + CELLS - 1) % CELLS] + i;
}

static unsigned long long run_relay(size_t size) {
    relay all = {.cells = {{1}}};
    icl_threads *team = NULL;
    unsigned long long sum = 0;

    if (icl_threads_create(size, &team, NULL) != ICL_OK)
        return 0;
    for (all.round = 0; all.round < ROUNDS; all.round++)
        icl_threads_run(team, 1 + (size_t)all.round % size, pass_on, &all);
    icl_threads_destroy(&team);
    for (size_t i = 0; i < CELLS; i++)
        sum = sum * 31 + all.cells[ROUNDS % 2][i];
    return sum;
}

static void check_order(tap_run *tap) {
    const unsigned long long alone = run_relay(1);
    for (size_t size = 2; size <= 5; size += 3)
        tap_ok(tap, alone != 0 && run_relay(size) == alone, "%d runs on %zu threads see each other's results", ROUNDS,
               size);
}

static void *relay_beside(void *result) {
    unsigned long long *sum = result;
    *sum = run_relay(3);
    return NULL;
}

static void check_beside(tap_run *tap) {
    unsigned long long sums[3] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, relay_beside, &sums[i]);
    sums[2] = run_relay(2);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tap_ok(tap, sums[0] == sums[2] && sums[1] == sums[2], "teams of different threads do not meet");
}

/* ---- Nothing to do ---- */

static double processor_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void check_idle(tap_run *tap) {
    icl_threads *team = NULL;
    if (icl_threads_create(4, &team, NULL) != ICL_OK)
        return;
    each_once(team, 4, 4);
    const double before = processor_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    const double used = processor_seconds() - before;
    tap_ok(tap, used < 0.1, "four idle threads used %.4f s of processor time in 0.4 s", used);
    icl_threads_destroy(&team);
}

static void check_available(tap_run *tap) {
    setenv("OMP_NUM_THREADS", "3", 1);
    tap_ok(tap, icl_threads_available() == 3, "OMP_NUM_THREADS says how many");
    setenv("OMP_NUM_THREADS", "5,2", 1);
    tap_ok(tap, icl_threads_available() == 5, "the first of a list");
    unsetenv("OMP_NUM_THREADS");
    const size_t cores = icl_threads_available();
    tap_ok(tap, cores >= 1, "without it the cores do: %zu", cores);
    setenv("OMP_NUM_THREADS", "many", 1);
    tap_ok(tap, icl_threads_available() == cores, "what is no number counts as absent");
    setenv("OMP_NUM_THREADS", "0", 1);
    tap_ok(tap, icl_threads_available() == cores, "and so does 0");
}

int main(void) {
    tap_run tap = {0};
    check_shares(&tap);
    check_items(&tap);
    check_limit(&tap);
    check_errands(&tap);
    check_order(&tap);
    check_beside(&tap);
    check_idle(&tap);
    check_available(&tap);
    return tap_done(&tap);
}
