#include "iclab/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/print.h"
#include "core/printable.h"
#include "iclab/log.h"

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

/* Input, paths and what drivers say are quoted as they came: a message never steers a terminal, and but for a driver's
 * log it stays one line. */
static void make_printable(icl_status status, char *message) {
    icl_make_printable(message, status == ICL_ERROR_DEVICE ? "\n\t" : "");
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
