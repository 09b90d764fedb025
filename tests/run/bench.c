/* Tests `iclab bench` without a clock: the counts of operations and bytes, the results of the cases, and the order of
 * calls. */
#include "run/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "tap.h"

/* ---- Work ---- */

static const icl_bench_case *find(const icl_bench_case *cases, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(cases[i].c.name, name) == 0)
            return &cases[i];
    return NULL;
}

static void check_work(tap_run *tap, const icl_bench_case *cases, size_t count) {
    static const struct {
        const char *name;
        double flops, bytes; /* NaN: not counted */
    } known[] = {
        {"copy (4Mi)", (double)NAN, 2 * 4 * 4194304.0},
        {"reduce sum (4Mi)", 4194304, 4 * 4194305.0},
        {"matmul (1024x1024)(1024x1024)", 2147483648.0, 3 * 4 * 1048576.0},
        {"matmul batch 2048 (21x21)(21x21)", 2048 * 2 * 9261.0, 3 * 4 * 2048 * 441.0},
        {"matmul (43008x21)(21x21)", 2 * 43008 * 441.0, 4 * (2 * 43008 * 21 + 441.0)},
        {"matmul_strict batch 2048 (20x20)(20x1)", 2 * 2048 * 400.0, 4 * 2048 * (400 + 40.0)},
        /* K^T V and Q (K^T V): one product of 21 x 21 matrices each; backward has five of them */
        {"attention linear forward n 21 d 21 (2048)", 2048 * 2 * 2 * 9261.0, 4 * 4 * 2048 * 441.0},
        {"attention linear backward n 21 d 21 (2048)", 2048 * 5 * 2 * 9261.0, 7 * 4 * 2048 * 441.0},
        /* Q K^T and P V; backward also dP, dQ, dK, dV, with the scores once more */
        {"attention softmax forward n 256 d 64 (16)", 16 * 2 * 2 * 256 * 256 * 64.0,
         4 * (4 * 16 * 256 * 64 + 16 * 256.0)},
        {"attention softmax backward n 256 d 64 (16)", 16 * 5 * 2 * 256 * 256 * 64.0,
         4 * (8 * 16 * 256 * 64 + 16 * 256.0)},
        {"attention softmax forward causal n 256 d 64 (16)", 16 * 2 * 256 * 256 * 64.0,
         4 * (4 * 16 * 256 * 64 + 16 * 256.0)},
        /* three states both ways and the gradient, with norm, clipping and threshold; losses and
         * norms in, measures out */
        {"update_step adam (3528, 2048)", 16 * 3528 + 2048.0, 4 * (7 * 3528.0 + 2 + 2 * 2048 + 3)},
        {"update_step sgd (1Mi, 2048)", 6 * 1048576.0 + 2048, 4 * (5 * 1048576.0 + 2048 + 3)},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const icl_bench_case *c = find(cases, count, known[i].name);
        if (!tap_ok(tap, c != NULL, "there is a case %s", known[i].name))
            continue;
        const icl_bench_work work = icl_bench_work_of(&c->c, 4), doubles = icl_bench_work_of(&c->c, 8);
        tap_ok(tap,
               (work.flops == known[i].flops || (isnan(work.flops) && isnan(known[i].flops))) &&
                   work.bytes == known[i].bytes && doubles.bytes == 2 * work.bytes,
               "it does %.0f operations on %.0f bytes", work.flops, work.bytes);
    }
}

/* Counts the additions and multiplications of an m x k by k x n product, by walking through it. */
static double product(size_t m, size_t k, size_t n) {
    double flops = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t l = 0; l < k; l++)
                flops += 2;
    return flops;
}

/* Counts dense layers in Gram space product by product, in the order of dense.c of
 * src/backend/cpu/kernels/linear_transformer/. */
static void check_linear_work(tap_run *tap) {
    enum { D = 6, N = 9, BATCH = 5, HEADS = 3, DEPTH = 5, FULL = DEPTH - 2 };
    const icl_linear_transformer_params params = {ICL_LINEAR_FULL, 8, DEPTH, HEADS, 1, ICL_SPACE_GRAM};
    const double square = product(D, D, D), vector = product(D, D, 1);
    /* G Q and P (G Q) for each head, A G, half of (A G) A^T */
    const double layer = HEADS * 2 * square + 1.5 * square;
    /* dA R^T, P^T dA, G dR, dR Q^T for each head, S A, T G, half of A^T T */
    const double back = HEADS * 4 * square + 2.5 * square;
    /* dA R^T, P^T dA, G dR for each head, S (A G) */
    const double first = HEADS * 3 * square + square;
    /* q and w by three matrices for each head of two layers; rho, eta and y of v and w, except rho of v; G y */
    const double head = (5 + 5 * HEADS) * HEADS * vector + HEADS * vector;
    /* eta, rho and x of v and w; dq' and its way back; dP and dQ */
    const double head_back = HEADS * (2 + 4 + 10 * HEADS) * vector;
    /* a product of half of D^2 for each vector that G is multiplied by, and the query's way through the heads */
    const double handed_on = (HEADS * (2 * HEADS + 2) + HEADS) * vector;

    tap_ok(tap,
           fabs(icl_linear_transformer_flops(&params, D - 1, N, BATCH, false) -
                BATCH * (product(D, N, D) / 2 + FULL * layer + head)) < 0.5,
           "dense layers forward");
    tap_ok(tap,
           fabs(icl_linear_transformer_flops(&params, D - 1, 0, BATCH, true) -
                BATCH * (FULL * layer + first + (FULL - 1) * back + head + head_back + handed_on)) < 0.5,
           "forward and backward, with the Gram matrix given");

    icl_linear_transformer_params shallow = params;
    shallow.depth = 3;
    tap_ok(tap,
           fabs(icl_linear_transformer_flops(&shallow, D - 1, 0, BATCH, true) -
                BATCH * (layer + first + head + head_back + handed_on)) < 0.5,
           "with one layer before the last two");
    shallow.depth = 2;
    tap_ok(tap, fabs(icl_linear_transformer_flops(&shallow, D - 1, 0, BATCH, true) - BATCH * (head + head_back)) < 0.5,
           "and with none");
}

/* ---- Cases ---- */

/* Returns the sum of the absolute values; NaN if they cannot be read. */
static double magnitude(icl_tensor tensor) {
    const size_t count = icl_tensor_count(&tensor);
    double *values = NULL, sum = 0;
    if (icl_allocate(count, sizeof *values, "values", &values, NULL) != ICL_OK ||
        icl_tensor_read_double(tensor, values, NULL) != ICL_OK) {
        icl_free(&values);
        return (double)NAN;
    }
    for (size_t i = 0; i < count; i++)
        sum += fabs(values[i]);
    icl_free(&values);
    return sum;
}

/* Runs a case twice, as the clock would: its results stay finite and are not all 0. */
static bool is_sound(const icl_case *c, icl_backend *backend) {
    icl_tensor operands[ICL_MAX_OPERANDS] = {{0}};
    icl_error error = {0};
    double sum = 0;
    bool sound = icl_bench_operands(c, backend, operands, &error) == ICL_OK;

    for (int run = 0; run < 2 && sound; run++)
        sound = icl_describe(c->op)->call(c, backend, operands, &error) == ICL_OK;
    for (int i = 0; i < icl_op_infos[c->op].outputs && sound; i++)
        sum += operands[i].buffer ? magnitude(operands[i]) : 0;
    sound = sound && isfinite(sum) && sum > 0;
    if (!sound)
        tap_note("%s: %s", c->name, error.message);
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        icl_tensor_release(&operands[i]);
    return sound;
}

static void check_cases(tap_run *tap, const icl_bench_case *cases, size_t count) {
    icl_backend *backend = tap_open_device(tap, "cpu");
    int of_op[ICL_OP_COUNT] = {0}, missing = 0;

    for (size_t i = 0; i < count; i++) {
        of_op[cases[i].c.op]++;
        missing += find(cases, count, cases[i].c.name) != &cases[i];
    }
    tap_ok(tap, missing == 0, "no two cases share a name");
    for (int op = 0; op < ICL_OP_COUNT; op++)
        tap_ok(tap, of_op[op] > 0, "%s has cases", icl_op_infos[op].name);
    for (size_t i = 0; backend && i < count; i++)
        if (!cases[i].is_long)
            tap_ok(tap, is_sound(&cases[i].c, backend), "%s computes something", cases[i].c.name);
    icl_backend_close(&backend);
}

/* ---- Turns ---- */

typedef struct record {
    char order[4096]; /* a letter for each turn: the contender that was called */
    size_t length, calls[2];
} record;

typedef struct player {
    record *all;
    int number;
} player;

static icl_status play(void *context, size_t calls, icl_error *error) {
    const player *self = context;
    record *all = self->all;
    (void)error;
    all->calls[self->number] += calls;
    if (all->length < sizeof all->order - 1)
        all->order[all->length++] = (char)('a' + self->number);
    return ICL_OK;
}

static void check_turns(tap_run *tap) {
    record all = {.length = 0};
    player players[2] = {{&all, 0}, {&all, 1}};
    icl_backend *backend = tap_open_device(tap, "cpu");
    icl_error error = {0};
    icl_bench_contender contenders[2] = {{.backend = backend, .function = play, .context = &players[0]},
                                         {.backend = backend, .function = play, .context = &players[1]}};

    tap_status(tap, icl_bench_take_turns(contenders, 2, 0, &error), &error, "two contenders, no time");
    tap_ok(tap, strcmp(all.order, "aabbababab") == 0, "two calls of each to warm up, then three turns each: %s",
           all.order);
    for (int i = 0; i < 2; i++) {
        const icl_bench_times *times = &contenders[i].times;
        tap_ok(tap,
               times->turns == 3 && times->calls_a_turn == 1 && times->min >= 0 && times->min <= times->median &&
                   times->median <= times->max,
               "three turns of one call; the median lies between");
    }
    contenders[1].backend = NULL;
    all = (record){.length = 0};
    tap_status(tap, icl_bench_take_turns(contenders, 2, 0, &error), &error, "one contender");
    tap_ok(tap, strcmp(all.order, "aaaaa") == 0 && all.calls[1] == 0, "the other one is not called: %s", all.order);
    icl_backend_close(&backend);
}

/* ---- Ways ---- */

static const char *const two_ways[] = {"one way", "the other"};
#define WAYS_CASE "matmul_strict batch 2048 (20x20)(20x1)"

/* The ways that the bench chooses and the rows that it shows, in order. */
typedef struct seen_ways {
    size_t chosen[8], choices, rows[8], row_count; /* rows: the number of choices before each */
    bool names_ways, counts_calls;
} seen_ways;

static size_t count_ways(const icl_backend *backend, icl_op op, const void *params, const char *const **names) {
    (void)backend;
    (void)params;
    *names = two_ways;
    return op == ICL_OP_matmul_strict ? 2 : 0;
}

/* Runs the op: the device's own clock goes on by a quarter of a second. */
static icl_status tick(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    (void)params;
    (void)operands;
    (void)error;
    backend->statistics.device_seconds += .25;
    return ICL_OK;
}

static void note_nothing(icl_backend *backend, icl_op op, size_t way) {
    (void)backend;
    (void)op;
    (void)way;
}

/* Notes the chosen way; the backend's log carries the pointer to the test's notes. */
static void note_way(icl_backend *backend, icl_op op, size_t way) {
    seen_ways *seen = backend->log.user;
    (void)op;
    if (seen->choices < 8)
        seen->chosen[seen->choices++] = way;
}

static icl_status note_row(void *user, const icl_bench_row *row, icl_error *error) {
    seen_ways *seen = user;
    (void)error;
    if (strncmp(row->name, WAYS_CASE, strlen(WAYS_CASE)) == 0 && seen->row_count < 2) {
        char name[128];
        snprintf(name, sizeof name, "%s, %s", WAYS_CASE, two_ways[seen->row_count]);
        seen->names_ways = (seen->row_count == 0 || seen->names_ways) && strcmp(row->name, name) == 0;
        seen->counts_calls = (seen->row_count == 0 || seen->counts_calls) && row->on_device == .25 && row->ops == 1;
        seen->rows[seen->row_count++] = seen->choices;
    }
    return ICL_OK;
}

/* An op with two ways has a row for each. A row has a call's time and number of ops on the device that has a clock.
 * Afterwards the backend chooses again. */
static void check_ways(tap_run *tap) {
    icl_backend *backend = tap_open_device(tap, "cpu"), *clock = tap_open_device(tap, "cpu:threads=1");
    seen_ways seen = {0};
    icl_error error = {0};

    if (!backend || !clock)
        return;
    const icl_backend_functions *own = backend->functions, *own_of_clock = clock->functions;
    icl_backend_functions with_ways = *own, with_clock = *own_of_clock;
    with_ways.choices = &(icl_choice_functions){.ways = count_ways, .choose_way = note_way};
    backend->functions = &with_ways;
    backend->log = (icl_log){.user = &seen};
    with_clock.ops[ICL_OP_matmul_strict] = tick;
    with_clock.choices = &(icl_choice_functions){.choose_way = note_nothing};
    clock->functions = &with_clock;
    const icl_bench_params params = {
        .device = backend, .profiled = clock, .pattern = WAYS_CASE, .callback = note_row, .user = &seen};
    tap_status(tap, icl_bench(&params, &error), &error, "a bench of an op with two ways");
    tap_ok(tap, seen.row_count == 2 && seen.names_ways, "%zu rows, named by the ways", seen.row_count);
    tap_ok(tap,
           seen.choices == 4 && seen.chosen[0] == 0 && seen.chosen[1] == ICL_ANY_WAY && seen.chosen[2] == 1 &&
               seen.chosen[3] == ICL_ANY_WAY && seen.rows[0] == 1 && seen.rows[1] == 3,
           "each is timed in its way, and then the choice is the backend's again");
    tap_ok(tap, seen.counts_calls, "each takes a quarter of a second of the clock, and is one op");
    backend->functions = own;
    clock->functions = own_of_clock;
    icl_backend_close(&clock);
    icl_backend_close(&backend);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_bench_case *cases = NULL;
    size_t count = 0;

    if (tap_status(&tap, icl_bench_cases_create(&cases, &count, &error), &error, "the cases")) {
        check_work(&tap, cases, count);
        check_linear_work(&tap);
        check_cases(&tap, cases, count);
    }
    check_turns(&tap);
    check_ways(&tap);
    icl_free(&cases);
    return tap_done(&tap);
}
