/*
 * Training that ends at the optimum: Zhang, Frei, Bartlett 2023, "Trained transformers learn linear models in-context"
 * (arXiv 2306.09927). One layer of linear attention with all entries free, x ~ N(0, Lambda), w ~ N(0, I), n labels
 * without noise, gradient flow on the squared error from W_PV = s [0 0; 0 1], W_KQ = s [T 0; 0 0], T positive
 * semidefinite, ||T||_F = 1, s^2 ||G|| sqrt(d) < 2. It ends at
 *
 *     W_PV = u [0 0; 0 1],  W_KQ = 1/u [G^-1 0; 0 0],  G = (1 + 1/n) Lambda + tr(Lambda) / n I,  u = tr(G^-2)^(1/4),
 *
 * and ||W_PV|| = ||W_KQ|| all along. The flow itself is integrated in double precision (layer.h), and iclab's trainer
 * takes small steps on samples, with every entry free.
 *
 * The layer's behaviour on other prompts follows: with m labels instead of n the loss has a closed form; covariates c
 * times as large make predictions c^2 times as large as they should be; scaling only the query does no harm; and if
 * every prompt has its own covariance, no layer of this kind is right, however long the prompt: for l_i ~
 * Exponential(1) a third of the targets' variance is left, where least squares leaves nothing.
 */
#include <math.h>

#include "papers/onestep/layer.h"
#include "papers/papers.h"

enum { D = ICL_LAYER_D, WIDTH = ICL_LAYER_WIDTH, ENTRIES = WIDTH * WIDTH, SNAPSHOTS = 20, POINTS = SNAPSHOTS + 1 };

static const struct {
    size_t steps, sequences;
} budgets[ICL_SCALES] = {{6000, 20000}, {20000, 100000}, {100000, 400000}};

/* The duration of training, in the flow's time. The noise of the steps moves ||W_PV||^2 - ||W_KQ||^2 by this time times
 * a multiple of the rate. */
#define TRAINING_TIME 12.0

#define START 0.3 /* s */

/* ---- The flow in double precision ---- */

static double trace(const double *eigenvalues) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += eigenvalues[i];
    return sum;
}

/* G_i. */
static double gamma_of(const double *eigenvalues, size_t i, double n) {
    return (1 + 1 / n) * eigenvalues[i] + trace(eigenvalues) / n;
}

void icl_flow_fixed(const double *eigenvalues, double n, icl_flow_moments *moments) {
    for (size_t i = 0; i < D; i++) {
        moments->p[i] = eigenvalues[i] * eigenvalues[i];
        for (size_t j = 0; j < D; j++)
            moments->m[i][j] = eigenvalues[i] * gamma_of(eigenvalues, i, n) * eigenvalues[j];
    }
}

/* Uses E[l^k] = k!. E[l_i l_j sum_k l_k] is 6 + 2 (D - 1) for i = j, and 2 + 2 + (D - 2) otherwise. */
void icl_flow_exponential(double n, icl_flow_moments *moments) {
    for (size_t i = 0; i < D; i++) {
        moments->p[i] = 2;
        for (size_t j = 0; j < D; j++)
            moments->m[i][j] =
                i == j ? (1 + 1 / n) * 6 + (6 + 2.0 * (D - 1)) / n : (1 + 1 / n) * 2 + (4 + (D - 2.0)) / n;
    }
}

double icl_flow_balance(const icl_flow *at) {
    double square = 0;
    for (size_t i = 0; i < (size_t)D * D; i++)
        square += at->w[i] * at->w[i];
    return at->u * at->u - square;
}

/* Computes out = from + dt times the flow's velocity at `at`. */
static void move(const icl_flow_moments *moments, const icl_flow *from, const icl_flow *at, double dt, icl_flow *out) {
    icl_flow velocity = {.u = 0};

    for (size_t k = 0; k < (size_t)D * D; k++) {
        const double m = moments->m[k / D][k % D], p = k / D == k % D ? moments->p[k / D] : 0;
        velocity.u += p * at->w[k] - at->u * m * at->w[k] * at->w[k];
        velocity.w[k] = at->u * p - at->u * at->u * m * at->w[k];
    }
    out->u = from->u + dt * velocity.u;
    for (size_t k = 0; k < (size_t)D * D; k++)
        out->w[k] = from->w[k] + dt * velocity.w[k];
}

void icl_flow_advance(const icl_flow_moments *moments, double dt, icl_flow *at) {
    icl_flow a, b, c, d;

    move(moments, at, at, dt / 2, &a);
    move(moments, at, &a, dt / 2, &b);
    move(moments, at, &b, dt, &c);
    move(moments, at, &c, dt, &d);
    /* Adds the four velocities, from how far they moved: 2 (a - at), 2 (b - at), c - at, d - at. */
    at->u += (2 * (a.u - at->u) + 4 * (b.u - at->u) + 2 * (c.u - at->u) + (d.u - at->u)) / 6;
    for (size_t k = 0; k < (size_t)D * D; k++)
        at->w[k] +=
            (2 * (a.w[k] - at->w[k]) + 4 * (b.w[k] - at->w[k]) + 2 * (c.w[k] - at->w[k]) + (d.w[k] - at->w[k])) / 6;
}

void icl_flow_limit(const icl_flow_moments *moments, icl_flow *limit) {
    double square = 0;

    *limit = (icl_flow){.u = 0};
    for (size_t i = 0; i < D; i++) {
        limit->w[i * (D + 1)] = moments->p[i] / moments->m[i][i];
        square += limit->w[i * (D + 1)] * limit->w[i * (D + 1)];
    }
    limit->u = pow(square, .25);
    for (size_t i = 0; i < D; i++)
        limit->w[i * (D + 1)] /= limit->u;
}

/* ---- Exact losses ---- */

double icl_prompt_length_loss(const double *eigenvalues, double n, double m) {
    const double total = trace(eigenvalues);
    double variance = 0, bias = 0;

    for (size_t i = 0; i < D; i++) {
        const double l = eigenvalues[i], g = gamma_of(eigenvalues, i, n), beside = l + total;
        variance += l * beside * l / (g * g);
        bias += l * beside * beside / (g * g);
    }
    return variance / m + bias / (n * n);
}

/* The prediction is c^3 q times that for the original prompt, u w^T S W x, and the target c q times. */
double icl_covariate_shift_loss(const double *eigenvalues, double n, double m, double c, double q) {
    double loss = 0;

    for (size_t i = 0; i < D; i++) {
        const double l = eigenvalues[i], a = c * c / gamma_of(eigenvalues, i, n);
        loss += c * c * q * q * l * (a * a * l * gamma_of(eigenvalues, i, m) - 2 * a * l + 1);
    }
    return loss;
}

/* Minimises the loss, which is quadratic in a = u W: E[tr(Lambda)] - sum p_i^2 / m_ii. */
double icl_exponential_loss(double n) {
    icl_flow_moments moments;
    double loss = 0;

    icl_flow_exponential(n, &moments);
    for (size_t i = 0; i < D; i++)
        loss += 1 - moments.p[i] * moments.p[i] / moments.m[i][i];
    return loss;
}

/* ---- Cells: at[0] is their kind, at[1] the n of random covariances ---- */

enum { TRAINED = 0, PROMPTS, RANDOM };

typedef struct limit_cell {
    const char *name, *settings;
    double eigenvalues[D];
    size_t n;
    icl_scale first;
} limit_cell;

#define SPECTRUM "task.covariance=spectrum:2,1.5,1,0.8,0.7 task.rotate=true"

static const limit_cell trainings[] = {
    {"identity-n20", "", {1, 1, 1, 1, 1}, 20, ICL_SCALE_SHORT},
    {"identity-n100", "", {1, 1, 1, 1, 1}, 100, ICL_SCALE_SHORT},
    {"spectrum-n20", SPECTRUM, {2, 1.5, 1, .8, .7}, 20, ICL_SCALE_CI},
    {"spectrum-n100", SPECTRUM, {2, 1.5, 1, .8, .7}, 100, ICL_SCALE_SHORT},
};
enum { IDENTITY = 0, CHANGED = 2 }; /* the training whose layer gets other prompts */

/* Prompts of other lengths and scales. */
typedef struct prompts {
    const char *name;
    size_t m;
    icl_prompt_change change;
} prompts;

static const prompts changes[] = {
    {"spectrum, prompts of m = 10", 10, {0}},
    {"spectrum, prompts of m = 20", 20, {0}},
    {"spectrum, prompts of m = 40", 40, {0}},
    {"spectrum, prompts of m = 200", 200, {0}},
    {"spectrum, all covariates times 1", 20, {.covariates = 1}},
    {"spectrum, all covariates times 0.5", 20, {.covariates = .5}},
    {"spectrum, all covariates times 2", 20, {.covariates = 2}},
    {"spectrum, the query times 2", 20, {.query = 2}},
};
enum { LENGTHS = 4, UNCHANGED = 4, CHANGES = sizeof changes / sizeof *changes };

static void add_training(icl_study *study, const limit_cell *cell) {
    const size_t steps = budgets[study->scale].steps;

    const icl_study_cell *trained = ICL_ADD_CELL(
        study, .name = cell->name, .recipe = "gradientflow", .has_start = true, .data = cell, .at = {TRAINED},
        .settings = {cell->settings, ICL_PHRASE("task.n=%zu train.learning_rate=%.17g train.steps=%zu "
                                                "train.snapshot_every=%zu",
                                                cell->n, TRAINING_TIME / (double)steps, steps, steps / SNAPSHOTS)});
    for (size_t i = 0; i < CHANGES && cell == &trainings[CHANGED]; i++) {
        const icl_study_cell *changed = ICL_ADD_CELL(
            study, .name = changes[i].name, .group = cell->name, .recipe = "gradientflow", .is_untrained = true,
            .data = &changes[i], .at = {PROMPTS}, .settings = {cell->settings, ICL_PHRASE("task.n=%zu", changes[i].m)});
        icl_study_need(study, changed, trained);
        if (i > UNCHANGED)
            icl_study_need(study, changed, icl_study_find(study, changes[UNCHANGED].name));
    }
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++)
        if (study->scale >= trainings[i].first)
            add_training(study, &trainings[i]);
    for (size_t n = 20; n <= (study->scale == ICL_SCALE_CI ? 20 : 1000); n *= 50)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("random covariances, n = %zu", n), .group = "random",
                     .recipe = "gradientflow", .is_untrained = true, .at = {RANDOM, n},
                     .settings = {ICL_PHRASE("task.n=%zu", n)});
}

/* T in the inputs' own coordinates: 1 on the diagonal and 1/2 next to it, over its norm. In the covariance's basis all
 * its entries are non-zero. */
static void start_at(icl_one_layer *layer) {
    const double norm = sqrt(D + D * (D - 1) * .25);

    *layer = (icl_one_layer){.p = {{0}}};
    layer->p[D][D] = START;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++)
            layer->q[i][j] = START / norm * (i == j ? 1 : .5);
}

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    icl_one_layer start;

    (void)study, (void)cell, (void)from, (void)model, (void)error;
    start_at(&start);
    icl_one_layer_write(&start, values);
    return ICL_OK;
}

/* ---- Numbers ---- */

/* Numbers of the flow: the largest error of an entry at the end, the largest |u^2 - ||W||^2|, u and its limit. Numbers
 * of a layer on prompts: its loss, E[y^2], E[prediction y] / E[y^2], and the loss of least squares. */
enum { FLOW_ERROR = 0, FLOW_IMBALANCE, FLOW_U, LIMIT_U, LOSS, TARGET, SLOPE, OLS_LOSS, COMMON_NUMBERS };

/* Numbers of a training: the largest errors of entries of P and of -Q, the largest | ||P||^2 - ||Q||^2 | over the last
 * ||P||^2, and the distance from the flow on the way over the flow's u at the end; then P, -Q and the limit of -Q. */
enum { PV_ERROR = COMMON_NUMBERS, KQ_ERROR, IMBALANCE, DISTANCE, MATRICES, WAY = MATRICES + 3 * ENTRIES };

/* The numbers along the way are POINTS each: the flow's time; ||Q||; ||P||, and W's first and last entry in the basis
 * of the covariance; the last three again for the flow. */
enum { TIME = 0, KQ_NORM, PV_NORM, FIRST, LAST, FLOW_NORM, FLOW_FIRST, FLOW_LAST, COURSES };
enum { NUMBERS = WAY + COURSES * POINTS };

static size_t on_way(size_t course, size_t point) {
    return WAY + course * POINTS + point;
}

/* ---- The flow ---- */

/* Both are in units of the flow's time; the fastest rate is u^2 m_11 < 20. */
#define FLOW_STEP 0.01
#define FLOW_END  150.0

/* The flow is integrated to its end, and recorded at the times of a training. */
static void measure_flow(const icl_flow_moments *moments, const icl_flow *start, icl_number *numbers) {
    icl_flow flow = *start, limit;
    icl_one_layer end, exact;
    double imbalance = 0;

    for (size_t i = 0, point = 0; i < (size_t)(FLOW_END / FLOW_STEP); i++) {
        for (; point < POINTS && (double)i >= round(numbers[on_way(TIME, point)].value / FLOW_STEP); point++) {
            numbers[on_way(FLOW_NORM, point)].value = flow.u;
            numbers[on_way(FLOW_FIRST, point)].value = flow.w[0];
            numbers[on_way(FLOW_LAST, point)].value = flow.w[D * D - 1];
        }
        icl_flow_advance(moments, FLOW_STEP, &flow);
        imbalance = fmax(imbalance, fabs(icl_flow_balance(&flow) - icl_flow_balance(start)));
    }
    icl_flow_limit(moments, &limit);
    icl_one_layer_of_basis(flow.u, flow.w, NULL, &end);
    icl_one_layer_of_basis(limit.u, limit.w, NULL, &exact);
    numbers[FLOW_ERROR].value = fmax(icl_layer_distance(end.p, exact.p), icl_layer_distance(end.q, exact.q));
    numbers[FLOW_IMBALANCE].value = imbalance;
    numbers[FLOW_U].value = flow.u;
    numbers[LIMIT_U].value = limit.u;
}

static void start_in_basis(const double *root, icl_flow *start) {
    icl_one_layer layer;

    start_at(&layer);
    start->u = layer.p[D][D];
    icl_one_layer_in_basis(&layer, root, start->w);
}

/* ---- Training on samples ---- */

static double square_norm(double matrix[WIDTH][WIDTH]) {
    double sum = 0;
    for (size_t i = 0; i < ENTRIES; i++)
        sum += matrix[i / WIDTH][i % WIDTH] * matrix[i / WIDTH][i % WIDTH];
    return sum;
}

/* The trainer's loss is the full squared error, the flow's is half of it; its rates fall by a cosine to 0. */
static double time_at(double step, double steps) {
    const double pi = acos(-1);
    return TRAINING_TIME * (step / steps + sin(pi * step / steps) / pi);
}

static icl_status measure_course(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 const double *root, icl_number *numbers, icl_error *error) {
    const size_t steps = budgets[study->scale].steps;
    double inner[D * D], imbalance = 0;
    icl_one_layer layer;

    for (size_t i = 0; i < POINTS; i++) {
        const size_t step = i * (steps / SNAPSHOTS);
        ICL_CHECK(icl_study_go_to_step(study, cell, step, trained, error));
        ICL_CHECK(icl_one_layer_read(trained, &layer, error));
        icl_one_layer_in_basis(&layer, root, inner);
        numbers[on_way(TIME, i)].value = time_at((double)step, (double)steps);
        numbers[on_way(PV_NORM, i)].value = sqrt(square_norm(layer.p));
        numbers[on_way(KQ_NORM, i)].value = sqrt(square_norm(layer.q));
        numbers[on_way(FIRST, i)].value = inner[0];
        numbers[on_way(LAST, i)].value = inner[D * D - 1];
        imbalance = fmax(imbalance, fabs(square_norm(layer.p) - square_norm(layer.q)));
    }
    const double norm = numbers[on_way(PV_NORM, SNAPSHOTS)].value;
    numbers[IMBALANCE].value = imbalance / (norm * norm);
    return ICL_OK;
}

static double distance_from_flow(const icl_number *numbers) {
    double farthest = 0;

    for (size_t i = 0; i < (size_t)3 * POINTS; i++)
        farthest = fmax(farthest, fabs(numbers[on_way(PV_NORM, i)].value - numbers[on_way(FLOW_NORM, i)].value));
    return farthest / numbers[on_way(FLOW_NORM, SNAPSHOTS)].value;
}

static void note_matrix(double matrix[WIDTH][WIDTH], icl_number *numbers) {
    for (size_t i = 0; i < ENTRIES; i++)
        numbers[i].value = matrix[i / WIDTH][i % WIDTH];
}

static icl_status measure_training(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                   icl_number *numbers, icl_error *error) {
    const double *root = icl_task_get_prior(icl_trainer_task(trained))->covariance_root;
    const limit_cell *data = cell->data;
    icl_flow_moments moments;
    icl_flow start, limit;
    icl_one_layer layer, exact;

    icl_flow_fixed(data->eigenvalues, (double)data->n, &moments);
    icl_flow_limit(&moments, &limit);
    icl_one_layer_of_basis(limit.u, limit.w, root, &exact);
    ICL_CHECK(icl_one_layer_read(trained, &layer, error));
    numbers[PV_ERROR].value = icl_layer_distance(layer.p, exact.p);
    numbers[KQ_ERROR].value = icl_layer_distance(layer.q, exact.q);
    note_matrix(layer.p, numbers + MATRICES);
    note_matrix(layer.q, numbers + MATRICES + ENTRIES);
    note_matrix(exact.q, numbers + MATRICES + 2 * ENTRIES);
    ICL_CHECK(measure_course(study, cell, trained, root, numbers, error));
    start_in_basis(root, &start);
    measure_flow(&moments, &start, numbers);
    numbers[DISTANCE].value = distance_from_flow(numbers);
    return ICL_OK;
}

/* ---- Prompts ---- */

static icl_status measure_loss(icl_study *study, const icl_study_cell *cell, const icl_one_layer *layer,
                               const icl_prompt_change *change, size_t sequences, icl_number *numbers,
                               icl_error *error) {
    icl_changed_loss loss;

    ICL_CHECK(icl_one_layer_measure(study->run, cell->complete, layer, change, sequences, &loss, error));
    numbers[LOSS] = (icl_number){loss.mse, loss.se};
    numbers[TARGET].value = loss.target;
    numbers[SLOPE].value = loss.slope;
    numbers[OLS_LOSS].value = loss.ols;
    return ICL_OK;
}

static icl_status measure_prompts(icl_study *study, const icl_study_cell *cell, icl_number *numbers, icl_error *error) {
    const icl_number *trained = icl_study_find(study, trainings[CHANGED].name)->numbers;
    const prompts *data = cell->data;
    icl_one_layer layer;

    for (size_t i = 0; i < ENTRIES; i++) {
        layer.p[i / WIDTH][i % WIDTH] = trained[MATRICES + i].value;
        layer.q[i / WIDTH][i % WIDTH] = trained[MATRICES + ENTRIES + i].value;
    }
    return measure_loss(study, cell, &layer, &data->change, budgets[study->scale].sequences, numbers, error);
}

/* Measures the flow, and the layer at its limit. */
static icl_status measure_random(icl_study *study, const icl_study_cell *cell, icl_number *numbers, icl_error *error) {
    const size_t n = cell->at[1], sequences = budgets[study->scale].sequences / (n > 20 ? 10 : 1);
    icl_flow_moments moments;
    icl_flow start = {.u = START}, limit;
    icl_one_layer layer;

    icl_flow_exponential((double)n, &moments);
    icl_flow_limit(&moments, &limit);
    for (size_t i = 0; i < D; i++)
        start.w[i * (D + 1)] = START / sqrt(D);
    measure_flow(&moments, &start, numbers);
    icl_one_layer_of_basis(limit.u, limit.w, NULL, &layer);
    return measure_loss(study, cell, &layer, &(icl_prompt_change){.is_covariance = true}, sequences, numbers, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    switch (cell->at[0]) {
    case TRAINED:
        return measure_training(study, cell, trained, numbers, error);
    case PROMPTS:
        return measure_prompts(study, cell, numbers, error);
    default:
        return measure_random(study, cell, numbers, error);
    }
}

/* ---- Judging ---- */

static void judge_flow(icl_study *study, const char *what, const icl_number *numbers) {
    ICL_JUDGE(study, .what = what, .quantity = "largest error of an entry, relative", ICL_OURS(numbers[FLOW_ERROR]),
              .tolerance = .01, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "limit of the flow",
              .note = ICL_PHRASE("u %.6f, the limit %.6f", numbers[FLOW_U].value, numbers[LIMIT_U].value));
    ICL_JUDGE(study, .what = what, .quantity = "change of ||W_PV||^2 - ||W_KQ||^2", ICL_OURS(numbers[FLOW_IMBALANCE]),
              .tolerance = 1e-7, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "the flow keeps it");
}

/* A check of trainings, which are the only names with "-n": the largest error of an entry, relative to the largest
 * entry. */
#define CHECK(number, quantity, source, note)                                                                          \
    { quantity, "-n", number, 0, NULL, {.02, .01, .01}, {0}, 0, ICL_AT_MOST, ICL_COMPUTED, source, note }

static const icl_study_check_row checks[] = {
    CHECK(PV_ERROR, "largest error of an entry of W_PV, relative", "limit of the flow", NULL),
    CHECK(KQ_ERROR, "largest error of an entry of W_KQ, relative", "limit of the flow", NULL),
    CHECK(IMBALANCE, "largest | ||W_PV||^2 - ||W_KQ||^2 |, relative", "the flow keeps them equal", NULL),
    CHECK(DISTANCE, "distance from the flow on the way, relative", "flow in double precision",
          "the norm, and two entries"),
};

/* Returns the expected regression of predictions on targets, E[prediction y] / E[y^2], for covariates c times as
 * large. */
static double exact_slope(double c) {
    const limit_cell *training = &trainings[CHANGED];
    icl_flow_moments moments;
    double above = 0, below = 0;

    icl_flow_fixed(training->eigenvalues, (double)training->n, &moments);
    for (size_t i = 0; i < D; i++) {
        above += moments.p[i] * moments.p[i] / moments.m[i][i];
        below += training->eigenvalues[i];
    }
    return c * c * (above / below);
}

static double exact_loss(const prompts *data) {
    const limit_cell *training = &trainings[CHANGED];
    const double n = (double)training->n, c = data->change.covariates, q = data->change.query;

    return c == 0 && q == 0 ? icl_prompt_length_loss(training->eigenvalues, n, (double)data->m)
                            : icl_covariate_shift_loss(training->eigenvalues, n, n, c > 0 ? c : 1, q > 0 ? q : 1);
}

static void judge_ratio(icl_study *study, const char *quantity, double ours, double target, const char *source) {
    ICL_JUDGE(study, .quantity = quantity, .ours = ours, .target = target, .tolerance = 1e-3 * target,
              .evidence = ICL_COMPUTED, .source = source);
}

/* Judges the measured loss against the exact one of the limit: within four standard errors, and the error that trained
 * entries may have. */
static void judge_prompts(icl_study *study, const icl_study_cell *cell) {
    const prompts *data = cell->data;
    const icl_number *numbers = cell->numbers, *unchanged = icl_study_find(study, changes[UNCHANGED].name)->numbers;
    const double exact = exact_loss(data), c = data->change.covariates, q = data->change.query;
    const icl_phrase slopes = icl_phrase_print("predictions are %.3f times the targets; %.3f expected",
                                               numbers[SLOPE].value, exact_slope(c > 0 ? c : 1));

    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(numbers[LOSS]), .target = exact,
              .tolerance = 4 * numbers[LOSS].standard_error + checks[0].absolute[study->scale] * exact,
              .evidence = ICL_COMPUTED, .source = "closed form", .note = c > 0 || q > 0 ? slopes.text : NULL);
    if (c > 0 && c != 1)
        judge_ratio(study, "predictions over targets, by those of times 1",
                    numbers[SLOPE].value / unchanged[SLOPE].value, c * c, "c^2");
    if (q > 0)
        judge_ratio(study, "share of E[y^2], by that of times 1",
                    numbers[LOSS].value / numbers[TARGET].value / (unchanged[LOSS].value / unchanged[TARGET].value), 1,
                    "linear in the query");
}

static void judge_random(icl_study *study, const icl_study_cell *cell) {
    const double n = (double)cell->at[1], target = cell->numbers[TARGET].value;
    const icl_number loss = cell->numbers[LOSS], share = {loss.value / target, loss.standard_error / target};

    judge_flow(study, cell->name, cell->numbers);
    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(loss), .target = icl_exponential_loss(n),
              .tolerance = 4 * loss.standard_error, .evidence = ICL_COMPUTED, .source = "closed form",
              .note = ICL_PHRASE("one layer at its best; a fixed covariance: %.4f",
                                 icl_prompt_length_loss(trainings[IDENTITY].eigenvalues, n, n)));
    ICL_JUDGE(study, .quantity = "share of E[y^2]", ICL_OURS(share), .target = 1. / 3,
              .tolerance = 4 * share.standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
              .source = "n to infinity");
    ICL_JUDGE(study, .quantity = "share of E[y^2], least squares", .ours = cell->numbers[OLS_LOSS].value / target,
              .tolerance = 1e-6, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "labels without noise give w");
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    switch (cell->at[0]) {
    case TRAINED:
        judge_flow(study, ICL_PHRASE("%s, gradient flow", cell->name), cell->numbers);
        break;
    case PROMPTS:
        judge_prompts(study, cell);
        break;
    default:
        judge_random(study, cell);
    }
}

/* ---- Figures ---- */

static void draw_course(icl_study *study, const icl_number *numbers) {
    static const struct {
        const char *label;
        icl_series_style style;
        size_t course;
    } rows[] = {{"||W_PV||, trained", ICL_SERIES_OURS, PV_NORM},
                {"||W_KQ||, trained", ICL_SERIES_OURS, KQ_NORM},
                {"W_KQ along the largest variance", ICL_SERIES_OURS, FIRST},
                {"W_KQ along the least variance", ICL_SERIES_OURS, LAST},
                {"gradient flow: both norms", ICL_SERIES_REFERENCE, FLOW_NORM},
                {"gradient flow: largest", ICL_SERIES_REFERENCE, FLOW_FIRST},
                {"gradient flow: least", ICL_SERIES_REFERENCE, FLOW_LAST}};
    icl_curves curves = ICL_CURVES(.name = "course", .title = "Small steps on samples beside gradient flow, n = 20",
                                   .x_label = "time of the flow", .y_label = "entry, or norm");

    for (size_t i = 0; i < sizeof rows / sizeof *rows * POINTS; i++)
        icl_study_plot(study, &curves, rows[i / POINTS].label, rows[i / POINTS].style,
                       numbers[on_way(TIME, i % POINTS)].value,
                       numbers[on_way(rows[i / POINTS].course, i % POINTS)].value);
    icl_study_draw(study, &curves);
}

static void draw_matrices(icl_study *study, const icl_number *numbers) {
    static const char *const labels[] = {"trained W_PV", "trained W_KQ", "limit of W_KQ"};
    double values[3 * ENTRIES];
    icl_heat_map maps[3];

    for (size_t i = 0; i < (size_t)3 * ENTRIES; i++)
        values[i] = numbers[MATRICES + i].value;
    for (size_t i = 0; i < 3; i++)
        maps[i] = (icl_heat_map){labels[i], WIDTH, WIDTH, values + i * ENTRIES, NULL, NULL};
    ICL_STUDY_MAPS(study, .name = "matrices", .title = "One layer, rotated spectrum, n = 20: where training ends",
                   .row_label = "x, and last y", .column_label = "x, and last y", .count = 3, .maps = maps);
}

static void draw_lengths(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "prompt-length", .title = "Loss on prompts of other lengths",
                   .x_label = "labels in the prompt", .y_label = "squared error", .log_x = true, .log_y = true);

    for (size_t i = 0; i < LENGTHS; i++) {
        const double m = (double)changes[i].m;
        icl_study_plot_number(study, &curves, "trained with n = 20", ICL_SERIES_OURS, m,
                              icl_study_find(study, changes[i].name)->numbers[LOSS]);
        icl_study_plot(study, &curves, "closed form", ICL_SERIES_REFERENCE, m, exact_loss(&changes[i]));
    }
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    const icl_study_cell *cell = icl_study_find(study, trainings[CHANGED].name);

    if (!cell->is_wanted)
        return;
    draw_course(study, cell->numbers);
    draw_matrices(study, cell->numbers);
    draw_lengths(study);
}

const icl_reproduction icl_gradientflow_limit = ICL_STUDY(
        .name = "gradientflow-limit", .source = "arXiv 2306.09927",
        .about = "one layer by small steps of gradient descent: where it ends, and its loss on prompts of other laws",
        .claim =
            "Gradient flow trains one layer of linear attention to its optimum, which serves prompts of other lengths "
            "and fails where covariances differ from that of training.",
        .scope = "A met table means that training in small steps from the theorem's start ends at its "
                 "limit, and that the limit's losses on other prompts are the formula's; large steps, Adam "
                 "and other starts were not tested.",
        .cost = {"2 s", "20 s", "2 min"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        ICL_CHECKS(checks), .judge = judge, .conclude = conclude);
