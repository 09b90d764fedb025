#include "papers/phrase.h"

#include <stdarg.h>

#include "core/print.h"

icl_phrase icl_phrase_print(const char *format, ...) {
    icl_phrase phrase;
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(phrase.text, sizeof phrase.text, format, arguments);
    va_end(arguments);
    return phrase;
}
