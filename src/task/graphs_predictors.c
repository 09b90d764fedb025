/*
 * Reference predictors on graphs (graphs.c), all but the first with outputs of the targets' norm:
 *
 *     zero            0
 *     polynomial:K    p(L / tr L) psi with the polynomial p of degree K of least expected loss, one for all graphs:
 *                     what K rounds of messages between neighbours can do, among it any K steps of a gradient method
 *     exact           the answer, by L's eigenvectors
 *
 * With phi_j = T_j(X) psi, T_j the Chebyshev polynomials and X = (4/5) n L / tr L - I, in whose interval [-1, 1] all
 * but few eigenvalues lie, and t a graph's answer of norm 1, the loss of coefficients c is
 *
 *     f(c) = E |sum_j c_j phi_j / s - t|^2 = 2 - 2 E h.c / s,  s^2 = c^T G c,  G_ij = phi_i . phi_j,  h_j = phi_j . t
 *
 * With u = G c, half of its gradient is A c - b, A = E [(h.c / s^3) G], b = E [h / s], and half of its Hessian is
 * H = A + E [(h u^T + u h^T) / s^3 - 3 (h.c / s^5) u u^T]. Steps are -(H + mu A)^-1 (A c - b) with the least mu of
 * those tried that lessens f (Levenberg and Marquardt). Each degree begins at the optimum of the one below: from the c
 * of least E |sum_j c_j phi_j - t|^2 on, degree 7 ends in a minimum that is worse by an eighth.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "task/graphs.h"
#include "task/streams.h"

/* Where polynomials are fitted. */
enum { FIT_GRAPHS = 4096, FIT_SEED = 1, FIT_ROUNDS = 60, MOST_DEGREE = 9, MOST_TERMS = MOST_DEGREE + 1 };

typedef struct polynomial {
    size_t degree;
    double coefficients[MOST_TERMS]; /* of Chebyshev polynomials */
} polynomial;

/* ---- T_0(X) psi, T_1(X) psi, … ---- */

static size_t basis_work(const icl_task *task, size_t degree) {
    const icl_graphs *is = task->state;
    return is->nodes * is->nodes + (degree + 1) * is->nodes * is->demands;
}

/* out = X in for in [n][k]; X = factor L - I. */
static void apply(size_t n, size_t k, const double *laplacian, double factor, const double *in, double *out) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t l = 0; l < n; l++)
                sum += laplacian[i * n + l] * in[l * k + j];
            out[i * k + j] = factor * sum - in[i * k + j];
        }
}

/* The terms [degree + 1][n][k], which stand in the work of basis_work doubles. */
static const double *make_basis(const icl_task *task, size_t degree, const float *inputs, double *work) {
    const icl_graphs *is = task->state;
    const size_t n = is->nodes, k = is->demands, p = task->shape.inputs, size = n * k;
    double *laplacian = work, *terms = laplacian + n * n, trace = 0;

    icl_graphs_laplacian(task, inputs, laplacian);
    for (size_t i = 0; i < n; i++)
        trace += laplacian[i * n + i];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            terms[i * k + j] = (double)inputs[i * p + is->edges + j];
    for (size_t term = 1; term <= degree; term++) {
        double *now = terms + term * size;
        apply(n, k, laplacian, 0.8 * (double)n / trace, now - size, now);
        for (size_t i = 0; i < size && term > 1; i++)
            now[i] = 2 * now[i] - now[i - 2 * (ptrdiff_t)size];
    }
    return terms;
}

static double dot(size_t count, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- The fit ---- */

/* G and h of one graph. */
typedef struct moments {
    double gram[MOST_TERMS][MOST_TERMS], with_answer[MOST_TERMS];
} moments;

static moments measure(size_t terms, size_t size, const double *basis, const double *answer) {
    moments of = {0};

    for (size_t i = 0; i < terms; i++) {
        of.with_answer[i] = dot(size, basis + i * size, answer);
        for (size_t j = 0; j < terms; j++)
            of.gram[i][j] = dot(size, basis + i * size, basis + j * size);
    }
    return of;
}

static double square_of(size_t terms, const moments *of, const double *c) {
    double square = 0;
    for (size_t i = 0; i < terms; i++)
        square += c[i] * dot(terms, of->gram[i], c);
    return square;
}

static double loss_of(size_t terms, size_t count, const moments *of, const double *c) {
    double sum = 0;
    for (size_t g = 0; g < count; g++)
        sum += dot(terms, of[g].with_answer, c) / sqrt(square_of(terms, &of[g], c));
    return 2 - 2 * sum / (double)count;
}

typedef struct curvature {
    double positive[MOST_TERMS][MOST_TERMS], hessian[MOST_TERMS][MOST_TERMS], slope[MOST_TERMS]; /* A, H, A c - b */
} curvature;

static void add_curvature(size_t terms, const moments *of, const double *c, curvature *to) {
    const double square = square_of(terms, of, c), norm = sqrt(square), cube = square * norm;
    const double along = dot(terms, of->with_answer, c);
    double u[MOST_TERMS];

    for (size_t i = 0; i < terms; i++)
        u[i] = dot(terms, of->gram[i], c);
    for (size_t i = 0; i < terms; i++) {
        const double h = of->with_answer[i];
        to->slope[i] += along / cube * u[i] - h / norm;
        for (size_t j = 0; j < terms; j++) {
            const double a = along / cube * of->gram[i][j];
            to->positive[i][j] += a;
            to->hessian[i][j] +=
                a + (h * u[j] + u[i] * of->with_answer[j]) / cube - 3 * along / (cube * square) * u[i] * u[j];
        }
    }
}

/* -(H + mu A)^-1 (A c - b); false where the matrix is not positive. */
static bool find_step(size_t terms, const curvature *at, double mu, double *step) {
    double matrix[MOST_TERMS * MOST_TERMS];

    for (size_t i = 0; i < terms; i++) {
        step[i] = -at->slope[i];
        for (size_t j = 0; j < terms; j++)
            matrix[i * terms + j] = at->hessian[i][j] + mu * at->positive[i][j];
    }
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)terms, matrix, (int)terms) == 0 &&
           LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (int)terms, 1, matrix, (int)terms, step, (int)terms) == 0;
}

/* One step from c on, with the least of mu and its multiples by 4 that lessens f; false where none does. */
static bool improve(size_t terms, size_t count, const moments *of, double *mu, double *c) {
    const double before = loss_of(terms, count, of, c);
    curvature at = {{{0}}, {{0}}, {0}};

    for (size_t g = 0; g < count; g++)
        add_curvature(terms, &of[g], c, &at);
    while (*mu < 1e6) {
        double tried[MOST_TERMS] = {0};
        const bool is_found = find_step(terms, &at, *mu, tried);
        for (size_t i = 0; i < terms; i++)
            tried[i] += c[i];
        if (is_found && loss_of(terms, count, of, tried) < before) {
            memcpy(c, tried, terms * sizeof *c);
            return true;
        }
        *mu *= 4;
    }
    return false;
}

/* From c on. */
static void minimize(size_t terms, size_t count, const moments *of, double *c) {
    double mu = 0.0625;

    for (int round = 0; round < FIT_ROUNDS && improve(terms, count, of, &mu, c); round++)
        mu = fmax(mu / 4, 1e-6);
}

static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const icl_graphs *is = task->state;
    const size_t row = is->nodes * task->shape.inputs * sizeof(float),
                 answer = is->nodes * is->demands * sizeof(double);

    (void)predictor;
    return FIT_GRAPHS * (double)(row + answer + sizeof(moments));
}

static icl_status fit(const icl_task *task, polynomial *to, icl_error *error) {
    const icl_graphs *is = task->state;
    const icl_random_key key = {FIT_SEED, icl_stream_for(ICL_FOR_FITTING, ICL_GRAPH_STREAMS), 0};
    const size_t size = is->nodes * is->demands, terms = to->degree + 1, row = is->nodes * task->shape.inputs;
    const size_t answer_work = icl_graphs_answer_work(is->nodes);
    float *inputs = NULL;
    double *answers = NULL, *work = NULL;
    moments *all = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(FIT_GRAPHS, row * sizeof *inputs, "graphs", &inputs, error));
    ICL_TRY(icl_allocate(FIT_GRAPHS, size * sizeof *answers, "graphs", &answers, error));
    ICL_TRY(icl_allocate(FIT_GRAPHS, sizeof *all, "graphs", &all, error));
    ICL_TRY(icl_allocate(basis_work(task, to->degree), sizeof *work, "graphs", &work, error));
    ICL_TRY(icl_graphs_draw(task, key, FIT_GRAPHS, inputs, error));
    ICL_TRY(icl_graphs_for_each(task, icl_graphs_answer, NULL, answer_work, FIT_GRAPHS, inputs, answers, error));
    for (size_t g = 0; g < FIT_GRAPHS; g++)
        all[g] = measure(terms, size, make_basis(task, to->degree, inputs + g * row, work), answers + g * size);
    memset(to->coefficients, 0, sizeof to->coefficients);
    to->coefficients[0] = 1;
    for (size_t some = 2; some <= terms; some++)
        minimize(some, FIT_GRAPHS, all, to->coefficients);
done:
    icl_free(&inputs);
    icl_free(&answers);
    icl_free(&all);
    icl_free(&work);
    return status;
}

/* ---- The predictors ---- */

static void evaluate_polynomial(const icl_task *task, const void *settings, const float *inputs, double *work,
                                double *outputs) {
    const polynomial *is = settings;
    const size_t size = task->shape.positions * task->shape.outputs;
    const double *terms = make_basis(task, is->degree, inputs, work);

    memset(outputs, 0, size * sizeof *outputs);
    for (size_t term = 0; term <= is->degree; term++)
        for (size_t i = 0; i < size; i++)
            outputs[i] += is->coefficients[term] * terms[term * size + i];
    icl_graphs_normalize(task, outputs);
}

static icl_status predict_by_polynomial(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                        double *outputs, icl_error *error) {
    polynomial is = {.degree = *(const size_t *)predictor->settings};

    ICL_CHECK(fit(shown->task, &is, error));
    return icl_graphs_for_each(shown->task, evaluate_polynomial, &is, basis_work(shown->task, is.degree), shown->count,
                               shown->inputs, outputs, error);
}

static icl_status predict_exactly(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                  double *outputs, icl_error *error) {
    (void)predictor;
    return icl_graphs_for_each(shown->task, icl_graphs_answer, NULL,
                               icl_graphs_answer_work(shown->task->shape.positions), shown->count, shown->inputs,
                               outputs, error);
}

static const size_t degrees[] = {1, 3, 5, 7, MOST_DEGREE};

const icl_reference_predictor *icl_graphs_references(const icl_task *task) {
    static const icl_reference_predictor all[] = {{"zero", NULL, icl_task_predict_zero},
                                                  {"polynomial:1", &degrees[0], predict_by_polynomial, NULL, fit_bytes},
                                                  {"polynomial:3", &degrees[1], predict_by_polynomial, NULL, fit_bytes},
                                                  {"polynomial:5", &degrees[2], predict_by_polynomial, NULL, fit_bytes},
                                                  {"polynomial:7", &degrees[3], predict_by_polynomial, NULL, fit_bytes},
                                                  {"polynomial:9", &degrees[4], predict_by_polynomial, NULL, fit_bytes},
                                                  {"exact", NULL, predict_exactly},
                                                  {0}};
    (void)task;
    return all;
}
