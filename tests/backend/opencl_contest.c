/* Choices that a contest kept for a device: who is opened with them and who is not, and which products go which way. */
#include "backend/opencl/ops.h"
#include "config.h"

#include "../core/scratch.h"
#include "iclab/status.h"
#include "tap.h"

static icl_backend *open_with(tap_run *tap, const char *spec, icl_backend_params params, const char *choices) {
    icl_backend *backend = NULL;
    icl_error error = {0};

    if (choices)
        setenv(ICL_CHOICES_VARIABLE, choices, 1);
    else
        unsetenv(ICL_CHOICES_VARIABLE);
    params.spec = tap_device_spec(spec);
    tap_status(tap, icl_backend_open(&params, &backend, &error), &error, "open the device");
    return backend;
}

/* Checks the words that the backend writes, and closes it. */
static void check_words(tap_run *tap, icl_backend **backend, const char *expected, const char *whose) {
    char *words = NULL;
    icl_error error = {0};

    if (*backend && tap_status(tap, icl_backend_choices(*backend, &words, &error), &error, "its choices"))
        tap_ok(tap, strcmp(words, expected) == 0, "%s: \"%s\", expected \"%s\"", whose, words, expected);
    icl_text_free(&words);
    icl_backend_close(backend);
}

/* Returns whether the last element of products of ones, [batch, n, n], is right. */
static bool multiply(icl_backend *backend, size_t batch, size_t n) {
    const size_t shape[] = {batch, n, n};
    icl_tensor t[3] = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;
    float value = 0;

    for (int i = 0; i < 3; i++) {
        ICL_TRY(icl_tensor_create(backend, 3, shape, &t[i], &error));
        ICL_TRY(icl_fill(backend, t[i], 1, &error));
    }
    ICL_TRY(icl_matmul(backend, t[0], 1, t[1], t[2], 0, &error));
    ICL_TRY(icl_tensor_read(
        icl_tensor_slice(icl_tensor_slice(icl_tensor_slice(t[0], 0, batch - 1, 1), 1, n - 1, 1), 2, n - 1, 1), &value,
        &error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&t[i]);
    return status == ICL_OK && value == (float)n;
}

/* A choice for one class changes products of that class alone. */
static void test_classes(tap_run *tap, const char *spec) {
    icl_backend *backend = open_with(tap, spec, (icl_backend_params){0}, "gemm:16x16x16x16=clblast");
    icl_opencl *opencl = backend ? icl_opencl_of(backend) : NULL;

    if (!backend)
        return;
    tap_ok(tap, multiply(backend, 3, 16) && multiply(backend, 4, 32) && opencl->clblast->state == ICL_CLBLAST_UNTESTED,
           "fewer or larger matrices: not by CLBlast");
    tap_ok(tap, multiply(backend, 4, 31) && opencl->clblast->state == ICL_CLBLAST_SERVES, "those of the class: by it");
    icl_backend_close(&backend);
}

static void test_kept(tap_run *tap, const char *spec) {
    static const char words[] = "gemm=native,gemm:256x256x256x1=clblast,attention:1024x1024x64x16=products";
    icl_backend *backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    icl_error error = {0};

    if (!backend)
        return;
    tap_status(tap, backend->functions->choices->keep(backend, words, &error), &error, "keep choices");
    check_words(tap, &backend, "", "who keeps them has its own");
    backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    check_words(tap, &backend, words, "opened again");
    backend = open_with(tap, spec, (icl_backend_params){0}, "gemm=clblast,teams=8");
    check_words(tap, &backend, "gemm=clblast,teams=8,attention:1024x1024x64x16=products", "with the variable");
    backend = open_with(tap, spec, (icl_backend_params){.fast_math = true}, NULL);
    check_words(tap, &backend, "", "with relaxed arithmetic, another device");
    setenv("ICLAB_OPENCL_KERNELS", "gpu", 1);
    backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    check_words(tap, &backend, "", "with other kernels, another device");
    setenv("ICLAB_OPENCL_KERNELS", "cpu", 1);
    backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    if (backend) {
        tap_status(tap, icl_backend_take_choices(backend, "collect=off", &error), &error, "take others");
        tap_ok(tap, icl_backend_take_choices(backend, "gemm=fast", &error) == ICL_ERROR_INPUT, "%s", error.message);
    }
    check_words(tap, &backend, "collect=off", "these replace the kept ones");
    backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    if (backend) {
        tap_status(tap, icl_backend_take_choices(backend, "", &error), &error, "take none");
        tap_status(tap, icl_backend_take_choices(backend, NULL, &error), &error, "and those it was opened with");
        tap_status(tap, backend->functions->choices->keep(backend, "gemm=fast", &error), &error, "keep nonsense");
    }
    check_words(tap, &backend, words, "as opened");
    backend = open_with(tap, spec, (icl_backend_params){0}, NULL);
    check_words(tap, &backend, "", "nonsense is not taken");
}

/* The host has no choices. */
static void test_host(tap_run *tap) {
    icl_backend *host = NULL;
    icl_error error = {0};

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &host, &error), &error, "cpu"))
        return;
    tap_ok(tap, icl_backend_take_choices(host, "gemm=native", &error) == ICL_ERROR_INPUT, "%s", error.message);
    tap_status(tap, icl_backend_take_choices(host, "", &error), &error, "none are taken");
    check_words(tap, &host, "", "cpu");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    scratch_folder cache;
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;
    const bool is_present = backend != NULL;

    icl_backend_close(&backend);
    scratch_open(&cache);
    setenv("ICLAB_CACHE_DIR", cache.folder, 1);
    setenv("ICLAB_OPENCL_KERNELS", "cpu", 1);
    if (is_present && argc > 2) {
#if ICL_HAVE_CLBLAST
        test_classes(&tap, argv[1]);
#endif
    } else if (is_present) {
        test_kept(&tap, argv[1]);
        test_host(&tap);
    }
    scratch_close(&cache);
    return tap_done(&tap);
}
