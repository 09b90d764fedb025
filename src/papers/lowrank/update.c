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
 * Neurons: neurons.c.
 */
#include "core/allocate.h"
#include "model/named_matrix.h"
#include "numeric/singular.h"
#include "papers/curves.h"
#include "papers/lowrank/lowrank.h"
#include "papers/papers.h"
#include "papers/phrase.h"

enum { D = 16, WIDTH = ICL_LOWRANK_WIDTH, HIDDEN = ICL_LOWRANK_HIDDEN, MOST = WIDTH, COUNTS = 3 };

static const size_t directions[COUNTS] = {1, 2, 4}, patterns[COUNTS] = {2, 4, 8};

#define SHARE "share of %zu singular values in the change's square"

static const struct {
    size_t window_steps, block_steps, sequences, first, last; /* of `directions` and `patterns` */
} budgets[ICL_SCALES] = {{100, 300, 2048, 1, 2}, {600, 1000, 20000, 0, COUNTS}, {6000, 10000, 100000, 0, COUNTS}};

/* ---- Training ---- */

void icl_lowrank_release(icl_lowrank_trained *trained) {
    icl_free(&trained->before);
    icl_free(&trained->after);
    icl_seeded_release(&trained->made);
}

icl_status icl_lowrank_train(icl_reproducing *run, const icl_seeded_cell *cell, icl_lowrank_trained *out,
                             icl_error *error) {
    ICL_CHECK(icl_reproduce_train_seed(run, cell, &out->made, error));
    const icl_model *model = icl_trainer_model(out->made.trainer);
    ICL_CHECK(icl_allocate(icl_model_size(model), sizeof *out->before, "parameters", &out->before, error));
    ICL_CHECK(icl_allocate(icl_model_size(model), sizeof *out->after, "parameters", &out->after, error));
    icl_model_initialize(model, cell->seed, out->before);
    return icl_trainer_get_parameters(out->made.trainer, out->after, error);
}

icl_status icl_lowrank_train_block(icl_reproducing *run, const char *name, size_t patterns_shown, size_t labels,
                                   size_t item_size, icl_lowrank_trained *out, icl_error *error) {
    const icl_phrase task =
        icl_phrase_print("task.classes=%zu task.label_count=%zu task.item_size=%zu task.spread=%g task.bursty=0",
                         patterns_shown, labels, item_size, item_size == WIDTH ? 1 : .3);
    const icl_phrase model = icl_phrase_print("model.layers=1 model.width=%d model.heads=1 model.positions=none "
                                              "model.norm=none model.init=0.05 eval.predictors=",
                                              WIDTH);
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "classification",
                                  .overrides = {task.text, model.text,
                                                "train.optimizer=sgd train.learning_rate=0.03 train.schedule=constant "
                                                "train.warmup=0 train.clip=0 train.batch=64"},
                                  .steps = budgets[run->params->scale].block_steps,
                                  .seed = run->params->seed,
                                  .sequences = budgets[run->params->scale].sequences};

    return icl_lowrank_train(run, &cell, out, error);
}

/* ---- What changed ---- */

/* Singular values of a matrix's change. */
typedef struct change {
    double values[MOST]; /* [count], descending */
    double top,
        top_before; /* share of the first ones in the sum of squares; and of the random matrix that it began with */
    double rank;    /* effective rank */
    size_t count;
} change;

static double share_of(const double *values, size_t count, size_t first) {
    double sum = 0, top = 0;

    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
        top += i < first ? values[i] * values[i] : 0;
    }
    return top / sum;
}

static icl_status find_change(const icl_lowrank_trained *cell, const char *name, size_t rows, size_t columns,
                              size_t first, change *out, icl_error *error) {
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

/* Over the largest. */
static icl_status add_values(icl_curves *curves, const char *label, icl_series_style style, const change *is,
                             icl_error *error) {
    for (size_t k = 0; k < is->count && k < D; k++)
        ICL_CHECK(icl_curves_add(curves, label, style, (double)(k + 1), is->values[k] / is->values[0], error));
    return ICL_OK;
}

/* ---- Directions ---- */

static icl_status judge_window(icl_reproducing *run, size_t k, const change *is, double inside, icl_error *error) {
    const icl_phrase what = icl_phrase_print("attention, %zu of %d directions", k, D);

    ICL_CHECK(ICL_FOUND(run, error, .what = what.text, .quantity = ICL_PHRASE(SHARE, k), .ours = is->top, .target = 1,
                        .tolerance = .05, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                        .source = "rank by relevant directions",
                        .note = ICL_PHRASE("the next is %.3f of the first", is->values[k] / is->values[0])));
    ICL_CHECK(ICL_FOUND(run, error, .what = what.text, .quantity = "smallest of these over the largest",
                        .ours = is->values[k - 1] / is->values[0], .target = .5, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_INFERRED, .source = "no direction before another"));
    return ICL_FOUND(run, error, .what = what.text, .quantity = "share of the change within the directions",
                     .ours = inside, .target = 1, .tolerance = .05, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
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

static icl_status reproduce_window(icl_reproducing *run, const char *name, size_t k, icl_curves *curves,
                                   icl_error *error) {
    const icl_phrase task = icl_phrase_print("task.d=%d task.n=40 task.subspace=%zu", D, k);
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "window",
                                  .overrides = {task.text, "model.initialization=normal train.optimizer=sgd "
                                                           "train.momentum=0.9 train.learning_rate=3 "
                                                           "train.schedule=constant"},
                                  .steps = budgets[run->params->scale].window_steps,
                                  .seed = run->params->seed};
    icl_lowrank_trained of = {.before = NULL};
    change is;
    double moved[D * D];
    icl_status status = ICL_OK;

    ICL_TRY(icl_lowrank_train(run, &cell, &of, error));
    ICL_TRY(find_change(&of, "M", D, D, k, &is, error));
    for (size_t i = 0; i < (size_t)D * D; i++) /* M is all that the model has */
        moved[i] = (double)of.after[i] - (double)of.before[i];
    const double *rotation = icl_task_get_prior(icl_trainer_task(of.made.trainer))->subspace_rotation;
    ICL_TRY(judge_window(run, k, &is, share_inside(moved, rotation, k), error));
    ICL_TRY(add_values(curves, ICL_PHRASE("attention, directions: %zu", k), ICL_SERIES_OURS, &is, error));
done:
    icl_lowrank_release(&of);
    return status;
}

/* ---- Patterns ---- */

static icl_status judge_matrices(icl_reproducing *run, const icl_lowrank_trained *of, size_t K, icl_curves *curves,
                                 icl_error *error) {
    static const struct {
        const char *name, *what;
        size_t rows, columns;
    } matrices[] = {{"embedding.weight", "embedding", WIDTH, WIDTH},
                    {"block.0.mixer.value", "values", WIDTH, WIDTH},
                    {"block.0.mixer.output", "output of attention", WIDTH, WIDTH},
                    {"block.0.feed_forward.down", "feed-forward, down", HIDDEN, WIDTH},
                    {"block.0.feed_forward.up", "feed-forward, up", WIDTH, HIDDEN}}; /* judged further below */
    icl_phrase what;
    change is;

    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        what = icl_phrase_print("%zu patterns: %s", K, matrices[i].what);
        ICL_CHECK(find_change(of, matrices[i].name, matrices[i].rows, matrices[i].columns, K, &is, error));
        ICL_CHECK(ICL_FOUND(run, error, .what = what.text, .quantity = ICL_PHRASE(SHARE, K), .ours = is.top,
                            .target = 1, .tolerance = .1, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                            .source = "rank by relevant patterns",
                            .note = ICL_PHRASE("effective rank %.2f of %zu; of the matrix at the start the share is "
                                               "%.2f",
                                               is.rank, is.count, is.top_before)));
    }
    ICL_CHECK(ICL_FOUND(run, error, .what = what.text, .quantity = "effective rank of the change", .ours = is.rank,
                        .target = (double)K, .tolerance = .3 * (double)K, .evidence = ICL_INFERRED,
                        .source = "rank by relevant patterns"));
    return add_values(curves, ICL_PHRASE("feed-forward, patterns: %zu", K), ICL_SERIES_REFERENCE, &is, error);
}

static icl_status reproduce_patterns(icl_reproducing *run, const char *name, size_t K, icl_curves *curves,
                                     icl_error *error) {
    icl_lowrank_trained of = {.before = NULL};
    icl_status status = ICL_OK;

    ICL_TRY(icl_lowrank_train_block(run, name, K, K, WIDTH, &of, error));
    ICL_TRY(judge_matrices(run, &of, K, curves, error));
done:
    icl_lowrank_release(&of);
    return status;
}

/* ---- All of them ---- */

static icl_status reproduce_all(icl_reproducing *run, icl_curves *curves, icl_error *error) {
    const size_t first = budgets[run->params->scale].first, last = budgets[run->params->scale].last;

    for (size_t i = first; i < last; i++) {
        const icl_phrase of_directions = icl_phrase_print("directions-%zu", directions[i]),
                         of_patterns = icl_phrase_print("patterns-%zu", patterns[i]);
        if (icl_reproduce_wants(run, of_directions.text))
            ICL_CHECK(icl_reproduce_next(run, reproduce_window(run, of_directions.text, directions[i], curves, error)));
        if (icl_reproduce_wants(run, of_patterns.text))
            ICL_CHECK(icl_reproduce_next(run, reproduce_patterns(run, of_patterns.text, patterns[i], curves, error)));
    }
    if (icl_reproduce_wants(run, "neurons"))
        ICL_CHECK(icl_reproduce_next(run, icl_lowrank_neurons(run, error)));
    return curves->count > 0 ? icl_curves_draw(run, curves, error) : ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "singular-values",
                                    .title = "Singular values of what training changed",
                                    .x_label = "number of the singular value",
                                    .y_label = "over the largest",
                                    .log_y = true,
                                    .least_y = 1e-4}};
    const icl_status status = reproduce_all(run, &curves, error);

    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_lowrank_update = {
    .name = "lowrank-update",
    .source = "arXiv 2406.17167",
    .about = "what training changes has few directions, and few neurons carry it: checks of our own",
    .cost = {"1 s", "10 s", "1 min"},
    .is_shared = true,
    .run = reproduce,
};
