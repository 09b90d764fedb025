/* Writing safetensors files; reading is safetensors_read.c. */
#include "core/safetensors.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/safetensors_format.h"
#include "iclab/file.h"

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

/* Numbers go in as text: a cJSON number is a double. */
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

/* The header's text, or NULL without memory; freed with cJSON_free. */
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
        const size_t end = offset + icl_named_tensor_count(&tensors[i]) * icl_element_size(tensors[i].type);
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
        size += icl_named_tensor_count(&tensors[i]) * icl_element_size(tensors[i].type);

    ICL_TRY(icl_allocate(size, 1, path, &bytes, error));
    stored_length = header_length;
    store_little_endian(bytes, &stored_length, sizeof stored_length, 1);
    memcpy(bytes + LENGTH_BYTES, header, text_length);
    memset(bytes + LENGTH_BYTES + text_length, ' ', header_length - text_length);
    at = LENGTH_BYTES + header_length;
    for (size_t i = 0; i < count; i++) {
        const size_t elements = icl_named_tensor_count(&tensors[i]), element = icl_element_size(tensors[i].type);
        store_little_endian(bytes + at, tensors[i].data, element, elements);
        at += elements * element;
    }
    ICL_TRY(icl_file_write(path, bytes, size, error));
done:
    icl_free(&bytes);
    cJSON_free(header);
    return status;
}
