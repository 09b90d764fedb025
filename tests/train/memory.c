/* A step holds as much memory as is predicted, and asking changes nothing. argv: device. */
#include <math.h>

#include "fixture.h"

#include "train/trainer.h"

#define SMALL "task.d=4", "task.n=40", "train.batch=64", "train.steps=4", "model.family=softmax", "model.layers=1"

static const char *const whole[] = {SMALL, NULL};
static const char *const sliced[] = {SMALL, "train.slices=4", NULL};
/* Workers take parts of a batch on the host only. */
static const char *const parts[] = {"task.d=4",
                                    "task.n=300",
                                    "train.batch=16",
                                    "train.steps=4",
                                    "model.family=sequence",
                                    "model.layers=2",
                                    "model.mixer=linear,softmax",
                                    "model.window=32",
                                    "model.width=8",
                                    NULL};
/* Each thread has scratch memory for as many sequences as a vector has lanes. */
static const char *const fused[] = {"task.d=4",      "task.n=400",     "train.batch=32",
                                    "train.steps=4", "model.layers=1", NULL};

/* Blocks of a pool are up to a quarter too large, or rounded otherwise, so that a prediction from a few sequences may
 * be off by a third; for the batch itself, with a model's own ops, it is off by less than a tenth. Workers reach their
 * peaks at different times, or one of them does all. */
static double check(tap_run *tap, icl_backend *backend, const char *const *settings, const char *name) {
    static float asked[MAX_PARAMETERS], unasked[MAX_PARAMETERS];
    icl_trainer *trainer = NULL, *other = NULL;
    icl_step_memory memory = {0};
    icl_error error = {0};
    double said = 0, seen = 0;

    if (tap_status(tap, make_trainer(backend, settings, &trainer, &error), &error, name) &&
        tap_status(tap, icl_trainer_measure_memory(trainer, &memory, &error), &error, "memory of a step")) {
        said = icl_step_memory_of(&memory, memory.slices);
        tap_status(tap, icl_backend_trim(backend, &error), &error, "trim");
        icl_backend_forget_peak(backend);
        tap_status(tap, icl_trainer_run(trainer, 2, &error), &error, "two steps");
        const icl_backend_statistics held = icl_backend_get_statistics(backend);
        seen = (double)(settings == parts ? held.bytes_reserved : held.bytes_peak); /* workers have no peak */
        const double off = settings == fused ? .1 : 1.0 / 3, workers = (double)icl_backend_workers(backend);
        const double most = (1 + off) * (settings == parts ? workers : 1);
        tap_ok(tap, said > 0 && said >= (1 - off) * seen && said <= most * seen, "%s: %.0f bytes said, %.0f seen", name,
               said, seen);
        (void)icl_trainer_get_parameters(trainer, asked, &error);
    }
    icl_trainer_destroy(&trainer);
    if (tap_status(tap, make_trainer(backend, settings, &other, &error), &error, name) &&
        tap_status(tap, icl_trainer_run(other, 2, &error), &error, "two steps, not asked")) {
        (void)icl_trainer_get_parameters(other, unasked, &error);
        tap_ok(tap, memcmp(asked, unasked, sizeof asked) == 0 && asked[0] != 0, "%s: asking changes no bit", name);
    }
    icl_trainer_destroy(&other);
    return memory.each;
}

/* Measures the memory of a step's gradients, while another trainer of the backend holds the memory of its last step. */
static double measure_beside(icl_backend *backend, const char *const *settings, const char *const *other,
                             icl_error *error) {
    icl_trainer *trainer = NULL, *neighbour = NULL;
    icl_step_memory memory = {0};
    icl_status status = ICL_OK;

    if (other) {
        ICL_TRY(make_trainer(backend, other, &neighbour, error));
        ICL_TRY(icl_trainer_run(neighbour, 2, error));
    }
    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    ICL_TRY(icl_trainer_measure_memory(trainer, &memory, error));
done:
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&neighbour);
    return status == ICL_OK ? memory.fixed + memory.each * (double)memory.batch : (double)NAN;
}

static void check_neighbour(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};
    const double alone = measure_beside(backend, fused, NULL, &error);
    const double beside = measure_beside(backend, fused, parts, &error);

    tap_ok(tap, alone > 0 && fabs(beside - alone) < alone / 3, "%.0f bytes of a step, %.0f beside another training",
           alone, beside);
}

/* The memory is 1000 + 100 + 10 for each sequence: 1220 bytes for 12 at once; in two slices 1160, in three 1140, in
 * twelve 1110. */
static void check_refusal(tap_run *tap) {
    const icl_step_memory memory = {.held = 1000, .fixed = 100, .each = 10, .batch = 12, .slices = 1};
    icl_error error = {0};

    tap_ok(tap, icl_step_memory_check(&memory, 1220, "a device", &error) == ICL_OK, "all that there is may be held");
    tap_ok(tap, icl_step_memory_check(&memory, 1219, "a device", &error) == ICL_ERROR_INPUT, "a byte more may not");
    tap_ok(tap, strstr(error.message, "a device") && strstr(error.message, "expected 2"), "two slices would do: %s",
           error.message);
    const icl_step_memory large = {.held = 5 << 20, .fixed = 1 << 20, .each = 1 << 20, .batch = 12, .slices = 1};
    tap_ok(tap,
           icl_step_memory_check(&large, 9 << 20, "a device", &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "would hold 18 MiB, and a device has 9; expected 4"),
           "in units of 2^20 bytes: %s", error.message);
    tap_ok(tap, icl_step_memory_slices(&memory, 1159) == 3 && icl_step_memory_slices(&memory, 1110) == 12,
           "fewer bytes take more slices, which divide the batch");
    tap_ok(tap,
           icl_step_memory_check(&memory, 1109, "a device", &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "train.batch below 12"),
           "where no slices do: %s", error.message);
}

/* The model holds a memory of 60 keys after each of 60 writes: 2,048 sequences at once would take 2 GB. */
static void check_prediction(tap_run *tap, icl_backend *backend) {
    static const char *const settings[] = {"task.family=associative",
                                           "task.keys=60",
                                           "task.writes=60",
                                           "model.family=fast-weights",
                                           "model.rule=fwm",
                                           "model.layers=1",
                                           "train.schedule=constant",
                                           "model.feature_map=dpfp:1",
                                           NULL};
    enum { SEQUENCES = 2048 };
    const size_t most = (size_t)640 << 20;
    static float outputs[SEQUENCES * 60];
    icl_trainer *trainer = NULL;
    icl_batch batch = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(make_trainer(backend, settings, &trainer, &error));
    ICL_TRY(icl_batch_create(trainer->problem.task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, &error));
    ICL_TRY(icl_task_sample(trainer->problem.task, backend, ICL_FOR_EVALUATION, 1, 0, &batch, &error));
    icl_backend_forget_peak(backend);
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, &error));
done:
    tap_status(tap, status, &error, "predictions of many sequences");
    tap_ok(tap, icl_backend_get_statistics(backend).bytes_peak < most, "hold %zu bytes, below %zu",
           icl_backend_get_statistics(backend).bytes_peak, most);
    size_t missing = 0;
    for (size_t i = 0; i < SEQUENCES; i++)
        missing += outputs[i * 60] == 0;
    tap_ok(tap, missing == 0, "every sequence has its prediction");
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (backend) {
        const double each = check(&tap, backend, whole, "at once");
        const double of_slice = check(&tap, backend, sliced, "in four slices");
        tap_ok(&tap, each > 0 && fabs(each - of_slice) <= each / 4, "each sequence takes %.0f bytes, %.0f in slices",
               each, of_slice);
        tap_ok(&tap, check(&tap, backend, fused, "by the model's own ops") > 0, "those have a batch");
        const bool host = icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST;
        tap_ok(&tap, (check(&tap, backend, parts, "in parts") == 0) == host, "parts are the host's");
        check_neighbour(&tap, backend);
        check_refusal(&tap);
        check_prediction(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
