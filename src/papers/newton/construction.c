/*
 * Newton's iteration for the inverse as weights of linear attention (Giannou et al. 2024, arXiv 2403.03183), run by the
 * attention op, and the degree of a stack of such layers.
 *
 * Token c holds column c of four blocks [d][d]: X, A, S and I. With keys k, queries q and values v a layer adds
 * sum_j (k_j . q_c) v_j to token c, which is V K^T Q for the blocks that they hold:
 *
 *     layer 1    k = (A, I), q = (X, -S), v = I, into S:    S += I (A X - S) = A X - S
 *     layer 2    k = I, q = I - S, v = X, into X:           X += X (I - S)   = X (2 I - A X)
 *
 * so that two layers are one step, whatever S was. A symmetric. A stack of L layers is a polynomial of its input of
 * degree 3^L, because each layer adds a product of three linear functions of its input; its leading term does not
 * vanish for random weights.
 */
#include <float.h>
#include <math.h>

#include "iclab/random.h"
#include "iclab/tape.h"
#include "numeric/matrix.h"
#include "papers/papers.h"

enum { D = 10, SIZE = D * D, BLOCKS = 4, WIDTH = BLOCKS * D, STEPS = 16, DEPTHS = 3 };
enum { SIDE = 3, SQUARE = SIDE * SIDE, NODES = 64 }; /* of a stack: three tokens of three numbers */
enum { X_BLOCK = 0, A_BLOCK, S_BLOCK, I_BLOCK };
/* Largest differences are relative to the iteration in double. */
enum { DEGREE = 0, DIFFERENCE = 0, BOUND, CONDITION, RESIDUALS, NUMBERS = RESIDUALS + STEPS + 1 };

/* A block of a token times a factor, which is added to place `place` of a query, key or value. */
typedef struct block_map {
    size_t block, place;
    double factor;
} block_map;

enum { LAYERS = 2, QUERIES = 0, KEYS, VALUES, PARTS, MAPS = 2 };

/* Queries, keys and values of both layers; a factor of 0 is no map. */
static const struct {
    size_t width; /* of queries and keys, in blocks */
    block_map maps[PARTS][MAPS];
} layers[LAYERS] = {
    {2, {{{X_BLOCK, 0, 1}, {S_BLOCK, 1, -1}}, {{A_BLOCK, 0, 1}, {I_BLOCK, 1, 1}}, {{I_BLOCK, S_BLOCK, 1}}}},
    {1, {{{I_BLOCK, 0, 1}, {S_BLOCK, 0, -1}}, {{I_BLOCK, 0, 1}}, {{X_BLOCK, X_BLOCK, 1}}}}};

static const size_t contexts[] = {50, 14}; /* samples of A: condition numbers of about 7, and of hundreds */

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("inverse-n%zu", contexts[i]), .at = {contexts[i]});
    for (size_t depth = 1; depth <= DEPTHS; depth++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("degree-L%zu", depth), .at = {0, depth});
}

/* ---- Weights ---- */

/* Writes the weights [1][WIDTH][blocks D] of each map. */
static icl_status open_weights(icl_backend *backend, icl_tensor *weights, icl_error *error) {
    for (size_t i = 0; i < LAYERS * PARTS; i++) {
        const block_map *maps = layers[i / PARTS].maps[i % PARTS];
        const size_t columns = D * (i % PARTS == VALUES ? BLOCKS : layers[i / PARTS].width);
        float values[WIDTH * WIDTH] = {0};
        for (size_t map = 0; map < MAPS; map++)
            for (size_t j = 0; j < D; j++)
                values[(maps[map].block * D + j) * columns + maps[map].place * D + j] += (float)maps[map].factor;
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){1, WIDTH, columns}, &weights[i], error));
        ICL_CHECK(icl_tensor_write(weights[i], values, error));
    }
    return ICL_OK;
}

/* Records both layers on tokens [1][D][WIDTH]. */
static icl_variable record_step(icl_tape *tape, icl_variable tokens, const icl_tensor *weights) {
    const icl_attention_params linear = {.kind = ICL_ATTENTION_LINEAR, .scale = 1};

    for (size_t layer = 0; layer < LAYERS; layer++) {
        icl_variable mapped[PARTS];
        for (size_t part = 0; part < PARTS; part++)
            mapped[part] = icl_tape_matmul(tape, 1, tokens, icl_tape_constant(tape, weights[layer * PARTS + part]));
        tokens = icl_tape_binary(tape, ICL_ADD, tokens,
                                 icl_tape_attention(tape, &linear, mapped[QUERIES], mapped[KEYS], mapped[VALUES]));
    }
    return tokens;
}

/* ---- The inverse ---- */

static double distance(const double *ours, const double *other) {
    double square = 0;

    for (size_t i = 0; i < SIZE; i++)
        square += (ours[i] - other[i]) * (ours[i] - other[i]);
    return sqrt(square);
}

/*
 * Compares X of the tokens with a step of the iteration in double from X_0, and records ||I - A X||.
 *
 * The bound: with u the unit of rounding, a step forms A X - S and X (I - S) as sums of 2 D and D products, and so errs
 * by at most gamma(3 D + 2) ||X|| (1 + 2 ||A|| ||X||) in norms of Frobenius. To first order later steps magnify no
 * error by more than X itself grows: in the eigenbasis of A an error e_ij goes to (2 - s_i - s_j) e_ij, and x_i to
 * (2 - s_i) x_i, with s_i = a_i x_i in (0, 1].
 */
static icl_status compare_step(const icl_study *study, icl_tensor tokens, const double *A, size_t step,
                               const double *expected, icl_number *numbers, icl_error *error) {
    const bool is_double = icl_backend_capabilities(study->run->params->backend)->element_size == sizeof(double);
    const double unit = .5 * (is_double ? DBL_EPSILON : (double)FLT_EPSILON), zeros[SIZE] = {0};
    const double size = distance(expected, zeros);
    double values[D * WIDTH], ours[SIZE], residual[SIZE], smallest;

    ICL_CHECK(icl_tensor_read_double(tokens, values, error));
    for (size_t i = 0; i < SIZE; i++)
        ours[i] = values[i % D * WIDTH + X_BLOCK * D + i / D];
    numbers[DIFFERENCE].value = fmax(numbers[DIFFERENCE].value, distance(ours, expected) / size);
    numbers[CONDITION].value = distance(A, zeros) * size;
    numbers[BOUND].value = (double)step * (3 * D + 2) * unit * (1 + 2 * numbers[CONDITION].value);
    icl_newton_inverse_residual(A, ours, D, residual);
    return icl_singular_extremes(residual, D, D, &smallest, &numbers[RESIDUALS + step].value, error);
}

/* Draws A, and writes the tokens of A and X_0, which are floats on every device. */
static icl_status open_tokens(const icl_study *study, size_t context, icl_tensor *tokens, double *A, double *X,
                              icl_error *error) {
    double row[D];
    float values[D * WIDTH] = {0};

    icl_wishart_sample(D, context, study->run->params->seed, 0, row, A);
    icl_newton_inverse_start(A, D, X);
    for (size_t i = 0; i < SIZE; i++) {
        float *token = values + i % D * WIDTH + i / D;
        token[X_BLOCK * D] = (float)X[i];
        token[A_BLOCK * D] = (float)A[i];
        token[I_BLOCK * D] = i % (D + 1) == 0;
        X[i] = (double)token[X_BLOCK * D];
        A[i] = (double)token[A_BLOCK * D];
    }
    ICL_CHECK(icl_tensor_create(study->run->params->backend, 3, (size_t[]){1, D, WIDTH}, tokens, error));
    return icl_tensor_write(*tokens, values, error);
}

static icl_status measure_inverse(icl_study *study, const icl_study_cell *cell, icl_number *numbers, icl_error *error) {
    icl_backend *backend = study->run->params->backend;
    double A[SIZE], X[SIZE], work[2 * SIZE];
    icl_tensor tokens = {0}, weights[LAYERS * PARTS] = {0};
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    numbers[DIFFERENCE].value = 0;
    ICL_TRY(icl_tape_create(backend, &tape, error));
    ICL_TRY(open_weights(backend, weights, error));
    ICL_TRY(open_tokens(study, cell->at[0], &tokens, A, X, error));
    icl_variable now = icl_tape_constant(tape, tokens);
    for (size_t step = 0; step <= STEPS; step++) {
        ICL_TRY(icl_tape_status(tape, error));
        ICL_TRY(compare_step(study, icl_tape_value(tape, now), A, step, X, numbers, error));
        now = record_step(tape, now, weights);
        icl_newton_inverse_step(A, D, X, work);
    }
done:
    icl_tape_destroy(&tape);
    icl_tensor_release(&tokens);
    for (size_t i = 0; i < LAYERS * PARTS; i++)
        icl_tensor_release(&weights[i]);
    return status;
}

/* ---- The degree ---- */

/* Adds a b, or a b^T, to out; all are [SIDE][SIDE]. */
static void add_product(const double *a, const double *b, bool is_transposed, double *out) {
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++)
            for (size_t k = 0; k < SIDE; k++)
                out[i * SIDE + j] += a[i * SIDE + k] * (is_transposed ? b[j * SIDE + k] : b[k * SIDE + j]);
}

/* Applies layers E += (E K E^T) E V with random K and V to the tokens t U, and returns one number of the output. In
 * double on any device: the leading term of 27 is below the rounding of floats. */
static double apply_stack(uint32_t seed, size_t depth, double t) {
    const icl_random_key key = {seed, 0, 0};
    double tokens[SQUARE];
    uint64_t word = 0;

    for (size_t i = 0; i < SQUARE; i++)
        tokens[i] = t * (double)icl_normal_from_word(icl_random_word(key, word++));
    for (size_t layer = 0; layer < depth; layer++) {
        double weights[2][SQUARE], mapped[2][SQUARE] = {0}, scores[SQUARE] = {0}, added[SQUARE] = {0};
        for (size_t part = 0; part < 2; part++) {
            for (size_t i = 0; i < SQUARE; i++)
                weights[part][i] = (double)icl_normal_from_word(icl_random_word(key, word++));
            add_product(tokens, weights[part], false, mapped[part]);
        }
        add_product(mapped[0], tokens, true, scores);
        add_product(scores, mapped[1], false, added);
        for (size_t i = 0; i < SQUARE; i++)
            tokens[i] += added[i];
    }
    return tokens[0];
}

/* Finds the degree in t of a stack's output from its Chebyshev coefficients on [-1, 1]: the last one above the rounding
 * of a sum of NODES values. A leading coefficient c of t^n is c 2^(1 - n) as a coefficient of T_n. */
static double find_degree(uint32_t seed, size_t depth) {
    double values[NODES], largest = 0;
    size_t degree = 0;

    for (size_t i = 0; i < NODES; i++) {
        values[i] = apply_stack(seed, depth, cos(acos(-1) * ((double)i + .5) / NODES));
        largest = fmax(largest, fabs(values[i]));
    }
    for (size_t n = 1; n < NODES; n++) {
        double sum = 0;
        for (size_t i = 0; i < NODES; i++)
            sum += values[i] * cos(acos(-1) * (double)n * ((double)i + .5) / NODES);
        if (fabs(sum) * 2 / NODES > NODES * DBL_EPSILON * largest)
            degree = n;
    }
    return (double)degree;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    (void)trained;
    if (cell->at[0] > 0)
        return measure_inverse(study, cell, numbers, error);
    numbers[DEGREE].value = find_degree(study->run->params->seed, cell->at[1]);
    return ICL_OK;
}

/* ---- Judging ---- */

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;

    if (cell->at[0] == 0) {
        ICL_JUDGE(study, .what = ICL_PHRASE("%zu layer%s of linear attention", cell->at[1], cell->at[1] > 1 ? "s" : ""),
                  .quantity = "degree of the output", ICL_OURS(numbers[DEGREE]), .target = pow(3, (double)cell->at[1]),
                  .evidence = ICL_COMPUTED, .source = "a layer's degree is 3");
        return;
    }
    ICL_JUDGE(study, .what = ICL_PHRASE("n = %zu, %d layers", cell->at[0], 2 * STEPS),
              .quantity = "difference from Newton's iteration, relative", ICL_OURS(numbers[DIFFERENCE]),
              .tolerance = numbers[BOUND].value, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "two layers are one step");
    ICL_JUDGE(study, .what = ICL_PHRASE("n = %zu, %d layers", cell->at[0], 2 * STEPS), .quantity = "||I - A X||",
              ICL_OURS(numbers[RESIDUALS + STEPS]), .tolerance = numbers[BOUND].value * numbers[CONDITION].value,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "the inverse, to rounding");
}

static void conclude(icl_study *study) {
    icl_curves curves = ICL_CURVES(.name = "newton-layers", .title = "Newton's iteration by layers of linear attention",
                                   .x_label = "pairs of layers", .y_label = "||I - A X||", .log_y = true);

    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->at[0] > 0 && study->cells[i]->is_wanted)
            icl_study_plot_numbers(study, &curves, ICL_PHRASE("n = %zu", study->cells[i]->at[0]), ICL_SERIES_OURS, NULL,
                                   study->cells[i]->numbers + RESIDUALS, STEPS + 1);
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_newton_construction =
    ICL_STUDY(.name = "newton-construction", .source = "arXiv 2403.03183",
              .about =
                  "weights that make two layers of linear attention a step of Newton's iteration; degrees of stacks",
              .claim = "There are weights with which two layers of linear attention are one step of Newton's iteration "
                       "for an inverse, and L layers are a polynomial of degree 3^L.",
              .scope = "A met table means that weights by hand make two layers one Newton step to rounding; "
                       "whether training finds such weights was not tested.",
              .cost = {"1 s", "1 s", NULL}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
