/*
 * Whether softmax attention, with all matrices free, becomes the window over labels of which the theory speaks:
 * Collins et al. 2024 (window.c), whose reviewers asked, "is W_V really like eq. 4 after training?"
 *
 * Here keys, queries and values are maps of whole tokens e_i = (x_i, y_i), the query's y being 0:
 *
 *     prediction = sum_(i <= n) softmax_i(e_i^T M e_q) <v, e_i>,  M [d + 1, d + 1], v [d + 1] from random entries
 *
 * or M = W_K^T W_Q with W_K, W_Q [r, d + 1], r below, at and above d. The restricted model has v = (0, 1) and M = w I
 * on inputs alone. After training the rest must be small: v on inputs, M's row of labels, what is left of M - w I; and
 * the loss must be that of the best w I. With r < d, M cannot be w I, and the loss is above it.
 */
#include <math.h>

#include "core/allocate.h"
#include "iclab/ops.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/window.h"
#include "run/evaluation.h"

enum { D = 5, WIDTH = D + 1, MOST_INNER = 8 };

/* ---- The model ---- */

#define START_STD .3F /* of random entries */

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const size_t inner = *(const size_t *)model->family->settings, width = model->shape.inputs;

    (void)recipe;
    model->dimension = width - 1;
    model->context = model->shape.positions - 1;
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){width, 1}, error, "v"));
    if (inner == 0)
        return icl_model_add_parameter(model, 2, (size_t[]){width, width}, error, "M");
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){width, inner}, error, "keys"));
    return icl_model_add_parameter(model, 2, (size_t[]){width, inner}, error, "queries");
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->size; i++)
        values[i] = START_STD * icl_model_noise(seed, i);
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable tokens,
                            size_t depth) {
    const icl_attention_params attention = {.kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_QUERY_EXCLUDED, .scale = 1};
    const bool is_factored = model->parameter_count == 3;
    const icl_variable query = icl_tape_slice(tape, tokens, 1, model->context, 1);
    const icl_variable keys = is_factored ? icl_tape_matmul(tape, 1, tokens, parameters[1]) : tokens;
    const icl_variable mapped =
        icl_tape_matmul(tape, 1, query, is_factored ? parameters[2] : icl_tape_swap_axes(tape, parameters[1], 0, 1));

    (void)depth;
    return icl_tape_attention(tape, &attention, mapped, keys, icl_tape_matmul(tape, 1, tokens, parameters[0]));
}

/* ---- Cells ---- */

/* Keys and queries of r numbers; 0: M itself. */
static const size_t inner_widths[] = {0, 3, D, MOST_INNER};

static const struct {
    size_t steps, batch, sequences;
} budgets[ICL_SCALES] = {{1500, 512, 16384}, {6000, 1024, 65536}, {20000, 2048, 262144}};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof inner_widths / sizeof *inner_widths; i++)
        ICL_ADD_CELL(study, .name = inner_widths[i] > 0 ? ICL_PHRASE("r = %zu", inner_widths[i]) : "M free",
                     .recipe = "window", .is_untrained = true, .data = &inner_widths[i],
                     .settings = {ICL_PHRASE("task.d=%d task.n=20 task.lipschitz=10 task.noise=fixed:1 train.steps=%zu "
                                             "train.batch=%zu train.learning_rate=0.05 train.schedule=cosine",
                                             D, budgets[study->scale].steps, budgets[study->scale].batch)});
}

/* ---- Measuring ---- */

/* VALUE is v on the label, and all else is beside it: v's largest entry on inputs, M's of labels' row. */
enum { VALUE = 0, VALUE_ROW, WIDTH_OF_WINDOW, DISTANCE, LABEL_ROW, BEST, RATIO, NUMBERS };

/* Returns M [WIDTH][WIDTH], of keys by queries. */
static void multiply_factors(const float *values, size_t inner, double *M) {
    const float *keys = values + WIDTH, *queries = keys + WIDTH * inner;

    for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++) {
        M[i] = inner == 0 ? (double)keys[i] : 0;
        for (size_t k = 0; k < inner; k++)
            M[i] += (double)keys[i / WIDTH * inner + k] * (double)queries[i % WIDTH * inner + k];
    }
}

static void describe(const float *values, size_t inner, icl_number *numbers) {
    double M[WIDTH * WIDTH], of_inputs[D * D], value_row = 0, label_row = 0;

    multiply_factors(values, inner, M);
    for (size_t i = 0; i < D; i++) {
        value_row = fmax(value_row, fabs((double)values[i]));
        label_row = fmax(label_row, fabs(M[D * WIDTH + i]));
        for (size_t j = 0; j < D; j++)
            of_inputs[i * D + j] = M[i * WIDTH + j];
    }
    numbers[VALUE].value = (double)values[D];
    numbers[VALUE_ROW].value = value_row;
    numbers[WIDTH_OF_WINDOW].value = icl_matrix_multiple(of_inputs, D);
    numbers[DISTANCE].value = icl_matrix_distance(of_inputs, D);
    numbers[LABEL_ROW].value = label_row;
}

/* Returns what the window w I predicts for a sequence. */
static double predict_by_window(const float *tokens, size_t n, double width) {
    const float *query = tokens + n * WIDTH;
    double sum = 0, labels = 0;

    for (size_t i = 0; i < n; i++) {
        double score = -1; /* products of unit vectors are at most 1 */
        for (size_t j = 0; j < D; j++)
            score += (double)tokens[i * WIDTH + j] * (double)query[j];
        const double weight = exp(width * score);
        sum += weight;
        labels += weight * (double)tokens[i * WIDTH + D];
    }
    return labels / sum;
}

/* Returns the loss over that of the best window on the same sequences; its error contains only what the two do not
 * share. */
static icl_status compare(const icl_study *study, icl_trainer *trainer, double width, icl_number *ratio,
                          icl_error *error) {
    const size_t count = budgets[study->scale].sequences;
    const icl_task *task = icl_trainer_task(trainer);
    const size_t n = icl_task_context(task);
    icl_sequences drawn = {0};
    double *losses = NULL, *others = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_room(study, count, sizeof *losses, &losses, error));
    ICL_TRY(icl_study_room(study, count, sizeof *others, &others, error));
    ICL_TRY(icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &drawn, error));
    for (size_t i = 0; i < count; i++) {
        const size_t at = i % drawn.chunk;
        if (at == 0) {
            ICL_TRY(icl_reproduce_poll(study->run, error));
            ICL_TRY(icl_sequences_sample(&drawn, i / drawn.chunk, error));
            ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
            ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        }
        const double target = (double)drawn.targets[at];
        losses[i] = pow((double)drawn.model[at] - target, 2);
        others[i] = pow(predict_by_window(drawn.inputs + at * (n + 1) * WIDTH, n, width) - target, 2);
    }
    const double other = icl_mean(others, count);
    ratio->value = icl_mean(losses, count) / other;
    for (size_t i = 0; i < count; i++)
        losses[i] -= ratio->value * others[i];
    ratio->standard_error = icl_standard_error(losses, count) / other;
done:
    icl_sequences_release(&drawn);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *start, icl_number *numbers,
                          icl_error *error) {
    const size_t inner = *(const size_t *)cell->data;
    const icl_model_family family = {.name = "attention of whole tokens",
                                     .settings = &inner,
                                     .create = create,
                                     .initialize = initialize,
                                     .predict = predict};
    const icl_trainer_parts parts = {.model = &family};
    const icl_reproduce_params *params = study->run->params;
    float values[WIDTH * (1 + 2 * MOST_INNER)];
    icl_window_set fitting = {0};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    (void)start;
    ICL_TRY(icl_trainer_create_with(params->backend, &parts, cell->complete, &trainer, error));
    for (size_t step = 0; step < budgets[study->scale].steps; step += 100) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_trainer_run(trainer, 100, error));
    }
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    describe(values, inner, numbers);
    ICL_TRY(icl_window_draw(params->backend, cell->complete, ICL_FOR_FITTING, params->seed,
                            budgets[study->scale].sequences, &fitting, error));
    numbers[BEST].value = icl_window_search(&fitting, NULL);
    ICL_TRY(compare(study, trainer, numbers[BEST].value, &numbers[RATIO], error));
done:
    icl_window_release(&fitting);
    icl_trainer_destroy(&trainer);
    return status;
}

/* ---- Judging ---- */

/* Steps leave noise in what the loss hardly sees, less the longer they go on. */
static const double value_rows[ICL_SCALES] = {.1, .03, .01};

static void judge(icl_study *study, const icl_study_cell *cell) {
    const size_t inner = *(const size_t *)cell->data;
    const bool has_room = inner == 0 || inner >= D;
    const icl_number *numbers = cell->numbers;
    const icl_evidence computed = has_room ? ICL_COMPUTED : ICL_EVIDENCE_NONE;
    const icl_evidence read = has_room ? ICL_READ : ICL_EVIDENCE_NONE;

    ICL_JUDGE(study, .quantity = "v on the label", ICL_OURS(numbers[VALUE]), .target = 1, .tolerance = .02,
              .evidence = read, .source = "lemma B.1: values are labels");
    ICL_JUDGE(study, .quantity = "v on inputs, largest", ICL_OURS(numbers[VALUE_ROW]),
              .target = value_rows[study->scale], .criterion = ICL_AT_MOST, .evidence = read,
              .source = "lemma B.1: values are labels");
    ICL_JUDGE(study, .quantity = "M's row of labels, largest", ICL_OURS(numbers[LABEL_ROW]), .target = .05,
              .criterion = ICL_AT_MOST, .evidence = read, .source = "lemma B.1: scores see inputs");
    ICL_JUDGE(study, .quantity = "w of M on inputs", ICL_OURS(numbers[WIDTH_OF_WINDOW]), .target = numbers[BEST].value,
              .tolerance = .1 * numbers[BEST].value, .evidence = computed, .source = "best w I, searched for here",
              .note = ICL_PHRASE("Dist(M, I) %.3g", numbers[DISTANCE].value));
    ICL_JUDGE(study, .quantity = "loss / best window's", ICL_OURS(numbers[RATIO]), .target = 1,
              .tolerance = .01 + 3 * numbers[RATIO].standard_error, .criterion = has_room ? ICL_AT_MOST : ICL_AT_LEAST,
              .evidence = ICL_COMPUTED,
              .source = has_room ? "best w I, searched for here" : "M of rank r < d is not w I");
}

const icl_reproduction icl_window_values =
    ICL_STUDY(.name = "window-values", .source = "arXiv 2402.11639, lemma B.1 and its reviewers",
              .about = "softmax attention with all matrices free, beside the window over labels of the theory",
              .claim = "Softmax attention whose keys, queries and values are all free learns a window w I over inputs "
                       "and values that are the labels alone.",
              .scope = "A met table means that one layer with all matrices free, from random entries, ends at "
                       "the theory's window over labels; d 5 and one noise were tested, several heads were not.",
              .cost = {"10 s", "2 min", "20 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure,
              .judge = judge);
