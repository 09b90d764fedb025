/*
 * Loss against the length of the context: Ahn, Cheng, Daneshmand, Sra 2023, "Transformers learn to implement
 * preconditioned gradient descent for in-context learning" (arXiv 2306.00297), figure 6, for d = 5 and three layers,
 * each length trained on its own, beside three steps of gradient descent, three of preconditioned
 * gradient descent and least squares.
 *
 * Preconditioned descent is descent on whitened inputs Sigma^-1/2 x, for which the problem is x, w ~ N(0, I); the model
 * is trained there, in coordinates in which it loses nothing (precondition-rotation trains it in the others). Plain
 * descent sees the inputs as they are, of variances 1, 1, 1/4, 1/16, 1 in rotated axes. The paper's reference
 * predictors had one step length for all steps, the best of nine, and, by a slip in their code, one pair less than the
 * model; ours have fitted lengths for each step, and both n and n - 1 pairs.
 */
#include <math.h>

#include "iclab/descent_optimum.h"
#include "papers/papers.h"

enum { D = 5, LAYERS = 3, CONTEXTS = 7 };

static const size_t contexts[CONTEXTS] = {2, 3, 5, 8, 10, 15, 20};

static const struct {
    size_t stage, last, batch, sequences, fit;
    unsigned contexts; /* bits */
} budgets[ICL_SCALES] = {{500, 1500, 2048, 20000, 5000, 1u << 2},
                         {500, 4000, 4096, 100000, 20000, 1u << 0 | 1u << 2 | 1u << 4 | 1u << 6},
                         {2000, 20000, 8192, 400000, 100000, 0x7f}};

/* ---- Cells ---- */

/* Reference predictors on n pairs or one less, in whitened coordinates (and least squares, which does not mind), or as
 * the inputs are. */
static const struct {
    const char *suffix, *recipe, *predictors;
    bool is_less;
} baselines[] = {
    {"-plain", "precondition-rotation", "eval.predictors=gd:3", false},
    {"-whitened", "precondition-depth", "eval.predictors=gd:3,ols", false},
    {"-plain-less", "precondition-rotation", "eval.predictors=gd:3", true},
    {"-whitened-less", "precondition-depth", "eval.predictors=gd:3,ols", true},
};
enum { BASELINES = sizeof baselines / sizeof *baselines };

/* The mean loss of few pairs is that of rare contexts. Where gradients are cut at a norm that is usual, not at ten
 * times that, training does not see these: for n = 5 it ends at a median of .07 and a mean of 70. */
static void plan_length(icl_study *study, size_t n) {
    const size_t stage = budgets[study->scale].stage, steps = stage + budgets[study->scale].last;
    const icl_study_cell *needed[BASELINES];

    for (size_t i = 0; i < BASELINES; i++)
        needed[i] = ICL_ADD_CELL(
            study, .name = ICL_PHRASE("n%zu%s", n, baselines[i].suffix), .recipe = baselines[i].recipe,
            .is_untrained = true, .is_helper = true,
            .settings = {baselines[i].predictors, ICL_PHRASE("task.n=%zu", n - (baselines[i].is_less ? 1 : 0))});
    const icl_study_cell *cell =
        ICL_ADD_CELL(study, .name = ICL_PHRASE("n%zu", n), .recipe = "precondition-depth", .at = {n},
                     .settings = {"model.parameterization=sparse-b train.learning_rate=0.01",
                                  ICL_PHRASE("task.n=%zu train.batch=%zu train.growth=%zu train.steps=%zu", n,
                                             budgets[study->scale].batch, stage, steps)});
    for (size_t i = 0; i < BASELINES; i++)
        icl_study_need(study, cell, needed[i]);
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < CONTEXTS; i++)
        if (budgets[study->scale].contexts >> i & 1)
            plan_length(study, contexts[i]);
}

/* ---- Losses ---- */

enum { MODEL = 0, DESCENT, OLS, NUMBERS };

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    static const char *const names[NUMBERS] = {"model", "gd:3", "ols"};
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained,
                                 ICL_PHRASE("eval.sequences=%zu eval.fit_sequences=%zu",
                                            budgets[study->scale].sequences, budgets[study->scale].fit),
                                 &evaluation, error));
    for (size_t i = 0; i < NUMBERS; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, names[i]);
        if (score)
            numbers[i] = (icl_number){score->mse, score->se};
    }
    return ICL_OK;
}

/* Returns a number of the length n; NaN where it is not measured. */
static icl_number number_at(const icl_study *study, size_t n, const char *suffix, size_t number) {
    const icl_study_cell *cell = icl_study_find(study, ICL_PHRASE("n%zu%s", n, suffix));
    return cell ? cell->numbers[number] : (icl_number){(double)NAN, 0};
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const size_t n = cell->at[0];
    const icl_descent_problem problem = {.dimension = D, .context = n, .steps = LAYERS};
    const icl_number descent = number_at(study, n, "-whitened", DESCENT);
    double exact = 0;

    ICL_STUDY_CALL(study, icl_descent_optimum, &problem, NULL, &exact);
    ICL_JUDGE(
        study, .quantity = "squared error of three layers", ICL_OURS(cell->numbers[MODEL]), .target = descent.value,
        .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = "figure 6: below preconditioned descent",
        .note = ICL_PHRASE("descent on inputs as they are %.3g, least squares %.3g",
                           number_at(study, n, "-plain", DESCENT).value, number_at(study, n, "-whitened", OLS).value));
    ICL_JUDGE(study, .quantity = "squared error of preconditioned descent", ICL_OURS(descent), .target = exact,
              .tolerance = .02 * exact + 4 * descent.standard_error, .evidence = ICL_COMPUTED,
              .source = "exact optimum");
}

/* From d pairs on least squares errs by rounding alone: such points are left out. */
static void conclude(icl_study *study) {
    static const struct {
        const char *label, *suffix;
        icl_series_style style;
        size_t number;
    } looks[] = {{"three layers, learned", "", ICL_SERIES_OURS, MODEL},
                 {"preconditioned descent, n pairs", "-whitened", ICL_SERIES_REFERENCE, DESCENT},
                 {"preconditioned descent, n - 1", "-whitened-less", ICL_SERIES_REFERENCE, DESCENT},
                 {"gradient descent, n pairs", "-plain", ICL_SERIES_REFERENCE, DESCENT},
                 {"gradient descent, n - 1", "-plain-less", ICL_SERIES_REFERENCE, DESCENT},
                 {"least squares, n pairs", "-whitened", ICL_SERIES_LINE, OLS},
                 {"least squares, n - 1", "-whitened-less", ICL_SERIES_LINE, OLS}};
    icl_curves curves = ICL_CURVES(.name = "loss-against-context",
                                   .title = "Ahn et al., figure 6: loss against the length of the context",
                                   .x_label = "pairs in the context, n", .y_label = "squared error", .log_y = true);

    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        for (size_t c = 0; c < CONTEXTS; c++) {
            icl_number loss = number_at(study, contexts[c], looks[i].suffix, looks[i].number);
            if (looks[i].number == OLS && loss.value < 1e-4)
                loss.value = (double)NAN;
            icl_study_plot_number(study, &curves, looks[i].label, looks[i].style, (double)contexts[c], loss);
        }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_precondition_context = ICL_STUDY(
        .name = "precondition-context", .source = "arXiv 2306.00297, figure 6",
        .about = "three trained layers against the length of the context, beside descents and least squares",
        .claim =
            "Three trained layers of linear attention have a smaller loss than three steps of preconditioned gradient "
            "descent, at every length of the context.",
        .cost = {"4 s", "2 min", "20 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
