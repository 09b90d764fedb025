/*
 * Plants faults under the library at link time: the linker's --wrap sends its calls to malloc's family, to the file
 * system and to OpenCL through plant_system.c and plant_opencl.c, which make the Nth call of a kind fail. The library
 * itself knows nothing of it.
 *
 * These files also count what is held (memory, files, OpenCL objects), so that a leak shows after each attempt, on any
 * build.
 */
#ifndef ICLAB_TESTS_FAULTS_PLANT_H
#define ICLAB_TESTS_FAULTS_PLANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

typedef enum fault_kind {
    FAULT_ALLOCATION = 0,
    FAULT_FILE,
    FAULT_OPENCL_SETUP, /* queries, contexts, programs, kernels, memory, and releasing them */
    FAULT_OPENCL_WORK,  /* arguments, launches, transfers */
    FAULT_OP,           /* ops of the backend, and reading and writing tensors */
    FAULT_KINDS
} fault_kind;

/* Makes the Nth call of `kind` from now on fail (counted from 1; 0: none); with `lasting`, also all that follow it. */
void fault_arm(fault_kind kind, uint64_t nth, bool lasting);
void fault_disarm(void);

/* Makes the first call of `kind` fail that is reached by a new path of functions: one that has led to no failed call
 * since fault_forget_paths. With `lasting`, all that follow it fail too. For attempts that make the same calls. */
void fault_arm_path(fault_kind kind, bool lasting);
void fault_forget_paths(void);

typedef struct fault_branches {
    unsigned forked;
    unsigned bad; /* those that did not end with code 0 */
} fault_branches;

/* Forks at the first call of each path that leads to one of `kind`. The call fails only in the child (fault_struck
 * tells a process that it is one), which then ends by itself, with code 0 if it behaved as it should, while the parent
 * waits for it. So a single run meets a fault at every path. For work on one thread. Lasts until fault_disarm. */
void fault_branch(fault_kind kind);

/* Returns the number of children since fault_branch, and of the bad ones. */
fault_branches fault_branched(void);

/* Returns the call that failed first since fault_arm, or NULL if none did. Static storage. */
const char *fault_struck(void);

/* Says whether a status is one that a failure of this kind may cause: if it is lost on the way, another error shows
 * up. */
bool fault_may_end_with(fault_kind kind, icl_status status);

/* Interrupts every second write and read by a signal, and lets the others transfer less than half of what they are
 * given: legal, and rare enough that code forgets it. */
void fault_dawdle(bool on);

/* Makes prints and appends to texts, which are allocations that may fail, always succeed: for runs of seconds. */
void fault_spare_texts(void);

typedef struct fault_holdings {
    long memory; /* blocks of the library and of cJSON */
    long files;
    long objects; /* of OpenCL */
} fault_holdings;

fault_holdings fault_held(void);

/* ---- For the planted calls ---- */

/* Counts a call; true if it has to fail. `call` has static storage. */
bool fault_strikes(fault_kind kind, const char *call);
void fault_hold_object(long change);

#endif
