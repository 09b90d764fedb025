/* This file asks the host for memory that is zeroed and aligned, for arrays that grow, for facts about the build, and
 * for time. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core/allocate.h"
#include "iclab/version.h"

/* ---- Memory ---- */

/* One cache line, and the widest vector of any instruction set that the host backends use. What is smaller holds no
 * such vector, and a block of plain alignment comes several times as fast. */
enum { ALIGNMENT = 64, PLAIN_ALIGNMENT = 16 };

bool icl_multiply_sizes(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

icl_status icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer, icl_error *error) {
    size_t bytes;
    void *memory = NULL;

    if (!icl_multiply_sizes(count, size, &bytes))
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: %zu x %zu bytes overflow the address space", what, count, size);
    bytes = bytes > 0 ? bytes : 1;
    /* Takes no more than asked for, which aligned_alloc does not promise: so a sanitizer sees the first byte beyond. */
    if (posix_memalign(&memory, bytes < ALIGNMENT ? PLAIN_ALIGNMENT : ALIGNMENT, bytes) != 0)
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: no memory for %zu bytes", what, bytes);
    memset(memory, 0, bytes);
    memcpy(pointer_to_pointer, &memory, sizeof memory);
    return ICL_OK;
}

void icl_free(void *pointer_to_pointer) {
    void *memory, *null = NULL;
    memcpy(&memory, pointer_to_pointer, sizeof memory);
    free(memory);
    memcpy(pointer_to_pointer, &null, sizeof null);
}

icl_status icl_duplicate(const char *text, char **copy, icl_error *error) {
    const size_t bytes = strlen(text) + 1;
    icl_status status = icl_allocate(bytes, 1, "copy of a text", copy, error);
    if (status == ICL_OK)
        memcpy(*copy, text, bytes);
    return status;
}

icl_status icl_grow(void *pointer_to_pointer, size_t count, size_t *capacity, size_t element_size, const char *what,
                    icl_error *error) {
    const size_t larger = *capacity == 0 ? 16 : 2 * *capacity;
    void *old, *new = NULL;

    if (count < *capacity)
        return ICL_OK;
    ICL_CHECK(icl_allocate(larger, element_size, what, &new, error));
    memcpy(&old, pointer_to_pointer, sizeof old);
    if (count > 0)
        memcpy(new, old, count * element_size);
    icl_free(&old);
    memcpy(pointer_to_pointer, &new, sizeof new);
    *capacity = larger;
    return ICL_OK;
}

/* ---- The build, and time ---- */

const char *icl_version(void) {
    return ICL_VERSION;
}

icl_build icl_build_facts(void) {
    return (icl_build){.commit = ICL_COMMIT,
                       .commit_date = ICL_COMMIT_DATE,
                       .compiler = ICL_COMPILER,
                       .libraries = ICL_LIBRARIES,
                       .recipe_folder = ICL_RECIPE_DIR};
}

double icl_clock_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
