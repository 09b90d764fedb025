#include "core/table/steps.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/sheet.h"

icl_status icl_add_step(icl_steps *steps, const icl_table_step *step, icl_error *error, const char *format, ...) {
    char text[2 * ICL_LABEL_CAPACITY + 256];
    va_list arguments;
    icl_table_step made = *step;

    va_start(arguments, format);
    (void)icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    ICL_CHECK(icl_grow(&steps->steps, steps->count, &steps->capacity, sizeof made, "steps", error));
    ICL_CHECK(icl_duplicate(text, &made.text, error));
    steps->steps[steps->count++] = made;
    return ICL_OK;
}

void icl_release_steps(icl_table_step **steps, size_t count) {
    for (size_t i = 0; *steps && i < count; i++)
        icl_free(&(*steps)[i].text);
    icl_free(steps);
}
