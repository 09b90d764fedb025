/* Lists of names as the fields of one record. */
#include <string.h>

#include "core/allocate.h"
#include "core/csv_reader.h"

icl_status icl_csv_split(const char *list, const char *name, char ***items, size_t *count, icl_error *error) {
    const icl_csv_source source = {.path = name, .text = list, .size = strlen(list)};
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = false;
    char **made = NULL, *at;
    icl_status status;

    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    ICL_TRY(icl_csv_reader_next(reader, &record, &found, error));
    if (!found) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: an empty list: expected names or numbers of columns", name);
        goto done;
    }
    ICL_TRY(icl_allocate(record.count * sizeof *made + strlen(list) + record.count, 1, "list", &made, error));
    at = (char *)(made + record.count);
    for (size_t i = 0; i < record.count; i++) {
        made[i] = at;
        strcpy(at, record.fields[i]);
        at += strlen(at) + 1;
    }
    *items = made;
    *count = record.count;
done:
    icl_csv_reader_close(&reader);
    return status;
}
