/* Weight decay skips the parameters that a model marks, and no others. argv: device. */
#include "fixture.h"

#include "train/trainer.h"

#define SMALL                                                                                                          \
    "task.d=3", "task.n=5", "train.batch=8", "train.steps=4", "train.warmup=0", "train.schedule=constant",             \
        "train.learning_rate=0.01"
#define SEQUENCE                                                                                                       \
    "model.family=sequence", "model.layers=1", "model.width=8", "model.heads=2", "model.mixer=softmax",                \
        "model.norm=layer", SMALL

/* Reads the parameters before and after one step with this decay; the caller destroys *trainer. */
static icl_status step(icl_backend *backend, const char *const *settings, const char *decay, double *before,
                       double *after, icl_trainer **trainer, icl_error *error) {
    const char *all[24];
    size_t count = 0;
    icl_training_state state = {0};
    icl_status status = ICL_OK;

    for (; settings[count]; count++)
        all[count] = settings[count];
    all[count++] = decay;
    all[count] = NULL;
    ICL_TRY(make_trainer(backend, all, trainer, error));
    ICL_TRY(icl_training_state_create(*trainer, &state, error));
    ICL_TRY(icl_trainer_read_state(*trainer, &state, error));
    memcpy(before, state.vectors[0], state.size * sizeof *before);
    ICL_TRY(icl_trainer_run(*trainer, 1, error));
    ICL_TRY(icl_trainer_read_state(*trainer, &state, error));
    memcpy(after, state.vectors[0], state.size * sizeof *after);
done:
    icl_training_state_clear(&state);
    return status;
}

/* The first step's gradient does not depend on the decay, so that p' = (1 - rate decay) p - update: a parameter that
 * decays differs by rate decay p between the two runs, up to the roundings of three numbers of the size of p and the
 * update, rate; one that does not decay has the same bits. */
static void check_marked(tap_run *tap, icl_backend *backend) {
    static const char *const settings[] = {SEQUENCE, NULL};
    static double before[MAX_PARAMETERS], kept[MAX_PARAMETERS], decayed[MAX_PARAMETERS];
    const bool is_float = icl_backend_capabilities(backend)->element_size == sizeof(float);
    const double unit = is_float ? 0x1p-24 : 0x1p-53, rate = 0.01, decay = 4;
    size_t marked = 0, unmarked = 0, moved = 0, wrong = 0;
    icl_trainer *first = NULL, *second = NULL;
    icl_error error = {0};

    if (tap_status(tap, step(backend, settings, "train.weight_decay=0", before, kept, &first, &error), &error,
                   "no decay") &&
        tap_status(tap, step(backend, settings, "train.weight_decay=4", before, decayed, &second, &error), &error,
                   "decay")) {
        const icl_model *model = icl_trainer_model(second);
        for (size_t k = 0; k < icl_model_parameter_count(model); k++) {
            const icl_parameter_info *info = icl_model_parameter(model, k);
            for (size_t i = info->offset; i < info->offset + info->count; i++) {
                const double expected = info->without_decay ? 0 : rate * decay * before[i];
                const double bound = info->without_decay ? 0 : 8 * unit * (fabs(before[i]) + rate);
                marked += info->without_decay;
                unmarked += !info->without_decay;
                moved += info->without_decay && kept[i] != before[i];
                wrong += !(fabs(kept[i] - decayed[i] - expected) <= bound);
            }
        }
        tap_ok(tap, wrong == 0 && marked > 0 && unmarked > 0 && moved > 0,
               "%zu parameters do not decay (%zu moved), %zu do: %zu are wrong", marked, moved, unmarked, wrong);
        tap_ok(tap, first && !first->problem.decays.buffer, "without decay there is no mask");
        tap_ok(tap, second && second->problem.decays.buffer, "with it there is one");
    }
    icl_trainer_destroy(&first);
    icl_trainer_destroy(&second);
}

static void check_unmarked(tap_run *tap, icl_backend *backend) {
    static const char *const settings[] = {SMALL, "model.layers=1", NULL};
    static double before[MAX_PARAMETERS], after[MAX_PARAMETERS];
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    if (tap_status(tap, step(backend, settings, "train.weight_decay=4", before, after, &trainer, &error), &error,
                   "a model without marks"))
        tap_ok(tap, !trainer->problem.decays.buffer, "a model that marks nothing has no mask");
    icl_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (backend) {
        check_marked(&tap, backend);
        check_unmarked(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
