/*
 * Blocks of a trained transformer replaced by their best linear maps: Razzhigaev and others 2024, "Your Transformer is
 * Secretly Linear" (arXiv 2405.12250), whose abstract says that "removing or linearly approximating some of the most
 * linear blocks" hardly changes the loss.
 *
 * The map of a block is the affine map of least squares (probe/linearity.h) from the residual stream before it to the
 * one behind it, over all tokens of some sequences; losses are those of other sequences. A block costs
 *
 *     (loss with its map - loss) / (loss of the prediction 0 - loss),
 *
 * the share of what the model has learned that is lost. Beside one block at a time stand the most linear ones together,
 * by the linearity score (probe/linearity.h), and blocks that are left out, that is, replaced by the identity.
 *
 * A model without norms and feed-forward parts whose attention sees one position is linear by construction: there the
 * maps may cost nothing but rounding.
 */
#include <math.h>
#include <string.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/activations.h"
#include "probe/linearity.h"

/* Sequences that run at a time for losses. */
enum { LAYERS = 4, PIECE = 64, MOST_PIECES = 8 };

/* ---- Cells ---- */

enum { BY_CONSTRUCTION = 0, DYNAMICS, FUNCTIONS, KINDS };

static const struct {
    const char *name, *folder, *recipe, *settings;
} kinds[KINDS] = {
    {"linear by construction", "linear", "mesa",
     "task.constructed=false model.mixer=softmax model.window=1 model.layers=4 model.width=32 model.heads=4 "
     "model.output_norm=rms train.steps=20"},
    {"dynamics", "dynamics", "mesa",
     "task.constructed=false model.mixer=softmax model.layers=4 model.width=32 model.heads=4 model.positions=learned "
     "model.norm=rms model.feed_forward=gelu model.output_norm=rms train.schedule=constant"},
    {"functions", "functions", "garg", "model.layers=4 model.width=32 train.warmup=300"},
};

/* Steps of training by kind, 0: the kind's own; sequences that maps are fitted to, and pieces of others for losses. */
static const struct {
    size_t kinds, seeds, steps[KINDS], fitted, pieces;
} budgets[ICL_SCALES] = {{2, 1, {0, 20}, 32, 1},
                         {KINDS, 1, {0, 1000, 4000}, 256, MOST_PIECES},
                         {KINDS, 5, {0, 20000, 50000}, 256, MOST_PIECES}};

static void plan(icl_study *study) {
    for (size_t kind = 0; kind < budgets[study->scale].kinds; kind++)
        for (size_t i = 0; i < (kind == BY_CONSTRUCTION ? 1 : budgets[study->scale].seeds); i++) {
            const size_t steps = budgets[study->scale].steps[kind];
            ICL_ADD_CELL(study, .name = kinds[kind].name, .recipe = kinds[kind].recipe, .at = {kind},
                         .seed = icl_study_seed(study, i), .folder = ICL_PHRASE("%s-%zu", kinds[kind].folder, i + 1),
                         .settings = {kinds[kind].settings,
                                      steps > 0 ? ICL_PHRASE("train.steps=%zu eval.every=0", steps) : "eval.every=0"});
        }
}

/* ---- Numbers ---- */

/* Losses are squared errors at scored positions. Arrays are by block; TOGETHER [k]: the k + 1 most linear blocks. */
enum {
    WHOLE = 0, /* the model's loss */
    ZERO,      /* that of the prediction 0 */
    MAPPED,    /* cost of each block's map, and */
    REMOVED = MAPPED + LAYERS,
    TOGETHER = REMOVED + LAYERS,
    SCORE = TOGETHER + LAYERS,
    UPDATE = SCORE + LAYERS, /* score of what the block adds */
    MOST_LINEAR = UPDATE + LAYERS,
    LEAST_LINEAR, /* costs of the map of the most and of the least linear block, */
    BETWEEN,      /* and the second minus the first */
    NUMBERS
};

/* ---- Runs with blocks replaced ---- */

/* A model, the maps of its blocks, and those that replace their block in the next run. */
typedef struct replacing {
    const icl_study *study;
    const icl_model *model;
    icl_tensor parameters;
    icl_tensor maps[LAYERS], shifts[LAYERS]; /* [width, width] and [width]: z <- z A + b */
    bool is_replaced[LAYERS];
    icl_variable before, outputs;
    float *values; /* [PIECE][T][q], the last run's outputs */
} replacing;

static icl_variable replace_stage(void *user, const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    replacing *run = user;

    if (stage > 0 && run->is_replaced[stage - 1])
        z = icl_tape_binary(
            pass->tape, ICL_ADD,
            icl_tape_matmul(pass->tape, 1, run->before, icl_tape_constant(pass->tape, run->maps[stage - 1])),
            icl_tape_constant(pass->tape, run->shifts[stage - 1]));
    run->before = z;
    return z;
}

static void keep_outputs(void *user, icl_variable outputs) {
    replacing *run = user;
    run->outputs = outputs;
}

static icl_status read_outputs(void *user, const icl_tape *tape, icl_error *error) {
    const replacing *run = user;
    return icl_tensor_read(icl_tape_value(tape, run->outputs), run->values, error);
}

static void release_maps(replacing *run) {
    for (size_t i = 0; i < LAYERS; i++) {
        icl_tensor_release(&run->maps[i]);
        icl_tensor_release(&run->shifts[i]);
    }
}

/* Puts a map [width + 1][width] in place of a block's. */
static icl_status put_map(replacing *run, size_t layer, size_t width, const double *map, icl_error *error) {
    const size_t shape[] = {width, width};
    icl_backend *backend = run->study->run->params->backend;
    float *values = NULL;

    ICL_CHECK(icl_study_room(run->study, width + 1, width * sizeof *values, &values, error));
    for (size_t i = 0; i < (width + 1) * width; i++)
        values[i] = (float)map[i];
    if (!run->maps[layer].buffer) {
        ICL_CHECK(icl_tensor_create(backend, 2, shape, &run->maps[layer], error));
        ICL_CHECK(icl_tensor_create(backend, 1, shape, &run->shifts[layer], error));
    }
    ICL_CHECK(icl_tensor_write(run->maps[layer], values, error));
    return icl_tensor_write(run->shifts[layer], values + width * width, error);
}

/* ---- Losses on the same sequences ---- */

/* The sequences that losses are measured on, a piece at a time. */
typedef struct pieces {
    size_t count; /* of sequences */
    icl_batch batches[MOST_PIECES];
    float *targets[MOST_PIECES], *weights[MOST_PIECES]; /* [PIECE][S][q]; [PIECE][S], or NULL: all 1 */
} pieces;

static icl_status draw_pieces(const icl_study *study, const icl_task *task, pieces *all, icl_error *error) {
    all->count = budgets[study->scale].pieces * PIECE;
    for (size_t i = 0; i < all->count / PIECE; i++) {
        ICL_CHECK(icl_study_batch(study, task, PIECE, 0, 1 + i, &all->batches[i], error));
        ICL_CHECK(icl_study_read(study, all->batches[i].targets, &all->targets[i], error));
        if (all->batches[i].weights.buffer)
            ICL_CHECK(icl_study_read(study, all->batches[i].weights, &all->weights[i], error));
    }
    return ICL_OK;
}

/* Returns a sequence's mean squared error over scored positions; outputs [T][q], NULL: all 0. */
static double loss_of(const icl_task_shape *shape, const float *outputs, const float *targets, const float *weights) {
    double sum = 0, total = 0;

    for (size_t s = 0; s < shape->scored; s++) {
        const double weight = weights ? (double)weights[s] : 1;
        for (size_t i = 0; i < shape->outputs; i++) {
            const double output = outputs ? (double)outputs[(shape->first_scored + s) * shape->outputs + i] : 0;
            sum += weight * pow(output - (double)targets[s * shape->outputs + i], 2);
        }
        total += weight;
    }
    return sum / total;
}

/* Returns the loss of sequence `index` of all pieces; outputs [PIECE][T][q], NULL: all 0. */
static double loss_at(const pieces *all, size_t index, const float *outputs) {
    const icl_task_shape *shape = &all->batches[0].shape;
    const size_t piece = index / PIECE, at = index % PIECE;

    return loss_of(shape, outputs ? outputs + at * shape->positions * shape->outputs : NULL,
                   all->targets[piece] + at * shape->scored * shape->outputs,
                   all->weights[piece] ? all->weights[piece] + at * shape->scored : NULL);
}

static void measure_zero(const pieces *all, double *losses) {
    for (size_t i = 0; i < all->count; i++)
        losses[i] = loss_at(all, i, NULL);
}

/* Fills losses [count] of the model with the replaced blocks. */
static icl_status measure_losses(replacing *run, const pieces *all, double *losses, icl_error *error) {
    const icl_sequence_watch watch = {.stage = replace_stage, .outputs = keep_outputs, .user = run};

    for (size_t i = 0; i < all->count; i++) {
        if (i % PIECE == 0) {
            ICL_CHECK(icl_reproduce_poll(run->study->run, error));
            ICL_CHECK(icl_watched_run(run->model, run->study->run->params->backend, run->parameters,
                                      all->batches[i / PIECE].inputs, &watch, read_outputs, error));
        }
        losses[i] = loss_at(all, i, run->values);
    }
    return ICL_OK;
}

/* ---- Measuring ---- */

/* Losses [count] of the same sequences, and room for as many. */
typedef struct losses {
    size_t count;
    double *whole, *zero;           /* of the model, and of the prediction 0 */
    double *mapped[LAYERS], *other; /* with one map, and with other replacements */
    double *room;
} losses;

static icl_status allocate_losses(const icl_study *study, losses *all, icl_error *error) {
    const size_t count = budgets[study->scale].pieces * PIECE;
    double *at = NULL;

    ICL_CHECK(icl_study_room(study, LAYERS + 4, count * sizeof *at, &at, error));
    all->count = count;
    all->whole = at;
    all->zero = at + count;
    all->other = at + 2 * count;
    all->room = at + 3 * count;
    for (size_t i = 0; i < LAYERS; i++)
        all->mapped[i] = at + (4 + i) * count;
    return ICL_OK;
}

/* Returns the share of what the model has learned that lies between losses; its standard error is that of the ratio. */
static icl_number share_between(const losses *all, const double *with, const double *without) {
    const double learned = icl_mean(all->zero, all->count) - icl_mean(all->whole, all->count);
    const double share = (icl_mean(with, all->count) - icl_mean(without, all->count)) / learned;

    for (size_t i = 0; i < all->count; i++)
        all->room[i] = with[i] - without[i] - share * (all->zero[i] - all->whole[i]);
    return (icl_number){share, icl_standard_error(all->room, all->count) / fabs(learned)};
}

/* Fits the maps of all blocks [LAYERS][width + 1][width], and scores the blocks. */
static icl_status fit_maps(replacing *run, const icl_task *task, double **maps, icl_number *numbers, icl_error *error) {
    icl_residual_stream stream = {0};
    icl_batch batch;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_batch(run->study, task, budgets[run->study->scale].fitted, 0, 0, &batch, error));
    ICL_TRY(icl_residual_stream_read(run->model, run->study->run->params->backend, run->parameters, batch.inputs,
                                     &stream, error));
    const size_t width = stream.width, size = (width + 1) * width;
    ICL_TRY(icl_study_room(run->study, LAYERS, size * sizeof **maps, maps, error));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const float *before = icl_residual_stream_stage(&stream, layer);
        const float *behind = icl_residual_stream_stage(&stream, layer + 1);
        icl_linearity linearity;
        ICL_TRY(icl_affine_fit(stream.tokens, width, width, before, behind, *maps + layer * size, error));
        ICL_TRY(icl_linearity_measure(stream.tokens, width, before, behind, &linearity, error));
        numbers[SCORE + layer].value = linearity.score;
        numbers[UPDATE + layer].value = linearity.update_score;
        ICL_TRY(put_map(run, layer, width, *maps + layer * size, error));
    }
done:
    icl_residual_stream_release(&stream);
    return status;
}

/* Orders the blocks by their scores, the most linear one first. */
static void order_blocks(const icl_number *numbers, size_t order[LAYERS]) {
    for (size_t i = 0; i < LAYERS; i++) {
        size_t place = i;
        for (; place > 0 && numbers[SCORE + order[place - 1]].value < numbers[SCORE + i].value; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
}

/* Costs of maps, one at a time and the most linear ones together. */
static icl_status measure_maps(replacing *run, const pieces *drawn, const losses *all, icl_number *numbers,
                               icl_error *error) {
    size_t order[LAYERS];

    for (size_t layer = 0; layer < LAYERS; layer++) {
        run->is_replaced[layer] = true;
        ICL_CHECK(measure_losses(run, drawn, all->mapped[layer], error));
        run->is_replaced[layer] = false;
        numbers[MAPPED + layer] = share_between(all, all->mapped[layer], all->whole);
    }
    order_blocks(numbers, order);
    const size_t most = order[0], least = order[LAYERS - 1];
    numbers[MOST_LINEAR] = numbers[MAPPED + most];
    numbers[LEAST_LINEAR] = numbers[MAPPED + least];
    numbers[BETWEEN] = share_between(all, all->mapped[least], all->mapped[most]);
    for (size_t count = 0; count < LAYERS; count++) {
        run->is_replaced[order[count]] = true;
        ICL_CHECK(measure_losses(run, drawn, all->other, error));
        numbers[TOGETHER + count] = share_between(all, all->other, all->whole);
    }
    memset(run->is_replaced, 0, sizeof run->is_replaced);
    return ICL_OK;
}

/* Costs of blocks that are left out. */
static icl_status measure_removed(replacing *run, const pieces *drawn, const losses *all, double *map,
                                  icl_number *numbers, icl_error *error) {
    const size_t width = run->maps[0].shape[0];

    memset(map, 0, (width + 1) * width * sizeof *map);
    for (size_t i = 0; i < width; i++)
        map[i * width + i] = 1;
    for (size_t layer = 0; layer < LAYERS; layer++) {
        ICL_CHECK(put_map(run, layer, width, map, error));
        run->is_replaced[layer] = true;
        ICL_CHECK(measure_losses(run, drawn, all->other, error));
        run->is_replaced[layer] = false;
        numbers[REMOVED + layer] = share_between(all, all->other, all->whole);
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_task *task = icl_trainer_task(trained);
    const icl_task_shape *shape = icl_task_get_shape(task);
    replacing run = {.study = study, .model = icl_trainer_model(trained)};
    pieces drawn = {0};
    losses all;
    double *maps = NULL;
    icl_status status = ICL_OK;

    (void)cell;
    ICL_TRY(icl_study_put_parameters(study, trained, &run.parameters, error));
    ICL_TRY(allocate_losses(study, &all, error));
    ICL_TRY(icl_study_room(study, PIECE, shape->positions * shape->outputs * sizeof *run.values, &run.values, error));
    ICL_TRY(draw_pieces(study, task, &drawn, error));
    ICL_TRY(measure_losses(&run, &drawn, all.whole, error));
    measure_zero(&drawn, all.zero);
    numbers[WHOLE] = (icl_number){icl_mean(all.whole, all.count), icl_standard_error(all.whole, all.count)};
    numbers[ZERO] = (icl_number){icl_mean(all.zero, all.count), icl_standard_error(all.zero, all.count)};
    ICL_TRY(fit_maps(&run, task, &maps, numbers, error));
    ICL_TRY(measure_maps(&run, &drawn, &all, numbers, error));
    ICL_TRY(measure_removed(&run, &drawn, &all, maps, numbers, error));
done:
    release_maps(&run);
    icl_tensor_release(&run.parameters);
    return status;
}

/* ---- Judging ---- */

/* Maps of linear blocks differ from them by the rounding of floats, relative 2^-24, in four blocks of sums of tens of
 * terms. */
#define ROUNDING 1e-4

/* The share that "does not affect significantly" allows here. */
#define LITTLE .05

static void judge_constructed(icl_study *study, const icl_study_cell *cell) {
    ICL_JUDGE(study, .quantity = "cost of all maps together", ICL_OURS(cell->numbers[TOGETHER + LAYERS - 1]),
              .target = 0, .tolerance = ROUNDING, .evidence = ICL_COMPUTED, .source = "its blocks are linear");
    for (size_t layer = 0; layer < LAYERS; layer++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, block %zu", cell->name, layer + 1), .quantity = "linearity score",
                  ICL_OURS(cell->numbers[SCORE + layer]), .target = 1, .tolerance = 1e-9, .evidence = ICL_COMPUTED,
                  .source = "its blocks are linear");
}

static void draw(icl_study *study, const icl_study_cell *cell) {
    const icl_phrase name = icl_phrase_print("linearity-replaced-%s", cell->name);
    const icl_phrase title = icl_phrase_print("Blocks replaced by their best linear maps: %s", cell->name);
    icl_curves curves = ICL_CURVES(.name = name.text, .title = title.text, .x_label = "block, or how many of them",
                                   .y_label = "share of what the model has learned that is lost");

    for (size_t layer = 0; layer < LAYERS; layer++) {
        const double x = (double)layer + 1;
        icl_study_plot_number(study, &curves, "this block's map", ICL_SERIES_OURS, x,
                              icl_over_seeds(study, cell, MAPPED + layer));
        icl_study_plot_number(study, &curves, "this block left out", ICL_SERIES_REFERENCE, x,
                              icl_over_seeds(study, cell, REMOVED + layer));
        icl_study_plot_number(study, &curves, "maps of the most linear blocks", ICL_SERIES_LINE, x,
                              icl_over_seeds(study, cell, TOGETHER + layer));
    }
    icl_study_draw(study, &curves);
}

/* Judges each seed by its own standard errors. */
static void judge_trained(icl_study *study, const icl_study_cell *cell, size_t seed) {
    /* At scale ci the model hardly learns. */
    const icl_evidence evidence = study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_STATED;
    const icl_number most = cell->numbers[MOST_LINEAR], between = cell->numbers[BETWEEN];

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, training %zu: most linear block", cell->name, seed),
              .quantity = "cost of its map", ICL_OURS(most), .target = LITTLE, .criterion = ICL_AT_MOST,
              .evidence = evidence, .source = "abstract: hardly affects the loss",
              .note = ICL_PHRASE("loss %.4g of %.4g; all maps together %.3g", cell->numbers[WHOLE].value,
                                 cell->numbers[ZERO].value, cell->numbers[TOGETHER + LAYERS - 1].value));
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, training %zu: least above most linear block", cell->name, seed),
              .quantity = "difference of costs", ICL_OURS(between), .target = 4 * between.standard_error,
              .criterion = ICL_AT_LEAST, .evidence = evidence, .source = "abstract: the most linear blocks",
              .note = ICL_PHRASE("%.3g and %.3g", cell->numbers[LEAST_LINEAR].value, most.value));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const icl_number removed = cell->numbers[REMOVED + layer];
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, training %zu: block %zu", cell->name, seed, layer + 1),
                  .quantity = "cost of its map beside none", ICL_OURS(cell->numbers[MAPPED + layer]),
                  .target = removed.value, .tolerance = 4 * removed.standard_error, .criterion = ICL_AT_MOST,
                  .evidence = study->scale == ICL_SCALE_CI ? ICL_EVIDENCE_NONE : ICL_INFERRED,
                  .source = "the map is nearer than the identity",
                  .note = ICL_PHRASE("linearity score %.4f, of what it adds %.4f", cell->numbers[SCORE + layer].value,
                                     cell->numbers[UPDATE + layer].value));
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    size_t seed = 0;

    if (cell->at[0] == BY_CONSTRUCTION) {
        judge_constructed(study, cell);
        return;
    }
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->at[0] == cell->at[0] && study->cells[i]->is_measured)
            judge_trained(study, study->cells[i], ++seed);
    draw(study, cell);
}

const icl_reproduction icl_linearity_replaced =
    ICL_STUDY(.name = "linearity-replaced", .source = "arXiv 2405.12250, abstract",
              .about = "blocks of trained transformers replaced by their best linear maps, one at a time and together",
              .claim = "The most linear blocks of a transformer can be replaced by linear maps at hardly any loss.",
              .scope = "A met table means that replacing the most linear block of small models costs at most 5 % "
                       "of what they learned; language models were not tested, and at scale ci nothing but a "
                       "model that is linear by construction is judged.",
              .cost = {"1 s", "2 min", "4 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge);
