/* The table of every recipe key: parser, default, range and documentation at once. */
#include "iclab/lab.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Wide enough for any experiment; what a device can hold is checked when memory is asked for. */
#define MAX_EXTENT 1048576.0
#define MAX_STEPS  1e12
#define MAX_SEED   4294967295.0

static const icl_recipe_key keys[] = {
    {"task", "family", ICL_KEY_WORD, "linear-regression", .words = "linear-regression|functions",
     .help = "family of tasks"},
    {"task", "d", ICL_KEY_COUNT, "10", 1, MAX_EXTENT, .help = "dimension of x"},
    {"task", "n", ICL_KEY_COUNT, "20", 1, MAX_EXTENT, .help = "labelled pairs in the context"},
    {"task", "noise", ICL_KEY_TEXT, "uniform:5",
     .help = "sigma of a sequence: fixed:S | uniform:SMAX | choice:S1,S2,..."},
    {"task", "inputs", ICL_KEY_TEXT, "normal",
     .help = "law of x: normal | uniform:A (on [-A, A]) | sphere | gamma:K,THETA (of |x|^2)"},
    {"task", "covariance", ICL_KEY_TEXT, "identity",
     .help = "covariance of x: identity | spectrum:A,B,... (d eigenvalues)"},
    {"task", "rotate", ICL_KEY_FLAG, "false", .help = "turn the covariance's axes by a random rotation"},
    {"task", "rotation_seed", ICL_KEY_COUNT, "1", 0, MAX_SEED, .help = "which rotation, or subspace"},
    {"task", "weights", ICL_KEY_WORD, "normal", .words = "normal|inverse-covariance",
     .help = "w ~ N(0, I) or N(0, inverse of the covariance of x)"},
    {"task", "sampler", ICL_KEY_WORD, "tokens", .words = "tokens|gram",
     .help = "training draws every token, or the Gram matrix alone"},
    {"task", "function", ICL_KEY_WORD, "affine", .words = "affine|relu|cosine|quadratic",
     .help = "family functions: f of one random direction of x on the unit sphere"},
    {"task", "lipschitz", ICL_KEY_NUMBER, "1", 0, 1e15,
     .help = "family functions: largest slope; slopes and offsets are uniform up to it"},
    {"task", "subspace", ICL_KEY_COUNT, "0", 0, MAX_EXTENT,
     .help = "family functions: directions of x that f depends on, a random subspace; 0: all"},
    {"task", "nuisance", ICL_KEY_NUMBER, "1", 0, 1e6,
     .help = "family functions: length of the part of x outside the subspace, beside 1 inside"},

    {"model", "family", ICL_KEY_WORD, "linear", .words = "linear|softmax", .help = "architecture"},
    {"model", "layers", ICL_KEY_COUNT, "4", 1, 1024, .help = "attention layers L"},
    {"model", "tied", ICL_KEY_FLAG, "false", .help = "one layer's parameters for all layers"},
    {"model", "heads", ICL_KEY_COUNT, "1", 1, 1024, .help = "attention heads in a layer"},
    {"model", "parameterization", ICL_KEY_WORD, "full",
     .words = "full|diag|gd++|sparse|sparse-b|diag+lowrank", .help = "which entries of P and Q are trained"},
    {"model", "attention", ICL_KEY_WORD, "softmax", .words = "softmax|linear",
     .help = "family softmax: weights of the labels are a softmax of the scores, or the scores over n"},
    {"model", "rank", ICL_KEY_COUNT, "1", 1, 1024, .help = "diag+lowrank: of what is added to the diagonals"},
    {"model", "scale", ICL_KEY_WORD, "mean", .words = "raw|mean|softmax",
     .help = "attention weights over the context: as they are, over n, or their softmax (then on the tape "
             "alone)"},
    {"model", "space", ICL_KEY_WORD, "auto", .words = "auto|gram|tokens|composed",
     .help = "what layers carry: Gram matrices, tokens, or whichever is cheaper; or composed of small ops"},
    {"model", "initialization", ICL_KEY_WORD, "descent", .words = "normal|descent",
     .help = "P and Q at random, or near a few steps of gradient descent"},
    {"model", "init_std", ICL_KEY_NUMBER, "0.002", 0, 100, .help = "standard deviation of the random part"},
    {"model", "coupling_std", ICL_KEY_NUMBER, "0", 0, 100,
     .help = "full: the same between the first input and the label; 0: init_std"},

    {"train", "optimizer", ICL_KEY_WORD, "adam", .words = "adam|sgd",
     .help = "how a gradient becomes a step"},
    {"train", "learning_rate", ICL_KEY_NUMBER, "0.01", 1e-12, 1e6, .help = "after warm-up"},
    {"train", "schedule", ICL_KEY_WORD, "cosine", .words = "constant|step|cosine",
     .help = "learning rate after warm-up: as it is, times step_factor every step_every steps, or down to 0"},
    {"train", "warmup", ICL_KEY_COUNT, "500", 0, MAX_STEPS, .help = "steps of linear warm-up"},
    {"train", "horizon", ICL_KEY_COUNT, "0", 0, MAX_STEPS,
     .help = "step at which the schedule ends; 0: train.steps"},
    {"train", "step_every", ICL_KEY_COUNT, "1000", 1, MAX_STEPS,
     .help = "schedule = step: steps between cuts"},
    {"train", "step_factor", ICL_KEY_NUMBER, "0.5", 1e-6, 1, .help = "schedule = step: factor of each cut"},
    {"train", "beta1", ICL_KEY_NUMBER, "0.9", 0, 0.999999, .help = "adam: decay of the first moment"},
    {"train", "beta2", ICL_KEY_NUMBER, "0.99", 0, 0.999999, .help = "adam: decay of the second moment"},
    {"train", "epsilon", ICL_KEY_NUMBER, "1e-8", 1e-30, 1,
     .help = "adam: added to the root of the second moment"},
    {"train", "weight_decay", ICL_KEY_NUMBER, "0", 0, 1e6, .help = "adam: decoupled weight decay"},
    {"train", "momentum", ICL_KEY_NUMBER, "0.9", 0, 0.999999, .help = "sgd: share of the last step kept"},
    {"train", "clip", ICL_KEY_NUMBER, "1", 0, 1e30,
     .help = "largest norm of the whole gradient; 0: no limit"},
    {"train", "sequence_clip", ICL_KEY_NUMBER, "0", 0, 1,
     .help = "share of the sequences whose own gradients are cut, all to one norm that is tracked; 0: none"},
    {"train", "growth", ICL_KEY_COUNT, "0", 0, MAX_STEPS,
     .help = "steps at each depth, from 2 layers up, before the last; 0: all layers at once"},
    {"train", "batch", ICL_KEY_COUNT, "2048", 1, 1073741824, .help = "sequences in a step"},
    {"train", "slices", ICL_KEY_COUNT, "1", 1, 1073741824,
     .help = "equal parts of a batch, each drawn and differentiated by itself; ranks of mpirun share them"},
    {"train", "refresh", ICL_KEY_COUNT, "1", 1, MAX_STEPS, .help = "steps that share a batch"},
    {"train", "steps", ICL_KEY_COUNT, "10000", 0, MAX_STEPS, .help = "steps in all"},
    {"train", "seed", ICL_KEY_COUNT, "1", 0, MAX_SEED,
     .help = "of the initial parameters and of all training data"},
    {"train", "init", ICL_KEY_TEXT, "",
     .help = "model.safetensors to start from, instead of model.initialization; empty: none"},
    {"train", "metrics_every", ICL_KEY_COUNT, "1", 1, MAX_STEPS, .help = "steps between rows of metrics.csv"},
    {"train", "checkpoint_every", ICL_KEY_COUNT, "1000", 0, MAX_STEPS,
     .help = "steps between checkpoints; 0: at the end alone"},
    {"train", "snapshot_every", ICL_KEY_COUNT, "0", 0, MAX_STEPS,
     .help = "steps between copies of the model that are kept, from step 0 on; 0: none"},

    {"eval", "sequences", ICL_KEY_COUNT, "100000", 2, 1e8, .help = "fresh sequences of the final table"},
    {"eval", "predictors", ICL_KEY_TEXT, "oracle,bayes,ols,constrr,adarr,tunedrr",
     .help = "beside the model: oracle, bayes, ols, constrr, adarr, tunedrr, ridge, gd:K, gd++:K, pgd:K, "
             "pgd++:K"},
    {"eval", "fit_sequences", ICL_KEY_COUNT, "20000", 2, 1e8,
     .help = "sequences that fitted predictors are fitted on"},
    {"eval", "seed", ICL_KEY_COUNT, "1", 0, MAX_SEED, .help = "of the evaluation and fitting sequences"},
    {"eval", "every", ICL_KEY_COUNT, "1000", 0, MAX_STEPS,
     .help = "steps between evaluations during training; 0: none"},
    {"eval", "every_sequences", ICL_KEY_COUNT, "8192", 2, 1e8,
     .help = "sequences of such an evaluation, always the same"},
};

const icl_recipe_key *icl_lab_recipe_keys(size_t *count) {
    *count = COUNT_OF(keys);
    return keys;
}

icl_status icl_lab_recipe_create(icl_recipe **recipe, icl_error *error) {
    return icl_recipe_create(keys, COUNT_OF(keys), recipe, error);
}
