/* Tests "auto" and "opencl" on a machine with a GPU, which is PoCL as tests/driver/layer.c shows it: the log says why a
 * device was chosen, the answer is remembered, and another driver is measured again. argv: a device of PoCL's; "two" if
 * PoCL shows two devices, one of which wins. */
#include <stdlib.h>

#include "../core/scratch.h"
#include "tap.h"

#define VARIABLE    "ICLAB_TEST_DRIVER"
#define GPU         "name=Planted GPU;type=4"
#define ACCELERATOR "name=Planted GPU;type=8"

typedef struct seen {
    char chose[1024]; /* the line that says so */
    char spec[ICL_NAME_CAPACITY];
    bool refused;
    char warning[1024]; /* the last */
} seen;

static void record(void *user, icl_log_level level, const char *message) {
    seen *s = user;
    if (level == ICL_LOG_WARNING)
        snprintf(s->warning, sizeof s->warning, "%.1023s", message);
    if (strstr(message, ": chose "))
        snprintf(s->chose, sizeof s->chose, "%.1023s", message);
    s->refused = s->refused || strstr(message, "Planted GPU) left out");
}

static void open_as(tap_run *tap, const char *driver, const char *spec, seen *s) {
    icl_backend *backend = NULL;
    icl_error error = {0};

    *s = (seen){0};
    setenv(VARIABLE, driver, 1);
    const icl_status status =
        icl_backend_open(&(icl_backend_params){.spec = spec, .log = {record, s, ICL_LOG_DEBUG}}, &backend, &error);
    tap_status(tap, status, &error, spec);
    if (backend) {
        const icl_backend_statistics statistics = icl_backend_get_statistics(backend);
        tap_ok(tap,
               statistics.ops == 0 && statistics.launches == 0 && statistics.bytes_live == 0 &&
                   statistics.bytes_peak == 0,
               "what was measured does not count: %llu ops, %llu launches, %zu bytes live, %zu at most",
               (unsigned long long)statistics.ops, (unsigned long long)statistics.launches, statistics.bytes_live,
               statistics.bytes_peak);
        snprintf(s->spec, sizeof s->spec, "%s", icl_backend_capabilities(backend)->spec);
    }
    icl_backend_close(&backend);
}

/* If the only device that was asked for is refused, no other one takes its place. */
static void check_refusal(tap_run *tap, const char *driver) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    seen s = {0};

    setenv(VARIABLE, driver, 1);
    const icl_status status = icl_backend_open(
        &(icl_backend_params){.spec = "opencl:planted", .log = {record, &s, ICL_LOG_DEBUG}}, &backend, &error);
    tap_ok(tap, status == ICL_ERROR_DEVICE && !backend && strstr(error.message, "(Planted GPU) refused: "),
           "refused: %s", error.message);
    tap_ok(tap, s.warning[0] == '\0', "and said once, by the error: %s", s.warning);
    icl_backend_close(&backend);
}

/* The faster of two GPUs is chosen, by the time of its short step. */
static void check_two(tap_run *tap) {
    seen measured, again;
    char begins[ICL_NAME_CAPACITY + 32];
    double taken = 0, other = 0;

    open_as(tap, GPU, "opencl", &measured);
    snprintf(begins, sizeof begins, "opencl: chose %s (Planted GPU)", measured.spec);
    tap_ok(tap, strncmp(measured.chose, begins, strlen(begins)) == 0, "opened is what the log says: %s", begins);
    const char *times = strstr(measured.chose, "a short step took ");
    char *end = NULL;
    if (times)
        taken = strtod(times + strlen("a short step took "), &end);
    times = end ? strstr(end, " ms; opencl:") : NULL;
    if (times)
        other = strtod(strstr(times, ") ") ? strstr(times, ") ") + 2 : times, &end);
    tap_ok(tap, times && strcmp(end, " ms; remembered") == 0 && taken > 0 && taken <= other, "the faster of two: %s",
           measured.chose);
    open_as(tap, GPU, "opencl", &again);
    tap_ok(tap, strstr(again.chose, "; measured on 20") && strcmp(again.spec, measured.spec) == 0, "again: %s",
           again.chose);
}

static void check_one(tap_run *tap) {
    seen first, second, other;

    open_as(tap, "name=Planted CPU", "auto", &first);
    tap_ok(tap, strcmp(first.chose, "auto: chose cpu, because there is no OpenCL GPU") == 0, "without a GPU: %s",
           first.chose);
    open_as(tap, GPU, "auto", &first);
    tap_ok(tap,
           strstr(first.chose, "a short step took") && strstr(first.chose, "(Planted GPU)") &&
               strstr(first.chose, "cpu") && strstr(first.chose, "; remembered"),
           "with one: %s", first.chose);
    open_as(tap, GPU, "auto", &second);
    tap_ok(tap, strstr(second.chose, "; measured on 20") && strcmp(first.spec, second.spec) == 0, "again: %s",
           second.chose);
    open_as(tap, GPU ";driver=Planted 2", "auto", &other);
    tap_ok(tap, strstr(other.chose, "; remembered") != NULL, "with another driver: %s", other.chose);
    open_as(tap, GPU ";units=0", "auto", &other);
    tap_ok(tap, other.refused && strcmp(other.spec, "cpu") == 0 && strstr(other.chose, "every other device failed"),
           "with one that does not open: %s", other.chose);
    open_as(tap, ACCELERATOR ";units=0", "auto", &other);
    tap_ok(tap, other.refused && strcmp(other.spec, "cpu") == 0, "an accelerator is tried, too: %s", other.chose);
    setenv("ICLAB_CACHE_DIR", "", 1);
    open_as(tap, GPU, "auto", &other);
    tap_ok(tap,
           strstr(other.chose, "a short step took") && !strstr(other.chose, "remembered") &&
               !strstr(other.chose, "measured on"),
           "without a cache: %s", other.chose);
    check_refusal(tap, GPU ";units=0");
    check_refusal(tap, ACCELERATOR ";units=0");
    open_as(tap, GPU, "opencl", &other);
    tap_ok(tap, strncmp(other.spec, "opencl:", 7) == 0 && !other.chose[0], "the only GPU needs no measurement: %s",
           other.spec);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    scratch_folder scratch;

    unsetenv(VARIABLE);
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "opencl");
    if (!backend)
        return tap_done(&tap);
    icl_backend_close(&backend);
    scratch_open(&scratch);
    setenv("ICLAB_CACHE_DIR", scratch.folder, 1);
    if (argc > 2 && strcmp(argv[2], "two") == 0)
        check_two(&tap);
    else
        check_one(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
