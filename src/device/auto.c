/* Finds the fastest of several devices: a short step of each is timed, and the answer is remembered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/contract.h"
#include "config.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "core/print.h"
#include "device/device.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "iclab/ops_linear_transformer.h"
#include "iclab/status.h"

#define DATE_CAPACITY 16
#define FAILED        (-1.0)

static const icl_cache_limits limits = {.bytes = UINT64_C(256) << 20, .seconds = 90 * UINT64_C(86400)};

/* ---- Remembering: the date, then a line of seconds for each contestant ---- */

icl_status icl_contest_key(const icl_contestant *contestants, size_t count, char **key, icl_error *error) {
    static const char version[] = "fastest device 1\n" ICL_VERSION " " ICL_COMMIT "\n";
    size_t size = sizeof version, used;

    for (size_t i = 0; i < count; i++)
        size += strlen(contestants[i].identity) + 1;
    ICL_CHECK(icl_allocate(size, 1, "key of a choice", key, error));
    used = (size_t)snprintf(*key, size, "%s", version);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(*key + used, size - used, "%s\n", contestants[i].identity);
    return ICL_OK;
}

/* Returns false if the text is not what `remember` writes. */
static bool read_answer(const char *text, size_t count, char date[DATE_CAPACITY], double *seconds) {
    const size_t length = strcspn(text, "\n");

    if (length == 0 || length >= DATE_CAPACITY || text[length] != '\n')
        return false;
    snprintf(date, DATE_CAPACITY, "%.*s", (int)length, text);
    text += length + 1;
    for (size_t i = 0; i < count; i++) {
        const size_t digits = strcspn(text, "\n");
        if (text[digits] != '\n' || !icl_parse_number(text, digits, &seconds[i]) ||
            !(seconds[i] > 0 && seconds[i] < 1e6))
            return false;
        text += digits + 1;
    }
    return *text == '\0';
}

/* Returns whether there is an answer. One that is damaged is logged and measured again. */
static bool recall(const icl_contest *contest, const char *key, char date[DATE_CAPACITY], double *seconds) {
    char *value = NULL, *text = NULL;
    size_t size = 0;
    icl_error why = {0};
    bool found = false;

    if (icl_cache_load(contest->folder, key, strlen(key), &value, &size, &why) != ICL_OK)
        icl_log_write(&contest->log, ICL_LOG_DEBUG, "%s: %s; measured again", contest->title, why.message);
    if (value && icl_allocate(size + 1, 1, "remembered choice", &text, NULL) == ICL_OK) {
        memcpy(text, value, size);
        found = strlen(text) == size && read_answer(text, contest->count, date, seconds);
    }
    icl_free(&text);
    icl_free(&value);
    return found;
}

/* Returns whether the answer could be kept. */
static bool remember(const icl_contest *contest, const char *key, const double *seconds) {
    const size_t capacity = DATE_CAPACITY + 32 * contest->count;
    char *text = NULL;
    size_t used;
    icl_status status = ICL_OK;
    icl_error why = {0};

    ICL_TRY(icl_allocate(capacity, 1, "choice", &text, &why));
    used = (size_t)snprintf(text, capacity, "%.*s\n", DATE_CAPACITY - 2, contest->today);
    for (size_t i = 0; i < contest->count; i++)
        used += (size_t)icl_print(text + used, capacity - used, "%.9g\n", seconds[i]);
    ICL_TRY(icl_cache_prepare(contest->folder, limits, &why));
    ICL_TRY(icl_cache_store(contest->folder, key, strlen(key), text, used, &why));
done:
    if (status != ICL_OK)
        icl_log_write(&contest->log, ICL_LOG_DEBUG, "%s: not remembered: %s", contest->title, why.message);
    icl_free(&text);
    return status == ICL_OK;
}

/* ---- Measuring ---- */

/* Returns how many contestants have seconds. */
static size_t measure_all(const icl_contest *contest, double *seconds, icl_status *last, icl_error *error) {
    size_t measured = 0;

    for (size_t i = 0; i < contest->count; i++) {
        icl_error why = {0};
        seconds[i] = FAILED;
        if (i + 1 == contest->count && measured == 0 && i > 0)
            return 0; /* there is no other to compare it with */
        *last = contest->measure(contest->context, i, &seconds[i], &why);
        if (*last == ICL_OK) {
            measured++;
            continue;
        }
        seconds[i] = FAILED;
        icl_log_write(&contest->log, ICL_LOG_WARNING, "%s: %s left out: %s", contest->title,
                      contest->contestants[i].name, why.message);
        icl_fail(error, *last, "%s refused: %s", contest->contestants[i].name, why.message);
    }
    return measured;
}

static size_t fastest_of(const double *seconds, size_t count) {
    size_t fastest = count;
    for (size_t i = 0; i < count; i++)
        if (seconds[i] > 0 && (fastest == count || seconds[i] < seconds[fastest]))
            fastest = i;
    return fastest;
}

/* "auto: chose A: a short step took 1.2 ms; B 9.8 ms; remembered" */
static void explain(const icl_contest *contest, size_t fastest, const double *seconds, const char *origin) {
    char others[512] = "";
    size_t used = 0;

    for (size_t i = 0; i < contest->count && used < sizeof others; i++)
        if (i != fastest && seconds[i] > 0)
            used += (size_t)icl_print(others + used, sizeof others - used, "; %s %.3g ms", contest->contestants[i].name,
                                      1e3 * seconds[i]);
    icl_log_write(&contest->log, ICL_LOG_INFO, "%s: chose %s: a short step took %.3g ms%s%s", contest->title,
                  contest->contestants[fastest].name, 1e3 * seconds[fastest], others, origin);
}

icl_status icl_contest_run(const icl_contest *contest, bool anew, size_t *fastest, bool *remembered, icl_error *error) {
    double *seconds = NULL;
    char *key = NULL, date[DATE_CAPACITY], origin[DATE_CAPACITY + 32] = "";
    bool recalled = false;
    icl_status status = ICL_OK, last = ICL_OK;

    *fastest = contest->count - 1;
    ICL_TRY(icl_allocate(contest->count, sizeof *seconds, "times of devices", &seconds, error));
    if (contest->folder)
        ICL_TRY(icl_contest_key(contest->contestants, contest->count, &key, error));
    if (key && !anew)
        recalled = recall(contest, key, date, seconds);
    if (recalled) {
        snprintf(origin, sizeof origin, "; measured on %s", date);
    } else {
        const size_t measured = measure_all(contest, seconds, &last, error);
        if (measured == contest->count && key && remember(contest, key, seconds))
            snprintf(origin, sizeof origin, "; remembered");
    }
    const size_t best = fastest_of(seconds, contest->count);
    if (best < contest->count) {
        *fastest = best;
        explain(contest, best, seconds, origin);
    } else if (contest->count == 1) {
        status = last;
    } else {
        icl_log_write(&contest->log, ICL_LOG_INFO, "%s: chose %s, because every other device failed", contest->title,
                      contest->contestants[*fastest].name);
    }
    if (remembered)
        *remembered = recalled;
done:
    icl_free(&seconds);
    icl_free(&key);
    return status;
}

/* ---- The short step: the fused gradient of a linear transformer and the optimizer's step ---- */

enum { BATCH = 2048, INPUTS = 20, CONTEXT = 20, LAYERS = 4, MOST_TURNS = 5 };

#define MOST_SECONDS .3 /* the most of all turns, unless the first takes longer */

static const icl_linear_transformer_params model = {
    .parameterization = ICL_LINEAR_FULL, .layers = LAYERS, .factor = 1.0 / CONTEXT, .space = ICL_SPACE_GRAM};
static const icl_update_params adam = {
    .kind = ICL_UPDATE_ADAM, .adam = {.learning_rate = 1e-4, .beta1 = .9, .beta2 = .999, .epsilon = 1e-8, .step = 1}};

/* Vectors of parameters come first, then vectors of sequences, then tensors of other shapes. */
enum { PARAMETERS, FIRST, SECOND, GRADIENT, LOSSES, TARGETS, MEASURES, TOKENS, COUNT };

static icl_status create(icl_backend *backend, icl_tensor tensors[COUNT], icl_error *error) {
    const size_t size = icl_linear_transformer_size(&model, INPUTS);
    const size_t lengths[] = {size, size, size, size, BATCH, BATCH, 3};
    const size_t shape[] = {BATCH, CONTEXT + 1, INPUTS + 1};

    for (int i = 0; i < COUNT; i++) {
        const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)i}, .distribution = ICL_NORMAL};
        ICL_CHECK(i == TOKENS ? icl_tensor_create(backend, 3, shape, &tensors[i], error)
                              : icl_tensor_create(backend, 1, &lengths[i], &tensors[i], error));
        ICL_CHECK(icl_random_fill(backend, &normal, tensors[i], error));
    }
    ICL_CHECK(icl_scale_add(backend, tensors[PARAMETERS], .02, tensors[PARAMETERS], 0, (icl_tensor){0}, error));
    return icl_fill(backend, tensors[SECOND], 1, error);
}

static icl_status step(icl_backend *backend, const icl_tensor t[COUNT], icl_error *error) {
    const icl_tensor none = {0}, states[2] = {t[FIRST], t[SECOND]};

    ICL_CHECK(icl_linear_transformer_gradient(backend, &model, t[LOSSES], t[GRADIENT], none, t[PARAMETERS], t[TOKENS],
                                              none, none, t[TARGETS], none, error));
    ICL_CHECK(icl_update_step(backend, &adam, t[PARAMETERS], states, t[MEASURES], none, t[GRADIENT], t[LOSSES], none,
                              none, error));
    return icl_backend_sync(backend, error);
}

icl_status icl_time_short_step(icl_backend *backend, double *seconds, icl_error *error) {
    const icl_backend_statistics before = backend->statistics;
    icl_tensor tensors[COUNT] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(create(backend, tensors, error));
    ICL_TRY(step(backend, tensors, error));
    const double begin = icl_clock_seconds();
    for (int turn = 0; turn < MOST_TURNS && (turn == 0 || icl_clock_seconds() - begin < MOST_SECONDS); turn++) {
        const double start = icl_clock_seconds();
        ICL_TRY(step(backend, tensors, error));
        const double taken = icl_clock_seconds() - start;
        *seconds = turn == 0 || taken < *seconds ? taken : *seconds;
    }
done:
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&tensors[i]);
    backend->statistics.ops = before.ops;
    backend->statistics.fallbacks = before.fallbacks;
    backend->statistics.launches = before.launches;
    backend->statistics.device_seconds = before.device_seconds;
    return status;
}
