/* Safetensors: writing and reading back, and refusing every malformed file with one line. */
#include "core/safetensors.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "scratch.h"
#include "tap.h"

static const float matrix[] = {1, 2, 3, 4, 5, 6};
static const double vector[] = {0.1, -1e300, 3};

static bool same_floats(const float *a, const float *b, size_t count) {
    size_t i = 0;
    while (i < count && a[i] == b[i])
        i++;
    return i == count;
}

static bool same_doubles(const double *a, const double *b, size_t count) {
    size_t i = 0;
    while (i < count && a[i] == b[i])
        i++;
    return i == count;
}

static icl_status write_sample(const char *path, icl_error *error) {
    const icl_named_tensor tensors[] = {
        {.name = "m", .type = ICL_ELEMENT_F32, .rank = 2, .shape = {2, 3}, .data = matrix},
        {.name = "odd", .type = ICL_ELEMENT_F32, .rank = 1, .shape = {1}, .data = matrix},
        {.name = "v", .type = ICL_ELEMENT_F64, .rank = 1, .shape = {3}, .data = vector},
    };
    return icl_safetensors_write(path, tensors, 3, (const icl_metadata[]){{"step", "12"}}, 1, error);
}

static void check_round_trip(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    icl_safetensors *file = NULL;
    const icl_named_tensor *m, *v;

    tap_status(tap, write_sample(scratch_path(scratch, "a"), &error), &error, "write");
    if (!tap_status(tap, icl_safetensors_read(scratch_path(scratch, "a"), &file, &error), &error, "read"))
        return;
    m = icl_safetensors_find(file, "m");
    v = icl_safetensors_find(file, "v");
    tap_ok(tap, icl_safetensors_count(file) == 3 && strcmp(icl_safetensors_at(file, 0)->name, "m") == 0,
           "three tensors in order");
    tap_ok(tap,
           m && m->type == ICL_ELEMENT_F32 && m->rank == 2 && m->shape[0] == 2 && m->shape[1] == 3 &&
               icl_named_tensor_count(m) == 6 && same_floats(m->data, matrix, 6),
           "a matrix of floats");
    tap_ok(tap, v && v->type == ICL_ELEMENT_F64 && same_doubles(v->data, vector, 3), "a vector of doubles");
    tap_ok(tap, !icl_safetensors_find(file, "w"), "no other tensor");
    tap_ok(tap, strcmp(icl_safetensors_metadata(file, "step"), "12") == 0 && !icl_safetensors_metadata(file, "x"),
           "metadata");
    icl_safetensors_destroy(&file);
    tap_ok(tap, file == NULL, "destroy clears the handle");

    tap_status(tap, icl_safetensors_write(scratch_path(scratch, "none"), NULL, 0, NULL, 0, &error), &error,
               "write no tensors");
    tap_status(tap, icl_safetensors_read(scratch_path(scratch, "none"), &file, &error), &error, "read no tensors");
    tap_ok(tap, file && icl_safetensors_count(file) == 0 && !icl_safetensors_metadata(file, "step"), "there are none");
    icl_safetensors_destroy(&file);
}

static void check_same_bytes(tap_run *tap, scratch_folder *scratch) {
    char *first = NULL, *second = NULL;
    size_t first_size = 0, second_size = 0;

    write_sample(scratch_path(scratch, "a"), NULL);
    write_sample(scratch_path(scratch, "b"), NULL);
    icl_file_read(scratch_path(scratch, "a"), 0, &first, &first_size, NULL);
    icl_file_read(scratch_path(scratch, "b"), 0, &second, &second_size, NULL);
    tap_ok(tap, first_size > 0 && first_size == second_size && memcmp(first, second, first_size) == 0,
           "same tensors, same bytes");
    icl_free(&first);
    icl_free(&second);
}

/* Every prefix of a file, and the file with a byte more, is refused. */
static void check_truncation(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    char *data = NULL;
    size_t size = 0, accepted = 0, many_lines = 0;
    icl_safetensors *file = NULL;

    write_sample(scratch_path(scratch, "a"), NULL);
    icl_file_read(scratch_path(scratch, "a"), 0, &data, &size, NULL);
    for (size_t length = 0; length <= size + 1; length++) {
        if (length == size)
            continue;
        scratch_write(scratch, "cut", data, length);
        accepted += icl_safetensors_read(scratch_path(scratch, "cut"), &file, &error) != ICL_ERROR_INPUT || file;
        many_lines += strchr(error.message, '\n') != NULL;
    }
    tap_ok(tap, accepted == 0 && many_lines == 0, "every truncation to 0…%zu bytes is refused, and one byte more",
           size - 1);
    tap_note("%s", error.message);
    icl_free(&data);
}

/* Every changed byte is either refused or gives another valid file: nothing crashes. */
static void check_changed_bytes(tap_run *tap, scratch_folder *scratch) {
    static const unsigned char masks[] = {0x01, 0x10, 0x80, 0xff};
    char *data = NULL;
    size_t size = 0, other = 0;

    write_sample(scratch_path(scratch, "a"), NULL);
    icl_file_read(scratch_path(scratch, "a"), 0, &data, &size, NULL);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < sizeof masks; j++) {
            icl_safetensors *file = NULL;
            icl_status status;
            data[i] = (char)((unsigned char)data[i] ^ masks[j]);
            scratch_write(scratch, "changed", data, size);
            status = icl_safetensors_read(scratch_path(scratch, "changed"), &file, NULL);
            other += (status != ICL_OK && status != ICL_ERROR_INPUT) || (status == ICL_OK) != (file != NULL);
            icl_safetensors_destroy(&file);
            data[i] = (char)((unsigned char)data[i] ^ masks[j]);
        }
    tap_ok(tap, other == 0, "%zu changed bytes, each in four ways: accepted whole or refused", size);
    icl_free(&data);
}

/* Checks that a header followed by `data_size` bytes is refused with this message. */
static void check_header(tap_run *tap, scratch_folder *scratch, const char *header, size_t data_size,
                         const char *message) {
    unsigned char bytes[2048] = {0};
    const size_t length = strlen(header);
    icl_error error = {0};
    icl_safetensors *file = NULL;
    icl_status status;

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length + 1);
    scratch_write(scratch, "header", bytes, 8 + length + data_size);
    status = icl_safetensors_read(scratch_path(scratch, "header"), &file, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && !file && strstr(error.message, message), "%s",
           error.message[0] ? icl_path_name(error.message) : header);
    icl_safetensors_destroy(&file);
}

static void check_headers(tap_run *tap, scratch_folder *scratch) {
    const struct {
        const char *header;
        size_t data_size;
        const char *message;
    } cases[] = {
        {"", 0, "one JSON object"},
        {"[]", 0, "one JSON object"},
        {"{} x", 0, "one JSON object"},
        {"{\"a\":1}", 0, "a: expected a dtype"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "tensor a is I8: expected F32, F64, F16 or BF16"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "at most 8 extents"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "extents"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,6]}}", 6, "extents"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "extents"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "extents whose product"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e400],\"data_offsets\":[0,0]}}", 0, "extents"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "inside the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "is it truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "is it truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "as many bytes as the shape needs"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "that of the tensor before ends"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":"
         "[1],"
         "\"data_offsets\":[0,4]}}",
         4, "that of the tensor before ends"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":"
         "[1],"
         "\"data_offsets\":[4,8]}}",
         8, "each name once"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "bytes behind the last tensor"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "a table of strings"},
        {"{\"__metadata__\":\"x\"}", 0, "a table of strings"},
    };
    icl_safetensors *file = NULL;
    icl_error error = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_header(tap, scratch, cases[i].header, cases[i].data_size, cases[i].message);
    scratch_write(scratch, "long", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    tap_ok(tap, icl_safetensors_read(scratch_path(scratch, "long"), &file, &error) == ICL_ERROR_INPUT, "%s",
           strstr(error.message, "not a"));
    tap_ok(tap, icl_safetensors_read(scratch_path(scratch, "missing"), &file, &error) == ICL_ERROR_IO && !file,
           "a missing file is a file error");
}

/* A file larger than any memory is refused by its first bytes. */
static void check_vast(tap_run *tap, scratch_folder *scratch) {
    static const char *const headers[] = {"\xff\xff\xff\xff\x7f\0\0", "\2\0\0\0\0\0\0\0{}"};
    icl_safetensors *file = NULL;
    icl_error error = {0};

    for (size_t i = 0; i < 2; i++) {
        scratch_write(scratch, "vast", headers[i], i == 0 ? 8 : 10);
        tap_ok(tap,
               truncate(scratch_path(scratch, "vast"), (off_t)1 << 40) == 0 &&
                   icl_safetensors_read(scratch->path, &file, &error) == ICL_ERROR_INPUT,
               "a TiB: %s", error.message);
    }
    tap_ok(tap, icl_safetensors_read(scratch->folder, &file, &error) == ICL_ERROR_INPUT, "a folder: %s", error.message);
}

/* Elements of two bytes are read as the floats that they represent, subnormal and infinite ones included. */
static void check_halves(tap_run *tap, scratch_folder *scratch) {
    static const char header[] = "{\"h\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[0,12]},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[12,18]}}";
    static const unsigned short values[] = {0x3c00, 0xc200, 0x0001, 0x7bff, 0xfc00, 0x8000, 0x3f80, 0xc040, 0x7f80};
    const float halves[] = {1, -3, 0x1p-24F, 65504, -INFINITY, -0.0F}, brains[] = {1, -3, INFINITY};
    unsigned char bytes[256] = {sizeof header - 1};
    icl_safetensors *file = NULL;
    icl_error error = {0};

    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 9; i++) {
        bytes[8 + sizeof header - 1 + 2 * i] = (unsigned char)(values[i] & 255);
        bytes[8 + sizeof header + 2 * i] = (unsigned char)(values[i] >> 8);
    }
    scratch_write(scratch, "halves", bytes, 8 + sizeof header - 1 + 18);
    tap_status(tap, icl_safetensors_read(scratch_path(scratch, "halves"), &file, &error), &error, "F16 and BF16");
    if (file)
        tap_ok(tap,
               icl_safetensors_find(file, "h")->type == ICL_ELEMENT_F32 &&
                   memcmp(icl_safetensors_find(file, "h")->data, halves, sizeof halves) == 0 &&
                   memcmp(icl_safetensors_find(file, "b")->data, brains, sizeof brains) == 0,
               "  are the floats that they stand for");
    icl_safetensors_destroy(&file);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_round_trip(&tap, &scratch);
    check_same_bytes(&tap, &scratch);
    check_halves(&tap, &scratch);
    check_truncation(&tap, &scratch);
    check_changed_bytes(&tap, &scratch);
    check_headers(&tap, &scratch);
    check_vast(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
