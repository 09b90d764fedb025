#include "run/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/host.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "model/linear_transformer.h"
#include "task/task.h"

/* ---- Rows ---- */

/* What a contender's calls and its clock give; peaks make a share of the rates. */
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
        .peak_share = fmax(flops / peaks->flops, bytes / peaks->bytes), /* fmax passes over NaN */
        .cpu_median = contenders[1].backend ? contenders[1].times.median : (double)NAN,
    };
}

/* Counters and the device's own clock, over a few calls after the first. */
static icl_status count_calls(icl_bench_row *row, icl_backend *backend, icl_bench_function *function, void *context,
                              bool on_device, icl_error *error) {
    enum { CALLS = 3 };

    ICL_CHECK(function(context, 1, error));
    ICL_CHECK(icl_backend_sync(backend, error));
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    ICL_CHECK(function(context, CALLS, error));
    ICL_CHECK(icl_backend_sync(backend, error));
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    row->ops = (double)(after.ops - before.ops) / CALLS;
    row->launches = (double)(after.launches - before.launches) / CALLS;
    if (on_device)
        row->on_device = (after.device_seconds - before.device_seconds) / CALLS;
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

/* name: of the row. */
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
    params->device->functions->choose_way(params->device, op, way);
    if (params->profiled)
        params->profiled->functions->choose_way(params->profiled, op, way);
}

/* A row for each way in which the device can run the op: its owner sees which is the faster one. */
static icl_status bench_ways(const icl_bench_params *params, const icl_case *c, const icl_bench_peaks *peaks,
                             icl_error *error) {
    const icl_backend_functions *functions = params->device->functions;
    const char *const *names = NULL;
    const size_t ways = functions->ways ? functions->ways(params->device, c->op, &names) : 0;
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

/* Every case that the pattern names, one after the other. */
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

/* Of a step's gradient; sampling and the optimizer are far less. NaN, unknown, for other families than linear. */
static double step_flops(const icl_recipe *recipe) {
    if (strcmp(icl_recipe_value(recipe, "model", "family"), "linear") != 0)
        return (double)NAN;
    const int space = icl_recipe_choice(recipe, "model", "space");
    const icl_linear_transformer_params params = {
        .parameterization = (icl_parameterization)icl_recipe_choice(recipe, "model", "parameterization"),
        .layers = (size_t)icl_recipe_count(recipe, "model", "layers"),
        .heads = (size_t)icl_recipe_count(recipe, "model", "heads"),
        .space = space != ICL_SPACE_COMPOSED ? (icl_linear_space)space : ICL_SPACE_AUTO,
    };
    const bool is_gram = icl_recipe_choice(recipe, "task", "sampler") == ICL_SAMPLER_GRAM;
    return icl_linear_transformer_flops(&params, (size_t)icl_recipe_count(recipe, "task", "d"),
                                        is_gram ? 0 : (size_t)icl_recipe_count(recipe, "task", "n"),
                                        (size_t)icl_recipe_count(recipe, "train", "batch"), true);
}

/* Copies params->recipe so that every layer is in use from the first step on, the budget never ends, and nothing
 * diverges. The caller destroys the copy. */
static icl_status steady_recipe(const icl_bench_params *params, icl_recipe **recipe, icl_error *error) {
    ICL_CHECK(icl_recipe_clone(params->recipe, recipe, error));
    ICL_CHECK(icl_recipe_override(*recipe, "train.growth=0", error));
    ICL_CHECK(icl_recipe_override(*recipe, "train.steps=1000000000", error));
    return icl_recipe_override(*recipe, "train.learning_rate=1e-12", error);
}

static icl_status profile_steps(const icl_bench_params *params, const icl_recipe *recipe, icl_bench_row *row,
                                icl_error *error) {
    icl_backend *backend = params->profiled ? params->profiled : params->device;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(count_calls(row, backend, call_steps, trainer, params->profiled != NULL, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status bench_recipe(const icl_bench_params *params, const icl_bench_peaks *peaks, icl_error *error) {
    icl_trainer *trainers[2] = {NULL, NULL};
    icl_bench_contender contenders[2] = {{.backend = params->device, .function = call_steps},
                                         {.backend = params->cpu, .function = call_steps}};
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
    ICL_TRY(profile_steps(params, recipe, &row, error));
    ICL_TRY(params->callback ? params->callback(params->user, &row, error) : ICL_OK);
done:
    for (int i = 0; i < 2; i++)
        icl_trainer_destroy(&trainers[i]);
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_bench(const icl_bench_params *params, icl_error *error) {
    icl_bench_peaks peaks;

    ICL_CHECK(icl_bench_measure_peaks(params, &peaks, error));
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
