/*
 * Faults planted under the library at link time: the linker's --wrap sends its calls to malloc's family, to the file
 * system and to OpenCL through plant_system.c and plant_opencl.c, which let the Nth call of a kind fail. The library
 * itself knows nothing of it.
 *
 * They also count what is held (memory, files, OpenCL objects), so that a leak shows after each attempt, on any build.
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
    FAULT_OPENCL_SETUP, /* what exists, contexts, programs, kernels, memory, and giving them back */
    FAULT_OPENCL_WORK,  /* arguments, launches, transfers */
    FAULT_OP,           /* of the backend, and reading and writing tensors */
    FAULT_KINDS
} fault_kind;

/* The Nth call of `kind` from now on (counted from 1; 0: none) fails; with `lasting`, so do all that follow it. */
void fault_arm(fault_kind kind, uint64_t nth, bool lasting);
void fault_disarm(void);

/* The first call of `kind` fails to which a path of functions leads that led to no call that has failed since
 * fault_forget_paths; with `lasting`, so do all that follow it. For attempts that make the same calls. */
void fault_arm_path(fault_kind kind, bool lasting);
void fault_forget_paths(void);

typedef struct fault_branches {
    unsigned forked;
    unsigned bad; /* of them did not end with code 0 */
} fault_branches;

/* Forks at the first call of each path that leads to one of `kind`: it fails in the child alone, which then ends by
 * itself, with code 0 where it did what it should (fault_struck tells that a process is such a child), while the parent
 * waits for it. One run so meets a fault at every path. For work on one thread. Until fault_disarm. */
void fault_branch(fault_kind kind);

/* What became of the children since fault_branch. */
fault_branches fault_branched(void);

/* The call that failed first since fault_arm, or NULL when none did. Static storage. */
const char *fault_struck(void);

/* Whether an error is one of what failed: a status that is lost on the way shows as another error later. */
bool fault_may_end_with(fault_kind kind, icl_status status);

/* Lets each write and read take one byte less than half of what it is given, after an interruption by a signal: legal,
 * and rare enough that code forgets it. */
void fault_dawdle(bool on);

/* Prints and appends to texts, which are allocations that may fail, no longer do: for runs of seconds. */
void fault_spare_texts(void);

typedef struct fault_holdings {
    long memory; /* blocks of the library's and of cJSON's */
    long files;
    long objects; /* of OpenCL */
} fault_holdings;

fault_holdings fault_held(void);

/* ---- For the planted calls ---- */

/* Counts a call; true when it is to fail. `call` has static storage. */
bool fault_strikes(fault_kind kind, const char *call);
void fault_hold_object(long change);

#endif
