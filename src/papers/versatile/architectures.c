/*
 * Theorem 4.1 beyond linear attention (Vladymyrov et al. 2024, arXiv 2402.14180): of which layers is the prediction
 * linear in the query? Its authors told reviewers: of RetNet's, yes; of gated and selective states (GLA, Mamba), no.
 *
 * The theorem's sums run over the context alone. A layer of a causal mixer also writes its query, v_q k_q^T, and reads
 * that, which is cubic in x_q. If values are of labels alone, the query writes nothing, because its label is 0, and
 * what is left is its gate: a state that decays by constants is read linearly; one that decays by the query's own
 * token, or from which the query erases, is not. With values of whole tokens no mixer is linear.
 *
 * Models are as they start, at random: f(a p + b q) is compared with a f(p) + b f(q) behind one context. For a linear
 * transformer with full matrices p and q are context tokens, labels included, too: tokens x + y u stay linear in x and
 * y (the theorem's first part).
 *
 * Noisy regression sets all mixers beside each other at equal parameters, and beside ridge regression that knows
 * sigma: one training each, of few steps at one learning rate, so that the order is shown and not judged.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "papers/papers.h"

/* ---- Linearity in the query ---- */

enum { D = 5, WIDTH = D + 1, INNER = 8, GROUPS = 64, GROUP = 4 };

#define TASK "task.d=5 task.n=10 task.noise=fixed:0.5 task.sampler=tokens train.batch=1 eval.every=0 "
#define WITHOUT_KEYS                                                                                                   \
    TASK "model.family=sequence model.layers=1 model.heads=1 model.width=6 model.norm=none model.feed_forward=none "   \
         "model.embedding_bias=false model.init=0.4 "
#define SEQUENCE WITHOUT_KEYS "model.key_width=8 model.value_width=8 "
#define STATE    SEQUENCE "model.output_norm=none "

/* A layer, whether its prediction is linear in the query if values are of labels, and by whom that is said. */
typedef struct layer {
    const char *name, *settings;
    bool is_sequence, is_linear, has_labels; /* has_labels: p and q are context tokens */
    icl_evidence evidence;
    const char *source;
} layer;

/* A mixer that is not linear in the query, which follows from its equations (src/model/sequence/mixer_*.c). */
#define NOT_LINEAR true, false, false, ICL_INFERRED

static const layer layers[] = {
    {"linear transformer, full, 3 layers", TASK "model.layers=3 model.init_std=0.2", false, true, false, ICL_READ,
     "theorem 4.1"},
    {"the same, context tokens", TASK "model.layers=3 model.init_std=0.2", false, true, true, ICL_READ, "theorem 4.1"},
    {"linear", STATE "model.mixer=linear", true, true, false, ICL_READ, "theorem 4.1"},
    {"retention", STATE "model.mixer=retention", true, true, false, ICL_READ, "reviews: RetNet is"},
    {"momentum", STATE "model.mixer=momentum", true, true, false, ICL_INFERRED, "its decay is constant"},
    {"gla", STATE "model.mixer=gla", true, false, false, ICL_READ, "reviews: GLA is not"},
    {"mamba2", STATE "model.mixer=mamba2", true, false, false, ICL_READ, "reviews: SSMs are not"},
    {"gated-delta", STATE "model.mixer=gated-delta model.normalize_keys=none", NOT_LINEAR,
     "the query gates and erases"},
    {"delta", STATE "model.mixer=delta model.normalize_keys=none", NOT_LINEAR, "the query erases"},
    {"delta-product", STATE "model.mixer=delta-product model.normalize_keys=none", NOT_LINEAR, "the query erases"},
    {"longhorn", STATE "model.mixer=longhorn", NOT_LINEAR, "the query erases"},
    {"kda", STATE "model.mixer=kda", NOT_LINEAR, "the query gates and erases"},
    {"gated-delta-2", STATE "model.mixer=gated-delta-2", NOT_LINEAR, "the query gates and erases"},
    {"preconditioned-delta", STATE "model.mixer=preconditioned-delta", NOT_LINEAR, "the query gates and erases"},
    {"comba", STATE "model.mixer=comba", NOT_LINEAR, "the query gates and erases"},
    {"rwkv7", STATE "model.mixer=rwkv7", NOT_LINEAR, "the query gates and erases"},
    {"titans", STATE "model.mixer=titans", NOT_LINEAR, "the query gates and erases"},
    {"mamba3", STATE "model.mixer=mamba3", NOT_LINEAR, "the query gates and turns"},
    {"oja", STATE "model.mixer=oja", NOT_LINEAR, "the query gates"},
    {"log-linear", STATE "model.mixer=log-linear", NOT_LINEAR, "the query gates and weighs levels"},
    {"mesa", STATE "model.mixer=mesa", NOT_LINEAR, "an inverse that holds the query"},
    {"gsa", STATE "model.mixer=gsa", NOT_LINEAR, "an exponential of the query"},
    {"softmax", SEQUENCE "model.mixer=softmax", NOT_LINEAR, "an exponential of the query"},
    {"labelled", SEQUENCE "model.mixer=labelled", NOT_LINEAR, "an exponential of the query"},
    {"fox", SEQUENCE "model.mixer=fox", NOT_LINEAR, "an exponential of the query"},
    {"conv", WITHOUT_KEYS "model.mixer=conv model.convolution=3", NOT_LINEAR, "two factors of the query"},
};

/* Single precision leaves some units of 2^-24 of sums of some ten terms; what is not linear is beyond chance. */
#define ROUNDING 1e-5
#define CLEARLY  1e-4

enum { A = 0, B, COMBINED, WITHOUT_LABEL };

static const float weights[2] = {.7F, -1.3F}; /* a, b */

/* Gives each group of sequences one context, and the queries p, q, a p + b q and p without its label. */
static void make_queries(const layer *which, size_t n, float *inputs) {
    const size_t size = (n + 1) * WIDTH;

    for (size_t group = 0; group < GROUPS; group++) {
        float *first = inputs + group * GROUP * size, *queries[GROUP];
        for (size_t i = 0; i < GROUP; i++) {
            queries[i] = first + i * size + n * WIDTH;
            if (i > 0)
                memcpy(first + i * size, first, n * WIDTH * sizeof *first);
        }
        for (size_t i = 0; i < 2 && which->has_labels; i++)
            memcpy(queries[i], first + i * WIDTH, WIDTH * sizeof *first);
        memcpy(queries[WITHOUT_LABEL], queries[A], WIDTH * sizeof *first);
        queries[WITHOUT_LABEL][D] = 0;
        for (size_t j = 0; j < WIDTH; j++)
            queries[COMBINED][j] = weights[A] * queries[A][j] + weights[B] * queries[B][j];
    }
}

/* Makes the embedding the identity and takes the inputs out of values, as rows of their matrix [width, inner]. */
static void read_labels_alone(const icl_model *model, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        float *at = values + info->offset;
        for (size_t k = 0; k < info->count && strcmp(info->name, "embedding.weight") == 0; k++)
            at[k] = k % (WIDTH + 1) == 0 ? 1 : 0;
        for (size_t k = 0; k < (size_t)D * INNER && strstr(info->name, ".mixer.value") != NULL; k++)
            at[k] = 0;
    }
}

/* Returns sqrt(sum (f(a p + b q) - a f(p) - b f(q))^2 / sum f(a p + b q)^2), and that of f(p) without p's label. */
static void compare(const float *outputs, icl_number *residual, icl_number *label_part) {
    double miss = 0, size = 0, moved = 0, first = 0;

    for (size_t group = 0; group < GROUPS; group++) {
        const float *f = outputs + group * GROUP;
        const double combined = (double)f[COMBINED];
        miss += pow(combined - (double)weights[A] * (double)f[A] - (double)weights[B] * (double)f[B], 2);
        size += combined * combined;
        moved += pow((double)f[A] - (double)f[WITHOUT_LABEL], 2);
        first += (double)f[A] * (double)f[A];
    }
    residual->value = sqrt(miss / size);
    label_part->value = sqrt(moved / first);
}

/* RESIDUAL is with values of labels, WHOLE with those of whole tokens. */
enum { RESIDUAL = 0, LABEL_PART, WHOLE };

static icl_status measure_layer(icl_study *study, const layer *which, icl_number *numbers, icl_error *error) {
    float outputs[GROUPS * GROUP], *inputs = NULL, *values = NULL;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_batch batch;
    icl_number unused;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, which->settings, error));
    ICL_TRY(icl_trainer_create(study->run->params->backend, recipe, &trainer, error));
    const icl_task *task = icl_trainer_task(trainer);
    ICL_TRY(icl_study_batch(study, task, GROUPS * GROUP, 0, 0, &batch, error));
    ICL_TRY(icl_study_read(study, batch.inputs, &inputs, error));
    make_queries(which, icl_task_context(task), inputs);
    ICL_TRY(icl_tensor_write(batch.inputs, inputs, error));
    ICL_TRY(icl_study_parameters(study, trainer, &values, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
    compare(outputs, &numbers[which->is_sequence ? WHOLE : RESIDUAL], &numbers[LABEL_PART]);
    if (which->is_sequence) {
        read_labels_alone(icl_trainer_model(trainer), values);
        ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
        ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
        compare(outputs, &numbers[RESIDUAL], &unused);
    }
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static void judge_layer(icl_study *study, const icl_study_cell *cell, const layer *which) {
    const icl_number *numbers = cell->numbers;

    ICL_JUDGE(study, .quantity = "distance from linear", ICL_OURS(numbers[RESIDUAL]),
              .target = which->is_linear ? ROUNDING : CLEARLY,
              .criterion = which->is_linear ? ICL_AT_MOST : ICL_AT_LEAST, .evidence = which->evidence,
              .source = which->source);
    if (which->is_sequence)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, values of whole tokens", cell->name),
                  .quantity = "distance from linear", ICL_OURS(numbers[WHOLE]), .target = CLEARLY,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED, .source = "the query reads what it wrote");
    if (which->has_labels)
        ICL_JUDGE(study, .quantity = "share of the label", ICL_OURS(numbers[LABEL_PART]), .target = .1,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED, .source = "y passes every layer");
}

/* ---- Noisy regression at equal parameters ---- */

enum { PAIRS = 12, LEVELS = 2, BEST_WIDTH = 32 };

static const double levels[LEVELS] = {.3, 1};

/* All mixers; at scale ci the first two. */
static const char *const mixers[] = {
    "softmax",  "linear",     "retention",   "gla",           "mamba2", "delta",         "fox",
    "labelled", "mamba3",     "gated-delta", "delta-product", "kda",    "gated-delta-2", "preconditioned-delta",
    "comba",    "rwkv7",      "titans",      "longhorn",      "mesa",   "momentum",      "gsa",
    "oja",      "log-linear", "conv"};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static const struct {
    size_t mixers, steps, sequences;
} budgets[ICL_SCALES] = {{2, 60, 1024}, {MIXERS, 3000, 4096}, {MIXERS, 10000, 20000}};

#define REGRESSION                                                                                                     \
    "task.d=5 task.n=12 task.noise=choice:0.3,1 model.layers=2 model.heads=1 "                                         \
    "model.convolution=3 model.positions=none model.norm=layer model.feed_forward=swiglu "                             \
    "model.feed_forward_factor=2 train.batch=32 train.learning_rate=0.005 train.clip=1 train.schedule=cosine "         \
    "eval.every=0"

static icl_phrase mixer_of(size_t mixer, size_t width) {
    const bool has_keys = strcmp(mixers[mixer], "conv") != 0;

    return icl_phrase_print("model.mixer=conv,%s model.width=%zu%s", mixers[mixer], width,
                            has_keys ? " model.key_width=16 model.value_width=16" : "");
}

static icl_status count_parameters(size_t mixer, size_t width, size_t *count, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("garg", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, REGRESSION, error));
    ICL_TRY(icl_reproduce_override_all(recipe, mixer_of(mixer, width).text, error));
    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(task), &model, error));
    *count = icl_model_size(model);
done:
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Returns the even width whose number of parameters is nearest to that of the first mixer at BEST_WIDTH. */
static size_t fit_width(icl_study *study, size_t mixer) {
    size_t wanted = 0, best = BEST_WIDTH, least = SIZE_MAX;

    ICL_STUDY_CALL(study, count_parameters, 0, BEST_WIDTH, &wanted);
    for (size_t width = BEST_WIDTH / 2; mixer > 0 && width <= 2 * BEST_WIDTH; width += 2) {
        size_t count = 0;
        ICL_STUDY_CALL(study, count_parameters, mixer, width, &count);
        const size_t apart = count > wanted ? count - wanted : wanted - count;
        if (apart < least) {
            least = apart;
            best = width;
        }
    }
    return best;
}

/* Squared errors behind all pairs at each level: of the model, and of ridge regression that knows sigma; and how many
 * parameters the model has. */
enum { MODEL = 0, RIDGE = MODEL + LEVELS, PARAMETERS = RIDGE + LEVELS, NUMBERS };

static icl_status measure_mixer(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                                icl_error *error) {
    numbers[PARAMETERS].value = (double)icl_model_size(icl_trainer_model(trained));
    for (size_t level = 0; level < LEVELS; level++) {
        icl_evaluation *evaluation = NULL;
        ICL_CHECK(icl_study_evaluate(study, cell, trained,
                                     ICL_PHRASE("task.noise=fixed:%g eval.predictors=ridge", levels[level]),
                                     &evaluation, error));
        const icl_score *model = icl_reproduce_score(evaluation, "model");
        const icl_score *ridge = icl_reproduce_score(evaluation, "ridge");
        numbers[MODEL + level] = (icl_number){model->positions[PAIRS].loss, model->positions[PAIRS].se};
        numbers[RIDGE + level] = (icl_number){ridge->positions[PAIRS].loss, ridge->positions[PAIRS].se};
    }
    return ICL_OK;
}

static void judge_mixer(icl_study *study, const icl_study_cell *cell) {
    for (size_t level = 0; level < LEVELS; level++) {
        const icl_number ours = cell->numbers[MODEL + level], ridge = cell->numbers[RIDGE + level];
        const icl_number above = {ours.value - ridge.value, hypot(ours.standard_error, ridge.standard_error)};
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, sigma %g", cell->name, levels[level]), .quantity = "error above ridge",
                  ICL_OURS(above), .tolerance = 3 * above.standard_error, .criterion = ICL_AT_LEAST,
                  .evidence = ICL_COMPUTED, .source = "ridge that knows sigma is the best",
                  .note = ICL_PHRASE("%.4g, ridge %.4g, %.0f parameters", ours.value, ridge.value,
                                     cell->numbers[PARAMETERS].value));
    }
}

/* ---- The study ---- */

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        ICL_ADD_CELL(study, .name = layers[i].name, .group = "linearity", .data = &layers[i]);
    for (size_t mixer = 0; mixer < budgets[study->scale].mixers; mixer++)
        ICL_ADD_CELL(
            study, .name = ICL_PHRASE("noisy regression, %s", mixers[mixer]),
            .group = ICL_PHRASE("regression-%s", mixers[mixer]), .folder = mixers[mixer], .recipe = "garg",
            .may_diverge = true, .at = {mixer},
            .settings = {REGRESSION, mixer_of(mixer, fit_width(study, mixer)).text,
                         ICL_PHRASE("train.steps=%zu train.warmup=%zu eval.sequences=%zu", budgets[study->scale].steps,
                                    budgets[study->scale].steps / 20, budgets[study->scale].sequences)});
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    return cell->data ? measure_layer(study, cell->data, numbers, error)
                      : measure_mixer(study, cell, trained, numbers, error);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    if (cell->data)
        judge_layer(study, cell, cell->data);
    else
        judge_mixer(study, cell);
}

const icl_reproduction icl_versatile_architectures =
    ICL_STUDY(.name = "versatile-architectures", .source = "arXiv 2402.14180, theorem 4.1 and its reviews",
              .about = "which mixers' predictions are linear in the query, and noisy regression by mixer",
              .claim =
                  "A layer's prediction is linear in the query for linear attention and constant decay, and is not "
                  "where the query's own token gates, erases or weighs.",
              .scope = "A met table means that random layers are linear in the query exactly where their "
                       "equations say so; trained layers are compared by their losses alone, which are judged "
                       "against the floor that no model is below.",
              .cost = {"5 s", "6 min", "45 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge);
