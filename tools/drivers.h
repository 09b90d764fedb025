/* OpenCL drivers of this machine that the loader is not told of. */
#ifndef ICLAB_TOOLS_DRIVERS_H
#define ICLAB_TOOLS_DRIVERS_H

#include "iclab/status.h"

/* Has the loader read the folder of NVIDIA's containers (OCL_ICD_VENDORS) where that lists drivers, the system's folder
 * lists none, and no variable names others. Sets PATH to the system's own where it is not set or empty: PoCL runs ld,
 * and without a PATH it aborts the process. Both change the environment: call it before any thread starts. */
void prepare_drivers(void);

/* Prints a line to stderr for each driver that is on this machine and cannot serve: one that no .icd file names, with
 * the command that writes such a file, and one that is switched off. ICL_ERROR_MEMORY where there is none. */
icl_status say_idle_drivers(icl_error *error);

#endif
