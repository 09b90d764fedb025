/*
 * Allocations on the way from a recipe to its table fail, one for each path of calls that leads to one, for a tiny
 * setup of every task, every family of models and most mixers. Each time the outcome is an error of one line or the
 * table of the undisturbed run, and nothing is held afterwards.
 */
#include "attempts.h"
#include "core/allocate.h"
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

typedef struct trial {
    const char *setup;
    char *expected, *seen;
} trial;

static icl_status make_recipe(const char *setup, icl_recipe **recipe, icl_error *error) {
    char text[1024];
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    snprintf(text, sizeof text, "%s %s", every, setup);
    for (char *rest = text, *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        ICL_TRY(icl_recipe_override(*recipe, at, error));
done:
    return status;
}

static icl_status attempt(void *context, icl_error *error) {
    trial *t = context;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(t->setup, &recipe, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    ICL_TRY(icl_evaluation_table(evaluation, &t->seen, error));
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static bool as_expected(const void *context) {
    const trial *t = context;
    return t->seen && strcmp(t->seen, t->expected) == 0;
}

static void clear(void *context) {
    icl_free(&((trial *)context)->seen);
}

int main(int argc, char **argv) {
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        trial t = {.setup = setups[i]};
        const fault_work work = {
            .attempt = attempt, .as_expected = as_expected, .clear = clear, .context = &t, .each_path = true};
        icl_error error = {0};

        if (argc > 1 && !strstr(setups[i], argv[1]))
            continue;
        if (tap_status(&tap, attempt(&t, &error), &error, setups[i])) {
            t.expected = t.seen;
            t.seen = NULL;
            fault_check(&tap, &work, FAULT_ALLOCATION, false);
        }
        icl_free(&t.expected);
        clear(&t);
    }
    return tap_done(&tap);
}
