/*
 * Probes read the residual stream of a transformer on linear functions by layer: Akyurek, Schuurmans, Andreas, Ma, Zhou
 * 2022, "What learning algorithm is in-context learning? Investigations with linear models" (arXiv 2211.15661), section
 * 5. Behind n pairs (x_i, y_i = <w, x_i>), x, w ~ N(0, I_d), n > d and without noise, probes decode
 *
 *     the moments X^T y    and    the weights of least squares, (X^T X)^-1 X^T y = w
 *
 * from what stands at the last label, where the paper's probes look first, beside its mean over all labels, where they
 * look once n > d. A probe is an affine map (probe/linearity.h), or one of these numbers and of fixed random ReLUs of
 * them, where the paper trains a network of two layers. Scores are shares of variance 1 - E |t - t^|^2 / E |t|^2 of
 * targets with mean 0, on prompts that were not fitted. For these prompts there are exact values:
 *
 *     embeddings of labels    0: turning x and w together changes w and X^T y, and no label
 *     X^T y from w, w from X^T y, by linear maps    n / (n + d + 1), since E |X^T X w|^2 = n d (n + d + 1)
 *
 * so that both are held beside each other only if both score above the second, which is asked at scale full: small
 * models that learned for minutes hold less of either. The control, as theirs, is a model trained on one function
 * alone, which has nothing to find out; and the same model untrained. Both are probed on the same prompts.
 */
#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/activations.h"
#include "probe/linearity.h"

/* The stream of the probes' random numbers. Tasks have other streams (task/streams.h). */
#define HIDDEN_STREAM 0x72656c75u

enum { CHUNK = 256, MOST_STAGES = 17, MOST_DIMENSION = 4 };

/* `hidden` is the number of ReLUs; the first `fitted` prompts are for the fit of probes, and as many for their
 * scores. */
static const struct {
    size_t dimension, pairs, layers, hidden, fitted;
    const char *settings;
} budgets[ICL_SCALES] = {
    {2, 4, 2, 16, 512, "task.d=2 task.n=4 model.layers=2 model.width=16 train.warmup=20 train.steps=60"},
    {4, 8, 4, 128, 4096, "task.d=4 task.n=8 model.layers=4 model.width=32 train.warmup=300 train.steps=4000"},
    {4, 8, 16, 512, 8192,
     "task.d=4 task.n=8 model.layers=16 model.width=512 model.heads=4 train.learning_rate=0.0001 train.schedule=cosine "
     "train.warmup=100000 train.steps=500000"},
};

/* ---- Cells ---- */

enum { TRAINED = 0, ONE_FUNCTION, UNTRAINED };

static void plan(icl_study *study) {
    const char *settings = budgets[study->scale].settings;

    ICL_ADD_CELL(study, .name = "trained", .recipe = "garg", .settings = {settings}, .at = {TRAINED});
    ICL_ADD_CELL(study, .name = "one function", .recipe = "garg", .settings = {settings, "task.pool=1"},
                 .folder = "one-function", .at = {ONE_FUNCTION});
    ICL_ADD_CELL(study, .name = "untrained", .recipe = "garg", .settings = {settings}, .is_untrained = true,
                 .at = {UNTRAINED});
}

/* ---- Numbers ---- */

enum { MOMENTS = 0, WEIGHTS, TARGETS };
enum { LINEAR = 0, RELU, PROBES };
static const char *const target_names[TARGETS] = {"X^T y", "w"};
static const char *const label_names[TARGETS] = {"last label", "mean label"};

/* Scores by stage, 0 the embedding; that of a linear map from one target to the other; and of the labels from the
 * embedding. */
enum {
    SCORES = 0,
    FROM_OTHER = SCORES + PROBES * TARGETS * MOST_STAGES,
    OF_LABELS = FROM_OTHER + TARGETS,
    NUMBERS = OF_LABELS + TARGETS
};

static size_t number_of(size_t probe, size_t target, size_t stage) {
    return SCORES + (probe * TARGETS + target) * MOST_STAGES + stage;
}

/* Prompts of the study's seed: [rows] behind each other, the same for every cell. */
typedef struct prompts {
    size_t rows, stages, width;   /* width: numbers at a position */
    float *targets;               /* [rows][TARGETS][d] */
    float *labels;                /* [rows][TARGETS][1]: the last one, and their mean */
    float *features[MOST_STAGES]; /* [rows][2 width]: at the last label, and the mean over labels */
} prompts;

static void fill_labels(const float *tokens, size_t d, size_t n, float *labels) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)tokens[(2 * k + 1) * d];
    labels[0] = tokens[(2 * n - 1) * d];
    labels[1] = (float)(sum / (double)n);
}

/* x_k stands at position 2 k, and y_k is the first number behind it. */
static void fill_targets(const float *tokens, const float *w, size_t d, size_t n, float *targets) {
    memcpy(targets + WEIGHTS * d, w, d * sizeof *targets);
    for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (double)tokens[2 * k * d + i] * (double)tokens[(2 * k + 1) * d];
        targets[MOMENTS * d + i] = (float)sum;
    }
}

static void fill_features(const float *stream, size_t width, size_t n, float *features) {
    memcpy(features, stream + (2 * n - 1) * width, width * sizeof *features);
    for (size_t i = 0; i < width; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (double)stream[(2 * k + 1) * width + i];
        features[width + i] = (float)(sum / (double)n);
    }
}

static icl_status make_room(const icl_study *study, const icl_residual_stream *stream, prompts *all, icl_error *error) {
    const size_t d = budgets[study->scale].dimension;

    all->stages = stream->stages;
    all->width = stream->width;
    ICL_CHECK(icl_study_room(study, all->rows, TARGETS * d * sizeof *all->targets, &all->targets, error));
    ICL_CHECK(icl_study_room(study, all->rows, TARGETS * sizeof *all->labels, &all->labels, error));
    for (size_t stage = 0; stage < all->stages; stage++)
        ICL_CHECK(icl_study_room(study, all->rows, 2 * all->width * sizeof(float), &all->features[stage], error));
    return ICL_OK;
}

/* Fills the rows of one chunk from its batch. */
static icl_status add_chunk(const icl_study *study, const icl_batch *batch, const icl_residual_stream *stream,
                            size_t first, prompts *all, icl_error *error) {
    const size_t d = budgets[study->scale].dimension, n = budgets[study->scale].pairs, positions = 2 * n + 1;
    float *tokens = NULL, *w = NULL;

    if (first == 0)
        ICL_CHECK(make_room(study, stream, all, error));
    ICL_CHECK(icl_study_read(study, batch->inputs, &tokens, error));
    ICL_CHECK(icl_study_read(study, icl_batch_side(batch, ICL_SIDE_COEFFICIENTS), &w, error));
    for (size_t i = 0; i < CHUNK; i++) {
        fill_labels(tokens + i * positions * d, d, n, all->labels + (first + i) * TARGETS);
        fill_targets(tokens + i * positions * d, w + i * d, d, n, all->targets + (first + i) * TARGETS * d);
        for (size_t stage = 0; stage < all->stages; stage++)
            fill_features(icl_residual_stream_stage(stream, stage) + i * positions * all->width, all->width, n,
                          all->features[stage] + (first + i) * 2 * all->width);
    }
    return ICL_OK;
}

/* Reads the prompts of the first cell's task, all functions, with the stream of this trainer's parameters. */
static icl_status read_prompts(const icl_study *study, icl_trainer *trainer, prompts *all, icl_error *error) {
    icl_task *task = NULL;
    icl_tensor parameters = {0};
    icl_residual_stream stream = {0};
    icl_batch batch;
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_create(study->cells[0]->complete, &task, error));
    ICL_TRY(icl_study_put_parameters(study, trainer, &parameters, error));
    all->rows = 2 * budgets[study->scale].fitted;
    for (size_t first = 0; first < all->rows; first += CHUNK) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_study_batch(study, task, CHUNK, 0, first / CHUNK, &batch, error));
        ICL_TRY(icl_residual_stream_read(icl_trainer_model(trainer), study->run->params->backend, parameters,
                                         batch.inputs, &stream, error));
        ICL_TRY(add_chunk(study, &batch, &stream, first, all, error));
        icl_residual_stream_release(&stream);
    }
done:
    icl_residual_stream_release(&stream);
    icl_tensor_release(&parameters);
    icl_task_destroy(&task);
    return status;
}

/* ---- Probes ---- */

/* Writes the features beside ReLUs of random sums of them, [rows][count + hidden]: each feature is shifted and scaled
 * to mean 0 and variance 1 on the fitted rows, and those that do not vary are left out of the sums. */
static icl_status add_relus(const icl_study *study, const float *features, size_t rows, size_t count, float *wider,
                            icl_error *error) {
    const size_t hidden = budgets[study->scale].hidden, fitted = budgets[study->scale].fitted;
    const icl_random_key key = {.seed = study->run->params->seed, .stream = HIDDEN_STREAM};
    double *mean = NULL, *unit = NULL;
    float *weights = NULL;

    ICL_CHECK(icl_study_room(study, count, sizeof *mean, &mean, error));
    ICL_CHECK(icl_study_room(study, count, sizeof *unit, &unit, error));
    ICL_CHECK(icl_study_room(study, count + 1, hidden * sizeof *weights, &weights, error));
    for (size_t i = 0; i < (count + 1) * hidden; i++)
        weights[i] = icl_normal_from_word(icl_random_word(key, i));
    for (size_t i = 0; i < count; i++) {
        double square = 0;
        for (size_t t = 0; t < fitted; t++)
            mean[i] += (double)features[t * count + i] / (double)fitted;
        for (size_t t = 0; t < fitted; t++)
            square += pow((double)features[t * count + i] - mean[i], 2) / (double)fitted;
        unit[i] = square > 1e-12 * mean[i] * mean[i] ? 1 / sqrt(square * (double)count) : 0;
    }
    for (size_t t = 0; t < rows; t++) {
        float *to = wider + t * (count + hidden), *sums = to + count;
        memcpy(to, features + t * count, count * sizeof *to);
        memcpy(sums, weights + count * hidden, hidden * sizeof *sums);
        for (size_t i = 0; i < count; i++) {
            const float value = (float)(((double)to[i] - mean[i]) * unit[i]);
            for (size_t j = 0; j < hidden; j++)
                sums[j] += value * weights[i * hidden + j];
        }
        for (size_t j = 0; j < hidden; j++)
            sums[j] = fmaxf(0, sums[j]);
    }
    return ICL_OK;
}

/* Fits an affine map of features [rows][count] to targets [rows][TARGETS][d] on the first rows and scores it on the
 * others, by target; standard errors are those of the ratio. */
static icl_status score(const icl_study *study, size_t count, const float *features, size_t d, const float *targets,
                        icl_number scores[TARGETS], icl_error *error) {
    const size_t fitted = budgets[study->scale].fitted;
    double *map = NULL, *left = NULL, *whole = NULL, found[TARGETS * MOST_DIMENSION];

    ICL_CHECK(icl_study_room(study, count + 1, TARGETS * d * sizeof *map, &map, error));
    ICL_CHECK(icl_study_room(study, TARGETS, fitted * sizeof *left, &left, error));
    ICL_CHECK(icl_study_room(study, TARGETS, fitted * sizeof *whole, &whole, error));
    ICL_CHECK(icl_affine_fit(fitted, count, TARGETS * d, features, targets, map, error));
    for (size_t t = 0; t < fitted; t++) {
        const float *wanted = targets + (fitted + t) * TARGETS * d;
        icl_affine_apply(map, count, TARGETS * d, features + (fitted + t) * count, found);
        for (size_t i = 0; i < TARGETS * d; i++) {
            left[i / d * fitted + t] += pow((double)wanted[i] - found[i], 2);
            whole[i / d * fitted + t] += pow((double)wanted[i], 2);
        }
    }
    for (size_t target = 0; target < TARGETS; target++, left += fitted, whole += fitted) {
        const double square = icl_mean(whole, fitted), share = icl_mean(left, fitted) / square;
        for (size_t t = 0; t < fitted; t++)
            left[t] -= share * whole[t];
        scores[target] = (icl_number){1 - share, icl_standard_error(left, fitted) / square};
    }
    return ICL_OK;
}

/* Scores linear maps from each target to the other. */
static icl_status score_targets(const icl_study *study, const prompts *all, icl_number *numbers, icl_error *error) {
    const size_t d = budgets[study->scale].dimension;
    icl_number scores[TARGETS];
    float *own = NULL;

    ICL_CHECK(icl_study_room(study, all->rows, d * sizeof *own, &own, error));
    for (size_t target = 0; target < TARGETS; target++) {
        for (size_t t = 0; t < all->rows; t++)
            memcpy(own + t * d, all->targets + (t * TARGETS + 1 - target) * d, d * sizeof *own);
        ICL_CHECK(score(study, d, own, d, all->targets, scores, error));
        numbers[FROM_OTHER + target] = scores[target];
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const size_t d = budgets[study->scale].dimension, hidden = budgets[study->scale].hidden;
    prompts all = {0};
    float *wider = NULL;

    (void)cell;
    ICL_CHECK(read_prompts(study, trained, &all, error));
    ICL_CHECK(score_targets(study, &all, numbers, error));
    ICL_CHECK(score(study, 2 * all.width, all.features[0], 1, all.labels, &numbers[OF_LABELS], error));
    ICL_CHECK(icl_study_room(study, all.rows, (2 * all.width + hidden) * sizeof *wider, &wider, error));
    for (size_t stage = 0; stage < all.stages; stage++) {
        icl_number scores[PROBES][TARGETS];
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(add_relus(study, all.features[stage], all.rows, 2 * all.width, wider, error));
        ICL_CHECK(score(study, 2 * all.width, all.features[stage], d, all.targets, scores[LINEAR], error));
        ICL_CHECK(score(study, 2 * all.width + hidden, wider, d, all.targets, scores[RELU], error));
        for (size_t i = 0; i < PROBES * TARGETS; i++)
            numbers[number_of(i / TARGETS, i % TARGETS, stage)] = scores[i / TARGETS][i % TARGETS];
    }
    return ICL_OK;
}

/* ---- Judging ---- */

static size_t find_best(const icl_study *study, const icl_study_cell *cell, size_t probe, size_t target) {
    size_t best = 0;

    for (size_t stage = 1; stage <= budgets[study->scale].layers; stage++)
        if (cell->numbers[number_of(probe, target, stage)].value > cell->numbers[number_of(probe, target, best)].value)
            best = stage;
    return best;
}

/* Returns the first stage with nine tenths of the best score. */
static size_t find_first(const icl_study *study, const icl_study_cell *cell, size_t target) {
    const double most = cell->numbers[number_of(LINEAR, target, find_best(study, cell, LINEAR, target))].value;
    size_t stage = 0;

    while (stage < budgets[study->scale].layers && cell->numbers[number_of(LINEAR, target, stage)].value < .9 * most)
        stage++;
    return stage;
}

static double share_of_other(const icl_study *study) {
    const double d = (double)budgets[study->scale].dimension, n = (double)budgets[study->scale].pairs;
    return n / (n + d + 1);
}

/* Judges what holds for every model: what the prompts fix, that labels alone tell nothing, and that they are there. */
static void judge_known(icl_study *study, const icl_study_cell *cell) {
    for (size_t target = 0; target < TARGETS; target++) {
        const icl_number other = cell->numbers[FROM_OTHER + target];
        if (cell->at[0] == TRAINED)
            ICL_JUDGE(study, .what = ICL_PHRASE("%s from %s", target_names[target], target_names[1 - target]),
                      .quantity = "share by a linear map", ICL_OURS(other), .target = share_of_other(study),
                      .tolerance = 4 * other.standard_error, .evidence = ICL_COMPUTED, .source = "n / (n + d + 1)");
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s from embeddings", cell->name, label_names[target]),
                  .quantity = "share by a linear probe", ICL_OURS(cell->numbers[OF_LABELS + target]), .target = 1,
                  .tolerance = 1e-6, .evidence = ICL_COMPUTED, .source = "embeddings are linear");
        for (size_t probe = 0; probe < PROBES; probe++) {
            const icl_number none = cell->numbers[number_of(probe, target, 0)];
            ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s from embeddings", cell->name, target_names[target]),
                      .quantity = probe == LINEAR ? "share by a linear probe" : "share by a probe with ReLUs",
                      ICL_OURS(none), .target = 0, .tolerance = 4 * none.standard_error, .criterion = ICL_AT_MOST,
                      .evidence = ICL_COMPUTED, .source = "labels alone tell nothing");
        }
    }
}

static void draw(icl_study *study, const icl_study_cell *cell) {
    const icl_phrase name = icl_phrase_print("algorithms-probes-%zu", cell->at[0] + 1);
    const icl_phrase title = icl_phrase_print("What the residual stream tells, by layer: model %s", cell->name);
    icl_curves curves = ICL_CURVES(.name = name.text, .title = title.text, .x_label = "layer, 0 the embedding",
                                   .y_label = "share of the target's variance");
    double layers[MOST_STAGES];

    for (size_t stage = 0; stage < MOST_STAGES; stage++)
        layers[stage] = (double)stage;
    for (size_t probe = 0; probe < PROBES; probe++)
        for (size_t target = 0; target < TARGETS; target++)
            icl_study_plot_numbers(
                study, &curves, ICL_PHRASE("%s, %s", target_names[target], probe == LINEAR ? "linear" : "ReLUs"),
                ICL_SERIES_OURS, layers, cell->numbers + number_of(probe, target, 0), budgets[study->scale].layers + 1);
    icl_study_draw(study, &curves);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    judge_known(study, cell);
    draw(study, cell);
}

/* Judges the trained model's best layer above the control's, by four standard errors of both. */
static void judge_above(icl_study *study, const icl_study_cell *trained, const icl_study_cell *control, size_t target,
                        icl_evidence evidence) {
    const size_t at = find_best(study, trained, RELU, target), beside = find_best(study, control, RELU, target);
    const icl_number ours = trained->numbers[number_of(RELU, target, at)];
    const icl_number theirs = control->numbers[number_of(RELU, target, beside)];

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, best layer, above model %s", target_names[target], control->name),
              .quantity = "share by a probe with ReLUs", ICL_OURS(ours),
              .target = theirs.value + 4 * hypot(ours.standard_error, theirs.standard_error), .criterion = ICL_AT_LEAST,
              .evidence = evidence, .source = "figure 4: more accurate than on the control",
              .note = ICL_PHRASE("layers %zu and %zu", at, beside));
}

static void judge_trained(icl_study *study, const icl_study_cell *trained, size_t target, icl_evidence evidence) {
    const size_t last = budgets[study->scale].layers, at = find_best(study, trained, LINEAR, target);
    const icl_number best = trained->numbers[number_of(LINEAR, target, at)];
    const icl_number linear = trained->numbers[number_of(LINEAR, target, last)];
    const icl_number relu = trained->numbers[number_of(RELU, target, last)];

    ICL_JUDGE(
        study,
        .what = ICL_PHRASE("%s, best layer, beyond what %s tells", target_names[target], target_names[1 - target]),
        .quantity = "share by a linear probe", ICL_OURS(best), .target = share_of_other(study),
        .criterion = ICL_AT_LEAST, .evidence = study->scale == ICL_SCALE_FULL ? ICL_INFERRED : ICL_EVIDENCE_NONE,
        .source = "one does not tell the other",
        .note = ICL_PHRASE("layer %zu; nine tenths of it from layer %zu", at, find_first(study, trained, target)));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, last layer, ReLUs beyond a linear probe", target_names[target]),
              .quantity = "difference of shares", .ours = relu.value - linear.value,
              .standard_error = hypot(relu.standard_error, linear.standard_error),
              .target = 4 * hypot(relu.standard_error, linear.standard_error), .criterion = ICL_AT_LEAST,
              .evidence = evidence, .source = "abstract: late layers encode both non-linearly",
              .note = ICL_PHRASE("%.4f and %.4f", relu.value, linear.value));
}

static void conclude(icl_study *study) {
    /* At scale ci the model hardly learns. */
    const icl_evidence evidence = study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_STATED;
    const icl_study_cell *trained = study->cells[TRAINED];

    for (size_t target = 0; target < TARGETS; target++) {
        if (!trained->is_measured)
            continue;
        judge_trained(study, trained, target, evidence);
        for (size_t i = ONE_FUNCTION; i <= UNTRAINED; i++)
            if (study->cells[i]->is_measured)
                judge_above(study, trained, study->cells[i], target, evidence);
    }
}

const icl_reproduction icl_algorithms_probes =
    ICL_STUDY(.name = "algorithms-probes", .source = "arXiv 2211.15661, section 5",
              .about = "X^T y and the weights of least squares, decoded from the residual stream by layer",
              .claim = "The moments X^T y and the weights of least squares can be decoded from the activations of a "
                       "transformer trained on linear functions.",
              .scope = "A met table means that probes find more of the moments and the weights in a trained "
                       "model than in its controls; that the model uses what a probe finds was not tested.",
              .cost = {"1 s", "2 min", "weeks"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
