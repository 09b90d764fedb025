/*
 * Small operations of CPUs, many in one launch: cl/small.cl.
 *
 * A launch costs PoCL 3.1 one to three microseconds, because it allocates memory for each argument and hands the kernel
 * to another thread; computing a row of 64 numbers takes less. So a small op joins a list. The list is launched when it
 * is full; before the queue is given anything else, to keep the order of all work; and before the pool gives memory
 * that the list may name back to the driver.
 */
#include <assert.h>
#include <string.h>

#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"

#define MOST_ELEMENTS 4096  /* of an op's output */
#define MOST_PRODUCTS 65536 /* the most multiply-adds of a product, */
#define MOST_ROWS     4     /* and its most rows: with more it pays to pack the other factor */
#define MOST_TERMS    256   /* with more, cl/matmul_panels.cl adds sums of so many, which rounds otherwise */

static bool is_collecting(const icl_opencl *opencl) {
    return opencl->lanes > 1 && !opencl->small->is_off;
}

/* Describes rows along the last axis that are a constant step apart in every view: folds the three axes above it.
 * Returns false if it cannot. */
static bool fold_rows(icl_view *views, int count, cl_uint4 shape, cl_uint *rows) {
    int inner = -1;

    *rows = 1;
    for (int axis = 2; axis >= 0; axis--) {
        if (shape.s[axis] == 1)
            continue;
        for (int i = 0; inner >= 0 && i < count; i++)
            if ((int64_t)views[i].stride.s[axis] != (int64_t)views[i].stride.s[inner] * (int64_t)*rows)
                return false;
        inner = inner < 0 ? axis : inner;
        *rows *= shape.s[axis];
    }
    for (int i = 0; i < count; i++)
        views[i].stride.s[2] = inner < 0 ? 0 : views[i].stride.s[inner];
    return true;
}

/* Returns the number of the memory among the list's buffers. */
static cl_uint number_of(icl_small *small, cl_mem memory) {
    for (cl_uint i = 0; i < small->buffers; i++)
        if (small->memory[i] == memory)
            return i;
    small->memory[small->buffers] = memory;
    return small->buffers++;
}

/* An entry that is being composed. */
typedef struct entry {
    cl_uint count, word[ICL_SMALL_ENTRY];
    cl_mem memory[4];
    int operands;
} entry;

static void put(entry *e, cl_uint word) {
    assert(e->count < ICL_SMALL_ENTRY);
    e->word[e->count++] = word;
}

static void put_float(entry *e, cl_float value) {
    cl_uint word;
    memcpy(&word, &value, sizeof word);
    put(e, word);
}

static void put_view(entry *e, const icl_view *view) {
    e->memory[e->operands++] = view->memory;
    put(e, view->offset);
    put(e, (cl_uint)view->stride.s[2]);
    put(e, (cl_uint)view->stride.s[3]);
}

static entry begin(cl_uint rows, cl_uint count) {
    return (entry){.count = 4, .word = {0, 0, rows, count}};
}

static icl_status launch_list(icl_opencl *opencl, icl_error *error) {
    icl_small *small = opencl->small;
    icl_argument arguments[ICL_SMALL_BUFFERS + 1];

    opencl->queue->flush = NULL; /* the launch itself must find no waiting operations */
    small->list.words = small->words;
    small->words = 0;
    for (cl_uint i = 0; i < ICL_SMALL_BUFFERS; i++)
        arguments[i] = ICL_MEMORY_ARGUMENT(small->memory[i < small->buffers ? i : 0]);
    arguments[ICL_SMALL_BUFFERS] = ICL_ARGUMENT(small->list);
    const icl_status status =
        icl_opencl_launch_items(opencl, ICL_KERNEL_run_small, 1, arguments, ICL_SMALL_BUFFERS + 1, error);
    small->buffers = 0;
    return status;
}

static icl_status add(icl_opencl *opencl, icl_small_kind kind, entry *e, icl_error *error) {
    icl_small *small = opencl->small;

    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_SMALL, error));
    if (small->words + e->count > ICL_SMALL_WORDS || small->buffers + (cl_uint)e->operands > ICL_SMALL_BUFFERS)
        ICL_CHECK(icl_queue_flush(opencl, error));
    e->word[0] = (cl_uint)kind | e->count << 8;
    for (int i = 0; i < e->operands; i++)
        e->word[1] |= number_of(small, e->memory[i]) << 8 * i;
    memcpy(small->list.word + small->words, e->word, e->count * sizeof *e->word);
    small->words += e->count;
    opencl->queue->flush = launch_list;
    return ICL_OK;
}

bool icl_small_takes_runs(const icl_opencl *opencl, const icl_runs *runs) {
    const cl_uint4 shape = runs->shape;
    return is_collecting(opencl) && shape.s[0] == 1 && shape.s[1] == 1 &&
           (size_t)shape.s[2] * shape.s[3] <= MOST_ELEMENTS;
}

icl_status icl_small_add_runs(icl_opencl *opencl, icl_small_kind kind, const icl_runs *runs, int views,
                              const icl_small_choice *choice, icl_error *error) {
    entry e = begin(runs->shape.s[2], runs->shape.s[3]);

    for (int i = 0; i < views; i++)
        put_view(&e, &runs->views[i]);
    put(&e, choice->kind);
    put_float(&e, choice->alpha);
    put_float(&e, choice->beta);
    return add(opencl, kind, &e, error);
}

bool icl_small_takes_product(const icl_opencl *opencl, cl_uint4 shape, cl_uint terms) {
    return is_collecting(opencl) && shape.s[0] == 1 && shape.s[1] == 1 && shape.s[2] <= MOST_ROWS &&
           terms <= MOST_TERMS && (size_t)shape.s[2] * shape.s[3] * terms <= MOST_PRODUCTS;
}

icl_status icl_small_add_product(icl_opencl *opencl, const icl_view views[3], cl_uint4 shape, cl_uint terms,
                                 cl_float alpha, cl_float beta, icl_error *error) {
    entry e = begin(shape.s[2], shape.s[3]);

    for (int i = 0; i < 3; i++)
        put_view(&e, &views[i]);
    put(&e, terms);
    put_float(&e, alpha);
    put_float(&e, beta);
    return add(opencl, ICL_SMALL_MATMUL, &e, error);
}

bool icl_small_takes_rows(const icl_opencl *opencl, icl_view views[2], cl_uint4 shape, cl_uint *rows) {
    return is_collecting(opencl) && (size_t)shape.s[0] * shape.s[1] * shape.s[2] * shape.s[3] <= MOST_ELEMENTS &&
           fold_rows(views, 2, shape, rows);
}

icl_status icl_small_add_rows(icl_opencl *opencl, const icl_small_norm *norm, icl_error *error) {
    entry e = begin(norm->rows, norm->count);

    put_view(&e, &norm->views[0]);
    put_view(&e, &norm->views[1]);
    for (int i = 2; i < 4; i++) { /* gain and shift */
        e.memory[e.operands++] = norm->views[i].memory;
        put(&e, norm->views[i].offset);
        put(&e, (cl_uint)norm->views[i].stride.s[3]);
    }
    put(&e, norm->kind);
    put(&e, norm->flags);
    put_float(&e, norm->share);
    put_float(&e, norm->epsilon);
    return add(opencl, ICL_SMALL_NORMALIZE, &e, error);
}
