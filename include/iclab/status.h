/*
 * Errors as values, and texts that the library returns.
 *
 * Every function that can fail returns an icl_status and takes, as its last argument, an icl_error that the
 * caller owns. On failure the error holds one line that says what failed, where, and what was expected; on
 * success it is left untouched. Passing NULL asks for the status alone.
 */
#ifndef ICLAB_STATUS_H
#define ICLAB_STATUS_H

#include "iclab/export.h"

ICL_C_BEGIN

/* How a call ended. */
typedef enum icl_status {
    ICL_OK = 0,
    ICL_ERROR_INPUT,       /* wrong input from the caller or the user: recipe, shape, option, file contents */
    ICL_ERROR_DEVICE,      /* a device, driver or kernel failed, or none was found */
    ICL_ERROR_IO,          /* a file could not be read or written */
    ICL_ERROR_MEMORY,      /* host or device memory is exhausted */
    ICL_ERROR_DIVERGED,    /* training met NaN or infinity */
    ICL_ERROR_INTERRUPTED, /* the caller asked to stop, and the state was saved */
} icl_status;

/* Bytes of a message, the NUL at its end included. */
#define ICL_ERROR_CAPACITY 4096

/* Why a call failed. */
typedef struct icl_error {
    icl_status status;                /* status that the call returned */
    char message[ICL_ERROR_CAPACITY]; /* NUL-terminated, no trailing newline; a build log may follow a newline */
} icl_error;

/* Returns a short English name of the status, for example "device error". Never NULL; static storage. */
ICL_API const char *icl_status_name(icl_status status);

/* Fills error (which may be NULL) and returns the status, so that a failure reads `return icl_fail(error, …)`. */
ICL_API icl_status icl_fail(icl_error *error, icl_status status, const char *format, ...) ICL_PRINTF(3, 4);

/* Runs a call; on failure jumps to the function's cleanup. Needs `icl_status status` and a label `done`. */
#define ICL_TRY(call)                                                                                                  \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != ICL_OK)                                                                                          \
            goto done;                                                                                                 \
    } while (0)

/* Frees a text that the library returned in a char **, and sets *text to NULL. NULL texts are allowed. */
ICL_API void icl_text_free(char **text);

ICL_C_END

/* Runs a call; on failure returns its status at once: for functions with nothing to free. */
#define ICL_CHECK(call)                                                                                                \
    do {                                                                                                               \
        const icl_status icl_checked = (call);                                                                         \
        if (icl_checked != ICL_OK)                                                                                     \
            return icl_checked;                                                                                        \
    } while (0)

#endif
