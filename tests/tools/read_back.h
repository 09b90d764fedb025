/* Reads printed output as its readers do: a table by heading and label, CSV by heading, JSON by name. */
#ifndef ICLAB_TESTS_TOOLS_READ_BACK_H
#define ICLAB_TESTS_TOOLS_READ_BACK_H

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/scratch.h"
#include "captured.h"
#include "command.h"
#include "core/allocate.h"
#include "core/table/sheet.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "tap.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Runs a command with the words of a line, which bars separate, copies what it prints and returns its exit code. */
static inline int run_words(const subcommand *command, char *line, char *text, size_t size) {
    char *words[48], *rest = line;
    int count = 0;

    for (char *at = strtok_r(line, "|", &rest); at; at = strtok_r(NULL, "|", &rest))
        words[count++] = at;
    captured to = capture_begin(stdout);
    const int code = command->run(NULL, count, words);
    capture_end(&to, text, size);
    return code;
}

/* Creates a run without a model, in the folder "run". */
static inline icl_status make_run(scratch_folder *scratch, const char *const *settings, size_t count,
                                  icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
    ICL_TRY(icl_run_create(scratch_path(scratch, "run"), recipe, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Reads a file of the folder, freed with icl_free; NULL if it cannot be read. */
static inline char *read_file(scratch_folder *scratch, const char *name) {
    char *content = NULL;
    size_t size;

    return icl_file_read(scratch_path(scratch, name), 0, &content, &size, NULL) == ICL_OK ? content : NULL;
}

/* Returns the first line that begins with `start`; an empty text if there is none. */
static inline const char *line_of(const char *text, const char *start) {
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strncmp(text, start, strlen(start)) == 0)
            return text;
    return "";
}

/* Copies the cell in `row` below the nth heading of that name, counted from 0: both end in the same column, and two
 * blanks or the heading before separate the cell from its left neighbour. */
static inline const char *cell_below(const char *heads, const char *heading, int nth, const char *row, char cell[64]) {
    const size_t length = strcspn(heads, "\n"), row_length = strcspn(row, "\n");
    const char *at = strstr(heads, heading);
    size_t first, end;

    for (; at && nth > 0; nth--)
        at = strstr(at + strlen(heading), heading);
    cell[0] = '\0';
    if (!at || (size_t)(at - heads) >= length)
        return cell;
    first = (size_t)(at - heads);
    end = first + strlen(heading);
    while (first > 0 && heads[first - 1] == ' ')
        first--;
    end = end < row_length ? end : row_length;
    while (end > first && row[end - 1] == ' ')
        end--;
    for (size_t i = first; i + 2 < end; i++)
        if (row[i] == ' ' && row[i + 1] == ' ')
            first = i + 2;
    while (first < end && row[first] == ' ')
        first++;
    if (first < end)
        snprintf(cell, 64, "%.*s", (int)(end - first), row + first);
    return cell;
}

/* A heading, its index among the headings of that name, and the cell below it. */
typedef struct expected_cell {
    const char *heading;
    int nth;
    const char *cell;
} expected_cell;

static inline void check_cells(tap_run *tap, const char *heads, const char *row, const expected_cell *expected,
                               size_t count) {
    char cell[64];

    for (size_t i = 0; i < count; i++)
        tap_ok(tap, strcmp(cell_below(heads, expected[i].heading, expected[i].nth, row, cell), expected[i].cell) == 0,
               "%.12s: %s is %s: %s", row, expected[i].heading, expected[i].cell, cell);
}

/* A name and its value: a text or, if that is NULL, a number; NaN stands for null and for an empty field. */
typedef struct expected_field {
    const char *name;
    double number;
    const char *text;
} expected_field;

static inline void check_json(tap_run *tap, const char *line, const expected_field *expected, size_t count) {
    char object[4096];
    cJSON *json;

    snprintf(object, sizeof object, "%.*s", (int)strcspn(line, "\n"), line);
    json = cJSON_Parse(object);
    tap_ok(tap, cJSON_GetArraySize(json) == (int)count, "%zu members: %d", count, cJSON_GetArraySize(json));
    for (size_t i = 0; i < count; i++) {
        const cJSON *member = cJSON_GetObjectItemCaseSensitive(json, expected[i].name);
        const bool same = expected[i].text
                              ? cJSON_IsString(member) && strcmp(member->valuestring, expected[i].text) == 0
                          : isnan(expected[i].number) ? cJSON_IsNull(member) != 0
                          : cJSON_IsBool(member)      ? cJSON_IsTrue(member) == (expected[i].number == 1)
                                                 : cJSON_IsNumber(member) && member->valuedouble == expected[i].number;
        tap_ok(tap, same, "JSON: %s", expected[i].name);
    }
    cJSON_Delete(json);
}

static inline bool is_field(const char *field, const expected_field *expected) {
    return expected->text            ? strcmp(field, expected->text) == 0
           : isnan(expected->number) ? field[0] == '\0'
                                     : field[0] != '\0' && strtod(field, NULL) == expected->number;
}

/* Checks a row of a CSV, counted from 1, and that the headings are these and no others. */
static inline void check_csv(tap_run *tap, const char *text, size_t row, const expected_field *expected, size_t count) {
    const icl_csv_source source = {.path = "CSV", .text = text, .size = strlen(text), .separator = ','};
    icl_csv_reader *reader = NULL;
    icl_csv_record record = {0};
    size_t places[64] = {0};
    icl_error error = {0};
    bool found = false;

    if (!tap_status(tap, icl_csv_reader_open(&source, &reader, &error), &error, "CSV"))
        return;
    for (size_t i = 0; i <= row; i++) {
        const icl_status status = icl_csv_reader_next(reader, &record, &found, &error);
        if (!tap_ok(tap, status == ICL_OK && found && record.count == count, "CSV: record %zu has %zu fields: %zu %s",
                    i, count, record.count, error.message))
            break;
        for (size_t k = 0; k < count && i == 0; k++)
            while (places[k] < count && strcmp(record.fields[places[k]], expected[k].name) != 0)
                places[k]++;
        for (size_t k = 0; k < count && i == row; k++)
            tap_ok(tap, places[k] < count && is_field(record.fields[places[k]], &expected[k]), "CSV: %s: %s",
                   expected[k].name, places[k] < count ? record.fields[places[k]] : "no such heading");
    }
    icl_csv_reader_close(&reader);
}

static inline size_t count_lines(const char *text) {
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

#endif
