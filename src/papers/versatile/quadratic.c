/*
 * Quadratic targets: theorem 4.2 of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are Versatile
 * In-Context Learners" (arXiv 2402.14180), and the quadratic feed-forward part that the reviewers asked about.
 *
 * Targets are x^T W x. A linear transformer's prediction is linear in the query (theorem 4.1), so that it changes its
 * sign with x_t, and the target does not: E y y^ = 0, E (y - y^)^2 = E y^2 + E y^^2, and no depth is better than 0. Nor
 * is one layer followed by a quadratic part: its predictions have at most degree 2 in the sums of x x^T, y x and y^2
 * over the context, and their terms that have the sign of y change it with the sign of the context's x.
 *
 * A quadratic part before the last attention makes the products x_a x_b, of which labels are a linear function. By
 * hand, such a model is one step of gradient descent on them, and its loss has a closed form.
 */
#include "papers/versatile/versatile.h"

#include <math.h>
#include <string.h>

#include "papers/papers.h"

enum { D = ICL_STEP_D, N = ICL_STEP_N, FEATURES = D * (D + 1) / 2 };

/* The bound that a cell is expected to obey: no gain, for either reason above, or some gain. */
typedef enum expectation { LINEAR_IN_QUERY, ODD_IN_CONTEXT, BELOW_TRACE, BELOW_STEP } expectation;

static const struct {
    const char *curve, *recipe, *loss_source, *cosine_source;
} expectations[] = {
    [LINEAR_IN_QUERY] = {"linear layers alone", "versatile", "theorem 4.2: E y y^ = 0", "theorem 4.2"},
    [ODD_IN_CONTEXT] = {"with quadratic parts, from noise", "quadratic", "odd in the context: E y y^ = 0",
                        "odd in the context"},
    [BELOW_TRACE] = {"with quadratic parts, from noise", "quadratic", "best step that sees the trace of W",
                     "no linear transformer has more"},
    [BELOW_STEP] = {"with quadratic parts, from the construction", "quadratic", "best step",
                    "no linear transformer has more"},
};

typedef struct quadratic_cell {
    const char *name, *text;
    size_t layers;
    expectation shows;
    size_t steps[ICL_SCALES], seeds[ICL_SCALES]; /* 0 seeds: not at that scale */
    const char *settings;
} quadratic_cell;

#define LINEAR                                                                                                         \
    "task.family=quadratic-regression task.d=3 task.n=20 task.noise=fixed:0 train.batch=256 train.warmup=50 "          \
    "train.checkpoint_every=0 eval.every=0 eval.predictors=zero"
#define SLOWER "train.learning_rate=0.003"

static const quadratic_cell cells[] = {
    {"linear-L1", "1 linear layer", 1, LINEAR_IN_QUERY, {300, 1000, 10000}, {1, 3, 3}, LINEAR " model.layers=1"},
    {"linear-L2", "2 linear layers", 2, LINEAR_IN_QUERY, {300, 1000, 10000}, {1, 3, 3}, LINEAR " model.layers=2"},
    {"linear-L4", "4 linear layers", 4, LINEAR_IN_QUERY, {0, 1000, 10000}, {0, 3, 3}, LINEAR " model.layers=4"},
    {"behind-L1", "1 layer, quadratic part behind", 1, ODD_IN_CONTEXT, {200, 1000, 10000}, {1, 1, 3}, "model.layers=1"},
    {"before-L2", "2 layers, quadratic part between", 2, BELOW_TRACE, {0, 2500, 20000}, {0, 3, 5}, NULL},
    {"built-L2", "2 layers, from the construction", 2, BELOW_STEP, {100, 1500, 10000}, {1, 1, 3}, SLOWER},
};
enum { CELLS = sizeof cells / sizeof *cells };

static const size_t sequences[ICL_SCALES] = {4000, 20000, 100000};

/* What training leaves of a prediction whose best value is 0: E y^^2. */
#define REMAINDER 0.01

static icl_quadratic_step best_step(void) {
    return icl_quadratic_best_step(D, N, 0);
}

/* ---- The construction. Names are those of model/sequence/family.c ---- */

/* Finds the named matrix within the flat vector, sets it to zero, and gives its columns. NULL if there is none. */
static float *clear(const icl_model *model, float *values, const char *name, size_t *columns) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, name) != 0)
            continue;
        *columns = info->shape[info->rank - 1];
        memset(values + info->offset, 0, info->count * sizeof *values);
        return values + info->offset;
    }
    return NULL;
}

/* Computes the step lengths over features (x_a^2, …, sqrt(2) x_a x_b, …), in the order of their squares first: the
 * trace's direction has 1 / sqrt(d) at each square. */
static double step_between(const icl_quadratic_step *step, size_t i, size_t j) {
    const double both_squares = i < D && j < D ? 1.0 / D : 0;
    return step->traceless * ((i == j) - both_squares) + step->trace * both_squares;
}

/* Makes hidden number k of the first feed-forward part a product of coordinates, and places feature k after the
 * token. */
static bool construct_features(const icl_model *model, float *values) {
    size_t hidden = 0, width = 0;
    float *gate = clear(model, values, "block.0.feed_forward.gate", &hidden);
    float *up = clear(model, values, "block.0.feed_forward.up", &hidden);
    float *down = clear(model, values, "block.0.feed_forward.down", &width);
    size_t product = D;

    if (!gate || !up || !down || hidden < FEATURES || width < D + 1 + FEATURES)
        return false;
    for (size_t a = 0; a < D; a++)
        for (size_t b = a; b < D; b++) {
            const size_t k = a == b ? a : product++;
            gate[a * hidden + k] = 1;
            up[b * hidden + k] = a == b ? 1 : (float)sqrt(2);
            down[k * width + D + 1 + k] = 1;
        }
    return true;
}

/* Keys are features, and queries are features times the step lengths, over n and the attention's own factor; values are
 * labels, and the query's label slot collects the prediction. */
bool icl_versatile_construct_step(const icl_model *model, const icl_quadratic_step *lengths, uint32_t seed,
                                  float *values) {
    size_t width = 0;

    icl_model_initialize(model, seed, values);
    float *embedding = clear(model, values, "embedding.weight", &width);
    float *key = clear(model, values, "block.1.mixer.key", &width);
    float *query = clear(model, values, "block.1.mixer.query", &width);
    float *value = clear(model, values, "block.1.mixer.value", &width);
    float *output = clear(model, values, "block.1.mixer.output", &width);
    float *readout = clear(model, values, "readout.weight", &(size_t){0});
    if (!embedding || !key || !query || !value || !output || !readout ||
        !clear(model, values, "block.0.mixer.output", &width) ||
        !clear(model, values, "block.1.feed_forward.down", &width) || !construct_features(model, values))
        return false;
    for (size_t i = 0; i <= D; i++)
        embedding[i * width + i] = 1;
    for (size_t i = 0; i < FEATURES; i++) {
        key[(D + 1 + i) * width + i] = 1;
        for (size_t j = 0; j < FEATURES; j++)
            query[(D + 1 + i) * width + j] = (float)(step_between(lengths, i, j) * sqrt((double)width) / N);
    }
    value[D * width] = 1;
    output[D] = 1;
    readout[D] = 1;
    return true;
}

/* ---- Cells ---- */

static void plan(icl_study *study) {
    ICL_ADD_CELL(study, .name = "predictors", .recipe = "quadratic", .is_untrained = true,
                 .settings = {"eval.predictors=zero,ols,step,oracle",
                              ICL_PHRASE("eval.sequences=%zu", sequences[study->scale])});
    for (size_t i = 0; i < CELLS; i++)
        for (size_t seed = 0; seed < cells[i].seeds[study->scale]; seed++)
            ICL_ADD_CELL(study, .name = cells[i].name, .recipe = expectations[cells[i].shows].recipe, .data = &cells[i],
                         .seed = icl_study_seed(study, seed), .has_start = cells[i].shows == BELOW_STEP,
                         .curve = expectations[cells[i].shows].curve, .x = (double)cells[i].layers,
                         .settings = {ICL_PHRASE("train.steps=%zu", cells[i].steps[study->scale]), cells[i].settings});
}

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    const icl_quadratic_step lengths = best_step();

    (void)study, (void)from;
    if (icl_versatile_construct_step(model, &lengths, cell->seed, values))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "the recipe %s makes a model without room for the construction",
                    cell->recipe);
}

/* ---- Losses ---- */

/* Losses of the trained model and of the construction over E y^2 = 1: that, and the excess over the zero predictor on
 * the same sequences. The cosine compares E y y^ with the size of the predictions, however small training has made
 * these. Numbers of predictors: their losses. */
enum { LOSS = 0, COSINE, BY_HAND, PREDICTORS = 0, PREDICTOR_COUNT = 4, NUMBERS = PREDICTORS + PREDICTOR_COUNT };

static icl_status measure_predictors(icl_study *study, const icl_study_cell *cell, icl_trainer *fresh,
                                     icl_number *numbers, icl_error *error) {
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, fresh, NULL, &evaluation, error));
    for (size_t i = 0; i < PREDICTOR_COUNT; i++)
        numbers[PREDICTORS + i] = (icl_number){evaluation->scores[1 + i].mse, evaluation->scores[1 + i].se};
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_model *model = icl_trainer_model(trained);
    float *nothing = NULL, *learned = NULL, *built = NULL;
    icl_paired_loss losses[3];

    if (cell->is_untrained)
        return measure_predictors(study, cell, trained, numbers, error);
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *nothing, &nothing, error)); /* it predicts 0 */
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *built, &built, error));
    ICL_CHECK(icl_study_parameters(study, trained, &learned, error));
    if (cell->has_start)
        ICL_CHECK(begin(study, cell, NULL, model, built, error));
    const float *const vectors[] = {nothing, learned, built};
    ICL_CHECK(icl_reproduce_losses(study->run, trained, sequences[study->scale], cell->has_start ? 3 : 2, vectors,
                                   losses, error));
    numbers[LOSS] = (icl_number){1 + losses[1].excess, losses[1].excess_se};
    numbers[COSINE] = (icl_number){fabs(losses[1].cosine), losses[1].cosine_se};
    if (cell->has_start)
        numbers[BY_HAND] = (icl_number){1 + losses[2].excess, losses[2].excess_se};
    return ICL_OK;
}

/* ---- Judging ---- */

static void judge_predictors(icl_study *study, const icl_study_cell *cell) {
    static const char *const names[] = {"zero", "ols", "step", "oracle"};
    static const char *const sources[] = {"E y^2", "theorem 4.2: linear in x", "closed form",
                                          "d (d + 1) / 2 pairs without noise determine W"};
    const double targets[] = {1, 1, best_step().loss, 0};

    for (size_t i = 0; i < PREDICTOR_COUNT; i++) {
        const icl_number loss = cell->numbers[PREDICTORS + i];
        ICL_JUDGE(study, .what = names[i], .quantity = "squared error over E y^2", ICL_OURS(loss), .target = targets[i],
                  .tolerance = targets[i] > 0 ? 4 * loss.standard_error : 1e-6,
                  .criterion = i == 1 ? ICL_AT_LEAST : ICL_WITHIN, .evidence = ICL_COMPUTED, .source = sources[i]);
    }
}

static void judge_loss(icl_study *study, const icl_study_cell *cell) {
    const quadratic_cell *data = cell->data;
    const icl_quadratic_step step = best_step();
    const double targets[] = {1, 1, step.loss_by_trace, step.loss};
    const bool sees_nothing = data->shows <= ODD_IN_CONTEXT;
    const icl_number loss = cell->numbers[LOSS];

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, seed %u", data->text, (unsigned)cell->seed),
              .quantity = "squared error over E y^2", ICL_OURS(loss), .target = targets[data->shows],
              .source = expectations[data->shows].loss_source,
              .tolerance = sees_nothing ? REMAINDER + 3 * loss.standard_error : 2 * loss.standard_error,
              .criterion = sees_nothing ? ICL_WITHIN : ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .note = ICL_PHRASE("on %zu sequences", sequences[study->scale]));
}

/* The first seed is also judged by the construction, and by the cosine, which the paper bounds. */
static void judge_first(icl_study *study, const icl_study_cell *cell) {
    const quadratic_cell *data = cell->data;
    const icl_number built = cell->numbers[BY_HAND], cosine = cell->numbers[COSINE];

    if (cell->has_start)
        ICL_JUDGE(study, .what = "2 layers by hand", .quantity = "squared error over E y^2", ICL_OURS(built),
                  .target = best_step().loss, .tolerance = 4 * built.standard_error, .evidence = ICL_COMPUTED,
                  .source = "best step on x_a x_b, closed form");
    judge_loss(study, cell);
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, seed %u", data->text, (unsigned)cell->seed),
              .quantity = "|cosine| of y^ and y", ICL_OURS(cosine), .target = .1,
              .tolerance = 3 * cosine.standard_error,
              .criterion = data->shows <= ODD_IN_CONTEXT ? ICL_AT_MOST : ICL_AT_LEAST,
              .evidence = data->shows == LINEAR_IN_QUERY ? ICL_STATED : ICL_INFERRED,
              .source = expectations[data->shows].cosine_source);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    if (cell->is_untrained) {
        judge_predictors(study, cell);
        return;
    }
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->data == cell->data)
            (study->cells[i]->seed == study->run->params->seed ? judge_first : judge_loss)(study, study->cells[i]);
}

static void conclude(icl_study *study) {
    const icl_quadratic_step step = best_step();
    icl_curves curves =
        ICL_CURVES(.name = "loss-by-layers", .title = "Quadratic targets: linear layers see nothing, d = 3, n = 20",
                   .x_label = "layers", .y_label = "squared error over E y^2");

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->curve && cell->is_wanted)
            icl_study_plot(study, &curves, cell->curve, ICL_SERIES_OURS, cell->x, cell->numbers[LOSS].value);
    }
    for (size_t i = 1; curves.count > 0 && i <= 4; i++) {
        const double layers = (double)i;
        icl_study_plot(study, &curves, "zero predictor", ICL_SERIES_REFERENCE, layers, 1);
        icl_study_plot(study, &curves, "best step that sees the trace of W", ICL_SERIES_REFERENCE, layers,
                       step.loss_by_trace);
        icl_study_plot(study, &curves, "best step on the products x_a x_b", ICL_SERIES_REFERENCE, layers, step.loss);
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_versatile_quadratic = ICL_STUDY(
        .name = "versatile-quadratic", .source = "arXiv 2402.14180, theorem 4.2",
        .about = "quadratic targets: linear layers see nothing, and with a quadratic part between them they do",
        .claim =
            "Linear transformers of any depth learn nothing of quadratic targets; with a quadratic feed-forward part "
            "between their layers they learn them.",
        .scope = "A met table means that linear layers predict nothing of x^T W x and that a quadratic "
                 "part between them does at least what a step by hand does; large dimensions and feed- "
                 "forward parts as transformers have them were not tested.",
        .cost = {"3 s", "50 s", "15 min"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        .judge = judge, .conclude = conclude);
