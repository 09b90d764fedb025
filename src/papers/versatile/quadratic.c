/*
 * Quadratic targets: theorem 4.2 of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are Versatile
 * In-Context Learners" (arXiv 2402.14180), and the quadratic feed-forward part that the reviewers asked about.
 *
 * Targets are x^T W x. A linear transformer's prediction is linear in the query (theorem 4.1), so that it changes its
 * sign with x_t, and the target does not: E y y^ = 0, E (y - y^)^2 = E y^2 + E y^^2, and no depth is better than 0. Nor
 * is one layer with a quadratic part behind it: its predictions have at most degree 2 in the sums of x x^T, y x and y^2
 * over the context, and what has the sign of y in them changes it with the sign of the context's x.
 *
 * A quadratic part before the last attention makes the products x_a x_b, of which labels are a linear function. By
 * hand, such a model is one step of gradient descent on them, and its loss has a closed form.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"
#include "papers/versatile/quadratic_step.h"

enum { D = ICL_STEP_D, N = ICL_STEP_N };

#define FAMILY "task.family=quadratic-regression task.d=3 task.n=20 task.noise=fixed:0 "
#define LINEAR                                                                                                         \
    FAMILY "train.batch=256 train.warmup=50 train.checkpoint_every=0 eval.every=0 eval.predictors=zero model.layers="

/* What a cell is to show: nothing, for either reason above, or something. */
typedef enum expectation { LINEAR_IN_QUERY, ODD_IN_CONTEXT, BELOW_TRACE, BELOW_STEP } expectation;

typedef struct quadratic_cell {
    const char *name, *text, *curve, *recipe, *overrides;
    size_t layers;
    expectation shows;
    size_t steps[ICL_SCALES], seeds[ICL_SCALES]; /* 0 seeds: not at that scale */
} quadratic_cell;

#define ALONE  "linear layers alone"
#define BEHIND "with quadratic parts, from noise"
#define BUILT  "with quadratic parts, from the construction"

static const quadratic_cell cells[] = {
    {"linear-L1", "1 linear layer", ALONE, "versatile", LINEAR "1", 1, LINEAR_IN_QUERY, {300, 1000, 10000}, {1, 3, 3}},
    {"linear-L2", "2 linear layers", ALONE, "versatile", LINEAR "2", 2, LINEAR_IN_QUERY, {300, 1000, 10000}, {1, 3, 3}},
    {"linear-L4", "4 linear layers", ALONE, "versatile", LINEAR "4", 4, LINEAR_IN_QUERY, {0, 1000, 10000}, {0, 3, 3}},
    {"behind-L1",
     "1 layer, quadratic part behind",
     BEHIND,
     "quadratic",
     "model.layers=1",
     1,
     ODD_IN_CONTEXT,
     {200, 1000, 10000},
     {1, 1, 3}},
    {"before-L2",
     "2 layers, quadratic part between",
     BEHIND,
     "quadratic",
     "",
     2,
     BELOW_TRACE,
     {0, 2500, 20000},
     {0, 3, 5}},
    {"built-L2",
     "2 layers, from the construction",
     BUILT,
     "quadratic",
     "train.learning_rate=0.003",
     2,
     BELOW_STEP,
     {100, 1500, 10000},
     {1, 1, 3}},
};
enum { CELLS = sizeof cells / sizeof *cells };

static const size_t sequences[ICL_SCALES] = {4000, 20000, 100000};

/* What training leaves of a prediction that is best 0: E y^^2. */
#define REMAINDER 0.01

static icl_quadratic_step best_step(void) {
    return icl_quadratic_best_step(D, N, 0);
}

/* ---- Cells ---- */

/* E y^2 = 1, and what a model has above the zero predictor on the same sequences. */
static double loss_of(const icl_paired_loss *paired) {
    return 1 + paired->excess;
}

static icl_status judge(icl_reproducing *run, const quadratic_cell *cell, uint32_t seed, const icl_paired_loss *loss,
                        icl_error *error) {
    static const char *const sources[] = {"theorem 4.2: E y y^ = 0", "odd in the context: E y y^ = 0",
                                          "best step that sees the trace of W", "best step"};
    const icl_quadratic_step step = best_step();
    const double targets[] = {1, 1, step.loss_by_trace, step.loss};
    const bool sees_nothing = cell->shows <= ODD_IN_CONTEXT;

    return ICL_FOUND(run, error, .what = ICL_PHRASE("%s, seed %u", cell->text, (unsigned)seed),
                     .quantity = "squared error over E y^2", .ours = loss_of(loss), .standard_error = loss->excess_se,
                     .target = targets[cell->shows], .source = sources[cell->shows],
                     .tolerance = sees_nothing ? REMAINDER + 3 * loss->excess_se : 2 * loss->excess_se,
                     .criterion = sees_nothing ? ICL_WITHIN : ICL_AT_MOST, .evidence = ICL_COMPUTED,
                     .note = ICL_PHRASE("on %zu sequences", sequences[run->params->scale]));
}

/* What E y y^ is beside the size of the predictions, however small training has made these: the paper's bound. */
static icl_status judge_cosine(icl_reproducing *run, const quadratic_cell *cell, const icl_paired_loss *loss,
                               icl_error *error) {
    static const char *const sources[] = {"theorem 4.2", "odd in the context", "no linear transformer has more",
                                          "no linear transformer has more"};
    const bool sees_nothing = cell->shows <= ODD_IN_CONTEXT;

    return ICL_FOUND(
        run, error, .what = ICL_PHRASE("%s, seed %u", cell->text, (unsigned)run->params->seed),
        .quantity = "|cosine| of y^ and y", .ours = fabs(loss->cosine), .standard_error = loss->cosine_se, .target = .1,
        .tolerance = 3 * loss->cosine_se, .criterion = sees_nothing ? ICL_AT_MOST : ICL_AT_LEAST,
        .evidence = cell->shows == LINEAR_IN_QUERY ? ICL_READ : ICL_INFERRED, .source = sources[cell->shows]);
}

static icl_status judge_construction(icl_reproducing *run, const icl_paired_loss *loss, icl_error *error) {
    return ICL_FOUND(run, error, .what = "2 layers by hand", .quantity = "squared error over E y^2",
                     .ours = loss_of(loss), .standard_error = loss->excess_se, .target = best_step().loss,
                     .tolerance = 4 * loss->excess_se, .evidence = ICL_COMPUTED,
                     .source = "best step on x_a x_b, closed form");
}

static icl_status make_construction(icl_reproducing *run, const icl_seeded_cell *of, float **values, icl_error *error) {
    icl_seeded_cell cell = *of;
    icl_seeded fresh = {0};
    const icl_quadratic_step lengths = best_step();
    icl_status status = ICL_OK;

    cell.steps = 0;
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &fresh, error));
    const icl_model *model = icl_trainer_model(fresh.trainer);
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof **values, "parameters", values, error));
    if (!icl_versatile_construct_step(model, &lengths, of->seed, *values))
        status = icl_fail(error, ICL_ERROR_INPUT, "the recipe %s makes a model without room for the construction",
                          of->recipe);
done:
    icl_seeded_release(&fresh);
    return status;
}

/* Losses of what predicts 0, of what was trained and, where there is one, of the construction. */
static icl_status measure(icl_reproducing *run, icl_trainer *trainer, const float *built, icl_paired_loss losses[3],
                          icl_error *error) {
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    float *zeros = NULL, *trained = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *zeros, "parameters", &zeros, error));
    ICL_TRY(icl_allocate(size, sizeof *trained, "parameters", &trained, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, trained, error));
    const float *const vectors[] = {zeros, trained, built};
    ICL_TRY(icl_reproduce_losses(run, trainer, sequences[run->params->scale], built ? 3 : 2, vectors, losses, error));
done:
    icl_free(&zeros);
    icl_free(&trained);
    return status;
}

static icl_status reproduce_seed(icl_reproducing *run, const quadratic_cell *cell, uint32_t seed, icl_curves *curves,
                                 icl_error *error) {
    icl_seeded_cell training = {.name = cell->name,
                                .recipe = cell->recipe,
                                .overrides = {cell->overrides},
                                .steps = cell->steps[run->params->scale],
                                .seed = seed};
    icl_seeded made = {0};
    float *built = NULL;
    icl_paired_loss losses[3];
    icl_status status = ICL_OK;

    if (cell->shows == BELOW_STEP)
        ICL_TRY(make_construction(run, &training, &built, error));
    training.initial = built;
    ICL_TRY(icl_reproduce_train_seed(run, &training, &made, error));
    ICL_TRY(measure(run, made.trainer, built, losses, error));
    if (built && seed == run->params->seed)
        ICL_TRY(judge_construction(run, &losses[2], error));
    ICL_TRY(judge(run, cell, seed, &losses[1], error));
    if (seed == run->params->seed)
        ICL_TRY(judge_cosine(run, cell, &losses[1], error));
    ICL_TRY(icl_curves_add(curves, cell->curve, ICL_SERIES_OURS, (double)cell->layers, loss_of(&losses[1]), error));
done:
    icl_free(&built);
    icl_seeded_release(&made);
    return status;
}

/* ---- Reference predictors ---- */

static icl_status judge_predictor(icl_reproducing *run, const icl_score *score, icl_error *error) {
    const double closed = best_step().loss;
    icl_finding finding = {.what = score->predictor,
                           .quantity = "squared error over E y^2",
                           .ours = score->mse,
                           .standard_error = score->se,
                           .tolerance = 4 * score->se,
                           .evidence = ICL_COMPUTED};

    if (strcmp(score->predictor, "zero") == 0) {
        finding.target = 1;
        finding.source = "E y^2";
    } else if (strcmp(score->predictor, "ols") == 0) {
        finding.target = 1;
        finding.criterion = ICL_AT_LEAST;
        finding.source = "theorem 4.2: linear in x";
    } else if (strcmp(score->predictor, "step") == 0) {
        finding.target = closed;
        finding.source = "closed form";
    } else {
        finding.tolerance = 1e-6;
        finding.source = "d (d + 1) / 2 pairs without noise determine W";
    }
    return icl_reproduce_found(run, &finding, error);
}

static icl_status reproduce_predictors(icl_reproducing *run, icl_error *error) {
    const icl_seeded_cell fresh = {.name = "predictors",
                                   .recipe = "quadratic",
                                   .overrides = {"eval.predictors=zero,ols,step,oracle"},
                                   .seed = run->params->seed,
                                   .sequences = sequences[run->params->scale]};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    if (!icl_reproduce_wants(run, fresh.name) || !icl_reproduce_judges(run))
        return ICL_OK;
    ICL_TRY(icl_reproduce_evaluate_seed(run, &fresh, &evaluation, error));
    for (size_t i = 1; i < evaluation->count; i++)
        ICL_TRY(judge_predictor(run, &evaluation->scores[i], error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status draw(icl_reproducing *run, icl_curves *curves, icl_error *error) {
    const icl_quadratic_step step = best_step();

    for (size_t layers = 1; layers <= 4; layers++) {
        ICL_CHECK(icl_curves_add(curves, "zero predictor", ICL_SERIES_REFERENCE, (double)layers, 1, error));
        ICL_CHECK(icl_curves_add(curves, "best step that sees the trace of W", ICL_SERIES_REFERENCE, (double)layers,
                                 step.loss_by_trace, error));
        ICL_CHECK(icl_curves_add(curves, "best step on the products x_a x_b", ICL_SERIES_REFERENCE, (double)layers,
                                 step.loss, error));
    }
    return icl_curves_draw(run, curves, error);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const icl_scale scale = run->params->scale;
    icl_curves curves = {.figure = {.name = "loss-by-layers",
                                    .title = "Quadratic targets: linear layers see nothing, d = 3, n = 20",
                                    .x_label = "layers",
                                    .y_label = "squared error over E y^2"}};
    icl_status status = ICL_OK;

    ICL_TRY(reproduce_predictors(run, error));
    for (size_t i = 0; i < CELLS; i++)
        for (size_t seed = 0; seed < cells[i].seeds[scale] && icl_reproduce_wants(run, cells[i].name); seed++)
            ICL_TRY(
                icl_reproduce_next(run, reproduce_seed(run, &cells[i], icl_reproduce_seed(run, seed), &curves, error)));
    if (curves.count > 0)
        ICL_TRY(draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_versatile_quadratic = {
    .name = "versatile-quadratic",
    .source = "arXiv 2402.14180, theorem 4.2",
    .about = "quadratic targets: linear layers see nothing, and with a quadratic part between them they do",
    .cost = {"3 s", "50 s", "15 min"},
    .is_shared = true,
    .run = reproduce,
};
