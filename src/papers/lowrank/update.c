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
 * embedding and the way into the feed-forward, could change along all 32. A neuron's magnitude is the norm of what it
 * reads times that of what it writes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "model/named_matrix.h"
#include "numeric/singular.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/seeds.h"

enum { D = 16, WIDTH = 32, HIDDEN = 4 * WIDTH, MOST = WIDTH, COUNTS = 3, PRUNINGS = 3 };

static const size_t directions[COUNTS] = {1, 2, 4}, patterns[COUNTS] = {2, 4, 8};

static const struct {
    size_t window_steps, block_steps, sequences, first, last; /* of `directions` and `patterns` */
} budgets[ICL_SCALES] = {{100, 300, 2048, 1, 2}, {600, 1000, 20000, 0, COUNTS}, {6000, 10000, 100000, 0, COUNTS}};

/* ---- What changed ---- */

/* Singular values of a matrix's change. */
typedef struct change {
    double values[MOST]; /* [count], descending */
    double top,
        top_before; /* share of the first ones in the sum of squares; and of the random matrix that it began with */
    double rank;    /* effective rank */
    size_t count;
} change;

/* A trained cell with what it began with. */
typedef struct trained {
    icl_seeded made;
    float *before, *after;
} trained;

static void release(trained *cell) {
    icl_free(&cell->before);
    icl_free(&cell->after);
    icl_seeded_release(&cell->made);
}

static icl_status train(icl_reproducing *run, const icl_seeded_cell *cell, trained *out, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, cell, &out->made, error));
    const icl_model *model = icl_trainer_model(out->made.trainer);
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *out->before, "parameters", &out->before, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *out->after, "parameters", &out->after, error));
    icl_model_initialize(model, cell->seed, out->before);
    ICL_TRY(icl_trainer_get_parameters(out->made.trainer, out->after, error));
done:
    return status;
}

static double share_of(const double *values, size_t count, size_t first) {
    double sum = 0, top = 0;

    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
        top += i < first ? values[i] * values[i] : 0;
    }
    return top / sum;
}

static icl_status find_change(const trained *cell, const char *name, size_t rows, size_t columns, size_t first,
                              change *out, icl_error *error) {
    const icl_model *model = icl_trainer_model(cell->made.trainer);
    double before[WIDTH * HIDDEN], after[WIDTH * HIDDEN];

    ICL_CHECK(icl_matrix_of_model(model, cell->before, name, rows, columns, before, error));
    ICL_CHECK(icl_matrix_of_model(model, cell->after, name, rows, columns, after, error));
    for (size_t i = 0; i < rows * columns; i++)
        after[i] -= before[i];
    out->count = rows < columns ? rows : columns;
    ICL_CHECK(icl_singular_values(before, rows, columns, out->values, error));
    out->top_before = share_of(out->values, out->count, first);
    ICL_CHECK(icl_singular_values(after, rows, columns, out->values, error));
    out->top = share_of(out->values, out->count, first);
    out->rank = icl_entropy_rank(out->values, out->count);
    return ICL_OK;
}

/* ---- Directions ---- */

static icl_status judge_window(icl_reproducing *run, size_t k, const change *is, double inside, icl_error *error) {
    char what[64], quantity[64], note[64];

    snprintf(what, sizeof what, "attention, %zu of %d directions", k, D);
    snprintf(quantity, sizeof quantity, "share of %zu singular values in the change's square", k);
    snprintf(note, sizeof note, "the next is %.3f of the first", is->values[k] / is->values[0]);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = is->top, .target = 1, .tolerance = .05,
                        .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "rank by relevant directions",
                        .note = note));
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "smallest of these over the largest",
                        .ours = is->values[k - 1] / is->values[0], .target = .5, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_INFERRED, .source = "no direction before another"));
    return ICL_FOUND(run, error, .what = what, .quantity = "share of the change within the directions", .ours = inside,
                     .target = 1, .tolerance = .05, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                     .source = "the gradient's expectation");
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

static icl_status reproduce_window(icl_reproducing *run, size_t k, change *is, icl_error *error) {
    char name[ICL_SEEDED_NAME], overrides[256];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "window",
                                  .overrides = {overrides},
                                  .steps = budgets[run->params->scale].window_steps,
                                  .seed = run->params->seed};
    trained of = {.before = NULL};
    double moved[D * D];
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "directions-%zu", k);
    snprintf(overrides, sizeof overrides,
             "task.d=%d task.n=40 task.subspace=%zu model.initialization=normal train.optimizer=sgd train.momentum=0.9 "
             "train.learning_rate=3 train.schedule=constant",
             D, k);
    ICL_TRY(train(run, &cell, &of, error));
    ICL_TRY(find_change(&of, "M", D, D, k, is, error));
    for (size_t i = 0; i < (size_t)D * D; i++) /* M is all that the model has */
        moved[i] = (double)of.after[i] - (double)of.before[i];
    const double *rotation = icl_task_get_prior(icl_trainer_task(of.made.trainer))->subspace_rotation;
    ICL_TRY(judge_window(run, k, is, share_inside(moved, rotation, k), error));
done:
    release(&of);
    return status;
}

/* ---- Patterns ---- */

static icl_status judge_matrices(icl_reproducing *run, const trained *of, size_t K, change *up, icl_error *error) {
    static const struct {
        const char *name, *what;
        size_t rows, columns;
    } matrices[] = {{"embedding.weight", "embedding", WIDTH, WIDTH},
                    {"block.0.mixer.value", "values", WIDTH, WIDTH},
                    {"block.0.mixer.output", "output of attention", WIDTH, WIDTH},
                    {"block.0.feed_forward.up", "feed-forward, up", WIDTH, HIDDEN},
                    {"block.0.feed_forward.down", "feed-forward, down", HIDDEN, WIDTH}};

    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        change is;
        char what[64], quantity[64], note[96];
        ICL_CHECK(find_change(of, matrices[i].name, matrices[i].rows, matrices[i].columns, K, &is, error));
        snprintf(what, sizeof what, "%zu patterns: %s", K, matrices[i].what);
        snprintf(quantity, sizeof quantity, "share of %zu singular values in the change's square", K);
        snprintf(note, sizeof note, "effective rank %.2f of %zu; of the matrix at the start the share is %.2f", is.rank,
                 is.count, is.top_before);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = is.top, .target = 1,
                            .tolerance = .1, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                            .source = "rank by relevant patterns", .note = note));
        if (strcmp(matrices[i].name, "block.0.feed_forward.up") == 0)
            *up = is;
    }
    char what[64];
    snprintf(what, sizeof what, "%zu patterns: feed-forward, up", K);
    return ICL_FOUND(run, error, .what = what, .quantity = "effective rank of the change", .ours = up->rank,
                     .target = (double)K, .tolerance = .3 * (double)K, .evidence = ICL_INFERRED,
                     .source = "rank by relevant patterns");
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
static icl_status rank_neurons(const trained *of, neuron *neurons, icl_error *error) {
    const icl_model *model = icl_trainer_model(of->made.trainer);
    double up[WIDTH * HIDDEN], down[HIDDEN * WIDTH];

    ICL_CHECK(icl_matrix_of_model(model, of->after, "block.0.feed_forward.up", WIDTH, HIDDEN, up, error));
    ICL_CHECK(icl_matrix_of_model(model, of->after, "block.0.feed_forward.down", HIDDEN, WIDTH, down, error));
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

/* Loss and accuracy by the share of neurons that is gone. */
typedef struct pruning {
    double share[PRUNINGS + 1], loss[2][PRUNINGS + 1], accuracy[2][PRUNINGS + 1]; /* the smallest gone; the largest */
} pruning;

static icl_status prune(icl_reproducing *run, trained *of, const neuron *neurons, bool largest, size_t gone,
                        double *loss, double *accuracy, icl_error *error) {
    const icl_model *model = icl_trainer_model(of->made.trainer);
    float *values = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    memcpy(values, of->after, icl_model_size(model) * sizeof *values);
    for (size_t i = 0; i < gone; i++)
        silence(model, neurons[largest ? HIDDEN - 1 - i : i].index, values);
    ICL_TRY(icl_trainer_set_parameters(of->made.trainer, values, error));
    ICL_TRY(icl_evaluate(run->params->backend, of->made.trainer, of->made.recipe, &evaluation, error));
    *loss = evaluation->scores[0].mse;
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    icl_free(&values);
    return status;
}

static icl_status prune_all(icl_reproducing *run, trained *of, pruning *out, icl_error *error) {
    neuron neurons[HIDDEN];

    ICL_CHECK(rank_neurons(of, neurons, error));
    for (size_t i = 0; i <= PRUNINGS; i++) {
        const size_t gone = i * HIDDEN / (PRUNINGS + 1);
        out->share[i] = (double)gone / HIDDEN;
        for (int largest = 0; largest < 2; largest++)
            ICL_CHECK(
                prune(run, of, neurons, largest, gone, &out->loss[largest][i], &out->accuracy[largest][i], error));
    }
    return ICL_OK;
}

static icl_status judge_pruning(icl_reproducing *run, const pruning *is, icl_error *error) {
    static const char *const what = "half of the neurons pruned";
    const size_t half = (PRUNINGS + 1) / 2;
    char note[96];

    snprintf(note, sizeof note, "loss %.4f, the smallest gone %.4f, the largest %.4f", is->loss[0][0],
             is->loss[0][half], is->loss[1][half]);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy lost, the smallest gone",
                        .ours = is->accuracy[0][0] - is->accuracy[0][half], .tolerance = .02, .criterion = ICL_AT_MOST,
                        .evidence = ICL_INFERRED, .source = "pruned at little loss", .note = note));
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy lost, the largest gone",
                        .ours = is->accuracy[1][0] - is->accuracy[1][half], .target = .1, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_INFERRED, .source = "few neurons carry it"));
    return ICL_FOUND(run, error, .what = what, .quantity = "loss added, the smallest over the largest gone",
                     .ours = (is->loss[0][half] - is->loss[0][0]) / (is->loss[1][half] - is->loss[1][0]), .target = .1,
                     .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "few neurons carry it",
                     .note = note);
}

static icl_status draw_pruning(icl_reproducing *run, const pruning *is, icl_error *error) {
    const icl_series series[] = {
        {"the smallest first", ICL_SERIES_OURS, PRUNINGS + 1, is->share, is->accuracy[0], NULL},
        {"the largest first", ICL_SERIES_REFERENCE, PRUNINGS + 1, is->share, is->accuracy[1], NULL}};
    return ICL_DRAW_FIGURE(run, error, .name = "pruning", .title = "Neurons pruned by magnitude",
                           .x_label = "share of the neurons that is gone", .y_label = "accuracy", .count = 2,
                           .series = series);
}

/* ---- Blocks ---- */

static icl_status train_block(icl_reproducing *run, const char *name, size_t classes, size_t labels, size_t item_size,
                              trained *of, icl_error *error) {
    char overrides[640];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "classification",
                                  .overrides = {overrides},
                                  .steps = budgets[run->params->scale].block_steps,
                                  .seed = run->params->seed,
                                  .sequences = budgets[run->params->scale].sequences};

    snprintf(overrides, sizeof overrides,
             "task.classes=%zu task.label_count=%zu task.item_size=%zu task.spread=%g task.bursty=0 model.layers=1 "
             "model.width=%d model.heads=1 model.positions=none model.norm=none model.init=0.05 train.optimizer=sgd "
             "train.learning_rate=0.03 train.schedule=constant train.warmup=0 train.clip=0 train.batch=64 "
             "eval.predictors=",
             classes, labels, item_size, item_size == WIDTH ? 1 : .3, WIDTH);
    return train(run, &cell, of, error);
}

static icl_status reproduce_patterns(icl_reproducing *run, const char *name, size_t K, change *up, icl_error *error) {
    trained of = {.before = NULL};
    icl_status status = ICL_OK;

    ICL_TRY(train_block(run, name, K, K, WIDTH, &of, error));
    ICL_TRY(judge_matrices(run, &of, K, up, error));
done:
    release(&of);
    return status;
}

/* Eight patterns of two labels in four dimensions, where no linear map tells them apart. */
static icl_status reproduce_neurons(icl_reproducing *run, icl_error *error) {
    trained of = {.before = NULL};
    pruning pruned;
    icl_status status = ICL_OK;

    ICL_TRY(train_block(run, "neurons", 8, 2, 4, &of, error));
    ICL_TRY(prune_all(run, &of, &pruned, error));
    ICL_TRY(judge_pruning(run, &pruned, error));
    ICL_TRY(draw_pruning(run, &pruned, error));
done:
    release(&of);
    return status;
}

/* ---- All of them ---- */

/* Singular values over the largest, of M by directions and of the way into the feed-forward by patterns. */
static icl_status draw_values(icl_reproducing *run, const change all[2][COUNTS], icl_error *error) {
    double places[MOST], values[2 * COUNTS][MOST];
    char labels[2 * COUNTS][48];
    icl_series series[2 * COUNTS];
    size_t count = 0;

    for (size_t i = 0; i < MOST; i++)
        places[i] = (double)(i + 1);
    for (size_t i = 0; i < (size_t)2 * COUNTS; i++) {
        const change *is = &all[i / COUNTS][i % COUNTS];
        const size_t shown = is->count < D ? is->count : D;
        if (shown == 0)
            continue;
        for (size_t k = 0; k < shown; k++)
            values[count][k] = is->values[k] / is->values[0];
        snprintf(labels[count], sizeof labels[0],
                 i < COUNTS ? "attention, directions: %zu" : "feed-forward, patterns: %zu",
                 i < COUNTS ? directions[i] : patterns[i - COUNTS]);
        series[count] = (icl_series){
            labels[count], i < COUNTS ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, shown, places, values[count], NULL};
        count++;
    }
    return count == 0 ? ICL_OK
                      : ICL_DRAW_FIGURE(run, error, .name = "singular-values",
                                        .title = "Singular values of what training changed",
                                        .x_label = "number of the singular value", .y_label = "over the largest",
                                        .log_y = true, .least_y = 1e-4, .count = count, .series = series);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    change all[2][COUNTS] = {{{.count = 0}}};
    char name[ICL_SEEDED_NAME];

    for (size_t i = budgets[run->params->scale].first; i < budgets[run->params->scale].last; i++) {
        snprintf(name, sizeof name, "directions-%zu", directions[i]);
        if (icl_reproduce_wants(run, name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_window(run, directions[i], &all[0][i], error)));
        snprintf(name, sizeof name, "patterns-%zu", patterns[i]);
        if (icl_reproduce_wants(run, name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_patterns(run, name, patterns[i], &all[1][i], error)));
    }
    if (icl_reproduce_wants(run, "neurons"))
        ICL_CHECK(icl_reproduce_next(run, reproduce_neurons(run, error)));
    return draw_values(run, all, error);
}

const icl_reproduction icl_lowrank_update = {
    .name = "lowrank-update",
    .source = "arXiv 2406.17167",
    .about = "what training changes has few directions, and few neurons carry it: checks of our own",
    .cost = {"1 s", "10 s", "1 min"},
    .is_shared = true,
    .run = reproduce,
};
