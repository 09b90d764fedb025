/*
 * Whether a trained diagonal transformer adapts to the noise of a sequence, and by which terms: Vladymyrov et al. 2024
 * (arXiv 2402.14180), which says "momentum and adaptive rescaling based on noise levels" (sections 4 and 5).
 *
 * A model trained on sigma in {1, 3} predicts <w, x>. At each sigma, its effective penalty is the a with which ridge
 * regression, w(a) = (X^T X + a I)^-1 X^T y, comes nearest: the least E |w - w(a)|^2, over E |w|^2. One that adapts has
 * a penalty that rises with sigma; one that cannot stays at one penalty, whose optimum is E sigma^2 = 5. The same is
 * asked of the model without w_yy or without w_xy in every layer, and of a model trained without both (GD++).
 */
#include <math.h>

#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "probe/linear_layers.h"
#include "run/evaluation.h"

enum { D = 10, WIDTH = D + 1, CONTEXT = 20, MOST_LAYERS = 8 };
enum { DEPTH = 3, LEVELS = 5, VARIANTS = 3, BATCHES = 8 };

static const double levels[LEVELS] = {.5, 1, 2, 3, 4}; /* sigma */

/* E sigma^2 of the training, the best of constant penalties. */
#define CONSTANT 5.0

/* The terms that are removed from every layer. */
static const unsigned removed[VARIANTS] = {0, 1U << ICL_TERM_YY, 1U << ICL_TERM_XY};
static const char *const variants[VARIANTS] = {"", " without w_yy", " without w_xy"};

static const size_t sequences[ICL_SCALES] = {512, 4096, 16384}; /* of a batch */

/* ---- The nearest ridge regression ---- */

/* A sequence in the eigenbasis of X^T X. */
typedef struct solved {
    double eigenvalues[D], gradient[D]; /* gradient: X^T y */
    double weights[VARIANTS][D];        /* of the model */
    double momentum[DEPTH];             /* of layers (icl_linear_layers_momentum) */
    double distance;                    /* of the iteration with momentum from the layers, relative */
} solved;

/* Returns the derivative of sum |w - w(a)|^2 by a, over 2. */
static double slope_at(const solved *all, size_t count, size_t variant, double penalty) {
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < D; k++) {
            const double scale = 1 / (all[i].eigenvalues[k] + penalty), ridge = all[i].gradient[k] * scale;
            sum += (all[i].weights[variant][k] - ridge) * ridge * scale;
        }
    return sum;
}

/* Returns the penalty between .001 and 1000 at which the derivative changes its sign. */
static double nearest_penalty(const solved *all, size_t count, size_t variant, double unused) {
    double low = log(.001), high = log(1000);

    (void)unused;
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        *(slope_at(all, count, variant, exp(middle)) < 0 ? &low : &high) = middle;
    }
    return exp(low);
}

/* Returns sum |w - w(a)|^2 over sum |w|^2. */
static double distance_at(const solved *all, size_t count, size_t variant, double penalty) {
    double sum = 0, size = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < D; k++) {
            const double weight = all[i].weights[variant][k];
            const double ridge = all[i].gradient[k] / (all[i].eigenvalues[k] + penalty);
            sum += (weight - ridge) * (weight - ridge);
            size += weight * weight;
        }
    return sum / size;
}

static double distance_at_nearest(const solved *all, size_t count, size_t variant, double unused) {
    return distance_at(all, count, variant, nearest_penalty(all, count, variant, unused));
}

/* ---- Layers as an iteration with momentum ---- */

static double product(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/*
 * Computes the weights of diagonal layers without w_xx from the inputs as they are (lemma 4.4 says that there is such a
 * form). Residuals r, gradients v and weights w begin with r = y, v = X^T y, w = 0, and layer l makes
 *
 *     c_k = w_xy_k <v_k, v_l>,  r' = (1 + w_yy <r, r>) r + w_yx (X v + sum_(k < l) c_k r_k)
 *     w' = (1 + w_yy <r, r>) w - w_yx (v - sum_(k < l) c_k w_k),  v' = X^T r' + sum_(k <= l) w_xy_k <r_k, r'> v_k
 *
 * so that a step goes along the new gradient and along all old ones, each as far as residuals have kept their
 * direction: momentum where w_xy > 0.
 */
static void iterate(const double terms[DEPTH][ICL_LINEAR_TERMS], const float *tokens, size_t n, double *weights) {
    double r[DEPTH + 1][CONTEXT], v[DEPTH + 1][D] = {{0}}, w[DEPTH + 1][D] = {{0}};

    for (size_t i = 0; i < n; i++)
        r[0][i] = (double)tokens[i * WIDTH + D];
    for (size_t l = 0; l <= DEPTH; l++) {
        for (size_t i = 0; i < n * D; i++)
            v[l][i % D] += (double)tokens[i / D * WIDTH + i % D] * r[l][i / D];
        for (size_t k = 0; k < l; k++)
            for (size_t j = 0; j < D; j++)
                v[l][j] += terms[k][ICL_TERM_XY] * product(r[k], r[l], n) * v[k][j];
        if (l == DEPTH)
            break;
        const double keep = 1 + terms[l][ICL_TERM_YY] * product(r[l], r[l], n), step = terms[l][ICL_TERM_YX];
        for (size_t j = 0; j < D; j++)
            w[l + 1][j] = keep * w[l][j] - step * v[l][j];
        for (size_t i = 0; i < n; i++) {
            r[l + 1][i] = keep * r[l][i];
            for (size_t j = 0; j < D; j++)
                r[l + 1][i] += step * (double)tokens[i * WIDTH + j] * v[l][j];
        }
        for (size_t k = 0; k < l; k++) {
            const double along = step * terms[k][ICL_TERM_XY] * product(v[k], v[l], D);
            for (size_t j = 0; j < D; j++)
                w[l + 1][j] += along * w[k][j];
            for (size_t i = 0; i < n; i++)
                r[l + 1][i] += along * r[k][i];
        }
    }
    for (size_t j = 0; j < D; j++)
        weights[j] = w[DEPTH][j];
}

/* Returns |w - w_iterated| / |w| of one sequence, w by the layers without w_xx. */
static double compare_iteration(icl_linear_layers *layers, const float *tokens, size_t n) {
    const icl_linear_ablation ablation = {.layer = ICL_EVERY_LAYER, .terms = 1U << ICL_TERM_XX};
    double terms[DEPTH][ICL_LINEAR_TERMS], weights[DEPTH][D], iterated[D], square = 0;

    for (size_t l = 0; l < DEPTH; l++) {
        icl_linear_layers_terms(layers, l, terms[l]);
        for (size_t term = 0; term < ICL_LINEAR_TERMS; term++)
            terms[l][term] /= (double)n;
    }
    icl_linear_layers_weights(layers, tokens, &ablation, weights[0]);
    iterate(terms, tokens, n, iterated);
    for (size_t j = 0; j < D; j++)
        square += pow(weights[DEPTH - 1][j] - iterated[j], 2);
    return sqrt(square / product(weights[DEPTH - 1], weights[DEPTH - 1], D));
}

/* ---- Sequences ---- */

/* Turns into the eigenbasis, whose vectors are rows. */
static void turn(const double *vectors, const double *vector, double *turned) {
    for (size_t k = 0; k < D; k++)
        turned[k] = product(vectors + k * D, vector, D);
}

/* Solves one sequence with the weights of layers, of which `variants` are asked. */
static icl_status solve(icl_linear_layers *layers, size_t depth, const float *tokens, size_t n, size_t variant_count,
                        solved *into, icl_error *error) {
    double gram[D * D] = {0}, gradient[D] = {0}, vectors[D * D], work[3 * D], weights[MOST_LAYERS][D];

    for (size_t i = 0; i < n; i++)
        for (size_t a = 0; a < D; a++) {
            const double x = (double)tokens[i * WIDTH + a];
            gradient[a] += x * (double)tokens[i * WIDTH + D];
            for (size_t b = 0; b < D; b++)
                gram[a * D + b] += x * (double)tokens[i * WIDTH + b];
        }
    if (!icl_symmetric_eigen(D, gram, into->eigenvalues, vectors, work))
        return icl_fail(error, ICL_ERROR_INPUT, "a context's eigenvalues do not converge");
    turn(vectors, gradient, into->gradient);
    for (size_t variant = 0; variant < variant_count; variant++) {
        const icl_linear_ablation ablation = {.layer = ICL_EVERY_LAYER, .terms = removed[variant]};
        icl_linear_layers_weights(layers, tokens, &ablation, weights[0]);
        turn(vectors, weights[depth - 1], into->weights[variant]);
    }
    return ICL_OK;
}

/* A model's parameters and a task. */
typedef struct subject {
    const icl_model *model;
    const icl_task *task;
    const float *values;
    size_t variants; /* the first ones, which are asked */
} subject;

/* Solves `count` sequences of a task. */
static icl_status solve_all(icl_study *study, const subject *s, size_t count, solved *all, icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const size_t depth = icl_model_layers(s->model), n = icl_task_context(s->task);
    icl_linear_layers *layers = NULL;
    icl_sequences drawn = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_layers_create(s->model, D, n, s->values, &layers, error));
    ICL_TRY(icl_sequences_create(params->backend, s->task, params->seed, &drawn, error));
    for (size_t i = 0; i < count; i++) {
        const float *tokens = drawn.inputs + i % drawn.chunk * (n + 1) * WIDTH;
        if (i % drawn.chunk == 0) {
            ICL_TRY(icl_reproduce_poll(study->run, error));
            ICL_TRY(icl_sequences_sample(&drawn, i / drawn.chunk, error));
            ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        }
        ICL_TRY(solve(layers, depth, tokens, n, s->variants, &all[i], error));
        if (s->variants == VARIANTS) {
            icl_linear_layers_momentum(layers, tokens, all[i].momentum);
            all[i].distance = compare_iteration(layers, tokens, n);
        }
    }
done:
    icl_sequences_release(&drawn);
    icl_linear_layers_destroy(&layers);
    return status;
}

/* Returns the mean and its standard error of a quantity of batches, each of `count` sequences. */
typedef double batch_quantity(const solved *all, size_t count, size_t variant, double argument);

static icl_number over_batches(const solved *all, size_t count, batch_quantity *quantity, size_t variant,
                               double argument) {
    double values[BATCHES];

    for (size_t batch = 0; batch < BATCHES; batch++)
        values[batch] = quantity(all + batch * count, count, variant, argument);
    return (icl_number){icl_mean(values, BATCHES), icl_standard_error(values, BATCHES)};
}

/* ---- Layers by hand ---- */

/*
 * Theorem 5.2: inputs N(0, I / n) and noise s, n large, so that X^T X is near I and <y, y> near n s^2. A layer with
 * w_yy = c / n and one with w_yx = -b predict b (1 + c s^2) X^T y, ridge regression X^T y / (1 + s^2). They are equal
 * at two levels s_1 and s_2 for c = -1 / (1 + s_1^2 + s_2^2) and b = (1 + s_1^2 + s_2^2) / ((1 + s_1^2) (1 + s_2^2)).
 * Here inputs are N(0, I) and sigma = sqrt(n) s, which is the same problem.
 *
 * What is left falls as 1 / n. X^T X / n = I + E / sqrt(n) with E |E h|^2 = (d + 1) |h|^2, and <y, y> scatters by a
 * share of sqrt(2 / n), so that n times the relative square distance tends to
 *
 *     (d + 1) / (1 + s^2)^2 + 2 (c s^2 / (1 + c s^2))^2.
 */
#define S_1    .5
#define S_2    1.
#define ALL    (1 + S_1 * S_1 + S_2 * S_2)
#define SHRINK (-1 / ALL)                                  /* c */
#define STEP   (ALL / ((1 + S_1 * S_1) * (1 + S_2 * S_2))) /* b */

static double limit_of(double s) {
    const double shrunk = SHRINK * s * s;
    return (D + 1) / pow(1 + s * s, 2) + 2 * pow(shrunk / (1 + shrunk), 2);
}

/* Layers that need no training: two for the levels, or GD++ without noise. */
typedef struct by_hand {
    size_t layers, n;
    double s; /* 0: GD++ */
} by_hand;

#define CONTEXTS(s)                                                                                                    \
    {2, 100, s}, {2, 400, s}, {2, 1600, s}, {                                                                          \
        2, 6400, s                                                                                                     \
    }

static const by_hand constructed[] = {CONTEXTS(S_1), CONTEXTS(S_2), {5, CONTEXT, 0}, {6, CONTEXT, 0}, {7, CONTEXT, 0}};

/* Writes the parameters. P and Q of diagonal layers have a number for x and one for y; sums are divided by n. */
static void construct(const by_hand *layers, const icl_model *model, float *values) {
    if (layers->s == 0) {
        icl_versatile_start_at_intervals(model, values);
        return;
    }
    values[icl_model_parameter(model, 0)->offset + 1] = (float)(SHRINK / (double)layers->n); /* w_yy = P_y Q_y */
    values[icl_model_parameter(model, 1)->offset + 1] = 1;
    values[icl_model_parameter(model, 2)->offset + 1] = (float)-STEP; /* w_yx = P_y Q_x */
    values[icl_model_parameter(model, 3)->offset] = 1;
}

/* Returns the median of the digits of sequences' weights, -log10 of their relative distance from least squares. */
static double digits_of(const solved *all, size_t count, double *digits) {
    for (size_t i = 0; i < count; i++)
        digits[i] = -log10(distance_at(all + i, 1, 0, 0)) / 2;
    return icl_median(digits, count);
}

static const size_t hand_sequences[ICL_SCALES] = {64, 512, 2048}; /* of a batch */

static icl_status measure_by_hand(icl_study *study, const by_hand *layers, const icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    const size_t count = hand_sequences[study->scale];
    const icl_model *model = icl_trainer_model(trained);
    double *digits = NULL;
    float *values = NULL;
    solved *all = NULL;

    ICL_CHECK(icl_study_room(study, BATCHES * count, sizeof *digits, &digits, error));
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *values, &values, error));
    ICL_CHECK(icl_study_room(study, BATCHES * count, sizeof *all, &all, error));
    construct(layers, model, values);
    const subject s = {model, icl_trainer_task(trained), values, 1};
    ICL_CHECK(solve_all(study, &s, BATCHES * count, all, error));
    if (layers->s > 0)
        numbers[0] = over_batches(all, count, distance_at, 0, (double)layers->n * layers->s * layers->s);
    else
        numbers[0].value = digits_of(all, BATCHES * count, digits);
    numbers[0].value *= layers->s > 0 ? (double)layers->n : 1;
    numbers[0].standard_error *= (double)layers->n;
    return ICL_OK;
}

/* ---- Cells ---- */

#define GDPP_NAME "gd++ by hand, %zu layers"

static void plan_by_hand(icl_study *study, const by_hand *layers) {
    const bool is_gdpp = layers->s == 0;

    ICL_ADD_CELL(study, .recipe = "versatile-table1", .is_untrained = true, .data = layers,
                 .name = is_gdpp ? ICL_PHRASE(GDPP_NAME, layers->layers)
                                 : ICL_PHRASE("two layers by hand, s %g, n %zu", layers->s, layers->n),
                 .settings = {ICL_PHRASE("task.sampler=tokens task.n=%zu task.noise=fixed:%.9g model.layers=%zu "
                                         "model.parameterization=%s train.growth=0",
                                         layers->n, sqrt((double)layers->n) * layers->s, layers->layers,
                                         is_gdpp ? "gd++" : "diag")});
}

static void plan(icl_study *study) {
    const size_t noise = ICL_VERSATILE_CHOICE_1_3, seeds = study->scale == ICL_SCALE_CI ? 1 : 3;

    icl_versatile_add(study, &(icl_versatile_cell){DEPTH, ICL_VERSATILE_DIAG, noise}, seeds);
    icl_versatile_add(study, &(icl_versatile_cell){DEPTH, ICL_VERSATILE_GDPP, noise}, seeds);
    for (size_t i = 0; i < sizeof constructed / sizeof *constructed; i++)
        plan_by_hand(study, &constructed[i]);
}

/* Numbers of trained models: of each variant at each level, then the momentum of each layer but the last, the share of
 * sequences in which it is above 0, and the iteration's largest distance. By hand there is the first one alone: n times
 * the relative square distance from ridge regression, or the digits. */
enum { PENALTY = 0, DISTANCE, CONSTANT_DISTANCE, ASKED, MOMENTUM = VARIANTS * LEVELS * ASKED };
enum { POSITIVE = MOMENTUM + DEPTH - 1, ITERATION = POSITIVE + DEPTH - 1, NUMBERS };

static size_t place_of(size_t variant, size_t level) {
    return (variant * LEVELS + level) * ASKED;
}

/* The first level fills in what all levels share; momentum is that of sigma = 1, the first of the training. */
static icl_status measure_level(icl_study *study, const subject *s, size_t level, solved *all, icl_number *numbers,
                                icl_error *error) {
    const size_t count = sequences[study->scale], whole = BATCHES * count;
    double *momentum = NULL;

    ICL_CHECK(solve_all(study, s, whole, all, error));
    for (size_t variant = 0; variant < VARIANTS; variant++) {
        icl_number *asked = numbers + place_of(variant, level);
        asked[PENALTY] = over_batches(all, count, nearest_penalty, variant, 0);
        asked[DISTANCE] = over_batches(all, count, distance_at_nearest, variant, 0);
        asked[CONSTANT_DISTANCE] = over_batches(all, count, distance_at, variant, CONSTANT);
    }
    for (size_t i = 0; i < whole; i++)
        numbers[ITERATION].value = fmax(level + i > 0 ? numbers[ITERATION].value : 0, all[i].distance);
    ICL_CHECK(icl_study_room(study, whole, sizeof *momentum, &momentum, error));
    for (size_t layer = 0; layer + 1 < DEPTH && levels[level] == 1; layer++) {
        double positive = 0;
        for (size_t i = 0; i < whole; i++) {
            momentum[i] = all[i].momentum[layer];
            positive += momentum[i] > 0;
        }
        numbers[MOMENTUM + layer].value = icl_median(momentum, whole);
        numbers[POSITIVE + layer].value = positive / (double)whole;
    }
    return ICL_OK;
}

static icl_status measure_trained(icl_study *study, const icl_study_cell *cell, icl_number *numbers, icl_error *error) {
    icl_versatile_choice choice = {0};
    float *values = NULL;
    solved *all = NULL;

    ICL_CHECK(icl_versatile_choose(study, cell, &choice, error));
    ICL_CHECK(icl_study_parameters(study, choice.trainer, &values, error));
    ICL_CHECK(icl_study_room(study, BATCHES * sequences[study->scale], sizeof *all, &all, error));
    for (size_t level = 0; level < LEVELS; level++) {
        icl_recipe *recipe = NULL;
        icl_task *task = NULL;
        icl_status status = icl_recipe_clone(choice.training->complete, &recipe, error);
        if (status == ICL_OK)
            status = icl_recipe_set_text(recipe, "task", "noise", ICL_PHRASE("fixed:%g", levels[level]), error);
        if (status == ICL_OK)
            status = icl_task_create(recipe, &task, error);
        const subject s = {icl_trainer_model(choice.trainer), task, values, VARIANTS};
        if (status == ICL_OK)
            status = measure_level(study, &s, level, all, numbers, error);
        icl_task_destroy(&task);
        icl_recipe_destroy(&recipe);
        ICL_CHECK(status);
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    if (cell->data)
        return measure_by_hand(study, cell->data, trained, numbers, error);
    return cell->is_helper ? ICL_OK : measure_trained(study, cell, numbers, error);
}

/* ---- Judging ---- */

/* The penalties of the weights that minimise the loss directly (layers.c), by this file's own measure of them, to .7 %.
 * The loss is flat along the penalty: trainings of the same loss differ by some per cent. */
static const double computed[LEVELS] = {1.717, 2.115, 3.853, 7.58, 13.87};

static void judge_penalty(icl_study *study, const icl_study_cell *cell, size_t variant, size_t level) {
    const icl_number *asked = cell->numbers + place_of(variant, level);
    const bool is_gdpp = cell->at[1] == ICL_VERSATILE_GDPP, is_whole = variant == 0;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s%s, sigma %g", cell->name, variants[variant], levels[level]),
              .quantity = "effective penalty", ICL_OURS(asked[PENALTY]), .target = is_gdpp ? CONSTANT : computed[level],
              .tolerance = (is_gdpp ? .05 : .1) * (is_gdpp ? CONSTANT : computed[level]),
              .evidence = is_whole ? ICL_COMPUTED : ICL_EVIDENCE_NONE,
              .source = is_gdpp ? "E sigma^2: the best constant penalty" : "weights by direct minimisation",
              .note = ICL_PHRASE("%.3g of the weights' square from it, %.3g from penalty 5", asked[DISTANCE].value,
                                 asked[CONSTANT_DISTANCE].value));
}

/* Returns the penalty at the largest sigma over that at the least. */
static icl_number rise_of(const icl_study_cell *cell, size_t variant) {
    const icl_number high = cell->numbers[place_of(variant, LEVELS - 1)], low = cell->numbers[place_of(variant, 0)];
    const double rise = high.value / low.value;

    return (icl_number){rise, rise * hypot(high.standard_error / high.value, low.standard_error / low.value)};
}

static void judge_diagonal(icl_study *study, const icl_study_cell *cell) {
    for (size_t layer = 0; layer + 1 < DEPTH; layer++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu", cell->name, layer + 1),
                  .quantity = "share with momentum above 0", ICL_OURS(cell->numbers[POSITIVE + layer]), .target = .05,
                  .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "the optimum has w_xy < 0",
                  .note = ICL_PHRASE("median %.3g", cell->numbers[MOMENTUM + layer].value));
    /* Sums of some hundred rounded products, amplified where weights are small differences. */
    ICL_JUDGE(study, .what = ICL_PHRASE("%s without w_xx, as an iteration", cell->name),
              .quantity = "largest relative distance", ICL_OURS(cell->numbers[ITERATION]), .target = 1e-9,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "lemma 4.4; rounding");
}

/* A limit of large n is judged where what is left of the next order is below a twentieth. */
static void judge_levels(icl_study *study, const icl_study_cell *cell, const by_hand *layers) {
    const double limit = limit_of(layers->s);

    ICL_JUDGE(study, .quantity = "n times square distance from ridge", ICL_OURS(cell->numbers[0]), .target = limit,
              .tolerance = .05 * limit + 3 * cell->numbers[0].standard_error,
              .evidence = layers->n >= 1600 ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "theorem 5.2, its next order",
              .note = ICL_PHRASE("the limit is %.4g", limit));
}

/* Doubled digits are a squared error, whose factor may cost half a digit. */
static void judge_digits(icl_study *study, const icl_study_cell *cell, const by_hand *layers) {
    const icl_study_cell *before = icl_study_find(study, ICL_PHRASE(GDPP_NAME, layers->layers - 1));
    const double target = before ? 2 * before->numbers[0].value : 0;

    ICL_JUDGE(study, .quantity = "digits of weights, median", ICL_OURS(cell->numbers[0]), .target = target,
              .tolerance = .5, .evidence = before && before->is_wanted ? ICL_READ : ICL_EVIDENCE_NONE,
              .criterion = ICL_AT_LEAST, .source = "theorem 5.1: twice those of a layer less");
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const by_hand *layers = cell->data;
    const bool is_diagonal = !layers && cell->at[1] == ICL_VERSATILE_DIAG;

    if (layers)
        (layers->s > 0 ? judge_levels : judge_digits)(study, cell, layers);
    for (size_t i = 0; !layers && i < VARIANTS * LEVELS; i++)
        if (is_diagonal || i < LEVELS)
            judge_penalty(study, cell, i / LEVELS, i % LEVELS);
    if (is_diagonal)
        judge_diagonal(study, cell);
}

/* ---- Models beside each other ---- */

static void judge_rises(icl_study *study, const icl_study_cell *diagonal, const icl_study_cell *gdpp) {
    const icl_number constant = rise_of(gdpp, 0);

    for (size_t variant = 0; variant < VARIANTS; variant++) {
        const icl_number rise = rise_of(diagonal, variant);
        ICL_JUDGE(study, .what = ICL_PHRASE("%s%s", diagonal->name, variants[variant]),
                  .quantity = "penalty at sigma 4 over that at .5", ICL_OURS(rise),
                  .target = constant.value + 3 * hypot(rise.standard_error, constant.standard_error),
                  .criterion = ICL_AT_LEAST, .evidence = variant == 0 ? ICL_READ : ICL_EVIDENCE_NONE,
                  .source = "adapts: above GD++, by 3 errors",
                  .note = ICL_PHRASE("gd++ %.4g, the best penalty of each sigma 64", constant.value));
    }
}

static void draw_penalties(icl_study *study, const icl_study_cell *diagonal, const icl_study_cell *gdpp) {
    icl_curves curves =
        ICL_CURVES(.name = "penalty", .title = "The ridge penalty that a trained model amounts to (arXiv 2402.14180)",
                   .x_label = "sigma", .y_label = "effective penalty", .log_y = true);

    for (size_t level = 0; level < LEVELS; level++) {
        for (size_t variant = 0; variant < VARIANTS; variant++)
            icl_study_plot_number(study, &curves, ICL_PHRASE("diag%s", variants[variant]), ICL_SERIES_OURS,
                                  levels[level], diagonal->numbers[place_of(variant, level)]);
        icl_study_plot_number(study, &curves, "gd++", ICL_SERIES_OURS, levels[level],
                              gdpp->numbers[place_of(0, level)]);
        icl_study_plot(study, &curves, "sigma^2", ICL_SERIES_REFERENCE, levels[level], levels[level] * levels[level]);
    }
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    const size_t noise = ICL_VERSATILE_CHOICE_1_3;
    const icl_study_cell *diagonal = icl_versatile_find(study, &(icl_versatile_cell){DEPTH, ICL_VERSATILE_DIAG, noise});
    const icl_study_cell *gdpp = icl_versatile_find(study, &(icl_versatile_cell){DEPTH, ICL_VERSATILE_GDPP, noise});

    if (!diagonal->is_wanted || !gdpp->is_wanted)
        return;
    judge_rises(study, diagonal, gdpp);
    draw_penalties(study, diagonal, gdpp);
}

const icl_reproduction icl_versatile_adaptation =
    ICL_STUDY(.name = "versatile-adaptation", .source = "arXiv 2402.14180, sections 4 and 5",
              .about = "the ridge penalty that a trained model amounts to, by noise, and which terms it takes",
              .claim =
                  "A trained diagonal transformer adapts to the noise of a sequence: it comes near ridge regression "
                  "with a penalty that rises with the noise.",
              .scope = "A met table means that three diagonal layers, trained on sigma in {1, 3}, act like a "
                       "ridge penalty that rises with the noise; that this penalty is the best one was not "
                       "asked, and other depths and laws of the noise were not tested.",
              .cost = {"10 s", "1 min", NULL}, .numbers = NUMBERS, .plan = plan, .begin = icl_versatile_begin,
              .measure = measure, .judge = judge, .conclude = conclude);
