/* The ops of the OpenCL backend, and the functions that their files call of each other. */
#ifndef ICLAB_BACKEND_OPENCL_OPS_H
#define ICLAB_BACKEND_OPENCL_OPS_H

#include "backend/opencl/device.h"
#include "backend/opencl/launch.h"

#define ICL_DECLARE(name, ...) icl_op_function icl_opencl_##name;
ICL_EVERY_OP(ICL_DECLARE)
#undef ICL_DECLARE

/* ---- choices.c ---- */

extern const icl_choice_functions icl_opencl_choices;

/* ---- reduce.c ---- */

/* Sums the rows of in [rows, columns], `step` elements apart from element `first` on, in pairs of equal size, smaller
 * ones last. out [columns]: its last stride counts. */
icl_status icl_opencl_add_in_pairs(icl_opencl *opencl, const icl_view *out, cl_mem in, cl_uint first, cl_uint rows,
                                   cl_uint step, cl_uint columns, icl_error *error);

/* ---- recurrence.c ---- */

/* Options that the programs of recurrences are compiled with; tests compile every choice. */
#define ICL_RECURRENCE_OPTIONS 128 /* bytes of a program's options, the NUL included */

/* One kind of recurrence, and the size of its states. */
typedef struct icl_recurrence_form {
    bool delta;
    int decay; /* 0: none, 1: one factor for all channels, 2: one for each */
    bool write_key;
    size_t m, n;
} icl_recurrence_form;

/* Writes the options of the programs of both passes on a device that computes `lanes` floats at a time; 1: a GPU. */
void icl_recurrence_options(const icl_recurrence_form *form, size_t lanes, char forward[ICL_RECURRENCE_OPTIONS],
                            char backward[ICL_RECURRENCE_OPTIONS]);

/* Returns whether a GPU may take the tokens of such recurrences in chunks. */
bool icl_recurrence_serves_chunks(const icl_recurrence_form *form);

#endif
