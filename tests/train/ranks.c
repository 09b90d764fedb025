/* A trainer on several ranks, which are threads here: all take over rank 0's state, including that of sequence_clip's
 * threshold and of mishaps, and continue with the bits of a single rank. tests/tools/ranks.sh tests processes under
 * mpirun. */
#include "fixture.h"
#include "thread_ranks.h"
#include "train/trainer.h"

enum { RANKS = 3, BEFORE = 5, STEPS = 12 };

static const char *const clipped[] = {"task.d=4",
                                      "task.n=6",
                                      "task.sampler=gram",
                                      "model.layers=3",
                                      "model.parameterization=diag",
                                      "train.batch=24",
                                      "train.slices=6",
                                      "train.steps=12",
                                      "train.warmup=2",
                                      "train.sequence_clip=0.1",
                                      NULL};

typedef struct one_rank {
    double values[MAX_PARAMETERS], threshold, followed_threshold;
    uint64_t followed_step, dropped;
    icl_status status;
    icl_error error;
} one_rank;

static icl_status read_numbers(icl_trainer *trainer, uint64_t *step, double *threshold, double *values,
                               icl_error *error) {
    icl_training_state state = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_training_state_create(trainer, &state, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state, error));
    *step = state.step;
    *threshold = state.threshold;
    memcpy(values, state.vectors[0], state.size * sizeof *values);
done:
    icl_training_state_clear(&state);
    return status;
}

/* Rank 0 starts after the first steps, which it takes by itself; the others start at step 0. */
static icl_status train(const icl_ranks *ranks, one_rank *own, icl_error *error) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    uint64_t step = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(make_trainer(backend, clipped, &trainer, error));
    if (ranks->index == 0) {
        ICL_TRY(icl_trainer_run(trainer, BEFORE, error));
        trainer->state.mishaps.dropped_sequences = 7;
    }
    ICL_TRY(icl_trainer_set_ranks(trainer, ranks->count > 1 ? ranks : NULL, error));
    ICL_TRY(icl_trainer_follow_first(trainer, error));
    ICL_TRY(read_numbers(trainer, &own->followed_step, &own->followed_threshold, own->values, error));
    own->dropped = icl_trainer_progress(trainer).dropped_sequences;
    ICL_TRY(icl_trainer_run(trainer, STEPS - BEFORE, error));
    ICL_TRY(read_numbers(trainer, &step, &own->threshold, own->values, error));
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    return status;
}

static void train_rank(const icl_ranks *ranks, void *user) {
    one_rank *own = (one_rank *)user + ranks->index;
    own->status = train(ranks, own, &own->error);
}

int main(void) {
    static one_rank several[RANKS], alone;
    tap_run tap = {0};

    tap_ok(&tap, thread_ranks_run(1, train_rank, &alone), "a rank on its own");
    tap_ok(&tap, thread_ranks_run(RANKS, train_rank, several), "%d ranks", RANKS);
    tap_status(&tap, alone.status, &alone.error, "alone it trains");
    tap_ok(&tap, alone.followed_threshold > 0 && alone.threshold > 0 && alone.threshold != alone.followed_threshold,
           "its threshold moves: %g, %g", alone.followed_threshold, alone.threshold);
    for (int i = 0; i < RANKS; i++) {
        const one_rank *rank = &several[i];
        tap_status(&tap, rank->status, &rank->error, "a rank trains");
        tap_ok(&tap,
               rank->followed_step == BEFORE && rank->followed_threshold == alone.followed_threshold &&
                   rank->dropped == 7,
               "rank %d follows rank 0: step %d, threshold %g, %d dropped", i, (int)rank->followed_step,
               rank->followed_threshold, (int)rank->dropped);
        tap_ok(&tap, memcmp(rank->values, alone.values, sizeof alone.values) == 0 && rank->threshold == alone.threshold,
               "and ends with the bits of one");
    }
    return tap_done(&tap);
}
