/* What programs of recurrences are compiled with: recurrence.c chooses it, and tests compile every choice. */
#ifndef ICLAB_BACKEND_OPENCL_RECURRENCE_H
#define ICLAB_BACKEND_OPENCL_RECURRENCE_H

#include <stdbool.h>
#include <stddef.h>

#define ICL_RECURRENCE_OPTIONS 128 /* bytes of a program's options, the NUL included */

/* One kind of recurrence, and the size of its states. */
typedef struct icl_recurrence_form {
    bool delta;
    int decay; /* 0: none, 1: one factor for all channels, 2: one for each */
    bool write_key;
    size_t m, n;
} icl_recurrence_form;

/* Options of the programs of both passes on a device that computes `lanes` floats at a time; 1: a GPU. */
void icl_recurrence_options(const icl_recurrence_form *form, size_t lanes, char forward[ICL_RECURRENCE_OPTIONS],
                            char backward[ICL_RECURRENCE_OPTIONS]);

/* Whether a GPU may take the tokens of such recurrences in chunks. */
bool icl_recurrence_serves_chunks(const icl_recurrence_form *form);

#endif
