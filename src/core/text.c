#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "iclab/text.h"

#define FIRST_CAPACITY 1024

void icl_text_free(char **text) {
    icl_free(text);
}

void icl_text_release(icl_text *text) {
    icl_free(&text->bytes);
    *text = (icl_text){0};
}

/* Makes room for `more` bytes and a NUL. */
static icl_status reserve(icl_text *text, size_t more, icl_error *error) {
    char *larger = NULL;
    size_t capacity;
    icl_status status;

    if (more < text->capacity - text->length)
        return ICL_OK;
    if (more > SIZE_MAX / 2 - FIRST_CAPACITY - text->capacity)
        return icl_fail(error, ICL_ERROR_MEMORY, "text: %zu bytes more overflow the address space", more);
    capacity = 2 * text->capacity + more + FIRST_CAPACITY;
    status = icl_allocate(capacity, 1, "text", &larger, error);
    if (status != ICL_OK)
        return status;
    if (text->length > 0)
        memcpy(larger, text->bytes, text->length);
    icl_free(&text->bytes);
    text->bytes = larger;
    text->capacity = capacity;
    return ICL_OK;
}

icl_status icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error) {
    ICL_CHECK(reserve(text, length, error));
    if (length > 0)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
    return ICL_OK;
}

icl_status icl_text_print(icl_text *text, icl_error *error, const char *format, ...) {
    va_list arguments, again;
    icl_status status = ICL_OK;
    int length;

    va_start(arguments, format);
    va_copy(again, arguments);
    length = icl_print_list(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        status = icl_fail(error, ICL_ERROR_MEMORY, "text: no memory to print");
    else
        status = reserve(text, (size_t)length, error);
    if (status == ICL_OK) {
        (void)icl_print_list(text->bytes + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    return status;
}

icl_status icl_text_quote(icl_text *text, const char *content, char quote, icl_error *error) {
    const char doubled[] = {quote, quote};

    ICL_CHECK(icl_text_append(text, &quote, 1, error));
    for (; *content; content++)
        ICL_CHECK(*content == quote                              ? icl_text_append(text, doubled, 2, error)
                  : (unsigned char)*content < (unsigned char)' ' ? icl_text_append(text, " ", 1, error)
                                                                 : icl_text_append(text, content, 1, error));
    return icl_text_append(text, &quote, 1, error);
}

icl_status icl_text_field(icl_text *text, const char *content, const char *after, icl_error *error) {
    const char *end;

    ICL_CHECK(icl_text_append(text, "\"", 1, error));
    while ((end = strchr(content, '"')) != NULL) {
        ICL_CHECK(icl_text_append(text, content, (size_t)(end + 1 - content), error));
        ICL_CHECK(icl_text_append(text, "\"", 1, error));
        content = end + 1;
    }
    ICL_CHECK(icl_text_print(text, error, "%s\"", content));
    return icl_text_append(text, after, strlen(after), error);
}

icl_status icl_text_number_field(icl_text *text, double value, const char *after, icl_error *error) {
    char digits[ICL_NUMBER_CAPACITY];

    return icl_text_print(text, error, "%s%s", isnan(value) ? "" : icl_format_number(value, digits), after);
}

/* ---- The nearest of several names ---- */

#define MAX_LENGTH 127

/* tolower() is not used, because it follows the process's locale. */
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t icl_edit_distance(const char *a, const char *b) {
    const size_t rows = strnlen(a, MAX_LENGTH), columns = strnlen(b, MAX_LENGTH);
    size_t distance[3][MAX_LENGTH + 1]; /* between prefixes: the row being filled and the two before it */

    for (size_t j = 0; j <= columns; j++)
        distance[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t *current = distance[i % 3];
        const size_t *above = distance[(i + 2) % 3], *two_above = distance[(i + 1) % 3];
        current[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            current[j] = smaller(above[j - 1] + (x != y), smaller(above[j], current[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                current[j] = smaller(current[j], two_above[j - 2] + 1);
        }
    }
    return distance[rows % 3][columns];
}

const char *icl_nearest(const char *name, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        const size_t distance = icl_edit_distance(name, candidates[i]);
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
