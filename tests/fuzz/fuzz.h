/*
 * What the fuzz targets share. Each target defines LLVMFuzzerTestOneInput, which LibFuzzer calls with input after
 * input; without LibFuzzer, replay.c calls it with the corpus and with small damages of it. A broken promise aborts.
 */
#ifndef ICLAB_TESTS_FUZZ_FUZZ_H
#define ICLAB_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the interface; NDEBUG does not remove it. */
static inline void fuzz_promise(bool kept, const char *promise) {
    if (!kept) {
        fprintf(stderr, "broken: %s\n", promise);
        abort();
    }
}

/* A refusal says why, in one line, and is of one of the two kinds that input can cause. */
static inline void fuzz_check_refusal(icl_status status, const icl_error *error) {
    fuzz_promise(status == ICL_ERROR_INPUT || status == ICL_ERROR_MEMORY, "bad input is called bad input");
    fuzz_promise(error->status == status && error->message[0] != '\0', "a refusal has a message");
    fuzz_promise(strlen(error->message) < sizeof error->message && !strchr(error->message, '\n'),
                 "a message is one line");
}

/* Puts the input into a file of this process's own; the name has static storage. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* The name of that file when there is none. */
const char *fuzz_no_file(void);

#endif
