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

/* ---- matmul.c: products through CLBlast ---- */

/* The most operations of one launch of CLBlast: .1 to .2 s on a small integrated GPU. */
#define ICL_CLBLAST_OPERATIONS 2e10

/* Whether matrix products may go through CLBlast. */
typedef enum icl_clblast_state {
    ICL_CLBLAST_UNTESTED = 0, /* not used yet */
    ICL_CLBLAST_SERVES,       /* it was asked for, or gave the known answer */
    ICL_CLBLAST_REFUSED       /* it is not built in, not wanted, or gave a wrong answer */
} icl_clblast_state;

/* CLBlast for one device. */
typedef struct icl_clblast {
    icl_gemm wanted; /* by the user */
    icl_clblast_state state;
    double operations;   /* the most of one launch: see matmul.c */
    unsigned parameters; /* the value of ICL_CHOICE_CLBLAST for which it was tested */
    uint64_t tested;     /* powers of two of m n k for which its large products were right */
    bool serves_all;     /* during its self-test it also gets the products that our own kernel would get */
} icl_clblast;

/* Releases what CLBlast holds of this context; called before the context is released. */
void icl_clblast_forget(void);

/* Fails if CLBlast was asked for and this build lacks it; if the build has it, it is tested. If it was not asked for,
 * it is tested before the first product that prefers it, because it compiles for seconds. */
icl_status icl_clblast_choose(icl_opencl *opencl, icl_error *error);

#endif
