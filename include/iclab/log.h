/* The library never prints. It hands its messages to a callback that the caller sets. */
#ifndef ICLAB_LOG_H
#define ICLAB_LOG_H

#include "iclab/export.h"

ICL_C_BEGIN

/* How much a message matters. */
typedef enum icl_log_level {
    ICL_LOG_ERROR = 0,
    ICL_LOG_WARNING,
    ICL_LOG_INFO,
    ICL_LOG_DEBUG,
} icl_log_level;

/* Receives one message, NUL-terminated and without a trailing newline, valid only during the call. */
typedef void icl_log_callback(void *user, icl_log_level level, const char *message);

/* Zero is a valid value: no callback, nothing is logged. Copied by whatever takes it; user must outlive that. */
typedef struct icl_log {
    icl_log_callback *callback; /* who gets the messages */
    void *user;                 /* handed to it */
    icl_log_level level;        /* messages above this level are dropped; zero keeps only errors */
} icl_log;

/* Formats and hands one message on. A NULL log, or one without a callback, drops it. */
ICL_API void icl_log_write(const icl_log *log, icl_log_level level, const char *format, ...) ICL_PRINTF(3, 4);

ICL_C_END

#endif
