/* The cases of test-faults; the table in faults.c names them. */
#ifndef ICLAB_TESTS_FAULTS_FAULTS_H
#define ICLAB_TESTS_FAULTS_FAULTS_H

#include "tap.h"

void fault_blocks(tap_run *tap);
void fault_cases(tap_run *tap);
void fault_devices(tap_run *tap);
void fault_gradients(tap_run *tap);
void fault_launches(tap_run *tap);

/* name: a command; part: only command lines that contain it. */
void fault_command_lines(tap_run *tap, const char *name, const char *part);

/* device: its spec; kind: what fails: "memory", "files", "opencl" or "cache". */
void fault_lives(tap_run *tap, const char *device, const char *kind);

/* A device. */
void fault_ops(tap_run *tap, const char *device, const char *none);

/* name: a reproduction; kind: "ops" fails ops instead of allocations. */
void fault_reproductions(tap_run *tap, const char *name, const char *kind);

/* name: that of rows of texts.c; settings: a part of theirs. */
void fault_texts(tap_run *tap, const char *name, const char *settings);

#endif
