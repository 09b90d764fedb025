#include "run/sweep/grid.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_store.h"
#include "core/table/sheet.h"
#include "iclab/number.h"

/* ---- Lists of values ---- */

static icl_status append_value(icl_list *list, const char *text, size_t length, icl_error *error) {
    if (list->count == ICL_SWEEP_MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "expected at most %d values", ICL_SWEEP_MOST);
    ICL_CHECK(icl_grow(&list->values, list->count, &list->capacity, sizeof *list->values, "list of values", error));
    ICL_CHECK(icl_allocate(length + 1, 1, "value of a list", &list->values[list->count], error));
    memcpy(list->values[list->count++], text, length);
    return ICL_OK;
}

/* Returns whether the text is FIRST..LAST. */
static bool parse_range(const char *text, size_t length, uint64_t *first, uint64_t *last) {
    size_t digits = 0;

    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits + 2 < length && text[digits] == '.' && text[digits + 1] == '.' &&
           icl_parse_count(text, digits, first) && icl_parse_count(text + digits + 2, length - digits - 2, last);
}

static icl_status append_range(icl_list *list, uint64_t first, uint64_t last, icl_error *error) {
    icl_status status = ICL_OK;
    char text[ICL_NUMBER_CAPACITY];

    if (first > last)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST..LAST with the smaller number first");
    for (uint64_t value = first; status == ICL_OK; value++) {
        snprintf(text, sizeof text, "%" PRIu64, value);
        status = append_value(list, text, strlen(text), error);
        if (value == last)
            break;
    }
    return status;
}

/* Returns the bytes of the word and colon with which a value begins, such as "fixed:" in fixed:1; 0 if it has none. */
static size_t prefix_length(const char *field) {
    const size_t length = strspn(field, "abcdefghijklmnopqrstuvwxyz+-_");
    return length > 0 && field[length] == ':' ? length + 1 : 0;
}

/* FIRST, LAST and STEP of FIRST:LAST:STEP */
typedef struct steps {
    double first, last, step;
} steps;

static bool parse_steps(const char *text, steps *found) {
    double *const numbers[] = {&found->first, &found->last, &found->step};

    for (int i = 0; i < 3; i++) {
        const size_t length = strcspn(text, ":");
        if (!icl_parse_number(text, length, numbers[i]) || (text[length] == ':') != (i < 2))
            return false;
        text += length + (i < 2);
    }
    return true;
}

/* Appends each value after the prefix. Twelve digits print 3 * 0.1 as 0.3, and the margin of 1e-9 keeps the last
 * value. */
static icl_status append_steps(icl_list *list, const char *prefix, size_t length, const steps *range,
                               icl_error *error) {
    const double turns = floor((range->last - range->first) / range->step + 1e-9);
    char text[128];

    if (range->step == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST:LAST:STEP with a step other than 0");
    if (turns < 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST:LAST:STEP with a step that leads from FIRST to LAST");
    if (!(turns < ICL_SWEEP_MOST))
        return icl_fail(error, ICL_ERROR_INPUT, "expected at most %d values", ICL_SWEEP_MOST);
    for (int turn = 0; turn <= (int)turns; turn++) {
        const double value = range->first + turn * range->step;
        icl_print(text, sizeof text, "%.*s%.12g", (int)length, prefix,
                  fabs(value) < 1e-9 * fabs(range->step) ? 0.0 : value);
        ICL_CHECK(append_value(list, text, strlen(text), error));
    }
    return ICL_OK;
}

/* A number after word:number is the rest of a value that needs quotes, such as choice:1,3. */
static bool is_cut_off(const icl_list *list, const char *field) {
    double number;
    return list->count > 0 && prefix_length(list->values[list->count - 1]) > 0 &&
           icl_parse_number(field, strlen(field), &number);
}

static icl_status append_field(icl_list *list, const char *field, icl_error *error) {
    const size_t length = strlen(field), prefix = prefix_length(field);
    uint64_t first, last;
    steps found;

    if (length == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected values separated by commas, none of them empty");
    if (is_cut_off(list, field))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s follows %s: expected quotes around a value that holds a comma, or a word in front of both",
                        field, list->values[list->count - 1]);
    if (parse_range(field, length, &first, &last))
        return append_range(list, first, last, error);
    if (prefix < 64 && parse_steps(field + prefix, &found))
        return append_steps(list, field, prefix, &found, error);
    return append_value(list, field, length, error);
}

icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error) {
    const icl_csv_source source = {.path = "list", .text = text, .size = strlen(text)};
    icl_status status = ICL_OK;
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = false;

    *list = (icl_list){0};
    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    status = icl_csv_reader_next(reader, &record, &found, error);
    if (status == ICL_ERROR_INPUT) /* the reader's own message would name a place in a file */
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "expected values separated by commas, with quotes around one that holds a comma");
    ICL_TRY(status);
    if (!found)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "expected at least one value"));
    for (size_t i = 0; i < record.count; i++)
        ICL_TRY(append_field(list, record.fields[i], error));
done:
    icl_csv_reader_close(&reader);
    return status;
}

void icl_list_clear(icl_list *list) {
    for (size_t i = 0; i < list->count; i++)
        icl_free(&list->values[i]);
    icl_free(&list->values);
    *list = (icl_list){0};
}

/* ---- Axes ---- */

char icl_axis_harmless(char c) {
    const bool fine =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-';
    return c != '\0' && !fine ? '-' : c;
}

/* Returns whether two values would have the same name. */
static bool have_one_name(const char *a, const char *b) {
    while (*a != '\0' && icl_axis_harmless(*a) == icl_axis_harmless(*b))
        a++, b++;
    return *a == '\0' && *b == '\0';
}

/* Checks that the key takes every value. Values are compared as numbers if they are numbers: 1 and 1.0 are the same
 * cell. */
static icl_status read_values(const icl_recipe *base, const icl_axis *axis, double *numbers, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *scratch = NULL;

    ICL_TRY(icl_recipe_clone(base, &scratch, error));
    for (size_t i = 0; i < axis->list.count; i++) {
        const char *value = axis->list.values[i];
        ICL_TRY(icl_recipe_set(scratch, axis->key->section, axis->key->name, value, axis->origin, error));
        if (!icl_parse_number(value, strlen(value), &numbers[i]))
            numbers[i] = (double)NAN;
    }
done:
    icl_recipe_destroy(&scratch);
    return status;
}

icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error) {
    const bool are_numbers = axis->key->type == ICL_KEY_COUNT || axis->key->type == ICL_KEY_NUMBER;
    char *const *values = axis->list.values;
    icl_status status = ICL_OK;
    double *numbers = NULL;

    ICL_TRY(icl_allocate(axis->list.count, sizeof *numbers, "values of an axis", &numbers, error));
    ICL_TRY(read_values(base, axis, numbers, error));
    for (size_t i = 0; i < axis->list.count; i++)
        for (size_t j = 0; j < i; j++)
            if (are_numbers ? numbers[i] == numbers[j] : have_one_name(values[i], values[j]))
                ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: %s%s: %s is listed twice: expected every value once",
                                 axis->origin, section, axis->name, values[i]));
done:
    icl_free(&numbers);
    return status;
}

void icl_axis_clear(icl_axis *axis) {
    icl_free(&axis->origin);
    icl_list_clear(&axis->list);
}
