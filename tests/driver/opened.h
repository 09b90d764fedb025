/* A device as tests/driver/layer.c shows it, and the warnings that opening and using it logged. */
#ifndef ICLAB_TESTS_DRIVER_OPENED_H
#define ICLAB_TESTS_DRIVER_OPENED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define VARIABLE "ICLAB_TEST_DRIVER"

typedef struct opened {
    icl_backend *backend;
    icl_status status;
    icl_error error;
    int warnings;
    char warning[ICL_ERROR_CAPACITY]; /* the last */
} opened;

static inline void record(void *user, icl_log_level level, const char *message) {
    opened *o = user;
    if (level == ICL_LOG_WARNING) {
        o->warnings++;
        snprintf(o->warning, sizeof o->warning, "%s", message);
    }
}

/* Opens the device as this driver would show it. */
static inline void open_as(opened *o, const char *driver, icl_backend_params params) {
    *o = (opened){0};
    setenv(VARIABLE, driver, 1);
    params.log = (icl_log){record, o, ICL_LOG_WARNING};
    o->status = icl_backend_open(&params, &o->backend, &o->error);
}

/* As open_as; ends the test if the device does not open. */
static inline void open_needed(opened *o, const char *driver, icl_backend_params params) {
    open_as(o, driver, params);
    *tap_error() = o->error;
    tap_need(o->status);
}

static inline bool is_one_line(const char *text) {
    return *text && !strchr(text, '\n');
}

#endif
