/* Shared parts of the fuzz targets. Each target defines LLVMFuzzerTestOneInput, which LibFuzzer calls with input after
 * input; without LibFuzzer, replay.c calls it with the corpus and with slightly damaged copies of it. A broken promise
 * aborts. */
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

/* Checks a promise of the interface; NDEBUG does not remove it. */
static inline void fuzz_promise(bool kept, const char *promise) {
    if (!kept) {
        fprintf(stderr, "broken: %s\n", promise);
        abort();
    }
}

/* Checks a refusal: it says why, in one line, and is of one of the two kinds that input can cause. */
static inline void fuzz_check_refusal(icl_status status, const icl_error *error) {
    fuzz_promise(status == ICL_ERROR_INPUT || status == ICL_ERROR_MEMORY, "bad input is called bad input");
    fuzz_promise(error->status == status && error->message[0] != '\0', "a refusal has a message");
    fuzz_promise(strlen(error->message) < sizeof error->message && !strchr(error->message, '\n'),
                 "a message is one line");
}

/* Puts the input into a file of this process's own, and returns its name, which has static storage. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* Removes that file, and returns its name. */
const char *fuzz_no_file(void);

#endif
