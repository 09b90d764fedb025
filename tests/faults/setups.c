/*
 * Allocations and ops on the way from a recipe to its table fail, one for each path of calls that leads to one, for a
 * tiny setup of every task, every family of models and most mixers. Each time the outcome is an error of one line, or
 * for an allocation the table of the undisturbed run, and nothing is held afterwards.
 */
#include "attempts.h"
#include "iclab/evaluate.h"
#include "iclab/train.h"

/* Behind these come those of the setup. */
static const char every[] = "train.steps=1 train.batch=2 train.warmup=0 train.polish=off train.starts=1 "
                            "eval.sequences=2 eval.fit_sequences=4 eval.every=0 model.layers=1";

#define SEQUENCE "model.family=sequence model.width=4"

static const char *const setups[] = {
    "task.d=2 task.n=3 model.parameterization=diag",
    "task.d=2 task.n=3 task.covariance=power:1 task.rotate=true train.polish=on",
    "task.family=quadratic-regression task.d=2 task.n=6",
    "task.family=functions task.inputs=sphere task.d=2 task.n=3 model.family=softmax",
    "task.family=function-classes task.class=sparse task.support=1 task.d=2 task.n=3 model.positions=learned "
    "model.mixer=softmax " SEQUENCE,
    "task.family=function-classes task.class=relu-network task.hidden_units=2 task.network_steps=2 "
    "task.d=2 task.n=3 "
    "model.positions=rotary model.mixer=mesa " SEQUENCE,
    "task.family=function-classes task.class=decision-tree task.depth=2 task.d=2 task.n=3 "
    "task.layout=separate "
    "model.mixer=gla " SEQUENCE,
    "task.family=recall task.vocabulary=16 task.length=8 task.pairs=2 model.layers=2 model.mixer=conv,delta "
    "model.convolution=2 model.family=sequence model.width=4",
    "task.family=state task.longest=4 model.mixer=delta-product model.delta_steps=2 " SEQUENCE,
    "task.family=mad task.vocabulary=16 task.length=8 model.mixer=gated-delta "
    "model.feed_forward=swiglu " SEQUENCE,
    "task.family=classification task.classes=8 task.label_count=2 task.examples=2 task.item_size=3 "
    "task.burstiness=1 eval.predictors=all model.mixer=mamba2 " SEQUENCE,
    "task.family=dynamical-system task.hidden=2 task.positions=4 model.mixer=linear " SEQUENCE,
    "task.family=associative task.keys=4 task.writes=3 model.family=fast-weights model.width=4 "
    "model.feature_map=dpfp:1 model.rule=delta",
    "task.family=graphs task.nodes=6 task.skips=2 task.demands=2 model.family=graph",
};

static icl_status tell_table(void *context, char **text, icl_error *error) {
    const char *setup = context;
    char settings[1024];
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(settings, sizeof settings, "%s %s", every, setup);
    ICL_TRY(fault_make_recipe(settings, &recipe, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
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

static void test_setup(tap_run *tap, char *setup) {
    fault_check_branches(tap, tell_table, setup, FAULT_ALLOCATION, setup);
    fault_check_branches(tap, tell_table, setup, FAULT_OP, setup);
}

/* A part of a setup's text: such setups alone. */
int main(int argc, char **argv) {
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        char setup[1024];
        snprintf(setup, sizeof setup, "%s", setups[i]);
        if (argc < 2 || strstr(setup, argv[1]))
            test_setup(&tap, setup);
    }
    return tap_done(&tap);
}
