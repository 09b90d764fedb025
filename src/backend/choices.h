/*
 * Choices between ways of computing the same: which one is faster depends on the device and on the sizes, so that only
 * times decide. A backend that has such choices provides icl_choice_functions. Results differ by rounding alone, and
 * their bits follow from the device, the seed and the choices.
 *
 * Choices are written as words with commas between them: NAME=WAY for all sizes, NAME:AxBxCxD=WAY for a class of sizes.
 */
#ifndef ICLAB_BACKEND_CHOICES_H
#define ICLAB_BACKEND_CHOICES_H

#include "backend/op_table.h"
#include "iclab/backend.h"
#include "iclab/text.h"

#define ICL_ANY_WAY SIZE_MAX

/* Sizes of a matrix product: m, n, k and the number of matrices; of attention: queries, keys, the wider of the key's
 * and the value's width, and the number of sequences times heads. */
typedef struct icl_sizes {
    size_t of[4];
} icl_sizes;

/* A choice between two ways of an op, for each class of its sizes. */
typedef struct icl_contested {
    icl_op op;
    const char *name;    /* of the choice, in words */
    const char *ways[2]; /* the backend's own comes first */
    bool has_rule;       /* without words the device takes the second way of some sizes, else never */
    const char *variant; /* words with which the second way may be faster, until the process ends; NULL: none */
    size_t classes;
    icl_sizes (*class)(size_t number); /* the sizes that stand for a class, with number < classes */
} icl_contested;

typedef struct icl_choice_functions {
    /* For an op that can be run in several ways with these params (NULL: with some), `ways` sets *names to their names
     * and returns their number; 0 if there is only one way. choose_way selects one, or with ICL_ANY_WAY leaves the
     * choice to the backend. They serve to compare the ways' times. */
    size_t (*ways)(const icl_backend *backend, icl_op op, const void *params, const char *const **names);
    void (*choose_way)(icl_backend *backend, icl_op op, size_t way);

    /* Sets *list to the choices that a contest decides and returns their number. */
    size_t (*contests)(const icl_backend *backend, const icl_contested **list);

    /* Takes choices in place of all that it has. NULL: those that it was opened with. ICL_ERROR_INPUT says which word
     * is wrong; then all stays as it was. */
    icl_status (*take)(icl_backend *backend, const char *words, icl_error *error);

    /* Adds its choices to the text, in words; nothing if it has none. */
    icl_status (*write)(const icl_backend *backend, icl_text *text, icl_error *error);

    /* Keeps the words for this device, which from now on is opened with them. */
    icl_status (*keep)(icl_backend *backend, const char *words, icl_error *error);
} icl_choice_functions;

#endif
