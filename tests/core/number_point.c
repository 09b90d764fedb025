/* Numbers have a decimal point even if the locale has a comma. The linker plants such a locale, so that none need be
 * installed; the C library itself still writes points. */
#include <locale.h>
#include <string.h>

#include "iclab/number.h"
#include "tap.h"

struct lconv *__wrap_localeconv(void); /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

struct lconv *__wrap_localeconv(void) { /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
    static char comma[] = ",";
    static struct lconv german = {.decimal_point = comma};
    return &german;
}

int main(void) {
    tap_run tap = {0};
    char text[ICL_NUMBER_CAPACITY];

    tap_ok(&tap, strcmp(icl_format_number(0.5, text), "0.5") == 0, "a half is %s", text);
    tap_ok(&tap, strcmp(icl_format_number(-1.25e-7, text), "-1.25e-07") == 0, "a small number is %s", text);
    tap_ok(&tap, strcmp(icl_format_float(0.1F, text), "0.1") == 0, "a tenth is %s", text);
    return tap_done(&tap);
}
