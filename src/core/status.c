/* Statuses and messages: numbers have a decimal point whatever the locale, and the text is safe for a terminal and for
 * JSON. */
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
#include "iclab/log.h"
#include "iclab/status.h"

/* ---- Printing ---- */

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

/* ---- Text from elsewhere ---- */

/* Returns whether the character is one of C0, DEL and C1. */
static bool is_control(const unsigned char *text, size_t length) {
    return text[0] < 0x20 || text[0] == 0x7F || (length == 2 && text[0] == 0xC2 && text[1] < 0xA0);
}

/* Replaces, in place, control characters (C0, DEL, C1) and bytes that are not valid UTF-8 by '?', except those in
 * `kept`. */
static void replace_controls(char *text, const char *kept) {
    unsigned char *at = (unsigned char *)text;

    while (*at != '\0') {
        const size_t sequence = icl_utf8_sequence(at), length = sequence > 0 ? sequence : 1;
        if ((sequence == 0 || is_control(at, sequence)) && !strchr(kept, *at))
            memset(at, '?', length);
        at += length;
    }
}

const char *icl_printable(const char *text, char *out, size_t capacity) {
    const unsigned char *from = (const unsigned char *)text;
    size_t used = 0, kept = 0; /* kept: the length after which "..." still fits */

    while (*from != '\0') {
        const size_t sequence = icl_utf8_sequence(from), length = sequence > 0 ? sequence : 1;
        const bool as_it_is = sequence > 0 && !is_control(from, sequence);
        const size_t width = as_it_is ? length : 1;
        if (used + width + 1 > capacity) {
            memcpy(out + kept, "...", 4);
            return out;
        }
        if (as_it_is)
            memcpy(out + used, from, length);
        else
            out[used] = sequence > 0 ? ' ' : '?';
        used += width;
        from += length;
        if (used + 4 <= capacity)
            kept = used;
    }
    out[used] = '\0';
    return out;
}

/* ---- Statuses and the log ---- */

const char *icl_status_name(icl_status status) {
    switch (status) {
    case ICL_OK:
        return "ok";
    case ICL_ERROR_INPUT:
        return "bad input";
    case ICL_ERROR_DEVICE:
        return "device error";
    case ICL_ERROR_IO:
        return "file error";
    case ICL_ERROR_MEMORY:
        return "out of memory";
    case ICL_ERROR_DIVERGED:
        return "diverged";
    case ICL_ERROR_INTERRUPTED:
        return "interrupted";
    }
    return "unknown status";
}

/* Input, paths and drivers' messages are quoted as they came, so control characters are replaced: a message never
 * steers a terminal, and it stays one line, except for a driver's log. */
static void make_printable(icl_status status, char *message) {
    replace_controls(message, status == ICL_ERROR_DEVICE ? "\n\t" : "");
}

icl_status icl_fail(icl_error *error, icl_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        icl_print_list(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        make_printable(status, error->message);
    }
    return status;
}

void icl_log_write(const icl_log *log, icl_log_level level, const char *format, ...) {
    if (log && log->callback && level <= log->level) {
        char message[ICL_ERROR_CAPACITY];
        va_list arguments;
        va_start(arguments, format);
        icl_print_list(message, sizeof message, format, arguments);
        va_end(arguments);
        make_printable(ICL_ERROR_DEVICE, message);
        log->callback(log->user, level, message);
    }
}
