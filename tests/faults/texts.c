/* Work whose outcome is a text, from the short step by which devices are compared to a table of predictions: a row says
 * which of its calls fail, and how. */
#include <stdio.h>

#include "../core/scratch.h"
#include "attempts.h"
#include "core/hash.h"
#include "device/device.h"
#include "faults.h"
#include "iclab/evaluate.h"
#include "iclab/predict.h"
#include "iclab/text.h"
#include "iclab/train.h"
#include "probe/inspect.h"
#include "run/bench.h"
#include "run/evaluation_grid.h"
#include "run/sweep/sweep.h"

enum { ROWS = 12 }; /* of the table */

/* The context of the work: settings of a recipe, and files. */
typedef struct place {
    const char *settings;
    char run[512], table[512], grid[512], out[512];
} place;

static icl_status open_host(icl_backend **backend, icl_error *error) {
    return icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, backend, error);
}

/* ---- What is told ---- */

static icl_status time_step(void *context, char **text, icl_error *error) {
    icl_text all = {0};
    icl_backend *backend = NULL;
    double seconds = 0;
    icl_status status = ICL_OK;

    (void)context;
    ICL_TRY(open_host(&backend, error));
    ICL_TRY(icl_time_short_step(backend, &seconds, error));
    ICL_TRY(icl_text_print(&all, error, "%d", seconds > 0));
    *text = all.bytes;
done:
    icl_backend_close(&backend);
    return status;
}

static icl_status tell_table(void *context, char **text, icl_error *error) {
    const place *here = context;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("", here->settings, &recipe, error));
    ICL_TRY(open_host(&backend, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    ICL_TRY(icl_evaluation_table(evaluation, text, error));
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status evaluate_grid(void *context, char **text, icl_error *error) {
    static const char *const over[] = {"task.n=3,4", "task.noise=fixed:0.5,fixed:1"};
    const place *here = context;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_evaluation_grid *grid = NULL;
    icl_evaluation_grid_texts texts = {0};
    char *name = NULL;
    icl_text all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("", here->settings, &recipe, error));
    ICL_TRY(open_host(&backend, error));
    ICL_TRY(icl_evaluation_grid_create(recipe, over, 2, &grid, error));
    ICL_TRY(icl_evaluation_grid_name(grid, &name, error));
    ICL_TRY(
        icl_evaluation_grid_run(grid, &(icl_evaluation_grid_params){.backend = backend, .folder = here->run}, error));
    ICL_TRY(icl_evaluation_grid_write_texts(grid, &texts, error));
    ICL_TRY(icl_text_print(&all, error, "%s%s%s%s", name, texts.table, texts.csv, texts.json));
    *text = all.bytes;
done:
    icl_text_free(&name);
    icl_evaluation_grid_free_texts(&texts);
    icl_evaluation_grid_destroy(&grid);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status tell_sweep(void *context, char **text, icl_error *error) {
    const place *here = context;
    icl_sweep *sweep = NULL;
    icl_sweep_texts texts = {0};
    icl_sweep_points points = {0};
    icl_sweep_result results[8] = {{0}};
    icl_recipe *recipe = NULL;
    char *name = NULL;
    icl_text all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_sweep_load(here->grid, NULL, &sweep, error));
    ICL_TRY(icl_sweep_cells(sweep) == 8 ? ICL_OK : icl_fail(error, ICL_ERROR_INPUT, "not eight cells"));
    for (size_t i = 0; i < 8; i++)
        results[i] = (icl_sweep_result){.finished = true, .steps = 2, .mse = 1 + (double)i, .se = .1, .final_loss = 2};
    ICL_TRY(icl_sweep_cell_name(sweep, 3, &name, error));
    ICL_TRY(icl_sweep_cell_recipe(sweep, 3, &recipe, error));
    ICL_TRY(icl_sweep_write_texts(sweep, results, &texts, error));
    ICL_TRY(icl_sweep_find_points(sweep, results, &points, error));
    ICL_TRY(icl_text_print(&all, error, "%s%s%s%s%s%s%zu points, best %zu, %g", name, texts.table, texts.cells_csv,
                           texts.means_csv, texts.json, texts.means_json, points.count, points.best,
                           points.of[0].error));
    *text = all.bytes;
done:
    icl_text_free(&name);
    icl_recipe_destroy(&recipe);
    icl_sweep_free_texts(&texts);
    icl_sweep_free_points(&points);
    icl_sweep_destroy(&sweep);
    return status;
}

static icl_status count_row(void *user, const icl_bench_row *row, icl_error *error) {
    (void)row;
    (void)error;
    ++*(size_t *)user;
    return ICL_OK;
}

/* Tells only the number of rows, because the times differ. */
static icl_status measure(void *context, char **text, icl_error *error) {
    const place *here = context;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_text all = {0};
    size_t rows = 0;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("", here->settings, &recipe, error));
    ICL_TRY(open_host(&backend, error));
    const icl_bench_params params = {
        .device = backend, .recipe = recipe, .recipe_name = "tiny", .callback = count_row, .user = &rows};
    ICL_TRY(icl_bench(&params, error));
    ICL_TRY(icl_text_print(&all, error, "%zu rows", rows));
    *text = all.bytes;
done:
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Does all that iclab inspect does except drawing and printing. */
static icl_status inspect(void *context, char **text, icl_error *error) {
    const place *here = context;
    icl_text all = {0};
    icl_backend *backend = NULL;
    char *summary = NULL;
    icl_status status = ICL_OK;

    scratch_remove(here->out);
    ICL_TRY(open_host(&backend, error));
    ICL_TRY(
        icl_inspect(&(icl_inspect_params){.backend = backend, .run = here->run, .folder = here->out, .sequences = 20},
                    &summary, error));
    ICL_TRY(icl_text_print(&all, error, "%s%016llx", summary, (unsigned long long)fault_hash_files(here->out)));
    *text = all.bytes;
done:
    icl_text_free(&summary);
    icl_backend_close(&backend);
    return status;
}

/* Does all that iclab predict does except printing: tells the bits of held-out predictions, then of the row without a
 * target. */
static icl_status predict(void *context, char **text, icl_error *error) {
    const place *here = context;
    const icl_table_params table_params = {.source = {.path = here->table},
                                           .target = "y",
                                           .missing_targets = true,
                                           .missing = ICL_MISSING_KEPT,
                                           .one_hot = true};
    icl_text all = {0};
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_table *table = NULL;
    icl_predict_outcome *outcome = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("", here->settings, &recipe, error));
    ICL_TRY(icl_table_read(&table_params, &table, error));
    ICL_TRY(open_host(&backend, error));
    const icl_predict_params params = {.backend = backend,
                                       .folder = here->run,
                                       .recipe = recipe,
                                       .table = table,
                                       .folds = 2,
                                       .repeats = 1,
                                       .context = 4,
                                       .prompts = 2,
                                       .impute = ICL_IMPUTE_MEDIAN};
    ICL_TRY(icl_predict(&params, &outcome, error));
    ICL_TRY(icl_text_print(
        &all, error, "%016llx %016llx",
        (unsigned long long)icl_hash(outcome->heldout, outcome->labelled * ICL_PREDICTORS * sizeof(double)),
        (unsigned long long)icl_hash(outcome->predictions, outcome->predicted * ICL_PREDICTORS * sizeof(double))));
    *text = all.bytes;
done:
    icl_predict_outcome_destroy(&outcome);
    icl_table_destroy(&table);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The rows ---- */

#define SEQUENCE "model.family=sequence model.width=4"
#define TINY                                                                                                           \
    "task.d=2 task.n=3 model.layers=1 train.batch=4 train.slices=2 train.steps=2 train.polish=off eval.sequences=2 "   \
    "eval.every=0 eval.fit_sequences=4"

/* Setups: calls fail on the way from a recipe to its table. Every task, every family of models and most mixers have a
 * row. */
#define SETUP(settings)                                                                                                \
    {                                                                                                                  \
        "setups", tell_table,                                                                                          \
            "train.steps=1 train.batch=2 train.warmup=0 train.polish=off train.starts=1 "                              \
            "eval.sequences=2 eval.fit_sequences=4 eval.every=0 model.layers=1 " settings,                             \
            FAULT_FORKED, .ops = true                                                                                  \
    }
#define INSPECTION(settings, how)                                                                                      \
    { "inspect", inspect, "model.layers=1 train.batch=1 " settings, how, .has_run = true, .files = true, .ops = true }

typedef struct row {
    const char *name; /* the command line chooses rows by it */
    fault_telling *tell;
    const char *settings; /* of a recipe */
    unsigned how;         /* the way in which allocations fail, as in attempts.h */
    bool has_run;         /* needs a run of a model with the settings */
    bool files, ops;      /* fail, too */
} row;

static const row rows[] = {
    {"choice", time_step, "a short step", FAULT_FORKED, .ops = true},
    SETUP("task.d=2 task.n=3 model.parameterization=diag"),
    SETUP("task.d=2 task.n=3 task.covariance=power:1 task.rotate=true train.polish=on"),
    SETUP("task.family=quadratic-regression task.d=2 task.n=6"),
    SETUP("task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax"),
    SETUP("task.family=function-classes task.class=sparse task.support=1 task.d=2 task.n=3 model.positions=learned "
          "model.mixer=softmax model.sinks=true " SEQUENCE),
    SETUP("task.family=function-classes task.class=relu-network task.hidden_units=2 task.network_steps=2 task.d=2 "
          "task.n=3 model.positions=rotary model.mixer=mesa " SEQUENCE),
    SETUP("task.family=function-classes task.class=decision-tree task.depth=2 task.d=2 task.n=3 task.layout=separate "
          "model.mixer=gla " SEQUENCE),
    SETUP("task.family=recall task.vocabulary=16 task.length=8 task.pairs=2 model.layers=2 model.mixer=conv,delta "
          "model.convolution=2 " SEQUENCE),
    SETUP("task.family=state task.longest=4 model.mixer=delta-product model.delta_steps=2 " SEQUENCE),
    SETUP("task.family=state task.longest=4 model.layers=2 model.mixer=preconditioned-delta,fox " SEQUENCE),
    SETUP("task.family=state task.longest=4 model.layers=2 model.mixer=rwkv7,comba " SEQUENCE),
    SETUP("task.family=mad task.vocabulary=16 task.length=8 model.mixer=gated-delta "
          "model.feed_forward=swiglu " SEQUENCE),
    SETUP("task.family=rules task.alphabet=4 task.shots=1 task.mapping=letters task.pool=2 "
          "eval.predictors=all " SEQUENCE),
    SETUP("task.family=classification task.classes=8 task.label_count=2 task.examples=2 task.item_size=3 "
          "task.burstiness=1 eval.predictors=all model.mixer=mamba2 " SEQUENCE),
    SETUP("task.family=dynamical-system task.hidden=2 task.positions=4 model.mixer=linear " SEQUENCE),
    SETUP("task.family=associative task.keys=4 task.writes=3 model.family=fast-weights model.width=4 "
          "model.feature_map=dpfp:1 model.rule=delta"),
    SETUP("task.family=graphs task.nodes=6 task.skips=2 task.demands=2 model.family=graph"),
    INSPECTION("task.d=2 task.n=3", FAULT_LASTING),
    INSPECTION("task.family=recall task.vocabulary=16 task.length=8 task.pairs=2 model.layers=2 "
               "model.mixer=delta,softmax " SEQUENCE,
               0),
    INSPECTION("task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax", 0),
    INSPECTION("task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax "
               "model.attention=linear",
               0),
    {"predict", predict, "task.d=4 task.n=5 model.layers=1 train.batch=1", FAULT_EACH_CALL | FAULT_LASTING,
     .has_run = true, .files = true},
    {"commands", evaluate_grid, TINY, .has_run = true},
    {"commands", tell_sweep, TINY},
    {"commands", measure, TINY},
};

/* ---- Their files ---- */

static void write_table(scratch_folder *scratch) {
    char text[1024] = "id;a;\"b; quoted\";s;y\n";

    /* The table has a missing feature, a row without a target, text, and an identifier, each with memory of its own. */
    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d;%d;%s;%s;%s\n", i, i * 5 % 12,
                 i == 2       ? "NA"
                 : i % 2 == 0 ? "0,5"
                              : "3",
                 i % 3 == 1 ? "u" : "v",
                 i == 4       ? ""
                 : i % 3 == 0 ? "1,5"
                              : "2");
    scratch_write(scratch, "table.csv", text, strlen(text));
}

static icl_status prepare(const row *line, scratch_folder *scratch, place *here, icl_error *error) {
    static const char grid[] = "[sweep]\nrecipe = versatile\n\n[grid]\nmodel.layers = 1, 2\n"
                               "train.learning_rate = 0.1, 0.2\ntrain.seed = 1..2\n";
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    here->settings = line->settings;
    write_table(scratch);
    scratch_write(scratch, "grid.ini", grid, sizeof grid - 1);
    snprintf(here->table, sizeof here->table, "%s", scratch_path(scratch, "table.csv"));
    snprintf(here->grid, sizeof here->grid, "%s", scratch_path(scratch, "grid.ini"));
    snprintf(here->run, sizeof here->run, "%s", scratch_path(scratch, "run"));
    snprintf(here->out, sizeof here->out, "%s", scratch_path(scratch, "out"));
    if (line->has_run) {
        ICL_TRY(make_recipe("", line->settings, &recipe, error));
        ICL_TRY(fault_make_run(here->run, recipe, error));
    }
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static void check(tap_run *tap, const row *line) {
    place here;
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    if (tap_status(tap, prepare(line, &scratch, &here, &error), &error, "what it works on")) {
        fault_check_text(tap, line->tell, &here, FAULT_ALLOCATION, line->how, line->settings);
        if (line->files)
            fault_check_text(tap, line->tell, &here, FAULT_FILE, line->how, line->settings);
        if (line->ops)
            fault_check_text(tap, line->tell, &here, FAULT_OP, line->how, line->settings);
    }
    scratch_close(&scratch);
}

void fault_texts(tap_run *tap, const char *name, const char *settings) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0 && strstr(rows[i].settings, settings))
            check(tap, &rows[i]);
}
