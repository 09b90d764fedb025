/*
 * Writes every program in every form that the host can ask a driver for: forms FOLDER
 *
 * A form is a text and its options, made by the host's own functions. FOLDER receives its text as NUMBER.cl, and a line
 * of JSON in index.jsonl for each kernel that the host creates from it and each kind of device (`devices`) that asks
 * for it: {"form", "text", "program", "options", "device", "kernel", "strict", "local_bytes"}. local_bytes: the most
 * local memory that a launch adds to that which the kernel declares.
 */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/program.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/json.h"

#define MOST_FORMS 1024

/* The properties of a device that forms depend on. Every GPU that forms are compiled for has fused multiply-adds; GPUs
 * without them, and CPUs, are "other". */
typedef struct device {
    const char *name;
    size_t lanes, wave;
    bool has_fma;
    unsigned capability[2]; /* compute capability of NVIDIA's; 0: another's */
} device;

static const device devices[] = {
    {"other", 1, 32, false, {0, 0}}, {"other", 4, 1, false, {0, 0}},  {"other", 8, 1, false, {0, 0}},
    {"other", 16, 1, false, {0, 0}}, {"wave32", 1, 32, true, {0, 0}}, {"wave64", 1, 64, true, {0, 0}},
    {"sm_75", 1, 32, true, {7, 5}},  {"sm_90", 1, 32, true, {9, 0}},
};

typedef struct form {
    char program[64];
    char options[ICL_OPTIONS_CAPACITY];
    char *definitions; /* in front of the file; "": none */
} form;

typedef struct writer {
    const char *folder;
    FILE *index;
    const device *device;
    icl_opencl opencl; /* the device that asks: lanes, fast_math, and options in `programs` */
    icl_programs programs;
    form forms[MOST_FORMS];
    size_t count;
} writer;

static icl_status write_text(const writer *to, size_t number, const char *definitions, const char *text, size_t size,
                             icl_error *error) {
    char name[32];
    char *path = NULL;
    icl_text whole = {0};
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%zu.cl", number);
    ICL_TRY(icl_path_join(to->folder, name, &path, error));
    ICL_TRY(icl_text_append(&whole, definitions, strlen(definitions), error));
    ICL_TRY(icl_text_append(&whole, text, size, error));
    ICL_TRY(icl_file_write(path, whole.bytes, whole.length, error));
done:
    icl_text_release(&whole);
    icl_free(&path);
    return status;
}

static icl_status write_row(const writer *to, size_t number, icl_kernel which, size_t local_bytes, icl_error *error) {
    const icl_kernel_info *kernel = &icl_kernel_infos[which];
    const form *f = &to->forms[number];
    char name[32];
    char *line = NULL;
    icl_json json = {0};
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%zu.cl", number);
    icl_json_count(&json, "form", number);
    icl_json_text(&json, "text", name);
    icl_json_text(&json, "program", f->program);
    icl_json_text(&json, "options", f->options);
    icl_json_text(&json, "device", to->device->name);
    icl_json_text(&json, "kernel", kernel->name);
    icl_json_flag(&json, "strict", kernel->strict);
    icl_json_count(&json, "local_bytes", local_bytes);
    ICL_TRY(icl_json_finish(&json, false, &line, error));
    if (fprintf(to->index, "%s\n", line) < 0)
        icl_fail(error, status = ICL_ERROR_IO, "cannot write the index in %s", to->folder);
done:
    icl_free(&line);
    return status;
}

/* Adds the form in which the device asks for the kernel: `definitions` (or "") in front of its file. program: its
 * name. */
static icl_status add(writer *to, icl_kernel which, const char *program, const char *definitions, const char *further,
                      size_t local_bytes, icl_error *error) {
    const icl_kernel_source *source = icl_opencl_find_source(icl_kernel_infos[which].file);
    char options[ICL_OPTIONS_CAPACITY];
    size_t number = 0;
    icl_status status = ICL_OK;

    icl_opencl_options_of(&to->opencl, which, further, options);
    while (number < to->count &&
           (strcmp(to->forms[number].program, program) != 0 ||
            strcmp(to->forms[number].definitions, definitions) != 0 || strcmp(to->forms[number].options, options) != 0))
        number++;
    if (number == MOST_FORMS || !source)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: more than %d forms, or no such file", program, MOST_FORMS);
    if (number == to->count) {
        form *made = &to->forms[number];
        ICL_TRY(icl_duplicate(definitions, &made->definitions, error));
        to->count++;
        snprintf(made->program, sizeof made->program, "%s", program);
        memcpy(made->options, options, sizeof options);
        ICL_TRY(write_text(to, number, definitions, (const char *)source->data, source->size, error));
    }
    ICL_TRY(write_row(to, number, which, local_bytes, error));
done:
    return status;
}

/* ---- Linear transformers ---- */

static icl_linear_job job_of(const writer *to, const icl_linear_transformer_params *params, size_t size, size_t rows,
                             bool train) {
    return (icl_linear_job){.params = params,
                            .size = size,
                            .batch = 65536,
                            .rows = rows,
                            .train = train,
                            .has_norms = train,
                            .is_contiguous = true,
                            .lanes = to->device->lanes,
                            .wave = to->device->wave,
                            .local_memory = (size_t)64 << 10,
                            .max_allocation = (size_t)1 << 32};
}

/* Adds the interpreter with all blocks and teams that some size asks for, and the steps' memory in either place.
 * Relaxed arithmetic depends on neither, so one size is enough. */
static icl_status add_interpreters(writer *to, icl_error *error) {
    enum { MOST_SIZE = 64 };
    const icl_linear_transformer_params params = {
        .parameterization = ICL_LINEAR_FULL, .layers = 4, .depth = 4, .heads = 1};
    bool seen[8][8][2][2] = {{{{false}}}};
    icl_status status = ICL_OK;

    const bool one = to->device->lanes == 1 && to->opencl.fast_math;
    for (size_t size = one ? 21 : 2; size <= (one ? 21 : MOST_SIZE); size++) {
        icl_linear_job job = job_of(to, &params, size, 0, true);
        char definitions[ICL_LINEAR_DEFINITIONS];
        icl_linear_cut cut;
        ICL_TRY(icl_linear_cut_of(&job, &cut, error));
        for (int local = one; local <= (to->device->lanes == 1); local++) {
            bool *is_seen = &seen[cut.rows][cut.columns][cut.team > 32][local];
            if (*is_seen)
                continue;
            *is_seen = true;
            cut.is_local = local;
            icl_linear_interpreter_definitions(&cut, definitions);
            ICL_TRY(add(to, ICL_KERNEL_linear_transformer, "linear_transformer", definitions, NULL,
                        local ? 31u << 10 : 0, error));
        }
    }
done:
    return status;
}

/* A straight-line program for each form of parameters, at sizes that papers train; two of them also with relaxed
 * arithmetic. */
static const struct straight {
    const char *name;
    icl_linear_transformer_params params;
    size_t d, n;
    bool train, is_fast_too;
} straights[] = {
    {"full-10", {ICL_LINEAR_FULL, 4, 4, 1, 1, ICL_SPACE_GRAM}, 10, 0, true, true},
    {"full-20", {ICL_LINEAR_FULL, 4, 4, 1, 1, ICL_SPACE_GRAM}, 20, 0, true, true},
    {"full-20-predict", {ICL_LINEAR_FULL, 4, 4, 1, 1, ICL_SPACE_GRAM}, 20, 0, false, false},
    {"full-20-tokens", {ICL_LINEAR_FULL, 4, 4, 1, 1, ICL_SPACE_TOKENS}, 20, 5, true, false},
    {"full-5-heads", {ICL_LINEAR_FULL, 3, 3, 2, .05, ICL_SPACE_GRAM}, 5, 20, true, false},
    {"diag-20", {ICL_LINEAR_DIAG, 4, 4, 1, 1, ICL_SPACE_GRAM}, 20, 0, true, false},
    {"gd++-10", {ICL_LINEAR_GDPP, 4, 4, 1, 1, ICL_SPACE_GRAM}, 10, 0, true, false},
    {"sparse-10", {ICL_LINEAR_SPARSE, 4, 4, 1, 1, ICL_SPACE_GRAM}, 10, 0, true, false},
    {"sparse-b-10", {ICL_LINEAR_SPARSE_B, 4, 4, 1, 1, ICL_SPACE_GRAM}, 10, 20, true, false},
};

static icl_status add_straight(writer *to, const struct straight *config, icl_error *error) {
    icl_linear_job job = job_of(to, &config->params, config->d + 1, config->n > 0 ? config->n + 1 : 0, config->train);
    icl_status status = ICL_OK;
    icl_text text = {0};
    const unsigned *capability = to->device->capability;
    const char *registers = capability[0] > 0 ? icl_opencl_register_option(capability[0], capability[1]) : NULL;
    char program[64];
    icl_linear_cut cut;

    job.is_straight = true;
    ICL_TRY(icl_linear_cut_of(&job, &cut, error));
    registers = icl_linear_register_option(&cut.key, registers);
    ICL_TRY(icl_linear_source(&cut, job.local_memory, &text, error));
    if (!text.bytes)
        return icl_fail(error, ICL_ERROR_INPUT, "no straight-line program for %s", config->name);
    snprintf(program, sizeof program, "straight-%s", config->name);
    ICL_TRY(add(to, ICL_KERNEL_linear_transformer, program, text.bytes, registers, 0, error));
done:
    icl_text_release(&text);
    return status;
}

/* ---- Recurrences ---- */

/* Adds the recurrence's kernels of one kind and size. */
static icl_status add_recurrence(writer *to, const icl_recurrence_form *kind, icl_error *error) {
    char forward[ICL_RECURRENCE_OPTIONS], backward[ICL_RECURRENCE_OPTIONS];

    icl_recurrence_options(kind, to->device->lanes, forward, backward);
    if (to->device->lanes > 1) {
        ICL_CHECK(add(to, ICL_KERNEL_recurrence_rows_lanes, "recurrence_rows_lanes", "", forward, 0, error));
        ICL_CHECK(add(to, ICL_KERNEL_recurrence_forward_lanes, "recurrence_forward_lanes", "", forward, 0, error));
        return add(to, ICL_KERNEL_recurrence_backward_lanes, "recurrence_backward_lanes", "", backward, 0, error);
    }
    ICL_CHECK(add(to, ICL_KERNEL_recurrence_rows, "recurrence_rows", "", forward, 0, error));
    ICL_CHECK(add(to, ICL_KERNEL_recurrence_forward_tiles, "recurrence_forward_tiles", "", forward, 0, error));
    if (icl_recurrence_serves_chunks(kind)) {
        ICL_CHECK(add(to, ICL_KERNEL_recurrence_forward_chunks, "recurrence_forward_chunks", "", forward, 0, error));
        ICL_CHECK(add(to, ICL_KERNEL_recurrence_chunk_products, "recurrence_forward_chunks", "", forward, 0, error));
    }
    ICL_CHECK(add(to, ICL_KERNEL_recurrence_backward_tiles, "recurrence_backward_tiles", "", backward, 0, error));
    return add(to, ICL_KERNEL_recurrence_backward_sum, "recurrence_backward_tiles", "", backward, 0, error);
}

/* Adds every kind in one size and, for the kinds that do least and most, every size of registers, in all and by chunks;
 * with relaxed arithmetic only one size. */
static icl_status add_recurrences(writer *to, icl_error *error) {
    static const size_t widths[][2] = {{64, 64}, {16, 16}, {32, 32}, {17, 3}, {128, 128}, {256, 64}};
    static const struct {
        bool delta;
        int decay;
        bool write_key;
    } kinds[] = {{false, 0, false}, {true, 2, true}, {true, 1, false}, {false, 1, false}, {false, 2, false},
                 {true, 0, false},  {true, 0, true}, {true, 1, true},  {true, 2, false}};
    enum { EXTREMES = 3 };
    const size_t sizes = to->opencl.fast_math ? 1 : sizeof widths / sizeof *widths;

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t i = 0; i < (kind < EXTREMES ? sizes : 1); i++)
            ICL_CHECK(add_recurrence(to,
                                     &(icl_recurrence_form){.delta = kinds[kind].delta,
                                                            .decay = kinds[kind].decay,
                                                            .write_key = kinds[kind].write_key,
                                                            .m = widths[i][0],
                                                            .n = widths[i][1]},
                                     error));
    return ICL_OK;
}

/* ---- Devices ---- */

static bool has_own_options(icl_kernel kernel) {
    return kernel == ICL_KERNEL_linear_transformer ||
           (kernel >= ICL_KERNEL_recurrence_forward_lanes && kernel <= ICL_KERNEL_recurrence_rows);
}

/* Adds everything that one device can ask for. Kernels that are compiled with options of their own have a function
 * above. */
static icl_status add_device(writer *to, const device *target, bool fast_math, icl_error *error) {
    const icl_kernel_family family = target->lanes == 1 ? ICL_FAMILY_GPU : ICL_FAMILY_CPU;
    icl_status status = ICL_OK;

    to->device = target;
    to->opencl = (icl_opencl){.lanes = target->lanes, .fast_math = fast_math, .programs = &to->programs};
    icl_opencl_set_options(&to->opencl, target->has_fma);
    for (int i = 0; i < ICL_KERNEL_COUNT; i++)
        if (icl_kernel_infos[i].family & family && !has_own_options((icl_kernel)i))
            ICL_TRY(add(to, (icl_kernel)i, icl_kernel_infos[i].file, "", NULL, 0, error));
    ICL_TRY(add_interpreters(to, error));
    ICL_TRY(add_recurrences(to, error));
    for (size_t i = 0; i < sizeof straights / sizeof *straights && target->lanes == 1; i++)
        if (!fast_math || straights[i].is_fast_too)
            ICL_TRY(add_straight(to, &straights[i], error));
done:
    return status;
}

int main(int argc, char **argv) {
    static writer to;
    icl_error error = {0};
    icl_status status = ICL_OK;
    char *path = NULL;

    if (argc != 2) {
        fputs("usage: forms FOLDER\n", stderr);
        return 2;
    }
    to.folder = argv[1];
    ICL_TRY(icl_folder_create(to.folder, &error));
    ICL_TRY(icl_path_join(to.folder, "index.jsonl", &path, &error));
    to.index = fopen(path, "w");
    if (!to.index) {
        icl_fail(&error, status = ICL_ERROR_IO, "cannot write %s", path);
        goto done;
    }
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (int fast_math = 0; fast_math <= 1; fast_math++)
            ICL_TRY(add_device(&to, &devices[i], fast_math, &error));
done:
    if (to.index && fclose(to.index) != 0 && status == ICL_OK)
        icl_fail(&error, status = ICL_ERROR_IO, "cannot write %s", path);
    for (size_t i = 0; i < to.count; i++)
        icl_free(&to.forms[i].definitions);
    icl_free(&path);
    if (status != ICL_OK)
        fprintf(stderr, "forms: %s\n", error.message);
    return status == ICL_OK ? 0 : 1;
}
