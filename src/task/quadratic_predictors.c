/*
 * What a model of quadratic targets can be compared with: see quadratic.c.
 *
 *     zero           0
 *     ols            least squares on x: all that is linear in x
 *     step           the best step of gradient descent on the products of two coordinates
 *     quadratic-ols  least squares on these products; of all that fit the context, the least W
 *     oracle         ridge regression on them that knows sigma: the posterior mean, the floor of all learners
 *
 * Labels are linear in the features phi(x) = (x_a^2, …, sqrt(2) x_a x_b, …), with phi(x) . phi(x') = (x . x')^2, and
 * their coefficients are N(0, s^2), independent. With the rows Phi of a context the ridge prediction is
 *
 *     phi_t^T (Phi^T Phi + rho)^-1 Phi^T y = (Phi phi_t)^T (Phi Phi^T + rho)^-1 y,  rho = sigma^2 / s^2,
 *
 * and the smaller of the two matrices is taken apart; least squares is rho = 0 where its eigenvalues are not.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/eigen.h"
#include "numeric/parallel.h"
#include "task/quadratic.h"

/* An eigenvalue is 0 below this share of the largest one. */
#define NEGLIGIBLE 1e-11

/* ---- The best step ---- */

/*
 * Per kind of feature: the trace has one dimension, what is traceless (d + 2)(d - 1) / 2, and M = 1/n Phi^T Phi has the
 * mean c: 2, and d + 2 for the trace. E M^2 = (1 - 1/n) c^2 + f/n with f = 2 (d + 4)(d + 6) and (d + 2)(d + 4)(d + 6),
 * from E |x|^4 phi phi^T. A step of length a has the error c (1 - 2 a c + a^2 (E M^2 + rho c / n)) in each dimension,
 * least at a = c / (E M^2 + rho c / n).
 */
static double step_length(double c, double f, double n, double rho, double *loss) {
    const double square = (1 - 1 / n) * c * c + (f + rho * c) / n;
    *loss = c * (1 - c * c / square);
    return c / square;
}

icl_quadratic_step icl_quadratic_best_step(size_t dimension, size_t context, double mean_square_noise) {
    const double d = (double)dimension, n = (double)context, variance = 1 / (d * (d + 2));
    const double rho = mean_square_noise / variance, sixth = (d + 4) * (d + 6);
    icl_quadratic_step step = {0};
    double traceless, trace;

    step.traceless = step_length(2, 2 * sixth, n, rho, &traceless);
    step.trace = step_length(d + 2, (d + 2) * sixth, n, rho, &trace);
    step.loss = variance * ((d + 2) * (d - 1) / 2 * traceless + trace);
    step.loss_by_trace = variance * ((d + 2) * (d - 1) + trace);
    return step;
}

/* ---- One sequence ---- */

typedef struct method {
    enum { ZERO, REGRESSION, STEP } kind;
    size_t degree;    /* of the features: 1 or 2 */
    bool knows_noise; /* rho as above, not 0 */
} method;

typedef struct prediction {
    const icl_task *task;
    const method *by;
    const float *inputs;
    const double *noise; /* [count]; NULL where the method does not know it */
    size_t features, work;
    double *works, *outputs;
    icl_quadratic_step step;
} prediction;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void fill_features(const float *x, size_t d, size_t degree, double *out) {
    if (degree == 1)
        for (size_t a = 0; a < d; a++)
            out[a] = (double)x[a];
    for (size_t a = 0, k = 0; degree == 2 && a < d; a++)
        for (size_t b = a; b < d; b++)
            out[k++] = (a == b ? 1 : sqrt(2)) * (double)x[a] * (double)x[b];
}

/* phi [n + 1][g], the query's last; y [n]. work: 2 m m + 6 m doubles, m the smaller of n and g. */
static double regress(const double *phi, const double *y, size_t n, size_t g, double rho, double *work) {
    const size_t m = smaller(n, g);
    const bool by_features = g <= n;
    double *matrix = work, *vectors = matrix + m * m, *values = vectors + m * m, *right = values + m, *left = right + m;
    double sum = 0;

    memset(work, 0, (2 * m * m + 3 * m) * sizeof *work);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++)
            for (size_t k = 0; k < (by_features ? n : g); k++)
                matrix[i * m + j] += by_features ? phi[k * g + i] * phi[k * g + j] : phi[i * g + k] * phi[j * g + k];
        for (size_t k = 0; k < n && by_features; k++)
            right[i] += phi[k * g + i] * y[k];
        if (!by_features)
            right[i] = y[i];
        left[i] = by_features ? phi[n * g + i] : dot(phi + i * g, phi + n * g, g);
    }
    if (!icl_symmetric_eigen(m, matrix, values, vectors, left + m))
        return (double)NAN;
    for (size_t k = 0; k < m; k++)
        if (values[k] > NEGLIGIBLE * values[m - 1])
            sum += dot(vectors + k * m, left, m) * dot(vectors + k * m, right, m) / (values[k] + rho);
    return sum;
}

/* With features of degree 2. */
static double take_step(const prediction *all, const double *phi, const double *y, size_t n) {
    const size_t d = all->task->prior.dimension, g = all->features;
    const double *query = phi + n * g;
    double sum = 0;

    for (size_t j = 0; j < n; j++) {
        double squares[2] = {0, 0}; /* |x|^2: the features x_a^2 stand at 0, d, d + (d - 1), … */
        for (size_t a = 0, k = 0; a < d; k += d - a++) {
            squares[0] += phi[j * g + k];
            squares[1] += query[k];
        }
        const double trace = squares[0] * squares[1] / (double)d;
        sum += y[j] * (all->step.traceless * (dot(phi + j * g, query, g) - trace) + all->step.trace * trace);
    }
    return sum / (double)n;
}

static void predict_one(void *context, size_t index, size_t thread) {
    const prediction *all = context;
    const icl_task_prior *prior = &all->task->prior;
    const size_t d = prior->dimension, n = prior->context, g = all->features;
    const float *tokens = all->inputs + index * (n + 1) * (d + 1);
    double *phi = all->works + thread * all->work, *y = phi + (n + 1) * g;

    for (size_t i = 0; i <= n; i++)
        fill_features(tokens + i * (d + 1), d, all->by->degree, phi + i * g);
    for (size_t i = 0; i < n; i++)
        y[i] = (double)tokens[i * (d + 1) + d];
    if (all->by->kind == STEP) {
        all->outputs[index] = take_step(all, phi, y, n);
        return;
    }
    const double sigma = (all->noise ? all->noise[index] : 0) / ((const icl_quadratic *)all->task->state)->scale;
    all->outputs[index] = regress(phi, y, n, g, sigma * sigma, y + n);
}

/* ---- The predictors ---- */

static icl_status read_noise(const icl_shown_sequences *shown, double **noise, icl_error *error) {
    const icl_tensor levels = icl_batch_side(shown->batch, ICL_SIDE_NOISE);

    ICL_CHECK(icl_allocate(icl_tensor_count(&levels), sizeof **noise, "noise levels", noise, error));
    return icl_tensor_read_double(levels, *noise, error);
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const icl_task_prior *prior = &shown->task->prior;
    const method *by = predictor->settings;
    const size_t d = prior->dimension, n = prior->context, threads = icl_parallel_threads();
    prediction all = {.task = shown->task, .by = by, .inputs = shown->inputs, .outputs = outputs};
    double *noise = NULL;
    size_t m;
    icl_status status = ICL_OK;

    if (by->kind == ZERO) {
        memset(outputs, 0, shown->count * sizeof *outputs);
        return ICL_OK;
    }
    all.features = by->degree == 2 ? d * (d + 1) / 2 : d;
    m = smaller(n, all.features);
    all.work = (n + 1) * all.features + n + 2 * m * m + 6 * m;
    all.step = icl_quadratic_best_step(d, n, prior->mean_square_noise);
    if (by->knows_noise)
        ICL_TRY(read_noise(shown, &noise, error));
    all.noise = noise;
    ICL_TRY(icl_allocate(threads, all.work * sizeof *all.works, "predictors", &all.works, error));
    icl_parallel_for(shown->count, threads, predict_one, &all);
done:
    icl_free(&all.works);
    icl_free(&noise);
    return status;
}

const icl_reference_predictor *icl_quadratic_references(const icl_task *task) {
    static const method zero = {ZERO, 1, false}, linear = {REGRESSION, 1, false}, step = {STEP, 2, false},
                        squares = {REGRESSION, 2, false}, ridge = {REGRESSION, 2, true};
    static const icl_reference_predictor all[] = {{"zero", &zero, predict},    {"ols", &linear, predict},
                                                  {"step", &step, predict},    {"quadratic-ols", &squares, predict},
                                                  {"oracle", &ridge, predict}, {0}};

    (void)task;
    return all;
}
