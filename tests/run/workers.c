/* Tests worker processes: which worker's end decides the end of the whole, and that a stop reaches all of them. */
#include "run/sweep/work.h"

#include <time.h>
#include <unistd.h>

#include "tap.h"

/* How a worker ends: with a status, when it is told to stop, or killed. */
typedef enum deed { ENDS, WAITS, DIES } deed;

typedef struct plan {
    deed deeds[2];
    icl_status ends[2];
} plan;

static volatile sig_atomic_t told;

static void take_term(int number) {
    told = number;
}

static icl_status work(const void *context, icl_backend *backend, long parent, icl_error *error) {
    const plan *is = context;
    /* The specs cpu:threads=1 and cpu:threads=2 tell the workers apart. */
    const size_t index = strstr(icl_backend_capabilities(backend)->spec, "threads=1") ? 0 : 1;

    if (parent != (long)getppid())
        return icl_fail(error, ICL_ERROR_MEMORY, "another parent");
    if (is->deeds[index] == DIES)
        (void)raise(SIGKILL);
    while (is->deeds[index] == WAITS && !told && parent == (long)getppid())
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return is->ends[index] == ICL_OK ? ICL_OK : icl_fail(error, is->ends[index], "worker %zu fails", index);
}

typedef struct workers_case {
    const char *name;
    plan plan;
    bool stop;
    icl_status expected;
    const char *message; /* part of it; NULL: none */
} workers_case;

static const workers_case cases[] = {
    {"both come to their end", {{ENDS, ENDS}, {ICL_OK, ICL_OK}}, false, ICL_OK, NULL},
    {"a stop ends both",
     {{WAITS, WAITS}, {ICL_ERROR_INTERRUPTED, ICL_ERROR_INTERRUPTED}},
     true,
     ICL_ERROR_INTERRUPTED,
     "stopped before"},
    {"a stop ends one, the other had nothing left",
     {{WAITS, ENDS}, {ICL_ERROR_INTERRUPTED, ICL_OK}},
     true,
     ICL_ERROR_INTERRUPTED,
     "stopped before"},
    {"a stop that comes too late", {{ENDS, WAITS}, {ICL_OK, ICL_OK}}, true, ICL_OK, NULL},
    {"one fails, the other goes on", {{ENDS, ENDS}, {ICL_OK, ICL_ERROR_IO}}, false, ICL_ERROR_IO, "worker 1 on"},
    {"one fails, the other is stopped",
     {{ENDS, WAITS}, {ICL_ERROR_IO, ICL_ERROR_INTERRUPTED}},
     true,
     ICL_ERROR_IO,
     "worker 0 on"},
    {"one is killed",
     {{DIES, ENDS}, {ICL_OK, ICL_OK}},
     false,
     ICL_ERROR_DEVICE,
     "worker 0 on cpu:threads=1 was ended "
     "by signal 9"},
};

/* Writes the worker's message into a pipe; called in the worker's process. */
static void complain(void *user, const char *text) {
    const int *to = user;
    (void)!write(*to, text, strlen(text));
}

/* The second worker's device does not open: the worker says so and ends with that status. */
static void check_refused_device(tap_run *tap) {
    static const plan both_end = {{ENDS, ENDS}, {ICL_OK, ICL_OK}};
    const char specs[2][ICL_NAME_CAPACITY] = {"cpu:threads=1", "nonsense"};
    char complaint[256] = "";
    int ends[2];
    icl_error error = {0};

    if (!tap_ok(tap, pipe(ends) == 0, "a pipe"))
        return;
    const icl_workers workers = {
        .count = 2, .specs = specs, .work = work, .context = &both_end, .fail = complain, .user = &ends[1]};
    const icl_status status = icl_workers_run(&workers, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "worker 1 on nonsense gave up"),
           "a device that does not open: %s", error.message);
    close(ends[1]);
    tap_ok(tap,
           read(ends[0], complaint, sizeof complaint - 1) > 0 &&
               strstr(complaint, "nonsense: device \"nonsense\": expected") != NULL,
           "its worker says why: %s", complaint);
    close(ends[0]);
}

int main(void) {
    tap_run tap = {0};
    const char specs[2][ICL_NAME_CAPACITY] = {"cpu:threads=1", "cpu:threads=2"};

    (void)signal(SIGTERM, take_term);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const volatile sig_atomic_t stop = cases[i].stop;
        const icl_workers workers = {
            .count = 2, .specs = specs, .stop = &stop, .work = work, .context = &cases[i].plan};
        icl_error error = {0};
        const icl_status status = icl_workers_run(&workers, &error);
        tap_ok(&tap,
               status == cases[i].expected &&
                   (cases[i].message ? strstr(error.message, cases[i].message) != NULL : error.message[0] == '\0'),
               "%s: %s", cases[i].name, status == ICL_OK ? "done" : error.message);
    }
    check_refused_device(&tap);
    return tap_done(&tap);
}
