/*
 * Choices that only times decide: the table, and what overrides it: the variable, a contest whose outcome is in the
 * cache of this user, and the record of a run.
 *
 * A way that a measurement forces comes first, then a choice for the class of sizes, then one for all sizes,
 * then the table.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/ops.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "config.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "iclab/backend.h"

/* ---- The table ---- */

static const struct {
    const char *text; /* part of the name of the device or platform; "": any */
    icl_opencl_choice choice;
    size_t least; /* the row applies from this size on */
    unsigned value;
} rows[] = {
    /* A straight-line program takes seconds to compile, which pays for training and not for a few launches. */
    {"", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", ICL_CHOICE_LINEAR, 0, ICL_LINEAR_STEPS},
    /* An H200 was 2.58 times as fast by tokens at 64 tokens and width 16, 2.54 at 256 and 32, 1.48 at 1,024 and 64. */
    {"NVIDIA", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    /* A single chunk saves no barrier, and its products are extra work. */
    {"", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    /* Tiles of iclab's own took .42 to .66 of CLBlast's time for large products on an H200. */
    {"NVIDIA", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    /* CLBlast's strength is large square products. */
    {"", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    /* Wide tiles pay off once there are as many of them as a large GPU has units. */
    {"", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    /* This many keep the queue of each unit full. */
    {"", ICL_CHOICE_TEAMS, 0, 32},
    /* The compiler of Mesa's llvmpipe crashes on a kernel that chooses among buffers. */
    {"llvmpipe", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
    {"", ICL_CHOICE_ATTENTION, 0, ICL_ATTENTION_FUSED},
    {"", ICL_CHOICE_ATTENTION_GRADIENT, 0, ICL_ATTENTION_FUSED},
};

unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].choice == choice && size >= rows[i].least &&
            (strstr(device, rows[i].text) || strstr(platform, rows[i].text)))
            return rows[i].value;
    return ICL_BY_TABLE; /* not reached: the last row of every choice fits all devices and sizes */
}

/* ---- Values ---- */

#define MOST_TEAMS 256

/* The names of a choice's values, from 1 on; without names the values are the numbers up to MOST_TEAMS. */
static const struct {
    const char *name, *values[2], *expected;
} named[ICL_CHOICE_COUNT] = {
    [ICL_CHOICE_LINEAR] = {"linear", {"steps", "straight"}, "steps or straight"},
    [ICL_CHOICE_RECURRENCE] = {"recurrence", {"tokens", "chunks"}, "tokens or chunks"},
    [ICL_CHOICE_GEMM] = {"gemm",
                         {[ICL_GEMM_CLBLAST - 1] = "clblast", [ICL_GEMM_NATIVE - 1] = "native"},
                         "native or clblast"},
    [ICL_CHOICE_CLBLAST] = {"clblast", {"default", "a100"}, "default or a100"},
    [ICL_CHOICE_TILES] = {"tiles", {"narrow", "wide"}, "narrow or wide"},
    [ICL_CHOICE_TEAMS] = {"teams", {NULL}, "a whole number from 1 to 256"},
    [ICL_CHOICE_COLLECT] = {"collect", {"on", "off"}, "on or off"},
    [ICL_CHOICE_ATTENTION] = {"attention", {"fused", "products"}, "fused or products"},
    [ICL_CHOICE_ATTENTION_GRADIENT] = {"attention_gradient", {"fused", "products"}, "fused or products"},
};

static bool is_text(const char *bytes, size_t length, const char *text) {
    return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

/* Returns the value of that name, or 0 if there is none. */
static unsigned value_of(icl_opencl_choice choice, const char *bytes, size_t length) {
    unsigned number = 0;

    if (named[choice].values[0]) {
        for (unsigned i = 0; i < 2; i++)
            if (is_text(bytes, length, named[choice].values[i]))
                return i + 1;
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || number > MOST_TEAMS)
            return 0;
        number = 10 * number + (unsigned)(bytes[i] - '0');
    }
    return number <= MOST_TEAMS ? number : 0;
}

/* ---- Classes of sizes ---- */

static const size_t extents[] = {16, 64, 256, 1024}, counts[] = {1, 16, 256};

enum { EXTENTS = sizeof extents / sizeof *extents, COUNTS = sizeof counts / sizeof *counts };

static size_t log_of(size_t size) {
    size_t power = 0;

    while (size >> power > 1)
        power++;
    return power;
}

static size_t at_most(size_t value, size_t most) {
    return value < most ? value : most;
}

size_t icl_size_class_of(const icl_sizes *sizes) {
    size_t number = at_most((log_of(sizes->of[3]) + 2) / 4, COUNTS - 1);

    for (int i = 2; i >= 0; i--) {
        const size_t power = log_of(sizes->of[i]);
        number = number * EXTENTS + at_most(power > 3 ? (power - 3) / 2 : 0, EXTENTS - 1);
    }
    return number;
}

icl_sizes icl_size_class(size_t number) {
    icl_sizes sizes;

    for (int i = 0; i < 3; i++) {
        sizes.of[i] = extents[number % EXTENTS];
        number /= EXTENTS;
    }
    sizes.of[3] = counts[number];
    return sizes;
}

static_assert(ICL_SHAPE_CLASSES == EXTENTS * EXTENTS * EXTENTS * COUNTS, "every class has a number");

/* Reads the extents of a class, "1024x64x256x16". Returns false if there is no such class. */
static bool read_class(const char *bytes, size_t length, size_t *number) {
    icl_sizes sizes = {{0}};
    int axis = 0;

    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == 'x' && axis < 3)
            axis++;
        else if (bytes[i] >= '0' && bytes[i] <= '9' && sizes.of[axis] < 10000)
            sizes.of[axis] = 10 * sizes.of[axis] + (size_t)(bytes[i] - '0');
        else
            return false;
    }
    *number = icl_size_class_of(&sizes);
    const icl_sizes class = icl_size_class(*number);
    return memcmp(&class, &sizes, sizeof class) == 0;
}

static bool has_classes(icl_opencl_choice choice) {
    return choice == ICL_CHOICE_GEMM || choice == ICL_CHOICE_ATTENTION || choice == ICL_CHOICE_ATTENTION_GRADIENT;
}

/* ---- Reading and writing ---- */

/* A word CHOICE=VALUE or CHOICE:CLASS=VALUE. Lengths exclude the signs. */
typedef struct word {
    const char *name, *class, *value; /* class: NULL for all sizes */
    size_t length, name_length, class_length, value_length;
} word;

static word word_at(const char *text) {
    word w = {.name = text, .length = strcspn(text, ","), .name_length = strcspn(text, ":=,")};
    const size_t before_value = strcspn(text, "=,");

    if (text[w.name_length] == ':') {
        w.class = text + w.name_length + 1;
        w.class_length = before_value - w.name_length - 1;
    }
    w.value = text + (before_value < w.length ? before_value + 1 : w.length);
    w.value_length = (size_t)(text + w.length - w.value);
    return w;
}

static icl_status take_word(const word *w, icl_choices *choices, icl_error *error) {
    size_t choice = 0, number = 0;

    while (choice < ICL_CHOICE_COUNT && !is_text(w->name, w->name_length, named[choice].name))
        choice++;
    if (choice == ICL_CHOICE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT,
                        ICL_CHOICES_VARIABLE ": '%.*s': expected linear, recurrence, gemm, clblast, tiles, teams, "
                                             "collect, attention or attention_gradient, and = and a value",
                        (int)w->length, w->name);
    if (w->class && (!has_classes(choice) || !read_class(w->class, w->class_length, &number)))
        return icl_fail(error, ICL_ERROR_INPUT,
                        ICL_CHOICES_VARIABLE ": '%.*s': expected gemm, attention or attention_gradient before the "
                                             "colon, and three of 16, 64, 256 and 1024 and one of 1, 16 and 256 after "
                                             "it, as in gemm:1024x1024x64x1=native",
                        (int)w->length, w->name);
    const unsigned value = value_of(choice, w->value, w->value_length);
    if (value == 0)
        return icl_fail(error, ICL_ERROR_INPUT, ICL_CHOICES_VARIABLE ": '%.*s': expected %s= and %s", (int)w->length,
                        w->name, named[choice].name, named[choice].expected);
    if (w->class) {
        choices->of_class[choice][number] = (unsigned char)value;
    } else {
        choices->all[choice] = value;
        memset(choices->of_class[choice], 0, sizeof choices->of_class[choice]);
    }
    return ICL_OK;
}

icl_status icl_choices_read(const char *text, icl_choices *choices, icl_error *error) {
    for (;; text++) {
        const word w = word_at(text);
        ICL_CHECK(take_word(&w, choices, error));
        text += w.length;
        if (*text == '\0')
            return ICL_OK;
    }
}

static icl_status write_value(size_t choice, unsigned value, icl_text *text, icl_error *error) {
    return named[choice].values[0] ? icl_text_print(text, error, "=%s", named[choice].values[value - 1])
                                   : icl_text_print(text, error, "=%u", value);
}

icl_status icl_choices_write(const icl_choices *choices, icl_text *text, icl_error *error) {
    for (size_t choice = 0; choice < ICL_CHOICE_COUNT; choice++) {
        if (choices->all[choice] != ICL_BY_TABLE) {
            ICL_CHECK(icl_text_print(text, error, "%s%s", text->length > 0 ? "," : "", named[choice].name));
            ICL_CHECK(write_value(choice, choices->all[choice], text, error));
        }
        for (size_t i = 0; i < ICL_SHAPE_CLASSES; i++) {
            const icl_sizes sizes = icl_size_class(i);
            if (choices->of_class[choice][i] == ICL_BY_TABLE)
                continue;
            ICL_CHECK(icl_text_print(text, error, "%s%s:%zux%zux%zux%zu", text->length > 0 ? "," : "",
                                     named[choice].name, sizes.of[0], sizes.of[1], sizes.of[2], sizes.of[3]));
            ICL_CHECK(write_value(choice, choices->of_class[choice][i], text, error));
        }
    }
    return ICL_OK;
}

/* ---- What decides on a device ---- */

unsigned icl_opencl_asked(const icl_opencl *opencl, icl_opencl_choice choice, const icl_sizes *sizes) {
    const unsigned of_class = sizes ? opencl->chosen.of_class[choice][icl_size_class_of(sizes)] : ICL_BY_TABLE;
    const unsigned forced = opencl->forced[choice];

    return forced != ICL_BY_TABLE ? forced : of_class != ICL_BY_TABLE ? of_class : opencl->chosen.all[choice];
}

unsigned icl_opencl_choose(const icl_opencl *opencl, icl_opencl_choice choice, size_t size) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    const unsigned asked = icl_opencl_asked(opencl, choice, NULL);
    return asked != ICL_BY_TABLE ? asked : icl_choice_by_table(choice, size, device->name, device->platform);
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

static icl_status keep(icl_backend *backend, const char *words, icl_error *error) {
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

/* Takes the choices that were kept for this device, then those of the variable. */
static icl_status read_choices(icl_opencl *opencl, icl_error *error) {
    const char *text = getenv(ICL_CHOICES_VARIABLE);

    take_kept(opencl);
    if (text && *text) {
        ICL_CHECK(icl_choices_read(text, &opencl->chosen, error));
        icl_log_write(&opencl->backend->log, ICL_LOG_INFO, "choices: %s (" ICL_CHOICES_VARIABLE ")", text);
    }
    opencl->opened_with = opencl->chosen;
    opencl->has_choices = true;
    return ICL_OK;
}

/* ---- Taking choices ---- */

static void apply(icl_opencl *opencl) {
    if (opencl->lanes == 1)
        opencl->max_items =
            64 * (size_t)icl_opencl_choose(opencl, ICL_CHOICE_TEAMS, 0) * opencl->backend->capabilities.compute_units;
    opencl->small->is_off = icl_opencl_choose(opencl, ICL_CHOICE_COLLECT, 0) == ICL_COLLECT_OFF;
}

/* The first call, on opening, reads those that it is opened with. */
static icl_status take(icl_backend *backend, const char *words, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_choices choices = {{0}};

    if (!opencl->has_choices)
        ICL_CHECK(read_choices(opencl, error));
    if (!words)
        choices = opencl->opened_with;
    else if (*words)
        ICL_CHECK(icl_choices_read(words, &choices, error));
    ICL_CHECK(icl_queue_flush(opencl, error));
    opencl->chosen = choices;
    apply(opencl);
    return ICL_OK;
}

static icl_status write(const icl_backend *backend, icl_text *text, icl_error *error) {
    const icl_opencl *opencl = backend->state;
    return icl_choices_write(&opencl->chosen, text, error);
}

/* ---- Contests and ways ---- */

#define CONTEST(op, name, first, second, has_rule, variant)                                                            \
    { ICL_OP_##op, name, {first, second}, has_rule, variant, ICL_SHAPE_CLASSES, icl_size_class }
#define ATTENTION_CONTESTS                                                                                             \
    CONTEST(attention_forward, "attention", "fused", "products", false, NULL),                                         \
        CONTEST(attention_backward, "attention_gradient", "fused", "products", false, NULL)

/* CLBlast has no parameters for new GPUs; those of an A100 may then be better than what it takes in their place. */
static size_t contests(const icl_backend *backend, const icl_contested **list) {
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
} op_ways[] = {
    {ICL_OP_recurrence_forward, ICL_CHOICE_RECURRENCE, {"by tokens", "by chunks"}, true},
    {ICL_OP_attention_forward, ICL_CHOICE_ATTENTION, {"fused", "by products"}, false},
    {ICL_OP_attention_backward, ICL_CHOICE_ATTENTION_GRADIENT, {"fused", "by products"}, false},
};

static bool is_linear(icl_op op, const void *params) {
    const icl_attention_params *attention = params;
    return (op == ICL_OP_attention_forward || op == ICL_OP_attention_backward) && attention &&
           attention->kind == ICL_ATTENTION_LINEAR;
}

static size_t list_ways(const icl_backend *backend, icl_op op, const void *params, const char *const **names) {
    const icl_opencl *opencl = backend->state;

    for (size_t i = 0; i < sizeof op_ways / sizeof *op_ways; i++) {
        if (op_ways[i].op != op || is_linear(op, params))
            continue;
        *names = op_ways[i].names;
        return (op_ways[i].of_gpus && opencl->lanes > 1) || opencl->opened_with.all[op_ways[i].choice] != ICL_BY_TABLE
                   ? 0
                   : 2;
    }
    return 0;
}

static void choose_way(icl_backend *backend, icl_op op, size_t way) {
    for (size_t i = 0; i < sizeof op_ways / sizeof *op_ways; i++)
        if (op_ways[i].op == op) /* values are counted from 1 in the order of the names */
            icl_opencl_of(backend)->forced[op_ways[i].choice] = way == ICL_ANY_WAY ? ICL_BY_TABLE : (unsigned)way + 1;
}

const icl_choice_functions icl_opencl_choices = {
    .ways = list_ways,
    .choose_way = choose_way,
    .contests = contests,
    .take = take,
    .write = write,
    .keep = keep,
};
