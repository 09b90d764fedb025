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
 * Nodes and edges stand in random order. k = task.demands demands psi ~ N(0, 1) stand on every node; with task.centred
 * each is less its mean over the nodes, so that as much flows out of the graph as into it. Position i of n holds row i
 * of B and the demands there, m + k numbers. Its k targets are those of row i of
 *
 *     task.answer = electric   L^+ psi, the potentials of the electric flow
 *                   resistive  (L^+)^(1/2) psi, coordinates whose squared distances are effective resistances
 *                   heat       exp(-L / 2) psi
 *
 * over the root mean square of a row: the squares of the n k targets of a graph sum to n, so that the loss, the mean
 * over positions of the squared error, is the squared distance |O / |O| - T / |T||^2 of an output of that norm.
 *
 * The host draws. Graph s owns the words s (1 + 2 m + n + n k) … of the stream: one for its skip, m weights, n and m
 * for the orders of nodes and edges, n k demands. Targets are made of the inputs, as they are rounded, in double
 * precision by L's eigenvectors, and rounded once.
 */
#include "task/graphs.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "numeric/eigen.h"
#include "numeric/parallel.h"
#include "task/draws.h"
#include "task/elementary.h"
#include "task/numbers.h"
#include "task/streams.h"

#define LEAST_NODES  3
#define MOST_NODES   64
#define MOST_DEMANDS 64

/* ---- The recipe ---- */

static const icl_recipe_key skip_rows[] = {
    {"task", "skips", ICL_KEY_TEXT, "2,4,6,8", .help = "how far a link may reach along the circle: S1,S2,..."},
};
static const icl_recipe_group skip_keys = ICL_RECIPE_GROUP(skip_rows);
static const icl_recipe_group *const skip_groups[] = {&skip_keys, NULL};
static const icl_choice graphs[] = {{"skip-links", 0, skip_groups}, {"complete", 1}, {0}};
static const icl_choice answers[] = {
    {"electric", ICL_GRAPH_ELECTRIC}, {"resistive", ICL_GRAPH_RESISTIVE}, {"heat", ICL_GRAPH_HEAT}, {0}};

static const icl_recipe_key own_rows[] = {
    {"task", "graph", ICL_KEY_WORD, "skip-links", .choices = graphs,
     .help = "which edges there are: a circle with a link from each node, or all"},
    {"task", "nodes", ICL_KEY_COUNT, "10", LEAST_NODES, MOST_NODES, .help = "nodes n"},
    {"task", "demands", ICL_KEY_COUNT, "10", 1, MOST_DEMANDS, .help = "demands k on each node"},
    {"task", "centred", ICL_KEY_FLAG, "false", .help = "a graph's demands are less their mean"},
    {"task", "answer", ICL_KEY_WORD, "electric", .choices = answers,
     .help = "what of the Laplacian L is applied to the demands: L^+, its root, or exp(-L/2)"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_graphs_family_keys[] = {&own_keys, NULL};

static icl_status read_skips(const icl_recipe *recipe, icl_graphs *is, icl_error *error) {
    double skips[ICL_MAX_CHOICES];

    if (!icl_parse_numbers(icl_recipe_text(recipe, "task", "skips"), ICL_MAX_CHOICES, skips, &is->skip_count) ||
        is->skip_count == 0 || is->skip_count > ICL_MAX_CHOICES)
        return icl_recipe_reject(recipe, "task", "skips", error, "1 to %d numbers, separated by commas",
                                 ICL_MAX_CHOICES);
    for (size_t i = 0; i < is->skip_count; i++) {
        if (!(skips[i] >= 2 && skips[i] + 2 <= (double)is->nodes) || skips[i] != floor(skips[i]))
            return icl_recipe_reject(recipe, "task", "skips", error, "whole numbers from 2 to task.nodes - 2 = %zu",
                                     is->nodes - 2);
        is->skips[i] = (size_t)skips[i];
    }
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_graphs *is = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *is, "graphs", &is, error));
    task->state = is;
    is->nodes = (size_t)icl_recipe_count(recipe, "task", "nodes");
    is->demands = (size_t)icl_recipe_count(recipe, "task", "demands");
    is->answer = (icl_graph_answer)icl_recipe_choice(recipe, "task", "answer");
    is->is_centred = icl_recipe_flag(recipe, "task", "centred");
    if (icl_recipe_choice(recipe, "task", "graph") == 0)
        ICL_CHECK(read_skips(recipe, is, error));
    is->edges = is->skip_count > 0 ? 2 * is->nodes : is->nodes * (is->nodes - 1) / 2;
    task->shape = (icl_task_shape){.positions = is->nodes,
                                   .inputs = is->edges + is->demands,
                                   .outputs = is->demands,
                                   .scored = is->nodes,
                                   .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

/* ---- Many graphs ---- */

typedef struct loop {
    const icl_task *task;
    icl_graphs_body *body;
    const void *settings;
    size_t work;
    const float *inputs;
    double *works, *outputs;
} loop;

static void do_one(void *context, size_t index, size_t thread) {
    const loop *all = context;
    const icl_task_shape *shape = &all->task->shape;

    all->body(all->task, all->settings, all->inputs + index * shape->positions * shape->inputs,
              all->works + thread * all->work, all->outputs + index * shape->positions * shape->outputs);
}

icl_status icl_graphs_for_each(const icl_task *task, icl_graphs_body *body, const void *settings, size_t work,
                               size_t count, const float *inputs, double *outputs, icl_error *error) {
    const size_t threads = icl_parallel_threads();
    loop all = {task, body, settings, work, inputs, NULL, outputs};

    ICL_CHECK(icl_allocate(threads, (work + 1) * sizeof *all.works, "graphs", &all.works, error));
    icl_parallel_for(count, threads, do_one, &all);
    icl_free(&all.works);
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

/* The ends of edge e, before nodes are put into their order. */
static void find_ends(const icl_graphs *is, size_t skip, size_t e, size_t ends[2]) {
    const size_t n = is->nodes;

    if (is->skip_count > 0) {
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
    uint32_t *orders; /* of nodes and edges, for each thread */
    float *inputs;
} drawing;

static void draw_demands(const drawing *all, uint64_t word, float *inputs) {
    const icl_graphs *is = all->task->state;
    const size_t p = all->task->shape.inputs, k = is->demands;

    for (size_t j = 0; j < k; j++) {
        double sum = 0;
        for (size_t i = 0; i < is->nodes; i++) {
            const float psi = icl_normal_from_word(icl_random_word(all->key, word + i * k + j));
            inputs[i * p + is->edges + j] = psi;
            sum += (double)psi;
        }
        for (size_t i = 0; i < is->nodes && is->is_centred; i++) {
            float *psi = &inputs[i * p + is->edges + j];
            *psi = (float)((double)*psi - sum / (double)is->nodes);
        }
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *all = context;
    const icl_graphs *is = all->task->state;
    const size_t n = is->nodes, m = is->edges, p = all->task->shape.inputs;
    const uint64_t word = (uint64_t)index * (1 + 2 * m + n + n * is->demands), weights = word + 1;
    const uint64_t node_words = weights + m, edge_words = node_words + n;
    uint32_t *node_of = all->orders + thread * (n + m), *edge_of = node_of + n;
    float *inputs = all->inputs + index * n * p;
    const size_t skip = is->skip_count > 0 ? is->skips[icl_draw_below(all->key, word, is->skip_count)] : 0;

    memset(inputs, 0, n * p * sizeof *inputs);
    draw_order(all->key, node_words, n, node_of);
    draw_order(all->key, edge_words, m, edge_of);
    for (size_t e = 0; e < m; e++) {
        const double u = ((double)icl_random_word(all->key, weights + e) + 0.5) * 0x1p-32;
        const float weight = (float)icl_exponential(2 * u - 1);
        size_t ends[2];
        find_ends(is, skip, e, ends);
        inputs[node_of[ends[0]] * p + edge_of[e]] = weight;
        inputs[node_of[ends[1]] * p + edge_of[e]] = -weight;
    }
    draw_demands(all, edge_words + m, inputs);
}

icl_status icl_graphs_draw(const icl_task *task, icl_random_key key, size_t count, float *inputs, icl_error *error) {
    const icl_graphs *is = task->state;
    const size_t threads = icl_parallel_threads();
    drawing all = {task, key, NULL, inputs};

    ICL_CHECK(icl_allocate(threads, (is->nodes + is->edges) * sizeof *all.orders, "graphs", &all.orders, error));
    icl_parallel_for(count, threads, draw_one, &all);
    icl_free(&all.orders);
    return ICL_OK;
}

/* ---- Its answer ---- */

void icl_graphs_laplacian(const icl_task *task, const float *inputs, double *laplacian) {
    const icl_graphs *is = task->state;
    const size_t n = is->nodes, p = task->shape.inputs;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t e = 0; e < is->edges; e++)
                sum += (double)inputs[i * p + e] * (double)inputs[j * p + e];
            laplacian[i * n + j] = laplacian[j * n + i] = sum;
        }
}

void icl_graphs_normalize(const icl_task *task, double *values) {
    const icl_graphs *is = task->state;
    const size_t count = is->nodes * is->demands;
    double squares = 0;

    for (size_t i = 0; i < count; i++)
        squares += values[i] * values[i];
    for (size_t i = 0; i < count && squares > 0; i++)
        values[i] *= sqrt((double)is->nodes / squares);
}

/* Of the eigenvalues in ascending order the first is 0, because graphs are connected, and the others are not. */
static double answer_of(icl_graph_answer answer, size_t rank, double eigenvalue) {
    if (answer == ICL_GRAPH_HEAT)
        return exp(-eigenvalue / 2);
    if (rank == 0)
        return 0;
    return answer == ICL_GRAPH_ELECTRIC ? 1 / eigenvalue : 1 / sqrt(eigenvalue);
}

size_t icl_graphs_answer_work(size_t nodes) {
    return 2 * nodes * nodes + 4 * nodes;
}

void icl_graphs_answer(const icl_task *task, const void *settings, const float *inputs, double *work, double *outputs) {
    const icl_graphs *is = task->state;
    const size_t n = is->nodes, k = is->demands, p = task->shape.inputs;
    double *laplacian = work, *vectors = laplacian + n * n, *eigenvalues = vectors + n * n, *rest = eigenvalues + n;

    (void)settings;
    icl_graphs_laplacian(task, inputs, laplacian);
    const bool is_found = icl_symmetric_eigen(n, laplacian, eigenvalues, vectors, rest);
    for (size_t i = 0; i < n * k; i++)
        outputs[i] = is_found ? 0 : (double)NAN;
    for (size_t r = 0; r < n && is_found; r++)
        for (size_t j = 0; j < k; j++) {
            const double *vector = vectors + r * n;
            double share = 0;
            for (size_t i = 0; i < n; i++)
                share += vector[i] * (double)inputs[i * p + is->edges + j];
            share *= answer_of(is->answer, r, eigenvalues[r]);
            for (size_t i = 0; i < n; i++)
                outputs[i * k + j] += share * vector[i];
        }
    icl_graphs_normalize(task, outputs);
}

/* ---- Batches ---- */

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_GRAPH_STREAMS), step};
    const size_t targets = icl_tensor_count(&batch->targets);
    float *inputs = NULL, *rounded = NULL;
    double *exact = NULL;
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(icl_allocate(icl_tensor_count(&batch->inputs), sizeof *inputs, "graphs", &inputs, error));
    ICL_TRY(icl_allocate(targets, sizeof *rounded, "graphs", &rounded, error));
    ICL_TRY(icl_allocate(targets, sizeof *exact, "graphs", &exact, error));
    ICL_TRY(icl_graphs_draw(task, key, batch->size, inputs, error));
    ICL_TRY(icl_graphs_for_each(task, icl_graphs_answer, NULL, icl_graphs_answer_work(task->shape.positions),
                                batch->size, inputs, exact, error));
    for (size_t i = 0; i < targets; i++)
        rounded[i] = (float)exact[i];
    ICL_TRY(icl_tensor_write(batch->inputs, inputs, error));
    ICL_TRY(icl_tensor_write(batch->targets, rounded, error));
done:
    icl_free(&inputs);
    icl_free(&rounded);
    icl_free(&exact);
    return status;
}

const icl_task_family icl_graphs_family = {
    .name = "graphs",
    .create = create,
    .destroy = destroy,
    .sample = sample,
    .draws_on_host = true,
    .references = icl_graphs_references,
};
