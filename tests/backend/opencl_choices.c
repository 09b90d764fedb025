/* The effect of each choice of the table on a device, set by ICLAB_OPENCL_CHOICES; choices of programs and of forms are
 * tested with linear transformers and recurrences. argv: a device; then "clblast" for the choices of CLBlast, which
 * compiles for half a minute, or nothing for the others. */
#include <stdlib.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "config.h"
#include "core/allocate.h"
#include "iclab/ops.h"
#include "tap.h"

#if ICL_HAVE_CLBLAST
#include <clblast_c.h>

static struct {
    bool fails;
    size_t calls;
    char kernels[128]; /* names of kernels whose parameters were set, each followed by a space */
} overrides;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
CLBlastStatusCode __real_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values);
CLBlastStatusCode __wrap_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values);

CLBlastStatusCode __wrap_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values) {
    const size_t length = strlen(overrides.kernels);

    overrides.calls++;
    snprintf(overrides.kernels + length, sizeof overrides.kernels - length, "%s ", kernel);
    return overrides.fails ? CLBlastMissingOverrideParameter
                           : __real_CLBlastOverrideParameters(device, kernel, precision, count, names, values);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif

/* ---- A device with choices ---- */

typedef struct opened {
    icl_backend *backend;
    icl_opencl *opencl; /* of it; NULL: not open */
    icl_status status;
    icl_error error;
    size_t said, warnings; /* numbers of lines that begin with "choices:", and of warnings */
    char line[512];        /* the last of the former */
} opened;

static void record(void *user, icl_log_level level, const char *message) {
    opened *o = user;
    o->warnings += level == ICL_LOG_WARNING;
    if (level == ICL_LOG_INFO && strncmp(message, "choices:", 8) == 0) {
        o->said++;
        snprintf(o->line, sizeof o->line, "%.511s", message);
    }
}

/* Opens the device with the kernels of "cpu" or "gpu" and these choices; NULL: no choices. */
static bool open_with(opened *o, const char *spec, const char *kernels, const char *choices, icl_gemm gemm) {
    *o = (opened){0};
    setenv("ICLAB_OPENCL_KERNELS", kernels, 1);
    if (choices)
        setenv(ICL_CHOICES_VARIABLE, choices, 1);
    else
        unsetenv(ICL_CHOICES_VARIABLE);
    o->status = icl_backend_open(
        &(icl_backend_params){.spec = tap_device_spec(spec), .gemm = gemm, .log = {record, o, ICL_LOG_INFO}},
        &o->backend, &o->error);
    o->opencl = o->status == ICL_OK ? icl_opencl_of(o->backend) : NULL;
    return o->opencl != NULL;
}

/* Computes `batch` products of ones. Returns how many elements differ from k, and sets *launches. */
static size_t multiply(opened *o, size_t batch, size_t m, size_t n, size_t k, size_t *launches) {
    const size_t shapes[3][3] = {{batch, m, n}, {batch, m, k}, {batch, k, n}}, count = batch * m * n;
    const int rank = batch > 1 ? 3 : 2;
    icl_tensor t[3] = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;
    float *values = NULL;
    size_t wrong = 0;

    ICL_TRY(icl_allocate(count, sizeof *values, "product", &values, &error));
    for (int i = 0; i < 3; i++) {
        ICL_TRY(icl_tensor_create(o->backend, rank, shapes[i] + (3 - rank), &t[i], &error));
        ICL_TRY(icl_fill(o->backend, t[i], 1, &error));
    }
    *launches = icl_backend_get_statistics(o->backend).launches;
    ICL_TRY(icl_matmul(o->backend, t[0], 1, t[1], t[2], 0, &error));
    *launches = icl_backend_get_statistics(o->backend).launches - *launches;
    ICL_TRY(icl_tensor_read(t[0], values, &error));
    for (size_t i = 0; i < count; i++)
        wrong += values[i] != (float)k;
done:
    if (status != ICL_OK)
        tap_note("%s", error.message);
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&t[i]);
    icl_free(&values);
    return status == ICL_OK ? wrong : SIZE_MAX;
}

/* ---- Choices of our own kernels ---- */

static void test_opening(tap_run *tap, const char *spec) {
    opened o;

    if (open_with(&o, spec, "gpu", "linear=steps,recurrence=chunks,teams=16", ICL_GEMM_AUTO)) {
        const char *const *names = NULL;
        tap_ok(tap,
               o.said == 1 && strcmp(o.line, "choices: linear=steps,recurrence=chunks,teams=16 "
                                             "(ICLAB_OPENCL_CHOICES)") == 0,
               "said once: %s", o.line);
        tap_ok(tap,
               o.opencl->chosen.all[ICL_CHOICE_LINEAR] == ICL_LINEAR_STEPS &&
                   o.opencl->chosen.all[ICL_CHOICE_RECURRENCE] == ICL_WALK_BY_CHUNKS,
               "they are chosen");
        tap_ok(tap, o.backend->functions->choices->ways(o.backend, ICL_OP_recurrence_forward, NULL, &names) == 0,
               "where a form of the recurrence is chosen, there is no other way");
    }
    tap_status(tap, o.status, &o.error, "choices");
    icl_backend_close(&o.backend);
    for (int i = 0; i < 2; i++) {
        open_with(&o, spec, "gpu", i == 0 ? NULL : "", ICL_GEMM_AUTO);
        tap_status(tap, o.status, &o.error, i == 0 ? "no choices" : "an empty text");
        tap_ok(tap, o.said == 0, "nothing is said then");
        icl_backend_close(&o.backend);
    }
    tap_ok(tap, !open_with(&o, spec, "gpu", "linear=fast", ICL_GEMM_AUTO) && o.status == ICL_ERROR_INPUT && o.said == 0,
           "%s", o.error.message);
    icl_backend_close(&o.backend);
}

/* Checks the number of teams, and that products with long sums keep their bits: the units decide how the sums are cut,
 * not the teams. */
static void test_teams(tap_run *tap, const char *spec) {
    static const struct {
        const char *kernels, *choices;
        size_t items; /* for each unit */
    } cases[] = {{"gpu", NULL, 64 * 32},
                 {"gpu", "teams=256", 64 * 256},
                 {"gpu", "teams=1", 64},
                 {"cpu", NULL, 4},
                 {"cpu", "teams=1", 4}};
    opened o;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (open_with(&o, spec, cases[i].kernels, cases[i].choices, ICL_GEMM_AUTO))
            tap_ok(tap, o.opencl->max_items == cases[i].items * o.backend->capabilities.compute_units,
                   "kernels of %ss, %s: %zu work-items on %u units", cases[i].kernels,
                   cases[i].choices ? cases[i].choices : "by the table", o.opencl->max_items,
                   (unsigned)o.backend->capabilities.compute_units);
        tap_status(tap, o.status, &o.error, "teams");
        icl_backend_close(&o.backend);
    }
    for (size_t teams = 1; teams <= 256; teams *= 16) {
        char choices[32];
        size_t launches[2] = {0};
        snprintf(choices, sizeof choices, "teams=%zu", teams);
        if (open_with(&o, spec, "gpu", choices, ICL_GEMM_AUTO)) {
            o.backend->capabilities.compute_units = 64;
            o.opencl->launcher->seconds = 1e30; /* no launch is cut */
            const size_t wrong =
                multiply(&o, 255, 1, 1, 512, &launches[0]) + multiply(&o, 256, 1, 1, 512, &launches[1]);
            tap_ok(tap, wrong == 0 && launches[0] == 2 && launches[1] == 1,
                   "%s on 64 units: 255 long sums are split, %zu launches, 256 are not, %zu; %zu are wrong", choices,
                   launches[0], launches[1], wrong);
        }
        tap_status(tap, o.status, &o.error, choices);
        icl_backend_close(&o.backend);
    }
}

static void test_tiles(tap_run *tap, const char *spec) {
    static const struct {
        const char *choices;
        size_t products, rows;
        bool is_wide;
    } cases[] = {
        {NULL, 127, 33, false},           {NULL, 128, 33, true},          {"tiles=wide", 1, 33, true},
        {"tiles=narrow", 128, 33, false}, {"tiles=wide", 128, 32, false},
    };
    opened o;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t launches = 0;
        if (open_with(&o, spec, "gpu", cases[i].choices, ICL_GEMM_NATIVE)) {
            tap_ok(tap,
                   multiply(&o, cases[i].products, cases[i].rows, 33, 3, &launches) == 0 &&
                       o.opencl->launcher->launched[ICL_KERNEL_matmul_wide] == cases[i].is_wide &&
                       o.opencl->launcher->launched[ICL_KERNEL_matmul_tiles] != cases[i].is_wide,
                   "%s: %zu products of %zu x 33 in %s tiles", cases[i].choices ? cases[i].choices : "by the table",
                   cases[i].products, cases[i].rows, cases[i].is_wide ? "wide" : "narrow");
        }
        tap_status(tap, o.status, &o.error, "tiles");
        icl_backend_close(&o.backend);
    }
}

/* Tests `on` only if the table says on, because it may crash a compiler elsewhere. */
static void test_collect(tap_run *tap, const char *spec) {
    static const char *const choices[] = {NULL, "collect=off", "collect=on"};
    bool is_on = true; /* the table's choice */
    opened o;

    for (size_t i = 0; i < (is_on ? 3 : 2); i++) {
        size_t launches = 0;
        if (open_with(&o, spec, "cpu", choices[i], ICL_GEMM_NATIVE)) {
            if (i == 0)
                is_on = icl_opencl_choose(o.opencl, ICL_CHOICE_COLLECT, 0) == ICL_COLLECT_ON;
            const size_t wrong = multiply(&o, 1, 3, 3, 3, &launches), expected = is_on && i != 1 ? 0 : 1;
            tap_ok(tap, wrong == 0 && launches == expected,
                   "%s: a small product takes %zu launches at once, expected %zu",
                   choices[i] ? choices[i] : "by the table", launches, expected);
        }
        tap_status(tap, o.status, &o.error, "collect");
        icl_backend_close(&o.backend);
    }
}

/* ---- CLBlast ---- */

#if ICL_HAVE_CLBLAST
static void test_gemm(tap_run *tap, const char *spec) {
    static const struct {
        const char *choices;
        icl_gemm gemm;
        size_t m, n, k;
        icl_clblast_state state; /* afterwards */
    } cases[] = {
        {NULL, ICL_GEMM_AUTO, 127, 128, 128, ICL_CLBLAST_UNTESTED},
        {NULL, ICL_GEMM_AUTO, 128, 127, 128, ICL_CLBLAST_UNTESTED},
        {NULL, ICL_GEMM_AUTO, 128, 128, 127, ICL_CLBLAST_UNTESTED},
        {NULL, ICL_GEMM_AUTO, 128, 128, 128, ICL_CLBLAST_SERVES},
        {"gemm=native", ICL_GEMM_AUTO, 128, 128, 128, ICL_CLBLAST_UNTESTED},
        {"gemm=clblast", ICL_GEMM_AUTO, 1, 1, 1, ICL_CLBLAST_SERVES},
        {"gemm=clblast", ICL_GEMM_NATIVE, 128, 128, 128, ICL_CLBLAST_REFUSED},
        {"gemm=native", ICL_GEMM_CLBLAST, 1, 1, 1, ICL_CLBLAST_SERVES},
    };
    opened o;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t launches = 0;
        if (open_with(&o, spec, "gpu", cases[i].choices, cases[i].gemm)) {
            const size_t wrong = multiply(&o, 1, cases[i].m, cases[i].n, cases[i].k, &launches);
            tap_ok(tap, wrong == 0 && o.opencl->clblast->state == cases[i].state && overrides.calls == 0,
                   "%s, gemm %s: %zu x %zu x %zu leaves CLBlast in state %d",
                   cases[i].choices ? cases[i].choices : "by the table", icl_gemm_name(cases[i].gemm), cases[i].m,
                   cases[i].k, cases[i].n, (int)o.opencl->clblast->state);
        }
        tap_status(tap, o.status, &o.error, "gemm");
        icl_backend_close(&o.backend);
    }
}

/* CLBlast first refuses the parameters, then takes them. Products are right in both cases, and were tested if CLBlast
 * serves; if the device has no groups of 256 work-items, as an A100's parameters need, our own kernel serves. */
static void test_parameters(tap_run *tap, const char *spec) {
    opened o;

    for (int fails = 1; fails >= 0; fails--) {
        memset(&overrides, 0, sizeof overrides);
        overrides.fails = fails;
        if (open_with(&o, spec, "gpu", "clblast=a100", ICL_GEMM_AUTO)) {
            const bool serves = fails || o.backend->capabilities.max_work_group >= 256;
            const size_t said = fails ? 3 : !serves;
            size_t launches = 0;
            tap_ok(tap, overrides.calls == 0, "CLBlast is not asked before its first product");
            const size_t wrong = multiply(&o, 1, 200, 150, 130, &launches) + multiply(&o, 1, 300, 300, 300, &launches);
            tap_ok(tap, wrong == 0 && (o.opencl->clblast->state == ICL_CLBLAST_SERVES) == serves,
                   "products with the parameters of %s: %zu elements are wrong, CLBlast %s",
                   fails ? "the device" : "an A100", wrong, serves ? "serves" : "does not serve");
            tap_ok(tap, (o.opencl->clblast->tested != 0) == serves, "large ones were tested");
            tap_ok(tap, strcmp(overrides.kernels, "Xgemm XgemmDirect GemmRoutine ") == 0 && o.warnings == said,
                   "set once: %s, %zu warnings", overrides.kernels, o.warnings);
        }
        tap_status(tap, o.status, &o.error, "parameters");
        icl_backend_close(&o.backend);
    }
}
#endif

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *present = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;
    const bool is_present = present != NULL;

    icl_backend_close(&present);
    if (is_present && argc > 2) {
#if ICL_HAVE_CLBLAST
        test_gemm(&tap, argv[1]);
        test_parameters(&tap, argv[1]);
#endif
    } else if (is_present) {
        test_opening(&tap, argv[1]);
        test_teams(&tap, argv[1]);
        test_tiles(&tap, argv[1]);
        test_collect(&tap, argv[1]);
    }
    return tap_done(&tap);
}
