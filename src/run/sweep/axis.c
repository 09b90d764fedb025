#include "run/sweep/axis.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/number.h"

char icl_axis_harmless(char c) {
    const bool fine =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-';
    return c != '\0' && !fine ? '-' : c;
}

/* Whether two values would have the same name. */
static bool have_one_name(const char *a, const char *b) {
    while (*a != '\0' && icl_axis_harmless(*a) == icl_axis_harmless(*b))
        a++, b++;
    return *a == '\0' && *b == '\0';
}

/* Every value such as the key takes. As numbers, where they are some: 1 and 1.0 are the same cell. */
static icl_status read_values(const icl_recipe *base, const icl_axis *axis, double *numbers, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *scratch = NULL;

    ICL_TRY(icl_recipe_clone(base, &scratch, error));
    for (size_t i = 0; i < axis->list.count; i++) {
        const char *value = axis->list.values[i];
        ICL_TRY(icl_recipe_set(scratch, axis->key->section, axis->key->name, value, axis->origin, error));
        if (!icl_parse_number(value, strlen(value), &numbers[i]))
            numbers[i] = (double)NAN;
    }
done:
    icl_recipe_destroy(&scratch);
    return status;
}

icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error) {
    const bool are_numbers = axis->key->type == ICL_KEY_COUNT || axis->key->type == ICL_KEY_NUMBER;
    char *const *values = axis->list.values;
    icl_status status = ICL_OK;
    double *numbers = NULL;

    ICL_TRY(icl_allocate(axis->list.count, sizeof *numbers, "values of an axis", &numbers, error));
    ICL_TRY(read_values(base, axis, numbers, error));
    for (size_t i = 0; i < axis->list.count; i++)
        for (size_t j = 0; j < i; j++)
            if (are_numbers ? numbers[i] == numbers[j] : have_one_name(values[i], values[j]))
                ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: %s%s: %s is listed twice: expected every value once",
                                 axis->origin, section, axis->name, values[i]));
done:
    icl_free(&numbers);
    return status;
}

void icl_axis_clear(icl_axis *axis) {
    icl_free(&axis->origin);
    icl_list_clear(&axis->list);
}
