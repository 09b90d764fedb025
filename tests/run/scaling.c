/*
 * The scaling model against numbers by hand, its words from every side, and what it measures: bytes of the records by
 * the formula, a part that shrinks with the slices, refusals at their boundaries.
 */
#include "iclab/scaling.h"
#include "backend/contract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/train.h"
#include "tap.h"

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* 5 us a message, 1 GB/s, 10 ms on one rank, 3600 steps. */
static const icl_scaling_params params = {.network = {5e-6, 1e9}, .single = 10e-3, .steps = 3600};

/* ---- By hand ---- */

static void check_rows(tap_run *tap) {
    /* 8 ranks, 400 kB: three messages, 15 us; 400 kB * 7/8 = 350 kB, 350 us; 1250 + 100 + 15 + 350 = 1715 us. */
    const icl_scaling_step eight = {
        .ranks = 8, .slices = 16, .divided = 1250e-6, .repeated = 100e-6, .gathered = 400e3};
    icl_scaling_row row = icl_scaling_predict(&eight, &params);
    tap_ok(tap, near(row.latency, 15e-6) && near(row.bandwidth, 350e-6) && near(row.step, 1715e-6),
           "8 ranks: %.4g + %.4g of %.4g s", row.latency, row.bandwidth, row.step);
    tap_ok(tap, near(row.speed_up, 10e-3 / 1715e-6) && near(row.efficiency, 10e-3 / 1715e-6 / 8),
           "5.83 times as fast, 73 %% of 8");
    tap_ok(tap, near(row.hours, 1715e-6) && near(row.rank_hours, 8 * 1715e-6), "3600 steps: hours, and 8 times those");
    tap_ok(tap, row.limit == ICL_LIMIT_COMPUTE && row.slices == 16, "limited by compute");

    /* As soon as it is 512 KiB a ring: seven messages. One byte less: three. */
    icl_scaling_step ring = eight;
    ring.gathered = 524288;
    tap_ok(tap, near(icl_scaling_predict(&ring, &params).latency, 35e-6), "512 KiB: 7 messages around the ring");
    ring.gathered = 524287;
    tap_ok(tap, near(icl_scaling_predict(&ring, &params).latency, 15e-6), "a byte less: 3 by doubling");
    ring.ranks = 9;
    tap_ok(tap, near(icl_scaling_predict(&ring, &params).latency, 20e-6), "9 ranks need 4");

    const icl_scaling_step alone = {.ranks = 1, .slices = 1, .divided = 10e-3, .gathered = 1e9};
    row = icl_scaling_predict(&alone, &params);
    tap_ok(tap, row.latency == 0 && row.bandwidth == 0 && near(row.efficiency, 1), "one rank gathers nothing");
}

static void check_cores(tap_run *tap) {
    const icl_scaling_step step = {.ranks = 4, .slices = 4, .divided = 2e-3, .repeated = 1e-3, .gathered = 8};
    icl_scaling_params shared = params;

    shared.cores = 4;
    shared.threads = 1;
    tap_ok(tap, near(icl_scaling_predict(&step, &shared).divided, 2e-3), "4 ranks of a thread on 4 cores: as alone");
    shared.cores = 2;
    const icl_scaling_row row = icl_scaling_predict(&step, &shared);
    tap_ok(tap, near(row.divided, 4e-3) && near(row.repeated, 2e-3), "on 2 cores: twice as long");
    shared.threads = 2;
    tap_ok(tap, near(icl_scaling_predict(&step, &shared).divided, 8e-3), "of 2 threads each: four times");
}

/* ---- In words ---- */

static icl_scaling_limit limit_of(double divided, double repeated, double latency, double bandwidth) {
    const icl_scaling_step step = {
        .ranks = 2, .slices = 2, .divided = divided, .repeated = repeated, .gathered = 2 * bandwidth};
    const icl_scaling_params with = {.network = {latency, 1}, .single = 1, .steps = 1};
    return icl_scaling_predict(&step, &with).limit;
}

static void check_limits(tap_run *tap) {
    tap_ok(tap, limit_of(4, 3, 2, 1) == ICL_LIMIT_COMPUTE && limit_of(3, 4, 2, 1) == ICL_LIMIT_REPEATED,
           "compute, or what is repeated");
    tap_ok(tap, limit_of(3, 2, 4, 1) == ICL_LIMIT_LATENCY && limit_of(3, 2, 1, 4) == ICL_LIMIT_BANDWIDTH,
           "latency, or bandwidth");
}

/* Whether the verdict of these rows is the text. */
static bool says(const icl_scaling_row *rows, size_t count, const char *expected) {
    icl_text text = {0};
    const bool same = icl_scaling_verdict(rows, count, &text, NULL) == ICL_OK && strcmp(text.bytes, expected) == 0;
    if (!same)
        tap_note("%s", text.bytes ? text.bytes : "");
    icl_text_release(&text);
    return same;
}

static void check_verdicts(tap_run *tap) {
    icl_scaling_row rows[] = {{.ranks = 1, .step = 8, .efficiency = 1, .limit = ICL_LIMIT_COMPUTE},
                              {.ranks = 2, .step = 5, .efficiency = .8, .limit = ICL_LIMIT_COMPUTE},
                              {.ranks = 4, .step = 4, .efficiency = .5, .limit = ICL_LIMIT_LATENCY},
                              {.ranks = 8, .step = 6, .efficiency = .17, .limit = ICL_LIMIT_BANDWIDTH}};
    static const char first[] = "1 to 2 ranks are limited by compute: the slices of the batch, which more ranks divide "
                                "further.\n4 ranks are limited by latency: the messages of the gather, one after the "
                                "other.\n8 ranks are limited by bandwidth: the bytes of the gather, which hold the "
                                "gradients of all slices.\n";
    char expected[600];

    snprintf(expected, sizeof expected, "%sA step is shortest on 4 ranks; half of the efficiency is left up to 4.\n",
             first);
    tap_ok(tap, says(rows, 4, expected), "three limits in turn; half of the efficiency is just left");
    rows[2].efficiency = .49;
    rows[2].step = 8.1;
    snprintf(expected, sizeof expected, "%sA step is shortest on 2 ranks; half of the efficiency is left up to 2.\n",
             first);
    tap_ok(tap, says(rows, 4, expected), "a little less, and it is not");
    rows[0].limit = ICL_LIMIT_REPEATED;
    tap_ok(tap,
           says(rows, 1,
                "1 rank is limited by repeated work: every rank adds the gradients of all slices and makes the whole "
                "update.\nA step is shortest on 1 rank; half of the efficiency is left up to 1.\n"),
           "one rank, what it repeats");
}

/* ---- Measured ---- */

static icl_status make_recipe(icl_recipe **recipe, icl_error *error) {
    static const char *const overrides[] = {"task.d=3",
                                            "task.n=5",
                                            "model.layers=2",
                                            "model.heads=1",
                                            "train.batch=24",
                                            "train.slices=4",
                                            "model.parameterization=gd++"};
    icl_status status = icl_recipe_create_complete(recipe, error);

    for (size_t i = 0; i < sizeof overrides / sizeof *overrides && status == ICL_OK; i++)
        status = icl_recipe_override(*recipe, overrides[i], error);
    return status;
}

/* slices, and bytes by slices (N + 2 b + 1) 8, b sequences in each. */
static void check_step(tap_run *tap, const icl_bench_params *with, size_t size, size_t ranks, size_t slices) {
    icl_scaling_step step;
    icl_error error = {0};
    const icl_status status = icl_scaling_measure(with, ranks, &step, &error);
    const size_t bytes = slices * (size + 2 * (24 / slices) + 1) * 8;

    tap_ok(tap, status == ICL_OK && step.slices == slices && step.gathered == (double)bytes,
           "%zu ranks: %zu slices, %.0f bytes %s", ranks, step.slices, step.gathered, error.message);
    tap_ok(tap, step.divided > 0 && step.repeated > 0, "seconds of both parts: %.3g, %.3g", step.divided,
           step.repeated);
}

static icl_status check_measuring(tap_run *tap, icl_error *error) {
    icl_bench_params with = {.recipe_name = "small"};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_scaling_step step;
    icl_error refused = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(&recipe, error));
    with.recipe = recipe;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &with.device, error));
    ICL_TRY(icl_trainer_create(with.device, recipe, &trainer, error));
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    check_step(tap, &with, size, 1, 4);
    check_step(tap, &with, size, 4, 4);
    check_step(tap, &with, size, 5, 6);
    check_step(tap, &with, size, 24, 24);
    tap_ok(tap,
           icl_scaling_measure(&with, 25, &step, &refused) == ICL_ERROR_INPUT &&
               strstr(refused.message, "25 ranks share 24 sequences"),
           "25 of 24 sequences: %s", refused.message);
    const size_t memory = with.device->capabilities.global_memory;
    icl_scaling_measure(&with, 4, &step, NULL);
    with.device->capabilities.global_memory = (size_t)(2 * step.gathered);
    tap_ok(tap, icl_scaling_measure(&with, 4, &step, &refused) == ICL_OK, "records of half of the memory");
    with.device->capabilities.global_memory = (size_t)(2 * step.gathered) - 1;
    tap_ok(tap,
           icl_scaling_measure(&with, 4, &step, &refused) == ICL_ERROR_INPUT &&
               strstr(refused.message, "4 ranks: each holds the gradients of all 4 slices"),
           "of a byte more: %s", refused.message);
    with.device->capabilities.global_memory = memory;
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&with.device);
    return status;
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};

    check_rows(&tap);
    check_cores(&tap);
    check_limits(&tap);
    check_verdicts(&tap);
    tap_status(&tap, check_measuring(&tap, &error), &error, "measuring");
    return tap_done(&tap);
}
