/* OpenCL drivers of this machine that the loader is not told of. */
#ifndef ICLAB_TOOLS_DRIVERS_H
#define ICLAB_TOOLS_DRIVERS_H

#include "iclab/status.h"

/* Where no variable names the drivers and the system's folder lists none, but that of NVIDIA's containers does, has the
 * loader read the latter (OCL_ICD_VENDORS). Changes the environment: call it before any thread starts. */
void find_drivers(void);

/* Prints a line to stderr for each driver that is on this machine and cannot serve: one that no .icd file names, with
 * the command that writes such a file, and one that is switched off. ICL_ERROR_MEMORY where there is none. */
icl_status say_idle_drivers(icl_error *error);

#endif
