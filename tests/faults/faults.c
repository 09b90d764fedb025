/*
 * Calls of the library fail, one after the other: allocations, file calls, calls of OpenCL, ops. README.md says what
 * must hold each time.
 *
 * test-faults CASE [WORD [WORD]]
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "faults.h"
#include "plant.h"

typedef struct fault_case {
    const char *name;
    void (*run)(tap_run *tap);
    void (*run_with)(tap_run *tap, const char *first, const char *second); /* with the words; "" if one is missing */
} fault_case;

static const fault_case cases[] = {
    {"life", .run_with = fault_lives},
    {"ops", .run_with = fault_ops},
    {"gradients", fault_gradients},
    {"cases", fault_cases},
    {"texts", .run_with = fault_texts},
    {"command", .run_with = fault_command_lines},
    {"reproduction", .run_with = fault_reproductions},
    {"devices", fault_devices},
#if ICL_HAVE_OPENCL
    {"blocks", fault_blocks},
    {"launches", fault_launches},
#endif
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    tap_run tap = {0};

    fault_arm(FAULT_KINDS, 0, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) != 0)
            continue;
        else if (cases[i].run)
            cases[i].run(&tap);
        else
            cases[i].run_with(&tap, argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
    tap_ok(&tap, tap.count > 0, "there is such a case");
    return tap_done(&tap);
}
