#include "iclab/nearest.h"

#include <stdint.h>
#include <string.h>

#define MAX_LENGTH 127

/* Not tolower(): that follows the process's locale. */
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t icl_edit_distance(const char *a, const char *b) {
    const size_t rows = strnlen(a, MAX_LENGTH), columns = strnlen(b, MAX_LENGTH);
    size_t distance[3][MAX_LENGTH + 1]; /* of prefixes: the row being filled and the two before it */

    for (size_t j = 0; j <= columns; j++)
        distance[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t *current = distance[i % 3];
        const size_t *above = distance[(i + 2) % 3], *two_above = distance[(i + 1) % 3];
        current[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            current[j] = smaller(above[j - 1] + (x != y), smaller(above[j], current[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                current[j] = smaller(current[j], two_above[j - 2] + 1);
        }
    }
    return distance[rows % 3][columns];
}

const char *icl_nearest(const char *name, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        const size_t distance = icl_edit_distance(name, candidates[i]);
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
