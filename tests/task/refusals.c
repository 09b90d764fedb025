/* Bad [task] sections: each gets ICL_ERROR_INPUT and one line that names the key and the expected values. */
#include "frame.h"

typedef struct refusal {
    const char *overrides, *key, *expected;
} refusal;

static const refusal refusals[] = {
    {"task.d=0", "task.d", ""},
    {"task.n=0", "task.n", ""},
    {"task.d=-3", "task.d", ""},
    {"task.d=46341", "task.d", "square is below 2^31"},
    {"task.d=2047 task.n=1048575", "task.n", "(n + 1) (d + 1) below 2^31 (d is 2047)"},
    {"task.d=18446744073709551615", "task.d", ""},
    {"task.n=18446744073709551615", "task.n", ""},
    {"task.family=quadratic", "task.family", "quadratic-regression"},
    {"task.noise=fixed:-1", "task.noise", "from 0"},
    {"task.noise=choice:1,-3", "task.noise", "from 0"},
    {"task.noise=uniform:inf", "task.noise", "numbers"},
    {"task.noise=uniform:nan", "task.noise", "numbers"},
    {"task.noise=fixed:1e30", "task.noise", "from 0"},
    {"task.noise=fixed:9.9e-31", "task.noise", "0, or 1e-30 and more"},
    {"task.noise=fixed:1e-40", "task.noise", "0, or 1e-30 and more"},
    {"task.noise=choice:1,9.9e-31", "task.noise", "0, or 1e-30 and more"},
    {"task.noise=uniform:9.9e-23", "task.noise", "0, or 1e-22 and more"},
    {"task.noise=fixed:1,2", "task.noise", "one number"},
    {"task.noise=choice:", "task.noise", "numbers"},
    {"task.noise=choice:1,,3", "task.noise", "numbers"},
    {"task.noise=choice:1,3,", "task.noise", "numbers"},
    {"task.noise=choice:0x3", "task.noise", "numbers"},
    {"task.noise=gaussian:1", "task.noise", "fixed:"},
    {"task.noise=1x", "task.noise", "fixed:"},
    {"task.noise=1,2", "task.noise", "fixed:"},
    {"task.noise=-1", "task.noise", "from 0"},
    {"task.noise=choice:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "task.noise", "at most 16"},
    {"task.d=2 task.covariance=spectrum:1", "task.covariance", "d = 2"},
    {"task.d=2 task.covariance=spectrum:1,2,3", "task.covariance", "d = 2"},
    {"task.d=2 task.covariance=spectrum:1,0", "task.covariance", "not positive definite"},
    {"task.d=2 task.covariance=spectrum:1,-0.5", "task.covariance", "not positive definite"},
    {"task.d=2 task.covariance=spectrum:1,1e-40", "task.covariance", "from 1e-22"},
    {"task.d=2 task.covariance=spectrum:1,9.9e-23", "task.covariance", "from 1e-22"},
    {"task.d=2 task.covariance=spectrum:1,x", "task.covariance", "spectrum:"},
    {"task.covariance=wishart", "task.covariance", "identity"},
    {"task.weights=sparse", "task.weights", "normal"},
    {"task.inputs=cauchy", "task.inputs", "gamma:"},
    {"task.inputs=uniform:0", "task.inputs", "one number"},
    {"task.inputs=uniform:1,2", "task.inputs", "one number"},
    {"task.inputs=gamma:1", "task.inputs", "two numbers"},
    {"task.inputs=gamma:0.01,1", "task.inputs", "shape from 0.05"},
    {"task.inputs=gamma:1,-1", "task.inputs", "scale from"},
    {"task.inputs=sphere task.sampler=gram", "task.inputs", "task.sampler"},
    {"task.inputs=sphere task.d=2 task.covariance=spectrum:1,2 task.weights=inverse-covariance", "task.inputs",
     "task.weights"},
    {"task.family=functions task.inputs=normal", "task.inputs", "sphere"},
    {"task.inputs=normal task.family=functions", "task.inputs", "sphere"},
    {"task.family=functions task.inputs=sphere task.sampler=gram", "task.sampler", "tokens"},
    {"task.family=functions task.inputs=sphere task.weights=inverse-covariance", "task.weights", "normal"},
    {"task.family=functions task.inputs=sphere task.d=1 task.covariance=spectrum:2", "task.covariance", "identity"},
    {"task.family=functions task.inputs=sphere task.d=3 task.subspace=3", "task.subspace", "d = 3"},
    {"task.family=functions task.inputs=sphere task.function=sine", "task.function", "cosine"},
    {"task.family=functions task.inputs=sphere task.lipschitz=-1", "task.lipschitz", ""},
    {"task.family=functions task.inputs=sphere task.lipschitz=9.9e-16", "task.lipschitz", "0, or 1e-15 and more"},
    {"task.family=graphs task.skips=1", "task.skips", "from 2 to task.nodes - 2 = 8"},
    {"task.family=graphs task.skips=9", "task.skips", "from 2 to task.nodes - 2 = 8"},
    {"task.family=graphs task.skips=2.5", "task.skips", "whole numbers"},
    {"task.family=graphs task.skips=2,x", "task.skips", "separated by commas"},
    {"task.family=recall task.pairs=32", "task.pairs", "at most the 31 keys of a vocabulary of 64"},
    {"task.family=recall task.vocabulary=9 task.pairs=4", "task.pairs", "3 keys"},
    {"task.family=recall task.length=23", "task.length", "3 x 8"},
    {"task.family=recall task.length=31 task.gaps=power:0.5", "task.length", "4 x 8"},
    {"task.family=recall task.gaps=near", "task.gaps", "uniform, or power:A"},
    {"task.family=recall task.gaps=power:", "task.gaps", "uniform, or power:A"},
    {"task.family=recall task.gaps=power:-0.1", "task.gaps", "from 0 to 10"},
    {"task.family=recall task.gaps=power:10.1", "task.gaps", "from 0 to 10"},
    {"task.family=recall task.gaps=power:1,2", "task.gaps", "from 0 to 10"},
    {"task.family=recall task.filler=noise", "task.filler", "zero"},
    {"task.family=recall task.d=5", "task.d", "task.family = recall does not read it"},
    {"task.family=state task.n=5", "task.n", "task.family = linear-regression or quadratic-regression or functions"},
    {"task.gaps=power:1", "task.gaps", "task.family = recall"},
    {"task.family=recall task.pairs=0", "task.pairs", ""},
    {"task.family=recall task.vocabulary=3", "task.vocabulary", ""},
    {"task.family=recall task.vocabulary=16777217", "task.vocabulary", ""},
    {"task.family=associative task.writes=21", "task.writes", "at most the 20 keys"},
    {"task.family=associative task.keys=0", "task.keys", ""},
    {"task.family=associative task.keys=65537", "task.keys", ""},
    {"task.family=associative task.queries=0", "task.queries", ""},
    {"task.family=associative task.draws=shuffled", "task.draws", "repeated"},
    {"task.family=associative task.pairs=4", "task.pairs", ""},
    {"task.family=state task.shortest=21", "task.shortest", "at most the 20 tokens"},
    {"task.family=state task.shortest=0", "task.shortest", ""},
    {"task.family=state task.rule=modular task.modulus=1", "task.modulus", ""},
    {"task.family=state task.modulus=4", "task.modulus", ""},
    {"task.family=state task.rule=a4", "task.rule", ""},
    {"task.family=autoregression task.lags=0", "task.lags", ""},
    {"task.family=autoregression task.lags=17", "task.lags", ""},
    {"task.family=autoregression task.largest_reflection=1", "task.largest_reflection", ""},
    {"task.family=autoregression task.jumps=often", "task.jumps", "regimes"},
    {"task.family=autoregression task.jumps=shocks task.jump_probability=1.1", "task.jump_probability", ""},
    {"task.family=autoregression task.jumps=shocks task.jump_scale=0", "task.jump_scale", ""},
    {"task.family=dynamical-system task.positions=0", "task.positions", ""},
    {"task.family=dynamical-system task.hidden=0", "task.hidden", ""},
    {"task.family=dynamical-system task.hidden=1025", "task.hidden", ""},
    {"task.family=dynamical-system task.process_noise=-1", "task.process_noise", ""},
    {"task.family=dynamical-system task.observation=blurred", "task.observation", "partial"},
    {"task.family=dynamical-system task.observation=partial task.controls=2", "task.controls",
     "task.observation = full"},
    {"task.family=dynamical-system task.transition=contracting task.least_eigenvalue=0.95", "task.least_eigenvalue",
     "at most task.largest_eigenvalue = 0.9"},
    {"task.family=dynamical-system task.transition=contracting task.largest_eigenvalue=1.1", "task.largest_eigenvalue",
     ""},
    {"task.family=classification task.burstiness=3", "task.burstiness", "a divisor of the 8 pairs"},
    {"task.family=classification task.fresh=0.5 task.relabelled=0.6", "task.relabelled", "at most the 0.5"},
    {"task.family=classification task.fresh=0.5 task.label_count=3", "task.label_count", "each of the 4 classes"},
    {"task.family=classification task.classes=3", "task.classes", "at least the 4"},
    {"task.family=classification task.classes=8 task.bursty=0 task.query=outside", "task.classes", "at least the 9"},
    {"task.family=classification task.places=16", "task.places", "0, or at least the 17"},
    {"task.family=classification task.joined=true task.places=8", "task.places", "0, or at least the 9"},
    {"task.family=classification task.frequency_exponent=-1", "task.frequency_exponent", ""},
    {"task.family=classification task.pairs=4", "task.pairs", "task.family = recall"},
    {"task.family=markov task.symbols=1", "task.symbols", "from 2 to"},
    {"task.family=markov task.order=0", "task.order", "from 1 to"},
    {"task.family=markov task.alpha=0", "task.alpha", "from 0.05 to 10000"},
    {"task.family=markov task.alpha=-1", "task.alpha", "from 0.05 to 10000"},
    {"task.family=markov task.length=2", "task.length", "at least 3: two symbols behind the first 1"},
    {"task.family=markov task.order=4 task.length=5", "task.length", "at least 6: two symbols behind the first 4"},
    {"task.family=markov task.symbols=8 task.order=8", "task.order", "k = 8 probabilities, 16777216 in all at most"},
    {"task.family=markov task.symbols=65536", "task.order", "k = 65536 probabilities, 16777216"},
    {"task.family=markov task.chain=x task.pool=2", "task.pool", "0: the chains of task.chain are the pool"},
    {"task.family=markov task.symbols=2 task.pool=4194305", "task.pool", "at most 4194304 chains of 4 prob"},
    {"task.family=markov task.states=4096 task.symbols=2", "task.states", "H (H + k) probabilities, k = 2"},
    {"task.family=markov task.states=2 task.order=2", "task.order", "1, because task.states = 2 are hidden"},
    {"task.family=markov task.pairs=2", "task.pairs", "task.family = recall"},
    {"task.order=2", "task.order", "task.family = markov"},
    {"task.family=markov task.pool_seed=2", "task.pool_seed", "task.pool"},
    {"task.family=mad task.skill=recall", "task.skill", "in-context-recall"},
    {"task.family=mad task.length=2", "task.length", "at least 4: two of the longest pairs"},
    {"task.family=mad task.length=5", "task.length", "an even number"},
    {"task.family=mad task.motif=2", "task.motif", "task.skill"},
    {"task.family=mad task.pairs=2", "task.pairs", "task.family"},
    {"task.family=mad task.skill=noisy-recall task.vocabulary=17", "task.vocabulary", "at least 18"},
    {"task.family=mad task.skill=noisy-recall task.noise_share=1", "task.noise_share", ""},
    {"task.family=mad task.skill=fuzzy-recall task.vocabulary=6", "task.vocabulary", "at least 7"},
    {"task.family=mad task.skill=fuzzy-recall task.length=11", "task.length", "at least 12"},
    {"task.family=mad task.skill=fuzzy-recall task.motif=9", "task.motif", ""},
    {"task.family=mad task.skill=copying task.length=32", "task.length", "at least 33"},
    {"task.family=mad task.skill=selective-copying task.copied=0", "task.copied", ""},
    {"task.family=mad task.skill=compression task.length=1", "task.length", "at least 2"},
    {"task.family=mad task.skill=memorisation task.length=3", "task.length", "an even number"},
    {"task.family=rules task.word=2", "task.word", ""},
    {"task.family=rules task.word=9", "task.word", "at most the 8 letters"},
    {"task.family=rules task.alphabet=129", "task.alphabet", ""},
    {"task.family=rules task.held_out=1", "task.held_out", "at least 2"},
    {"task.family=rules task.held_out=10", "task.held_out", ""},
    {"task.family=rules task.held_out=0 task.compositions=held-out", "task.compositions", "task.held_out = 0"},
    {"task.family=rules task.pool=4", "task.pool", "task.mapping"},
    {"task.family=rules task.mapping=letters task.pool=65537", "task.pool", "at most 65536 maps"},
    {"task.family=rules task.shots=104857", "task.shots", "at most 104856 examples"},
    {"task.family=function-classes task.class=cubic", "task.class", "quadratic"},
    {"task.family=function-classes task.class=sparse task.support=11", "task.support", "at most the 10 coordinates"},
    {"task.family=function-classes task.support=2", "task.support", "task.class"},
    {"task.family=function-classes task.class=sparse task.lasso=0.1,0", "task.lasso", "above 0"},
    {"task.family=function-classes task.class=sparse task.lasso=small", "task.lasso", "separated by commas"},
    {"task.family=function-classes task.lasso=0.1", "task.lasso", "task.class"},
    {"task.family=function-classes task.class=decision-tree task.depth=17", "task.depth", ""},
    {"task.family=function-classes task.pool_seed=2", "task.pool_seed", "task.pool"},
    {"task.family=function-classes task.probe=orthogonal", "task.probe_at", "less than task.d = 10"},
    {"task.family=function-classes task.probe=repeated task.probe_at=21", "task.probe_at", "at most task.n = 20"},
    {"task.family=function-classes task.probe=opposite", "task.probe", "task.orthant"},
    {"task.family=function-classes task.probe_at=3", "task.probe_at", "task.probe"},
    {"task.family=function-classes task.curriculum=5 task.curriculum_d=11", "task.curriculum_d", "at most task.d = 10"},
    {"task.family=function-classes task.curriculum=5 task.curriculum_n=21", "task.curriculum_n", "at most task.n = 20"},
    {"task.family=function-classes task.curriculum_d=2", "task.curriculum_d", "task.curriculum"},
    {"task.family=function-classes task.noise_law=cauchy", "task.noise_law", "student-t"},
    {"task.family=function-classes task.noise_law=student-t task.freedom=0", "task.freedom", "1"},
    {"task.family=function-classes task.noise_law=student-t task.freedom=-2", "task.freedom", ""},
    {"task.family=function-classes task.noise_law=student-t task.freedom=2", "task.freedom",
     "more than 2, or task.noise_unit = scale"},
    {"task.family=function-classes task.freedom=5", "task.freedom", "task.noise_law"},
    {"task.family=function-classes task.noise_unit=scale", "task.noise_unit", "task.noise_law"},
    {"task.family=function-classes task.noise_law=student-t task.noise=1e13", "task.noise", "it reaches"},
    {"task.family=function-classes task.outliers=-0.1", "task.outliers", ""},
    {"task.family=function-classes task.outliers=1.01", "task.outliers", ""},
    {"task.family=function-classes task.outliers=0.1 task.outlier_size=0", "task.outlier_size", ""},
    {"task.family=function-classes task.outlier_size=3", "task.outlier_size", "task.outliers"},
    {"task.family=function-classes task.outlier_law=multiplied", "task.outlier_law", "task.outliers"},
    {"task.outliers=0.1", "task.outliers", "task.family"},
    {"task.family=function-classes task.label_law=ranks", "task.label_law", "values|signs|logistic"},
    {"task.family=function-classes task.label_law=signs task.noise=1", "task.noise", "task.label_law = values"},
    {"task.family=function-classes task.label_law=logistic task.outliers=0.1", "task.outliers", "values"},
    {"task.family=function-classes task.label_law=logistic task.flipped=0.1", "task.flipped", "signs"},
    {"task.family=function-classes task.label_law=signs task.flipped=1.5", "task.flipped", "from 0 to 1"},
    {"task.family=function-classes task.label_law=signs task.flipped=-0.5", "task.flipped", "from 0 to 1"},
    {"task.family=function-classes task.label_law=signs task.logistic=1,0", "task.logistic", "above 0"},
    {"task.family=function-classes task.logistic=2", "task.logistic", "signs or logistic"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:1,cubic:1", "task.mixture",
     "\"cubic:1\" is none"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:0,sparse:1", "task.mixture",
     "\"linear:0\" has no"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:-1,sparse:1", "task.mixture", "weight"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:x,sparse:1", "task.mixture", "weight"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:,sparse:1", "task.mixture", "weight"},
    {"task.family=function-classes task.class=mixture task.mixture=linear:1,linear:2", "task.mixture",
     "is there twice"},
    {"task.family=function-classes task.class=mixture task.mixture=linear,sparse,", "task.mixture", "is none"},
    {"task.family=function-classes task.class=mixture task.mixture=linear,mixture", "task.mixture", "\"mixture\" is"},
    {"task.family=function-classes task.class=mixture task.mixture=linear,quadratic task.support=2", "task.support",
     "sparse in task.mixture"},
    {"task.family=function-classes task.class=mixture task.depth=2", "task.depth", "decision-tree in task.mixture"},
    {"task.family=function-classes task.class=mixture task.support=11", "task.support", "at most the 10 coordinates"},
    {"task.family=function-classes task.mixture=linear,quadratic", "task.mixture", "task.class = mixture"},
    {"task.family=function-classes task.covariance=power:0.5", "task.covariance", "whole exponent"},
    {"task.family=function-classes task.covariance=power:9", "task.covariance", "from 0 to 8"},
    {"task.sampler=wishart", "task.sampler", "gram"},
};

static void check_refusal(tap_run *tap, const refusal *bad) {
    icl_task *task = NULL;
    icl_error error = {0};
    const icl_status status = make_task(bad->overrides, &task, &error);
    const bool named = strstr(error.message, bad->key) && strstr(error.message, bad->expected);

    tap_note("%s", error.message);
    tap_ok(tap, status == ICL_ERROR_INPUT && !task && named && !strchr(error.message, '\n'), "%s", bad->overrides);
    icl_task_destroy(&task);
}

#define CLASSES "task.family=classification task.label_count=6 task.examples=4 task.item_size=40 "

/* Sections just inside the bounds. */
static const char *const accepted[] = {
    "task.d=46340",
    "task.d=2047 task.n=1048574",
    "task.family=function-classes task.noise_law=student-t task.noise_unit=scale task.freedom=2",
    "task.noise=fixed:0",
    "task.noise=fixed:1e-30",
    "task.noise=fixed:1e15",
    "task.noise=choice:0,1e-30",
    "task.noise=uniform:0",
    "task.noise=uniform:1e-22",
    "task.d=2 task.covariance=spectrum:1,1e-22",
    "task.family=functions task.inputs=sphere task.lipschitz=0",
    "task.family=functions task.inputs=sphere task.lipschitz=1e-15",
    "task.family=function-classes task.noise_law=student-t task.freedom=2.01",
    "task.family=function-classes task.noise_law=student-t task.freedom=1 task.noise_unit=scale task.outliers=1",
    "task.family=function-classes task.label_law=signs task.flipped=1",
    "task.family=function-classes task.class=mixture task.mixture=linear:1e-6,quadratic:1e6",
    "task.family=function-classes task.class=mixture task.mixture=relu-network",
    "task.family=recall task.pairs=31 task.length=93",
    "task.family=recall task.length=24",
    "task.family=recall task.length=32 task.gaps=power:0",
    "task.family=recall task.gaps=power:10",
    "task.family=recall task.vocabulary=16777216",
    (CLASSES "task.classes=2"),
    (CLASSES "task.classes=5 task.bursty=0.5 task.query=outside"),
    (CLASSES "task.classes=1 task.bursty=0"),
    (CLASSES "task.fresh=0.5 task.relabelled=0.5"),
    (CLASSES "task.burstiness=1 task.label_count=4 task.fresh=1"),
    (CLASSES "task.places=9"),
    "task.family=markov task.symbols=8 task.order=7",
    "task.family=markov task.symbols=2 task.length=3 task.alpha=0.05",
    "task.family=markov task.symbols=2 task.pool=4194304",
    "task.family=markov task.states=4094 task.symbols=3",
    "task.family=rules task.word=8 task.held_out=9",
    "task.family=rules task.alphabet=128 task.word=16 task.held_out=2 task.compositions=held-out",
    "task.family=rules task.shots=104856",
    "task.family=mad task.length=4 task.vocabulary=4",
    "task.family=mad task.skill=noisy-recall task.vocabulary=18 task.noise_share=0.999",
    "task.family=mad task.skill=fuzzy-recall task.vocabulary=7 task.length=12",
    "task.family=mad task.skill=fuzzy-recall task.motif=8",
    "task.family=mad task.skill=copying task.length=33",
    "task.family=mad task.skill=compression task.length=2",
    "task.family=mad task.skill=memorisation task.length=2 task.vocabulary=4",
};

static void check_accepted(tap_run *tap, const char *overrides) {
    icl_task *task = NULL;
    icl_error error = {0};
    tap_status(tap, make_task(overrides, &task, &error), &error, overrides);
    icl_task_destroy(&task);
}

static void check_foreign_batch(tap_run *tap, icl_backend *backend) {
    drawn small = {0}, large = {0};
    icl_batch batch = {0};
    icl_error error = {0};

    open_batch(&small, backend, ICL_FOR_TRAINING, 4, "task.d=2");
    open_batch(&large, backend, ICL_FOR_TRAINING, 4, "task.d=3");
    tap_ok(tap, icl_task_sample(large.task, backend, ICL_FOR_TRAINING, 1, 0, &small.batch, &error) == ICL_ERROR_INPUT,
           "another task's batch is refused: %s", error.message);
    tap_ok(tap, icl_batch_create(small.task, backend, ICL_FOR_TRAINING, (size_t)-1 / 4, &batch, &error) != ICL_OK,
           "a batch that overflows is refused: %s", error.message);
    release(&small);
    release(&large);
}

/* ---- What a program's own family makes ---- */

/* Extents of a batch of 3 sequences of 4 positions with 2 inputs, and of losses at the last 2 with 1 target. */
typedef struct extents {
    const char *what;
    bool is_right;
    size_t inputs[3], targets[3], weights[3]; /* all zero: absent */
} extents;

static icl_status create_own(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape = (icl_task_shape){.positions = 4, .inputs = 2, .outputs = 1, .scored = 2};
    return ICL_OK;
}

static icl_status create_own_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                   icl_batch *batch, icl_error *error) {
    const extents *made = task->family->settings;

    (void)purpose;
    (void)size;
    ICL_CHECK(icl_tensor_create(backend, 3, made->targets, &batch->scratch[0], error));
    batch->targets = batch->scratch[0];
    if (made->inputs[0] > 0)
        ICL_CHECK(icl_tensor_create(backend, 3, made->inputs, &batch->inputs, error));
    if (made->weights[0] > 0)
        ICL_CHECK(icl_tensor_create(backend, 3, made->weights, &batch->scratch[1], error));
    batch->weights = batch->scratch[1];
    return ICL_OK;
}

static void check_own_batches(tap_run *tap, icl_backend *backend) {
    static const extents all[] = {
        {"inputs and targets", true, {3, 4, 2}, {3, 2, 1}, {0}},
        {"targets and weights", true, {0}, {3, 2, 1}, {3, 2, 1}},
        {"a sequence of inputs too many", false, {4, 4, 2}, {3, 2, 1}, {0}},
        {"a position of inputs too few", false, {3, 3, 2}, {3, 2, 1}, {0}},
        {"an input too many", false, {3, 4, 3}, {3, 2, 1}, {0}},
        {"a sequence of targets too few", false, {3, 4, 2}, {2, 2, 1}, {0}},
        {"a target too many", false, {3, 4, 2}, {3, 2, 2}, {0}},
        {"a sequence of weights too few", false, {3, 4, 2}, {3, 2, 1}, {2, 2, 1}},
        {"weights of every position", false, {3, 4, 2}, {3, 2, 1}, {3, 4, 1}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const icl_task_family own = {
            .name = "own", .settings = &all[i], .create = create_own, .batch_create = create_own_batch};
        icl_task *task = NULL;
        icl_batch batch = {0};
        icl_error error = {0};

        tap_need(icl_task_create_with(&own, NULL, &task, tap_error()));
        const icl_status status = icl_batch_create(task, backend, ICL_FOR_TRAINING, 3, &batch, &error);
        tap_ok(tap, status == (all[i].is_right ? ICL_OK : ICL_ERROR_INPUT), "a family's own batch: %s", all[i].what);
        tap_ok(tap, all[i].is_right || !batch.targets.buffer, "and none is there that was refused");
        icl_batch_release(&batch);
        icl_task_destroy(&task);
    }
}

static void check_all(task_test *test) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_refusal(&test->tap, &refusals[i]);
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        check_accepted(&test->tap, accepted[i]);
    check_foreign_batch(&test->tap, test->cpu);
    check_own_batches(&test->tap, test->cpu);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
