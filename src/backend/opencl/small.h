/* Small operations of CPUs that wait for their launch: see small.c. */
#ifndef ICLAB_BACKEND_OPENCL_SMALL_H
#define ICLAB_BACKEND_OPENCL_SMALL_H

#include "backend/opencl/launch.h"

/* The buffers and the list take fewer than the 1024 bytes of arguments that any device allows. */
#define ICL_SMALL_BUFFERS 16
#define ICL_SMALL_WORDS   208 /* as in cl/small.cl */
#define ICL_SMALL_ENTRY   20  /* the most words of an entry */

/* The list of waiting operations. */
typedef struct icl_small {
    bool is_off;            /* each op is launched alone */
    cl_uint words, buffers; /* that wait */
    cl_mem memory[ICL_SMALL_BUFFERS];
    struct {
        cl_uint words, word[ICL_SMALL_WORDS];
    } list; /* as the kernel takes it */
} icl_small;

/* The kinds of entries, numbered as in cl/small.cl. */
typedef enum icl_small_kind {
    ICL_SMALL_COPY = 0,
    ICL_SMALL_UNARY,
    ICL_SMALL_BINARY,
    ICL_SMALL_SCALE_ADD,
    ICL_SMALL_MATMUL,
    ICL_SMALL_NORMALIZE
} icl_small_kind;

/* Each `icl_small_takes_...` returns whether an op is small and lists are kept; then `icl_small_add_...` puts it into
 * the list, which is launched first if it is full. These are elementwise ops of one or two axes. */
bool icl_small_takes_runs(const icl_opencl *opencl, const icl_runs *runs);

typedef struct icl_small_choice {
    cl_uint kind; /* of the function; for icl_scale_add, whether there is a b */
    cl_float alpha, beta;
} icl_small_choice;

icl_status icl_small_add_runs(icl_opencl *opencl, icl_small_kind kind, const icl_runs *runs, int views,
                              const icl_small_choice *choice, icl_error *error);

/* These are products of few rows; shape: that of out. */
bool icl_small_takes_product(const icl_opencl *opencl, cl_uint4 shape, cl_uint terms);
icl_status icl_small_add_product(icl_opencl *opencl, const icl_view views[3], cl_uint4 shape, cl_uint terms,
                                 cl_float alpha, cl_float beta, icl_error *error);

/* Rows that are normalized: views of out, in, gain and shift; the last two need only offset and last stride. */
typedef struct icl_small_norm {
    icl_view views[4];
    cl_uint rows, count, kind, flags;
    cl_float share, epsilon;
} icl_small_norm;

/* views: out and in; their third strides become those of rows. */
bool icl_small_takes_rows(const icl_opencl *opencl, icl_view views[2], cl_uint4 shape, cl_uint *rows);
icl_status icl_small_add_rows(icl_opencl *opencl, const icl_small_norm *norm, icl_error *error);

#endif
