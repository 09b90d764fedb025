/*
 * Time of one training step of the versatile setting (d = 10, n = 20, L = 4, batch 2048), for each
 * parameterization named, with nothing asserted. Steps run in chunks, as in training; the median over chunks
 * is reported.
 */
#include <time.h>

#include "fixture.h"

enum { STEPS = 10, CHUNKS = 9 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(icl_backend *backend, const char *parameterization) {
    char parameterization_key[64];
    const char *const overrides[] = {
        "task.d=10",          "task.n=20", "model.layers=4", "train.batch=2048", "train.steps=1000",
        parameterization_key, NULL};
    double times[CHUNKS];
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_backend_statistics before, after;
    icl_status status = ICL_OK;

    snprintf(parameterization_key, sizeof parameterization_key, "model.parameterization=%s",
             parameterization);
    ICL_TRY(make_trainer(backend, overrides, &trainer, &error));
    ICL_TRY(icl_trainer_run(trainer, STEPS, &error)); /* programs are compiled, memory is in the pool */
    before = icl_backend_get_statistics(backend);
    for (int i = 0; i < CHUNKS; i++) {
        const double start = seconds();
        ICL_TRY(icl_trainer_run(trainer, STEPS, &error));
        times[i] = (seconds() - start) / STEPS;
    }
    after = icl_backend_get_statistics(backend);
    qsort(times, CHUNKS, sizeof *times, compare);
    printf("%-8s %-8s median %7.2f ms  min %7.2f  max %7.2f  a step, %.0f ops, %llu fallbacks\n",
           icl_backend_capabilities(backend)->spec, parameterization, 1e3 * times[CHUNKS / 2], 1e3 * times[0],
           1e3 * times[CHUNKS - 1], (double)(after.ops - before.ops) / (STEPS * CHUNKS),
           (unsigned long long)(after.fallbacks - before.fallbacks));
done:
    if (status != ICL_OK)
        printf("%s: %s\n", parameterization, error.message);
    icl_trainer_destroy(&trainer);
    return status == ICL_OK;
}

int main(int argc, char **argv) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    bool passed = true;

    if (icl_backend_open(&(icl_backend_params){.spec = argc > 1 ? argv[1] : "cpu"}, &backend, &error) !=
        ICL_OK) {
        printf("%s\n", error.message);
        return 77; /* Meson's mark of a skipped test */
    }
    if (argc < 3)
        passed = measure(backend, "diag") && measure(backend, "full");
    for (int i = 2; i < argc; i++)
        passed = measure(backend, argv[i]) && passed;
    icl_backend_close(&backend);
    return passed ? 0 : 1;
}
