/*
 * One layer of linear attention takes one step of gradient descent: Mahankali, Hashimoto, Ma 2023, "One step of
 * gradient descent is provably the optimal in-context learner with one layer of linear self-attention" (arXiv
 * 2307.03576). The paper has no tables. The global minimiser of the expected loss predicts x^T A sum y_i x_i over n
 * labels:
 *
 * - x ~ N(0, Lambda), w ~ N(0, I), y_i = <w, x_i> + noise of variance s. With h = sum y_i x_i and the Wishart matrix
 *   V = sum x_i x_i^T, E[V] = n Lambda and E[V^2] = n ((n + 1) Lambda^2 + tr(Lambda) Lambda), the loss
 *   E(x^T A h - w^T x)^2 = tr(Lambda A E[h h^T] A^T) - 2 tr(Lambda A E[h w^T]) + tr(Lambda) has E[h w^T] = n Lambda and
 *   E[h h^T] = E[V^2] + n s Lambda. So A = ((n + 1) Lambda + (tr(Lambda) + s) I)^-1, a preconditioned step, which for
 *   Lambda = I is a step of 1 / (n + d + 1 + s); the loss is then sum_i l_i (1 - n a_i l_i).
 * - w ~ N(0, Lambda^-1) is that of Lambda = I in other coordinates: A = Lambda^-1 / (n + d + 1 + s).
 * - Targets y = f(x) that are not linear, with a distribution that no rotation and no change of sign alters: still
 *   A = a I. For x uniform on the unit sphere E[f(x) x] = k e for a direction e, so E[f(x) x^T h] = n E k^2 and
 *   E(x^T h)^2 = n / d (E f^2 + s + (n - 1) E k^2): a = d E k^2 / (E f^2 + s + (n - 1) E k^2). With slopes and offset
 *   uniform up to L: affine functions have E k^2 = L^2 / (3 d^2) and E f^2 = L^2 / 3 (1 + 1 / d); those made of two
 *   ReLUs L^2 / (6 d^2) and the same E f^2. Even functions have k = 0: one layer sees nothing of them.
 *
 * Whatever else the layer could add to the prediction, by the blocks of P and Q that stay 0, is even in the labels, so
 * that it cannot help, and the paper proves that no other point is as good.
 */
#include <math.h>

#include "papers/onestep/layer.h"
#include "papers/papers.h"

enum { D = ICL_LAYER_D };

typedef enum data_law { NORMAL = 0, COLOURED, WHITENED, AFFINE, RELU, EVEN } data_law;

typedef struct noise_cell {
    const char *name, *settings;
    data_law law;
    size_t n;
    double deviation; /* sqrt(s) */
    icl_scale first;
} noise_cell;

static const double spectrum[D] = {2, 1.5, 1, .8, .7};
#define SPECTRUM  "task.covariance=spectrum:2,1.5,1,0.8,0.7 task.rotate=true "
#define LIPSCHITZ 1.0

#define NORMAL_CELLS(n, first)                                                                                         \
    {"n" #n "-s0", "", NORMAL, n, 0, ICL_SCALE_SHORT}, {"n" #n "-s0.25", "", NORMAL, n, .5, ICL_SCALE_SHORT},          \
        {"n" #n "-s1", "", NORMAL, n, 1, first}, {                                                                     \
        "n" #n "-s4", "", NORMAL, n, 2, first                                                                          \
    }

static const noise_cell cells[] = {
    NORMAL_CELLS(10, ICL_SCALE_SHORT),
    NORMAL_CELLS(20, ICL_SCALE_CI),
    NORMAL_CELLS(40, ICL_SCALE_SHORT),
    {"covariance", SPECTRUM, COLOURED, 20, 1, ICL_SCALE_CI},
    {"inverse-covariance", SPECTRUM "task.weights=inverse-covariance", WHITENED, 20, 1, ICL_SCALE_SHORT},
    {"affine", "task.function=affine", AFFINE, 20, .1, ICL_SCALE_SHORT},
    {"relu", "task.function=relu", RELU, 20, .1, ICL_SCALE_CI},
    {"cosine", "task.function=cosine", EVEN, 20, .1, ICL_SCALE_SHORT},
    {"quadratic", "task.function=quadratic", EVEN, 20, .1, ICL_SCALE_SHORT},
};

static const struct {
    size_t steps, function_steps, sequences;
    double step, entry, function_step; /* relative tolerances */
} budgets[ICL_SCALES] = {
    {2000, 300, 20000, .01, .01, .15},
    {12000, 3000, 100000, .01, .01, .03},
    {60000, 40000, 400000, .01, .01, .02},
};

/* A training ends at this time of the gradient flow. */
#define TRAINING_TIME 12.0
#define START         0.3

static bool is_function(data_law law) {
    return law >= AFFINE;
}

/* ---- The exact step ---- */

static double square(double value) {
    return value * value;
}

/* n a_i along the axes. */
static void find_steps(const noise_cell *cell, double steps[D]) {
    const double n = (double)cell->n, s = square(cell->deviation);
    const double k = square(LIPSCHITZ) / ((cell->law == AFFINE ? 3 : 6) * square(D));
    double trace = 0;

    for (size_t i = 0; i < D; i++)
        trace += spectrum[i];
    for (size_t i = 0; i < D; i++) {
        if (cell->law == COLOURED)
            steps[i] = n / ((n + 1) * spectrum[i] + trace + s);
        else if (is_function(cell->law))
            steps[i] = cell->law == EVEN ? 0 : n * D * k / (square(LIPSCHITZ) / 3 * (1 + 1. / D) + s + (n - 1) * k);
        else
            steps[i] = n / (n + D + 1 + s) / (cell->law == WHITENED ? spectrum[i] : 1);
    }
}

/* Returns the least expected loss; not for functions. */
static double least_loss(const noise_cell *cell, const double steps[D]) {
    double loss = 0;
    for (size_t i = 0; i < D; i++) {
        const double l = cell->law == COLOURED ? spectrum[i] : 1;
        loss += l * (1 - steps[i] * (cell->law == WHITENED ? spectrum[i] : l));
    }
    return loss;
}

static void layer_of(const double steps[D], const double *root, icl_one_layer *layer) {
    double inner[D * D] = {0};
    for (size_t i = 0; i < D; i++)
        inner[i * (D + 1)] = steps[i];
    icl_one_layer_of_basis(1, inner, root, layer);
}

/* Returns the mean of the layer's step along the axes. */
static double mean_step(const icl_one_layer *layer) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += layer->q[i][i];
    return sum / D;
}

/* ---- Cells ---- */

/* Takes small steps of gradient descent as in gradientflow-limit; for functions, whose gradients are small, the
 * optimizer of their own recipe. */
static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        const noise_cell *cell = &cells[i];
        const bool functions = is_function(cell->law);
        const size_t steps = functions ? budgets[study->scale].function_steps : budgets[study->scale].steps;
        if (study->scale < cell->first)
            continue;
        ICL_ADD_CELL(
            study, .name = cell->name, .data = cell, .has_start = true, .recipe = functions ? "window" : "gradientflow",
            .settings = {functions ? "model.family=linear model.parameterization=full model.scale=mean "
                                     "train.batch=4096 train.learning_rate=0.03"
                                   : ICL_PHRASE("train.learning_rate=%.17g", TRAINING_TIME / (double)steps),
                         cell->settings,
                         ICL_PHRASE("task.n=%zu task.noise=fixed:%g train.steps=%zu", cell->n, cell->deviation, steps)},
            .curve = cell->law == NORMAL ? ICL_PHRASE("trained, n = %zu", cell->n) : NULL,
            .x = square(cell->deviation));
    }
}

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    static const double steps[D] = {START, START, START, START, START};
    icl_one_layer start;

    (void)study, (void)cell, (void)from, (void)model, (void)error;
    layer_of(steps, NULL, &start);
    start.p[D][D] = START * sqrt(D);
    icl_one_layer_write(&start, values);
    return ICL_OK;
}

/* ---- What was learned beside the exact step ---- */

enum { STEP = 0, ENTRY, LOSS, EXACT_LOSS, EXCESS, NUMBERS }; /* mean step; relative error */

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const noise_cell *data = cell->data;
    const icl_task_prior *prior = icl_task_get_prior(icl_trainer_task(trained)); /* NULL for functions */
    const double *root = prior ? prior->covariance_root : NULL;
    float learned[ICL_LAYER_SIZE], exact[ICL_LAYER_SIZE];
    const float *const vectors[] = {exact, learned};
    double steps[D];
    icl_paired_loss losses[2];
    icl_one_layer layer, target;

    find_steps(data, steps);
    layer_of(steps, root, &target);
    icl_one_layer_write(&target, exact);
    ICL_CHECK(icl_trainer_get_parameters(trained, learned, error));
    ICL_CHECK(icl_one_layer_read(trained, &layer, error));
    icl_one_layer_unscale(&layer);
    numbers[STEP] = (icl_number){mean_step(&layer) / (double)data->n, 0};
    numbers[ENTRY] =
        (icl_number){fmax(icl_layer_distance(layer.p, target.p), icl_layer_distance(layer.q, target.q)), 0};
    ICL_CHECK(icl_reproduce_losses(study->run, trained, budgets[study->scale].sequences, 2, vectors, losses, error));
    numbers[EXACT_LOSS] = (icl_number){losses[0].mse, losses[0].se};
    numbers[LOSS] = (icl_number){losses[0].mse + losses[1].excess, losses[0].se};
    numbers[EXCESS] = (icl_number){losses[1].excess, losses[1].excess_se};
    return ICL_OK;
}

/* ---- Judging ---- */

static void judge_linear(icl_study *study, const icl_study_cell *cell, const double steps[D]) {
    const noise_cell *data = cell->data;
    const double least = least_loss(data, steps), n = (double)data->n;

    if (data->law == NORMAL)
        ICL_JUDGE(study, .quantity = "step", ICL_OURS(cell->numbers[STEP]), .target = steps[0] / n,
                  .tolerance = budgets[study->scale].step * steps[0] / n, .evidence = ICL_COMPUTED,
                  .source = "1 / (n + d + 1 + s)");
    ICL_JUDGE(study, .quantity = "largest error of an entry, relative", ICL_OURS(cell->numbers[ENTRY]),
              .tolerance = budgets[study->scale].entry, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "exact optimum");
    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(cell->numbers[LOSS]), .target = least,
              .tolerance = 4 * cell->numbers[LOSS].standard_error + .005 * least, .evidence = ICL_COMPUTED,
              .source = "exact optimum");
}

/* An even function's step is 0, within a share of the step of ReLUs. */
static void judge_function(icl_study *study, const icl_study_cell *cell, const double steps[D]) {
    const noise_cell *data = cell->data;
    const noise_cell relu = {.law = RELU, .n = data->n, .deviation = data->deviation};
    const double n = (double)data->n;
    double scale[D];

    find_steps(data->law == EVEN ? &relu : data, scale);
    ICL_JUDGE(study, .quantity = "step", ICL_OURS(cell->numbers[STEP]), .target = steps[0] / n,
              .tolerance = budgets[study->scale].function_step * scale[0] / n, .evidence = ICL_COMPUTED,
              .source = data->law == EVEN ? "even functions: none" : "d E k^2 / (E f^2 + s + (n - 1) E k^2)");
}

/* Judges the learned layer's loss minus that of the exact step on the same sequences, which must be neither large nor
 * below 0. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const noise_cell *data = cell->data;
    const icl_number exact = cell->numbers[EXACT_LOSS], excess = cell->numbers[EXCESS];
    double steps[D];

    find_steps(data, steps);
    (is_function(data->law) ? judge_function : judge_linear)(study, cell, steps);
    ICL_JUDGE(study, .quantity = "squared error above that of the exact step", ICL_OURS(excess), .target = 0,
              .tolerance = .002 * exact.value + 4 * excess.standard_error, .evidence = ICL_COMPUTED,
              .source = "exact optimum", .note = ICL_PHRASE("of a squared error of %.4g", exact.value));
}

static double exact_step(const icl_study *study, const icl_study_cell *cell) {
    const noise_cell *data = cell->data;
    double steps[D];

    (void)study;
    find_steps(data, steps);
    return steps[0] / (double)data->n;
}

static const icl_study_figure_row figures[] = {
    {.figure = {.name = "step",
                .title = "The step of one trained layer",
                .x_label = "variance of the labels' noise",
                .y_label = "step"},
     .number = STEP,
     .expected = exact_step,
     .expected_label = "1 / (n + d + 1 + s)"},
};

const icl_reproduction icl_onestep_noise = ICL_STUDY(
        .name = "onestep-noise", .source = "arXiv 2307.03576",
        .about =
            "one trained layer is one step of gradient descent: its length by noise, context, covariance and target",
        .claim =
            "One layer of linear attention that is trained to its optimum takes exactly one step of gradient descent.",
        .scope = "A met table means that the step that one trained layer takes is the closed form's for "
                 "these noises, contexts and covariances; softmax attention and more than one layer were "
                 "not tested.",
        .cost = {"2 s", "1 min", "12 min"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        .judge = judge, ICL_FIGURES(figures));
