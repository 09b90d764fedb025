/*
 * What training changes has few directions, and few neurons carry it: Li and others 2024, "Learning on Transformers is
 * provable low-rank and sparse: a one-layer analysis" (arXiv 2406.17167). The abstract says that the change of the
 * weights is of low rank, by the number of patterns that labels depend on, and that neurons of small magnitude can be
 * pruned at little loss. Neither settings nor numbers were at hand: these are checks of our own, on models that iclab
 * trains, and every target follows from the abstract alone.
 *
 * Directions: softmax attention with one matrix M [d, d] learns functions of k of d = 16 directions (arXiv 2402.11639).
 * What lies outside of them is drawn anew for every input, so that the gradient's expectation stays within the k: M
 * changes along them, and k singular values alike carry the change.
 *
 * Patterns: one block of softmax attention and a feed-forward of ReLUs learns, by plain gradient descent, which of K
 * patterns the query shows, each with its own label; the context shows others, which say nothing. What stands before
 * the readout changes along few directions for another reason, too: K labels have K - 1 differences. What reads, the
 * embedding and the way into the feed-forward, could change along all 32.
 *
 * Neurons of small magnitude can be pruned at little loss. A neuron's magnitude is the norm of what it reads times that
 * of what it writes. Eight patterns of two labels in four dimensions, where no linear map tells them apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "model/named_matrix.h"
#include "numeric/singular.h"
#include "papers/papers.h"
#include "papers/study.h"

/* ---- Cells ---- */

enum { D = 16, WIDTH = 32, HIDDEN = 4 * WIDTH };

typedef enum change_kind { DIRECTIONS = 0, PATTERNS, NEURONS } change_kind;

typedef struct change_cell {
    const char *name;
    change_kind kind;
    size_t patterns; /* or directions */
    icl_scale first;
} change_cell;

static const change_cell cells[] = {
    {"directions-1", DIRECTIONS, 1, ICL_SCALE_SHORT},
    {"patterns-2", PATTERNS, 2, ICL_SCALE_SHORT},
    {"directions-2", DIRECTIONS, 2, ICL_SCALE_CI},
    {"patterns-4", PATTERNS, 4, ICL_SCALE_CI},
    {"directions-4", DIRECTIONS, 4, ICL_SCALE_SHORT},
    {"patterns-8", PATTERNS, 8, ICL_SCALE_SHORT},
    {"neurons", NEURONS, 8, ICL_SCALE_CI},
};

static const struct {
    size_t window_steps, block_steps, sequences;
} budgets[ICL_SCALES] = {{100, 300, 2048}, {600, 1000, 20000}, {6000, 10000, 100000}};

/* Noisy patterns, each with a label of its own, or eight with two labels in four dimensions. */
static void add_block(icl_study *study, const change_cell *cell) {
    const bool is_small = cell->kind == NEURONS;

    ICL_ADD_CELL(
        study, .name = cell->name, .recipe = "classification", .seed = icl_study_seed(study, 0), .data = cell,
        .settings = {ICL_PHRASE("task.classes=%zu task.label_count=%zu task.item_size=%d task.spread=%g "
                                "task.bursty=0",
                                cell->patterns, is_small ? 2 : cell->patterns, is_small ? 4 : WIDTH, is_small ? .3 : 1),
                     ICL_PHRASE("model.layers=1 model.width=%d model.heads=1 model.positions=none "
                                "model.norm=none model.init=0.05 eval.predictors= eval.sequences=%zu",
                                WIDTH, budgets[study->scale].sequences),
                     "train.optimizer=sgd train.learning_rate=0.03 train.schedule=constant train.warmup=0 "
                     "train.clip=0 train.batch=64",
                     ICL_PHRASE("train.steps=%zu", budgets[study->scale].block_steps)});
}

static void add_window(icl_study *study, const change_cell *cell) {
    ICL_ADD_CELL(study, .name = cell->name, .recipe = "window", .seed = icl_study_seed(study, 0), .data = cell,
                 .settings = {"model.initialization=normal train.optimizer=sgd train.momentum=0.9 "
                              "train.learning_rate=3 train.schedule=constant",
                              ICL_PHRASE("task.d=%d task.n=40 task.subspace=%zu train.steps=%zu", D, cell->patterns,
                                         budgets[study->scale].window_steps)});
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (study->scale >= cells[i].first)
            (cells[i].kind == DIRECTIONS ? add_window : add_block)(study, &cells[i]);
}

/* ---- What changed ---- */

static const struct {
    const char *name, *what;
    size_t rows, columns;
} matrices[] = {{"embedding.weight", "embedding", WIDTH, WIDTH},
                {"block.0.mixer.value", "values", WIDTH, WIDTH},
                {"block.0.mixer.output", "output of attention", WIDTH, WIDTH},
                {"block.0.feed_forward.down", "feed-forward, down", HIDDEN, WIDTH},
                {"block.0.feed_forward.up", "feed-forward, up", WIDTH, HIDDEN}};

/* Of the change of each matrix: the share of the first singular values in the sum of squares, the same of the random
 * matrix that it began with, and the effective rank; the singular values over the largest, of the last matrix; the
 * share of the change within the directions; and what is left where quarters of the neurons are gone, the smallest
 * first and the largest first. */
enum { MATRICES = sizeof matrices / sizeof *matrices, QUARTERS = 4, HALF = QUARTERS / 2 };
enum {
    TOP = 0,
    TOP_BEFORE = TOP + MATRICES,
    RANK = TOP_BEFORE + MATRICES,
    VALUES = RANK + MATRICES,
    INSIDE = VALUES + D,
    LOSS,
    ACCURACY = LOSS + 2 * QUARTERS,
    NUMBERS = ACCURACY + 2 * QUARTERS
};

/* The parameters of a model before and after its training. */
typedef struct parameters {
    const icl_model *model;
    float *before, *after;
} parameters;

static double share_of(const double *values, size_t count, size_t first) {
    double sum = 0, top = 0;

    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
        top += i < first ? values[i] * values[i] : 0;
    }
    return top / sum;
}

static icl_status find_change(const parameters *all, const char *name, size_t rows, size_t columns, size_t first,
                              size_t matrix, icl_number *numbers, icl_error *error) {
    double before[WIDTH * HIDDEN], after[WIDTH * HIDDEN], values[WIDTH];
    const size_t count = rows < columns ? rows : columns;

    ICL_CHECK(icl_matrix_of_model(all->model, all->before, name, rows, columns, before, error));
    ICL_CHECK(icl_matrix_of_model(all->model, all->after, name, rows, columns, after, error));
    for (size_t i = 0; i < rows * columns; i++)
        after[i] -= before[i];
    ICL_CHECK(icl_singular_values(before, rows, columns, values, error));
    numbers[TOP_BEFORE + matrix].value = share_of(values, count, first);
    ICL_CHECK(icl_singular_values(after, rows, columns, values, error));
    numbers[TOP + matrix].value = share_of(values, count, first);
    numbers[RANK + matrix].value = icl_entropy_rank(values, count);
    for (size_t k = 0; k < D; k++)
        numbers[VALUES + k].value = values[k] / values[0];
    return ICL_OK;
}

/* ||B^T C B||^2 / ||C||^2 of the change C, B the first k columns of the rotation. */
static double share_inside(const double *C, const double *rotation, size_t k) {
    double inside = 0, all = 0;

    for (size_t a = 0; a < k; a++)
        for (size_t b = 0; b < k; b++) {
            double sum = 0;
            for (size_t i = 0; i < (size_t)D * D; i++)
                sum += rotation[i / D * D + a] * C[i] * rotation[i % D * D + b];
            inside += sum * sum;
        }
    for (size_t i = 0; i < (size_t)D * D; i++)
        all += C[i] * C[i];
    return inside / all;
}

static icl_status measure_window(icl_trainer *trained, const parameters *all, size_t k, icl_number *numbers,
                                 icl_error *error) {
    double moved[D * D];

    for (size_t i = 0; i < (size_t)D * D; i++) /* M is all that the model has */
        moved[i] = (double)all->after[i] - (double)all->before[i];
    numbers[INSIDE].value = share_inside(moved, icl_task_get_prior(icl_trainer_task(trained))->subspace_rotation, k);
    return find_change(all, "M", D, D, k, 0, numbers, error);
}

static icl_status measure_patterns(const parameters *all, size_t patterns, icl_number *numbers, icl_error *error) {
    for (size_t i = 0; i < MATRICES; i++)
        ICL_CHECK(
            find_change(all, matrices[i].name, matrices[i].rows, matrices[i].columns, patterns, i, numbers, error));
    return ICL_OK;
}

/* ---- Neurons ---- */

typedef struct neuron {
    size_t index;
    double magnitude;
} neuron;

static int by_magnitude(const void *left, const void *right) {
    const neuron *a = left, *b = right;
    return (a->magnitude > b->magnitude) - (a->magnitude < b->magnitude);
}

/* Neurons in ascending order of magnitude. */
static icl_status rank_neurons(const icl_model *model, const float *values, neuron *neurons, icl_error *error) {
    double up[WIDTH * HIDDEN], down[HIDDEN * WIDTH];

    ICL_CHECK(icl_matrix_of_model(model, values, "block.0.feed_forward.up", WIDTH, HIDDEN, up, error));
    ICL_CHECK(icl_matrix_of_model(model, values, "block.0.feed_forward.down", HIDDEN, WIDTH, down, error));
    for (size_t j = 0; j < HIDDEN; j++) {
        double reads = 0, writes = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            reads += up[i * HIDDEN + j] * up[i * HIDDEN + j];
            writes += down[j * WIDTH + i] * down[j * WIDTH + i];
        }
        neurons[j] = (neuron){j, sqrt(reads * writes)};
    }
    qsort(neurons, HIDDEN, sizeof *neurons, by_magnitude);
    return ICL_OK;
}

/* What a neuron writes, set to 0: it is gone. */
static void silence(const icl_model *model, size_t index, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, "block.0.feed_forward.down") == 0)
            memset(values + info->offset + index * WIDTH, 0, WIDTH * sizeof *values);
    }
}

/* The loss and accuracy without quarters of the neurons. */
static icl_status measure_neurons(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  const parameters *all, icl_number *numbers, icl_error *error) {
    neuron neurons[HIDDEN];

    ICL_CHECK(rank_neurons(all->model, all->after, neurons, error));
    for (size_t i = 0; i < 2 * QUARTERS; i++) {
        const bool largest = i >= QUARTERS;
        icl_evaluation *evaluation = NULL;
        memcpy(all->before, all->after, icl_model_size(all->model) * sizeof *all->before);
        for (size_t gone = 0; gone < i % QUARTERS * HIDDEN / QUARTERS; gone++)
            silence(all->model, neurons[largest ? HIDDEN - 1 - gone : gone].index, all->before);
        ICL_CHECK(icl_trainer_set_parameters(trained, all->before, error));
        ICL_CHECK(icl_evaluate(study->run->params->backend, trained, cell->complete, &evaluation, error));
        numbers[LOSS + i].value = evaluation->scores[0].mse;
        numbers[ACCURACY + i].value = evaluation->scores[0].accuracy;
        icl_evaluation_destroy(&evaluation);
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const change_cell *change = cell->data;
    parameters all = {.model = icl_trainer_model(trained)};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(all.model), sizeof *all.before, "parameters", &all.before, error));
    ICL_TRY(icl_allocate(icl_model_size(all.model), sizeof *all.after, "parameters", &all.after, error));
    icl_model_initialize(all.model, cell->seed, all.before);
    ICL_TRY(icl_trainer_get_parameters(trained, all.after, error));
    if (change->kind == DIRECTIONS)
        status = measure_window(trained, &all, change->patterns, numbers, error);
    else if (change->kind == PATTERNS)
        status = measure_patterns(&all, change->patterns, numbers, error);
    else
        status = measure_neurons(study, cell, trained, &all, numbers, error);
done:
    icl_free(&all.before);
    icl_free(&all.after);
    return status;
}

/* ---- Judging ---- */

#define SHARE "share of %zu singular values in the change's square"

static void judge_window(icl_study *study, const icl_number *numbers, size_t k) {
    const icl_phrase what = icl_phrase_print("attention, %zu of %d directions", k, D);

    ICL_JUDGE(study, .what = what.text, .quantity = ICL_PHRASE(SHARE, k), ICL_OURS(numbers[TOP]), .target = 1,
              .tolerance = .05, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
              .source = "rank by relevant directions",
              .note = ICL_PHRASE("the next is %.3f of the first", numbers[VALUES + k].value));
    ICL_JUDGE(study, .what = what.text, .quantity = "smallest of these over the largest",
              ICL_OURS(numbers[VALUES + k - 1]), .target = .5, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
              .source = "no direction before another");
    ICL_JUDGE(study, .what = what.text, .quantity = "share of the change within the directions",
              ICL_OURS(numbers[INSIDE]), .target = 1, .tolerance = .05, .criterion = ICL_AT_LEAST,
              .evidence = ICL_INFERRED, .source = "the gradient's expectation");
}

/* The way into the feed-forward, the last matrix, is judged further. */
static void judge_patterns(icl_study *study, const icl_number *numbers, size_t patterns) {
    for (size_t i = 0; i < MATRICES; i++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%zu patterns: %s", patterns, matrices[i].what),
                  .quantity = ICL_PHRASE(SHARE, patterns), ICL_OURS(numbers[TOP + i]), .target = 1, .tolerance = .1,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "rank by relevant patterns",
                  .note = ICL_PHRASE("effective rank %.2f of %d; of the matrix at the start the share is %.2f",
                                     numbers[RANK + i].value, WIDTH, numbers[TOP_BEFORE + i].value));
    ICL_JUDGE(study, .what = ICL_PHRASE("%zu patterns: %s", patterns, matrices[MATRICES - 1].what),
              .quantity = "effective rank of the change", ICL_OURS(numbers[RANK + MATRICES - 1]),
              .target = (double)patterns, .tolerance = .3 * (double)patterns, .evidence = ICL_INFERRED,
              .source = "rank by relevant patterns");
}

static void judge_neurons(icl_study *study, const icl_number *numbers) {
    static const char *const what = "half of the neurons pruned";
    const icl_number *loss = numbers + LOSS, *accuracy = numbers + ACCURACY;
    const double smallest = loss[HALF].value - loss[0].value, largest = loss[QUARTERS + HALF].value - loss[0].value;
    const icl_phrase note = icl_phrase_print("loss %.4f, the smallest gone %.4f, the largest %.4f", loss[0].value,
                                             loss[HALF].value, loss[QUARTERS + HALF].value);

    ICL_JUDGE(study, .what = what, .quantity = "accuracy lost, the smallest gone",
              .ours = accuracy[0].value - accuracy[HALF].value, .tolerance = .02, .criterion = ICL_AT_MOST,
              .evidence = ICL_INFERRED, .source = "pruned at little loss", .note = note.text);
    ICL_JUDGE(study, .what = what, .quantity = "accuracy lost, the largest gone",
              .ours = accuracy[0].value - accuracy[QUARTERS + HALF].value, .target = .1, .criterion = ICL_AT_LEAST,
              .evidence = ICL_INFERRED, .source = "few neurons carry it");
    ICL_JUDGE(study, .what = what, .quantity = "loss added, the smallest over the largest gone",
              .ours = smallest / largest, .target = .1, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
              .source = "few neurons carry it", .note = note.text);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const change_cell *change = cell->data;

    if (change->kind == DIRECTIONS)
        judge_window(study, cell->numbers, change->patterns);
    else if (change->kind == PATTERNS)
        judge_patterns(study, cell->numbers, change->patterns);
    else
        judge_neurons(study, cell->numbers);
}

/* ---- Figures ---- */

static void plot_values(icl_study *study, const icl_study_cell *cell, icl_curves *curves) {
    const change_cell *change = cell->data;
    const bool is_window = change->kind == DIRECTIONS;

    for (size_t k = 0; k < D; k++)
        icl_study_plot(
            study, curves,
            ICL_PHRASE(is_window ? "attention, directions: %zu" : "feed-forward, patterns: %zu", change->patterns),
            is_window ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, (double)(k + 1), cell->numbers[VALUES + k].value);
}

static void plot_pruning(icl_study *study, const icl_study_cell *cell, icl_curves *curves) {
    for (size_t i = 0; i < 2 * QUARTERS; i++)
        icl_study_plot(study, curves, i < QUARTERS ? "the smallest first" : "the largest first",
                       i < QUARTERS ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, (double)(i % QUARTERS) / QUARTERS,
                       cell->numbers[ACCURACY + i].value);
}

static void conclude(icl_study *study) {
    icl_curves values = {.figure = {.name = "singular-values",
                                    .title = "Singular values of what training changed",
                                    .x_label = "number of the singular value",
                                    .y_label = "over the largest",
                                    .log_y = true,
                                    .least_y = 1e-4}};
    icl_curves pruning = {.figure = {.name = "pruning",
                                     .title = "Neurons pruned by magnitude",
                                     .x_label = "share of the neurons that is gone",
                                     .y_label = "accuracy"}};

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->is_measured && ((const change_cell *)cell->data)->kind == NEURONS)
            plot_pruning(study, cell, &pruning);
        else if (cell->is_measured)
            plot_values(study, cell, &values);
    }
    icl_study_draw(study, &pruning);
    icl_study_draw(study, &values);
}

const icl_reproduction icl_lowrank_update = {
    .name = "lowrank-update",
    .source = "arXiv 2406.17167",
    .about = "what training changes has few directions, and few neurons carry it: checks of our own",
    .claim = "Training changes a transformer's weights along about as many directions as there are patterns that "
             "matter, and neurons of small magnitude can be pruned at little loss.",
    .cost = {"1 s", "10 s", "1 min"},
    .numbers = NUMBERS,
    .plan = plan,
    .measure = measure,
    .judge = judge,
    .conclude = conclude,
};
