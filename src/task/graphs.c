/*
 * Weighted graphs on which a linear system is to be solved: Cheng, Carin, Sra 2024, "Graph Transformers Dream of
 * Electric Flow" (arXiv 2410.16699).
 *
 *     n = task.nodes nodes, m edges, B [n, m] the weighted incidence matrix: column e holds w_e at one end of edge e
 *     and -w_e at the other, w_e = exp(u_e), u_e ~ U(-1, 1);  L = B B^T, the Laplacian of conductances w_e^2
 *
 *     task.graph = skip-links   a circle with a link from node i to i + s, s one of task.skips: m = 2 n
 *                  complete     m = n (n - 1) / 2
 *
 * Nodes and edges stand in random order. Every node has k = task.demands demands psi ~ N(0, 1); with task.centred the
 * mean of each over the nodes is subtracted, so that as much flows out of the graph as into it. Position i of n holds
 * row i of B and the demands there, m + k numbers. Its k targets are row i of
 *
 *     task.answer = electric   L^+ psi, the potentials of the electric flow
 *                   resistive  (L^+)^(1/2) psi, coordinates whose squared distances are effective resistances
 *                   heat       exp(-L / 2) psi
 *
 * divided by the root mean square of a row. So the squares of the n k targets of a graph sum to n, and the loss, the
 * mean over positions of the squared error, is the squared distance |O / |O| - T / |T||^2 if the output has that norm.
 *
 * The host draws. Graph s owns the words s (1 + 2 m + n + n k) … of the stream: one for its skip, m weights, n and m
 * for the orders of nodes and edges, n k demands. Targets are made from the rounded inputs, in double precision by L's
 * eigenvectors, and rounded once.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/random.h"
#include "iclab/reference_predictor.h"
#include "numeric/matrix.h"
#include "task/draws.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/task.h"

/* task.graph, task.answer. */
typedef enum graph_kind { SKIP_LINKS = 0, COMPLETE } graph_kind;
typedef enum graph_answer { ELECTRIC = 0, RESISTIVE, HEAT } graph_answer;

/* task->state. */
typedef struct graphs {
    size_t nodes, edges, demands;  /* n, m, k */
    size_t skips[ICL_MAX_CHOICES]; /* equally likely; none if graphs are complete */
    size_t skip_count;
    graph_kind graph;
    graph_answer answer;
    bool centred; /* the demands on a graph sum to 0 */
} graphs;

#define LEAST_NODES  3
#define MOST_NODES   64
#define MOST_DEMANDS 64

/* ---- The recipe ---- */

typedef struct skip_settings {
    const char *skips;
} skip_settings;

#define KEY(field) ICL_KEY("task", graphs, field)

static const icl_recipe_key skip_rows[] = {
    {ICL_KEY("task", skip_settings, skips), "2,4,6,8", .help = "how far a link may reach along the circle: S1,S2,..."},
};
static const icl_recipe_group skip_keys = ICL_RECIPE_GROUP(skip_rows);
static const icl_recipe_group *const skip_groups[] = {&skip_keys, NULL};
static const icl_choice graph_words[] = {{"skip-links", SKIP_LINKS, skip_groups}, {"complete", COMPLETE}, {0}};
static const icl_choice answer_words[] = {{"electric", ELECTRIC}, {"resistive", RESISTIVE}, {"heat", HEAT}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(graph), "skip-links", .choices = graph_words,
     .help = "which edges there are: a circle with a link from each node, or all"},
    {KEY(nodes), "10", LEAST_NODES, MOST_NODES, .help = "nodes n"},
    {KEY(demands), "10", 1, MOST_DEMANDS, .help = "demands k on each node"},
    {KEY(centred), "false", .help = "a graph's demands are less their mean"},
    {KEY(answer), "electric", .choices = answer_words,
     .help = "what of the Laplacian L is applied to the demands: L^+, its root, or exp(-L/2)"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_graphs_family_keys[] = {&own_keys, NULL};

static icl_status read_skips(const icl_recipe *recipe, graphs *state, icl_error *error) {
    skip_settings settings;
    double skips[ICL_MAX_CHOICES];

    icl_recipe_read(recipe, &skip_keys, &settings);
    if (!icl_parse_numbers(settings.skips, ICL_MAX_CHOICES, skips, &state->skip_count) || state->skip_count == 0 ||
        state->skip_count > ICL_MAX_CHOICES)
        return icl_recipe_reject(recipe, ICL_KEY_NAME("task", skip_settings, skips), error,
                                 "1 to %d numbers, separated by commas", ICL_MAX_CHOICES);
    for (size_t i = 0; i < state->skip_count; i++) {
        if (!(skips[i] >= 2 && skips[i] + 2 <= (double)state->nodes) || skips[i] != floor(skips[i]))
            return icl_recipe_reject(recipe, ICL_KEY_NAME("task", skip_settings, skips), error,
                                     "whole numbers from 2 to task.nodes - 2 = %zu", state->nodes - 2);
        state->skips[i] = (size_t)skips[i];
    }
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    graphs *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "graphs", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, state);
    if (state->graph == SKIP_LINKS)
        ICL_CHECK(read_skips(recipe, state, error));
    state->edges = state->skip_count > 0 ? 2 * state->nodes : state->nodes * (state->nodes - 1) / 2;
    task->shape = (icl_task_shape){.positions = state->nodes,
                                   .inputs = state->edges + state->demands,
                                   .outputs = state->demands,
                                   .scored = state->nodes,
                                   .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

/* ---- One graph ---- */

static void draw_order(icl_random_key key, uint64_t word, size_t count, uint32_t *order) {
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i + 1 < count; i++) { /* Fisher-Yates */
        const size_t j = i + icl_draw_below(key, word + i, count - i);
        const uint32_t taken = order[j];
        order[j] = order[i];
        order[i] = taken;
    }
}

/* Finds the ends of edge e, before nodes are put into random order. */
static void find_ends(const graphs *state, size_t skip, size_t e, size_t ends[2]) {
    const size_t n = state->nodes;

    if (state->skip_count > 0) {
        ends[0] = e % n;
        ends[1] = (e + (e < n ? 1 : skip)) % n;
        return;
    }
    for (ends[0] = 0; e >= n - 1 - ends[0]; ends[0]++)
        e -= n - 1 - ends[0];
    ends[1] = ends[0] + 1 + e;
}

typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    uint32_t *orders; /* the orders of nodes and edges, for each thread */
    float *inputs;
} drawing;

static void draw_demands(const drawing *picture, uint64_t word, float *inputs) {
    const graphs *state = picture->task->state;
    const size_t p = picture->task->shape.inputs, k = state->demands;

    for (size_t j = 0; j < k; j++) {
        double sum = 0;
        for (size_t i = 0; i < state->nodes; i++) {
            const float psi = icl_normal_from_word(icl_random_word(picture->key, word + i * k + j));
            inputs[i * p + state->edges + j] = psi;
            sum += (double)psi;
        }
        for (size_t i = 0; i < state->nodes && state->centred; i++) {
            float *psi = &inputs[i * p + state->edges + j];
            *psi = (float)((double)*psi - sum / (double)state->nodes);
        }
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const graphs *state = picture->task->state;
    const size_t n = state->nodes, m = state->edges, p = picture->task->shape.inputs;
    const uint64_t word = (uint64_t)index * (1 + 2 * m + n + n * state->demands), weights = word + 1;
    const uint64_t node_words = weights + m, edge_words = node_words + n;
    uint32_t *node_of = picture->orders + thread * (n + m), *edge_of = node_of + n;
    float *inputs = picture->inputs + index * n * p;
    const size_t skip = state->skip_count > 0 ? state->skips[icl_draw_below(picture->key, word, state->skip_count)] : 0;

    memset(inputs, 0, n * p * sizeof *inputs);
    draw_order(picture->key, node_words, n, node_of);
    draw_order(picture->key, edge_words, m, edge_of);
    for (size_t e = 0; e < m; e++) {
        const double u = ((double)icl_random_word(picture->key, weights + e) + 0.5) * 0x1p-32;
        const float weight = (float)icl_exponential(2 * u - 1);
        size_t ends[2];
        find_ends(state, skip, e, ends);
        inputs[node_of[ends[0]] * p + edge_of[e]] = weight;
        inputs[node_of[ends[1]] * p + edge_of[e]] = -weight;
    }
    draw_demands(picture, edge_words + m, inputs);
}

/* Draws graphs 0 … count - 1 of the key: inputs [count][n][m + k]. */
static icl_status draw(const icl_task *task, icl_random_key key, size_t count, float *inputs, icl_error *error) {
    const graphs *state = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {task, key, NULL, inputs};

    ICL_CHECK(icl_allocate(threads, (state->nodes + state->edges) * sizeof *all.orders, "graphs", &all.orders, error));
    icl_parallel_for(count, threads, draw_one, &all);
    icl_free(&all.orders);
    return ICL_OK;
}

/* ---- The answer of a graph ---- */

/* Computes L = B B^T [n][n] from the inputs of one graph. */
static void make_laplacian(const icl_task *task, const float *inputs, double *laplacian) {
    const graphs *state = task->state;
    const size_t n = state->nodes, p = task->shape.inputs;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t e = 0; e < state->edges; e++)
                sum += (double)inputs[i * p + e] * (double)inputs[j * p + e];
            laplacian[i * n + j] = laplacian[j * n + i] = sum;
        }
}

/* Scales values [n][k] so that the sum of their squares is n; zeros stay. */
static void normalize(const icl_task *task, double *values) {
    const graphs *state = task->state;
    const size_t count = state->nodes * state->demands;
    double squares = 0;

    for (size_t i = 0; i < count; i++)
        squares += values[i] * values[i];
    for (size_t i = 0; i < count && squares > 0; i++)
        values[i] *= sqrt((double)state->nodes / squares);
}

/* Returns the answer's factor of an eigenvector. In ascending order the first eigenvalue is 0, because graphs are
 * connected, and the others are not. */
static double answer_of(graph_answer answer, size_t rank, double eigenvalue) {
    if (answer == HEAT)
        return exp(-eigenvalue / 2);
    if (rank == 0)
        return 0;
    return answer == ELECTRIC ? 1 / eigenvalue : 1 / sqrt(eigenvalue);
}

static size_t answer_work(size_t nodes) {
    return 2 * nodes * nodes + 4 * nodes;
}

/* Computes the answer of one graph from its inputs; NaN if LAPACK finds no eigenvectors. */
static void answer_graph(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                         double *outputs) {
    const graphs *state = task->state;
    const size_t n = state->nodes, k = state->demands, p = task->shape.inputs;
    double *laplacian = work, *vectors = laplacian + n * n, *eigenvalues = vectors + n * n, *rest = eigenvalues + n;

    (void)settings;
    (void)number;
    make_laplacian(task, inputs, laplacian);
    const bool is_found = icl_symmetric_eigen(n, laplacian, eigenvalues, vectors, rest);
    for (size_t i = 0; i < n * k; i++)
        outputs[i] = is_found ? 0 : (double)NAN;
    for (size_t r = 0; r < n && is_found; r++)
        for (size_t j = 0; j < k; j++) {
            const double *vector = vectors + r * n;
            double share = 0;
            for (size_t i = 0; i < n; i++)
                share += vector[i] * (double)inputs[i * p + state->edges + j];
            share *= answer_of(state->answer, r, eigenvalues[r]);
            for (size_t i = 0; i < n; i++)
                outputs[i * k + j] += share * vector[i];
        }
    normalize(task, outputs);
}

/* ---- Batches ---- */

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_GRAPH_STREAMS), step};
    const size_t targets = values->size * task->shape.scored * task->shape.outputs;
    double *exact = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(targets, sizeof *exact, "graphs", &exact, error));
    ICL_TRY(draw(task, key, values->size, values->inputs, error));
    ICL_TRY(icl_task_for_each(task, answer_graph, NULL, answer_work(task->shape.positions), values->size,
                              values->inputs, exact, error));
    icl_narrow(exact, targets, values->targets);
done:
    icl_free(&exact);
    return status;
}

/* ---- Reference predictors ---- */

/*
 * All but the first have outputs of the targets' norm:
 *
 *     zero            0
 *     polynomial:K    p(L / tr L) psi with the polynomial p of degree K of least expected loss, one for all graphs:
 *                     the best of K rounds of messages between neighbours, so also of K steps of a gradient method
 *     exact           the answer, by L's eigenvectors
 *
 * With phi_j = T_j(X) psi, T_j the Chebyshev polynomials and X = (4/5) n L / tr L - I, nearly all of whose eigenvalues
 * lie in [-1, 1], and t a graph's answer of norm 1, the loss of coefficients c is
 *
 *     f(c) = E |sum_j c_j phi_j / s - t|^2 = 2 - 2 E h.c / s,  s^2 = c^T G c,  G_ij = phi_i . phi_j,  h_j = phi_j . t
 *
 * With u = G c, half of its gradient is A c - b, A = E [(h.c / s^3) G], b = E [h / s], and half of its Hessian is
 * H = A + E [(h u^T + u h^T) / s^3 - 3 (h.c / s^5) u u^T]. Steps are -(H + mu A)^-1 (A c - b) with the least mu of
 * those tried that lessens f (Levenberg and Marquardt). Each degree begins at the optimum of the one below: if it
 * begins at the c of least E |sum_j c_j phi_j - t|^2, degree 7 ends in a minimum that is worse by an eighth.
 */

/* The fit of polynomials: its graphs, seed and most rounds; the largest degree. */
enum { FIT_GRAPHS = 4096, FIT_SEED = 1, FIT_ROUNDS = 60, MOST_DEGREE = 9, MOST_TERMS = MOST_DEGREE + 1 };

typedef struct polynomial {
    size_t degree;
    double coefficients[MOST_TERMS]; /* of Chebyshev polynomials */
} polynomial;

/* ---- T_0(X) psi, T_1(X) psi, … ---- */

static size_t basis_work(const icl_task *task, size_t degree) {
    const graphs *state = task->state;
    return state->nodes * state->nodes + (degree + 1) * state->nodes * state->demands;
}

/* Sets out = X in for in [n][k], with X = factor L - I. */
static void apply(size_t n, size_t k, const double *laplacian, double factor, const double *in, double *out) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++) {
            double sum = 0;
            for (size_t l = 0; l < n; l++)
                sum += laplacian[i * n + l] * in[l * k + j];
            out[i * k + j] = factor * sum - in[i * k + j];
        }
}

/* Computes the terms [degree + 1][n][k] in work, which holds basis_work doubles. */
static const double *make_basis(const icl_task *task, size_t degree, const float *inputs, double *work) {
    const graphs *state = task->state;
    const size_t n = state->nodes, k = state->demands, p = task->shape.inputs, size = n * k;
    double *laplacian = work, *terms = laplacian + n * n, trace = 0;

    make_laplacian(task, inputs, laplacian);
    for (size_t i = 0; i < n; i++)
        trace += laplacian[i * n + i];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            terms[i * k + j] = (double)inputs[i * p + state->edges + j];
    for (size_t term = 1; term <= degree; term++) {
        double *now = terms + term * size;
        apply(n, k, laplacian, 0.8 * (double)n / trace, now - size, now);
        for (size_t i = 0; i < size && term > 1; i++)
            now[i] = 2 * now[i] - now[i - 2 * (ptrdiff_t)size];
    }
    return terms;
}

/* ---- The fit ---- */

/* G and h of one graph. */
typedef struct moments {
    double gram[MOST_TERMS][MOST_TERMS], with_answer[MOST_TERMS];
} moments;

static moments measure(size_t terms, size_t size, const double *basis, const double *answer) {
    moments graph = {0};

    for (size_t i = 0; i < terms; i++) {
        graph.with_answer[i] = icl_dot(basis + i * size, answer, size);
        for (size_t j = 0; j < terms; j++)
            graph.gram[i][j] = icl_dot(basis + i * size, basis + j * size, size);
    }
    return graph;
}

static double square_of(size_t terms, const moments *graph, const double *c) {
    double square = 0;
    for (size_t i = 0; i < terms; i++)
        square += c[i] * icl_dot(graph->gram[i], c, terms);
    return square;
}

static double loss_of(size_t terms, size_t count, const moments *graph, const double *c) {
    double sum = 0;
    for (size_t g = 0; g < count; g++)
        sum += icl_dot(graph[g].with_answer, c, terms) / sqrt(square_of(terms, &graph[g], c));
    return 2 - 2 * sum / (double)count;
}

typedef struct curvature {
    double positive[MOST_TERMS][MOST_TERMS], hessian[MOST_TERMS][MOST_TERMS], slope[MOST_TERMS]; /* A, H, A c - b */
} curvature;

static void add_curvature(size_t terms, const moments *graph, const double *c, curvature *to) {
    const double square = square_of(terms, graph, c), norm = sqrt(square), cube = square * norm;
    const double along = icl_dot(graph->with_answer, c, terms);
    double u[MOST_TERMS];

    for (size_t i = 0; i < terms; i++)
        u[i] = icl_dot(graph->gram[i], c, terms);
    for (size_t i = 0; i < terms; i++) {
        const double h = graph->with_answer[i];
        to->slope[i] += along / cube * u[i] - h / norm;
        for (size_t j = 0; j < terms; j++) {
            const double a = along / cube * graph->gram[i][j];
            to->positive[i][j] += a;
            to->hessian[i][j] +=
                a + (h * u[j] + u[i] * graph->with_answer[j]) / cube - 3 * along / (cube * square) * u[i] * u[j];
        }
    }
}

/* Sets step to -(H + mu A)^-1 (A c - b); returns false if the matrix is not positive. */
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

/* Takes one step from c, with the least of mu and its multiples by 4 that lessens f; returns false if none does. */
static bool improve(size_t terms, size_t count, const moments *graph, double *mu, double *c) {
    const double before = loss_of(terms, count, graph, c);
    curvature at = {{{0}}, {{0}}, {0}};

    for (size_t g = 0; g < count; g++)
        add_curvature(terms, &graph[g], c, &at);
    while (*mu < 1e6) {
        double tried[MOST_TERMS] = {0};
        const bool is_found = find_step(terms, &at, *mu, tried);
        for (size_t i = 0; i < terms; i++)
            tried[i] += c[i];
        if (is_found && loss_of(terms, count, graph, tried) < before) {
            memcpy(c, tried, terms * sizeof *c);
            return true;
        }
        *mu *= 4;
    }
    return false;
}

/* Minimizes f, beginning at c. */
static void minimize(size_t terms, size_t count, const moments *graph, double *c) {
    double mu = 0.0625;

    for (int round = 0; round < FIT_ROUNDS && improve(terms, count, graph, &mu, c); round++)
        mu = fmax(mu / 4, 1e-6);
}

static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const graphs *state = task->state;
    const size_t row = state->nodes * task->shape.inputs * sizeof(float),
                 answer = state->nodes * state->demands * sizeof(double);

    (void)predictor;
    return FIT_GRAPHS * (double)(row + answer + sizeof(moments));
}

static icl_status fit(const icl_task *task, polynomial *to, icl_error *error) {
    const graphs *state = task->state;
    const icl_random_key key = {FIT_SEED, icl_stream_for(ICL_FOR_FITTING, ICL_GRAPH_STREAMS), 0};
    const size_t size = state->nodes * state->demands, terms = to->degree + 1, row = state->nodes * task->shape.inputs;
    const size_t answer_size = answer_work(state->nodes);
    float *inputs = NULL;
    double *answers = NULL, *work = NULL;
    moments *sums = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(FIT_GRAPHS, row * sizeof *inputs, "graphs", &inputs, error));
    ICL_TRY(icl_allocate(FIT_GRAPHS, size * sizeof *answers, "graphs", &answers, error));
    ICL_TRY(icl_allocate(FIT_GRAPHS, sizeof *sums, "graphs", &sums, error));
    ICL_TRY(icl_allocate(basis_work(task, to->degree), sizeof *work, "graphs", &work, error));
    ICL_TRY(draw(task, key, FIT_GRAPHS, inputs, error));
    ICL_TRY(icl_task_for_each(task, answer_graph, NULL, answer_size, FIT_GRAPHS, inputs, answers, error));
    for (size_t g = 0; g < FIT_GRAPHS; g++)
        sums[g] = measure(terms, size, make_basis(task, to->degree, inputs + g * row, work), answers + g * size);
    memset(to->coefficients, 0, sizeof to->coefficients);
    to->coefficients[0] = 1;
    for (size_t some = 2; some <= terms; some++)
        minimize(some, FIT_GRAPHS, sums, to->coefficients);
done:
    icl_free(&inputs);
    icl_free(&answers);
    icl_free(&sums);
    icl_free(&work);
    return status;
}

/* ---- The predictors ---- */

static void evaluate_polynomial(const icl_task *task, const void *settings, size_t number, const float *inputs,
                                double *work, double *outputs) {
    const polynomial *fitted = settings;
    const size_t size = task->shape.positions * task->shape.outputs;
    const double *terms = make_basis(task, fitted->degree, inputs, work);

    (void)number;
    memset(outputs, 0, size * sizeof *outputs);
    for (size_t term = 0; term <= fitted->degree; term++)
        for (size_t i = 0; i < size; i++)
            outputs[i] += fitted->coefficients[term] * terms[term * size + i];
    normalize(task, outputs);
}

static icl_status predict_by_polynomial(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                        double *outputs, icl_error *error) {
    polynomial fitted = {.degree = *(const size_t *)predictor->settings};

    ICL_CHECK(fit(shown->task, &fitted, error));
    return icl_task_for_each(shown->task, evaluate_polynomial, &fitted, basis_work(shown->task, fitted.degree),
                             shown->count, shown->inputs, outputs, error);
}

static icl_status predict_exactly(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                  double *outputs, icl_error *error) {
    (void)predictor;
    return icl_task_for_each(shown->task, answer_graph, NULL, answer_work(shown->task->shape.positions), shown->count,
                             shown->inputs, outputs, error);
}

static const size_t degrees[] = {1, 3, 5, 7, MOST_DEGREE};

static const icl_reference_predictor *references(const icl_task *task) {
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

const icl_task_family icl_graphs_family = {
    .name = "graphs",
    .create = create,
    .destroy = icl_task_free_state,
    .draw = draw_batch,
    .references = references,
};
