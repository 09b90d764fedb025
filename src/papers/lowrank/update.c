/*
 * Training changes weights in few directions, and few neurons carry the change: Li and others 2024, "Learning on
 * Transformers is provable low-rank and sparse: a one-layer analysis" (arXiv 2406.17167). The abstract says that the
 * change of the weights is of low rank, by the number of patterns that labels depend on, and that neurons of small
 * magnitude can be pruned at little loss. Neither settings nor numbers were at hand: these are our own checks, on
 * models that iclab trains, and every target follows only from the abstract.
 *
 * Directions: softmax attention with one matrix M [d, d] learns functions of k of d = 16 directions (arXiv 2402.11639).
 * Components outside of them are drawn anew for every input, so that the gradient's expectation stays within the k: M
 * changes along them, and k similar singular values carry the change.
 *
 * Patterns: one block of softmax attention and a feed-forward of ReLUs learns, by plain gradient descent, which of K
 * patterns the query shows, each with its own label; the context shows others, which say nothing. The matrices just
 * before the readout change along few directions for another reason, too: K labels have K - 1 differences. The matrices
 * that read, the embedding and the way into the feed-forward, could change along all 32.
 *
 * Contexts: the same block learns in context (Li and others 2024, "How do nonlinear transformers learn and generalize
 * in in-context learning", arXiv 2402.15607). A context holds pairs of an item and its label of several of K patterns,
 * whose labels are drawn anew for each context; the label of the query's pattern is asked for. Pairs of that pattern
 * are the relevant tokens: trained attention is to find them, and queries and keys are to change along the K patterns.
 *
 * Neurons of small magnitude can be pruned at little loss. A neuron's magnitude is the norm of what it reads times that
 * of what it writes. Eight patterns of two labels in four dimensions, where no linear map tells them apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/activations.h"
#include "task/parts.h"

enum { D = 16, WIDTH = 32, HIDDEN = 4 * WIDTH };

/* ---- What changed ---- */

static const struct {
    const char *name, *what;
    size_t rows, columns;
} matrices[] = {{"embedding.weight", "embedding", WIDTH, WIDTH},
                {"block.0.mixer.value", "values", WIDTH, WIDTH},
                {"block.0.mixer.output", "output of attention", WIDTH, WIDTH},
                {"block.0.feed_forward.down", "feed-forward, down", HIDDEN, WIDTH},
                {"block.0.feed_forward.up", "feed-forward, up", WIDTH, HIDDEN}};

enum { MATRICES = sizeof matrices / sizeof *matrices, EIGHTHS = 8, HALF = EIGHTHS / 2 };
enum {
    TOP = 0,                       /* by matrix: share of the largest singular values in the squared change */
    TOP_BEFORE = TOP + MATRICES,   /* the same for the random matrix before training */
    RANK = TOP_BEFORE + MATRICES,  /* effective rank of the change */
    VALUES = RANK + MATRICES,      /* singular values of the last matrix's change, over the largest */
    INSIDE = VALUES + D,           /* share of the change within the directions */
    RELEVANT,                      /* share of the query's attention on relevant tokens, after and */
    RELEVANT_BEFORE,               /* before training */
    LOSS,                          /* by eighths of the neurons removed, the smallest first, then */
    ACCURACY = LOSS + 2 * EIGHTHS, /* the largest first */
    NUMBERS = ACCURACY + 2 * EIGHTHS
};

/* A trained cell: its model, and its parameters before and after training. */
typedef struct trained_cell {
    icl_study *study;
    const icl_study_cell *cell;
    icl_trainer *trainer;
    const icl_model *model;
    float *before, *after;
    icl_number *numbers;
} trained_cell;

static double share_of(const double *values, size_t count, size_t first) {
    double sum = 0, top = 0;

    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
        top += i < first ? values[i] * values[i] : 0;
    }
    return top / sum;
}

/* Fills the numbers of matrix `index` with the change of the matrix of that name. */
static icl_status find_change(const trained_cell *cells, size_t index, const char *name, size_t rows, size_t columns,
                              icl_error *error) {
    const size_t first = cells->cell->at[0];
    icl_number *numbers = cells->numbers;
    double before[WIDTH * HIDDEN], after[WIDTH * HIDDEN], values[WIDTH];
    const size_t count = rows < columns ? rows : columns;

    ICL_CHECK(icl_matrix_of_model(cells->model, cells->before, name, rows, columns, before, error));
    ICL_CHECK(icl_matrix_of_model(cells->model, cells->after, name, rows, columns, after, error));
    for (size_t i = 0; i < rows * columns; i++)
        after[i] -= before[i];
    ICL_CHECK(icl_singular_values(before, rows, columns, values, error));
    numbers[TOP_BEFORE + index].value = share_of(values, count, first);
    ICL_CHECK(icl_singular_values(after, rows, columns, values, error));
    numbers[TOP + index].value = share_of(values, count, first);
    numbers[RANK + index].value = icl_entropy_rank(values, count);
    for (size_t k = 0; k < D; k++)
        numbers[VALUES + k].value = values[k] / values[0];
    return ICL_OK;
}

/* Returns ||B^T C B||^2 / ||C||^2 of the change C, B the first k columns of the rotation. */
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

static icl_status measure_window(const trained_cell *cells, icl_error *error) {
    const double *rotation = icl_task_subspace(icl_trainer_task(cells->trainer)).rotation;
    double moved[D * D];

    for (size_t i = 0; i < (size_t)D * D; i++) /* the model has no parameters but M */
        moved[i] = (double)cells->after[i] - (double)cells->before[i];
    cells->numbers[INSIDE].value = share_inside(moved, rotation, cells->cell->at[0]);
    return find_change(cells, 0, "M", D, D, error);
}

static icl_status measure_patterns(const trained_cell *cells, icl_error *error) {
    for (size_t i = 0; i < MATRICES; i++)
        ICL_CHECK(find_change(cells, i, matrices[i].name, matrices[i].rows, matrices[i].columns, error));
    return ICL_OK;
}

/* ---- Contexts ---- */

enum { SEQUENCES = 512 };

/* Measures how much of the attention of queries to pairs lies on those with the right label, with these parameters.
 * The attention of a query to itself does not count: it is of the pattern, too, but has no label, and in the paper a
 * query sees pairs alone. */
static icl_status measure_share(const trained_cell *cells, const float *values, const icl_batch *batch,
                                const bool *relevant, icl_number *share, icl_error *error) {
    icl_backend *backend = cells->study->run->params->backend;
    const size_t size = icl_model_size(cells->model), positions = batch->shape.positions;
    icl_attention_maps maps = {0};
    icl_tensor parameters = {0};
    icl_status status = ICL_OK;
    double shares[SEQUENCES] = {0};

    ICL_TRY(icl_tensor_create(backend, 1, &size, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_attention_maps_measure(cells->model, backend, parameters, batch->inputs, &maps, error));
    const icl_attention_map *map = &maps.maps[0];
    for (size_t i = 0; i < SEQUENCES * positions; i++)
        if (relevant[i])
            shares[i / positions] += icl_attention_weight(map, i / positions, 0, map->queries - 1, i % positions);
    for (size_t i = 0; i < SEQUENCES; i++)
        shares[i] /= 1 - icl_attention_weight(map, i, 0, map->queries - 1, positions - 1);
    *share = (icl_number){icl_mean(shares, SEQUENCES), icl_standard_error(shares, SEQUENCES)};
done:
    icl_attention_maps_release(&maps);
    icl_tensor_release(&parameters);
    return status;
}

static icl_status measure_contexts(const trained_cell *cells, icl_error *error) {
    static const char *const names[] = {"block.0.mixer.query", "block.0.mixer.key"};
    const icl_task *task = icl_trainer_task(cells->trainer);
    const icl_classification_state *state = task->state;
    const size_t positions = task->shape.positions, width = task->shape.inputs, size = state->item_size;
    float *inputs = NULL, *targets = NULL;
    bool *relevant = NULL;
    icl_batch batch;

    ICL_CHECK(icl_study_batch(cells->study, task, SEQUENCES, 0, 0, &batch, error));
    ICL_CHECK(icl_study_read(cells->study, batch.inputs, &inputs, error));
    ICL_CHECK(icl_study_read(cells->study, batch.targets, &targets, error));
    ICL_CHECK(icl_study_room(cells->study, SEQUENCES * positions, sizeof *relevant, &relevant, error));
    for (size_t i = 0; i < SEQUENCES * positions; i++)
        relevant[i] = memcmp(inputs + i * width + size, state->label_vectors + (size_t)targets[i / positions] * size,
                             size * sizeof *inputs) == 0;
    ICL_CHECK(measure_share(cells, cells->before, &batch, relevant, &cells->numbers[RELEVANT_BEFORE], error));
    ICL_CHECK(measure_share(cells, cells->after, &batch, relevant, &cells->numbers[RELEVANT], error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ICL_CHECK(find_change(cells, i, names[i], WIDTH, WIDTH, error));
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

/* Sorts neurons in ascending order of magnitude. */
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

/* Removes a neuron: its output weights are set to 0. */
static void silence(const icl_model *model, size_t index, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, "block.0.feed_forward.down") == 0)
            memset(values + info->offset + index * WIDTH, 0, WIDTH * sizeof *values);
    }
}

/* Measures the loss and accuracy without eighths of the neurons; `before` is not needed and is overwritten with the
 * pruned parameters. */
static icl_status measure_neurons(const trained_cell *cells, icl_error *error) {
    neuron neurons[HIDDEN];

    ICL_CHECK(rank_neurons(cells->model, cells->after, neurons, error));
    for (size_t i = 0; i < 2 * EIGHTHS; i++) {
        icl_evaluation *evaluation = NULL;
        memcpy(cells->before, cells->after, icl_model_size(cells->model) * sizeof *cells->before);
        for (size_t gone = 0; gone < i % EIGHTHS * HIDDEN / EIGHTHS; gone++)
            silence(cells->model, neurons[i < EIGHTHS ? gone : HIDDEN - 1 - gone].index, cells->before);
        ICL_CHECK(icl_trainer_set_parameters(cells->trainer, cells->before, error));
        ICL_CHECK(icl_study_evaluate(cells->study, cells->cell, cells->trainer, NULL, &evaluation, error));
        cells->numbers[LOSS + i].value = evaluation->scores[0].mse;
        cells->numbers[ACCURACY + i].value = evaluation->scores[0].accuracy;
    }
    return ICL_OK;
}

/* ---- Judging ---- */

#define SHARE "share of %zu singular values in the change's square"

static void judge_window(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    const size_t k = cell->at[0];
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

/* Judges patterns; the way into the feed-forward, the last matrix, is judged in more detail. */
static void judge_patterns(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    const size_t patterns = cell->at[0];

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

static void judge_contexts(icl_study *study, const icl_study_cell *cell) {
    static const char *const names[] = {"queries", "keys"};
    const icl_number *numbers = cell->numbers;
    const size_t patterns = cell->at[0];

    ICL_JUDGE(study, .what = ICL_PHRASE("contexts of %zu patterns", patterns),
              .quantity = "share of the attention on relevant tokens", ICL_OURS(numbers[RELEVANT]), .target = .9,
              .criterion = ICL_AT_LEAST, .evidence = ICL_STATED, .source = "2402.15607: attention concentrates on them",
              .note = ICL_PHRASE("at the start %.3f", numbers[RELEVANT_BEFORE].value));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ICL_JUDGE(study, .what = ICL_PHRASE("contexts of %zu patterns: %s", patterns, names[i]),
                  .quantity = ICL_PHRASE(SHARE, patterns), ICL_OURS(numbers[TOP + i]), .target = 1, .tolerance = .1,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "rank by relevant patterns",
                  .note = ICL_PHRASE("effective rank %.2f of %d; of the matrix at the start the share is %.2f",
                                     numbers[RANK + i].value, WIDTH, numbers[TOP_BEFORE + i].value));
}

/* The accuracy that "little loss" allows to go. */
#define LITTLE .02

static void judge_neurons(icl_study *study, const icl_study_cell *cell) {
    static const char *const what = "half of the neurons pruned";
    const icl_number *loss = cell->numbers + LOSS, *accuracy = cell->numbers + ACCURACY;
    const double smallest = loss[HALF].value - loss[0].value, largest = loss[EIGHTHS + HALF].value - loss[0].value;
    const icl_phrase note = icl_phrase_print("loss %.4f, the smallest gone %.4f, the largest %.4f", loss[0].value,
                                             loss[HALF].value, loss[EIGHTHS + HALF].value);

    ICL_JUDGE(study, .what = what, .quantity = "accuracy lost, the smallest gone",
              .ours = accuracy[0].value - accuracy[HALF].value, .tolerance = LITTLE, .criterion = ICL_AT_MOST,
              .evidence = ICL_INFERRED, .source = "pruned at little loss", .note = note.text);
    size_t prunable = 0; /* eighths of the neurons */
    while (prunable + 1 < EIGHTHS && accuracy[0].value - accuracy[prunable + 1].value <= LITTLE)
        prunable++;
    ICL_JUDGE(study, .what = "neurons that can go, the smallest first",
              .quantity = ICL_PHRASE("share of them at %g of the accuracy", LITTLE), .ours = (double)prunable / EIGHTHS,
              .target = .5, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "pruned at little loss",
              .note = ICL_PHRASE("accuracy %.4f with all; with one more eighth gone %.4f", accuracy[0].value,
                                 accuracy[prunable + 1 < EIGHTHS ? prunable + 1 : prunable].value));
    ICL_JUDGE(study, .what = what, .quantity = "accuracy lost, the largest gone",
              .ours = accuracy[0].value - accuracy[EIGHTHS + HALF].value, .target = .1, .criterion = ICL_AT_LEAST,
              .evidence = ICL_INFERRED, .source = "few neurons carry it");
    ICL_JUDGE(study, .what = what, .quantity = "loss added, the smallest over the largest gone",
              .ours = smallest / largest, .target = .1, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
              .source = "few neurons carry it", .note = note.text);
}

/* ---- Cells: directions or patterns stand in at[0] ---- */

typedef struct change_kind {
    const char *name; /* prefix of names: NAME-3 is for 3 directions or patterns */
    const char *recipe, *settings;
    icl_status (*measure)(const trained_cell *all, icl_error *error);
    void (*judge)(icl_study *study, const icl_study_cell *cell);
    const char *curve; /* curve of singular values; NULL: none */
    icl_series_style style;
} change_kind;

#define BLOCK                                                                                                          \
    "task.bursty=0 model.layers=1 model.width=32 model.heads=1 model.positions=none model.norm=none model.init=0.05 "  \
    "train.optimizer=sgd train.learning_rate=0.03 train.schedule=constant train.warmup=0 train.clip=0 "                \
    "train.batch=64 eval.predictors= "

#define CONTEXTS                                                                                                       \
    "task.joined=true task.relabelled=1 task.examples=16 task.burstiness=4 task.label_count=8 task.item_size=32 "      \
    "task.spread=0.3 model.layers=1 model.width=32 model.heads=1 model.positions=none model.norm=none "                \
    "model.init=0.05 "                                                                                                 \
    "train.learning_rate=0.01 train.warmup=20 train.batch=64 eval.predictors= "

static const change_kind directions = {"directions",
                                       "window",
                                       "task.d=16 task.n=40 model.initialization=normal train.optimizer=sgd "
                                       "train.momentum=0.9 train.learning_rate=3 train.schedule=constant",
                                       measure_window,
                                       judge_window,
                                       "attention, directions",
                                       ICL_SERIES_OURS};
static const change_kind patterns = {"patterns",          "classification", BLOCK "task.item_size=32 task.spread=1",
                                     measure_patterns,    judge_patterns,   "feed-forward, patterns",
                                     ICL_SERIES_REFERENCE};
static const change_kind contexts = {"contexts",       "classification", CONTEXTS,
                                     measure_contexts, judge_contexts,   "queries and keys, contexts",
                                     ICL_SERIES_LINE};
static const change_kind neurons = {"neurons",
                                    "classification",
                                    BLOCK "task.item_size=4 task.spread=0.3 task.classes=8 task.label_count=2",
                                    measure_neurons,
                                    judge_neurons,
                                    NULL,
                                    0};

static void add_cell(icl_study *study, const change_kind *kind, size_t count) {
    static const struct {
        size_t window_steps, block_steps, sequences;
    } budgets[ICL_SCALES] = {{100, 300, 2048}, {600, 1000, 20000}, {6000, 10000, 100000}};
    const icl_phrase block = icl_phrase_print("train.steps=%zu eval.sequences=%zu", budgets[study->scale].block_steps,
                                              budgets[study->scale].sequences);
    const icl_phrase window =
        icl_phrase_print("task.subspace=%zu train.steps=%zu", count, budgets[study->scale].window_steps);
    const icl_phrase classes = icl_phrase_print("task.classes=%zu", count);
    const icl_phrase labels = icl_phrase_print("task.classes=%zu task.label_count=%zu", count, count);
    const icl_phrase name = icl_phrase_print("%s-%zu", kind->name, count);

    ICL_ADD_CELL(study, .name = kind == &neurons ? kind->name : name.text, .recipe = kind->recipe,
                 .seed = icl_study_seed(study, 0), .data = kind, .at = {count},
                 .settings = {kind->settings, kind == &directions ? window.text : block.text,
                              kind == &patterns   ? labels.text
                              : kind == &contexts ? classes.text
                                                  : NULL});
}

static void plan(icl_study *study) {
    static const size_t counts[3][3] = {{1, 2, 0}, {2, 4, 8}, {4, 8, 16}}; /* directions, patterns, of contexts */
    const bool is_ci = study->scale == ICL_SCALE_CI;                       /* at ci the middle ones */

    for (size_t i = is_ci ? 1 : 0; i < (is_ci ? 2 : 3); i++) {
        add_cell(study, &directions, counts[i][0]);
        add_cell(study, &patterns, counts[i][1]);
        if (counts[i][2] > 0)
            add_cell(study, &contexts, counts[i][2]);
    }
    add_cell(study, &neurons, 8);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const change_kind *kind = cell->data;
    const icl_model *model = icl_trainer_model(trained);
    trained_cell cells = {study, cell, trained, model, NULL, NULL, numbers};

    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *cells.before, &cells.before, error));
    icl_model_initialize(model, cell->seed, cells.before);
    ICL_CHECK(icl_study_parameters(study, trained, &cells.after, error));
    return kind->measure(&cells, error);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    ((const change_kind *)cell->data)->judge(study, cell);
}

static void conclude(icl_study *study) {
    icl_curves values = ICL_CURVES(.name = "singular-values", .title = "Singular values of what training changed",
                                   .x_label = "number of the singular value", .y_label = "over the largest",
                                   .log_y = true, .least_y = 1e-4);
    icl_curves pruning = ICL_CURVES(.name = "pruning", .title = "Neurons pruned by magnitude",
                                    .x_label = "share of the neurons that is gone", .y_label = "accuracy");

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const change_kind *kind = cell->data;
        for (size_t k = 0; cell->is_wanted && kind->curve && k < D; k++)
            icl_study_plot(study, &values, ICL_PHRASE("%s: %zu", kind->curve, cell->at[0]), kind->style,
                           (double)(k + 1), cell->numbers[VALUES + k].value);
        for (size_t k = 0; cell->is_wanted && !kind->curve && k < 2 * EIGHTHS; k++)
            icl_study_plot(study, &pruning, k < EIGHTHS ? "the smallest first" : "the largest first",
                           k < EIGHTHS ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, (double)(k % EIGHTHS) / EIGHTHS,
                           cell->numbers[ACCURACY + k].value);
    }
    icl_study_draw(study, &pruning);
    icl_study_draw(study, &values);
}

const icl_reproduction icl_lowrank_update =
    ICL_STUDY(.name = "lowrank-update", .source = "arXiv 2406.17167, 2402.15607",
              .about =
                  "what training changes has few directions, few neurons carry it, and attention finds relevant tokens",
              .claim =
                  "Training changes a transformer's weights along about as many directions as there are patterns that "
                  "matter, attention finds the examples of the query's pattern, and neurons of small magnitude can be "
                  "pruned at little loss.",
              .scope = "A met table means that changes have the rank that the relevant directions or patterns "
                       "have, that attention looks at the relevant examples, and that half of the neurons can go, in "
                       "small models of our own; the papers' bounds and settings were not at hand.",
              .cost = {"1 s", "10 s", "1 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
