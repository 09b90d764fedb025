/*
 * model.family = graph: the linear transformer on a graph's incidence matrix of Cheng, Carin, Sra 2024 (arXiv
 * 2410.16699), for tasks that show a row of B [n, m] and k demands at each of n positions and ask for k numbers there
 * (task.family = graphs).
 *
 * A token has m + 2 k numbers: its row of B, its demands psi, and k numbers phi, which begin as 0 and are the output.
 * Layer l of L, with Z [n, m + 2 k] and no mask:
 *
 *     model.maps = full      Z <- Z + (1/n) (Z Q_l) (Z K_l)^T Z P_l + Z R_l, matrices [m + 2 k, m + 2 k]
 *     model.maps = demands   Y <- Y + (1/n) (Q_l B) (K_l B)^T Y P_l + Y R_l for Y = [psi phi], and B stays: Q and K are
 *                            numbers, P and R [2 k, 2 k], whatever the number and the order of the edges
 *
 * after which B and phi are divided by their Frobenius norms, as B is before the first layer. The output is
 * n^(1/2) phi, whose squares sum to n as those of the targets do. Layers of the second form multiply the demands by a
 * polynomial of L = B B^T, of degree 1 for each layer.
 *
 * Q and K begin as the identity or as 1, R as 0, P with numbers of N(0, model.value_std^2).
 */
#include <math.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "model/model.h"

enum { NODES_AND_CHANNELS = 6 }; /* axes of [B, n, channels] */

/* Added to a norm, so that zeros divided by their norm stay zeros. */
#define NORM_EPSILON 1e-12

typedef enum maps { MAPS_FULL = 0, MAPS_DEMANDS } maps;

/* The parameters of a layer, in their order. */
enum { OF_QUERIES = 0, OF_KEYS, OF_VALUES, OF_SKIP, MATRICES };

typedef struct graph_state {
    maps maps;
    size_t edges, demands; /* m, k */
    double value_std;
} graph_state;

static const icl_choice words[] = {{"full", MAPS_FULL}, {"demands", MAPS_DEMANDS}, {0}};
#define KEY(field) ICL_KEY("model", graph_state, field)

static const icl_recipe_key keys[] = {
    {KEY(maps), "full", .choices = words,
     .help = "what layers map: whole tokens, or demands and work between nodes that share edges"},
    {KEY(value_std), "0.1", 0, 100, .help = "standard deviation of value matrices to begin with"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_graph_transformer_keys[] = {&own_keys, NULL};

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    static const char *const names[MATRICES] = {"Q", "K", "P", "R"};
    const icl_task_shape *shape = &model->shape;
    graph_state *graph = NULL;

    if (shape->inputs <= shape->outputs || shape->scored != shape->positions || shape->loss != ICL_LOSS_SQUARED_ERROR)
        return icl_model_refuse(model, "at every position as many numbers as it has demands, behind those of edges",
                                error);
    ICL_CHECK(icl_allocate(1, sizeof *graph, "graph transformer", &graph, error));
    model->state = graph;
    model->layers = icl_model_read(recipe).layers;
    icl_recipe_read(recipe, &own_keys, graph);
    graph->demands = shape->outputs;
    graph->edges = shape->inputs - shape->outputs;
    model->sequences_at_once = shape->positions < 256 ? 256 / shape->positions : 1; /* these fit a core's cache */
    const size_t width = 2 * graph->demands + (graph->maps == MAPS_FULL ? graph->edges : 0);
    const size_t attending = graph->maps == MAPS_FULL ? width : 1;
    for (size_t i = 0; i < model->layers * MATRICES; i++) {
        const size_t size = i % MATRICES < OF_VALUES ? attending : width;
        ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){size, size}, error, "layer.%zu.%s", i / MATRICES,
                                          names[i % MATRICES]));
    }
    return ICL_OK;
}

static void destroy(icl_model *model) {
    icl_free(&model->state);
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    const graph_state *graph = model->state;

    for (size_t i = 0; i < model->parameter_count; i++) {
        const icl_parameter_info *matrix = &model->parameters[i];
        for (size_t j = 0; j < matrix->count; j++) {
            const bool on_diagonal = j / matrix->shape[1] == j % matrix->shape[1];
            const size_t at = matrix->offset + j;
            if (i % MATRICES == OF_VALUES)
                values[at] = (float)(graph->value_std * (double)icl_model_noise(seed, at));
            else
                values[at] = i % MATRICES != OF_SKIP && on_diagonal ? 1 : 0;
        }
    }
}

/* Returns `in` divided by its Frobenius norm in each graph. */
static icl_variable normalized(icl_tape *tape, icl_variable in) {
    const icl_variable epsilon = icl_tape_filled(tape, 1, (size_t[]){1}, NORM_EPSILON);
    const icl_variable norm = icl_tape_reduce(tape, ICL_NORM, NODES_AND_CHANNELS, in);
    return icl_tape_binary(tape, ICL_DIVIDE, in, icl_tape_binary(tape, ICL_ADD, norm, epsilon));
}

/* x + scores x P + x R. */
static icl_variable move(icl_tape *tape, icl_variable x, icl_variable scores, const icl_variable *layer) {
    const icl_variable values = icl_tape_matmul(tape, 1, x, layer[OF_VALUES]);
    const icl_variable attended = icl_tape_matmul(tape, 1, scores, values);
    const icl_variable skipped = icl_tape_binary(tape, ICL_ADD, x, icl_tape_matmul(tape, 1, x, layer[OF_SKIP]));
    return icl_tape_binary(tape, ICL_ADD, skipped, attended);
}

static icl_variable transposed(icl_tape *tape, icl_variable x) {
    return icl_tape_swap_axes(tape, x, 1, 2);
}

/* Runs the layers with maps = full on Z [B, n, m + 2 k], whose first m channels are B. Returns phi [B, n, k]. */
static icl_variable run_full(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable z) {
    const graph_state *graph = model->state;
    const size_t m = graph->edges, k = graph->demands;
    const double share = 1 / (double)model->shape.positions;

    for (size_t l = 0; l < model->layers; l++) {
        const icl_variable *layer = parameters + l * MATRICES;
        const icl_variable queries = icl_tape_matmul(tape, share, z, layer[OF_QUERIES]);
        const icl_variable seen = transposed(tape, icl_tape_matmul(tape, 1, z, layer[OF_KEYS]));
        const icl_variable moved = move(tape, z, icl_tape_matmul(tape, 1, queries, seen), layer);
        const icl_variable parts[] = {normalized(tape, icl_tape_slice(tape, moved, 2, 0, m)),
                                      icl_tape_slice(tape, moved, 2, m, k),
                                      normalized(tape, icl_tape_slice(tape, moved, 2, m + k, k))};
        if (l + 1 == model->layers)
            return parts[2];
        z = icl_tape_concatenate(tape, 2, 3, parts);
    }
    return z;
}

/* Runs the layers with maps = demands on Y [B, n, 2 k]. Returns phi [B, n, k]. */
static icl_variable run_demands(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                icl_variable incidence, icl_variable y) {
    const graph_state *graph = model->state;
    const size_t k = graph->demands;
    const double share = 1 / (double)model->shape.positions;
    const icl_variable shared = icl_tape_matmul(tape, share, incidence, transposed(tape, incidence));

    for (size_t l = 0; l < model->layers; l++) {
        const icl_variable *layer = parameters + l * MATRICES;
        const icl_variable factor = icl_tape_binary(tape, ICL_MULTIPLY, layer[OF_QUERIES], layer[OF_KEYS]);
        const icl_variable moved = move(tape, y, icl_tape_binary(tape, ICL_MULTIPLY, shared, factor), layer);
        const icl_variable parts[] = {icl_tape_slice(tape, moved, 2, 0, k),
                                      normalized(tape, icl_tape_slice(tape, moved, 2, k, k))};
        if (l + 1 == model->layers)
            return parts[1];
        y = icl_tape_concatenate(tape, 2, 2, parts);
    }
    return y;
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const graph_state *graph = model->state;
    const size_t n = model->shape.positions, m = graph->edges, k = graph->demands;
    const size_t shape[] = {icl_tape_value(tape, inputs).shape[0], n, k};
    const icl_variable incidence = normalized(tape, icl_tape_slice(tape, inputs, 2, 0, m));
    const icl_variable demands = icl_tape_slice(tape, inputs, 2, m, k), work = icl_tape_filled(tape, 3, shape, 0);
    const icl_variable parts[] = {incidence, demands, work};
    icl_variable out;

    (void)depth;
    if (graph->maps == MAPS_FULL)
        out = run_full(model, tape, parameters, icl_tape_concatenate(tape, 2, 3, parts));
    else
        out = run_demands(model, tape, parameters, incidence, icl_tape_concatenate(tape, 2, 2, parts + 1));
    return icl_tape_scale(tape, sqrt((double)n), out);
}

const icl_model_family icl_graph_transformer = {
    .name = "graph",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .predict = predict,
};
