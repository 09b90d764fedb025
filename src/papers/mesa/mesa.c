/*
 * Stacks of layers of linear attention on a dynamical system: von Oswald and others 2023, "Uncovering mesa-optimization
 * algorithms in Transformers" (arXiv 2309.05858), proposition 2 and section 4.1; tools/studies/mesa-linear.ini and
 * mesa-layer.ini have one layer, and reference predictors beside another simulation.
 *
 * Deeper stacks go on from one step of gradient descent, with activations cut to 4 as in the paper: without it the
 * stack is a polynomial of degree 3^L in the observations, which few sequences decide. The study judges that each
 * further layer lowers the loss, and that all losses are below that of one step. (One layer is, too, unlike that of
 * mesa-linear: the cut bounds what a long step does at late positions, so that all positions get a longer one.) They
 * are compared with K steps of gradient descent in context with Chebyshev's step lengths, which the paper finds in
 * trained nets.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "task/parts.h"
#include "task/streams.h"

typedef struct budget {
    size_t steps, sequences, seeds;
} budget;

/* ---- A trained stack beside reference predictors ---- */

enum { MODEL = 0, ZERO, GD, GD_MEAN, RIDGE, RIDGE_POINT_ONE, FLOOR = RIDGE + 4, PREDICTORS };

static const char *const predictors[PREDICTORS] = {"model",     "zero",    "gd",       "gd-mean", "ridge:0.001",
                                                   "ridge:0.1", "ridge:1", "ridge:10", "floor"};

/* Numbers: half losses of the predictors, and their losses at every position; for steps of gradient descent, the half
 * loss in place of the model's, and the interval that the steps are made for. */
enum { POSITIONS = 50, BY_POSITION = PREDICTORS, NUMBERS = BY_POSITION + PREDICTORS * POSITIONS };
enum { LEAST = 1, LARGEST };

static const icl_number *positions_of(const icl_study_cell *cell, size_t predictor) {
    return cell->numbers + BY_POSITION + predictor * POSITIONS;
}

/* Adds training number `number` of the cell, in the run folder runs/STEM-SEED; at[1] is the number. */
static void add_seed(icl_study *study, const icl_study_cell *cell, const char *stem, const budget *training,
                     size_t number) {
    const uint32_t seed = icl_study_seed(study, number);

    ICL_ADD_CELL(study, .name = cell->name, .group = cell->group, .recipe = "mesa",
                 .settings = {cell->settings[0],
                              ICL_PHRASE("train.steps=%zu eval.sequences=%zu", training->steps, training->sequences)},
                 .seed = seed, .folder = ICL_PHRASE("%s-%" PRIu32, stem, seed), .at = {cell->at[0], number});
}

static bool is_first_seed(const icl_study_cell *cell) {
    return cell->at[1] == 0;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    for (size_t i = 0; i < PREDICTORS; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, predictors[i]);
        if (!score)
            continue;
        numbers[i] = (icl_number){.5 * score->mse, .5 * score->se};
        for (size_t t = 0; t < score->position_count && score->positions[t].position < POSITIONS; t++)
            numbers[BY_POSITION + i * POSITIONS + score->positions[t].position].value = .5 * score->positions[t].loss;
    }
    return ICL_OK;
}

/* Draws half losses by position of the model, called `ours`, and of reference predictors. */
static void draw_positions(icl_study *study, const icl_study_cell *cell, const char *name, const char *title,
                           const char *ours) {
    static const size_t shown[] = {MODEL, ZERO, GD, GD_MEAN, RIDGE_POINT_ONE, FLOOR};
    icl_curves curves = ICL_CURVES(.name = name, .title = title, .x_label = "observations seen",
                                   .y_label = "half squared error", .log_y = true);
    double seen[POSITIONS];

    for (size_t t = 0; t < POSITIONS; t++)
        seen[t] = (double)(t + 1);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        icl_study_plot_numbers(study, &curves, i == 0 ? ours : predictors[shown[i]],
                               i == 0 ? ICL_SERIES_LINE : ICL_SERIES_REFERENCE, seen, positions_of(cell, shown[i]),
                               POSITIONS);
    icl_study_draw(study, &curves);
}

/* ---- Chebyshev's steps: predictions ---- */

/*
 * K steps of gradient descent in context with the step lengths of Chebyshev's polynomials, the best for a spectrum that
 * fills an interval. At a position with the sums C = sum_i y_i x_i^T and H = sum_i x_i x_i^T over the pairs before it
 *
 *     W_0 = 0,  W_k = W_(k-1) + a_k (C - W_(k-1) H),  the prediction W_K s
 *
 * is C u_K of  r_0 = s, u_0 = 0,  u_k = u_(k-1) + a_k r_(k-1),  r_k = r_(k-1) - a_k H r_(k-1), as polynomials in H
 * commute. The interval is the same at all positions, as the weights of a layer are, although H grows with them. Long
 * observations leave the interval, and outside of it the polynomial grows steeply: a few sequences dominate the mean of
 * many steps, as its standard error shows.
 */
enum { FIT_SEQUENCES = 256, DESCENT_SEQUENCES = 2048 };

/* Steps 1 / a_k = (largest + least) / 2 + (largest - least) / 2 cos(pi (2 k - 1) / (2 K)) for k = 1 … K. */
typedef struct chebyshev {
    size_t steps;          /* K */
    double least, largest; /* the interval of eigenvalues that they are made for */
} chebyshev;

/* out += factor M x. */
static void add_product(double *out, double factor, const double *matrix, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            out[i] += factor * matrix[i * n + j] * x[j];
}

static double step_of(const chebyshev *descent, size_t k) {
    const double angle = acos(-1.0) * (2 * (double)k - 1) / (2 * (double)descent->steps);
    return 1 / (.5 * (descent->largest + descent->least) + .5 * (descent->largest - descent->least) * cos(angle));
}

static void predict(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const chebyshev *descent = settings;
    const size_t n = task->shape.outputs;
    double *cross = work, *gram = cross + n * n, *before = gram + n * n, *now = before + n;
    double *sum = now + n, *rest = sum + n, *moved = rest + n;

    (void)number;
    memset(work, 0, (2 * n * n + 5 * n) * sizeof *work);
    for (size_t t = 0; t < task->shape.positions; t++) {
        const float *seen = icl_dynamical_observation(task, inputs, t);
        for (size_t i = 0; i < n; i++) {
            now[i] = rest[i] = (double)seen[i];
            sum[i] = outputs[t * n + i] = 0;
        }
        for (size_t i = 0; i < n && t > 0; i++)
            for (size_t j = 0; j < n; j++) {
                cross[i * n + j] += now[i] * before[j];
                gram[i * n + j] += before[i] * before[j];
            }
        for (size_t k = 1; k <= descent->steps; k++) {
            memcpy(moved, rest, n * sizeof *moved);
            for (size_t i = 0; i < n; i++)
                sum[i] += step_of(descent, k) * rest[i];
            add_product(moved, -step_of(descent, k), gram, rest, n);
            memcpy(rest, moved, n * sizeof *rest);
        }
        add_product(outputs + t * n, 1, cross, sum, n);
        memcpy(before, now, n * sizeof *now);
    }
}

/* ---- Chebyshev's steps: the interval ---- */

/* The sequences, and scratch memory for their predictions. */
typedef struct sample {
    const icl_task *task;
    size_t count;
    icl_dynamical_sequences drawn;
    double *outputs, *losses; /* [count][T][n], [count] */
} sample;

static icl_status draw_sample(const icl_study *study, const icl_task *task, icl_task_purpose purpose, size_t count,
                              sample *sequences, icl_error *error) {
    const icl_random_key key = {study->run->params->seed, icl_stream_for(purpose, ICL_DYNAMICAL_STREAMS), 0};
    const size_t each = task->shape.positions * task->shape.outputs;

    sequences->task = task;
    sequences->count = count;
    ICL_CHECK(icl_study_room(study, count * task->shape.positions, task->shape.inputs * sizeof(float),
                             &sequences->drawn.inputs, error));
    ICL_CHECK(icl_study_room(study, count, each * sizeof(float), &sequences->drawn.targets, error));
    ICL_CHECK(icl_study_room(study, count, each * sizeof(double), &sequences->outputs, error));
    ICL_CHECK(icl_study_room(study, count, sizeof(double), &sequences->losses, error));
    return icl_dynamical_draw(task, key, count, &sequences->drawn, error);
}

static icl_status half_loss(const sample *sequences, const chebyshev *descent, icl_number *half, icl_error *error) {
    const icl_task_shape *shape = &sequences->task->shape;
    const size_t each = shape->positions * shape->outputs, n = shape->outputs, count = sequences->count;

    ICL_CHECK(icl_task_for_each(sequences->task, predict, descent, 2 * n * n + 5 * n, count, sequences->drawn.inputs,
                                sequences->outputs, error));
    for (size_t i = 0; i < count; i++) {
        sequences->losses[i] = 0;
        for (size_t k = i * each; k < (i + 1) * each; k++) {
            const double miss = sequences->outputs[k] - (double)sequences->drawn.targets[k];
            sequences->losses[i] += .5 * miss * miss / (double)shape->positions;
        }
    }
    *half = (icl_number){icl_mean(sequences->losses, count), icl_standard_error(sequences->losses, count)};
    return ICL_OK;
}

/* Fits the interval: tries both ends moved by a factor, and halves the factor's logarithm if neither helps. */
static icl_status fit(const icl_study *study, const sample *sequences, chebyshev *descent, icl_error *error) {
    icl_number best, loss;

    ICL_CHECK(half_loss(sequences, descent, &best, error));
    for (double factor = 2; factor > 1.05;) {
        chebyshev found = *descent;
        for (int way = 0; way < 4; way++) {
            chebyshev other = *descent;
            *(way < 2 ? &other.least : &other.largest) *= way % 2 == 0 ? factor : 1 / factor;
            if (other.least > other.largest)
                continue;
            ICL_CHECK(icl_reproduce_poll(study->run, error));
            ICL_CHECK(half_loss(sequences, &other, &loss, error));
            if (loss.value < best.value) {
                best = loss;
                found = other;
            }
        }
        if (found.least == descent->least && found.largest == descent->largest)
            factor = sqrt(factor);
        *descent = found;
    }
    return ICL_OK;
}

/* Fits the interval to sequences drawn for fitting, and measures on others. */
static icl_status measure_descent(const icl_study *study, const icl_study_cell *cell, const icl_task *task,
                                  icl_number *numbers, icl_error *error) {
    chebyshev descent = {.steps = cell->at[0], .least = 50, .largest = 200};
    sample fitting = {0}, fresh = {0};

    icl_reproduce_say(study->run, "fitting %zu steps of gradient descent", descent.steps);
    ICL_CHECK(draw_sample(study, task, ICL_FOR_FITTING, FIT_SEQUENCES, &fitting, error));
    ICL_CHECK(draw_sample(study, task, ICL_FOR_EVALUATION, DESCENT_SEQUENCES, &fresh, error));
    ICL_CHECK(fit(study, &fitting, &descent, error));
    ICL_CHECK(half_loss(&fresh, &descent, &numbers[MODEL], error));
    numbers[LEAST].value = descent.least;
    numbers[LARGEST].value = descent.largest;
    return ICL_OK;
}

/* ---- Deeper stacks ---- */

static const struct {
    size_t layers;
    budget training;
} depth_budgets[ICL_SCALES] = {{2, {300, 2048, 1}}, {6, {1500, 10000, 1}}, {6, {15000, 50000, 5}}};

static void plan_depth(icl_study *study) {
    const size_t most = depth_budgets[study->scale].layers;

    for (size_t i = 0; i < depth_budgets[study->scale].training.seeds; i++)
        for (size_t layers = 1; layers <= most; layers++)
            add_seed(study,
                     &(icl_study_cell){
                         .name = ICL_PHRASE("layers-%zu, seed %zu", layers, i + 1),
                         .group = ICL_PHRASE("seed-%zu", i + 1),
                         .settings = {ICL_PHRASE("model.layers=%zu model.activation_clip=4 model.init=0.1", layers)},
                         .at = {layers}},
                     ICL_PHRASE("layers-%zu", layers), &depth_budgets[study->scale].training, i);
    for (size_t steps = 1; steps <= most; steps++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%zu steps with Chebyshev's lengths", steps), .group = "descent",
                     .recipe = "mesa", .is_untrained = true, .at = {steps});
}

static icl_status measure_depth(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                                icl_error *error) {
    return cell->is_untrained ? measure_descent(study, cell, icl_trainer_task(trained), numbers, error)
                              : measure(study, cell, trained, numbers, error);
}

static const icl_study_check_row descent_checks[] = {
    ICL_ROW(.quantity = "half squared error", .only = "Chebyshev", .number = MODEL,
            .note = "for eigenvalues from {} to {}", .beside = {LEAST, LARGEST}),
};

/* mesa-linear.ini judges one layer; here it is only the mark for two layers. */
static void judge_depth(icl_study *study, const icl_study_cell *cell) {
    const size_t layers = cell->at[0];

    if (cell->is_untrained)
        return;
    if (layers > 1) {
        const icl_study_cell *shallower =
            icl_study_find(study, ICL_PHRASE("layers-%zu, seed %zu", layers - 1, cell->at[1] + 1));
        ICL_JUDGE(study, .what = ICL_PHRASE("layers-%zu", layers), .quantity = "half squared error, below one step's",
                  ICL_OURS(cell->numbers[MODEL]), .target = cell->numbers[GD].value, .criterion = ICL_AT_MOST,
                  .evidence = ICL_COMPUTED, .source = "one step on the same sequences",
                  .note = ICL_PHRASE("seed %" PRIu32, cell->seed));
        ICL_JUDGE(study, .what = ICL_PHRASE("layers-%zu", layers), .quantity = "half squared error, below a layer less",
                  ICL_OURS(cell->numbers[MODEL]), .target = shallower->numbers[MODEL].value,
                  .tolerance = 3 * hypot(cell->numbers[MODEL].standard_error, shallower->numbers[MODEL].standard_error),
                  .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "section 4.1",
                  .note = ICL_PHRASE("tolerance: three standard errors; seed %" PRIu32, cell->seed));
    }
    if (is_first_seed(cell) && layers == depth_budgets[study->scale].layers)
        draw_positions(study, cell, "mesa-depth-positions",
                       ICL_PHRASE("%zu layers of linear attention by position", layers),
                       ICL_PHRASE("layers-%zu", layers));
}

static void conclude_depth(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "mesa-depth", .title = "Layers of linear attention beside steps of gradient descent",
                   .x_label = "layers, or steps", .y_label = "half squared error", .log_y = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const double x = (double)cell->at[0];
        if (!cell->is_measured)
            continue;
        icl_study_plot(study, &curves, cell->is_untrained ? "steps of gradient descent, Chebyshev" : "trained layers",
                       cell->is_untrained ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS, x, cell->numbers[MODEL].value);
        if (cell->is_untrained)
            continue;
        icl_study_plot(study, &curves, "one step, fitted", ICL_SERIES_REFERENCE, x, cell->numbers[GD].value);
        icl_study_plot(study, &curves, "ridge .1", ICL_SERIES_REFERENCE, x, cell->numbers[RIDGE_POINT_ONE].value);
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_mesa_depth = ICL_STUDY(
        .name = "mesa-depth", .source = "arXiv 2309.05858, proposition 2",
        .about = "one to six layers of linear attention on a dynamical system beside steps of gradient descent",
        .claim = "More layers of linear attention go on from one step of gradient descent: each layer lowers the loss.",
        .scope = "A met table means that each further layer lowers the loss of a stack on this one kind of "
                 "system; that its layers are steps of gradient descent is not judged beyond the first "
                 "step's loss.",
        .cost = {"4 s", "2 min", "2 h"}, .numbers = NUMBERS, .plan = plan_depth, .measure = measure_depth,
        ICL_CHECKS(descent_checks), .judge = judge_depth, .conclude = conclude_depth);
