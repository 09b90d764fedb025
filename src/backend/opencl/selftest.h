/* What the files of the self-test share: selftest.c, selftest_host.c, selftest_clblast.c. */
#ifndef ICLAB_BACKEND_OPENCL_SELFTEST_H
#define ICLAB_BACKEND_OPENCL_SELFTEST_H

#include "backend/opencl/opencl.h"

/* The first element that is off by more than tolerance * (1 + |expected|), ten times that with relaxed arithmetic. NaN
 * is off. `what` names the op. */
icl_status icl_self_test_compare(const icl_opencl *opencl, const char *what, const float *got, const float *expected,
                                 size_t count, float tolerance, icl_error *error);

/* Small whole numbers from -5 to 5: products and short sums of them are exact. */
void icl_self_test_integers(float *values, size_t count, size_t step);

/* A tensor on the device that holds these values. */
icl_status icl_self_test_upload(icl_opencl *opencl, int rank, const size_t *shape, const float *values,
                                icl_tensor *tensor, icl_error *error);

/* The product of whole numbers by our own kernel, or through CLBlast. */
icl_status icl_self_test_matmul(icl_opencl *opencl, bool clblast, icl_error *error);

/* Whether this build has CLBlast, where it was asked for; then its answers too. */
icl_status icl_self_test_choose_clblast(icl_opencl *opencl, icl_error *error);

/* Ops beside the host's answers: those of the first program, the fused gradient, the sampler of Gram matrices, lists of
 * small operations, and both passes of the recurrence with a decay and the delta term. */
icl_status icl_self_test_against_host(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_linear_transformer(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_gram(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_small(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_recurrence(icl_opencl *opencl, icl_error *error);
icl_status icl_self_test_recurrence_gradient(icl_opencl *opencl, icl_error *error);

#endif
