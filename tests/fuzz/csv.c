/* Fuzzes continuing a table where a run stopped. The continued table keeps only whole rows, and can be continued
 * again. */
#include "iclab/csv.h"
#include "core/allocate.h"
#include "fuzz.h"
#include "iclab/file.h"

#define HEADER "step,loss"
#define LAST   3

static void check_table(const char *path, const uint8_t *data, size_t size) {
    char *text = NULL;
    size_t length = 0;

    fuzz_promise(icl_file_read(path, 0, &text, &length, NULL) == ICL_OK, "the table can be read");
    fuzz_promise(length > strlen(HEADER) && memcmp(text, HEADER "\n", strlen(HEADER) + 1) == 0, "the header stands");
    fuzz_promise(text[length - 1] == '\n', "the last row is whole");
    fuzz_promise(length <= size && memcmp(text, data, length) == 0, "rows that stay are unchanged");
    icl_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    const double value = 0.5;
    icl_csv *csv = NULL;
    icl_error error = {0};
    const icl_status status = icl_csv_resume(path, HEADER, LAST, &csv, &error);

    if (status != ICL_OK) {
        fuzz_check_refusal(status, &error);
        return 0;
    }
    check_table(path, data, size);
    fuzz_promise(icl_csv_row(csv, LAST + 1, &value, 1, &error) == ICL_OK && icl_csv_flush(csv, &error) == ICL_OK,
                 "a row can be added");
    icl_csv_destroy(&csv);
    fuzz_promise(icl_csv_resume(path, HEADER, LAST, &csv, &error) == ICL_OK, "it can be taken up again");
    icl_csv_destroy(&csv);
    check_table(path, data, size);
    return 0;
}
