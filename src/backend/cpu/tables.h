/* The kernels of each instruction set that the build holds: KERNEL(table) without options of its own, and where
 * ICL_CPU_VARIANTS says so those of AVX2 and AVX-512. */
#ifndef ICLAB_BACKEND_CPU_TABLES_H
#define ICLAB_BACKEND_CPU_TABLES_H

#include "backend/cpu/kernels/kernels.h"

#if ICL_CPU_VARIANTS
#if ICL_CPU_DOUBLE
#define TABLE_OF(isa) icl_ref_kernel_##isa##_table
#else
#define TABLE_OF(isa) icl_cpu_kernel_##isa##_table
#endif
extern const HOST(kernels) TABLE_OF(avx2), TABLE_OF(avx512);
extern const icl_strict_kernels icl_strict_kernel_avx2_table, icl_strict_kernel_avx512_table;
#endif

#endif
