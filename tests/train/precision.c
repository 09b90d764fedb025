/* The loss curve of a training whose products take bfloat16 agrees with float's within its noise: both see the same
 * data and starts, so that a seed gives a pair of curves. At each piece of the curve the mean of the pairs' differences
 * is within STANDARD_ERRORS of its own standard errors of 0. In the first half, before small differences have grown as
 * they do in any training, they spread half as much as float's curves do among the seeds at most, so that the standard
 * error is no excuse. Arguments: the device. */
#include "fixture.h"
#include "numeric/statistics.h"

enum { SEEDS = 8, PIECES = 4, PIECE = 50 }; /* steps of a piece */

/* Of seven degrees of freedom: a mean that is 0 lies beyond in one of 500 draws. */
#define STANDARD_ERRORS 5.0

/* The mean losses of each piece of the curve. */
typedef struct curve {
    double loss[PIECES];
} curve;

static icl_status train(icl_backend *backend, int seed, curve *seen, icl_error *error) {
    char own[32];
    const char *const settings[] = {"task.family=function-classes",
                                    "task.layout=separate",
                                    "task.d=1",
                                    "task.n=6",
                                    "task.noise=0",
                                    "model.family=sequence",
                                    "model.layers=2",
                                    "model.width=32",
                                    "model.heads=2",
                                    "model.norm=layer",
                                    "model.positions=learned",
                                    "train.batch=16",
                                    "train.learning_rate=0.01",
                                    "train.warmup=20",
                                    "train.steps=200",
                                    own,
                                    NULL};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    snprintf(own, sizeof own, "train.seed=%d", seed);
    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    for (int piece = 0; piece < PIECES; piece++) {
        seen->loss[piece] = 0;
        for (int step = 0; step < PIECE; step++) {
            ICL_TRY(icl_trainer_run(trainer, 1, error));
            seen->loss[piece] += icl_trainer_progress(trainer).loss / PIECE;
        }
    }
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status train_all(const char *spec, icl_precision precision, curve curves[SEEDS], icl_error *error) {
    icl_backend *backend = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = spec, .precision = precision}, &backend, error));
    for (int seed = 0; seed < SEEDS; seed++)
        ICL_TRY(train(backend, seed + 1, &curves[seed], error));
done:
    icl_backend_close(&backend);
    return status;
}

static void compare(tap_run *tap, const curve *in_float, const curve *in_bf16, int piece) {
    double losses[SEEDS], differences[SEEDS];
    bool is_other = true;

    for (int seed = 0; seed < SEEDS; seed++) {
        losses[seed] = in_float[seed].loss[piece];
        differences[seed] = in_bf16[seed].loss[piece] - losses[seed];
        is_other = is_other && differences[seed] != 0;
    }
    const double mean = icl_mean(differences, SEEDS), error = icl_standard_error(differences, SEEDS);
    const double noise = icl_standard_error(losses, SEEDS);
    const int first = piece * PIECE, last = first + PIECE;

    tap_ok(tap, is_other, "steps %d to %d: bfloat16 computes otherwise", first, last);
    tap_ok(tap, fabs(mean) <= STANDARD_ERRORS * error, "its loss differs by %.2g from %.3g, %.2f standard errors", mean,
           icl_mean(losses, SEEDS), mean / error);
    tap_ok(tap, error < noise / 2 || 2 * piece >= PIECES, "which are %.2g, and %.2g for float's own losses", error,
           noise);
}

int main(int argc, char **argv) {
    static curve in_float[SEEDS], in_bf16[SEEDS];
    const char *spec = argc > 1 ? argv[1] : "cpu";
    tap_run tap = {0};

    tap_need(train_all(spec, ICL_PRECISION_FULL, in_float, tap_error()));
    tap_need(train_all(spec, ICL_PRECISION_BF16, in_bf16, tap_error()));
    for (int piece = 0; piece < PIECES; piece++)
        compare(&tap, in_float, in_bf16, piece);
    return tap_done(&tap);
}
