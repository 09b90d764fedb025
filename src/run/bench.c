/* Benchmarks of ops and of training steps on a device, beside the host. */
#include "run/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/host.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "model/linear_transformer.h"
#include "numeric/statistics.h"
#include "task/task.h"
#include "train/settings.h"

/* ---- Cases: shapes that descriptions of ops name, and what a call does by the textbook ---- */

static icl_bench_case case_of(icl_op op, const icl_timed_shape *row) {
    icl_bench_case bench = {.c = {.op = op, .params = row->params}, .is_long = row->is_long};

    snprintf(bench.c.name, sizeof bench.c.name, "%s", row->name);
    for (int k = 0; k < ICL_MAX_OPERANDS; k++) {
        bench.c.rank[k] = row->shapes[k].rank;
        memcpy(bench.c.shape[k], row->shapes[k].of, sizeof bench.c.shape[k]);
    }
    return bench;
}

icl_status icl_bench_cases_create(icl_bench_case **cases, size_t *count, icl_error *error) {
    size_t rows = 0;

    *count = 0;
    for (int op = 0; op < ICL_OP_COUNT; op++)
        rows += icl_describe((icl_op)op)->timed_count;
    ICL_CHECK(icl_allocate(rows, sizeof **cases, "bench cases", cases, error));
    for (int op = 0; op < ICL_OP_COUNT; op++)
        for (size_t i = 0; i < icl_describe((icl_op)op)->timed_count; i++)
            (*cases)[(*count)++] = case_of((icl_op)op, &icl_describe((icl_op)op)->timed[i]);
    return ICL_OK;
}

/* Fills each operand with different normal numbers, then lets the op overwrite those that need other values. */
icl_status icl_bench_operands(const icl_case *c, icl_backend *backend, icl_tensor operands[ICL_MAX_OPERANDS],
                              icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    const icl_described_op *op = icl_describe(c->op);

    for (int i = 0; i < info->outputs + info->inputs; i++) {
        const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)i}, .distribution = ICL_NORMAL};
        if (c->rank[i] < 0)
            continue;
        ICL_CHECK(icl_tensor_create(backend, c->rank[i], c->shape[i], &operands[i], error));
        ICL_CHECK(icl_random_fill(backend, &normal, operands[i], error));
    }
    if (op->fill)
        ICL_CHECK(op->fill(c, backend, operands, error));
    return ICL_OK;
}

/* Counts the bytes: each operand once, but twice an output that is also read. */
icl_bench_work icl_bench_work_of(const icl_case *c, size_t element_size) {
    const icl_op_info *info = &icl_op_infos[c->op];
    const icl_described_op *op = icl_describe(c->op);
    double elements = 0;

    for (int i = 0; i < info->outputs + info->inputs; i++) {
        const bool is_updated = i < info->outputs && op->is_updated && op->is_updated(c, i);
        if (c->rank[i] >= 0)
            elements += (double)icl_case_count(c, i) * (is_updated ? 2 : 1);
    }
    return (icl_bench_work){op->flops ? op->flops(c) : (double)NAN, elements * (double)element_size};
}

/* ---- The clock ---- */

enum { MIN_TURNS = 3, MAX_TURNS = 15, MAX_CALLS = 4096 };

static icl_status take_turn(const icl_bench_contender *contender, size_t calls, double *seconds, icl_error *error) {
    const double start = icl_clock_seconds();

    ICL_CHECK(contender->function(contender->context, calls, error));
    ICL_CHECK(icl_backend_sync(contender->backend, error));
    *seconds = (icl_clock_seconds() - start) / (double)calls;
    return ICL_OK;
}

/* The first call compiles. The calls after it show how many calls make a turn. */
static icl_status warm_up(icl_bench_contender *contender, double turn, icl_error *error) {
    double seconds;
    size_t calls = 1;

    ICL_CHECK(take_turn(contender, 1, &contender->first, error));
    ICL_CHECK(take_turn(contender, 1, &seconds, error));
    while (turn > 0 && calls < MAX_CALLS && seconds * (double)calls < turn) {
        const double wanted = seconds > 0 ? turn / seconds : MAX_CALLS;
        const size_t most = calls * 8 < MAX_CALLS ? calls * 8 : MAX_CALLS;
        calls = wanted < (double)calls + 1 ? calls + 1 : wanted < (double)most ? (size_t)wanted : most;
        ICL_CHECK(take_turn(contender, calls, &seconds, error));
    }
    contender->times.calls_a_turn = calls;
    return ICL_OK;
}

static void summarize(icl_bench_times *times, double *seconds, size_t turns) {
    times->turns = turns;
    times->median = icl_median(seconds, turns); /* icl_median sorts them */
    times->min = seconds[0];
    times->max = seconds[turns - 1];
}

icl_status icl_bench_take_turns(icl_bench_contender *contenders, size_t count, double seconds, icl_error *error) {
    enum { MOST = 2 };
    double times[MOST][MAX_TURNS];
    const double end = icl_clock_seconds() + seconds;
    size_t turns = 0;

    if (count > MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "bench: %zu contenders, expected at most %d", count, MOST);
    for (size_t i = 0; i < count; i++)
        if (contenders[i].backend)
            ICL_CHECK(warm_up(&contenders[i], seconds / (double)(MAX_TURNS * count), error));
    while (turns < MIN_TURNS || (turns < MAX_TURNS && icl_clock_seconds() < end)) {
        for (size_t i = 0; i < count; i++)
            if (contenders[i].backend)
                ICL_CHECK(take_turn(&contenders[i], contenders[i].times.calls_a_turn, &times[i][turns], error));
        turns++;
    }
    for (size_t i = 0; i < count; i++)
        if (contenders[i].backend)
            summarize(&contenders[i].times, times[i], turns);
    return ICL_OK;
}

/* ---- Peaks ---- */

/* Peaks are measured with loops that do nothing else: multiply-adds with each instruction set, and memory traffic. */

/* Elements of each of the triad's three operands: more than the caches of most machines hold. */
#define ELEMENTS ((size_t)16 << 20)

typedef struct peak_run {
    icl_backend *backend;
    icl_peak_params params;
    const icl_tensor *operands;
    double amount; /* work of one call */
} peak_run;

static icl_status call_peak(void *context, size_t calls, icl_error *error) {
    peak_run *run = context;
    icl_status status = ICL_OK;
    for (size_t i = 0; i < calls && status == ICL_OK; i++)
        status = run->backend->functions->peak(run->backend, &run->params, run->operands, &run->amount, error);
    return status;
}

/* *rate stays NaN if the machine cannot do it. */
static icl_status measure_peak(const icl_bench_params *params, const icl_tensor *operands, icl_peak_params what,
                               const char *name, double *rate, icl_error *error) {
    peak_run run = {.backend = params->device, .params = what, .operands = operands};
    icl_bench_contender contender = {.backend = params->device, .function = call_peak, .context = &run};

    ICL_CHECK(call_peak(&run, 1, error));
    if (run.amount <= 0)
        return ICL_OK;
    ICL_CHECK(icl_bench_take_turns(&contender, 1, params->seconds / 2, error));
    *rate = run.amount / contender.times.min; /* the fastest turn: disturbances only lower the rate */
    const bool flops = what.kind == ICL_PEAK_MULTIPLY_ADD;
    const icl_bench_row row = {
        .name = name,
        .device = params->device->capabilities.spec,
        .times = contender.times,
        .compile = (double)NAN,
        .on_device = (double)NAN,
        .gflops = flops ? 1e-9 * run.amount / contender.times.median : (double)NAN,
        .gbytes_per_s = flops ? (double)NAN : 1e-9 * run.amount / contender.times.median,
        .peak_share = contender.times.min / contender.times.median,
        .launches = (double)NAN,
        .ops = (double)NAN,
        .cpu_median = (double)NAN,
    };
    return params->callback ? params->callback(params->user, &row, error) : ICL_OK;
}

/* Sets the numbers of threads to measure with: one and all on the host; elsewhere 0, which is the whole device. */
static size_t thread_counts(const icl_capabilities *device, size_t counts[2]) {
    counts[0] = device->kind == ICL_DEVICE_HOST;
    counts[1] = device->compute_units;
    return counts[0] == 0 || counts[1] == 1 ? 1 : 2;
}

/* Measures each instruction set of the host, or the only one of another device. */
static icl_status measure_arithmetic(const icl_bench_params *params, const icl_tensor *operands, double *rate,
                                     icl_error *error) {
    static const char *const sets[] = {"", ", base", ", avx2", ", avx512"}; /* indexed by icl_peak_isa */
    const bool host = params->device->capabilities.kind == ICL_DEVICE_HOST;
    /* Mesa's llvmpipe leaves the loops of a work-item after 65,535 turns. */
    const size_t rounds = params->seconds > 0 ? (host ? 100000 : 50000) : 1000;
    size_t threads[2];
    char name[64];

    const size_t counts = thread_counts(&params->device->capabilities, threads);
    for (int isa = host ? ICL_PEAK_BASE : ICL_PEAK_WIDEST; isa <= (host ? ICL_PEAK_AVX512 : ICL_PEAK_WIDEST); isa++)
        for (size_t i = 0; i < counts; i++) {
            const icl_peak_params what = {ICL_PEAK_MULTIPLY_ADD, (icl_peak_isa)isa, threads[i], rounds};
            double found = (double)NAN;
            snprintf(name, sizeof name, "peak multiply-add%s%s", sets[isa],
                     threads[i] == 0   ? ""
                     : threads[i] == 1 ? ", one thread"
                                       : ", all threads");
            ICL_CHECK(measure_peak(params, operands, what, name, &found, error));
            *rate = fmax(*rate, found); /* fmax ignores NaN */
        }
    return ICL_OK;
}

static icl_status measure_memory(const icl_bench_params *params, const icl_tensor *operands, double *rate,
                                 icl_error *error) {
    size_t threads[2];
    char name[64];

    const size_t counts = thread_counts(&params->device->capabilities, threads);
    for (size_t i = 0; i < counts; i++) {
        double found = (double)NAN;
        snprintf(name, sizeof name, "peak triad%s",
                 threads[i] == 0   ? ""
                 : threads[i] == 1 ? ", one thread"
                                   : ", all threads");
        ICL_CHECK(measure_peak(params, operands, (icl_peak_params){ICL_PEAK_TRIAD, ICL_PEAK_WIDEST, threads[i], 1},
                               name, &found, error));
        *rate = fmax(*rate, found);
    }
    return ICL_OK;
}

static icl_status measure_peaks(const icl_bench_params *params, icl_bench_peaks *peaks, icl_error *error) {
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;
    const size_t elements = params->seconds > 0 ? ELEMENTS : ELEMENTS / 64;

    *peaks = (icl_bench_peaks){(double)NAN, (double)NAN};
    if (!params->device->functions->peak)
        return ICL_OK;
    for (int i = 0; i < 3; i++) {
        ICL_TRY(icl_tensor_create(params->device, 1, &elements, &operands[i], error));
        ICL_TRY(icl_fill(params->device, operands[i], 1, error));
    }
    ICL_TRY(measure_arithmetic(params, operands, &peaks->flops, error));
    ICL_TRY(measure_memory(params, operands, &peaks->bytes, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    return status;
}

/* ---- Rows ---- */

/* Makes a row of a contender's work and times; the peaks turn its rates into shares. */
static icl_bench_row row_of(const char *name, const icl_bench_contender *contenders, icl_bench_work work,
                            const icl_bench_peaks *peaks) {
    const icl_bench_times *times = &contenders[0].times;
    const double flops = work.flops / times->median, bytes = work.bytes / times->median;
    return (icl_bench_row){
        .name = name,
        .device = contenders[0].backend->capabilities.spec,
        .times = *times,
        .compile = fmax(contenders[0].first - times->median, 0),
        .on_device = (double)NAN,
        .gflops = 1e-9 * flops,
        .gbytes_per_s = 1e-9 * bytes,
        .peak_share = fmax(flops / peaks->flops, bytes / peaks->bytes), /* fmax ignores NaN */
        .cpu_median = contenders[1].backend ? contenders[1].times.median : (double)NAN,
    };
}

#define COUNTED_CALLS 3

/* Counts launches and ops, and reads the device's own clock, over a few calls after the first. */
static icl_status count_calls(icl_bench_row *row, icl_backend *backend, icl_bench_function *function, void *context,
                              bool on_device, icl_error *error) {
    ICL_CHECK(function(context, 1, error));
    ICL_CHECK(icl_backend_sync(backend, error));
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    ICL_CHECK(function(context, COUNTED_CALLS, error));
    ICL_CHECK(icl_backend_sync(backend, error));
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    row->ops = (double)(after.ops - before.ops) / COUNTED_CALLS;
    row->launches = (double)(after.launches - before.launches) / COUNTED_CALLS;
    if (on_device)
        row->on_device = (after.device_seconds - before.device_seconds) / COUNTED_CALLS;
    return ICL_OK;
}

/* ---- Ops ---- */

typedef struct op_run {
    const icl_case *c;
    icl_backend *backend;
    icl_tensor operands[ICL_MAX_OPERANDS];
} op_run;

static icl_status call_op(void *context, size_t calls, icl_error *error) {
    op_run *run = context;
    icl_status status = ICL_OK;
    for (size_t i = 0; i < calls && status == ICL_OK; i++)
        status = icl_describe(run->c->op)->call(run->c, run->backend, run->operands, error);
    return status;
}

static void release_op(op_run *run) {
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        icl_tensor_release(&run->operands[i]);
}

static icl_status profile_op(const icl_bench_params *params, const icl_case *c, icl_bench_row *row, icl_error *error) {
    icl_backend *backend = params->profiled ? params->profiled : params->device;
    op_run run = {.c = c, .backend = backend};
    icl_status status = ICL_OK;

    ICL_TRY(icl_bench_operands(c, backend, run.operands, error));
    ICL_TRY(count_calls(row, backend, call_op, &run, params->profiled != NULL, error));
done:
    release_op(&run);
    return status;
}

/* Benchmarks an op; `name` is that of its row. */
static icl_status bench_op(const icl_bench_params *params, const icl_case *c, const char *name,
                           const icl_bench_peaks *peaks, icl_error *error) {
    op_run runs[2] = {{.c = c, .backend = params->device}, {.c = c, .backend = params->cpu}};
    icl_bench_contender contenders[2] = {{.backend = params->device, .function = call_op, .context = &runs[0]},
                                         {.backend = params->cpu, .function = call_op, .context = &runs[1]}};
    const icl_bench_work work = icl_bench_work_of(c, params->device->capabilities.element_size);
    icl_status status = ICL_OK;

    for (int i = 0; i < 2; i++)
        if (runs[i].backend)
            ICL_TRY(icl_bench_operands(c, runs[i].backend, runs[i].operands, error));
    ICL_TRY(icl_bench_take_turns(contenders, 2, params->seconds, error));
    icl_bench_row row = row_of(name, contenders, work, peaks);
    for (int i = 0; i < 2; i++)
        release_op(&runs[i]);
    ICL_TRY(profile_op(params, c, &row, error));
    ICL_TRY(params->callback ? params->callback(params->user, &row, error) : ICL_OK);
done:
    for (int i = 0; i < 2; i++)
        release_op(&runs[i]);
    return status;
}

static void choose_way(const icl_bench_params *params, icl_op op, size_t way) {
    params->device->functions->choices->choose_way(params->device, op, way);
    if (params->profiled)
        params->profiled->functions->choices->choose_way(params->profiled, op, way);
}

/* Writes a row for each way in which the device can run the op, so that its owner sees which is faster. */
static icl_status bench_ways(const icl_bench_params *params, const icl_case *c, const icl_bench_peaks *peaks,
                             icl_error *error) {
    const icl_choice_functions *choices = params->device->functions->choices;
    const char *const *names = NULL;
    const size_t ways = choices ? choices->ways(params->device, c->op, &c->params, &names) : 0;
    icl_status status = ways == 0 ? bench_op(params, c, c->name, peaks, error) : ICL_OK;

    for (size_t way = 0; way < ways && status == ICL_OK; way++) {
        char name[sizeof c->name + 32];
        snprintf(name, sizeof name, "%s, %s", c->name, names[way]);
        choose_way(params, c->op, way);
        status = bench_op(params, c, name, peaks, error);
        choose_way(params, c->op, ICL_ANY_WAY);
    }
    return status;
}

static icl_status bench_ops(const icl_bench_params *params, const icl_bench_peaks *peaks, icl_error *error) {
    icl_status status = ICL_OK;
    icl_bench_case *cases = NULL;
    size_t count;

    ICL_TRY(icl_bench_cases_create(&cases, &count, error));
    for (size_t i = 0; i < count; i++) {
        if (params->pattern ? !strstr(cases[i].c.name, params->pattern) : cases[i].is_long)
            continue;
        ICL_TRY(bench_ways(params, &cases[i].c, peaks, error));
    }
done:
    icl_free(&cases);
    return status;
}

icl_status icl_bench_check_pattern(const char *pattern, icl_error *error) {
    icl_status status = ICL_OK;
    icl_bench_case *cases = NULL;
    size_t count, matching = 0;

    ICL_TRY(icl_bench_cases_create(&cases, &count, error));
    for (size_t i = 0; i < count; i++)
        matching += !pattern || strstr(cases[i].c.name, pattern);
    if (matching == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "bench: no case's name holds \"%s\"; try \"matmul\" or \"softmax\"",
                          pattern);
done:
    icl_free(&cases);
    return status;
}

/* Every case that the pattern names, in order. */
typedef struct op_set {
    op_run *runs;
    size_t count;
} op_set;

static icl_status call_set(void *context, size_t calls, icl_error *error) {
    op_set *set = context;
    icl_status status = ICL_OK;
    for (size_t i = 0; i < calls; i++)
        for (size_t k = 0; k < set->count && status == ICL_OK; k++)
            status = call_op(&set->runs[k], 1, error);
    return status;
}

/* ---- Training steps ---- */

static icl_status call_steps(void *context, size_t calls, icl_error *error) {
    return icl_trainer_run(context, calls, error);
}

/* Counts the gradient of a step: sampling and the optimizer cost far less. NaN unless the family is linear. */
static double step_flops(const icl_recipe *recipe) {
    if (strcmp(icl_recipe_value(recipe, "model", "family"), "linear") != 0)
        return (double)NAN;
    const icl_task_keys task = icl_task_keys_read(recipe);
    const icl_model_settings model = icl_model_read(recipe);
    const icl_linear_settings linear = icl_linear_read(recipe);
    const icl_linear_transformer_params params = {
        .parameterization = (icl_parameterization)linear.parameterization,
        .layers = model.layers,
        .heads = model.heads,
        .space = linear.space != ICL_SPACE_COMPOSED ? (icl_linear_space)linear.space : ICL_SPACE_AUTO,
    };
    const bool is_gram = icl_recipe_choice(recipe, "task", "sampler") == ICL_SAMPLER_GRAM;
    return icl_linear_transformer_flops(&params, task.d, is_gram ? 0 : task.n, icl_train_keys_read(recipe).batch, true);
}

/* Copies params->recipe so that every layer is in use from the first step on, the budget never ends, and nothing
 * diverges. The caller destroys the copy. */
static icl_status steady_recipe(const icl_bench_params *params, icl_recipe **recipe, icl_error *error) {
    ICL_CHECK(icl_recipe_clone(params->recipe, recipe, error));
    ICL_CHECK(icl_recipe_set_count(*recipe, ICL_TRAIN_KEY(growth), 0, error));
    ICL_CHECK(icl_recipe_set_count(*recipe, ICL_TRAIN_KEY(steps), 1000000000, error));
    return icl_recipe_set_number(*recipe, ICL_TRAIN_KEY(learning_rate), 1e-12, error);
}

static int longest_first(const void *left, const void *right) {
    const double a = ((const icl_bench_op *)left)->seconds, b = ((const icl_bench_op *)right)->seconds;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Lists the ops that ran between two readings, the longest first; ops: [ICL_OP_COUNT + 1]. Returns their number. */
static size_t list_ops(const icl_op_times *before, const icl_op_times *after, double calls, icl_bench_op *ops) {
    double all = 0;
    size_t count = 0;

    for (size_t op = 0; op <= ICL_OP_COUNT; op++) {
        const icl_op_time *begin = &before->of[op], *end = &after->of[op];
        if (end->calls == begin->calls && end->launches == begin->launches)
            continue;
        ops[count++] = (icl_bench_op){
            .name = op < ICL_OP_COUNT ? icl_op_infos[op].name : "small ops, several in a launch",
            .calls = (double)(end->calls - begin->calls) / calls,
            .launches = (double)(end->launches - begin->launches) / calls,
            .seconds = (end->seconds - begin->seconds) / calls,
        };
        all += ops[count - 1].seconds;
    }
    for (size_t i = 0; i < count; i++)
        ops[i].share = ops[i].seconds / all;
    qsort(ops, count, sizeof *ops, longest_first);
    return count;
}

/* ops: [ICL_OP_COUNT + 1], which the row refers to. */
static icl_status profile_steps(const icl_bench_params *params, const icl_recipe *recipe, icl_bench_row *row,
                                icl_bench_op *ops, icl_error *error) {
    icl_backend *backend = params->profiled ? params->profiled : params->device;
    const bool on_device = params->profiled && backend->capabilities.kind != ICL_DEVICE_HOST;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(count_calls(row, backend, call_steps, trainer, on_device, error));
    if (params->by_op) {
        ICL_TRY(icl_backend_time_ops(backend, error));
        const icl_op_times before = icl_backend_op_times(backend);
        ICL_TRY(call_steps(trainer, COUNTED_CALLS, error));
        ICL_TRY(icl_backend_sync(backend, error));
        const icl_op_times after = icl_backend_op_times(backend);
        row->of_ops = ops;
        row->of_ops_count = list_ops(&before, &after, COUNTED_CALLS, ops);
    }
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status bench_recipe(const icl_bench_params *params, const icl_bench_peaks *peaks, icl_error *error) {
    icl_trainer *trainers[2] = {NULL, NULL};
    icl_bench_contender contenders[2] = {{.backend = params->device, .function = call_steps},
                                         {.backend = params->cpu, .function = call_steps}};
    icl_bench_op ops[ICL_OP_COUNT + 1];
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;
    char name[96];

    ICL_TRY(steady_recipe(params, &recipe, error));
    for (int i = 0; i < 2; i++)
        if (contenders[i].backend) {
            ICL_TRY(icl_trainer_create(contenders[i].backend, recipe, &trainers[i], error));
            contenders[i].context = trainers[i];
        }
    ICL_TRY(icl_bench_take_turns(contenders, 2, params->seconds, error));
    snprintf(name, sizeof name, "step of %s", params->recipe_name);
    icl_bench_row row = row_of(name, contenders, (icl_bench_work){step_flops(recipe), (double)NAN}, peaks);
    ICL_TRY(profile_steps(params, recipe, &row, ops, error));
    ICL_TRY(params->callback ? params->callback(params->user, &row, error) : ICL_OK);
done:
    for (int i = 0; i < 2; i++)
        icl_trainer_destroy(&trainers[i]);
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_bench(const icl_bench_params *params, icl_error *error) {
    icl_bench_peaks peaks;

    ICL_CHECK(measure_peaks(params, &peaks, error));
    return params->recipe ? bench_recipe(params, &peaks, error) : bench_ops(params, &peaks, error);
}

/* ---- On request ---- */

static icl_status answer(icl_backend *backend, icl_bench_function *function, void *context, icl_bench_request *next,
                         void *user, icl_error *error) {
    double seconds = (double)NAN;

    for (int i = 0; i < 2; i++) { /* warm up */
        ICL_CHECK(function(context, 1, error));
        ICL_CHECK(icl_backend_sync(backend, error));
    }
    for (;;) {
        size_t calls = 0;
        ICL_CHECK(next(user, seconds, &calls, error));
        if (calls == 0)
            break;
        const double start = icl_clock_seconds();
        ICL_CHECK(function(context, calls, error));
        ICL_CHECK(icl_backend_sync(backend, error));
        seconds = icl_clock_seconds() - start;
    }
    return ICL_OK;
}

static icl_status answer_with_ops(const icl_bench_params *params, icl_bench_request *next, void *user,
                                  icl_error *error) {
    icl_status status = ICL_OK;
    icl_bench_case *cases = NULL;
    op_set set = {0};
    size_t count;

    ICL_TRY(icl_bench_cases_create(&cases, &count, error));
    ICL_TRY(icl_allocate(count, sizeof *set.runs, "bench runs", &set.runs, error));
    for (size_t i = 0; i < count; i++) {
        if (params->pattern ? !strstr(cases[i].c.name, params->pattern) : cases[i].is_long)
            continue;
        op_run *run = &set.runs[set.count++];
        run->c = &cases[i].c;
        run->backend = params->device;
        ICL_TRY(icl_bench_operands(run->c, run->backend, run->operands, error));
    }
    ICL_TRY(answer(params->device, call_set, &set, next, user, error));
done:
    for (size_t i = 0; i < set.count; i++)
        release_op(&set.runs[i]);
    icl_free(&set.runs);
    icl_free(&cases);
    return status;
}

icl_status icl_bench_on_request(const icl_bench_params *params, icl_bench_request *next, void *user, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    if (!params->recipe)
        return answer_with_ops(params, next, user, error);
    ICL_TRY(steady_recipe(params, &recipe, error));
    ICL_TRY(icl_trainer_create(params->device, recipe, &trainer, error));
    ICL_TRY(answer(params->device, call_steps, trainer, next, user, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}
