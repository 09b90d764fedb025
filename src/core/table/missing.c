#include "core/table/missing.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

bool icl_is_missing(const char *cell) {
    static const char *const words[] = {"",     "na",  "n/a", "#n/a", "<na>", "n.a.", "nan", "-nan",   "null",
                                        "none", "nil", "nat", "?",    ".",    "-",    "--",  "missing"};
    char lower[8];
    size_t length = 0;

    if (isdigit((unsigned char)cell[0]))
        return false;
    for (; cell[length] != '\0' && length + 1 < sizeof lower; length++)
        lower[length] = (char)tolower((unsigned char)cell[length]);
    lower[length] = '\0';
    if (cell[length] != '\0')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(lower, words[i]) == 0)
            return true;
    return false;
}
