#include "core/allocate.h"

#include <string.h>

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
