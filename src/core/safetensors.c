/* Reading and writing of safetensors files. Everything in a file is checked before it is used. */
#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/json_parse.h"
#include "core/safetensors.h"
#include "iclab/file.h"

#define LENGTH_BYTES  8
#define ALIGNMENT     8 /* of the data after the header */
#define METADATA_NAME "__metadata__"

static size_t element_size(icl_element_type type) {
    return type == ICL_ELEMENT_F64 ? 8 : 4;
}

size_t icl_named_tensor_count(const icl_named_tensor *tensor) {
    size_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

/* Copies `count` values of 4 or 8 bytes from host order to little-endian. */
static void store_little_endian(unsigned char *out, const void *values, size_t size, size_t count) {
    const unsigned char *in = values;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        uint32_t half;
        if (size == sizeof half) {
            memcpy(&half, in + i * size, size);
            bits = half;
        } else {
            memcpy(&bits, in + i * size, size);
        }
        for (size_t byte = 0; byte < size; byte++)
            out[i * size + byte] = (unsigned char)(bits >> (8 * byte));
    }
}

/* ---- The header ---- */

/* Sizes are added as text, because a cJSON number is a double. */
static bool add_size(cJSON *array, size_t value) {
    char text[32];
    cJSON *item;
    snprintf(text, sizeof text, "%zu", value);
    item = cJSON_CreateRaw(text);
    return item && cJSON_AddItemToArray(array, item);
}

static bool add_tensor(cJSON *header, const icl_named_tensor *tensor, size_t begin, size_t end) {
    cJSON *entry = cJSON_AddObjectToObject(header, tensor->name);
    cJSON *shape, *offsets;

    if (!entry || !cJSON_AddStringToObject(entry, "dtype", tensor->type == ICL_ELEMENT_F64 ? "F64" : "F32"))
        return false;
    shape = cJSON_AddArrayToObject(entry, "shape");
    for (int axis = 0; axis < tensor->rank; axis++)
        if (!shape || !add_size(shape, tensor->shape[axis]))
            return false;
    offsets = cJSON_AddArrayToObject(entry, "data_offsets");
    return offsets && add_size(offsets, begin) && add_size(offsets, end);
}

/* Returns the header's text, freed with cJSON_free; NULL without memory. */
static char *print_header(const icl_named_tensor *tensors, size_t count, const icl_metadata *metadata,
                          size_t metadata_count) {
    cJSON *header = cJSON_CreateObject();
    bool good = header != NULL;
    size_t offset = 0;
    char *text = NULL;

    if (good && metadata_count > 0) {
        cJSON *table = cJSON_AddObjectToObject(header, METADATA_NAME);
        for (size_t i = 0; i < metadata_count; i++)
            good = good && table && cJSON_AddStringToObject(table, metadata[i].key, metadata[i].value);
    }
    for (size_t i = 0; i < count && good; i++) {
        const size_t end = offset + icl_named_tensor_count(&tensors[i]) * element_size(tensors[i].type);
        good = add_tensor(header, &tensors[i], offset, end);
        offset = end;
    }
    if (good)
        text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

icl_status icl_safetensors_write(const char *path, const icl_named_tensor *tensors, size_t count,
                                 const icl_metadata *metadata, size_t metadata_count, icl_error *error) {
    icl_status status = ICL_OK;
    char *header = print_header(tensors, count, metadata, metadata_count);
    unsigned char *bytes = NULL;
    size_t text_length, header_length, size, at;
    uint64_t stored_length;

    if (!header)
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: no memory for the header", path);
    text_length = strlen(header);
    header_length = (text_length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size = LENGTH_BYTES + header_length;
    for (size_t i = 0; i < count; i++)
        size += icl_named_tensor_count(&tensors[i]) * element_size(tensors[i].type);

    ICL_TRY(icl_allocate(size, 1, path, &bytes, error));
    stored_length = header_length;
    store_little_endian(bytes, &stored_length, sizeof stored_length, 1);
    memcpy(bytes + LENGTH_BYTES, header, text_length);
    memset(bytes + LENGTH_BYTES + text_length, ' ', header_length - text_length);
    at = LENGTH_BYTES + header_length;
    for (size_t i = 0; i < count; i++) {
        const size_t elements = icl_named_tensor_count(&tensors[i]), element = element_size(tensors[i].type);
        store_little_endian(bytes + at, tensors[i].data, element, elements);
        at += elements * element;
    }
    ICL_TRY(icl_file_write(path, bytes, size, error));
done:
    icl_free(&bytes);
    cJSON_free(header);
    return status;
}

/* ---- Reading ---- */

/* The limit is low because the JSON tree of a header takes some fifty times the header's memory. */
#define MAX_HEADER_BYTES ((uint64_t)8 << 20)

/* JSON numbers are doubles: above this they no longer hold every whole number. */
#define MAX_EXACT_SIZE 9007199254740992.0

struct icl_safetensors {
    cJSON *header; /* owns the names and the metadata */
    icl_named_tensor *tensors;
    void **data; /* one allocation per tensor, so that each is aligned */
    size_t count;
};

/* An element type in files; types of two bytes are converted to floats, exactly. */
typedef struct element_kind {
    const char *dtype;
    size_t size; /* bytes in the file */
    icl_element_type type;
} element_kind;

static const element_kind kinds[] = {{"F32", 4, ICL_ELEMENT_F32},
                                     {"F64", 8, ICL_ELEMENT_F64},
                                     {"F16", 2, ICL_ELEMENT_F32},
                                     {"BF16", 2, ICL_ELEMENT_F32}};

static const element_kind *find_kind(const char *dtype) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].dtype, dtype) == 0)
            return &kinds[i];
    return NULL;
}

typedef struct byte_range {
    size_t begin, end;
    size_t tensor; /* index of the range's tensor in the file's tensors */
    const char *name;
    const element_kind *kind;
} byte_range;

static icl_status malformed(const char *path, icl_error *error, const char *what, const char *expected) {
    return icl_fail(error, ICL_ERROR_INPUT, "%s: not a safetensors file: %s: expected %s", path, what, expected);
}

/* Converts values of 4 or 8 bytes from little-endian to host order. */
static void load_little_endian(void *values, const unsigned char *in, size_t size, size_t count) {
    unsigned char *out = values;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        for (size_t byte = size; byte-- > 0;)
            bits = bits << 8 | in[i * size + byte];
        if (size == sizeof(uint32_t)) {
            const uint32_t half = (uint32_t)bits;
            memcpy(out + i * size, &half, size);
        } else {
            memcpy(out + i * size, &bits, size);
        }
    }
}

/* Returns the value of an IEEE 754 half: 10 bits after the point, exponents from -14 to 15. */
static float half_value(uint32_t bits) {
    const int exponent = (int)(bits >> 10 & 31);
    const float digits = (float)(bits & 1023), sign = bits >> 15 ? -1.0F : 1.0F;

    if (exponent == 31)
        return digits > 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf(digits, -24) : ldexpf(1024 + digits, exponent - 25));
}

/* Converts elements of a file to those of a tensor. */
static void load(void *values, const unsigned char *in, const element_kind *kind, size_t count) {
    unsigned char *out = values;

    if (kind->size > 2) {
        load_little_endian(values, in, kind->size, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = in[2 * i] | (uint32_t)in[2 * i + 1] << 8, upper = bits << 16;
        const float half = half_value(bits);
        memcpy(out + i * sizeof half, kind->dtype[0] == 'B' ? (const void *)&upper : &half, sizeof half);
    }
}

static bool read_size(const cJSON *item, size_t *value) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= MAX_EXACT_SIZE) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *value = (size_t)item->valuedouble;
    return true;
}

static bool is_text_table(const cJSON *table) {
    const cJSON *entry;
    if (!cJSON_IsObject(table))
        return false;
    cJSON_ArrayForEach(entry, table) {
        if (!cJSON_IsString(entry))
            return false;
    }
    return true;
}

/* Reads one entry of the header: dtype, shape and byte range, which must agree. */
static icl_status read_entry(const char *path, const cJSON *entry, size_t data_size, icl_named_tensor *tensor,
                             byte_range *range, icl_error *error) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    const cJSON *extent;
    size_t bytes;

    tensor->name = range->name = entry->string;
    if (!cJSON_IsString(dtype))
        return malformed(path, error, entry->string, "a dtype");
    range->kind = find_kind(dtype->valuestring);
    if (!range->kind)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: tensor %s is %.16s: expected F32, F64, F16 or BF16", path,
                        entry->string, dtype->valuestring);
    tensor->type = range->kind->type;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > ICL_SAFETENSORS_MAX_RANK)
        return malformed(path, error, entry->string, "a shape of at most 8 extents");
    bytes = range->kind->size;
    cJSON_ArrayForEach(extent, shape) {
        size_t *value = &tensor->shape[tensor->rank++];
        if (!read_size(extent, value) || !icl_multiply_sizes(bytes, *value, &bytes))
            return malformed(path, error, entry->string, "extents whose product is a size in memory");
    }
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_size(cJSON_GetArrayItem(offsets, 0), &range->begin) ||
        !read_size(cJSON_GetArrayItem(offsets, 1), &range->end))
        return malformed(path, error, entry->string, "data_offsets of two sizes");
    if (range->begin > range->end || range->end > data_size)
        return malformed(path, error, entry->string, "data inside the file (is it truncated?)");
    if (range->end - range->begin != bytes)
        return malformed(path, error, entry->string, "as many bytes as the shape needs");
    return ICL_OK;
}

static int compare_begin(const void *a, const void *b) {
    const byte_range *range = a, *y = b;
    if (range->begin != y->begin)
        return range->begin < y->begin ? -1 : 1;
    return range->end < y->end ? -1 : range->end > y->end;
}

static int compare_name(const void *a, const void *b) {
    return strcmp(((const byte_range *)a)->name, ((const byte_range *)b)->name);
}

/* Checks that the ranges tile the data, without overlaps, gaps or a rest, and that names differ. Sorts the ranges. */
static icl_status check_ranges(const char *path, byte_range *ranges, size_t count, size_t data_size, icl_error *error) {
    size_t at = 0;

    if (count > 0)
        qsort(ranges, count, sizeof *ranges, compare_begin);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].begin != at)
            return malformed(path, error, ranges[i].name, "data that starts where that of the tensor before ends");
        at = ranges[i].end;
    }
    if (at != data_size)
        return malformed(path, error, "bytes behind the last tensor", "none");
    if (count > 0)
        qsort(ranges, count, sizeof *ranges, compare_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(ranges[i - 1].name, ranges[i].name) == 0)
            return malformed(path, error, ranges[i].name, "each name once");
    return ICL_OK;
}

/* Reads the first *size bytes of a regular file, at most `count`, into *data, freed with icl_free; *whole is the size
 * of the file. ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it is not a regular file. */
static icl_status read_first(const char *path, size_t count, char **data, size_t *size, uint64_t *whole,
                             icl_error *error) {
    icl_status status = ICL_OK;
    struct stat facts = {0};
    char *first = NULL;
    size_t used = 0;
    ssize_t got = 1;
    /* Opening a pipe that nobody writes to would block for ever. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (file < 0)
        return icl_file_fail(error, "open", path, errno);
    if (fstat(file, &facts) != 0) {
        status = icl_file_fail(error, "read", path, errno);
        goto done;
    }
    if (!S_ISREG(facts.st_mode)) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: expected a file", path);
        goto done;
    }
    ICL_TRY(icl_allocate(count + 1, 1, path, &first, error));
    while (used < count && got != 0) {
        got = read(file, first + used, count - used);
        if (got < 0 && errno != EINTR) {
            status = icl_file_fail(error, "read", path, errno);
            goto done;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    *data = first;
    *size = used;
    *whole = (uint64_t)facts.st_size;
    first = NULL;
done:
    icl_free(&first);
    close(file);
    return status;
}

/* Reads and checks the header's length, before anything else. *whole is the size of the file. */
static icl_status read_length(const char *path, size_t *length, uint64_t *whole, icl_error *error) {
    char *bytes = NULL;
    uint64_t number = 0;
    size_t size = 0;

    ICL_CHECK(read_first(path, LENGTH_BYTES, &bytes, &size, whole, error));
    if (size == LENGTH_BYTES)
        load_little_endian(&number, (const unsigned char *)bytes, sizeof number, 1);
    icl_free(&bytes);
    if (size < LENGTH_BYTES)
        return malformed(path, error, "shorter than 8 bytes", "the length of a header (is it truncated?)");
    if (number > MAX_HEADER_BYTES)
        return malformed(path, error, "header length", "at most 8 MiB");
    if (*whole < LENGTH_BYTES || number > *whole - LENGTH_BYTES)
        return malformed(path, error, "header length", "a header inside the file (is it truncated?)");
    *length = (size_t)number;
    return ICL_OK;
}

/* Parses the header, which follows its length. */
static icl_status parse_header(const char *path, const char *text, size_t length, cJSON **header, icl_error *error) {
    const char *end = NULL;

    if (length > 0 && text[0] == '{')
        ICL_CHECK(icl_json_parse(text, length, path, header, &end, error));
    while (*header && end < text + length && *end == ' ')
        end++;
    if (!*header || end != text + length)
        return malformed(path, error, "header", "one JSON object");
    return ICL_OK;
}

/* Reads the header. *data_at is the position of the first byte of data. */
static icl_status read_header(const char *path, cJSON **header, size_t *data_at, uint64_t *whole, icl_error *error) {
    char *bytes = NULL;
    size_t length = 0, size = 0;
    icl_status status = ICL_OK;

    ICL_TRY(read_length(path, &length, whole, error));
    ICL_TRY(read_first(path, LENGTH_BYTES + length, &bytes, &size, whole, error));
    if (size != LENGTH_BYTES + length) {
        status = malformed(path, error, "header length", "a header inside the file (is it truncated?)");
        goto done;
    }
    ICL_TRY(parse_header(path, bytes + LENGTH_BYTES, length, header, error));
    *data_at = size;
done:
    icl_free(&bytes);
    return status;
}

/* Reads the whole file; called once the header is known to fit its size. */
static icl_status read_whole(const char *path, uint64_t whole, char **bytes, icl_error *error) {
    size_t size = 0;

    ICL_CHECK(icl_file_read(path, whole > 0 && whole <= SIZE_MAX ? (size_t)whole : 0, bytes, &size, error));
    return size == whole ? ICL_OK : malformed(path, error, "its size", "a file that nobody writes meanwhile");
}

static icl_status read_tensors(icl_safetensors *file, const char *path, size_t data_at, uint64_t whole,
                               icl_error *error) {
    icl_status status = ICL_OK;
    byte_range *ranges = NULL;
    char *bytes = NULL;
    const size_t data_size = whole < SIZE_MAX ? (size_t)whole - data_at : SIZE_MAX;
    const size_t entries = (size_t)cJSON_GetArraySize(file->header);
    const cJSON *entry;

    ICL_TRY(icl_allocate(entries, sizeof *file->tensors, path, &file->tensors, error));
    ICL_TRY(icl_allocate(entries, sizeof *file->data, path, &file->data, error));
    ICL_TRY(icl_allocate(entries, sizeof *ranges, path, &ranges, error));
    cJSON_ArrayForEach(entry, file->header) {
        icl_named_tensor *tensor = &file->tensors[file->count];
        byte_range *range = &ranges[file->count];
        if (strcmp(entry->string, METADATA_NAME) == 0) {
            if (is_text_table(entry))
                continue;
            status = malformed(path, error, METADATA_NAME, "a table of strings");
            goto done;
        }
        ICL_TRY(read_entry(path, entry, data_size, tensor, range, error));
        range->tensor = file->count++;
    }
    /* This precedes any copy of data, because ranges that overlap could ask for many times the file's size. */
    ICL_TRY(check_ranges(path, ranges, file->count, data_size, error));
    ICL_TRY(read_whole(path, whole, &bytes, error));
    for (size_t i = 0; i < file->count; i++) {
        icl_named_tensor *tensor = &file->tensors[ranges[i].tensor];
        void **copy = &file->data[ranges[i].tensor];
        ICL_TRY(icl_allocate(icl_named_tensor_count(tensor), element_size(tensor->type), path, copy, error));
        load(*copy, (const unsigned char *)bytes + data_at + ranges[i].begin, ranges[i].kind,
             icl_named_tensor_count(tensor));
        tensor->data = *copy;
    }
done:
    icl_free(&bytes);
    icl_free(&ranges);
    return status;
}

icl_status icl_safetensors_read(const char *path, icl_safetensors **file, icl_error *error) {
    icl_status status = ICL_OK;
    icl_safetensors *safetensors = NULL;
    uint64_t whole = 0;
    size_t data_at = 0;

    ICL_TRY(icl_allocate(1, sizeof *safetensors, path, &safetensors, error));
    ICL_TRY(read_header(path, &safetensors->header, &data_at, &whole, error));
    ICL_TRY(read_tensors(safetensors, path, data_at, whole, error));
    *file = safetensors;
    safetensors = NULL;
done:
    icl_safetensors_destroy(&safetensors);
    return status;
}

void icl_safetensors_destroy(icl_safetensors **file) {
    if (!*file)
        return;
    for (size_t i = 0; i < (*file)->count; i++)
        icl_free(&(*file)->data[i]);
    icl_free(&(*file)->data);
    icl_free(&(*file)->tensors);
    cJSON_Delete((*file)->header);
    icl_free(file);
}

size_t icl_safetensors_count(const icl_safetensors *file) {
    return file->count;
}

const icl_named_tensor *icl_safetensors_at(const icl_safetensors *file, size_t index) {
    return &file->tensors[index];
}

const icl_named_tensor *icl_safetensors_find(const icl_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *icl_safetensors_metadata(const icl_safetensors *file, const char *key) {
    const cJSON *table = cJSON_GetObjectItemCaseSensitive(file->header, METADATA_NAME);
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(table, key);
    return cJSON_IsString(value) ? value->valuestring : NULL;
}
