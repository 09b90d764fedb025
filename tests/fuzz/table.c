/* Tables of numbers. What is read has finite numbers in every cell, names that are printable, and
 * reads the same again. */
#include "iclab/table.h"

#include <math.h>

#include "fuzz.h"

/* The first byte chooses how the rest is read. */
static icl_table_params params_of(const uint8_t *data, size_t size) {
    static const char separators[] = {',', ';', '\t', ','};
    static const char *const columns[] = {"1"};
    const uint8_t choice = size > 0 ? data[0] : 0;
    return (icl_table_params){
        .source = {.path = "data.csv",
                   .text = size > 0 ? (const char *)data + 1 : "",
                   .size = size > 0 ? size - 1 : 0,
                   .separator = separators[choice & 3]},
        .header = (icl_table_header)((choice >> 2 & 3) % 3),
        .columns = columns,
        .column_count = choice >> 4 & 1,
        .target = choice >> 5 & 1 ? "y" : "2",
        .missing_targets = choice >> 6 & 1,
    };
}

static void check_table(const icl_table *table, bool missing_targets) {
    fuzz_promise(table->rows > 0 && table->columns > 0, "a table has rows and columns");
    for (size_t i = 0; i < table->rows * table->columns; i++)
        fuzz_promise(isfinite(table->values[i]) || (missing_targets && (i + 1) % table->columns == 0),
                     "every cell is a finite number");
    for (size_t i = 1; i < table->rows; i++)
        fuzz_promise(table->lines[i] > table->lines[i - 1], "lines grow");
    for (size_t i = 0; i < table->columns; i++)
        fuzz_promise(table->names[i] && !strpbrk(table->names[i], "\n\r\t\x1b"), "names are printable");
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
    check_table(table, params.missing_targets);
    fuzz_promise(icl_table_read(&params, &again, &error) == ICL_OK && again->rows == table->rows &&
                     memcmp(again->values, table->values, table->rows * table->columns * sizeof *table->values) == 0,
                 "it reads the same again");
    icl_table_destroy(&again);
    icl_table_destroy(&table);
    return 0;
}
