/* The self-test of the OpenCL backend, which stands above its ops: what open.c calls, and what its own files share. */
#ifndef ICLAB_BACKEND_OPENCL_SELFTEST_H
#define ICLAB_BACKEND_OPENCL_SELFTEST_H

#include "backend/opencl/program.h"

/* ---- selftest.c ---- */

/* Compares the ops whose kernels are compiled on opening with known answers. ICL_ERROR_DEVICE with the numbers that
 * were wrong: the device is refused, unless it was opened to see how it fails. CLBlast is among what is tested only if
 * it was asked for. */
icl_status icl_self_test_all(icl_opencl *opencl, icl_error *error);

/* Does so for the ops of one program; see icl_programs. */
icl_status icl_self_test_program(icl_opencl *opencl, icl_tested which, icl_error *error);

/* ---- selftest_loops.c ---- */

/* Fails at the first element that is off by more than tolerance * (1 + |expected|), ten times that with relaxed
 * arithmetic. NaN is off. `what` names the op. */
icl_status icl_self_test_compare(const icl_opencl *opencl, const char *what, const float *got, const float *expected,
                                 size_t count, float tolerance, icl_error *error);

/* Writes small whole numbers from -5 to 5: products and short sums of them are exact. */
void icl_self_test_integers(float *values, size_t count, size_t step);

/* Creates a tensor on the device that holds these values. */
icl_status icl_self_test_upload(icl_opencl *opencl, int rank, const size_t *shape, const float *values,
                                icl_tensor *tensor, icl_error *error);

/* Multiplies whole numbers by our own kernel, or through CLBlast. */
icl_status icl_self_test_matmul(icl_opencl *opencl, bool clblast, icl_error *error);

/* Tests products, softmax attention, sums and random numbers. */
icl_status icl_self_test_by_loops(icl_opencl *opencl, icl_error *error);

/* ---- selftest_clblast.c ---- */

/* Asks CLBlast for known answers; see icl_clblast. One that is wrong fails if CLBlast was asked for; otherwise it is
 * logged, and CLBlast is refused from then on. */
icl_status icl_self_test_clblast(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error);

/* Fails where CLBlast was asked for and this build lacks it; where it has it, its answers are tested. */
icl_status icl_self_test_choose_clblast(icl_opencl *opencl, icl_error *error);

/* ---- selftest_host.c ---- */

/* Compare ops with the host's answers: those of the first program, the fused gradient, the sampler of Gram matrices,
 * lists of small operations, and both passes of the recurrence with a decay and the delta term. */
icl_status icl_self_test_against_host(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_linear_transformer(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_gram(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_small(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_recurrence(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_recurrence_gradient(icl_opencl *opencl, icl_error *error);

#endif
