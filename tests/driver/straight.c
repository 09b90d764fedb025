/* Tests straight-line programs of linear transformers that a driver compiles wrongly, or not at all: the interpreter
 * goes on, with the same bits. argv: a device of PoCL's; "two" tests only the programs of two models. The kernels are
 * those of GPUs. */
#include "../model/fused.h"
#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "opened.h"
#include "tap.h"

enum { LAUNCHES = 12, FIRST_STRAIGHT = 9 }; /* counted from 1 */
enum { MOST_LINES = 10 };                   /* of a warning: two, and eight of the compiler's */

static const setting model = {ICL_LINEAR_FULL, true, 1, 3, 4, 9, 5};

static int lines_of(const char *text) {
    int lines = 1;
    while ((text = strchr(text, '\n')) != NULL)
        lines++, text++;
    return lines;
}

/* Computes the same gradient LAUNCHES times; the driver changes before the straight-line program is compiled. straight:
 * the number of straight-line launches; said: a part of the only warning, or NULL for no warning. */
static void check(tap_run *tap, const char *spec, const char *driver, size_t straight, const char *said) {
    static double first[MAX_PARAMETERS], later[MAX_PARAMETERS];
    size_t different = 0;
    fused f;
    opened o;

    open_needed(&o, "name=Planted", (icl_backend_params){.spec = spec});
    fused_open(&f, o.backend, &model, model.layers, GIVEN_GRAM);
    for (int launch = 1; launch <= LAUNCHES; launch++) {
        if (launch == FIRST_STRAIGHT)
            setenv(VARIABLE, driver, 1);
        run_gradient(&f, (icl_tensor){0});
        tap_need(icl_tensor_read_double(f.model.gradient, launch == 1 ? first : later, tap_error()));
        different += launch > 1 && memcmp(first, later, sizeof first) != 0;
    }
    tap_ok(tap, first[0] != 0.0 && different == 0, "all of them have the same bits");
    tap_ok(tap, icl_opencl_of(o.backend)->linear->straight_launches == straight, "%zu launches of straight lines",
           icl_opencl_of(o.backend)->linear->straight_launches);
    tap_ok(tap, lines_of(o.warning) <= MOST_LINES, "%d lines are said, at most %d", lines_of(o.warning), MOST_LINES);
    o.warning[strcspn(o.warning, "\n")] = '\0';
    tap_ok(tap,
           said ? o.warnings == 1 && strstr(o.warning, "the interpreter serves") && strstr(o.warning, said)
                : o.warnings == 0,
           "what is said: %s", o.warning);
    fused_close(&f);
    icl_backend_close(&o.backend);
}

/* Gradients and predictions take turns: neither program makes the backend forget the other. fails: no straight-line
 * program compiles, which is said once. */
static void check_two(tap_run *tap, const char *spec, bool fails) {
    static double predictions[MAX_PARAMETERS];
    fused f;
    opened o;

    open_needed(&o, "name=Planted", (icl_backend_params){.spec = spec});
    fused_open(&f, o.backend, &model, model.layers, GIVEN_GRAM);
    for (int launch = 1; launch <= LAUNCHES; launch++) {
        if (fails && launch == FIRST_STRAIGHT)
            setenv(VARIABLE, "name=Planted;fail-build=1", 1);
        run_gradient(&f, (icl_tensor){0});
        run_predict(&f, predictions);
    }
    tap_ok(tap, o.warnings == fails, "%d warnings", o.warnings);
    tap_ok(tap,
           icl_opencl_of(o.backend)->linear->straight_launches == (fails ? 0 : 2 * (LAUNCHES - FIRST_STRAIGHT + 1)),
           "%zu launches of the straight lines of two", icl_opencl_of(o.backend)->linear->straight_launches);
    fused_close(&f);
    icl_backend_close(&o.backend);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    char spec[ICL_NAME_CAPACITY];

    setenv("ICLAB_OPENCL_KERNELS", "gpu", 1);
    unsetenv("ICLAB_OPENCL_CHOICES");
    unsetenv(VARIABLE);
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "opencl");
    if (!backend)
        return tap_done(&tap);
    snprintf(spec, sizeof spec, "%s", icl_backend_capabilities(backend)->spec);
    icl_backend_close(&backend);
    if (argc > 2 && strcmp(argv[2], "two") == 0) {
        check_two(&tap, spec, false);
        check_two(&tap, spec, true);
        return tap_done(&tap);
    }
    check(&tap, spec, "name=Planted", LAUNCHES - FIRST_STRAIGHT + 1, NULL);
    check(&tap, spec, "name=Planted;fail-build=1", 0, "CL_BUILD_PROGRAM_FAILURE");
    check(&tap, spec, "name=Planted;replace=zero_ = *nothing>zero_ = *no_such_name", 0, "CL_BUILD_PROGRAM_FAILURE");
    check(&tap, spec, "name=Planted;replace=slope = 2.0f>slope = 2.5f", 1, "expected the bits of");
    return tap_done(&tap);
}
