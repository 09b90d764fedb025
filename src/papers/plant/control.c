/*
 * A linear-quadratic plant identified in context: x' = A x + B u + p e with random inputs u, a new plant for each
 * sequence, as a practical use of what von Oswald and others 2023 (arXiv 2309.05858) train. Tokens hold (x_t, u_t) and
 * the pair (x_(t-1), u_(t-1)), x_t, so that one layer can regress.
 *
 * A model's (A, B) is how its prediction of the next state answers to x and u. Behind t pairs one more token asks for
 * e_j and for -e_j in turn, as a sequence's first token does: nothing comes before it, so that it holds no pair. Half
 * of the difference of the two answers is column j. (It must be x in both of its places: a trained layer reads the
 * state partly from the label, which is always the same.) (A, B) is set beside least squares, and the ridge regression
 * of the prior's penalty: entries of A and B have variance 1 / n, and noise p, so that it is p^2 n. Each pair (A, B) is
 * then taken for the truth, as in certainty equivalence: the best controller for it runs on the true plant, whose own
 * best controller has the least cost (checked.h).
 *
 * Mania, Tu, Recht 2019, "Certainty Equivalence is Efficient for Linear Quadratic Control" (arXiv 1902.07826): the cost
 * above the least is of second order in the error of (A, B). Half of an error leaves a quarter of it.
 */
#include "papers/checked.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/evaluation.h"

enum { N = ICL_PLANT_STATES, M = ICL_PLANT_INPUTS, P = ICL_PLANT_SEEN };

/* ---- Regulators ---- */

/* out = A B, [rows][inner] times [inner][columns]; A is transposed if it is [inner][rows]. */
static void multiply(const double *a, bool is_transposed, const double *b, size_t rows, size_t inner, size_t columns,
                     double *out) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < inner; k++)
                sum += (is_transposed ? a[k * rows + i] : a[i * inner + k]) * b[k * columns + j];
            out[i * columns + j] = sum;
        }
}

/* to += from. Returns the largest entry of what was added over the largest of the sum. */
static double add_matrix(double *to, const double *from) {
    double largest = 0, added = 0;

    for (size_t i = 0; i < (size_t)N * N; i++) {
        to[i] += from[i];
        largest = fmax(largest, fabs(to[i]));
        added = fmax(added, fabs(from[i]));
    }
    return added / largest;
}

static void split(const icl_plant *plant, double *A, double *B) {
    for (size_t i = 0; i < N; i++) {
        memcpy(A + i * N, plant->matrix + i * P, N * sizeof *A);
        memcpy(B + i * M, plant->matrix + i * P + N, M * sizeof *B);
    }
}

/* to [columns][rows] = from^T, [rows][columns]: LAPACK's order of a matrix. */
static void transpose(const double *from, size_t rows, size_t columns, double *to) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            to[j * rows + i] = from[i * columns + j];
}

/* out [n][n] = (I + G V)^-1 right. LAPACK reads the transposed one of I + V G, and both are symmetric. */
static bool solve_left(const double *G, const double *V, const double *right, double *out) {
    double system[N * N], solved[N * N];
    int pivots[N];

    multiply(V, false, G, N, N, N, system);
    for (size_t i = 0; i < N; i++)
        system[i * N + i] += 1;
    transpose(right, N, N, solved);
    if (LAPACKE_dgesv_work(LAPACK_COL_MAJOR, N, N, system, N, pivots, solved, N) != 0)
        return false;
    transpose(solved, N, N, out);
    return true;
}

/* K = (I + B^T V B)^-1 B^T V A. */
static bool find_gain(const double *A, const double *B, const double *V, double *gain) {
    double weighted[M * N], system[M * M], pushed[M * N], solved[N * M];

    multiply(B, true, V, M, N, N, weighted);
    multiply(weighted, false, B, M, N, M, system);
    for (size_t i = 0; i < M; i++)
        system[i * M + i] += 1;
    multiply(weighted, false, A, M, N, N, pushed);
    transpose(pushed, M, N, solved);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', M, N, system, M, solved, M) != 0)
        return false;
    transpose(solved, N, M, gain);
    return true;
}

/*
 * One step of doubling, from A, G = B B^T and V = I:
 *     A <- A (I + G V)^-1 A,   G <- G + A (I + G V)^-1 G A^T,   V <- V + A^T V (I + G V)^-1 A.
 * Returns by how much V changed, relative to it; NaN after a failure.
 */
static double double_steps(double *A, double *G, double *V) {
    double of_A[N * N], of_G[N * N], moved[N * N], turned[N * N], next[N * N], transposed[N * N];

    if (!solve_left(G, V, A, of_A) || !solve_left(G, V, G, of_G))
        return (double)NAN;
    transpose(A, N, N, transposed);
    multiply(A, false, of_G, N, N, N, moved);
    multiply(moved, false, transposed, N, N, N, turned);
    multiply(V, false, of_A, N, N, N, moved);
    multiply(A, true, moved, N, N, N, next);
    multiply(A, false, of_A, N, N, N, moved);
    memcpy(A, moved, sizeof moved);
    (void)add_matrix(G, turned);
    return add_matrix(V, next);
}

bool icl_plant_regulate(const icl_plant *plant, icl_regulator *best) {
    enum { MOST_DOUBLINGS = 60 };
    double A[N * N], B[N * M], of_A[N * N], G[N * N], V[N * N] = {0}, change = 1;

    split(plant, A, B);
    memcpy(of_A, A, sizeof of_A);
    for (size_t i = 0; i < N; i++)
        V[i * N + i] = 1;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            G[i * N + j] = 0;
            for (size_t k = 0; k < M; k++)
                G[i * N + j] += B[i * M + k] * B[j * M + k];
        }
    for (int i = 0; i < MOST_DOUBLINGS && change > 1e-15; i++)
        change = double_steps(of_A, G, V);
    memcpy(best->value, V, sizeof V);
    return change <= 1e-12 && find_gain(A, B, V, best->gain); /* not if it is NaN */
}

double icl_plant_cost(const icl_plant *plant, const double *gain) {
    enum { MOST_DOUBLINGS = 60 };
    double A[N * N], B[N * M], loop[N * N], V[N * N], moved[N * N], next[N * N], change = 1, trace = 0;

    split(plant, A, B);
    multiply(B, false, gain, N, M, N, loop);
    multiply(gain, true, gain, N, M, N, V);
    for (size_t i = 0; i < (size_t)N * N; i++) {
        loop[i] = A[i] - loop[i];
        V[i] += i % (N + 1) == 0 ? 1 : 0;
    }
    for (int i = 0; i < MOST_DOUBLINGS && change > 1e-15; i++) { /* V is the cost of 2^i steps */
        multiply(V, false, loop, N, N, N, moved);
        multiply(loop, true, moved, N, N, N, next);
        change = add_matrix(V, next);
        multiply(loop, false, loop, N, N, N, moved);
        memcpy(loop, moved, sizeof moved);
    }
    for (size_t i = 0; i < N; i++)
        trace += V[i * N + i];
    return change <= 1e-12 ? trace : (double)INFINITY; /* also if it is NaN */
}

/* ---- Cells ---- */

enum { POSITIONS = 33, LENGTHS = 3 };

static const size_t lengths[LENGTHS] = {8, 16, POSITIONS - 2}; /* pairs seen */

#define NOISE 0.3

static const struct {
    size_t steps, sequences, seeds;
} budgets[ICL_SCALES] = {{250, 256, 1}, {2000, 4096, 2}, {20000, 32768, 5}};

enum { MESA = 0, LINEAR, SOFTMAX, KINDS };

static const struct {
    const char *name, *stem, *settings; /* stem: of run folders */
} kinds[KINDS] = {
    {"mesa layer", "mesa",
     "model.mixer=mesa model.heads=1 model.key_width=6 model.value_width=6 "
     "model.normalize_keys=none model.iterations=15"},
    {"linear attention", "linear", "model.mixer=linear model.normalize_keys=none"},
    {"softmax attention", "softmax", "model.mixer=softmax model.layers=2 model.norm=rms model.output_norm=rms"}};

static void plan(icl_study *study) {
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < budgets[study->scale].seeds; i++)
            ICL_ADD_CELL(study, .name = kinds[kind].name, .recipe = "mesa", .seed = icl_study_seed(study, i),
                         .folder = ICL_PHRASE("%s-%zu", kinds[kind].stem, i + 1), .at = {kind, i},
                         .settings = {ICL_PHRASE("task.hidden=%d task.controls=%d task.positions=%d "
                                                 "task.process_noise=%g eval.predictors=ridge:0.1,ridge:1,floor "
                                                 "eval.every=0",
                                                 N, M, POSITIONS, NOISE),
                                      kinds[kind].settings,
                                      ICL_PHRASE("train.steps=%zu eval.sequences=%zu", budgets[study->scale].steps,
                                                 budgets[study->scale].sequences)});
}

/* ---- Identified plants ---- */

enum { MODEL = 0, LEAST_SQUARES, RIDGE, RULES };

static const char *const rules[RULES] = {"model", "least squares", "ridge of the prior"};

/* The first numbers, by length and rule, are the median squared error of (A, B), the median of the cost over the
 * least one less 1, and the share of controllers that make the plant stable. Then the squared error of predictions
 * behind 31 pairs, of the model and of the better ridge regression of the task, and that of who knows the plant less
 * the model's. Then, over all plants, the largest relative distance of the least cost from tr V, the least cost of
 * any controller over it less 1, and the median ratio of what a whole and half of an error cost. */
enum {
    ERROR = 0,
    EXCESS,
    STABLE,
    PER_RULE,
    PREDICTED = LENGTHS * RULES * PER_RULE,
    PREDICTED_RIDGE,
    FLOOR_BELOW,
    CLOSED,
    LEAST,
    QUADRATIC,
    NUMBERS
};

static size_t number_of(size_t length, size_t rule, size_t what) {
    return (length * RULES + rule) * PER_RULE + what;
}

/* The measurements of the sequences: squared errors and excess costs, [lengths][rules][count], and ratios [count]. */
typedef struct comparison {
    size_t count;
    double *errors, *excess, *ratios, *scratch;
    double closed, least;
} comparison;

/* Where the parts of a token stand: 0, z_t, x_t, z_(t-1). */
enum { ASKED = N, LABEL = ASKED + P, PAIR = LABEL + N, TOKEN = PAIR + P };

/* The regression on the pairs that tokens 1 … pairs hold: Theta (sum z z^T + penalty I) = sum x z^T. */
static bool regress(const float *tokens, size_t pairs, double penalty, icl_plant *found) {
    double gram[P * P] = {0}, right[N * P] = {0};

    for (size_t i = 0; i < P; i++)
        gram[i * P + i] = penalty;
    for (size_t t = 1; t <= pairs; t++) {
        const float *label = tokens + t * TOKEN + LABEL, *pair = tokens + t * TOKEN + PAIR;
        for (size_t i = 0; i < P; i++) {
            for (size_t j = 0; j < P; j++)
                gram[i * P + j] += (double)pair[i] * (double)pair[j];
            for (size_t j = 0; j < N; j++)
                right[j * P + i] += (double)label[j] * (double)pair[i];
        }
    }
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', P, N, gram, P, right, P) != 0)
        return false;
    memcpy(found->matrix, right, sizeof right);
    return true;
}

/* Writes the token that asks for `sign` e_j. */
static void write_question(size_t j, int sign, float *token) {
    memset(token, 0, TOKEN * sizeof *token);
    token[ASKED + j] = (float)sign;
    if (j < N)
        token[LABEL + j] = (float)sign;
}

/* Asks the model behind `pairs` pairs for the columns of (A, B) of all sequences of the chunk, and leaves the tokens as
 * they were drawn. */
static icl_status ask_model(icl_sequences *drawn, icl_trainer *trained, size_t pairs, icl_plant *found, float *tokens,
                            icl_error *error) {
    const size_t size = (size_t)POSITIONS * TOKEN, place = pairs + 1;

    memset(found, 0, drawn->chunk * sizeof *found);
    memcpy(tokens, drawn->inputs, drawn->chunk * size * sizeof *tokens);
    for (size_t j = 0; j < P; j++)
        for (int sign = -1; sign <= 1; sign += 2) {
            for (size_t i = 0; i < drawn->chunk; i++)
                write_question(j, sign, tokens + i * size + place * TOKEN);
            ICL_CHECK(icl_tensor_write(drawn->batch.inputs, tokens, error));
            ICL_CHECK(icl_sequences_predict(drawn, trained, error));
            for (size_t i = 0; i < drawn->chunk; i++)
                for (size_t k = 0; k < N; k++)
                    found[i].matrix[k * P + j] += .5 * sign * (double)drawn->model[(i * POSITIONS + place) * N + k];
        }
    return icl_tensor_write(drawn->batch.inputs, drawn->inputs, error);
}

/* ---- Costs ---- */

/* Returns the cost of the best controller for `believed` on the true plant, over the least cost, less 1. */
static double excess_of(const icl_plant *truth, double least_cost, const icl_plant *believed) {
    icl_regulator controller;

    return icl_plant_regulate(believed, &controller) ? icl_plant_cost(truth, controller.gain) / least_cost - 1
                                                     : (double)INFINITY;
}

static double square_between(const icl_plant *a, const icl_plant *b) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)N * P; i++)
        sum += pow(a->matrix[i] - b->matrix[i], 2);
    return sum;
}

/* Returns what an error of size .02 along that of `believed` costs over what half of it does. */
static double ratio_of(const icl_plant *truth, double least_cost, const icl_plant *believed) {
    const double size = sqrt(square_between(truth, believed));
    icl_plant whole, half;

    for (size_t i = 0; i < (size_t)N * P; i++) {
        const double step = .02 * (believed->matrix[i] - truth->matrix[i]) / size;
        whole.matrix[i] = truth->matrix[i] + step;
        half.matrix[i] = truth->matrix[i] + step / 2;
    }
    return excess_of(truth, least_cost, &whole) / excess_of(truth, least_cost, &half);
}

/* Adds what one sequence shows; believed has a plant for each rule, by length. */
static void compare_plant(comparison *all, size_t number, const icl_plant *truth, icl_plant believed[LENGTHS][RULES]) {
    icl_regulator best = {{0}, {0}};
    double trace = 0;

    const bool is_solved = icl_plant_regulate(truth, &best);
    const double cost = icl_plant_cost(truth, best.gain);
    for (size_t i = 0; i < N; i++)
        trace += best.value[i * N + i];
    all->closed = is_solved ? fmax(all->closed, fabs(cost / trace - 1)) : (double)INFINITY;
    for (size_t length = 0; length < LENGTHS; length++)
        for (size_t rule = 0; rule < RULES; rule++) {
            const size_t at = (length * RULES + rule) * all->count + number;
            all->errors[at] = square_between(truth, &believed[length][rule]);
            all->excess[at] = excess_of(truth, cost, &believed[length][rule]);
            all->least = fmin(all->least, all->excess[at]);
        }
    all->ratios[number] = ratio_of(truth, cost, &believed[LENGTHS - 1][LEAST_SQUARES]);
}

/* ---- Measuring ---- */

static icl_status allocate_comparison(const icl_study *study, comparison *all, icl_error *error) {
    const size_t each = (size_t)LENGTHS * RULES * sizeof(double);

    all->count = budgets[study->scale].sequences;
    all->least = (double)INFINITY;
    ICL_CHECK(icl_study_room(study, all->count, each, &all->errors, error));
    ICL_CHECK(icl_study_room(study, all->count, each, &all->excess, error));
    ICL_CHECK(icl_study_room(study, all->count, sizeof(double), &all->ratios, error));
    return icl_study_room(study, all->count, sizeof(double), &all->scratch, error);
}

/* Compares the sequences from number `first` on, as many as the chunk holds and the comparison still wants. */
static icl_status compare_chunk(const icl_study *study, icl_sequences *drawn, icl_trainer *trained, size_t first,
                                comparison *all, icl_plant *answers, float *tokens, icl_error *error) {
    const size_t count = all->count - first < drawn->chunk ? all->count - first : drawn->chunk;
    float *transitions = NULL;

    ICL_CHECK(icl_sequences_sample(drawn, first / drawn->chunk, error));
    ICL_CHECK(icl_sequences_refer(drawn, NULL, drawn->chunk, NULL, error));
    ICL_CHECK(icl_study_read(study, icl_batch_side(&drawn->batch, ICL_SIDE_TRANSITION), &transitions, error));
    for (size_t length = 0; length < LENGTHS; length++)
        ICL_CHECK(ask_model(drawn, trained, lengths[length], answers + length * drawn->chunk, tokens, error));
    for (size_t i = 0; i < count; i++) {
        const float *shown = drawn->inputs + i * POSITIONS * TOKEN;
        icl_plant truth, believed[LENGTHS][RULES];
        for (size_t k = 0; k < (size_t)N * P; k++)
            truth.matrix[k] = (double)transitions[i * N * P + k];
        for (size_t length = 0; length < LENGTHS; length++) {
            believed[length][MODEL] = answers[length * drawn->chunk + i];
            if (!regress(shown, lengths[length], 1e-9, &believed[length][LEAST_SQUARES]) ||
                !regress(shown, lengths[length], NOISE * NOISE * N, &believed[length][RIDGE]))
                return icl_fail(error, ICL_ERROR_INPUT, "plant-control: sequence %zu: a regression without solution",
                                first + i);
        }
        compare_plant(all, first + i, &truth, believed);
    }
    return ICL_OK;
}

static void fill_numbers(const comparison *all, icl_number *numbers) {
    for (size_t length = 0; length < LENGTHS; length++)
        for (size_t rule = 0; rule < RULES; rule++) {
            const size_t at = (length * RULES + rule) * all->count;
            size_t stable = 0;
            for (size_t i = 0; i < all->count; i++)
                stable += isfinite(all->excess[at + i]);
            const double share = (double)stable / (double)all->count;
            const icl_location error = icl_locate_median(all->errors + at, all->count);
            const icl_location excess = icl_locate_median(all->excess + at, all->count);
            numbers[number_of(length, rule, ERROR)] = (icl_number){error.value, error.standard_error};
            numbers[number_of(length, rule, EXCESS)] = (icl_number){excess.value, excess.standard_error};
            numbers[number_of(length, rule, STABLE)] =
                (icl_number){share, sqrt(share * (1 - share) / (double)all->count)};
        }
    const icl_location ratio = icl_locate_median(all->ratios, all->count);
    numbers[QUADRATIC] = (icl_number){ratio.value, ratio.standard_error};
    numbers[CLOSED].value = all->closed;
    numbers[LEAST].value = all->least;
}

/* Reads the squared errors of predictions behind the longest context. */
static icl_status measure_predictions(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                      icl_number *numbers, icl_error *error) {
    static const char *const names[] = {"model", "ridge:0.1", "ridge:1"};
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const icl_position_score last = icl_reproduce_score(evaluation, names[i])->positions[POSITIONS - 2];
        icl_number *into = &numbers[i == 0 ? PREDICTED : PREDICTED_RIDGE];
        if (!(into->value < last.loss)) /* also if it is NaN */
            *into = (icl_number){last.loss, last.se};
    }
    const icl_position_score floor = icl_reproduce_score(evaluation, "floor")->positions[POSITIONS - 2];
    numbers[FLOOR_BELOW] = (icl_number){floor.minus_model, floor.minus_model_se};
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    comparison all = {.count = 0};
    icl_sequences drawn = {0};
    icl_plant *answers = NULL;
    float *tokens = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(allocate_comparison(study, &all, error));
    ICL_TRY(icl_sequences_create(study->run->params->backend, icl_trainer_task(trained), study->run->params->seed,
                                 &drawn, error));
    ICL_TRY(icl_study_room(study, LENGTHS * drawn.chunk, sizeof *answers, &answers, error));
    ICL_TRY(icl_study_room(study, drawn.chunk, (size_t)POSITIONS * TOKEN * sizeof *tokens, &tokens, error));
    for (size_t first = 0; first < all.count; first += drawn.chunk) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(compare_chunk(study, &drawn, trained, first, &all, answers, tokens, error));
    }
    fill_numbers(&all, numbers);
    status = measure_predictions(study, cell, trained, numbers, error);
done:
    icl_sequences_release(&drawn);
    return status;
}

/* ---- Judging ---- */

static void judge_identities(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;

    ICL_JUDGE(study, .what = "least cost beside Riccati's equation", .quantity = "relative distance",
              .ours = numbers[CLOSED].value, .target = 0, .tolerance = 1e-9, .evidence = ICL_COMPUTED,
              .source = "p^2 tr V");
    ICL_JUDGE(study, .what = "all controllers, the least excess cost", .quantity = "cost over the least, less 1",
              .ours = numbers[LEAST].value, .target = 0, .tolerance = 1e-9, .criterion = ICL_AT_LEAST,
              .evidence = ICL_COMPUTED, .source = "the true plant's controller is the best");
    ICL_JUDGE(study, .what = "an error beside half of it", .quantity = "ratio of excess costs",
              ICL_OURS(numbers[QUADRATIC]), .target = 4, .tolerance = .2, .evidence = ICL_STATED,
              .source = "arXiv 1902.07826, abstract: the square of the error", .note = "medians over plants");
}

static icl_number excess_after(const icl_study *study, const icl_study_cell *cell, size_t length, size_t rule) {
    return icl_over_seeds(study, cell, number_of(length, rule, EXCESS));
}

/* Shows a rule's errors, and for models at the longest context how far their predictions are from the regressions. */
static void show(icl_study *study, const icl_study_cell *cell, size_t rule, const char *name) {
    for (size_t length = 0; length < LENGTHS; length++) {
        const icl_number stable = icl_over_seeds(study, cell, number_of(length, rule, STABLE));
        const icl_number error = icl_over_seeds(study, cell, number_of(length, rule, ERROR));
        ICL_JUDGE(
            study, .what = ICL_PHRASE("%s, %zu pairs", name, lengths[length]),
            .quantity = "median cost over the least, less 1", ICL_OURS(excess_after(study, cell, length, rule)),
            .note = ICL_PHRASE("squared error of (A, B) %.3g; %.4g of controllers stable", error.value, stable.value));
    }
}

/* Models hardly learn at scale ci, where only what holds for every model is judged. */
static icl_evidence evidence_of(const icl_study *study, const icl_study_cell *cell) {
    return study->scale == ICL_SCALE_CI || cell->at[0] != MESA ? ICL_EVIDENCE_NONE : ICL_INFERRED;
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_number ours = icl_over_seeds(study, cell, PREDICTED),
                     ridge = icl_over_seeds(study, cell, PREDICTED_RIDGE);
    const icl_number below = icl_over_seeds(study, cell, FLOOR_BELOW);
    const icl_number regressed = excess_after(study, cell, LENGTHS - 1, LEAST_SQUARES);

    if (cell->at[0] == MESA) {
        judge_identities(study, cell);
        show(study, cell, LEAST_SQUARES, rules[LEAST_SQUARES]);
        show(study, cell, RIDGE, rules[RIDGE]);
    }
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, who knows (A, B) less it", cell->name),
              .quantity = "squared error behind 31 pairs", ICL_OURS(below), .target = 0,
              .tolerance = 4 * below.standard_error, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "no predictor is below it");
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, next state", cell->name), .quantity = "squared error behind 31 pairs",
              ICL_OURS(ours), .target = ridge.value, .tolerance = .1 * ridge.value, .criterion = ICL_AT_MOST,
              .evidence = evidence_of(study, cell), .source = "the better of two ridge regressions",
              .note = ICL_PHRASE("ridge %.4g", ridge.value));
    show(study, cell, MODEL, cell->name);
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, its controllers beside those of least squares", cell->name),
              .quantity = "ratio of median excess costs, 31 pairs",
              .ours = excess_after(study, cell, LENGTHS - 1, MODEL).value / regressed.value, .target = 1,
              .tolerance = .5, .criterion = ICL_AT_MOST, .evidence = evidence_of(study, cell),
              .source = "it identifies the plant as they do");
}

/* ---- Comparing models ---- */

static void draw_excess(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "plant-control", .title = "Control of plants identified in context", .x_label = "pairs seen",
                   .y_label = "median cost over the least, less 1", .log_x = true, .log_y = true);

    for (size_t i = 0; i < study->count; i++)
        for (size_t length = 0; length < LENGTHS; length++) {
            const icl_study_cell *cell = study->cells[i];
            const double pairs = (double)lengths[length];
            for (size_t rule = 0; rule < RULES && cell->is_measured; rule++) {
                const double excess = cell->numbers[number_of(length, rule, EXCESS)].value;
                if (isfinite(excess))
                    icl_study_plot(study, &curves, rule == MODEL ? cell->name : rules[rule],
                                   rule == MODEL ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, pairs, excess);
            }
        }
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    const icl_study_cell *mesa = icl_study_find(study, kinds[MESA].name);
    const icl_study_cell *linear = icl_study_find(study, kinds[LINEAR].name);

    if (mesa->is_measured && linear->is_measured) {
        const icl_number ours = icl_over_seeds(study, mesa, number_of(LENGTHS - 1, MODEL, STABLE));
        const icl_number step = icl_over_seeds(study, linear, number_of(LENGTHS - 1, MODEL, STABLE));
        const icl_number above = {ours.value - step.value, hypot(ours.standard_error, step.standard_error)};
        ICL_JUDGE(study, .what = "mesa layer above linear attention", .quantity = "share of stable controllers",
                  ICL_OURS(above), .target = 3 * above.standard_error, .criterion = ICL_AT_LEAST,
                  .evidence = evidence_of(study, mesa), .source = "one step of descent is no regression",
                  .note = ICL_PHRASE("%.4g and %.4g behind 31 pairs", ours.value, step.value));
    }
    draw_excess(study);
}

const icl_reproduction icl_plant_control =
    ICL_STUDY(.name = "plant-control", .source = "arXiv 1902.07826, 2309.05858",
              .about = "plants x' = A x + B u identified in context, and the cost of the controllers that follow",
              .claim = "A model that learned to predict plants holds a new one's matrices behind its context, and the "
                       "best controller for these costs the true plant little more than the best of all.",
              .scope =
                  "A met table means that a mesa layer holds matrices whose controllers are about as good as those "
                  "of least squares, on plants of four states and two inputs with an orthogonal A; control while "
                  "learning, states seen in part and inputs that are not random were not tested, and at scale ci "
                  "no model is judged but by the floor.",
              .cost = {"5 s", "3 min", "1 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
