/* Fuzzes the contents of a run's or a sweep's folder and of the cache: run.json, metrics.csv, a sweep's grid with a
 * cell's result, an entry of the cache, a picture, a name for a picture's script, and something in place of a sweep's
 * claim. The first byte says which of them the rest is. */
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/cache.h"
#include "core/file.h"
#include "core/hash.h"
#include "fuzz.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "report/report.h"
#include "run/metrics.h"
#include "run/sweep/sweep.h"

static const char cache_key[] = "a key";

typedef struct scratch {
    char folder[256], path[512];
} scratch;

static const char *file_of(scratch *is, const char *name) {
    snprintf(is->path, sizeof is->path, "%s/%s", is->folder, name);
    return is->path;
}

static void put(scratch *is, const char *name, const uint8_t *data, size_t size) {
    fuzz_promise(icl_file_write(file_of(is, name), data, size, NULL) == ICL_OK, "the input fits in a file");
}

static void take_away(scratch *is, const char *name) {
    fuzz_promise(remove(file_of(is, name)) == 0, "a reader leaves the file");
}

static void check_status(icl_status status, const icl_error *error) {
    if (status != ICL_OK)
        fuzz_check_refusal(status, error);
}

static void read_facts(scratch *is, const uint8_t *data, size_t size) {
    icl_polish_result polished;
    icl_error error = {0};
    char *text = NULL;
    double number = 0;

    put(is, ICL_RUN_FACTS, data, size);
    fuzz_promise(icl_run_read_state(is->folder, &text, &error) == ICL_OK && text, "there is a state, or none");
    icl_free(&text);
    fuzz_promise(icl_run_read_recipe_name(is->folder, &text, &error) == ICL_OK && text, "a recipe has a name");
    icl_free(&text);
    fuzz_promise(icl_run_read_number(is->folder, "steps", &number, &error) == ICL_OK, "a number, or NaN");
    fuzz_promise(icl_run_read_polish(is->folder, &polished, &error) == ICL_OK && polished.sequences <= 1000000000000,
                 "counts are counts");
    take_away(is, ICL_RUN_FACTS);
}

static void read_metrics(scratch *is, const uint8_t *data, size_t size) {
    icl_metrics metrics = {0};
    icl_error error = {0};

    put(is, ICL_RUN_METRICS, data, size);
    check_status(icl_metrics_read(is->folder, &metrics, &error), &error);
    icl_metrics_release(&metrics);
    take_away(is, ICL_RUN_METRICS);
}

/* Reads a grid of a recipe that exists and, after a NUL, the result of its first cell. */
static void read_sweep(scratch *is, const uint8_t *data, size_t size) {
    static const char recipe[] = "[task]\nd = 2\nn = 3\n";
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - data) : size;
    icl_sweep *sweep = NULL;
    icl_sweep_result result;
    icl_error error = {0};
    char *name = NULL, folder[600], file[700];

    put(is, "small.ini", (const uint8_t *)recipe, sizeof recipe - 1);
    put(is, "grid.ini", data, length);
    const icl_status status = icl_sweep_load(file_of(is, "grid.ini"), NULL, &sweep, &error);
    if (status != ICL_OK)
        fuzz_promise(status != ICL_ERROR_DEVICE && error.message[0] != '\0' && !strchr(error.message, '\n'),
                     "a grid that is refused has a line that says why");
    if (sweep && end && icl_sweep_cell_name(sweep, 0, &name, NULL) == ICL_OK && strlen(name) < 200) {
        snprintf(folder, sizeof folder, "%s/%s", is->folder, name);
        snprintf(file, sizeof file, "%s/result.json", folder);
        fuzz_promise(icl_folder_create(folder, NULL) == ICL_OK &&
                         icl_file_write(file, end + 1, size - length - 1, NULL) == ICL_OK,
                     "a cell has a folder");
        fuzz_promise(icl_sweep_read_result(sweep, is->folder, 0, &result, &error) == ICL_OK &&
                         result.steps <= 1000000000000,
                     "a result is there, or is none");
        (void)remove(file);
        (void)rmdir(folder);
    }
    icl_free(&name);
    icl_sweep_destroy(&sweep);
    take_away(is, "grid.ini");
    take_away(is, "small.ini");
}

static void read_entry(scratch *is, const uint8_t *data, size_t size) {
    icl_error error = {0};
    char name[64], *value = NULL;
    size_t value_size = 0;

    snprintf(name, sizeof name, "%016" PRIx64 ".entry", icl_hash(cache_key, sizeof cache_key));
    put(is, name, data, size);
    check_status(icl_cache_load(is->folder, cache_key, sizeof cache_key, &value, &value_size, &error), &error);
    fuzz_promise(value_size <= size, "no value is larger than its file");
    icl_free(&value);
    take_away(is, name);
}

static void read_picture(const uint8_t *data, size_t size) {
    icl_text html = {0};
    icl_error error = {0};

    check_status(icl_html_svg(&html, (const char *)data, size, "a picture", &error), &error);
    icl_text_release(&html);
}

/* Writes a name: its only quotes that gnuplot sees are the two around it, and it is one line. */
static void write_name(const uint8_t *data, size_t size) {
    icl_text script = {0};
    char *name = NULL;

    fuzz_promise(icl_allocate(size + 1, 1, "name", &name, NULL) == ICL_OK, "there is memory");
    if (size > 0)
        memcpy(name, data, size);
    fuzz_promise(icl_script_text(&script, name, NULL) == ICL_OK && script.length >= 2, "a name is written");
    for (size_t i = 1; i + 1 < script.length; i++) {
        const char c = script.bytes[i];
        fuzz_promise(c != '"' && c != '\'' && c != '`' && c != '\n' && c != '{' && c != '}' && c != '@',
                     "nothing in a name is special to gnuplot");
        fuzz_promise(c != '\\' || (script.bytes[i + 1] >= '0' && script.bytes[i + 1] <= '3'), "but for octal digits");
    }
    icl_free(&name);
    icl_text_release(&script);
}

/* Claims a cell in place of whose claim there is a file, a link or a folder. The first byte says which, and the rest is
 * its content or name. A file is accepted unchanged; nothing else is, and no link is followed. */
static void take_claim(scratch *is, const uint8_t *data, size_t size) {
    char claims[300], claim[320], target[64] = "x";
    const int kind = size > 0 ? data[0] % 3 : 0;
    icl_lock *lock = NULL;
    icl_error error = {0};
    char *text = NULL;
    size_t length = 0;

    snprintf(claims, sizeof claims, "%s/claims", is->folder);
    snprintf(claim, sizeof claim, "%s/cell", claims);
    for (size_t i = 1; i < size && i < sizeof target; i++) /* beside it: no slash */
        target[i - 1] = data[i] == '/' || data[i] == '\0' || data[i] == '.' ? 'x' : (char)data[i];
    fuzz_promise(icl_folder_create(claims, NULL) == ICL_OK, "there is a folder for claims");
    fuzz_promise(kind == 0   ? icl_file_write(claim, data, size, NULL) == ICL_OK
                 : kind == 1 ? symlink(target, claim) == 0
                             : mkdir(claim, 0777) == 0,
                 "something stands in a claim's place");
    const icl_status status = icl_lock_claim(is->folder, "cell", &lock, &error);
    fuzz_promise(kind == 0 ? status == ICL_OK && lock : status == ICL_ERROR_IO && !lock, "a claim is a plain file");
    icl_lock_release(&lock);
    if (kind == 0)
        fuzz_promise(icl_file_read(claim, 0, &text, &length, NULL) == ICL_OK && length == size &&
                         memcmp(text, data, size) == 0,
                     "and keeps what it holds");
    icl_free(&text);
    fuzz_promise(remove(claim) == 0 && rmdir(claims) == 0, "nothing was made beside it");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static scratch is; /* its empty folder is left to the cleaning of temporary files */
    const uint8_t *rest = data + 1;

    if (size == 0)
        return 0;
    if (is.folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(is.folder, sizeof is.folder, "%.200s/iclab-fuzz-folder-XXXXXX", base && *base ? base : "/tmp");
        fuzz_promise(mkdtemp(is.folder) != NULL, "there is a folder");
    }
    switch ((uint8_t)(data[0] - '0') % 7) {
    case 0:
        read_facts(&is, rest, size - 1);
        break;
    case 1:
        read_metrics(&is, rest, size - 1);
        break;
    case 2:
        read_sweep(&is, rest, size - 1);
        break;
    case 3:
        read_entry(&is, rest, size - 1);
        break;
    case 4:
        read_picture(rest, size - 1);
        break;
    case 5:
        write_name(rest, size - 1);
        break;
    default:
        take_claim(&is, rest, size - 1);
    }
    return 0;
}
