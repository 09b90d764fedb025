/* Tests drivers that are not installed here; tests/driver/layer.c answers for them. What they lack is refused in one
 * clear line, and their limits are kept to, with the same bits. argv: a device of PoCL's; then, optionally, the only
 * part to run. The kernels are those of GPUs. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "../core/scratch.h"
#include "../task/frame.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/program.h"
#include "backend/opencl/queue.h"
#include "config.h"
#include "iclab/ops.h"
#include "opened.h"
#include "tap.h"

#define APPLE                                                                                                          \
    "platform=Apple;name=Apple M4;type=4;driver=1.2 1.0;version=OpenCL 1.2 ;c-version=OpenCL C 1.2 ;"                  \
    "allocation=201326592;local-memory=32768;work-group=256;vector=1"
#define MALI                                                                                                           \
    "platform=ARM Platform;name=Mali-T604;type=4;version=OpenCL 1.2 v1.r4p0;allocation=67108864;"                      \
    "work-group=64;local-memory=32768;float-abilities=6;units=4"

/* ---- Refusals ---- */

static const struct {
    const char *driver;         /* its name is Planted */
    const char *found, *needed; /* NULL: the device opens */
} refusals[] = {
    {"", NULL, NULL},
    {"available=0", "not available", "CL_DEVICE_AVAILABLE"},
    {"compiler=0", "no compiler", "CL_DEVICE_COMPILER_AVAILABLE"},
    {"little-endian=0", "big-endian", "CL_DEVICE_ENDIAN_LITTLE"},
    {"version=OpenCL 1.1 Planted", "\"OpenCL 1.1 Planted\"", "\"OpenCL 1.2\" or later"},
    {"version=OpenCL 0.9", "\"OpenCL 0.9\"", "\"OpenCL 1.2\" or later"},
    {"version=OpenCL 1.2 ", NULL, NULL},
    {"version=OpenCL 3.0 Planted", NULL, NULL},
    {"version=1.2", "\"1.2\"", "\"OpenCL 1.2\" or later"},
    {"version=OpenCL next", "\"OpenCL next\"", "\"OpenCL 1.2\" or later"},
    {"version=", "\"\"", "\"OpenCL 1.2\" or later"},
    {"c-version=OpenCL C 1.1 ", "\"OpenCL C 1.1 \"", "\"OpenCL C 1.2\" or later"},
    {"c-version=OpenCL C 1.2 ", NULL, NULL},
    {"c-version=OpenCL 1.2 ", "\"OpenCL 1.2 \"", "\"OpenCL C 1.2\" or later"},
    {"units=0", "0 compute units", "at least 1"},
    {"units=1", NULL, NULL},
    {"memory=0", "0 bytes of memory", "at least 1"},
    {"allocation=0", "0 bytes in the largest buffer", "at least 1"},
    {"vector=0", NULL, NULL},
    {"work-group=0", "0 work-items in a group", "at least 64"},
    {"work-group=63", "63 work-items in a group", "at least 64"},
    {"work-group=64", NULL, NULL},
    {"local-memory=0", "0 bytes of local memory", "at least 16384"},
    {"local-memory=16383", "16383 bytes of local memory", "at least 16384"},
    {"local-memory=16384", NULL, NULL},
    {"profile=EMBEDDED_PROFILE", "EMBEDDED_PROFILE", "iclab needs FULL_PROFILE"},
    {"profile=", "the profile \"\"", "iclab needs FULL_PROFILE"},
    {"kernel=matmul_tiles;group=32", "kernel matmul_tiles", "groups of 64 work-items"},
    {"fail-build=1", "clBuildProgram of base", "CL_BUILD_PROGRAM_FAILURE"},
    {"replace=* cuts.s0) * size>* cuts.s0) * 0", "matmul: output 0", "of matmul is"},
    {"replace=value + beta * *to>value - beta * *to", "matmul: output 0", "of matmul beta"},
    {"replace=exp(tile[t * STRIDE + row] - higher)>exp(tile[t * STRIDE + row] + higher)", "attention_forward: output",
     "of softmax forward causal"},
    {"replace=isunordered(a, b) ? a + b : fmax(a, b)) : a + b>isunordered(a, b) ? a + b : fmax(a, b)) : a - b",
     "reduce: output 0", "of sum_of_squares"},
    {"replace=fraction)) * 0x1p-24f>fraction)) * 0x1p-23f", "random_fill: output 0", "of random normal"},
    {"replace= 8)) * 0x1p-24f> 8)) * 0x1p-23f", "random_fill: output 0", "of random uniform"},
};

static void test_refusals(tap_run *tap, const char *spec) {
    char driver[256];
    opened o;

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        snprintf(driver, sizeof driver, "name=Planted;%s", refusals[i].driver);
        open_as(&o, driver, (icl_backend_params){.spec = spec});
        o.error.message[strcspn(o.error.message, "\n")] = '\0'; /* a compiler's log follows the first line */
        if (refusals[i].found)
            tap_ok(tap,
                   o.status == ICL_ERROR_DEVICE && o.warnings == 0 && strstr(o.error.message, "Planted") &&
                       strstr(o.error.message, refusals[i].found) && strstr(o.error.message, refusals[i].needed),
                   "%s: %s", refusals[i].driver, o.error.message);
        else
            tap_ok(tap, o.status == ICL_OK && o.warnings == 0, "%s: opens%s", refusals[i].driver, o.error.message);
        icl_backend_close(&o.backend);
    }
}

/* A refusal gives the wrong number, then the right one: here uniform numbers from -1.5 on are twice as far from it. */
static void test_numbers(tap_run *tap, const char *spec) {
    static const char before[] = " is ", between[] = ", expected ";
    double got = 0, expected = 0;
    opened o;

    open_as(&o, "name=Planted;replace= 8)) * 0x1p-24f> 8)) * 0x1p-23f", (icl_backend_params){.spec = spec});
    const char *first = strstr(o.error.message, before), *second = strstr(o.error.message, between);
    if (first && second) {
        got = strtod(first + strlen(before), NULL);
        expected = strtod(second + strlen(between), NULL);
    }
    tap_ok(tap, expected > -1.5 && expected != 0 && fabs(got + 1.5 - 2 * (expected + 1.5)) < 1e-6,
           "%.9g beside %.9g: %s", got, expected, o.error.message);
    icl_backend_close(&o.backend);
}

static void test_embedded(tap_run *tap, const char *spec) {
    opened o;
    open_as(&o, MALI ";profile=EMBEDDED_PROFILE", (icl_backend_params){.spec = spec});
    tap_ok(tap, o.status == ICL_ERROR_DEVICE && is_one_line(o.error.message), "an embedded Mali is refused: %s",
           o.error.message);
    open_as(&o, MALI ";profile=EMBEDDED_PROFILE", (icl_backend_params){.spec = spec, .accept_failed_self_test = true});
    tap_ok(tap, o.status == ICL_OK && o.warnings == 1 && strstr(o.warning, "less exact"),
           "and opens for those who want to know more: %s", o.warning);
    icl_backend_close(&o.backend);
    open_as(&o, MALI, (icl_backend_params){.spec = spec});
    tap_status(tap, o.status, &o.error, "one with a full profile serves");
    icl_backend_close(&o.backend);
}

/* A refused device is listed with the reason, and other devices work. */
static void test_list(tap_run *tap, const char *spec) {
    icl_device *devices = NULL;
    icl_error error = {0};
    size_t count = 0, usable = 0, listed = 0;

    setenv(VARIABLE, "name=Planted;units=0", 1);
    tap_status(tap, icl_devices_list(NULL, &devices, &count, &error), &error, "list the devices");
    for (size_t i = 0; i < count; i++) {
        usable += devices[i].usable;
        if (strcmp(devices[i].capabilities.spec, spec) != 0)
            continue;
        listed++;
        tap_ok(tap,
               !devices[i].usable && is_one_line(devices[i].verdict) &&
                   strstr(devices[i].verdict, "iclab needs at least 1"),
               "the refused device's verdict: %s", devices[i].verdict);
    }
    tap_ok(tap, listed == 1 && usable >= 2, "of %zu devices %zu are usable", count, usable);
    icl_devices_free(&devices);

    setenv(VARIABLE, "name=Planted;fail-build=1", 1);
    (void)icl_devices_list(NULL, &devices, &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (strcmp(devices[i].capabilities.spec, spec) == 0)
            tap_ok(tap, !devices[i].usable && is_one_line(devices[i].verdict), "one whose build fails: %s",
                   devices[i].verdict);
    icl_devices_free(&devices);
}

/* ---- Work whose bits must not depend on limits ---- */

enum { BATCH = 64, WIDE = 255, NORMS = 1000, SIDE = 256 };

/* A work-group of linear attention takes 64 * 256 floats of scratch, which is more than one of these tensors. */
#define GROUP_BYTES  (64 * (WIDE + 1) * (int)sizeof(float))
#define TENSOR_BYTES (BATCH * WIDE * (int)sizeof(float))

typedef struct results {
    float attended[BATCH * WIDE], threshold[2];
} results;

static icl_tensor random_tensor(icl_backend *backend, int rank, const size_t *shape) {
    const icl_random_params normal = {.key = {.seed = 3}, .distribution = ICL_NORMAL};
    icl_tensor tensor = {0};

    tap_need(icl_tensor_create(backend, rank, shape, &tensor, tap_error()));
    tap_need(icl_random_fill(backend, &normal, tensor, tap_error()));
    return tensor;
}

static icl_status attend(icl_backend *backend, float *values, icl_error *error) {
    const icl_attention_params params = {.kind = ICL_ATTENTION_LINEAR, .mask = ICL_MASK_CAUSAL, .scale = 1};
    icl_tensor t[4];

    for (int i = 0; i < 4; i++)
        t[i] = random_tensor(backend, 3, (const size_t[]){BATCH, 1, WIDE});
    const icl_status status = icl_attention_forward(backend, &params, t[0], (icl_tensor){0}, t[1], t[2], t[3], error);
    if (status == ICL_OK)
        tap_need(icl_tensor_read(t[0], values, tap_error()));
    for (int i = 0; i < 4; i++)
        icl_tensor_release(&t[i]);
    return status;
}

/* Tracks a threshold of norms, which takes a single work-group. */
static void follow(icl_backend *backend, float *values) {
    const size_t one = 1, count = NORMS;
    icl_tensor threshold = {0}, dropped = {0}, norms = random_tensor(backend, 1, &count);

    tap_need(icl_tensor_create(backend, 1, &one, &threshold, tap_error()));
    tap_need(icl_tensor_create(backend, 1, &one, &dropped, tap_error()));
    tap_need(icl_fill(backend, threshold, 0.5, tap_error()));
    tap_need(icl_track_threshold(backend, 0.01, threshold, dropped, norms, tap_error()));
    tap_need(icl_tensor_read(threshold, values, tap_error()));
    tap_need(icl_tensor_read(dropped, values + 1, tap_error()));
    icl_tensor_release(&threshold);
    icl_tensor_release(&dropped);
    icl_tensor_release(&norms);
}

static void work(icl_backend *backend, results *seen) {
    tap_need(attend(backend, seen->attended, tap_error()));
    follow(backend, seen->threshold);
}

static void compare_results(tap_run *tap, const char *driver, icl_backend_params params, const results *right) {
    static results seen;
    opened o;

    memset(&seen, 0, sizeof seen);
    open_needed(&o, driver, params);
    work(o.backend, &seen);
    tap_ok(tap, memcmp(&seen, right, sizeof seen) == 0, "%s: the same bits", *driver ? driver : "a limit of memory");
    icl_backend_close(&o.backend);
}

static void test_limits(tap_run *tap, const char *spec) {
    static results right;
    const icl_backend_params params = {.spec = spec}, little = {.spec = spec, .memory_limit = (size_t)1 << 20};
    icl_error error = {0};
    char driver[64];
    opened o;

    open_needed(&o, "", params);
    work(o.backend, &right);
    icl_backend_close(&o.backend);
    compare_results(tap, APPLE, params, &right);
    compare_results(tap, MALI, params, &right);
    compare_results(tap, "kernel=track_threshold;group=32", params, &right);
    compare_results(tap, "kernel=track_threshold;group=48", params, &right);
    compare_results(tap, "kernel=attention_linear;group=1", params, &right);
    compare_results(tap, "allocation=1048576", params, &right);
    compare_results(tap, "", little, &right);

    snprintf(driver, sizeof driver, "allocation=%d", GROUP_BYTES - 1);
    open_needed(&o, driver, params);
    tap_ok(tap,
           TENSOR_BYTES < GROUP_BYTES && attend(o.backend, right.attended, &error) == ICL_ERROR_MEMORY &&
               is_one_line(error.message) && strstr(error.message, "65536 bytes for a work-group") &&
               strstr(error.message, "at most 65535"),
           "no room for the scratch of one group: %s", error.message);
    icl_backend_close(&o.backend);
}

/* ---- Subnormal numbers ---- */

/* Returns half of the smallest normal number, as a kernel computes it. */
static float half_of_smallest(icl_backend *backend) {
    static const char text[] = "__kernel void halve(__global float *x) { x[0] *= 0.5f; }\n";
    icl_opencl *opencl = icl_opencl_of(backend);
    const size_t one = 1;
    icl_tensor number = {0};
    cl_program program = NULL;
    float value = FLT_MIN;
    cl_int code;

    tap_need(icl_tensor_create(backend, 1, &one, &number, tap_error()));
    tap_need(icl_tensor_write(number, &value, tap_error()));
    tap_need(icl_opencl_build(opencl, "halve", text, strlen(text), opencl->programs->options, &program, tap_error()));
    cl_kernel kernel = clCreateKernel(program, "halve", &code);
    cl_mem memory = icl_memory_of(&number);
    if (clSetKernelArg(kernel, 0, sizeof(cl_mem), &memory) != CL_SUCCESS ||
        clEnqueueNDRangeKernel(opencl->queue->handle, kernel, 1, NULL, &one, NULL, 0, NULL, NULL) != CL_SUCCESS)
        tap_need(icl_fail(tap_error(), ICL_ERROR_DEVICE, "halve: the launch failed"));
    tap_need(icl_tensor_read(number, &value, tap_error()));
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    icl_tensor_release(&number);
    return value;
}

/* The test setup small_gpu relies on this: PoCL flushes subnormals to zero if it is told to. */
static void test_flush(tap_run *tap, const char *spec) {
    float halves[2];
    opened o;

    for (int flush = 0; flush < 2; flush++) {
        open_needed(&o, flush ? "build-options=-cl-denorms-are-zero" : "", (icl_backend_params){.spec = spec});
        halves[flush] = half_of_smallest(o.backend);
        icl_backend_close(&o.backend);
    }
    tap_ok(tap, halves[0] == FLT_MIN / 2 && halves[1] == 0, "half of the smallest number: %g, flushed %g",
           (double)halves[0], (double)halves[1]);
}

/* Kernels are told of fused multiply-adds only if a GPU says that it has them (CL_FP_FMA, 32). */
static void test_fma(tap_run *tap, const char *spec) {
    static const struct {
        const char *driver;
        bool has_fma;
    } cases[] = {{"type=4;float-abilities=38", true}, {"type=4;float-abilities=6", false}, {"type=2", false}};
    opened o;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_needed(&o, cases[i].driver, (icl_backend_params){.spec = spec});
        const char *options = icl_opencl_of(o.backend)->programs->options;
        tap_ok(tap,
               (strstr(options, " -DICL_FMA") != NULL) == cases[i].has_fma &&
                   strncmp(options, "-cl-std=CL1.2 -DLANES=1", 23) == 0,
               "%s: compiled with %s", cases[i].driver, options);
        icl_backend_close(&o.backend);
    }
}

/* ---- The second program ---- */

/* If a program does not build, the first op that needs it fails with an error of one line, and what is built already
 * goes on working. */
static void test_second_build(tap_run *tap, const char *spec) {
    static results seen;
    drawn all = {0};
    opened o;

    open_needed(&o, "name=Planted;fail-build=2", (icl_backend_params){.spec = spec});
    open_batch(&all, o.backend, ICL_FOR_TRAINING, 4, "task.sampler=gram task.d=3 task.n=5");
    const icl_status status = icl_task_sample(all.task, o.backend, ICL_FOR_TRAINING, 1, 2, &all.batch, &o.error);
    work(o.backend, &seen); /* by ops of the first program */
    o.error.message[strcspn(o.error.message, "\n")] = '\0';
    tap_ok(tap,
           status == ICL_ERROR_DEVICE && strstr(o.error.message, "clBuildProgram of ") &&
               strstr(o.error.message, "CL_BUILD_PROGRAM_FAILURE") && strstr(o.error.message, "Planted"),
           "a second program that does not build: %s", o.error.message);
    release(&all);
    icl_backend_close(&o.backend);
}

/* ---- The cache of programs ---- */

static size_t loaded_as(const char *spec, const char *version) {
    char driver[512];
    opened o;

    snprintf(driver, sizeof driver, "%s;platform-version=%s", APPLE, version);
    open_needed(&o, driver, (icl_backend_params){.spec = spec});
    const size_t loaded = icl_opencl_of(o.backend)->programs->cache.loaded;
    icl_backend_close(&o.backend);
    return loaded;
}

/* Apple's device and driver have the same versions on every system, so programs of another system must not be
 * loaded. */
static void test_cache(tap_run *tap, const char *spec) {
    static const char old[] = "OpenCL 1.2 (Nov 22 2025 08:00:00)", new[] = "OpenCL 1.2 (Nov 22 2026 08:00:00)";
    scratch_folder scratch;

    scratch_open(&scratch);
    setenv("ICLAB_CACHE_DIR", scratch.folder, 1);
    setenv("ICLAB_PROGRAM_CACHE", "always", 1);
    tap_ok(tap, loaded_as(spec, old) == 0, "nothing to load at first");
    tap_ok(tap, loaded_as(spec, old) > 0, "its programs are found");
    tap_ok(tap, loaded_as(spec, new) == 0, "those of another system are not");
    tap_ok(tap, loaded_as(spec, new) > 0, "it has its own");
    setenv("ICLAB_CACHE_DIR", "", 1);
    unsetenv("ICLAB_PROGRAM_CACHE");
    scratch_close(&scratch);
}

/* ---- CLBlast ---- */

/* Computes out = 2 a b - out for whole numbers, so that all sums are exact. *sum receives the sum over out, weighted by
 * place. */
static icl_status multiply(icl_backend *backend, double *sum, icl_error *error) {
    static float values[SIDE * SIDE];
    const size_t shape[] = {SIDE, SIDE};
    const icl_random_params integers = {
        .key = {.seed = 3}, .distribution = ICL_CHOICE, .choice_count = 4, .choices = {-2, -1, 1, 3}};
    icl_tensor t[3] = {{0}};

    *sum = 0;
    for (int i = 0; i < 3; i++) {
        tap_need(icl_tensor_create(backend, 2, shape, &t[i], tap_error()));
        tap_need(icl_random_fill(backend, &integers, t[i], tap_error()));
    }
    const icl_status status = icl_matmul(backend, t[0], 2, t[1], t[2], -1, error);
    tap_need(icl_tensor_read(t[0], values, tap_error()));
    for (size_t i = 0; i < SIDE * SIDE; i++)
        *sum += (double)(i % 1009) * (double)values[i];
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&t[i]);
    return status;
}

static double product(icl_backend *backend) {
    double sum;

    tap_need(multiply(backend, &sum, tap_error()));
    return sum;
}

/* CLBlast's launches fail after it has passed its test. */
static void test_clblast(tap_run *tap, const char *spec) {
    static const char failing[] = "name=Planted;kernel=Xgemm*;fail-launch=1";
    double sum;
    icl_error error = {0};
    opened o;

    if (!ICL_HAVE_CLBLAST)
        return;
    open_needed(&o, "name=Planted", (icl_backend_params){.spec = spec});
    const double right = product(o.backend);
    tap_ok(tap,
           icl_opencl_of(o.backend)->clblast->state == ICL_CLBLAST_SERVES &&
               icl_backend_get_statistics(o.backend).ops == 3 + 1,
           "CLBlast serves a product, and only three fills and that product are counted");
    setenv(VARIABLE, failing, 1);
    for (int i = 0; i < 2; i++)
        tap_ok(tap, product(o.backend) == right, "%s the same numbers", i ? "and again" : "one that CLBlast fails:");
    tap_ok(tap,
           o.warnings == 1 && is_one_line(o.warning) && strstr(o.warning, "CLBlastSgemm") &&
               strstr(o.warning, "Planted") && strstr(o.warning, "native"),
           "said once: %s", o.warning);
    tap_ok(tap, icl_opencl_of(o.backend)->clblast->state == ICL_CLBLAST_REFUSED, "CLBlast is asked no more");
    icl_backend_close(&o.backend);

    open_needed(&o, "name=Planted", (icl_backend_params){.spec = spec, .gemm = ICL_GEMM_CLBLAST});
    (void)product(o.backend);
    setenv(VARIABLE, failing, 1);
    tap_ok(tap,
           multiply(o.backend, &sum, &error) == ICL_ERROR_DEVICE && is_one_line(error.message) &&
               strstr(error.message, "CLBlastSgemm"),
           "through CLBlast alone its failure is an error: %s", error.message);
    icl_backend_close(&o.backend);
}

/* If the second of four parts fails, those before it are not computed again, because their results are already added
 * into out. */
static void test_clblast_part(tap_run *tap, const char *spec) {
    opened o;

    if (!ICL_HAVE_CLBLAST)
        return;
    open_needed(&o, "name=Planted", (icl_backend_params){.spec = spec});
    const double right = product(o.backend);
    icl_opencl_of(o.backend)->clblast->operations = 1;
    tap_ok(tap, product(o.backend) == right && icl_opencl_of(o.backend)->clblast->state == ICL_CLBLAST_SERVES,
           "CLBlast serves its parts: the same numbers");
    setenv(VARIABLE, "name=Planted;kernel=Xgemm*;fail-launch=2", 1);
    tap_ok(tap, product(o.backend) == right, "one whose second part CLBlast fails: the same numbers");
    tap_ok(tap, o.warnings == 1 && icl_opencl_of(o.backend)->clblast->state == ICL_CLBLAST_REFUSED,
           "said once, and CLBlast is asked no more");
    icl_backend_close(&o.backend);
}

/* CLBlast's kernel for small products is wrong. It is refused by its self-test, which gives it small products although
 * our own kernel would be faster; and if it was asked for, the device is refused. */
static void test_wrong_clblast(tap_run *tap, const char *spec) {
    static const char driver[] = "name=Planted;replace=Multiply(result, alpha, c_value)>Multiply(result, alpha, alpha)";
    static const char refusal[] = "self-test of Planted: matmul: output 0";
    opened o;

    if (!ICL_HAVE_CLBLAST)
        return;
    open_needed(&o, driver, (icl_backend_params){.spec = spec, .gemm = ICL_GEMM_NATIVE});
    const double right = product(o.backend);
    icl_backend_close(&o.backend);
    open_needed(&o, driver, (icl_backend_params){.spec = spec});
    tap_ok(tap, product(o.backend) == right && icl_opencl_of(o.backend)->clblast->state == ICL_CLBLAST_REFUSED,
           "a wrong CLBlast: our own kernel serves the product");
    tap_ok(tap, o.warnings == 1 && strstr(o.warning, refusal) && strstr(o.warning, "native"), "said once: %s",
           o.warning);
    icl_backend_close(&o.backend);
    open_as(&o, driver, (icl_backend_params){.spec = spec, .gemm = ICL_GEMM_CLBLAST});
    tap_ok(tap, o.status == ICL_ERROR_DEVICE && is_one_line(o.error.message) && strstr(o.error.message, refusal),
           "a wrong CLBlast that was asked for: %s", o.error.message);
    icl_backend_close(&o.backend);
}

/* CLBlast takes an A100's parameters: groups of 256 work-items for a product of this size, which the driver refuses
 * here; the device's own parameters have 64. The parameters stay until the process ends, so this is the last test of
 * CLBlast. */
static void test_clblast_a100(tap_run *tap, const char *spec) {
    static const char *const choices[] = {"clblast=default", "clblast=a100"};
    double seen[2] = {0};
    opened o;

    for (int i = 0; ICL_HAVE_CLBLAST && i < 2; i++) {
        setenv(ICL_CHOICES_VARIABLE, choices[i], 1);
        open_needed(&o, "name=Planted;kernel=XgemmDirect*;group=64", (icl_backend_params){.spec = spec});
        seen[i] = product(o.backend);
        tap_ok(tap,
               o.warnings == i &&
                   icl_opencl_of(o.backend)->clblast->state == (i ? ICL_CLBLAST_REFUSED : ICL_CLBLAST_SERVES),
               "%s: %d warnings %s", choices[i], o.warnings, o.warning);
        icl_backend_close(&o.backend);
    }
    tap_ok(tap, seen[0] == seen[1], "the same numbers: %.17g", seen[1]);
    unsetenv(ICL_CHOICES_VARIABLE);
}

/* Says whether the layer is loaded: loaders skip a layer that they cannot load, without a word. */
static bool has_layer(icl_backend *backend) {
    char name[ICL_NAME_CAPACITY] = "";

    setenv(VARIABLE, "name=Planted", 1);
    (void)clGetDeviceInfo(icl_opencl_of(backend)->device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    unsetenv(VARIABLE);
    return strcmp(name, "Planted") == 0;
}

static const struct {
    const char *name;
    void (*check)(tap_run *tap, const char *spec);
} parts[] = {
    {"refusals", test_refusals},
    {"refusals", test_numbers},
    {"limits", test_embedded},
    {"limits", test_list},
    {"limits", test_limits},
    {"limits", test_flush},
    {"limits", test_fma},
    {"programs", test_second_build},
    {"programs", test_cache},
    {"products", test_clblast},
    {"products", test_clblast_part},
    {"products", test_wrong_clblast},
    {"products", test_clblast_a100},
};

int main(int argc, char **argv) {
    tap_run tap = {0};
    char spec[ICL_NAME_CAPACITY];

    setenv("ICLAB_OPENCL_KERNELS", "gpu", 1);
    unsetenv(VARIABLE);
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "opencl");
    if (!backend)
        return tap_done(&tap);
    snprintf(spec, sizeof spec, "%s", icl_backend_capabilities(backend)->spec); /* read before names are planted */
    const bool is_layered = has_layer(backend);
    icl_backend_close(&backend);
    if (!tap_ok(&tap, is_layered, "the layer of OPENCL_LAYERS is there (ninja builds it as libdriver-layer.so)"))
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc < 3 || strcmp(argv[2], parts[i].name) == 0)
            parts[i].check(&tap, spec);
    return tap_done(&tap);
}
