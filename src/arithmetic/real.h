/*
 * The element type of a host backend. Every file here is compiled twice: with ICL_CPU_DOUBLE 0 for "cpu" and 1 for
 * "ref", the oracle. Shared names pass through HOST(), so that both can live in one library.
 */
#ifndef ICLAB_ARITHMETIC_REAL_H
#define ICLAB_ARITHMETIC_REAL_H

#include <float.h>
#include <math.h>

#ifndef ICL_CPU_DOUBLE
#define ICL_CPU_DOUBLE 0
#endif

#if ICL_CPU_DOUBLE
typedef double real;
#define HOST(name)       icl_ref_##name
#define REAL_EXP(x)      exp(x)
#define REAL_LOG(x)      log(x)
#define REAL_LOG1P(x)    log1p(x)
#define REAL_TANH(x)     tanh(x)
#define REAL_SIN(x)      sin(x)
#define REAL_COS(x)      cos(x)
#define REAL_SQRT(x)     sqrt(x)
#define REAL_ABSOLUTE(x) fabs(x)
#define REAL_MAX         DBL_MAX
#else
typedef float real;
#define HOST(name)       icl_cpu_##name
#define REAL_EXP(x)      expf(x)
#define REAL_LOG(x)      logf(x)
#define REAL_LOG1P(x)    log1pf(x)
#define REAL_TANH(x)     tanhf(x)
#define REAL_SIN(x)      sinf(x)
#define REAL_COS(x)      cosf(x)
#define REAL_SQRT(x)     sqrtf(x)
#define REAL_ABSOLUTE(x) fabsf(x)
#define REAL_MAX         FLT_MAX
#endif

/* Small operands are packed into zero-padded rows of this many elements, so that inner loops have a fixed length. */
#define LANES 16

#endif
