/*
 * Weighted graphs: the same bits on every device; their edges; answers that solve their defining equations, which is
 * checked without eigenvectors; reference predictors.
 *
 * An answer is defined up to a factor, so that equations hold up to a factor, which is found by least squares. Numbers
 * are floats: the error of an equation may be 1e-5 of the size of its terms.
 */
#include "frame.h"

enum { MOST_NODES = 12, MOST_EDGES = 66, MOST_DEMANDS = 12, GRAPHS = 40, SHOWN = 1500, TERMS = 20, SQUARINGS = 64 };

#define FAMILY "task.family=graphs "

/* One graph on the host, in double precision. */
typedef struct graph {
    size_t n, m, k;
    double incidence[MOST_NODES][MOST_EDGES], psi[MOST_NODES][MOST_DEMANDS], target[MOST_NODES][MOST_DEMANDS];
    double laplacian[MOST_NODES][MOST_NODES];
    size_t links[MOST_NODES][MOST_NODES]; /* edges between two nodes */
    bool is_incidence;                    /* each edge has two ends, w and -w with w from exp(-1) to exp(1) */
} graph;

static void find_links(graph *g) {
    g->is_incidence = true;
    memset(g->links, 0, sizeof g->links);
    for (size_t e = 0; e < g->m; e++) {
        size_t ends[2] = {0, 0}, count = 0;
        double sum = 0;
        for (size_t i = 0; i < g->n; i++)
            if (g->incidence[i][e] != 0) {
                ends[count % 2] = i;
                count++;
                sum += g->incidence[i][e];
            }
        const double weight = fabs(g->incidence[ends[0]][e]);
        g->is_incidence = g->is_incidence && count == 2 && sum == 0 && weight >= 0.3678 && weight <= 2.7183;
        g->links[ends[0]][ends[1]]++;
        g->links[ends[1]][ends[0]]++;
    }
}

static void read_graph(const drawn *batch, size_t number, graph *g) {
    const icl_task_shape *shape = &batch->task->shape;
    const float *inputs = input_at(batch, number, 0),
                *targets = batch->targets + number * batch->scored * shape->outputs;

    g->n = shape->positions;
    g->k = shape->outputs;
    g->m = shape->inputs - g->k;
    for (size_t i = 0; i < g->n; i++) {
        for (size_t e = 0; e < g->m; e++)
            g->incidence[i][e] = (double)inputs[i * shape->inputs + e];
        for (size_t j = 0; j < g->k; j++) {
            g->psi[i][j] = (double)inputs[i * shape->inputs + g->m + j];
            g->target[i][j] = (double)targets[i * g->k + j];
        }
    }
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < g->n; j++) {
            g->laplacian[i][j] = 0;
            for (size_t e = 0; e < g->m; e++)
                g->laplacian[i][j] += g->incidence[i][e] * g->incidence[j][e];
        }
    find_links(g);
}

/* ---- Edges ---- */

static size_t count_triangles(const graph *g) {
    size_t count = 0;
    for (size_t a = 0; a < g->n; a++)
        for (size_t b = a + 1; b < g->n; b++)
            for (size_t c = b + 1; c < g->n; c++)
                count += g->links[a][b] * g->links[b][c] * g->links[a][c];
    return count;
}

/* Returns whether every node has `degree` neighbours, by one edge each. */
static bool has_degree(const graph *g, size_t degree) {
    for (size_t i = 0; i < g->n; i++) {
        size_t edges = 0, neighbours = 0;
        for (size_t j = 0; j < g->n; j++) {
            edges += g->links[i][j];
            neighbours += g->links[i][j] > 0;
        }
        if (edges != degree || neighbours != degree || g->links[i][i] > 0)
            return false;
    }
    return true;
}

/* ---- Answers ---- */

static void apply(const graph *g, const double in[MOST_NODES][MOST_DEMANDS], double out[MOST_NODES][MOST_DEMANDS]) {
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < g->k; j++) {
            out[i][j] = 0;
            for (size_t l = 0; l < g->n; l++)
                out[i][j] += g->laplacian[i][l] * in[l][j];
        }
}

/* Returns the distance of a from the nearest positive multiple of b, relative to the size of a. */
static double distance(size_t rows, size_t columns, const double a[MOST_NODES][MOST_DEMANDS],
                       const double b[MOST_NODES][MOST_DEMANDS]) {
    double product = 0, square = 0, size = 0, worst = 0;

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            product += a[i][j] * b[i][j];
            square += b[i][j] * b[i][j];
            size = fmax(size, fabs(a[i][j]));
        }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            worst = fmax(worst, fabs(a[i][j] - product / square * b[i][j]));
    return product > 0 ? worst / size : HUGE_VAL;
}

static void subtract_mean(const graph *g, const double in[MOST_NODES][MOST_DEMANDS],
                          double out[MOST_NODES][MOST_DEMANDS]) {
    for (size_t j = 0; j < g->k; j++) {
        double mean = 0;
        for (size_t i = 0; i < g->n; i++)
            mean += in[i][j] / (double)g->n;
        for (size_t i = 0; i < g->n; i++)
            out[i][j] = in[i][j] - mean;
    }
}

static void multiply_transposed(const graph *g, const double a[MOST_NODES][MOST_DEMANDS],
                                const double b[MOST_NODES][MOST_DEMANDS], double out[MOST_NODES][MOST_DEMANDS]) {
    for (size_t i = 0; i < g->k; i++)
        for (size_t j = 0; j < g->k; j++) {
            out[i][j] = 0;
            for (size_t l = 0; l < g->n; l++)
                out[i][j] += a[l][i] * b[l][j];
        }
}

/* T = L^+ psi: L T is psi less its mean, and T has mean 0. */
static double miss_electric(const graph *g) {
    static double image[MOST_NODES][MOST_DEMANDS], centred[MOST_NODES][MOST_DEMANDS];
    double missed;

    apply(g, g->target, image);
    subtract_mean(g, g->psi, centred);
    missed = distance(g->n, g->k, image, centred);
    subtract_mean(g, g->target, centred);
    return fmax(missed, distance(g->n, g->k, g->target, centred));
}

/* T = (L^+)^(1/2) psi: T^T L T is psi^T psi of the centred psi; T is S psi with S symmetric and positive, so that psi^T
 * T is symmetric with a positive diagonal; and T has mean 0. */
static double miss_resistive(const graph *g) {
    static double image[MOST_NODES][MOST_DEMANDS], centred[MOST_NODES][MOST_DEMANDS];
    static double ours[MOST_NODES][MOST_DEMANDS], expected[MOST_NODES][MOST_DEMANDS];
    double missed, largest = 0, asymmetry = 0;

    apply(g, g->target, image);
    subtract_mean(g, g->psi, centred);
    multiply_transposed(g, g->target, image, ours);
    multiply_transposed(g, centred, centred, expected);
    missed = distance(g->k, g->k, ours, expected);
    multiply_transposed(g, g->psi, g->target, ours);
    for (size_t i = 0; i < g->k; i++)
        for (size_t j = 0; j < g->k; j++) {
            largest = fmax(largest, fabs(ours[i][j]));
            asymmetry = ours[i][i] > 0 ? fmax(asymmetry, fabs(ours[i][j] - ours[j][i])) : HUGE_VAL;
        }
    subtract_mean(g, g->target, centred);
    return fmax(fmax(missed, asymmetry / largest), distance(g->n, g->k, g->target, centred));
}

/* T = exp(-L / 2) psi, by the series of exp(-L / 128) applied 64 times. */
static double miss_heat(const graph *g) {
    static double heat[MOST_NODES][MOST_DEMANDS], term[MOST_NODES][MOST_DEMANDS], next[MOST_NODES][MOST_DEMANDS];

    memcpy(heat, g->psi, sizeof heat);
    for (int turn = 0; turn < SQUARINGS; turn++) {
        memcpy(term, heat, sizeof term);
        for (int power = 1; power <= TERMS; power++) {
            apply(g, term, next);
            for (size_t i = 0; i < g->n; i++)
                for (size_t j = 0; j < g->k; j++) {
                    term[i][j] = -next[i][j] / (2 * SQUARINGS * power);
                    heat[i][j] += term[i][j];
                }
        }
    }
    return distance(g->n, g->k, g->target, heat);
}

static double sum_of_squares(const graph *g) {
    double sum = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < g->k; j++)
            sum += g->target[i][j] * g->target[i][j];
    return sum;
}

static double mean_of_demands(const graph *g) {
    double worst = 0;
    for (size_t j = 0; j < g->k; j++) {
        double sum = 0;
        for (size_t i = 0; i < g->n; i++)
            sum += g->psi[i][j];
        worst = fmax(worst, fabs(sum));
    }
    return worst;
}

/* ---- A recipe ---- */

typedef struct sequence_law {
    const char *overrides;
    size_t nodes, edges, demands, degree;
    size_t triangles[2]; /* the two possible numbers; equal: all graphs have it */
    bool is_centred;
    double (*miss)(const graph *g);
} sequence_law;

/* A circle of ten with links of 2 or 8 has the ten triangles i, i + 1, i + 2; with links of 4 or 6 it has none. */
static const sequence_law laws[] = {
    {FAMILY, 10, 20, 10, 4, {0, 10}, false, miss_electric},
    {FAMILY "task.skips=2,8 task.answer=resistive", 10, 20, 10, 4, {10, 10}, false, miss_resistive},
    {FAMILY "task.skips=4,6 task.answer=heat", 10, 20, 10, 4, {0, 0}, false, miss_heat},
    {FAMILY "task.graph=complete task.nodes=5 task.demands=7 task.answer=resistive",
     5,
     10,
     7,
     4,
     {10, 10},
     false,
     miss_resistive},
    {FAMILY "task.graph=complete task.nodes=12 task.demands=3 task.centred=true",
     12,
     66,
     3,
     11,
     {220, 220},
     true,
     miss_electric},
};

static void check_law(task_test *test, const sequence_law *law) {
    static graph g;
    size_t wrong = 0, of_first = 0;
    double missed = 0, norm = 0, mean = HUGE_VAL;
    drawn all = {0};

    check_bits(test, law->overrides, GRAPHS, 1);
    open_batch(&all, test->device, ICL_FOR_TRAINING, GRAPHS, law->overrides);
    draw_step(&all, SEED, 3);
    const icl_task_shape *shape = &all.task->shape;
    const bool fits =
        shape->positions == law->nodes && shape->inputs == law->edges + law->demands && shape->outputs == law->demands;
    for (size_t s = 0; s < GRAPHS && fits; s++) {
        read_graph(&all, s, &g);
        const size_t triangles = count_triangles(&g);
        wrong += !g.is_incidence || !has_degree(&g, law->degree) ||
                 (triangles != law->triangles[0] && triangles != law->triangles[1]);
        of_first += triangles == law->triangles[0];
        missed = fmax(missed, law->miss(&g));
        norm = fmax(norm, fabs(sum_of_squares(&g) - (double)law->nodes));
        mean = fmin(mean, mean_of_demands(&g));
    }
    tap_ok(&test->tap, fits && wrong == 0, "%s: edges", law->overrides);
    /* Among 40 fair coins, more than 36 or fewer than 4 heads have a probability below 1e-6. */
    tap_ok(&test->tap, law->triangles[0] == law->triangles[1] || (of_first >= 4 && of_first <= 36),
           "%s: skips (%zu of %d)", law->overrides, of_first, GRAPHS);
    tap_ok(&test->tap, missed < 1e-5, "%s: answers solve their equation (%.2g)", law->overrides, missed);
    tap_ok(&test->tap, norm < 1e-5, "%s: squares of a graph's targets sum to n (%.2g)", law->overrides, norm);
    tap_ok(&test->tap, law->is_centred ? mean < 1e-5 : mean > 1e-3, "%s: demands sum to %.2g", law->overrides, mean);
    release(&all);
}

/* ---- Reference predictors ---- */

/* Returns the mean loss of outputs [count][n][k]; if NULL, that of psi + factor L psi / tr L, normalized. */
static double mean_loss(const drawn *batch, const double *outputs, double factor) {
    static graph g;
    static double out[MOST_NODES][MOST_DEMANDS];
    const size_t n = batch->length, k = batch->task->shape.outputs;
    double sum = 0;

    for (size_t s = 0; s < batch->count; s++) {
        double trace = 0, squares = 0;
        read_graph(batch, s, &g);
        apply(&g, g.psi, out);
        for (size_t i = 0; i < n; i++)
            trace += g.laplacian[i][i];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++) {
                out[i][j] = outputs ? outputs[(s * n + i) * k + j] : g.psi[i][j] + factor * out[i][j] / trace;
                squares += out[i][j] * out[i][j];
            }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++)
                sum += pow(out[i][j] * (outputs ? 1 : sqrt((double)n / squares)) - g.target[i][j], 2) / (double)n;
    }
    return sum / (double)batch->count;
}

static double loss_of(drawn *batch, const char *name) {
    predict(batch, name);
    return mean_loss(batch, batch->outputs, 0);
}

static void check_predictors(task_test *test) {
    static const char *const falling[] = {"zero",         "polynomial:1", "polynomial:3", "polynomial:5",
                                          "polynomial:7", "polynomial:9", "exact"};
    double losses[7] = {0}, best = HUGE_VAL;
    drawn all = {0};

    draw(&all, test->cpu, SHOWN, FAMILY "task.nodes=8 task.demands=4 task.skips=3");
    tap_ok(&test->tap, has_predictors(&all, falling, 7), "zero, five polynomials, and exact");
    for (size_t i = 0; i < 7; i++) {
        losses[i] = loss_of(&all, falling[i]);
        tap_ok(&test->tap, i == 0 ? fabs(losses[0] - 1) < 1e-5 : losses[i] < losses[i - 1], "%s: its loss, %.4g",
               falling[i], losses[i]);
    }
    for (int eighths = -96; eighths < 0; eighths++)
        best = fmin(best, mean_loss(&all, NULL, eighths / 8.0));
    tap_ok(&test->tap, losses[1] < 1.001 * best && losses[1] > 0.999 * best,
           "the best line, fitted elsewhere: %.5f beside %.5f of a search here", losses[1], best);
    tap_ok(&test->tap, losses[6] < 1e-12, "exact");
    release(&all);
}

/* On the default task, losses of the best polynomials are compared with those of another program's L-BFGS, fitted and
 * evaluated on 3,000 graphs of its own, within four standard errors of both. */
static void check_optima(task_test *test) {
    static const struct {
        const char *name;
        double loss, tolerance;
    } optima[] = {{"polynomial:3", 0.3465, 0.015},
                  {"polynomial:5", 0.1898, 0.02},
                  {"polynomial:7", 0.0752, 0.017},
                  {"polynomial:9", 0.0290, 0.009}};
    drawn all = {0};

    draw(&all, test->cpu, SHOWN, FAMILY);
    for (size_t i = 0; i < sizeof optima / sizeof *optima; i++) {
        const double loss = loss_of(&all, optima[i].name);
        tap_ok(&test->tap, fabs(loss - optima[i].loss) < optima[i].tolerance, "%s: %.4f beside %.4f", optima[i].name,
               loss, optima[i].loss);
    }
    release(&all);
}

static void check_all(task_test *test) {
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        check_law(test, &laws[i]);
    if (icl_backend_capabilities(test->device)->kind == ICL_DEVICE_HOST &&
        icl_backend_capabilities(test->device)->element_size == sizeof(float)) {
        check_predictors(test);
        check_optima(test);
    }
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
