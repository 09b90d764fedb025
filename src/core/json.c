#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/json_parse.h"
#include "core/print.h"
#include "iclab/json.h"
#include "iclab/number.h"

/* ---- Parsing ---- */

/* cJSON returns NULL both for invalid JSON and without memory, but only malloc sets ENOMEM. */
icl_status icl_json_parse(const char *text, size_t length, const char *what, cJSON **parsed, const char **end,
                          icl_error *error) {
    errno = 0;
    *parsed = cJSON_ParseWithLengthOpts(text, length, end, 0);
    return !*parsed && errno == ENOMEM ? icl_fail(error, ICL_ERROR_MEMORY, "%s: no memory to read its JSON", what)
                                       : ICL_OK;
}

/* ---- Writing ---- */

/* Adds a member made by one of cJSON's functions; a NULL value means that there was no memory. */
static void add(icl_json *json, const char *name, cJSON *value) {
    if (!json->object)
        json->object = cJSON_CreateObject();
    if (json->object && value && cJSON_AddItemToObject(json->object, name, value))
        return;
    cJSON_Delete(value);
    json->failed = true;
}

/* Replaces, in place, each byte that is not part of valid UTF-8 by '?'. */
static void make_utf8(char *text) {
    unsigned char *at = (unsigned char *)text;

    while (*at != '\0') {
        const size_t length = icl_utf8_sequence(at);
        if (length == 0)
            *at = '?';
        at += length > 0 ? length : 1;
    }
}

/* Names of files may be any bytes; JSON is UTF-8. */
void icl_json_text(icl_json *json, const char *name, const char *value) {
    char *text = NULL;

    if (!value) {
        add(json, name, cJSON_CreateNull());
    } else if (icl_duplicate(value, &text, NULL) != ICL_OK) {
        json->failed = true;
    } else {
        make_utf8(text);
        add(json, name, cJSON_CreateString(text));
    }
    icl_free(&text);
}

void icl_json_flag(icl_json *json, const char *name, bool value) {
    add(json, name, cJSON_CreateBool(value));
}

/* Counts and numbers are added as text, because cJSON would print a rounded double. */
void icl_json_count(icl_json *json, const char *name, uint64_t value) {
    char text[ICL_NUMBER_CAPACITY];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add(json, name, cJSON_CreateRaw(text));
}

void icl_json_number(icl_json *json, const char *name, double value) {
    char text[ICL_NUMBER_CAPACITY];
    add(json, name, isfinite(value) ? cJSON_CreateRaw(icl_format_number(value, text)) : cJSON_CreateNull());
}

void icl_json_append(icl_json *json, const char *name, icl_json *row) {
    cJSON *array = json->object ? cJSON_GetObjectItemCaseSensitive(json->object, name) : NULL;

    if (!array) {
        array = cJSON_CreateArray();
        add(json, name, array);
        array = json->failed ? NULL : array;
    }
    if (!row->object)
        row->object = cJSON_CreateObject();
    if (array && !row->failed && row->object && cJSON_AddItemToArray(array, row->object))
        row->object = NULL;
    else
        json->failed = true;
    icl_json_discard(row);
}

static icl_status with_newline(const char *printed, char **text, icl_error *error) {
    const size_t length = strlen(printed);
    const icl_status status = icl_allocate(length + 2, 1, "JSON text", text, error);
    if (status == ICL_OK) {
        memcpy(*text, printed, length);
        (*text)[length] = '\n';
    }
    return status;
}

icl_status icl_json_finish(icl_json *json, bool pretty, char **text, icl_error *error) {
    icl_status status;
    char *printed = NULL;

    if (!json->object)
        json->object = cJSON_CreateObject();
    if (!json->failed && json->object)
        printed = pretty ? cJSON_Print(json->object) : cJSON_PrintUnformatted(json->object);
    if (!printed)
        status = icl_fail(error, ICL_ERROR_MEMORY, "JSON text: no memory");
    else
        status = pretty ? with_newline(printed, text, error) : icl_duplicate(printed, text, error);
    cJSON_free(printed);
    icl_json_discard(json);
    return status;
}

void icl_json_discard(icl_json *json) {
    cJSON_Delete(json->object);
    *json = (icl_json){0};
}
