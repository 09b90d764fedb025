/*
 * Whether full matrices become diagonal, and where they are worth more: Vladymyrov et al. 2024 (arXiv 2402.14180), who
 * show nearly diagonal heat maps of a trained full model and say that diagonal layers do as well.
 *
 * Full layers begin with noise in all entries, uncoupled. With B a block of P or Q on inputs, B = m I + C and m the
 * median eigenvalue of its symmetric part, three things are told: the share of B's squares off the diagonal, that of C,
 * and how much of C one direction holds, its largest singular value's square. What changes inputs in the last layer is
 * never read, and not told. Where noise varies by sequence, one direction of the inputs can hold what layers compute of
 * the labels, beside the label itself: it is preferred to the others by chance, and C of the last layer's Q is mostly
 * that direction. With one level of noise there is nothing to hold, and no such direction.
 *
 * Losses are compared with those of diagonal layers on the same sequences, by law of the inputs, the weights and the
 * noise. Those of linear transformers have heavy tails, so that the trimmed mean of differences is judged, without the
 * tenth of the sequences at either end. Sparse weights, heavy tails, outliers and noise that varies within a sequence
 * are laws of our own, on which the paper has no heat maps: their blocks are shown. The host draws them, so that a
 * batch has a quarter of the sequences, and full layers end up to 3 % above what they contain: for outliers 1.1 %, and
 * with the whole batch .1 %.
 */
#include <math.h>

#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/linear_layers.h"
#include "run/evaluation.h"

enum { D = 10, WIDTH = D + 1, DEPTH = 3, KINDS = 2 };

/* ---- Cells ---- */

#define SPECTRUM "task.covariance=spectrum:3,2,1.5,1,0.8,0.6,0.4,0.3,0.2,0.2"

/* Laws of our own, which the host draws. */
#define LABELLED                                                                                                       \
    "task.family=function-classes task.layout=pairs task.noise=choice:1,3 eval.predictors=ridge train.batch=512 "

typedef struct law {
    const char *name, *settings;
    icl_scale first;
    double left; /* of a law of our own: the share of the loss that training may leave; else 0 */
} law;

static const law laws[] = {
    {"sigma 1", "task.noise=fixed:1", ICL_SCALE_CI},
    {"sigma in {1, 3}", "task.noise=choice:1,3", ICL_SCALE_SHORT},
    {"sigma in [0, 5]", "task.noise=uniform:5", ICL_SCALE_SHORT},
    {"spectrum", "task.noise=choice:1,3 " SPECTRUM, ICL_SCALE_SHORT},
    {"spectrum, weights by its inverse", "task.noise=choice:1,3 task.weights=inverse-covariance " SPECTRUM,
     ICL_SCALE_SHORT},
    {"uniform inputs", "task.noise=choice:1,3 task.inputs=uniform:1.7320508 task.sampler=tokens", ICL_SCALE_SHORT},
    {"sparse w", LABELLED "task.class=sparse task.support=3 task.output_scale=1.8257419", ICL_SCALE_SHORT, .03},
    {"Student's t", LABELLED "task.noise_law=student-t task.freedom=3", ICL_SCALE_SHORT, .03},
    {"outliers", LABELLED "task.outliers=0.1 task.outlier_size=10", ICL_SCALE_SHORT, .03},
    {"noise by x_1", LABELLED "task.noise_varies=by-input", ICL_SCALE_SHORT, .03},
    {"noise by place", LABELLED "task.noise_varies=by-place", ICL_SCALE_SHORT, .03},
};

static const char *const kinds[KINDS] = {"diag", "full"};

static const struct {
    unsigned diagonal, growth, full;
} budgets[ICL_SCALES] = {{700, 300, 3500}, {3000, 1000, 5000}, {6000, 2000, 20000}};

static const size_t sequences[ICL_SCALES] = {20000, 100000, 400000};

static icl_phrase training_name(const law *which, size_t kind) {
    return icl_phrase_print("%s, %s", which->name, kinds[kind]);
}

static const icl_study_cell *add_training(icl_study *study, const law *which, size_t kind) {
    const bool is_full = kind == 1;
    const unsigned steps = is_full ? budgets[study->scale].full
                                   : budgets[study->scale].diagonal + budgets[study->scale].growth * (DEPTH - 2);

    return ICL_ADD_CELL(
        study, .name = training_name(which, kind).text, .recipe = "versatile-table1", .seed = icl_study_seed(study, 0),
        .folder = ICL_PHRASE("law%zu-%s", (size_t)(which - laws), kinds[kind]), .is_helper = true,
        .settings = {which->settings,
                     ICL_PHRASE("model.layers=%d model.parameterization=%s model.init_std=%g train.growth=%u "
                                "train.steps=%u train.warmup=%u",
                                DEPTH, kinds[kind], is_full ? .05 : .02, is_full ? 0 : budgets[study->scale].growth,
                                steps, steps / 10)});
}

static void plan(icl_study *study) {
    for (const law *which = laws; which < laws + sizeof laws / sizeof *laws; which++) {
        if (study->scale < which->first)
            continue;
        const icl_study_cell *trainings[] = {add_training(study, which, 0), add_training(study, which, 1)};
        const icl_study_cell *compared = ICL_ADD_CELL(study, .name = which->name, .data = which);
        icl_study_need(study, compared, trainings[0]);
        icl_study_need(study, compared, trainings[1]);
    }
}

/* ---- Measuring ---- */

/* The numbers of a block: its share off the diagonal, C's share, and that of C which is one direction. */
enum { OFF = 0, DEVIATION, ONE, PER_BLOCK };
/* Trimmed means of half the squared errors of diag and full, and of the full's less diag's, then blocks of P and Q by
 * layer. */
enum { LOSSES = 0, EXCESS = KINDS, BLOCKS, NUMBERS = BLOCKS + 2 * DEPTH * PER_BLOCK };

#define TRIMMED .1

static icl_status describe_block(const double *matrix, icl_number *numbers, icl_error *error) {
    double block[D * D], symmetric[D * D], values[D], vectors[D * D], work[3 * D], all = 0, off = 0, rest = 0;

    for (size_t i = 0; i < (size_t)D * D; i++) {
        block[i] = matrix[i / D * WIDTH + i % D];
        symmetric[i] = (block[i] + matrix[i % D * WIDTH + i / D]) / 2;
        all += block[i] * block[i];
        off += i % (D + 1) == 0 ? 0 : block[i] * block[i];
    }
    if (!icl_symmetric_eigen(D, symmetric, values, vectors, work))
        return icl_fail(error, ICL_ERROR_INPUT, "a block's eigenvalues do not converge");
    const double median = icl_median(values, D);
    for (size_t i = 0; i < (size_t)D * D; i += D + 1)
        block[i] -= median;
    ICL_CHECK(icl_singular_values(block, D, D, values, error));
    for (size_t i = 0; i < D; i++)
        rest += values[i] * values[i];
    numbers[OFF].value = off / all;
    numbers[DEVIATION].value = rest / all;
    numbers[ONE].value = pow(fmax(values[0], values[D - 1]), 2) / rest;
    return ICL_OK;
}

static icl_status describe_blocks(icl_trainer *trainer, const float *values, icl_number *numbers, icl_error *error) {
    icl_linear_layers *layers = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_layers_create(icl_trainer_model(trainer), D, icl_task_context(icl_trainer_task(trainer)), values,
                                     &layers, error));
    for (size_t i = 0; i < 2 * DEPTH; i++)
        ICL_TRY(describe_block(icl_linear_layers_matrix(layers, i / 2, 0, i % 2 == 0 ? ICL_MODEL_P : ICL_MODEL_Q),
                               numbers + BLOCKS + i * PER_BLOCK, error));
done:
    icl_linear_layers_destroy(&layers);
    return status;
}

/* Fills errors[0] and [1] [count] with half the squared errors of the two models on the same sequences. */
static icl_status compare(const icl_study *study, icl_trainer *const trainers[KINDS], size_t count,
                          double *const errors[KINDS], icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    icl_sequences drawn = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_sequences_create(params->backend, icl_trainer_task(trainers[0]), params->seed, &drawn, error));
    for (size_t first = 0; first < count; first += drawn.chunk) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_sequences_sample(&drawn, first / drawn.chunk, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        for (size_t kind = 0; kind < KINDS; kind++) {
            ICL_TRY(icl_sequences_predict(&drawn, trainers[kind], error));
            for (size_t i = 0; i < drawn.chunk && first + i < count; i++)
                errors[kind][first + i] = pow((double)drawn.model[i] - (double)drawn.targets[i], 2) / 2;
        }
    }
done:
    icl_sequences_release(&drawn);
    return status;
}

static icl_number trimmed(double *values, size_t count) {
    const icl_location mean = icl_locate_middle_mean(values, count, TRIMMED);
    return (icl_number){mean.value, mean.standard_error};
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *unused, icl_number *numbers,
                          icl_error *error) {
    const size_t count = sequences[study->scale];
    icl_trainer *trainers[KINDS];
    double *errors[KINDS], *differences = NULL;
    float *full = NULL;

    (void)unused;
    if (cell->is_helper)
        return ICL_OK;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const icl_study_cell *training = icl_study_find(study, training_name(cell->data, kind).text);
        ICL_CHECK(icl_study_trained(study, training, &trainers[kind], error));
        ICL_CHECK(icl_study_room(study, count, sizeof(double), &errors[kind], error));
    }
    ICL_CHECK(icl_study_room(study, count, sizeof *differences, &differences, error));
    ICL_CHECK(icl_study_parameters(study, trainers[1], &full, error));
    ICL_CHECK(compare(study, trainers, count, errors, error));
    for (size_t i = 0; i < count; i++)
        differences[i] = errors[1][i] - errors[0][i];
    numbers[EXCESS] = trimmed(differences, count);
    for (size_t kind = 0; kind < KINDS; kind++)
        numbers[LOSSES + kind] = trimmed(errors[kind], count);
    return describe_blocks(trainers[1], full, numbers, error);
}

/* ---- Judging ---- */

/* A full model that does as well as the diagonal one has found what it contains; the steps of ci leave a little. */
static const double left[ICL_SCALES] = {.002, .001, .0005}, off_diagonal[ICL_SCALES] = {.1, .06, .06};

static void judge_block(icl_study *study, const icl_study_cell *cell, size_t i) {
    const law *which = cell->data;
    const icl_number *block = cell->numbers + BLOCKS + i * PER_BLOCK;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu, %c", cell->name, i / 2 + 1, "PQ"[i % 2]),
              .quantity = "share off the diagonal of x", ICL_OURS(block[OFF]), .target = off_diagonal[study->scale],
              .criterion = ICL_AT_MOST, .evidence = which->left > 0 ? ICL_EVIDENCE_NONE : ICL_READ,
              .source = "heat maps are nearly diagonal",
              .note =
                  ICL_PHRASE("beside m I %.3g, of which one direction %.3g", block[DEVIATION].value, block[ONE].value));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    const double share = ((const law *)cell->data)->left * numbers[LOSSES].value;

    ICL_JUDGE(study, .quantity = "half squared error, full less diag", ICL_OURS(numbers[EXCESS]),
              .tolerance = fmax(left[study->scale], share) + 3 * numbers[EXCESS].standard_error,
              .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "full contains diag",
              .note =
                  ICL_PHRASE("trimmed means: diag %.4g, full %.4g", numbers[LOSSES].value, numbers[LOSSES + 1].value));
    for (size_t i = 0; i < 2 * DEPTH; i++)
        if (i != 2 * (DEPTH - 1)) /* P of the last layer changes inputs that nothing reads */
            judge_block(study, cell, i);
}

/* Judges whether the last Q has a direction of its own where the noise varies, beside where it does not. */
static void conclude(icl_study *study) {
    const icl_study_cell *fixed = icl_study_find(study, laws[0].name), *varying = icl_study_find(study, laws[1].name);
    const size_t last = BLOCKS + (2 * DEPTH - 1) * PER_BLOCK;

    if (!varying || !fixed->is_wanted || !varying->is_wanted)
        return;
    ICL_JUDGE(study, .what = "last Q beside m I: sigma in {1, 3} over sigma 1", .quantity = "ratio of shares",
              .ours = varying->numbers[last + DEVIATION].value / fixed->numbers[last + DEVIATION].value, .target = 10,
              .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "a direction holds what varies");
    ICL_JUDGE(study, .what = "last Q, sigma in {1, 3}", .quantity = "share of one direction",
              ICL_OURS(varying->numbers[last + ONE]), .target = .5, .criterion = ICL_AT_LEAST, .evidence = ICL_READ,
              .source = "reviews: one preferred direction");
}

const icl_reproduction icl_versatile_diagonal =
    ICL_STUDY(.name = "versatile-diagonal", .source = "arXiv 2402.14180, heat maps of weights and reviews",
              .about = "how diagonal full matrices become, and where they do better than diagonal ones",
              .claim = "Full matrices end nearly diagonal, do as well as diagonal ones where the noise is known, and "
                       "better, by one direction of the inputs, where it varies from sequence to sequence.",
              .scope = "A met table means that three full layers end with few squares off the diagonal and are "
                       "not worse than diagonal ones, whatever the law of noise and weights; that they had to end "
                       "there was not shown, and deeper models were not tested.",
              .cost = {"10 s", "4 min", "45 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
