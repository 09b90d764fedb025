/* The cache of values that can be made again: damaged, stale or foreign entries count as absent, and the size of the
 * folder stays bounded. */
#include "core/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "scratch.h"
#include "tap.h"

static const char key[] = "the key", value[] = "the value that was kept";
static const icl_cache_limits roomy = {.bytes = 1 << 20, .seconds = 86400};

static icl_status store(const scratch_folder *scratch, const char *under, const char *what, icl_error *error) {
    return icl_cache_store(scratch->folder, under, strlen(under), what, strlen(what), error);
}

/* Returns whether the folder gives `expected` for the key; NULL: nothing, and no error. */
static bool gives(const scratch_folder *scratch, const char *under, const char *expected) {
    icl_error error = {0};
    char *found = NULL;
    size_t size = 0;
    const icl_status status = icl_cache_load(scratch->folder, under, strlen(under), &found, &size, &error);
    const bool right = status == ICL_OK &&
                       (expected ? found && size == strlen(expected) && memcmp(found, expected, size) == 0 : !found);
    if (!right)
        tap_note("status %d, %zu bytes; %s", (int)status, size, error.message);
    icl_free(&found);
    return right;
}

/* Finds the only entry's name. */
static void entry_name(const scratch_folder *scratch, char name[64]) {
    DIR *listing = opendir(scratch->folder);
    const struct dirent *entry;
    name[0] = '\0';
    while (listing && (entry = readdir(listing)) != NULL)
        if (entry->d_name[0] != '.')
            snprintf(name, 64, "%.63s", entry->d_name);
    if (listing)
        closedir(listing);
}

static void check_values(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    tap_ok(tap, gives(scratch, key, NULL), "a key that was never stored is absent");
    tap_status(tap, store(scratch, key, "an older value", &error), &error, "store");
    tap_status(tap, store(scratch, key, value, &error), &error, "store again");
    tap_ok(tap, gives(scratch, key, value), "the newer value is loaded");
    tap_ok(tap, gives(scratch, "another key", NULL), "another key is absent");
    tap_ok(tap, scratch_count(scratch) == 1, "one file, and no temporary one");
    tap_status(tap, store(scratch, "empty", "", &error), &error, "store nothing under a key");
    tap_ok(tap, gives(scratch, "empty", ""), "nothing is loaded, and is not absent");
}

/* Loads an entry that was tampered with, and returns whether it is refused. */
static bool is_refused(const scratch_folder *scratch, icl_error *error) {
    char *found = NULL;
    size_t size = 0;
    const icl_status status = icl_cache_load(scratch->folder, key, strlen(key), &found, &size, error);
    const bool refused = status == ICL_ERROR_INPUT && !found;
    icl_free(&found);
    return refused;
}

static void check_damage(tap_run *tap, scratch_folder *scratch) {
    char name[64], *data = NULL;
    size_t size = 0, refused = 0;
    icl_error error = {0};

    tap_status(tap, store(scratch, key, value, &error), &error, "an entry");
    entry_name(scratch, name);
    tap_status(tap, icl_file_read(scratch_path(scratch, name), 0, &data, &size, &error), &error, "its file");
    for (size_t i = 0; i < size * 8; i++) {
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
        scratch_write(scratch, name, data, size);
        refused += is_refused(scratch, &error);
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
    }
    tap_ok(tap, size > 40 && refused == size * 8, "%zu of %zu flipped bits are noticed: %s", refused, size * 8,
           error.message);
    refused = 0;
    for (size_t length = 0; length < size; length++) {
        scratch_write(scratch, name, data, length);
        refused += is_refused(scratch, &error);
    }
    tap_ok(tap, refused == size, "%zu of %zu truncations are noticed: %s", refused, size, error.message);
    scratch_write(scratch, name, data, size + 1); /* with the NUL after it */
    tap_ok(tap, is_refused(scratch, &error), "a byte too many is noticed: %s", error.message);
    tap_status(tap, store(scratch, key, value, &error), &error, "store over the damaged entry");
    tap_ok(tap, gives(scratch, key, value), "it is whole again");
    icl_free(&data);
}

/* Puts a whole and valid entry of another key under this key's name, as after a collision of hashes. */
static void check_collision(tap_run *tap, scratch_folder *scratch) {
    char name[64], other[64], *data = NULL;
    size_t size = 0;
    icl_error error = {0};

    store(scratch, key, value, &error);
    entry_name(scratch, name);
    (void)remove(scratch_path(scratch, name));
    store(scratch, "yek eht", "another value", &error);
    entry_name(scratch, other);
    tap_status(tap, icl_file_read(scratch_path(scratch, other), 0, &data, &size, &error), &error, "another");
    scratch_write(scratch, name, data, size);
    tap_ok(tap, strcmp(name, other) != 0 && is_refused(scratch, &error) && strstr(error.message, "another key"),
           "another key's entry is noticed: %s", error.message);
    icl_free(&data);
    tap_status(tap, store(scratch, key, value, &error), &error, "store over it");
    tap_ok(tap, gives(scratch, key, value) && gives(scratch, "yek eht", "another value"), "both are right");
}

/* ---- Bounds ---- */

static void set_age(scratch_folder *scratch, const char *name, time_t seconds) {
    const struct timespec then = {.tv_sec = time(NULL) - seconds};
    const struct timespec both[2] = {then, then};
    (void)utimensat(AT_FDCWD, scratch_path(scratch, name), both, 0);
}

static void check_age(tap_run *tap, scratch_folder *scratch) {
    char name[64];
    struct stat facts;
    icl_error error = {0};

    store(scratch, key, value, &error);
    entry_name(scratch, name);
    set_age(scratch, name, 3600 * 23);
    tap_status(tap, icl_cache_prepare(scratch->folder, roomy, &error), &error, "prepare");
    tap_ok(tap, gives(scratch, key, value), "an entry that was used 23 hours ago stays for a day");
    tap_ok(tap, stat(scratch_path(scratch, name), &facts) == 0 && difftime(time(NULL), facts.st_mtime) < 3600,
           "loading it counts as use");
    set_age(scratch, name, 3600 * 25);
    scratch_write(scratch, "0123456789abcdef.entry.77.tmp", "torn", 4);
    scratch_write(scratch, "0123456789abcde0.entry.77.tmp", "in the making", 13);
    set_age(scratch, "0123456789abcdef.entry.77.tmp", 7200);
    scratch_write(scratch, "notes.entry", "a user's", 8);
    scratch_write(scratch, "0123456789abcdef.entry.bak", "a user's", 8);
    set_age(scratch, "notes.entry", 3600 * 25);
    set_age(scratch, "0123456789abcdef.entry.bak", 3600 * 25);
    tap_status(tap, icl_cache_prepare(scratch->folder, roomy, &error), &error, "prepare");
    tap_ok(tap, gives(scratch, key, NULL), "one that was used 25 hours ago goes");
    tap_ok(tap, !icl_path_exists(scratch_path(scratch, "0123456789abcdef.entry.77.tmp")),
           "and what a killed process left");
    tap_ok(tap, icl_path_exists(scratch_path(scratch, "0123456789abcde0.entry.77.tmp")),
           "but not what one is writing now");
    tap_ok(tap,
           icl_path_exists(scratch_path(scratch, "notes.entry")) &&
               icl_path_exists(scratch_path(scratch, "0123456789abcdef.entry.bak")),
           "nor any other file");
}

static void check_size(tap_run *tap, scratch_folder *scratch) {
    enum { COUNT = 6 };
    static char large[10000];
    char keys[COUNT][8], name[64];
    icl_error error = {0};
    int kept = 0;

    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < COUNT; i++) { /* key 0 is the newest, although stored first */
        scratch_folder own;
        char *data = NULL;
        size_t size;
        snprintf(keys[i], sizeof keys[i], "key %d", i);
        scratch_open(&own);
        store(&own, keys[i], large, &error);
        entry_name(&own, name);
        icl_file_read(scratch_path(&own, name), 0, &data, &size, &error);
        scratch_write(scratch, name, data, size);
        set_age(scratch, name, 100 + 100 * i); /* steps of 100 s, as the loop may take some seconds */
        icl_free(&data);
        scratch_close(&own);
    }
    tap_status(tap, icl_cache_prepare(scratch->folder, (icl_cache_limits){35000, 86400}, &error), &error,
               "prepare for 35000 bytes");
    for (int i = 0; i < COUNT; i++)
        kept += gives(scratch, keys[i], i < 3 ? large : NULL);
    tap_ok(tap, kept == COUNT, "of six entries of 10 kB the three that were used last stay");
}

/* ---- Folders ---- */

static void check_folders(tap_run *tap, scratch_folder *scratch) {
    char *folder = NULL, *found = NULL;
    size_t size;
    char below[600];
    icl_error error = {0};

    scratch_write(scratch, "file", "", 0);
    snprintf(below, sizeof below, "%s/below", scratch_path(scratch, "file"));
    tap_ok(tap, icl_cache_prepare(below, roomy, &error) == ICL_ERROR_IO, "a folder that cannot be made: %s",
           error.message);
    tap_ok(tap, icl_cache_store(below, key, 1, value, 1, &error) == ICL_ERROR_IO, "nor written to: %s", error.message);
    tap_ok(tap, icl_cache_load(below, key, 1, &found, &size, &error) == ICL_OK && !found, "has no entry to load");
    snprintf(below, sizeof below, "%s", scratch_path(scratch, "made"));
    tap_ok(tap, icl_cache_prepare(below, roomy, &error) == ICL_OK && icl_path_exists(below),
           "a missing folder is made");

    setenv("HOME", "/home/user", 1);
    setenv("XDG_CACHE_HOME", "/caches", 1);
    setenv("ICLAB_CACHE_DIR", "/here", 1);
    tap_ok(tap, icl_cache_folder(&folder, &error) == ICL_OK && folder && strcmp(folder, "/here") == 0,
           "ICLAB_CACHE_DIR goes first");
    icl_free(&folder);
    setenv("ICLAB_CACHE_DIR", "", 1);
    tap_ok(tap, icl_cache_folder(&folder, &error) == ICL_OK && !folder, "empty, it turns the cache off");
    unsetenv("ICLAB_CACHE_DIR");
    tap_ok(tap, icl_cache_folder(&folder, &error) == ICL_OK && folder && strcmp(folder, "/caches/iclab") == 0,
           "then XDG_CACHE_HOME");
    icl_free(&folder);
    setenv("XDG_CACHE_HOME", "relative", 1);
    tap_ok(tap, icl_cache_folder(&folder, &error) == ICL_OK && folder && strcmp(folder, "/home/user/.cache/iclab") == 0,
           "unless it is relative, then HOME");
    icl_free(&folder);
    unsetenv("HOME");
    tap_ok(tap, icl_cache_folder(&folder, &error) == ICL_OK && !folder, "without a home there is no cache");
}

/* ---- Other users ---- */

static bool all_refuse(const char *folder, const char *why) {
    icl_error errors[3] = {{0}};
    char *found = NULL;
    size_t size = 0;
    const bool refused =
        icl_cache_prepare(folder, roomy, &errors[0]) == ICL_ERROR_INPUT &&
        icl_cache_store(folder, key, strlen(key), value, strlen(value), &errors[1]) == ICL_ERROR_INPUT &&
        icl_cache_load(folder, key, strlen(key), &found, &size, &errors[2]) == ICL_ERROR_INPUT && !found;
    int named = 0;

    for (int i = 0; i < 3; i++)
        named += strstr(errors[i].message, why) != NULL;
    tap_note("%s", errors[0].message);
    icl_free(&found);
    return refused && named == 3;
}

/* Returns a folder that this user does not own. */
static const char *foreign(scratch_folder *scratch) {
    if (geteuid() != 0)
        return "/"; /* owned by root */
    (void)mkdir(scratch_path(scratch, "made"), 0777);
    return chown(scratch->path, 12345, 12345) == 0 ? scratch->path : "";
}

static void check_others(tap_run *tap, scratch_folder *scratch) {
    char folder[512], link[512], name[64], entry[600];
    icl_error error = {0};
    char *found = NULL;
    size_t size = 0;
    struct stat facts;
    const mode_t before = umask(0);

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "own"));
    snprintf(link, sizeof link, "%s", scratch_path(scratch, "link"));
    tap_ok(tap,
           icl_cache_prepare(folder, roomy, &error) == ICL_OK && stat(folder, &facts) == 0 &&
               (facts.st_mode & 0777) == 0700,
           "a folder that is made is the user's alone, whatever the umask");
    (void)umask(before);
    tap_ok(tap, chmod(folder, 0770) == 0 && all_refuse(folder, "others can write"), "one that a group can write");
    tap_ok(tap, chmod(folder, 0702) == 0 && all_refuse(folder, "others can write"), "or all");
    tap_ok(tap, chmod(folder, 0755) == 0 && icl_cache_prepare(folder, roomy, &error) == ICL_OK,
           "but one that others can read serves");
    tap_ok(tap, symlink(folder, link) == 0 && all_refuse(link, "no symbolic link"), "a link to it");
    tap_ok(tap, all_refuse(foreign(scratch), "belongs to another user"), "a folder of another user");

    scratch_folder own = {{0}, {0}};
    snprintf(own.folder, sizeof own.folder, "%.255s", folder);
    tap_status(tap, store(&own, key, value, &error), &error, "an entry");
    entry_name(&own, name);
    snprintf(entry, sizeof entry, "%s/%s", folder, name);
    tap_ok(tap, stat(entry, &facts) == 0 && (facts.st_mode & 0777) == 0600, "is the user's alone");
    tap_ok(tap,
           chmod(entry, 0666) == 0 &&
               icl_cache_load(folder, key, strlen(key), &found, &size, &error) == ICL_ERROR_INPUT && !found,
           "one that others can write is not loaded: %s", error.message);
    snprintf(link, sizeof link, "%s", scratch_path(scratch, "elsewhere"));
    tap_ok(tap,
           chmod(entry, 0600) == 0 && rename(entry, link) == 0 && symlink(link, entry) == 0 &&
               icl_cache_load(folder, key, strlen(key), &found, &size, &error) == ICL_ERROR_INPUT && !found,
           "nor a link: %s", error.message);
    tap_ok(tap, store(&own, key, value, &error) == ICL_OK && gives(&own, key, value), "the next store replaces it");
    (void)remove(entry);
}

/* ---- Two processes ---- */

/* Stores its own value and loads the current one. Returns the number of loads that were neither process's value, and
 * 255 for a failed store. */
static int contend(const scratch_folder *scratch, char own) {
    static char mine[50000];
    int wrong = 0;

    memset(mine, own, sizeof mine);
    for (int i = 0; i < 100; i++) {
        char *found = NULL;
        size_t size = 0;
        if (icl_cache_store(scratch->folder, key, strlen(key), mine, sizeof mine, NULL) != ICL_OK)
            return 255;
        if (icl_cache_load(scratch->folder, key, strlen(key), &found, &size, NULL) != ICL_OK || !found ||
            size != sizeof mine || (found[0] != 'a' && found[0] != 'b') || found[size - 1] != found[0])
            wrong++;
        icl_free(&found);
    }
    return wrong;
}

static void check_processes(tap_run *tap, scratch_folder *scratch) {
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(contend(scratch, i == 0 ? 'a' : 'b'));
    }
    for (int i = 0; i < 2; i++) {
        int end = -1;
        tap_ok(tap, waitpid(children[i], &end, 0) == children[i] && WIFEXITED(end) && WEXITSTATUS(end) == 0,
               "process %d of two that store and load one key a hundred times sees whole values alone", i + 1);
    }
    tap_ok(tap, scratch_count(scratch) == 1, "one entry is left");
}

int main(void) {
    static void (*const checks[])(tap_run *, scratch_folder *) = {check_values, check_damage,   check_collision,
                                                                  check_age,    check_size,     check_folders,
                                                                  check_others, check_processes};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        scratch_folder scratch;
        scratch_open(&scratch);
        checks[i](&tap, &scratch);
        scratch_close(&scratch);
    }
    return tap_done(&tap);
}
