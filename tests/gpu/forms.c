/*
 * Writes every program in every form that the host can ask a driver for: forms FOLDER
 *
 * A form is a text and its options, made by the host's own functions. FOLDER gets its text as NUMBER.cl, and a line of
 * JSON in index.jsonl for each kernel that the host creates from it: {"form", "text", "program", "options", "family",
 * "fused", "kernel", "strict", "local_bytes"}. fused: the device has fused multiply-adds, as every GPU has that forms
 * are compiled for. local_bytes: local memory that a launch adds to what the kernel declares, at most.
 */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/opencl.h"
#include "core/allocate.h"
#include "core/file.h"
#include "core/json.h"

#define MOST_FORMS 256

typedef struct form {
    const char *program;
    char options[ICL_OPTIONS_CAPACITY];
} form;

typedef struct writer {
    const char *folder;
    FILE *index;
    icl_opencl opencl; /* the device that asks: lanes, options, fast_math */
    bool has_fma;
    form forms[MOST_FORMS];
    size_t count;
} writer;

static icl_status write_text(const writer *to, size_t number, const char *text, size_t size,
                             icl_error *error) {
    char name[32];
    char *path = NULL;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%zu.cl", number);
    ICL_TRY(icl_path_join(to->folder, name, &path, error));
    ICL_TRY(icl_file_write(path, text, size, error));
done:
    icl_free(&path);
    return status;
}

static icl_status write_row(const writer *to, size_t number, icl_kernel which, size_t local_bytes,
                            icl_error *error) {
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
    icl_json_text(&json, "family", to->opencl.lanes == 1 ? "gpu" : "cpu");
    icl_json_flag(&json, "fused", to->has_fma);
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

/* The form in which the device asks for the kernel; text is what the driver is given, `program` its name. */
static icl_status add_text(writer *to, icl_kernel which, const char *program, const char *text, size_t size,
                           const char *further, size_t local_bytes, icl_error *error) {
    char options[ICL_OPTIONS_CAPACITY];
    size_t number = 0;
    icl_status status = ICL_OK;

    icl_opencl_options_of(&to->opencl, which, further, options);
    while (number < to->count && (strcmp(to->forms[number].program, program) != 0 ||
                                  strcmp(to->forms[number].options, options) != 0))
        number++;
    if (number == MOST_FORMS)
        return icl_fail(error, ICL_ERROR_INPUT, "more than %d forms", MOST_FORMS);
    if (number == to->count) {
        to->forms[number].program = program;
        memcpy(to->forms[number].options, options, sizeof options);
        to->count++;
        ICL_TRY(write_text(to, number, text, size, error));
    }
    ICL_TRY(write_row(to, number, which, local_bytes, error));
done:
    return status;
}

/* A file of cl/ as it is embedded. */
static icl_status add(writer *to, icl_kernel which, const char *further, size_t local_bytes,
                      icl_error *error) {
    const char *file = icl_kernel_infos[which].file;
    const icl_kernel_source *source = icl_opencl_find_source(file);
    if (!source)
        return icl_fail(error, ICL_ERROR_INPUT, "no kernel file %s is built in", file);
    return add_text(to, which, file, (const char *)source->data, source->size, further, local_bytes, error);
}

/* The blocks that linear_transformer.c chooses, with the steps' memory in either place. */
static icl_status add_linear_transformers(writer *to, icl_error *error) {
    static const size_t gpu[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}, narrow[][2] = {{3, 4}, {4, 2}},
                        wide[][2] = {{3, 7}, {4, 6}, {4, 4}};
    const size_t lanes = to->opencl.lanes, count = lanes == 1 ? 4 : lanes == 16 ? 3 : 2;
    const size_t(*blocks)[2] = lanes == 1 ? gpu : lanes == 16 ? wide : narrow;
    icl_status status = ICL_OK;
    char options[96];

    for (int local = 0; local <= (lanes == 1); local++)
        for (size_t i = 0; i < count; i++) {
            snprintf(options, sizeof options, "-DROWS=%zu -DCOLUMNS=%zu -DIN_LOCAL=%d", blocks[i][0],
                     blocks[i][1], local);
            ICL_TRY(add(to, ICL_KERNEL_linear_transformer, options, local ? 31u << 10 : 0, error));
        }
done:
    return status;
}

/* Everything that one device can ask for. Kernels that are compiled with options of their own have a function above. */
static icl_status add_device(writer *to, size_t lanes, bool has_fma, bool fast_math, icl_error *error) {
    const icl_kernel_family family = lanes == 1 ? ICL_FAMILY_GPU : ICL_FAMILY_CPU;
    icl_status status = ICL_OK;

    to->opencl = (icl_opencl){.lanes = lanes, .fast_math = fast_math};
    to->has_fma = has_fma;
    icl_opencl_set_options(&to->opencl, has_fma);
    for (int i = 0; i < ICL_KERNEL_COUNT; i++)
        if (icl_kernel_infos[i].family & family && i != ICL_KERNEL_linear_transformer)
            ICL_TRY(add(to, (icl_kernel)i, NULL, 0, error));
    ICL_TRY(add_linear_transformers(to, error));
done:
    return status;
}

int main(int argc, char **argv) {
    static writer to;
    static const size_t lanes[] = {1, 4, 8, 16};
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
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        for (int fast_math = 0; fast_math <= 1; fast_math++)
            for (int has_fma = 0; has_fma <= (lanes[i] == 1); has_fma++)
                ICL_TRY(add_device(&to, lanes[i], has_fma, fast_math, &error));
done:
    if (to.index && fclose(to.index) != 0 && status == ICL_OK)
        icl_fail(&error, status = ICL_ERROR_IO, "cannot write %s", path);
    icl_free(&path);
    if (status != ICL_OK)
        fprintf(stderr, "forms: %s\n", error.message);
    return status == ICL_OK ? 0 : 1;
}
