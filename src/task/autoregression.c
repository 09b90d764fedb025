/*
 * Autoregressive series whose noise may jump, each with coefficients of its own: the next value is to be predicted at
 * every position.
 *
 *     x_t = sum_{k=1}^{K} a_k x_(t-k) + s_t e_t / sqrt(m),  e ~ N(0, v),  K = task.lags
 *
 * The coefficients are drawn by their partial autocorrelations r_k, uniform between -c and c < 1 (c =
 * task.largest_reflection): every such series is stationary, and every stationary one has such numbers
 * (Barndorff-Nielsen and Schou 1973, "On the parametrization of autoregressive models by partial autocorrelations").
 * The recursion of Levinson and Durbin gives the coefficients of all orders k and the variance of their noise, if the
 * series has variance 1:
 *
 *     a^(k)_k = r_k,   a^(k)_j = a^(k-1)_j - r_k a^(k-1)_(k-j),   v_k = v_(k-1) (1 - r_k^2),   v_0 = 1
 *
 * Value t < K is drawn by order t, so that the series is stationary from its first value on.
 *
 *     task.jumps = none      s_t = 1
 *                  shocks    s_t = J = task.jump_scale with the probability q = task.jump_probability, else 1
 *                  regimes   s_t is 1 or J, each with probability 1/2 at first, and changes with probability q
 *
 * m = E s_t^2: 1; 1 + q (J^2 - 1); (1 + J^2) / 2. The noise stays uncorrelated, so that with or without jumps every
 * value has mean 0 and variance 1, and correlations are those of the coefficients.
 *
 * The host draws: sequence i owns K + 2 (T + 1) consecutive words of the stream, in full blocks of four: r_1 … r_K, and
 * for each value the word of its jump and that of its noise. Everything is made of them in double precision by +, -,
 * *, / and sqrt, and rounded once.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/random.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

#define MOST_LAGS 16

typedef enum jumps { JUMPS_NONE = 0, JUMPS_SHOCKS, JUMPS_REGIMES } jumps;

/* task->state. */
typedef struct autoregression {
    size_t lags;
    double largest_reflection;
    jumps jumps;
    double jump_probability, jump_scale;
    double mean_square; /* m */
} autoregression;

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0, REFLECTIONS };

/* ---- The recipe ---- */

#define KEY(field) ICL_KEY("task", autoregression, field)

static const icl_recipe_key jump_rows[] = {
    {KEY(jump_probability), "0.05", 0, 1, .help = "of a shock, or of a change between the regimes, at each value"},
    {KEY(jump_scale), "5", 0.01, 1e6,
     .help = "standard deviation of the noise of a shock or a loud regime, over the other"},
};
static const icl_recipe_group jump_keys = ICL_RECIPE_GROUP(jump_rows);
static const icl_recipe_group *const jump_groups[] = {&jump_keys, NULL};
static const icl_choice jump_words[] = {
    {"none", JUMPS_NONE}, {"shocks", JUMPS_SHOCKS, jump_groups}, {"regimes", JUMPS_REGIMES, jump_groups}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(lags), "2", 1, MOST_LAGS, .help = "values K before a value that it depends on"},
    {KEY(largest_reflection), "0.9", 0, 0.999,
     .help = "partial autocorrelations are uniform between this and its negative"},
    {KEY(jumps), "none", .choices = jump_words, .help = "how the size of the noise jumps"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_autoregression_keys[] = {&icl_length_keys, &own_keys, NULL};

static double mean_square_of(const autoregression *series) {
    const double q = series->jump_probability, square = series->jump_scale * series->jump_scale;

    return series->jumps == JUMPS_NONE ? 1 : series->jumps == JUMPS_SHOCKS ? 1 + q * (square - 1) : (1 + square) / 2;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const size_t positions = icl_vocabulary_read(recipe).length;
    autoregression *series = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *series, "autoregression", &series, error));
    task->state = series;
    icl_recipe_read(recipe, &own_keys, series);
    icl_recipe_read(recipe, &jump_keys, series);
    series->mean_square = mean_square_of(series);
    task->shape = (icl_task_shape){
        .positions = positions, .inputs = 1, .outputs = 1, .scored = positions, .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

/* ---- Coefficients ---- */

/* The coefficients of all orders, and the variances of their noise. */
typedef struct order_table {
    double coefficients[MOST_LAGS + 1][MOST_LAGS]; /* [k][j - 1]: a^(k)_j */
    double variances[MOST_LAGS + 1];               /* v_k */
} order_table;

static void make_orders(const double *reflections, size_t lags, order_table *orders) {
    orders->variances[0] = 1;
    for (size_t k = 1; k <= lags; k++) {
        const double r = reflections[k - 1], *before = orders->coefficients[k - 1];
        double *now = orders->coefficients[k];
        for (size_t j = 1; j < k; j++)
            now[j - 1] = before[j - 1] - r * before[k - j - 1];
        now[k - 1] = r;
        orders->variances[k] = orders->variances[k - 1] * (1 - r * r);
    }
}

static size_t order_at(size_t lags, size_t t) {
    return t < lags ? t : lags;
}

/* Returns E[x_t] given values [t] before it, the coefficients known. */
static double expect(const order_table *orders, size_t lags, const double *values, size_t t) {
    const size_t k = order_at(lags, t);
    double sum = 0;

    for (size_t j = 1; j <= k; j++)
        sum += orders->coefficients[k][j - 1] * values[t - j];
    return sum;
}

/* ---- Sequences ---- */

static size_t count_words(const autoregression *series, size_t positions) {
    return (series->lags + 2 * (positions + 1) + 3) / 4 * 4;
}

static double next_uniform(icl_words *stream) {
    return ((double)icl_words_next(stream) + 0.5) * 0x1p-32;
}

/* Draws whether value t is loud, from whether the one before was. */
static bool draw_jump(const autoregression *series, icl_words *stream, size_t t, bool is_loud) {
    const double word = next_uniform(stream);

    if (series->jumps == JUMPS_REGIMES)
        return t == 0 ? word < 0.5 : (word < series->jump_probability) != is_loud;
    return series->jumps == JUMPS_SHOCKS && word < series->jump_probability;
}

/* Draws r_1 … r_K and the values x_0 … x_T. */
static void draw_series(const autoregression *series, icl_words *stream, size_t positions, double *reflections,
                        double *values) {
    const size_t lags = series->lags;
    order_table orders;
    bool is_loud = false;

    for (size_t k = 0; k < lags; k++)
        reflections[k] = series->largest_reflection * (2 * next_uniform(stream) - 1);
    make_orders(reflections, lags, &orders);
    for (size_t t = 0; t <= positions; t++) {
        is_loud = draw_jump(series, stream, t, is_loud);
        const double deviation = sqrt(orders.variances[order_at(lags, t)] / series->mean_square);
        const double noise = (is_loud ? series->jump_scale : 1) * deviation * icl_words_normal(stream);
        values[t] = expect(&orders, lags, values, t) + noise;
    }
}

typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    const icl_batch_values *out;
    double *values; /* [threads][T + 1] */
} drawing;

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *all = context;
    const autoregression *series = all->task->state;
    const size_t positions = all->task->shape.positions;
    double reflections[MOST_LAGS], *values = all->values + thread * (positions + 1);
    icl_words stream = {.key = all->key, .next = (uint64_t)index * count_words(series, positions)};

    draw_series(series, &stream, positions, reflections, values);
    icl_narrow(values, positions, all->out->inputs + index * positions);
    icl_narrow(values + 1, positions, all->out->targets + index * positions);
    if (all->out->sides[0])
        icl_narrow(reflections, series->lags, all->out->sides[0] + index * series->lags);
}

static icl_status draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                       const icl_batch_values *values, icl_error *error) {
    const size_t threads = icl_parallel_threads();
    drawing all = {task, {seed, icl_stream_for(purpose, ICL_AUTOREGRESSION_STREAMS), step}, values, NULL};

    ICL_CHECK(icl_allocate(threads * (task->shape.positions + 1), sizeof *all.values, "series", &all.values, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
    icl_free(&all.values);
    return ICL_OK;
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const autoregression *series = task->state;
    const size_t positions = task->shape.positions;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, 1}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, 1}, &batch->scratch[TARGETS], error));
    batch->targets = batch->scratch[TARGETS];
    if (purpose == ICL_FOR_TRAINING)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, series->lags, 1}, &batch->scratch[REFLECTIONS], error));
    return icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, batch->scratch[REFLECTIONS], error);
}

/* ---- Reference predictors ---- */

/*
 * A predictor that saw x_0 … x_t predicts of x_(t+1):
 *
 *     zero            0
 *     last            x_t
 *     ridge:LAMBDA    a . z_t, z_t = (x_t, …, x_(t-K+1)) with 0 before the series, a = (sum_s z_s z_s^T +
 *                     LAMBDA I)^-1 sum_s z_s x_(s+1) over s < t: an autoregression of K lags by penalized least squares
 *     bayes           E[x_(t+1) | x_0 … x_t]: the mean of the predictions of POINTS laws, spread evenly over those that
 *                     the prior draws, by their posterior weights; they know how the noise jumps, not when
 *     oracle          the same of who knows the coefficients: sum_k a_k x_(t+1-k)
 *
 * The floor of the oracle's error at positions t >= K - 1 is E v_K = (1 - c^2 / 3)^K, without jumps or with them.
 */

static void read_values(const icl_task *task, const float *inputs, double *values) {
    for (size_t t = 0; t < task->shape.positions; t++)
        values[t] = (double)inputs[t];
}

static void repeat(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                   double *outputs) {
    (void)settings;
    (void)number;
    (void)work;
    read_values(task, inputs, outputs);
}

static icl_status predict_last(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                               double *outputs, icl_error *error) {
    (void)predictor;
    return icl_task_for_each(shown->task, repeat, NULL, 1, shown->count, shown->inputs, outputs, error);
}

/* ---- Ridge ---- */

/* R = (sum z z^T + LAMBDA I)^-1 and a are updated for each pair:
 *     R <- R - g g^T / (1 + z . g), g = R z with the old R;  a <- a + (y - a . z) R z with the new R. */
static void regress(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const double lambda = *(const double *)settings;
    const size_t K = ((const autoregression *)task->state)->lags;
    double *inverse = work, *line = inverse + K * K, *seen = line + K, *gain = seen + K;

    (void)number;
    memset(work, 0, (K * K + 3 * K) * sizeof *work);
    for (size_t k = 0; k < K; k++)
        inverse[k * K + k] = 1 / lambda;
    for (size_t t = 0; t < task->shape.positions; t++) {
        const double now = (double)inputs[t], miss = now - icl_dot(line, seen, K);
        double scale;
        for (size_t j = 0; j < K; j++)
            gain[j] = icl_dot(inverse + j * K, seen, K);
        scale = 1 + icl_dot(seen, gain, K);
        for (size_t j = 0; j < K; j++) {
            line[j] += miss * gain[j] / scale;
            for (size_t k = 0; k < K; k++)
                inverse[j * K + k] -= gain[j] * gain[k] / scale;
        }
        memmove(seen + 1, seen, (K - 1) * sizeof *seen);
        seen[0] = now;
        outputs[t] = icl_dot(line, seen, K);
    }
}

static const double lambdas[] = {.001, .1, 1};

static icl_status predict_by_ridge(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                   double *outputs, icl_error *error) {
    const size_t K = ((const autoregression *)shown->task->state)->lags;
    return icl_task_for_each(shown->task, regress, predictor->settings, K * K + 3 * K, shown->count, shown->inputs,
                             outputs, error);
}

/* ---- Bayes ---- */

/* The laws that stand for the prior. */
enum { POINTS = 1024 };

/* Spreads points evenly over [0, 1)^K: the first coordinate by midpoints, the others by multiples of the powers of 1/g,
 * g^K = g + 1 (a Kronecker sequence; for two coordinates the golden ratio). */
static void spread_points(const autoregression *series, order_table *laws) {
    double ratio = 2;

    for (int turn = 0; turn < 64; turn++)
        ratio = pow(1 + ratio, 1 / (double)series->lags);
    for (size_t i = 0; i < POINTS; i++) {
        double reflections[MOST_LAGS], power = 1;
        for (size_t k = 0; k < series->lags; k++) {
            const double place = k == 0 ? ((double)i + 0.5) / POINTS : ((double)i + 0.5) * power;
            reflections[k] = series->largest_reflection * (2 * (place - floor(place)) - 1);
            power /= ratio;
        }
        make_orders(reflections, series->lags, &laws[i]);
    }
}

/* Returns the log of the density of a residual under a law with this variance of quiet noise, and updates the
 * probability that the next value is loud. Constants are left out. */
static double weigh(const autoregression *series, double residual, double variance, double *loud) {
    const double q = series->jump_probability, J = series->jump_scale;
    const double exponent = residual * residual / (2 * variance);
    double quiet_log, loud_log, largest, quiet_share, loud_share;

    if (series->jumps == JUMPS_NONE)
        return -exponent - log(variance) / 2;
    quiet_log = log(1 - *loud) - exponent;
    loud_log = log(*loud / J) - exponent / (J * J);
    largest = fmax(quiet_log, loud_log);
    quiet_share = exp(quiet_log - largest);
    loud_share = exp(loud_log - largest);
    if (series->jumps == JUMPS_REGIMES) {
        const double was_loud = loud_share / (quiet_share + loud_share);
        *loud = was_loud * (1 - q) + (1 - was_loud) * q;
    }
    return largest + log(quiet_share + loud_share) - log(variance) / 2;
}

static void average(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const order_table *laws = settings;
    const autoregression *series = task->state;
    const size_t positions = task->shape.positions;
    double *logs = work, *loud = logs + POINTS, *values = loud + POINTS;

    (void)number;
    read_values(task, inputs, values);
    for (size_t i = 0; i < POINTS; i++) {
        logs[i] = 0;
        loud[i] = series->jumps == JUMPS_REGIMES ? 0.5 : series->jump_probability;
    }
    for (size_t t = 0; t < positions; t++) {
        double largest = -HUGE_VAL, total = 0, sum = 0;
        for (size_t i = 0; i < POINTS; i++) {
            const double variance = laws[i].variances[order_at(series->lags, t)] / series->mean_square;
            logs[i] += weigh(series, values[t] - expect(&laws[i], series->lags, values, t), variance, &loud[i]);
            largest = fmax(largest, logs[i]);
        }
        for (size_t i = 0; i < POINTS; i++) {
            const double weight = exp(logs[i] - largest);
            total += weight;
            sum += weight * expect(&laws[i], series->lags, values, t + 1);
        }
        outputs[t] = sum / total;
    }
}

static icl_status predict_by_bayes(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                   double *outputs, icl_error *error) {
    order_table *laws = NULL;
    icl_status status;

    (void)predictor;
    ICL_TRY(icl_allocate(POINTS, sizeof *laws, "laws", &laws, error));
    spread_points(shown->task->state, laws);
    ICL_TRY(icl_task_for_each(shown->task, average, laws, 2 * POINTS + shown->task->shape.positions, shown->count,
                              shown->inputs, outputs, error));
done:
    icl_free(&laws);
    return status;
}

/* ---- The oracle ---- */

static void follow(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                   double *outputs) {
    const size_t lags = ((const autoregression *)task->state)->lags;
    const float *known = (const float *)settings + number * lags;
    double reflections[MOST_LAGS];
    order_table orders;

    for (size_t k = 0; k < lags; k++)
        reflections[k] = (double)known[k];
    make_orders(reflections, lags, &orders);
    read_values(task, inputs, work);
    for (size_t t = 0; t < task->shape.positions; t++)
        outputs[t] = expect(&orders, lags, work, t + 1);
}

static icl_status predict_by_oracle(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                    double *outputs, icl_error *error) {
    const icl_tensor side = icl_batch_side(shown->batch, ICL_SIDE_COEFFICIENTS);
    float *reflections = NULL;
    icl_status status;

    if (!side.buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: the batch lacks the side tensor %s, as those for training do",
                        predictor->name, ICL_SIDE_COEFFICIENTS);
    ICL_TRY(icl_allocate(icl_tensor_count(&side), sizeof *reflections, "coefficients", &reflections, error));
    ICL_TRY(icl_tensor_read(side, reflections, error));
    ICL_TRY(icl_task_for_each(shown->task, follow, reflections, shown->task->shape.positions, shown->count,
                              shown->inputs, outputs, error));
done:
    icl_free(&reflections);
    return status;
}

static const icl_reference_predictor predictors[] = {{"zero", NULL, icl_task_predict_zero},
                                                     {"last", NULL, predict_last},
                                                     {"ridge:0.001", &lambdas[0], predict_by_ridge},
                                                     {"ridge:0.1", &lambdas[1], predict_by_ridge},
                                                     {"ridge:1", &lambdas[2], predict_by_ridge},
                                                     {"bayes", NULL, predict_by_bayes},
                                                     {"oracle", NULL, predict_by_oracle},
                                                     {0}};

static const icl_reference_predictor *references(const icl_task *task) {
    (void)task;
    return predictors;
}

const icl_task_family icl_autoregression = {
    .name = "autoregression",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = batch_create,
    .draw = draw,
    .references = references,
};
