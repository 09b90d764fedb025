/*
 * One model that selects the algorithm by the data: Bai, Chen, Wang, Xiong, Mei 2023, "Transformers as statisticians:
 * provable in-context learning with in-context algorithm selection" (arXiv 2306.04637), noisy linear functions with two
 * levels of noise, sections 4 and 5.
 *
 * y = <w, x> + sigma e with w ~ N(0, I / d). If sigma is known, ridge regression of penalty sigma^2 d is the best
 * predictor. After n pairs, with s_i the eigenvalues of X^T X, that of penalty a errs, the noise of the query's label
 * included, by
 *
 *     sigma^2 + E sum_i (a^2 / d + sigma^2 s_i) / (s_i + a)^2
 *
 * so that the penalty of one noise is wrong for the other. A model trained on both noises must be near both optima; a
 * model trained on one noise must not be near the optimum of the other. The paper's models are encoders that see n
 * pairs and a query; ours here are causal and have a label at every position, of which the last one counts.
 */
#include <math.h>

#include "numeric/statistics.h"
#include "papers/algorithms/algorithms.h"
#include "papers/papers.h"
#include "run/evaluation.h"

enum { NOISES = 2, MODELS = 3, BOTH = 2 };

static const double levels[NOISES] = {.1, .5};
static const char *const names[MODELS] = {"noise .1", "noise .5", "both noises"};
static const char *const folders[MODELS] = {"low", "high", "both"};
static const char *const laws[MODELS] = {"fixed:0.1", "fixed:0.5", "choice:0.1,0.5"};

/* ---- Ridge with the right penalty and with the other's ---- */

enum { D = 20, PAIRS = 20 };
#define PAPER "task.d=20 task.n=20 task.output_scale=0.22360679775 "

typedef struct ridge_case {
    double noise, penalty;
} ridge_case;

static double error_of(const void *user, size_t d, const double *eigenvalues) {
    const ridge_case *ridge = user;
    const double variance = ridge->noise * ridge->noise;
    double sum = variance;

    for (size_t i = 0; i < d; i++) {
        const double s = PAIRS * eigenvalues[i];
        sum += (ridge->penalty * ridge->penalty / (double)d + variance * s) /
               ((s + ridge->penalty) * (s + ridge->penalty));
    }
    return sum;
}

/* Returns the squared error on one sequence of separate tokens: x_k stands at 2 k, its label after it. */
static double square_of(icl_algorithms *ridge, const float *tokens, double target, double *weights) {
    double miss = -target;

    icl_algorithms_weights(ridge, PAIRS, tokens, tokens + D, 2 * D, weights);
    for (size_t i = 0; i < D; i++)
        miss += weights[i] * (double)tokens[2 * PAIRS * D + i];
    return miss * miss;
}

/* Returns the mean squared error of ridge with this penalty, including the noise of the query's label. */
static icl_status sample_ridge(const icl_study *study, const icl_task *task, const ridge_case *ridge, icl_number *found,
                               icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const icl_algorithm row = {"ridge", 0, ridge->penalty};
    const size_t positions = 2 * PAIRS + 1, chunks = study->scale == ICL_SCALE_CI ? 8 : 64;
    double sum = 0, square = 0, weights[D];
    icl_algorithms algorithms = {0};
    icl_sequences drawn = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_algorithms_create(&row, 1, D, PAIRS, 0, &algorithms, error));
    ICL_TRY(icl_sequences_create(params->backend, task, params->seed, &drawn, error));
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_sequences_sample(&drawn, chunk, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        for (size_t s = 0; s < drawn.chunk; s++) {
            const float *targets = drawn.targets + s * positions;
            const double one =
                square_of(&algorithms, drawn.inputs + s * positions * D, (double)targets[2 * PAIRS], weights);
            sum += one;
            square += one * one;
        }
    }
    const size_t count = chunks * drawn.chunk;
    *found =
        (icl_number){sum / (double)count + ridge->noise * ridge->noise, icl_standard_error_of_sums(sum, square, count)};
done:
    icl_sequences_release(&drawn);
    icl_algorithms_release(&algorithms);
    return status;
}

/* ---- Cells: ridge at the noise at[0] with the penalty of at[1], and the model at[0] ---- */

/* Three layers solve for the weights too roughly to be near ridge at noise .1; six suffice. */
#define SMALL "task.d=2 task.n=5 task.output_scale=0.70710678119 "
#define FULL  PAPER "model.layers=12 model.heads=1 train.learning_rate=0.0001 train.schedule=constant train.warmup=0 "

/* At scale ci models hardly learn: it is only for the formula of ridge. */
static const struct {
    const char *settings;
    size_t pairs, steps[MODELS], sequences;
} budgets[ICL_SCALES] = {
    {SMALL "model.layers=1 model.width=16 train.warmup=20", 5, {100, 100, 100}, 4096},
    {SMALL "model.layers=6", 5, {10000, 10000, 20000}, 20000},
    {FULL, 20, {300000, 300000, 300000}, 20000},
};

static ridge_case ridge_of(const icl_study_cell *cell) {
    return (ridge_case){levels[cell->at[0]], D * levels[cell->at[1]] * levels[cell->at[1]]};
}

static void plan(icl_study *study) {
    static const size_t order[MODELS] = {BOTH, 0, 1}; /* the longest training first */

    for (size_t noise = 0; noise < NOISES; noise++)
        for (size_t penalty = 0; penalty < NOISES; penalty++)
            ICL_ADD_CELL(study, .name = ICL_PHRASE("ridge-%zu-%zu", noise, penalty), .group = "ridge", .recipe = "garg",
                         .is_untrained = true, .at = {noise, penalty},
                         .settings = {PAPER, ICL_PHRASE("task.noise=%s", laws[noise])});
    for (size_t i = 0; i < MODELS; i++)
        ICL_ADD_CELL(study, .name = folders[order[i]], .recipe = "garg", .seed = icl_study_seed(study, 0),
                     .at = {order[i]},
                     .settings = {budgets[study->scale].settings,
                                  ICL_PHRASE("task.noise=%s train.steps=%zu eval.sequences=%zu", laws[order[i]],
                                             budgets[study->scale].steps[order[i]], budgets[study->scale].sequences)});
}

/* Squared errors at both noises: of the model, and the best ones. For ridge: its own one, and the expected one. */
enum { ERROR = 0, BEST = NOISES, NUMBERS = BEST + NOISES };

static icl_number error_after(const icl_score *score, size_t pairs) {
    return (icl_number){score->positions[pairs].loss, score->positions[pairs].se};
}

static icl_status measure_model(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                                icl_error *error) {
    const size_t pairs = budgets[study->scale].pairs;

    for (size_t noise = 0; noise < NOISES; noise++) {
        icl_evaluation *evaluation = NULL;
        ICL_CHECK(icl_study_evaluate(
            study, cell, trained, ICL_PHRASE("task.noise=%s eval.predictors=ridge", laws[noise]), &evaluation, error));
        numbers[ERROR + noise] = error_after(icl_reproduce_score(evaluation, "model"), pairs);
        numbers[BEST + noise] = error_after(icl_reproduce_score(evaluation, "ridge"), pairs);
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const ridge_case ridge = ridge_of(cell);

    if (!cell->is_untrained)
        return measure_model(study, cell, trained, numbers, error);
    ICL_CHECK(sample_ridge(study, icl_trainer_task(trained), &ridge, &numbers[ERROR], error));
    if (cell->at[0] == 0) /* known */
        return ICL_OK;
    return icl_wishart_mean(D, PAIRS, study->run->params->seed, 20000, error_of, &ridge, &numbers[BEST].value,
                            &numbers[BEST].standard_error, error);
}

/* ---- Judging ---- */

/* The target at noise .1 was computed by another program, the one at noise .5 comes from a sample. */
static void judge_ridge(icl_study *study, const icl_study_cell *cell) {
    static const double computed[NOISES] = {.1150, .2666}; /* with the penalties of .1 and of .5 */
    const bool is_computed = cell->at[0] == 0;
    const icl_number ours = cell->numbers[ERROR], sampled = cell->numbers[BEST];
    const ridge_case ridge = ridge_of(cell);

    ICL_JUDGE(study, .what = ICL_PHRASE("ridge %g at noise %g", ridge.penalty, ridge.noise),
              .quantity = "squared error, noisy label", ICL_OURS(ours),
              .target = is_computed ? computed[cell->at[1]] : sampled.value,
              .tolerance = 3 * hypot(ours.standard_error, is_computed ? .001 : sampled.standard_error),
              .evidence = ICL_COMPUTED, .source = is_computed ? "computed, se .0004 to .003" : "Wishart sample");
}

static void judge_model(icl_study *study, const icl_study_cell *cell) {
    for (size_t noise = 0; noise < NOISES; noise++)
        ICL_JUDGE(study, .what = ICL_PHRASE("model of %s, at noise %g", names[cell->at[0]], levels[noise]),
                  .quantity = "squared error", ICL_OURS(cell->numbers[ERROR + noise]),
                  .note = ICL_PHRASE("ridge %.4g", cell->numbers[BEST + noise].value));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    (cell->is_untrained ? judge_ridge : judge_model)(study, cell);
}

/* Judges how far a model is above ridge with the same noise, at the last position. */
static icl_number excess_of(const icl_study *study, size_t model, size_t noise) {
    const icl_study_cell *cell = icl_study_find(study, folders[model]);
    const icl_number ours = cell->numbers[ERROR + noise], best = cell->numbers[BEST + noise];
    return (icl_number){ours.value - best.value, hypot(ours.standard_error, best.standard_error)};
}

/* Compares models once all are measured. */
static void conclude(icl_study *study) {
    static const double near[NOISES] = {.03, .06}; /* the allowance by the notes of the paper's figure, by noise */
    const icl_evidence evidence = study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_INFERRED;

    for (size_t model = 0; model < MODELS; model++)
        if (!icl_study_find(study, folders[model])->is_measured)
            return;
    for (size_t noise = 0; noise < NOISES; noise++) {
        const icl_number both = excess_of(study, BOTH, noise), other = excess_of(study, 1 - noise, noise);
        const icl_number above = {other.value - both.value, hypot(other.standard_error, both.standard_error)};
        ICL_JUDGE(study, .what = ICL_PHRASE("model of both noises, at noise %g", levels[noise]),
                  .quantity = "above ridge", ICL_OURS(both), .target = near[noise], .criterion = ICL_AT_MOST,
                  .evidence = evidence, .source = "figure 4");
        ICL_JUDGE(study, .what = ICL_PHRASE("model of %s, at noise %g", names[1 - noise], levels[noise]),
                  .quantity = "above the model of both", ICL_OURS(above), .target = 2 * above.standard_error,
                  .criterion = ICL_AT_LEAST, .evidence = evidence, .source = "figure 4; two standard errors");
    }
}

const icl_reproduction icl_statisticians_selection = ICL_STUDY(
        .name = "statisticians-selection", .source = "arXiv 2306.04637, sections 4 and 5",
        .about = "one model of two levels of noise near both best ridge regressions, beside models of one level",
        .claim =
            "One transformer that is trained on data of two levels of noise predicts nearly as well as the best ridge "
            "regression of each level.",
        .scope = "A met table means that one model of two noises is near the ridge regression of each, "
                 "where models of one noise are not; more than two noises and other pairs of algorithms "
                 "were not tested, and at scale ci no model is judged.",
        .cost = {"10 s", "12 min", "4 d"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
