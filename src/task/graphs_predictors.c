/*
 * Reference predictors on graphs (graphs.c), all but the first with outputs of the targets' norm:
 *
 *     zero            0
 *     polynomial:K    p(L / tr L) psi with the polynomial p of degree K of least expected loss, one for all graphs: what
 *                     K rounds of messages between neighbours can do, and any K steps of a gradient method among it
 *     exact           the answer, by L's eigenvectors
 *
 * With phi_j = T_j(X) psi, T_j the Chebyshev polynomials and X = n L / (2 tr L) - I, where psi is what one graph shows
 * and t its answer of norm 1, the loss of coefficients c is
 *
 *     E |sum_j c_j phi_j / s - t|^2 = 2 - 2 E h.c / s,   s^2 = c^T G c,   G_ij = phi_i . phi_j,   h_j = phi_j . t
 *
 * Its gradient vanishes where E [(h.c / s^3) G] c = E [h / s], which is solved again and again with the matrix and the
 * right side of the last c, from c = (E G)^-1 E h on.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "task/graphs.h"
#include "task/streams.h"

/* Where polynomials are fitted. */
enum { FIT_GRAPHS = 1024, FIT_SEED = 1, FIT_ROUNDS = 300, MOST_DEGREE = 9, MOST_TERMS = MOST_DEGREE + 1 };

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
        apply(n, k, laplacian, (double)n / (2 * trace), now - size, now);
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

/* One round: the sums over graphs with the weights of the last coefficients; without any all weights are 1. False
 * where the matrix is singular to rounding. */
static bool improve(size_t terms, size_t count, const moments *of, bool has_last, double *coefficients) {
    double matrix[MOST_TERMS * MOST_TERMS] = {0}, side[MOST_TERMS] = {0};

    for (size_t g = 0; g < count; g++) {
        double along = dot(terms, of[g].with_answer, coefficients), square = 0;
        for (size_t i = 0; i < terms; i++)
            square += coefficients[i] * dot(terms, of[g].gram[i], coefficients);
        const double norm = has_last ? sqrt(square) : 1;
        const double weight = has_last ? along / (square * norm) : 1;
        for (size_t i = 0; i < terms; i++) {
            side[i] += of[g].with_answer[i] / norm;
            for (size_t j = 0; j < terms; j++)
                matrix[i * terms + j] += weight * of[g].gram[i][j];
        }
    }
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)terms, matrix, (int)terms) != 0 ||
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (int)terms, 1, matrix, (int)terms, side, (int)terms) != 0)
        return false;
    memcpy(coefficients, side, terms * sizeof *side);
    return true;
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
    for (int round = 0; round <= FIT_ROUNDS; round++)
        if (!improve(terms, FIT_GRAPHS, all, round > 0, to->coefficients))
            break;
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

static icl_status predict_zero(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                               double *outputs, icl_error *error) {
    const icl_task_shape *shape = &shown->task->shape;

    (void)predictor;
    (void)error;
    memset(outputs, 0, shown->count * shape->positions * shape->outputs * sizeof *outputs);
    return ICL_OK;
}

static const size_t degrees[] = {1, 3, 5, 7, MOST_DEGREE};

const icl_reference_predictor *icl_graphs_references(const icl_task *task) {
    static const icl_reference_predictor all[] = {{"zero", NULL, predict_zero},
                                                  {"polynomial:1", &degrees[0], predict_by_polynomial},
                                                  {"polynomial:3", &degrees[1], predict_by_polynomial},
                                                  {"polynomial:5", &degrees[2], predict_by_polynomial},
                                                  {"polynomial:7", &degrees[3], predict_by_polynomial},
                                                  {"polynomial:9", &degrees[4], predict_by_polynomial},
                                                  {"exact", NULL, predict_exactly},
                                                  {0}};
    (void)task;
    return all;
}
