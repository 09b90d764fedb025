/* What the scaling model starts from: a rank's step without its network, and a network without its steps. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/host.h"
#include "iclab/scaling.h"
#include "numeric/statistics.h"
#include "run/bench/bench.h"
#include "train/trainer.h"

/* ---- A step ---- */

/* Other ranks bring nothing, at once: their records stay 0. Where all bring a number, hashes and outcomes that are to
 * agree, they have rank 0's. */
static icl_status gather_nothing(void *data, const size_t *sizes, size_t count, icl_error *error) {
    uint64_t *numbers = data;
    size_t equal = 0;

    (void)error;
    while (equal < count && sizes[equal] == sizeof *numbers)
        equal++;
    for (size_t i = 1; i < count && equal == count; i++)
        numbers[i] = numbers[0];
    return ICL_OK;
}

static icl_status share_nothing(void *data, size_t size, size_t from, icl_error *error) {
    (void)data;
    (void)size;
    (void)from;
    (void)error;
    return ICL_OK;
}

static const icl_ranks_calls no_network = {.broadcast = share_nothing, .gather = gather_nothing};

/* A rank of that many, as its trainer sees the world. */
typedef struct standing {
    icl_ranks ranks;
    icl_trainer *trainer;
} standing;

static icl_status stand_for(size_t index, size_t count, standing *is, icl_error *error) {
    is->ranks = (icl_ranks){.index = index, .count = count, .local_count = 1, .calls = &no_network};
    ICL_CHECK(icl_allocate(count, sizeof *is->ranks.sizes, "sizes of ranks", &is->ranks.sizes, error));
    return icl_allocate(count, sizeof *is->ranks.numbers, "numbers of ranks", &is->ranks.numbers, error);
}

static void release(standing *is) {
    icl_free(&is->ranks.sizes);
    icl_free(&is->ranks.numbers);
}

static icl_status call_steps(void *context, size_t calls, icl_error *error) {
    standing *is = context;

    is->trainer->ranks = &is->ranks;
    return icl_trainer_run(is->trainer, calls, error);
}

/* train.slices of that many ranks. */
static icl_status choose_slices(const icl_recipe *recipe, size_t ranks, size_t *slices, icl_error *error) {
    const size_t batch = (size_t)icl_recipe_count(recipe, "train", "batch");

    *slices = (size_t)icl_recipe_count(recipe, "train", "slices");
    if (*slices >= ranks)
        return ICL_OK;
    if (batch < ranks)
        return icl_fail(error, ICL_ERROR_INPUT, "%zu ranks share %zu sequences: expected train.batch of %zu or more",
                        ranks, batch, ranks);
    for (*slices = ranks; batch % *slices != 0;)
        ++*slices;
    return ICL_OK;
}

static icl_status check_records(const icl_bench_params *params, const icl_scaling_step *step, icl_error *error) {
    const double memory = (double)icl_backend_capabilities(params->device)->global_memory;

    if (memory == 0 || step->gathered <= memory / 2) /* 0: unknown */
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%zu ranks: each holds the gradients of all %zu slices, %.3g GB: expected at most half of the "
                    "memory, %.3g GB",
                    step->ranks, step->slices, step->gathered / 1e9, memory / 2e9);
}

/* The bytes of all records, from a trainer of one slice: one of many would allocate them. */
static icl_status count_bytes(const icl_bench_params *params, const icl_recipe *recipe, icl_scaling_step *step,
                              icl_error *error) {
    const double sequences = (double)icl_recipe_count(recipe, "train", "batch") / (double)step->slices;
    icl_model *model = NULL;
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(task), &model, error));
    step->gathered = (double)step->slices * ((double)icl_model_size(model) + 2 * sequences + 1) * sizeof(double);
    ICL_TRY(check_records(params, step, error));
done:
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    return status;
}

/* A rank that has no slice at all, the one behind the last, does what every rank repeats. */
static icl_status measure(const icl_bench_params *params, const icl_recipe *recipe, icl_scaling_step *step,
                          icl_error *error) {
    standing first = {0}, idle = {0};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create(params->device, recipe, &trainer, error));
    ICL_TRY(stand_for(0, step->ranks, &first, error));
    ICL_TRY(stand_for(step->slices, step->slices + 1, &idle, error));
    first.trainer = idle.trainer = trainer;
    icl_bench_contender contenders[] = {
        {.backend = params->device, .function = call_steps, .context = &first},
        {.backend = step->slices > 1 ? params->device : NULL, .function = call_steps, .context = &idle}};
    ICL_TRY(icl_bench_take_turns(contenders, 2, params->seconds, error));
    step->repeated = step->slices > 1 ? contenders[1].times.median : 0;
    step->divided = fmax(contenders[0].times.median - step->repeated, 0);
done:
    icl_trainer_destroy(&trainer);
    release(&first);
    release(&idle);
    return status;
}

icl_status icl_scaling_measure(const icl_bench_params *params, size_t ranks, icl_scaling_step *step, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;
    char slices[64];

    *step = (icl_scaling_step){.ranks = ranks};
    ICL_TRY(choose_slices(params->recipe, ranks, &step->slices, error));
    ICL_TRY(icl_bench_steady_recipe(params, &recipe, error));
    snprintf(slices, sizeof slices, "train.slices=%zu", step->slices);
    ICL_TRY(icl_recipe_override(recipe, slices, error));
    ICL_TRY(count_bytes(params, recipe, step, error));
    ICL_TRY(measure(params, recipe, step, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- A network ---- */

enum { ROUNDS = 9, SMALL_CALLS = 50, LARGE_CALLS = 2, LARGE_WIDTH = 131072 };

/* The median seconds of a gather of a row from each rank; rows [ranks][width]. */
static icl_status time_gathers(const icl_ranks *ranks, double *rows, size_t width, size_t calls, double *seconds,
                               icl_error *error) {
    double times[ROUNDS];

    for (size_t round = 0; round < ROUNDS; round++) {
        const double start = icl_clock_seconds();
        for (size_t i = 0; i < calls; i++)
            ICL_CHECK(icl_ranks_gather_rows(ranks, rows, ranks->count, width, error));
        times[round] = (icl_clock_seconds() - start) / (double)calls;
    }
    *seconds = icl_median(times, ROUNDS);
    return ICL_OK;
}

icl_status icl_network_measure(const icl_ranks *ranks, icl_network *network, icl_error *error) {
    const double count = (double)ranks->count, bytes = count * LARGE_WIDTH * sizeof(double);
    double *rows = NULL, small = 0, large = 0;
    icl_status status = icl_allocate(ranks->count, LARGE_WIDTH * sizeof *rows, "rows to gather", &rows, error);

    ICL_TRY(icl_ranks_agree(ranks, status, error));
    ICL_TRY(time_gathers(ranks, rows, 1, SMALL_CALLS, &small, error));
    ICL_TRY(time_gathers(ranks, rows, LARGE_WIDTH, LARGE_CALLS, &large, error));
    network->latency = small / icl_scaling_messages(ranks->count, count * sizeof(double));
    large -= icl_scaling_messages(ranks->count, bytes) * network->latency;
    network->bandwidth = bytes * (count - 1) / count / fmax(large, 1e-9);
done:
    icl_free(&rows);
    return status;
}
