/* Which device is chosen, given the times and failures of each; what is remembered, and when a remembered choice is no
 * longer believed. */
#include "device/device.h"

#include "../core/scratch.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "iclab/status.h"
#include "tap.h"

#define MOST 3

/* Devices with given times; a device with time 0 fails. */
typedef struct race {
    double seconds[MOST];
    int measured;       /* number of measurements */
    char said[4][1024]; /* lines of the log */
    int lines;
} race;

static icl_status measure(void *context, size_t i, double *seconds, icl_error *error) {
    race *r = context;
    r->measured++;
    *seconds = r->seconds[i];
    return *seconds > 0 ? ICL_OK : icl_fail(error, ICL_ERROR_DEVICE, "device %zu is broken", i);
}

static void record(void *user, icl_log_level level, const char *message) {
    race *r = user;
    (void)level;
    if (r->lines < 4)
        snprintf(r->said[r->lines++], sizeof r->said[0], "%.1023s", message);
}

static const icl_contestant three[MOST] = {{"big", "big, driver 1"}, {"small", "small, driver 1"}, {"cpu", "cpu"}};
static const icl_contestant newer[MOST] = {{"big", "big, driver 2"}, {"small", "small, driver 1"}, {"cpu", "cpu"}};

static icl_status run(race *r, const icl_contestant *contestants, size_t count, const char *folder, bool anew,
                      size_t *fastest) {
    const icl_contest contest = {.title = "auto",
                                 .contestants = contestants,
                                 .count = count,
                                 .measure = measure,
                                 .context = r,
                                 .folder = folder,
                                 .today = "2026-11-22",
                                 .log = {record, r, ICL_LOG_DEBUG}};
    icl_error error = {0};
    r->measured = r->lines = 0;
    memset(r->said, 0, sizeof r->said);
    const icl_status status = icl_contest_run(&contest, anew, fastest, NULL, &error);
    if (status != ICL_OK)
        tap_note("%s", error.message);
    return status;
}

/* Checks who wins if nothing is remembered, after how many measurements, and what the log's last line says. */
static void check(tap_run *tap, double a, double b, double c, size_t expected, int measured, const char *says) {
    race r = {.seconds = {a, b, c}};
    size_t fastest = MOST;
    const icl_status status = run(&r, three, MOST, NULL, false, &fastest);
    tap_ok(tap, status == ICL_OK && fastest == expected && r.measured == measured, "%g, %g and %g s: %s", a, b, c,
           fastest < MOST ? three[fastest].name : "nobody");
    tap_ok(tap, r.lines > 0 && strcmp(r.said[r.lines - 1], says) == 0, "said: %s",
           r.said[r.lines > 0 ? r.lines - 1 : 0]);
}

static void test_winner(tap_run *tap) {
    check(tap, .001, .002, .003, 0, 3, "auto: chose big: a short step took 1 ms; small 2 ms; cpu 3 ms");
    check(tap, .004, .002, .003, 1, 3, "auto: chose small: a short step took 2 ms; big 4 ms; cpu 3 ms");
    check(tap, .004, .005, .003, 2, 3, "auto: chose cpu: a short step took 3 ms; big 4 ms; small 5 ms");
    check(tap, .002, .002, .002, 0, 3, "auto: chose big: a short step took 2 ms; small 2 ms; cpu 2 ms");
    check(tap, 0, .002, .003, 1, 3, "auto: chose small: a short step took 2 ms; cpu 3 ms");
    check(tap, .002, .001, 0, 1, 3, "auto: chose small: a short step took 1 ms; big 2 ms");
    check(tap, 0, 0, .003, 2, 2, "auto: chose cpu, because every other device failed");
}

static void test_alone(tap_run *tap) {
    race r = {.seconds = {.001}};
    size_t fastest = MOST;
    tap_ok(tap, run(&r, three, 1, NULL, false, &fastest) == ICL_OK && fastest == 0, "one alone wins");
    r.seconds[0] = 0;
    tap_ok(tap, run(&r, three, 1, NULL, false, &fastest) == ICL_ERROR_DEVICE, "one alone that fails is an error");
    r = (race){.seconds = {0, .001, .002}};
    run(&r, three, MOST, NULL, false, &fastest);
    tap_ok(tap, strcmp(r.said[0], "auto: big left out: device 0 is broken") == 0, "said of one that fails: %s",
           r.said[0]);
}

/* Damages one byte of every entry of the folder. */
static void damage(scratch_folder *scratch) {
    DIR *listing = opendir(scratch->folder);
    for (const struct dirent *entry = listing ? readdir(listing) : NULL; entry; entry = readdir(listing)) {
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(scratch_path(scratch, entry->d_name), "r+b");
        if (!file)
            continue;
        fseek(file, -2, SEEK_END);
        fputc('#', file);
        fclose(file);
    }
    if (listing)
        closedir(listing);
}

static void test_memory(tap_run *tap) {
    scratch_folder scratch;
    race r = {.seconds = {.004, .002, .003}};
    size_t fastest = MOST;

    scratch_open(&scratch);
    run(&r, three, MOST, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 1 && r.measured == 3 && strstr(r.said[0], "; remembered"), "measured once: %s", r.said[0]);
    r.seconds[0] = .001; /* never measured */
    run(&r, three, MOST, scratch.folder, false, &fastest);
    tap_ok(tap,
           fastest == 1 && r.measured == 0 &&
               strcmp(r.said[0],
                      "auto: chose small: a short step took 2 ms; big 4 ms; cpu 3 ms; measured on 2026-11-22") == 0,
           "then remembered: %s", r.said[0]);
    run(&r, newer, MOST, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 3, "another driver is measured anew");
    run(&r, three, 2, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 2, "and so are fewer devices");
    run(&r, three, MOST, scratch.folder, true, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 3, "and whoever asks for it");
    run(&r, three, MOST, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 0, "which is remembered in its place");
    damage(&scratch);
    run(&r, three, MOST, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 3, "a damaged answer is not believed: %s", r.said[0]);
    r.seconds[1] = 0;
    run(&r, three, MOST, scratch.folder, true, &fastest);
    tap_ok(tap, strcmp(r.said[r.lines - 1], "auto: chose big: a short step took 1 ms; cpu 3 ms") == 0,
           "where one fails nothing is remembered: %s", r.said[r.lines - 1]);
    scratch_close(&scratch);
}

/* Tries invalid answers that somebody else stored under the key. */
static void test_nonsense(tap_run *tap) {
    static const char *const texts[] = {"",
                                        "2026-11-22",
                                        "2026-11-22\n",
                                        "2026-11-22\n.1\n.2\n",
                                        "2026-11-22\n.1\n.2\n.3",
                                        "2026-11-22\n.1\n.2\n.3\n.4\n",
                                        "2026-11-22\n.1\nnan\n.3\n",
                                        "2026-11-22\n.1\n-1\n.3\n",
                                        "2026-11-22\n.1\n0\n.3\n",
                                        "2026-11-22\n.1\nx\n.3\n",
                                        "a date that is far too long\n.1\n.2\n.3\n"};
    static const char ours[] = "2026-01-02\n.1\n.2\n.3\n";
    scratch_folder scratch;
    race r = {.seconds = {.004, .002, .003}};
    size_t fastest = MOST;
    char *key = NULL;
    icl_error error = {0};

    scratch_open(&scratch);
    tap_status(tap, icl_contest_key(three, MOST, &key, &error), &error, "the key");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        icl_cache_store(scratch.folder, key, strlen(key), texts[i], strlen(texts[i]), &error);
        run(&r, three, MOST, scratch.folder, false, &fastest);
        tap_ok(tap, fastest == 1 && r.measured == 3, "answer %zu is not believed", i);
    }
    icl_cache_store(scratch.folder, key, strlen(key), ours, sizeof ours - 1, &error);
    run(&r, three, MOST, scratch.folder, false, &fastest);
    tap_ok(tap, fastest == 0 && r.measured == 0, "one like ours is: %s", r.said[0]);
    icl_free(&key);
    scratch_close(&scratch);
}

int main(void) {
    tap_run tap = {0};

    test_winner(&tap);
    test_alone(&tap);
    test_memory(&tap);
    test_nonsense(&tap);
    return tap_done(&tap);
}
