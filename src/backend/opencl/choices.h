/*
 * Choices of the OpenCL backend that only times decide: each value gives right results, and which one is faster depends
 * on the device. One table in choices.c has them all. A report of a GPU changes rows there and nothing else.
 *
 * The first row that fits decides: its choice is the one that is asked for, its text stands in the name of the device
 * or of the platform, and the size is its least or more. So rows of a device stand above those for all devices, and
 * larger sizes above smaller ones; a device that has rows of a choice has one of them for every size.
 *
 * Where the value that is chosen cannot serve, such as chunks for wide keys, or CLBlast in a build without it, the
 * other one does. `collect` concerns the kernels of CPUs, `clblast` both families, and the others those of GPUs.
 */
#ifndef ICLAB_BACKEND_OPENCL_CHOICES_H
#define ICLAB_BACKEND_OPENCL_CHOICES_H

#include <stddef.h>

#include "iclab/status.h"

#define ICL_CHOICES_VARIABLE "ICLAB_OPENCL_CHOICES"

typedef enum icl_opencl_choice {
    ICL_CHOICE_LINEAR = 0, /* program of a linear transformer; size: its launches so far */
    ICL_CHOICE_RECURRENCE, /* form of the forward recurrence; size: tokens */
    ICL_CHOICE_GEMM,       /* plain matrix products where a user left them to iclab; size: the least of m, n and k */
    ICL_CHOICE_CLBLAST,    /* parameters of CLBlast's products; no size */
    ICL_CHOICE_TILES,      /* tiles of our own products; size: the number of wide tiles */
    ICL_CHOICE_TEAMS,      /* work-groups for each compute unit, at most, a number; no size */
    ICL_CHOICE_COLLECT,    /* small operations in one launch (kernels of CPUs); no size */
    ICL_CHOICE_COUNT
} icl_opencl_choice;

/* Values. In place of a value, 0 says that the table decides. Those of ICL_CHOICE_GEMM are of icl_gemm. */
enum { ICL_BY_TABLE = 0 };
enum { ICL_LINEAR_STEPS = 1, ICL_LINEAR_STRAIGHT };  /* an interpreter of steps, or a straight-line program */
enum { ICL_WALK_BY_TOKENS = 1, ICL_WALK_BY_CHUNKS }; /* see recurrence.c */
enum { ICL_CLBLAST_DEFAULT = 1, ICL_CLBLAST_A100 };  /* what CLBlast's database has: for the device, for an A100 */
enum { ICL_TILES_NARROW = 1, ICL_TILES_WIDE };       /* see matmul.c */
enum { ICL_COLLECT_ON = 1, ICL_COLLECT_OFF };        /* see small.c */

/* The table's value for a device and a platform of these names. */
unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform);

/* Reads values that a user asks for, CHOICE=VALUE with commas between them, such as "linear=steps,teams=16", into
 * chosen[ICL_CHOICE_COUNT]; of two values for a choice the last one holds. ICL_ERROR_INPUT says which word is wrong,
 * and what was expected. */
icl_status icl_choices_read(const char *text, unsigned *chosen, icl_error *error);

#endif
