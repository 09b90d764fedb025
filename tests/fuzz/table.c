/* Fuzzes tables of numbers. An accepted table has finite numbers in every cell and printable names, and reads the same
 * again. */
#include "iclab/table.h"

#include <math.h>

#include "fuzz.h"

/* The first two bytes choose how the rest is read. */
static icl_table_params params_of(const uint8_t *data, size_t size) {
    static const char separators[] = {',', ';', '\t', 0, 0, '|', 0, 0};
    static const char *const columns[] = {"1"};
    const uint8_t choice = size > 0 ? data[0] : 0, more = size > 1 ? data[1] : 0;
    return (icl_table_params){
        .source = {.path = "data.csv",
                   .text = size > 2 ? (const char *)data + 2 : "",
                   .size = size > 2 ? size - 2 : 0,
                   .separator = separators[(choice & 3) | (more >> 5 & 4)]},
        .header = (icl_table_header)((choice >> 2 & 3) % 3),
        .columns = columns,
        .column_count = choice >> 4 & 1,
        .target = choice >> 5 & 1 ? "y" : "2",
        .missing_targets = choice >> 6 & 1,
        .excluded = columns,
        .excluded_count = more >> 6 & 1,
        .decimal = (icl_decimal)((more & 3) % 3),
        .missing = (icl_missing)((more >> 2 & 3) % 3),
        .one_hot = more >> 4 & 1,
    };
}

static bool is_printable(const char *text) {
    return text && !strpbrk(text, "\n\r\t\x1b");
}

static void check_names(const icl_table *table) {
    for (size_t i = 0; i < table->columns; i++) {
        fuzz_promise(is_printable(table->names[i]) && is_printable(table->sources[i]), "names are printable");
        fuzz_promise(!table->levels[i] || strchr(table->names[i], '='), "a category's column says which it is");
    }
    for (size_t i = 0; i < table->step_count; i++)
        fuzz_promise(is_printable(table->steps[i].text), "a step is one line");
}

static void check_table(const icl_table *table, const icl_table_params *params) {
    const size_t columns = table->columns;

    fuzz_promise(table->rows > 0 && columns > 0, "a table has rows and columns");
    for (size_t i = 0; i < table->rows * columns; i++) {
        const bool is_target = (i + 1) % columns == 0;
        const bool may_lack = is_target ? params->missing_targets : params->missing == ICL_MISSING_KEPT;
        fuzz_promise(isfinite(table->values[i]) || may_lack, "every cell is a finite number");
        fuzz_promise(!table->levels[i % columns] || isnan(table->values[i]) || table->values[i] == 0 ||
                         table->values[i] == 1,
                     "a category is or is not");
    }
    for (size_t i = 1; i < table->rows; i++)
        fuzz_promise(table->lines[i] > table->lines[i - 1], "lines grow");
    fuzz_promise(table->omission_count == 0 || params->missing == ICL_MISSING_DROPPED, "rows go only when they may");
    check_names(table);
}

/* Reads the features of a table from the text again, as those of another table. */
static void check_like(const icl_table_params *params, const icl_table *table) {
    icl_table_params other = *params;
    icl_table *again = NULL;
    icl_error error = {0};
    const icl_status status = icl_table_read((other.like = table, other.target = NULL, &other), &again, &error);

    if (status != ICL_OK)
        fuzz_check_refusal(status, &error);
    else
        fuzz_promise(again->columns + 1 == table->columns, "it has the same features");
    icl_table_destroy(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const icl_table_params params = params_of(data, size);
    icl_table *table = NULL, *again = NULL;
    icl_error error = {0};
    const icl_status status = icl_table_read(&params, &table, &error);

    if (status != ICL_OK) {
        fuzz_check_refusal(status, &error);
        return 0;
    }
    check_table(table, &params);
    check_like(&params, table);
    fuzz_promise(icl_table_read(&params, &again, &error) == ICL_OK && again->rows == table->rows &&
                     memcmp(again->values, table->values, table->rows * table->columns * sizeof *table->values) == 0 &&
                     again->step_count == table->step_count,
                 "it reads the same again");
    icl_table_destroy(&again);
    icl_table_destroy(&table);
    return 0;
}
