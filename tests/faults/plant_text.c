/* Texts that grow: most prints find room, so that a run meets a failed one in few places. Each is a call that may fail.
 * The names __wrap_NAME and __real_NAME are the linker's. */
#define _GNU_SOURCE /* vasprintf; NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "iclab/text.h"
#include "plant.h"

void __real_free(void *memory);
icl_status __real_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error);
icl_status __wrap_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error);
icl_status __wrap_icl_text_print(icl_text *text, icl_error *error, const char *format, ...) ICL_PRINTF(3, 4);

static bool are_spared;

void fault_spare_texts(void) {
    are_spared = true;
}

static bool strikes(const char *call) {
    return !are_spared && fault_strikes(FAULT_ALLOCATION, call);
}

static icl_status fail(const char *call, icl_error *error) {
    return icl_fail(error, ICL_ERROR_MEMORY, "%s: planted", call);
}

icl_status __wrap_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error) {
    return strikes("icl_text_append") ? fail("icl_text_append", error)
                                      : __real_icl_text_append(text, bytes, length, error);
}

icl_status __wrap_icl_text_print(icl_text *text, icl_error *error, const char *format, ...) {
    char *printed = NULL;
    va_list arguments;

    if (strikes("icl_text_print"))
        return fail("icl_text_print", error);
    va_start(arguments, format);
    const int length = vasprintf(&printed, format, arguments);
    va_end(arguments);
    if (length < 0)
        return fail("vasprintf", error);
    const icl_status status = __real_icl_text_append(text, printed, (size_t)length, error);
    __real_free(printed);
    return status;
}
