/* The choices of an open device: those it was opened with, those taken later, those that a contest left in the cache of
 * this user, and the ways of ops that contests and benchmarks compare. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/clblast.h"
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "config.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "iclab/text.h"

/* ---- Taking choices ---- */

void icl_choices_apply(icl_opencl *opencl) {
    if (opencl->lanes == 1)
        opencl->max_items =
            64 * (size_t)icl_opencl_choose(opencl, ICL_CHOICE_TEAMS, 0) * opencl->backend->capabilities.compute_units;
    opencl->small->is_off = icl_opencl_choose(opencl, ICL_CHOICE_COLLECT, 0) == ICL_COLLECT_OFF;
}

icl_status icl_opencl_take_choices(icl_backend *backend, const char *words, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const unsigned parameters = icl_opencl_choose(opencl, ICL_CHOICE_CLBLAST, 0);
    icl_choices choices = words ? (icl_choices){{0}} : opencl->opened_with;

    if (words && *words)
        ICL_CHECK(icl_choices_read(words, &choices, error));
    ICL_CHECK(icl_queue_flush(opencl, error));
    opencl->chosen = choices;
    icl_choices_apply(opencl);
    if (icl_opencl_choose(opencl, ICL_CHOICE_CLBLAST, 0) != parameters &&
        opencl->clblast->state == ICL_CLBLAST_SERVES) {
        icl_clblast_forget();
        opencl->clblast->state = ICL_CLBLAST_UNTESTED;
        opencl->clblast->tested = 0;
    }
    return ICL_OK;
}

icl_status icl_opencl_write_choices(const icl_backend *backend, icl_text *text, icl_error *error) {
    const icl_opencl *opencl = backend->state;
    return icl_choices_write(&opencl->chosen, text, error);
}

/* ---- Keeping them: the words, under all that names the device, its driver and this program ---- */

static const icl_cache_limits limits = {.bytes = UINT64_C(256) << 20, .seconds = 90 * UINT64_C(86400)};

enum { KEY_CAPACITY = 4 * ICL_NAME_CAPACITY + 128 };

static size_t make_key(const icl_opencl *opencl, char key[KEY_CAPACITY]) {
    const icl_capabilities *device = &opencl->backend->capabilities;

    return (size_t)snprintf(key, KEY_CAPACITY,
                            "choices 1\n" ICL_VERSION " " ICL_COMMIT "\n%s | %s | %s | %zu units, %zu lanes, fast math "
                            "%d",
                            device->name, device->platform, device->driver, device->compute_units, opencl->lanes,
                            (int)opencl->fast_math);
}

icl_status icl_opencl_keep_choices(icl_backend *backend, const char *words, icl_error *error) {
    char key[KEY_CAPACITY], *folder = NULL;
    const size_t size = make_key(icl_opencl_of(backend), key);
    icl_status status = ICL_OK;

    ICL_TRY(icl_cache_folder(&folder, error));
    if (!folder)
        goto done;
    ICL_TRY(icl_cache_prepare(folder, limits, error));
    ICL_TRY(icl_cache_store(folder, key, size, words, strlen(words), error));
done:
    icl_free(&folder);
    return status;
}

/* Sets *words to the choices that were kept for this device, or to NULL. */
static icl_status load(const icl_opencl *opencl, char **words, icl_error *error) {
    char key[KEY_CAPACITY], *folder = NULL, *value = NULL;
    size_t size = 0;
    icl_status status = ICL_OK;

    *words = NULL;
    ICL_TRY(icl_cache_folder(&folder, error));
    if (folder)
        ICL_TRY(icl_cache_load(folder, key, make_key(opencl, key), &value, &size, error));
    if (value) {
        ICL_TRY(icl_allocate(size + 1, 1, "kept choices", words, error));
        memcpy(*words, value, size);
    }
done:
    icl_free(&folder);
    icl_free(&value);
    return status;
}

/* Takes the choices of a contest on this device. The cache only saves time: what is wrong with it is logged. */
static void take_kept(icl_opencl *opencl) {
    const icl_log *log = &opencl->backend->log;
    icl_choices choices = {{0}};
    icl_error why = {0};
    char *words = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(load(opencl, &words, &why));
    if (words) {
        ICL_TRY(icl_choices_read(words, &choices, &why));
        opencl->chosen = choices;
        icl_log_write(log, ICL_LOG_INFO, "%s: choices by the contest of iclab devices --gemm",
                      opencl->backend->capabilities.spec);
    }
done:
    if (status != ICL_OK)
        icl_log_write(log, ICL_LOG_DEBUG, "kept choices: %s; the table serves", why.message);
    icl_free(&words);
}

icl_status icl_opencl_read_choices(icl_opencl *opencl, icl_error *error) {
    const char *text = getenv(ICL_CHOICES_VARIABLE);

    take_kept(opencl);
    if (text && *text) {
        ICL_CHECK(icl_choices_read(text, &opencl->chosen, error));
        icl_log_write(&opencl->backend->log, ICL_LOG_INFO, "choices: %s (" ICL_CHOICES_VARIABLE ")", text);
    }
    opencl->opened_with = opencl->chosen;
    return ICL_OK;
}

/* ---- Contests and ways ---- */

#define CONTEST(op, name, first, second, has_rule, variant)                                                            \
    { ICL_OP_##op, name, {first, second}, has_rule, variant, ICL_SHAPE_CLASSES, icl_size_class }
#define ATTENTION_CONTESTS                                                                                             \
    CONTEST(attention_forward, "attention", "fused", "products", false, NULL),                                         \
        CONTEST(attention_backward, "attention_gradient", "fused", "products", false, NULL)

/* CLBlast has no parameters for new GPUs; those of an A100 may then be better than what it takes in their place. */
size_t icl_opencl_contests(const icl_backend *backend, const icl_contested **list) {
    static const icl_contested of_cpus[] = {CONTEST(matmul, "gemm", "native", "clblast", true, NULL),
                                            ATTENTION_CONTESTS};
    static const icl_contested of_gpus[] = {CONTEST(matmul, "gemm", "native", "clblast", true, "clblast=a100"),
                                            ATTENTION_CONTESTS};
    const icl_opencl *opencl = backend->state;
    const size_t first = ICL_HAVE_CLBLAST ? 0 : 1;

    *list = (opencl->lanes == 1 ? of_gpus : of_cpus) + first;
    return sizeof of_gpus / sizeof *of_gpus - first;
}

/* Ops with several ways unless the user chose one, and the choice that takes one. */
static const struct {
    icl_op op;
    icl_opencl_choice choice;
    const char *names[2];
    bool of_gpus; /* alone */
} ways[] = {
    {ICL_OP_recurrence_forward, ICL_CHOICE_RECURRENCE, {"by tokens", "by chunks"}, true},
    {ICL_OP_attention_forward, ICL_CHOICE_ATTENTION, {"fused", "by products"}, false},
    {ICL_OP_attention_backward, ICL_CHOICE_ATTENTION_GRADIENT, {"fused", "by products"}, false},
};

static bool is_linear(icl_op op, const void *params) {
    const icl_attention_params *attention = params;
    return (op == ICL_OP_attention_forward || op == ICL_OP_attention_backward) && attention &&
           attention->kind == ICL_ATTENTION_LINEAR;
}

size_t icl_opencl_ways(const icl_backend *backend, icl_op op, const void *params, const char *const **names) {
    const icl_opencl *opencl = backend->state;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].op != op || is_linear(op, params))
            continue;
        *names = ways[i].names;
        return (ways[i].of_gpus && opencl->lanes > 1) || opencl->opened_with.all[ways[i].choice] != ICL_BY_TABLE ? 0
                                                                                                                 : 2;
    }
    return 0;
}

void icl_opencl_choose_way(icl_backend *backend, icl_op op, size_t way) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].op == op) /* values are counted from 1 in the order of the names */
            icl_opencl_of(backend)->forced[ways[i].choice] = way == ICL_ANY_WAY ? ICL_BY_TABLE : (unsigned)way + 1;
}
