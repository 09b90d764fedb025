#include "core/print.h"

#include <locale.h>
#include <stdio.h>

int icl_print_list(char *text, size_t size, const char *format, va_list arguments) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = plain ? uselocale(plain) : (locale_t)0;
    const int length = vsnprintf(text, size, format, arguments);

    if (plain) {
        (void)uselocale(before);
        freelocale(plain);
    }
    return length;
}

int icl_print(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = icl_print_list(text, size, format, arguments);
    va_end(arguments);
    return length;
}
