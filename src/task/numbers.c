#include "task/numbers.h"

#include <string.h>

#include "iclab/number.h"

bool icl_parse_numbers(const char *text, size_t capacity, double *values, size_t *count) {
    *count = 0;
    for (;;) {
        const char *start = text + strspn(text, " \t");
        size_t length = strcspn(start, ",");
        const char *end = start + length;
        double value;

        while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            length--;
        if (!icl_parse_number(start, length, &value))
            return false;
        if (*count < capacity)
            values[*count] = value;
        ++*count;
        if (*end == '\0')
            return true;
        text = end + 1;
    }
}
