/* Long launches are cut into slices: how long these are, and that every op has the bits of launches in one piece. argv:
 * device, to be run with the kernels of GPUs. */
#include "backend/opencl/launch.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

/* One in EVERY cases of an op is run, and all cases before the first that is cut: slices are slow, because the host
 * waits for each. */
#define EVERY 16

static void check_slice(tap_run *tap, size_t expected, size_t left, size_t least, size_t before, double rate,
                        const char *what) {
    const size_t got = icl_slice_units(left, least, before, rate, .1);
    tap_ok(tap, got == expected, "a slice of %s: %zu of %zu units, expected %zu", what, got, left, expected);
}

static void test_lengths(tap_run *tap) {
    check_slice(tap, 100, 1000, 1, 0, 1000, "a tenth of a second at 1000 units a second");
    check_slice(tap, 1000, 1000, 1, 0, 1e4, "all units, which the seconds just allow");
    check_slice(tap, 999, 1000, 1, 0, 9.9999e3, "one unit fewer");
    check_slice(tap, 1000, 1000, 1, 0, 1e300, "all units at any rate");
    check_slice(tap, 64, 1000, 64, 0, 1e-9, "the least number of units");
    check_slice(tap, 1, 1, 64, 0, 1e-9, "the last unit, fewer than the least number");
    check_slice(tap, 20, 1000, 1, 10, 1000, "twice as many as before");
    check_slice(tap, 19, 1000, 1, 10, 190, "one unit less than twice as many");
    check_slice(tap, 5, 1000, 1, 10, 50, "fewer than before, at a lower rate");
    check_slice(tap, 15, 15, 1, 10, 1e9, "what is left, less than twice as many");
}

/* The decision, tested from both sides: a launch of a quarter of the allowed seconds is not cut. */
static void test_decision(tap_run *tap, icl_opencl *opencl) {
    const double seconds = opencl->launcher->seconds;

    opencl->launcher->seconds = .1;
    opencl->launcher->rates[ICL_KERNEL_fill] = 1000;
    tap_ok(tap, !icl_opencl_is_long(opencl, ICL_KERNEL_fill, 25) && icl_opencl_is_long(opencl, ICL_KERNEL_fill, 26),
           "at 1000 operations a second and .1 s 25 operations are one launch, 26 are cut");
    opencl->launcher->rates[ICL_KERNEL_fill] = 0;
    tap_ok(tap, !icl_opencl_is_long(opencl, ICL_KERNEL_fill, 1e6) && icl_opencl_is_long(opencl, ICL_KERNEL_fill, 1e9),
           "of a kernel that was never measured 1e6 operations are one launch, 1e9 are cut");
    opencl->lanes = 4;
    tap_ok(tap, !icl_opencl_is_long(opencl, ICL_KERNEL_fill, 1e30), "kernels of CPUs are never cut");
    opencl->lanes = 1;
    opencl->launcher->seconds = seconds;
}

/* Runs a case twice, and sets its outputs. Returns its launches. */
static size_t run_case(tap_run *tap, const icl_case *c, icl_backend *backend, icl_case_result *result) {
    icl_error error = {0};
    const size_t before = icl_backend_get_statistics(backend).launches;
    if (icl_case_run(c, backend, result, &error) != ICL_OK)
        tap_ok(tap, false, "%s: %s", c->name, error.message);
    return icl_backend_get_statistics(backend).launches - before;
}

/* Compares a case run whole with the case in slices of the least length; counts those that differ; *most: the most
 * launches that slices added. */
static void compare_case(tap_run *tap, const icl_case *c, icl_backend *whole, icl_backend *cut, size_t *differ,
                         size_t *most) {
    icl_case_result one = {0}, many = {0};
    const size_t launches = run_case(tap, c, whole, &one), slices = run_case(tap, c, cut, &many);

    if (one.elements != many.elements ||
        (one.elements > 0 && memcmp(one.outputs, many.outputs, one.elements * sizeof *one.outputs) != 0) ||
        !many.guards_intact) {
        tap_note("%s differs in slices", c->name);
        ++*differ;
    }
    if (slices - launches > *most)
        *most = slices - launches;
    icl_case_result_clear(&one);
    icl_case_result_clear(&many);
}

/* Returns whether an op is cut: the threshold after a whole batch is not, because one group has all norms. An update is
 * cut in its squares of a long gradient. */
static bool is_cut(int op) {
    return op != ICL_OP_track_threshold;
}

static void test_bits(tap_run *tap, icl_backend *whole, icl_backend *cut) {
    size_t count = 0, seen[ICL_OP_COUNT] = {0}, differ[ICL_OP_COUNT] = {0}, most[ICL_OP_COUNT] = {0};
    icl_case *cases = NULL;
    icl_error error = {0};

    if (!tap_status(tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        return;
    for (size_t i = 0; i < count; i++)
        if (cases[i].values == ICL_VALUES_RANDOM &&
            (seen[cases[i].op]++ % EVERY == 0 || (is_cut(cases[i].op) && most[cases[i].op] == 0)))
            compare_case(tap, &cases[i], whole, cut, &differ[cases[i].op], &most[cases[i].op]);
    for (int op = 0; op < ICL_OP_COUNT; op++) {
        tap_ok(tap, differ[op] == 0 && (most[op] > 0) == is_cut(op),
               "%s: %zu cases with other bits in slices; at most %zu launches more", icl_op_infos[op].name, differ[op],
               most[op]);
    }
    icl_free(&cases);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *whole = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;
    icl_backend *cut = whole ? tap_open_device(&tap, argv[1]) : NULL;

    test_lengths(&tap);
    if (whole && cut && tap_ok(&tap, icl_opencl_of(cut)->lanes == 1, "the kernels are those of GPUs")) {
        test_decision(&tap, icl_opencl_of(cut));
        icl_opencl_of(whole)->launcher->seconds = 1e30;
        icl_opencl_of(cut)->launcher->seconds = 1e-30;
        test_bits(&tap, whole, cut);
    }
    icl_backend_close(&cut);
    icl_backend_close(&whole);
    return tap_done(&tap);
}
