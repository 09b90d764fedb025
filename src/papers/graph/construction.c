/*
 * Answers about a graph by layers of linear attention with weights by hand, and how fast they get there: Cheng, Carin,
 * Sra 2024, "Graph Transformers Dream of Electric Flow" (arXiv 2410.16699), whose lemmas state such weights.
 * tools/studies/electric-flow.ini trains layers.
 *
 * Token i holds row i of the weighted incidence matrix B [n, m], the demand psi_i, whose sum over the nodes is 0, and
 * work phi_i. With queries -a B, keys B and values phi a layer adds -a B B^T phi = -a L phi to phi, and a linear map
 * adds s psi:
 *
 *     electric     phi = 0 at first, s = a = 1 / l:  phi_k = L^+ psi - (I - L / l)^k L^+ psi
 *     heat         phi = psi, s = 0, a = t / k:      phi_k = (I - t L / k)^k psi, which goes to exp(-t L) psi
 *     eigenvector  phi = psi, s = 0, a = 1 / l:      phi_k turns to the eigenvector of the least eigenvalue above 0
 *
 * after k layers, with l the largest eigenvalue of any graph here, so that the weights are the same for all graphs.
 * With c_j the parts of psi along eigenvectors of L, of eigenvalues 0 < l_1 <= l_2 <= ..., and kappa = l / l_1:
 *
 *     electric     |phi_k - L^+ psi| <= (1 - 1 / kappa)^k |L^+ psi|
 *     heat         |phi_k - exp(-t L) psi|^2 <= sum_j (x_j^2 exp(-x_j) c_j / k)^2, x_j = t l_j <= k, because of
 *                  exp(-x) (1 - x^2 / k) <= (1 - x / k)^k <= exp(-x)
 *     eigenvector  tan(phi_k, v_1) <= ((1 - l_2 / l) / (1 - l_1 / l))^k tan(psi, v_1)
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "iclab/tape.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"

enum { NODES = 10, EDGES = 2 * NODES, GRAPHS = 64, DEPTHS = 5, SQUARE = NODES * NODES };
enum { DEMAND = EDGES, WORK, WIDTH }; /* of a token, behind its row of B */
enum { QUERIES = 0, KEYS, VALUES, SOURCE, PARTS };
enum { ELECTRIC = 0, HEAT, EIGENVECTOR, KINDS };

#define TIME .5 /* t */

static const char *const kinds[KINDS] = {"electric flow", "heat kernel", "eigenvector"};
static const size_t depths[DEPTHS] = {1, 3, 10, 30, 100};
static const size_t first_depth[KINDS] = {[HEAT] = 3}; /* x_j <= k: no eigenvalue is above 8 e^2 < 60 here */

/* By depth: the largest error over its bound, and medians over graphs of error and bound. */
enum { WORST = 0, ERROR = WORST + DEPTHS, BOUND = ERROR + DEPTHS, NUMBERS = BOUND + DEPTHS };

static void plan(icl_study *study) {
    for (size_t kind = 0; kind < KINDS; kind++)
        ICL_ADD_CELL(study, .name = kinds[kind], .recipe = "graphs", .is_untrained = true, .at = {kind},
                     .settings = {"task.graph=skip-links task.nodes=10 task.demands=1 task.centred=true"});
}

/* ---- Graphs ---- */

/* Eigenvalues of L, ascending, the first of them 0, and psi along the eigenvectors. */
typedef struct spectrum {
    double values[NODES], vectors[SQUARE], demands[NODES];
} spectrum;

/* Returns the parts along the eigenvectors of column `column` of a graph's tokens [NODES][width]. */
static void project(const spectrum *graph, const double *tokens, size_t width, size_t column, double *parts) {
    for (size_t j = 0; j < NODES; j++) {
        parts[j] = 0;
        for (size_t i = 0; i < NODES; i++)
            parts[j] += graph->vectors[j * NODES + i] * tokens[i * width + column];
    }
}

static icl_status find_spectrum(const double *tokens, spectrum *graph, icl_error *error) {
    double laplacian[SQUARE] = {0}, work[3 * NODES];

    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < NODES; j++)
            for (size_t e = 0; e < EDGES; e++)
                laplacian[i * NODES + j] += tokens[i * WIDTH + e] * tokens[j * WIDTH + e];
    if (!icl_symmetric_eigen(NODES, laplacian, graph->values, graph->vectors, work))
        return icl_fail(error, ICL_ERROR_INPUT, "a Laplacian's eigenvalues do not converge");
    project(graph, tokens, WIDTH, DEMAND, graph->demands);
    return ICL_OK;
}

/* ---- Layers ---- */

/* Writes the weights of a layer, with -a and s. */
static icl_status open_weights(icl_backend *backend, double a, double source, icl_tensor *weights, icl_error *error) {
    for (size_t part = 0; part < PARTS; part++) {
        const size_t columns = part == QUERIES || part == KEYS ? EDGES : WIDTH;
        float values[WIDTH * WIDTH] = {0};
        for (size_t e = 0; e < EDGES && columns == EDGES; e++)
            values[e * EDGES + e] = part == QUERIES ? (float)-a : 1;
        if (part == VALUES)
            values[WORK * WIDTH + WORK] = 1;
        if (part == SOURCE)
            values[DEMAND * WIDTH + WORK] = (float)source;
        ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){WIDTH, columns}, &weights[part], error));
        ICL_CHECK(icl_tensor_write(weights[part], values, error));
    }
    return ICL_OK;
}

static icl_variable record_layer(icl_tape *tape, icl_variable tokens, const icl_tensor *weights) {
    const icl_attention_params linear = {.kind = ICL_ATTENTION_LINEAR, .scale = 1};
    icl_variable mapped[PARTS];

    for (size_t part = 0; part < PARTS; part++)
        mapped[part] = icl_tape_matmul(tape, 1, tokens, icl_tape_constant(tape, weights[part]));
    return icl_tape_binary(tape, ICL_ADD, icl_tape_binary(tape, ICL_ADD, tokens, mapped[SOURCE]),
                           icl_tape_attention(tape, &linear, mapped[QUERIES], mapped[KEYS], mapped[VALUES]));
}

/* Applies the layers to tokens [GRAPHS][NODES][WIDTH], and reads what comes out. */
static icl_status run_layers(icl_backend *backend, size_t kind, size_t depth, double largest, const float *tokens,
                             double *out, icl_error *error) {
    const double a = kind == HEAT ? TIME / (double)depth : 1 / largest;
    icl_tensor first = {0}, weights[PARTS] = {0};
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    ICL_TRY(open_weights(backend, a, kind == ELECTRIC ? a : 0, weights, error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){GRAPHS, NODES, WIDTH}, &first, error));
    ICL_TRY(icl_tensor_write(first, tokens, error));
    icl_variable now = icl_tape_constant(tape, first);
    for (size_t layer = 0; layer < depth; layer++)
        now = record_layer(tape, now, weights);
    ICL_TRY(icl_tape_status(tape, error));
    ICL_TRY(icl_tensor_read_double(icl_tape_value(tape, now), out, error));
done:
    icl_tape_destroy(&tape);
    icl_tensor_release(&first);
    for (size_t part = 0; part < PARTS; part++)
        icl_tensor_release(&weights[part]);
    return status;
}

/* ---- Errors and their bounds ---- */

/* Both are relative: to the answer's norm, and for eigenvectors tangents of the angle to the answer. */
static void compare(const spectrum *graph, const double *parts, size_t kind, size_t depth, double largest,
                    double *error, double *bound) {
    const double k = (double)depth;
    double miss = 0, size = 0, most = 0;

    for (size_t j = 1; j < NODES; j++) {
        const double x = TIME * graph->values[j], c = graph->demands[j];
        const double answer = kind == ELECTRIC ? c / graph->values[j] : exp(-x) * c;
        miss += (parts[j] - answer) * (parts[j] - answer);
        size += answer * answer;
        most += pow(x * x * exp(-x) * c / k, 2);
    }
    *error = sqrt(miss / size);
    *bound = kind == ELECTRIC ? pow(1 - graph->values[1] / largest, k) : sqrt(most / size);
    if (kind != EIGENVECTOR)
        return;
    miss = most = 0;
    for (size_t j = 2; j < NODES; j++) {
        miss += parts[j] * parts[j];
        most += graph->demands[j] * graph->demands[j];
    }
    *error = sqrt(miss) / fabs(parts[1]);
    *bound = sqrt(most) / fabs(graph->demands[1]) *
             pow((1 - graph->values[2] / largest) / (1 - graph->values[1] / largest), k);
}

/*
 * A layer's rounding, relative to phi: with u the unit of rounding, sums of m products for scores and of n with values
 * are within gamma(m + n + 4) of their terms' sizes, a |B|_F^2 |phi| <= n |phi| together, beside the two that are
 * added. No part of phi along an eigenvector grows, but for electric flow, where all grow to the answer's; phi falls to
 * its part along v_1 where it is asked for, whose size is 1 / sqrt(1 + tan^2) of psi's to the factor (1 - l_1 / l)^k.
 */
static double rounding_of(const icl_study *study, const spectrum *graph, size_t kind, size_t depth, double largest,
                          double answer) {
    const bool is_double = icl_backend_capabilities(study->run->params->backend)->element_size == sizeof(double);
    const double unit = .5 * (is_double ? DBL_EPSILON : (double)FLT_EPSILON);
    const double each = (EDGES + NODES + 4) * unit * (NODES + 2), all = (double)depth * each;
    double first = 0;

    if (kind == ELECTRIC)
        return all;
    for (size_t j = 1; j < NODES; j++)
        first += graph->demands[j] * graph->demands[j];
    first = sqrt(first);
    if (kind == HEAT)
        return all * first / answer;
    const double left = fabs(graph->demands[1]) * pow(1 - graph->values[1] / largest, (double)depth);
    return all * first / left;
}

static double size_of_heat(const spectrum *graph) {
    double square = 0;

    for (size_t j = 1; j < NODES; j++)
        square += pow(exp(-TIME * graph->values[j]) * graph->demands[j], 2);
    return sqrt(square);
}

/* Notes the numbers of one depth. */
static void note_depth(const icl_study *study, const spectrum *graphs, const double *out, size_t kind, size_t place,
                       double largest, icl_number *numbers) {
    double errors[GRAPHS], bounds[GRAPHS], parts[NODES], worst = 0;

    for (size_t g = 0; g < GRAPHS; g++) {
        project(&graphs[g], out + g * NODES * WIDTH, WIDTH, WORK, parts);
        compare(&graphs[g], parts, kind, depths[place], largest, &errors[g], &bounds[g]);
        const double rounding = rounding_of(study, &graphs[g], kind, depths[place], largest, size_of_heat(&graphs[g]));
        worst = fmax(worst, errors[g] / (bounds[g] + rounding));
    }
    numbers[WORST + place].value = worst;
    numbers[ERROR + place].value = icl_median(errors, GRAPHS);
    numbers[BOUND + place].value = icl_median(bounds, GRAPHS);
}

/* ---- The study ---- */

/* Draws graphs as tokens, with phi = psi or 0, and finds their spectra and the largest eigenvalue. */
static icl_status draw_graphs(const icl_study *study, icl_trainer *trainer, size_t kind, float *tokens,
                              spectrum *graphs, double *largest, icl_error *error) {
    icl_batch batch;
    float *shown = NULL;
    double token[NODES * WIDTH];

    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trainer), GRAPHS, 0, 0, &batch, error));
    ICL_CHECK(icl_study_read(study, batch.inputs, &shown, error));
    *largest = 0;
    for (size_t g = 0; g < GRAPHS; g++) {
        for (size_t i = 0; i < NODES; i++) {
            float *at = tokens + (g * NODES + i) * WIDTH;
            memcpy(at, shown + (g * NODES + i) * (EDGES + 1), (EDGES + 1) * sizeof *at);
            at[WORK] = kind == ELECTRIC ? 0 : at[DEMAND];
        }
        for (size_t i = 0; i < (size_t)NODES * WIDTH; i++)
            token[i] = (double)tokens[g * NODES * WIDTH + i];
        ICL_CHECK(find_spectrum(token, &graphs[g], error));
        *largest = fmax(*largest, graphs[g].values[NODES - 1]);
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const size_t kind = cell->at[0];
    float *tokens = NULL;
    double *out = NULL, largest;
    spectrum *graphs = NULL;

    ICL_CHECK(icl_study_room(study, (size_t)GRAPHS * NODES * WIDTH, sizeof *tokens, &tokens, error));
    ICL_CHECK(icl_study_room(study, (size_t)GRAPHS * NODES * WIDTH, sizeof *out, &out, error));
    ICL_CHECK(icl_study_room(study, GRAPHS, sizeof *graphs, &graphs, error));
    ICL_CHECK(draw_graphs(study, trained, kind, tokens, graphs, &largest, error));
    for (size_t place = first_depth[kind]; place < DEPTHS; place++) {
        ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(run_layers(study->run->params->backend, kind, depths[place], largest, tokens, out, error));
        note_depth(study, graphs, out, kind, place, largest, numbers);
    }
    return ICL_OK;
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    static const char *const sources[KINDS] = {"(1 - 1 / kappa)^L", "x^2 exp(-x) / L",
                                               "ratio of the eigenvalues' factors"};

    for (size_t place = first_depth[cell->at[0]]; place < DEPTHS; place++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, %zu layer%s", cell->name, depths[place], depths[place] > 1 ? "s" : ""),
                  .quantity = "largest error over its bound", ICL_OURS(cell->numbers[WORST + place]), .target = 1,
                  .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = sources[cell->at[0]],
                  .note = ICL_PHRASE("of %d graphs; medians %.3g and %.3g", GRAPHS, cell->numbers[ERROR + place].value,
                                     cell->numbers[BOUND + place].value));
}

static void conclude(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "electric-construction", .title = "Layers by hand on graphs, and their bounds",
                   .x_label = "layers", .y_label = "relative error, or tangent", .log_x = true, .log_y = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        for (size_t place = first_depth[cell->at[0]]; place < DEPTHS && cell->is_wanted; place++) {
            icl_study_plot(study, &curves, cell->name, ICL_SERIES_OURS, (double)depths[place],
                           cell->numbers[ERROR + place].value);
            icl_study_plot(study, &curves, ICL_PHRASE("%s, bound", cell->name), ICL_SERIES_REFERENCE,
                           (double)depths[place], cell->numbers[BOUND + place].value);
        }
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_electric_construction = ICL_STUDY(
        .name = "electric-construction", .source = "arXiv 2410.16699",
        .about = "weights by hand for electric flow, the heat kernel and an eigenvector, by depth, beside their bounds",
        .claim =
            "There are weights with which layers of linear attention solve for electric flow on any graph, with an "
            "error of at most (1 - 1 / kappa)^L, and others for the heat kernel and an eigenvector.",
        .scope = "A met table means that weights by hand keep to their bounds on graphs of ten nodes; that training "
                 "finds such weights is asked by electric-flow alone.",
        .cost = {"1 s", "1 s", NULL}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
