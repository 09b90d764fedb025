/* Matrix products through CLBlast. Offsets, leading dimensions and strides count elements. */
#include "backend/opencl/clblast.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"

#include <clblast_c.h>

/* A matrix as BLAS knows it: row-major with a leading dimension, or the transpose of one. */
typedef struct matrix {
    bool transposed;
    size_t leading, stride; /* stride: between the matrices of a batch */
} matrix;

/* False when neither axis is contiguous or rows overlap. */
static bool matrix_of(const icl_tensor *t, matrix *result) {
    const size_t rows = t->shape[t->rank - 2], columns = t->shape[t->rank - 1];
    const size_t row = t->stride[t->rank - 2], column = t->stride[t->rank - 1];

    result->stride = t->rank == 3 ? t->stride[0] : 0;
    if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
        result->transposed = false;
        result->leading = row >= columns ? row : columns;
        return true;
    }
    if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
        result->transposed = true;
        result->leading = column >= rows ? column : rows;
        return true;
    }
    return false;
}

bool icl_clblast_fits(const icl_tensor *operands) {
    matrix out, a, b;
    const icl_tensor *left = &operands[1];
    return operands[0].rank <= 3 && left->shape[left->rank - 1] > 0 && matrix_of(&operands[0], &out) &&
           !out.transposed && matrix_of(left, &a) && matrix_of(&operands[2], &b) &&
           (operands[0].rank == 2 || out.stride > 0);
}

icl_status icl_clblast_matmul(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                              icl_error *error) {
    const icl_tensor *out = &operands[0], *left = &operands[1], *right = &operands[2];
    const size_t m = out->shape[out->rank - 2], n = out->shape[out->rank - 1];
    const size_t k = left->shape[left->rank - 1];
    const float alpha = (float)params->alpha, beta = (float)params->beta;
    const char *call;
    matrix c, a, b;
    cl_event *event;
    CLBlastStatusCode code;

    if (!matrix_of(out, &c) || !matrix_of(left, &a) || !matrix_of(right, &b))
        return icl_fail(error, ICL_ERROR_INPUT, "matmul: CLBlast cannot express these strides");
    ICL_CHECK(icl_queue_flush(opencl, error));
    const CLBlastTranspose a_transpose = a.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose b_transpose = b.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const icl_status status = icl_profile_next(opencl, &event, error); /* of the last of its kernels */
    if (status != ICL_OK)
        return status;
    if (out->rank == 2) {
        call = "CLBlastSgemm";
        code = CLBlastSgemm(CLBlastLayoutRowMajor, a_transpose, b_transpose, m, n, k, alpha, icl_memory_of(left),
                            left->offset, a.leading, icl_memory_of(right), right->offset, b.leading, beta,
                            icl_memory_of(out), out->offset, c.leading, &opencl->queue->handle, event);
    } else {
        call = "CLBlastSgemmStridedBatched";
        code = CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, a_transpose, b_transpose, m, n, k, alpha,
                                          icl_memory_of(left), left->offset, a.leading, a.stride, icl_memory_of(right),
                                          right->offset, b.leading, b.stride, beta, icl_memory_of(out), out->offset,
                                          c.leading, c.stride, out->shape[0], &opencl->queue->handle, event);
    }
    if (code != CLBlastSuccess)
        return icl_cl_fail(opencl, (int)code, call, error);
    opencl->queue->profile.count += event != NULL;
    opencl->backend->statistics.launches++;
    return ICL_OK;
}

/* Its database entries for "A100-PCIE-40GB" in single precision (src/database/kernels/ of CLBlast 1.5.3): the kernels
 * of small and of large products, and the third root of m n k from which a product is large. */
void icl_clblast_use_a100(const icl_opencl *opencl) {
    struct {
        const char *kernel;
        size_t count;
        const char *names[16];
        size_t values[16];
    } sets[] = {
        {"Xgemm",
         16,
         {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB", "NDIMC", "NWG", "SA", "SB", "STRM", "STRN",
          "VWM", "VWN"},
         {0, 1, 32, 2, 8, 8, 32, 16, 16, 64, 1, 1, 0, 0, 4, 4}},
        {"XgemmDirect",
         10,
         {"KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD", "PADA", "PADB", "VWMD", "VWND", "WGD"},
         {8, 8, 16, 32, 16, 1, 1, 2, 1, 32}},
        {"GemmRoutine", 1, {"XGEMM_MIN_INDIRECT_SIZE"}, {1984}},
    };

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const CLBlastStatusCode code = CLBlastOverrideParameters(opencl->device, sets[i].kernel, CLBlastPrecisionSingle,
                                                                 sets[i].count, sets[i].names, sets[i].values);
        if (code != CLBlastSuccess)
            icl_log_write(&opencl->backend->log, ICL_LOG_WARNING,
                          "CLBlastOverrideParameters of %s on %s: %s; the device's own parameters serve",
                          sets[i].kernel, opencl->backend->capabilities.name, icl_cl_error_name((int)code));
    }
}

void icl_clblast_forget(void) {
    CLBlastClearCache();
}
