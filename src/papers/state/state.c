/*
 * State tracking by negative eigenvalues and products of reflections: Grazzi et al. 2024, "Unlocking State-Tracking in
 * Linear RNNs Through Negative Eigenvalues" (arXiv 2411.12537), Siems et al. 2025, "DeltaProduct: Improving
 * State-Tracking in Linear RNNs via Householder Products" (arXiv 2502.10297).
 *
 * Parity: one layer of the delta rule. With a write strength in (0, 1) the eigenvalue 1 - beta of a step is never
 * negative, and no model learns parity of words longer than those it was trained on; in (0, 2) most seeds do, with the
 * loss at every position.
 *
 * Permutations: words of all elements of S3. A permutation that cycles three points is not a single reflection, so
 * that one write a token is not enough; words of swaps of neighbours need no more. With strengths in (0, 1) no write
 * reflects; kda, one write in (0, 2), learns swaps as delta does, and rwkv7, which takes out shares in (0, 1), does
 * not. With one head of key width 16 training finds only the sign of the permutation; four heads of width 8 find the
 * rest.
 *
 * A layer by hand is a delta-rule layer whose writes come from a table by symbol, run by the library's recurrence on
 * the device, as a whole and position by position.
 */
#include <inttypes.h>
#include <math.h>

#include "core/print.h"
#include "iclab/ops.h"
#include "iclab/ops_recurrence.h"
#include "iclab/ops_sequence.h"
#include "iclab/task.h"
#include "papers/papers.h"
#include "task/parts.h"

/* ---- Layers by hand ---- */

/*
 * A layer keeps a state S, and each symbol writes to it:
 *
 *     S <- S - beta k (S^T k)^T + beta k v        n_h times for each symbol;    o_h = S^T q_h
 *
 * With one value S is a vector [m], and a write with v = 0, beta = 2 and a unit key reflects it: S <- (I - 2 k k^T) S.
 *
 * Parity: S is one number. The start symbol writes 1; a bit 1 writes v = 0 with beta = 2 under k = 1, S <- -S; a bit 0
 * writes nothing. No rounding at all, at any length.
 *
 * Permutations: S is a vector of n numbers, the objects at n places; the start symbol writes (1, …, n). A swap of the
 * places i and j is the reflection S <- (I - 2 k k^T) S with k = (e_i - e_j) / sqrt 2: one write with beta = 2 and v =
 * 0. A permutation with c cycles is a product of n - c swaps, so n - 1 writes a token are enough for any.
 */

/* Results of one form of the layer: the share of right classes, and the largest distance of a state's number from a
 * whole one. */
typedef struct hand_tally {
    double share, deviation;
} hand_tally;

enum { HAND_WHOLE = 0, HAND_STEPWISE, HAND_FORMS };

enum { MOST_SYMBOLS = 121, MOST_WRITES = 4, MOST_WIDTH = 5 };

/* One write: beta, v, and k [m]. */
typedef struct hand_write {
    double strength, value, key[MOST_WIDTH];
} hand_write;

typedef struct hand_layer {
    size_t symbols, writes, width; /* V, n_h, m */
    hand_write table[MOST_SYMBOLS][MOST_WRITES];
    icl_permutations group; /* has no points for parity */
} hand_layer;

static const hand_layer parity_layer = {
    .symbols = 3, .writes = 1, .width = 1, .table = {{{1, 1, {1}}}, {{0, 0, {1}}}, {{2, 0, {1}}}}}; /* start, 0, 1 */

static hand_write start_of(size_t points) {
    hand_write write = {.strength = 1};
    double square = 0;

    for (size_t i = 0; i < points; i++)
        square += (double)((i + 1) * (i + 1));
    write.value = sqrt(square);
    for (size_t i = 0; i < points; i++)
        write.key[i] = (double)(i + 1) / write.value;
    return write;
}

static hand_write swap_of(size_t first, size_t second) {
    hand_write write = {.strength = 2};

    write.key[first] = sqrt(.5);
    write.key[second] = -sqrt(.5);
    return write;
}

/* Writes each cycle (p_0 p_1 … p_k) as the swaps of p_0 with p_1, then with p_2, and so on. The writes left over stay
 * 0. */
static void write_element(const unsigned char *images, size_t points, hand_write *writes) {
    bool seen[ICL_MOST_POINTS] = {false};
    size_t used = 0;

    for (size_t first = 0; first < points; first++) {
        for (size_t place = images[first]; !seen[first] && place != first; place = images[place]) {
            writes[used++] = swap_of(first, place);
            seen[place] = true;
        }
        seen[first] = true;
    }
}

static hand_layer make_layer(size_t points, bool is_even) {
    const icl_permutations group = icl_permutations_list(points, is_even);
    hand_layer layer = {.symbols = group.count + 1, .writes = points - 1, .width = points, .group = group};

    layer.table[0][0] = start_of(points);
    for (size_t element = 0; element < group.count; element++)
        write_element(group.images[element], points, layer.table[element + 1]);
    return layer;
}

/* Returns the class of a state, whose numbers are rounded to whole ones: its sign, or the element that took the objects
 * 1 … n, in order, to their places. SIZE_MAX if it belongs to no class. */
static size_t classify(const hand_layer *layer, const int *state) {
    const icl_permutations *group = &layer->group;

    if (group->points == 0)
        return state[0] == 1 ? 0 : state[0] == -1 ? 1 : SIZE_MAX;
    for (size_t element = 0; element < group->count; element++) {
        bool matches = true;
        for (size_t i = 0; i < group->points; i++)
            matches &= state[group->images[element][i]] == (int)i + 1;
        if (matches)
            return element;
    }
    return SIZE_MAX;
}

/* ---- Layers by hand: what they write and read ---- */

/* Tensors on the device, for P positions: keys [B, 1, P n_h, m], values and strengths [B, 1, P n_h, 1], and queries [m,
 * 1, m], one for each number of the state; then the outputs [B, m, P n_h, 1] and two states [B, m, m, 1]. */
typedef struct operands {
    icl_tensor keys, values, strengths, queries, outputs, states[2];
} operands;

/* Looks up the entries of the table for each symbol, [V, n_h width]. */
static icl_status look_up(icl_backend *backend, const float *table, size_t width, const hand_layer *layer,
                          icl_tensor symbols, icl_tensor *looked_up, icl_error *error) {
    const size_t sequences = symbols.shape[0], positions = symbols.shape[1], row = layer->writes * width;
    const size_t by_write[] = {sequences, 1, positions * layer->writes, width};
    icl_tensor rows = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){layer->symbols, row}, &rows, error));
    ICL_TRY(icl_tensor_write(rows, table, error));
    ICL_TRY(icl_tensor_create(backend, 4, by_write, looked_up, error));
    ICL_TRY(icl_look_up(backend, icl_tensor_reshape(*looked_up, 3, (size_t[]){sequences, positions, row}), rows,
                        symbols, error));
done:
    icl_tensor_release(&rows);
    return status;
}

static icl_status look_up_all(icl_backend *backend, const hand_layer *layer, icl_tensor symbols, operands *given,
                              icl_error *error) {
    enum { ROWS = MOST_SYMBOLS * MOST_WRITES };
    float keys[ROWS * MOST_WIDTH], values[ROWS], strengths[ROWS];

    for (size_t i = 0; i < layer->symbols * layer->writes; i++) {
        const hand_write *write = &layer->table[i / layer->writes][i % layer->writes];
        values[i] = (float)write->value;
        strengths[i] = (float)write->strength;
        for (size_t j = 0; j < layer->width; j++)
            keys[i * layer->width + j] = (float)write->key[j];
    }
    ICL_CHECK(look_up(backend, keys, layer->width, layer, symbols, &given->keys, error));
    ICL_CHECK(look_up(backend, values, 1, layer, symbols, &given->values, error));
    return look_up(backend, strengths, 1, layer, symbols, &given->strengths, error);
}

static icl_status operands_create(icl_backend *backend, const hand_layer *layer, icl_tensor symbols, operands *given,
                                  icl_error *error) {
    const size_t sequences = symbols.shape[0], width = layer->width, tokens = symbols.shape[1] * layer->writes;
    float identity[MOST_WIDTH * MOST_WIDTH] = {0};

    for (size_t i = 0; i < width; i++)
        identity[i * width + i] = 1;
    ICL_CHECK(look_up_all(backend, layer, symbols, given, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){width, 1, width}, &given->queries, error));
    ICL_CHECK(icl_tensor_write(given->queries, identity, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){sequences, width, tokens, 1}, &given->outputs, error));
    for (int i = 0; i < 2; i++)
        ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){sequences, width, width, 1}, &given->states[i], error));
    return ICL_OK;
}

static void operands_release(operands *given) {
    icl_tensor_release(&given->keys);
    icl_tensor_release(&given->values);
    icl_tensor_release(&given->strengths);
    icl_tensor_release(&given->queries);
    icl_tensor_release(&given->outputs);
    icl_tensor_release(&given->states[0]);
    icl_tensor_release(&given->states[1]);
}

/* ---- Layers by hand: both forms ---- */

static const icl_recurrence_params delta_rule = {.delta = true, .scale = 1};

static icl_status run_whole(icl_backend *backend, const operands *given, icl_error *error) {
    return icl_recurrence_forward(
        backend, &delta_rule, given->outputs, given->states[0], NULL,
        &(icl_recurrence_inputs){.q = given->queries, .k = given->keys, .v = given->values, .beta = given->strengths},
        error);
}

/* Runs the tokens of one position at a time, from the state after the position before. */
static icl_status run_stepwise(const icl_study *study, const operands *given, size_t writes, icl_error *error) {
    const size_t tokens = given->outputs.shape[2];

    for (size_t first = 0; first < tokens; first += writes) {
        const size_t position = first / writes;
        const icl_recurrence_inputs inputs = {.q = given->queries,
                                              .k = icl_tensor_slice(given->keys, 2, first, writes),
                                              .v = icl_tensor_slice(given->values, 2, first, writes),
                                              .beta = icl_tensor_slice(given->strengths, 2, first, writes),
                                              .state = position > 0 ? given->states[position % 2] : (icl_tensor){0}};
        if (position % 1000 == 0)
            ICL_CHECK(icl_reproduce_poll(study->run, error));
        ICL_CHECK(icl_recurrence_forward(study->run->params->backend, &delta_rule,
                                         icl_tensor_slice(given->outputs, 2, first, writes),
                                         given->states[(position + 1) % 2], NULL, &inputs, error));
    }
    return ICL_OK;
}

/* ---- Layers by hand: against the classes ---- */

/* Compares the state after the last write of each position except the first with the class [B, P - 1] there. */
static hand_tally count_right(const hand_layer *layer, const float *outputs, const float *classes, size_t sequences,
                              size_t positions) {
    size_t right = 0;
    double deviation = 0;

    for (size_t i = 0; i < sequences; i++)
        for (size_t t = 1; t < positions; t++) {
            int state[MOST_WIDTH];
            for (size_t j = 0; j < layer->width; j++) {
                const size_t row = (i * layer->width + j) * positions + t;
                const double seen = (double)outputs[row * layer->writes + layer->writes - 1];
                deviation = fmax(deviation, fabs(seen - nearbyint(seen)));
                state[j] = isfinite(seen) && fabs(seen) < 1000 ? (int)nearbyint(seen) : 0;
            }
            right += classify(layer, state) == (size_t)classes[i * (positions - 1) + t - 1];
        }
    return (hand_tally){(double)right / (double)(sequences * (positions - 1)), deviation};
}

/* Runs both forms on one batch; `outputs` has room for the layer's outputs. */
static icl_status run_batch(const icl_study *study, const hand_layer *layer, const icl_batch *batch, float *classes,
                            float *outputs, hand_tally tallies[HAND_FORMS], icl_error *error) {
    icl_backend *backend = study->run->params->backend;
    const size_t sequences = batch->inputs.shape[0], positions = batch->inputs.shape[1];
    operands all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(operands_create(backend, layer, batch->inputs, &all, error));
    ICL_TRY(icl_tensor_read(batch->targets, classes, error));
    for (int form = 0; form < HAND_FORMS; form++) {
        ICL_TRY(icl_fill(backend, all.outputs, 0, error));
        ICL_TRY(form == HAND_WHOLE ? run_whole(backend, &all, error) : run_stepwise(study, &all, layer->writes, error));
        ICL_TRY(icl_tensor_read(all.outputs, outputs, error));
        tallies[form] = count_right(layer, outputs, classes, sequences, positions);
    }
done:
    operands_release(&all);
    return status;
}

/* Runs the layer of parity (points = 0), or of permutations of `points` points, all or only the even ones, in both
 * forms on words of one length, from a task with task.family = state and that rule. */
static icl_status run_by_hand(const icl_study *study, const icl_task *words, size_t points, bool is_even,
                              hand_tally tallies[HAND_FORMS], icl_error *error) {
    const hand_layer layer = points > 0 ? make_layer(points, is_even) : parity_layer;
    const size_t sequences = points > 0 ? 4 : 8, positions = words->shape.positions;
    icl_batch batch;
    float *classes = NULL, *outputs = NULL;

    ICL_CHECK(icl_study_batch(study, words, sequences, 0, 0, &batch, error));
    ICL_CHECK(icl_study_room(study, sequences * positions, sizeof *classes, &classes, error));
    ICL_CHECK(
        icl_study_room(study, sequences * positions, layer.writes * layer.width * sizeof *outputs, &outputs, error));
    return run_batch(study, &layer, &batch, classes, outputs, tallies, error);
}

/* ---- Kinds of cells ---- */

enum { HAND_TOKENS = 10000, MOST_LENGTHS = 6, TWICE = 1 }; /* the second length is twice the longest in training */

/* Scales, as bits. */
enum { AT_CI = 1 << ICL_SCALE_CI, AT_FULL = 1 << ICL_SCALE_FULL, LATER = 1 << ICL_SCALE_SHORT | AT_FULL };

/* A layer by hand for permutations of `points` points; 0: for parity. */
typedef struct hand_kind {
    const char *name, *rule;
    size_t points;
    bool is_even;
} hand_kind;

/* A kind of model: its settings, how often it is trained, and the words on which it is evaluated. */
typedef struct trained_kind {
    unsigned scales;          /* scales at which it is trained */
    const char *name, *label; /* name of its run folders; label of its findings and its curve */
    const char *settings;
    bool learns;                  /* more than half of its seeds learn; otherwise none does */
    size_t seeds, sequences;      /* the study's seed and the following ones; sequences for each length */
    size_t lengths[MOST_LENGTHS]; /* 0 behind the last */
    /* The published (accuracy - chance) / (1 - chance) of the best seed, on words between the first and the last of
     * these lengths. Recalled, so that it is shown and not judged. 0: nothing is published. */
    double published;
} trained_kind;

/* Accuracies are shares of words, all of one length, whose last class is right. */
typedef struct state_study {
    const char *recipe, *title, *tokens; /* title of the figure, and name of a word's tokens */
    double right;                        /* accuracy at twice the length from which on a seed has learned */
    double above_chance;                 /* accuracy at that length which seeds that cannot learn stay below */
    double chance;                       /* share of right guesses, a curve of the figure */
    const char *can, *cannot;            /* sources */
    const hand_kind *hands;              /* ends without a name */
    const trained_kind *kinds;           /* ends without a name */
} state_study;

/* ---- Parity ---- */

#define UP_TO_1 "model.write_strength=1 "
#define FEW     "task.longest=10 train.batch=64 train.steps=250 train.warmup=20 "
/* The published setting: two layers, words of up to 40 bits, the loss at the last one, evaluation up to 256. */
#define PUBLISHED                                                                                                      \
    "task.longest=40 task.labels=last model.layers=2 model.width=128 model.heads=4 model.key_width=32 "                \
    "model.convolution=4 train.learning_rate=0.001 train.weight_decay=0 train.warmup=2000 train.steps=20000 "
#define BITS                                                                                                           \
    { 20, 40, 100, 256 }
#define PUBLISHED_BITS                                                                                                 \
    { 40, 80, 160, 256 }

static const trained_kind parity_kinds[] = {
    {AT_CI, "strength2", "strength in (0, 2)", FEW, true, 1, 1024, {10, 20}},
    {AT_CI, "strength1", "strength in (0, 1)", FEW UP_TO_1, false, 1, 1024, {10, 20}},
    {LATER, "strength2", "strength in (0, 2)", "", true, 5, 4096, BITS},
    {LATER, "strength1", "strength in (0, 1)", UP_TO_1, false, 5, 4096, BITS},
    {AT_FULL, "published2", "published model, (0, 2)", PUBLISHED, true, 5, 8192, PUBLISHED_BITS, 1},
    {AT_FULL, "published1", "published model, (0, 1)", PUBLISHED UP_TO_1, false, 5, 8192, PUBLISHED_BITS, .017},
    {.name = NULL}};

static const state_study parity = {
    .recipe = "state-parity",
    .title = "Parity by one delta layer: right answers by the length of the word",
    .tokens = "bits",
    .right = .99,
    .above_chance = .55,
    .chance = .5,
    .can = "abstract: eigenvalues below 0 can",
    .cannot = "abstract: eigenvalues in [0, 1] cannot",
    .hands = (const hand_kind[]){{"hand", "parity", 0, false}, {.name = NULL}},
    .kinds = parity_kinds,
};

/* ---- Words of permutations ---- */

#define ONE_WRITE "model.delta_steps=1 "
#define SHORT     "task.longest=8 train.batch=64 train.steps=200 train.warmup=20 "
#define LONG                                                                                                           \
    "task.longest=128 model.width=128 model.heads=8 model.key_width=16 train.learning_rate=0.001 train.steps=20000 "
#define SWAPS "task.tokens=generators "
#define KDA   "model.mixer=kda " /* whose one write a token is in (0, 2), behind a decay of each channel */
#define RWKV7 "model.mixer=rwkv7 model.write_strength=1 " /* takes out shares in (0, 1) */
#define WORDS                                                                                                          \
    { 20, 40, 100 }
#define LONG_WORDS                                                                                                     \
    { 128, 256, 512 }

static const trained_kind word_kinds[] = {
    {AT_CI, "2-writes", "S3, 2 writes in (0, 2)", SHORT, true, 1, 1024, {8, 16}},
    {AT_CI, "1-write", "S3, 1 write in (0, 2)", SHORT ONE_WRITE, false, 1, 1024, {8, 16}},
    {AT_CI, "kda-swaps", "swaps of S3, kda in (0, 2)", SHORT KDA SWAPS, true, 1, 1024, {8, 16}},
    {LATER, "2-writes", "S3, 2 writes in (0, 2)", "", true, 3, 4096, WORDS},
    {LATER, "1-write", "S3, 1 write in (0, 2)", ONE_WRITE, false, 3, 4096, WORDS},
    {LATER, "up-to-1", "S3, 2 writes in (0, 1)", UP_TO_1, false, 3, 4096, WORDS},
    {LATER, "swaps", "swaps of S3, 1 write in (0, 2)", ONE_WRITE SWAPS, true, 3, 4096, WORDS},
    {LATER, "kda", "S3, kda in (0, 2)", KDA, false, 3, 4096, WORDS},
    {LATER, "kda-swaps", "swaps of S3, kda in (0, 2)", KDA SWAPS, true, 3, 4096, WORDS},
    {LATER, "rwkv7-swaps", "swaps of S3, rwkv7 in (0, 1)", RWKV7 SWAPS, false, 3, 4096, WORDS},
    {AT_FULL, "a5", "A5, 2 writes in (0, 2)", LONG "task.rule=a5", true, 3, 8192, LONG_WORDS},
    {AT_FULL, "s5", "S5, 4 writes in (0, 2)", LONG "task.rule=s5 model.delta_steps=4", true, 3, 8192, LONG_WORDS},
    {.name = NULL}};

static const hand_kind word_hands[] = {
    {"hand-s3", "s3", 3, false}, {"hand-a5", "a5", 5, true}, {"hand-s5", "s5", 5, false}, {.name = NULL}};

static const state_study words = {
    .recipe = "state-words",
    .title = "Words of permutations by one layer: right answers by the length of the word",
    .tokens = "permutations",
    .right = .99,
    .above_chance = .5,
    .chance = 1 / 6.0, /* chance of S3 */
    .can = "a write for each reflection",
    .cannot = "rotations need 2 reflections; [0, 1] has none",
    .hands = word_hands,
    .kinds = word_kinds,
};

/* ---- Cells ---- */

static const state_study *settings_of(const icl_study *study) {
    return study->run->reproduction == &icl_state_parity ? &parity : &words;
}

static void plan(icl_study *study) {
    const state_study *data = settings_of(study);

    for (const hand_kind *hand = data->hands; hand->name; hand++)
        ICL_ADD_CELL(study, .name = hand->name, .group = "hand", .recipe = data->recipe, .is_untrained = true,
                     .data = hand,
                     .settings = {ICL_PHRASE("task.rule=%s task.shortest=%d task.longest=%d", hand->rule, HAND_TOKENS,
                                             HAND_TOKENS)});
    for (const trained_kind *kind = data->kinds; kind->name; kind++)
        for (size_t number = 0; kind->scales >> study->scale & 1 && number < kind->seeds; number++)
            ICL_ADD_CELL(study, .name = kind->name, .recipe = data->recipe, .data = kind,
                         .seed = icl_study_seed(study, number),
                         .settings = {kind->settings, ICL_PHRASE("eval.seed=%" PRIu32, icl_study_seed(study, number))});
}

/* Numbers of a layer by hand: for each form the share of right classes, and the distance of states from whole numbers.
 * Numbers of a trained model: accuracies by length, and on words of all lengths if something is published. */
enum { SHARE = 0, DEVIATION = SHARE + HAND_FORMS, ACCURACY = DEVIATION + HAND_FORMS };
enum { MIXED = ACCURACY + MOST_LENGTHS, NUMBERS };

static size_t count_lengths(const trained_kind *kind) {
    size_t count = 0;
    while (count < MOST_LENGTHS && kind->lengths[count] > 0)
        count++;
    return count;
}

static icl_status measure_hand(icl_study *study, const hand_kind *hand, const icl_task *task, icl_number *numbers,
                               icl_error *error) {
    hand_tally tallies[HAND_FORMS];

    ICL_CHECK(run_by_hand(study, task, hand->points, hand->is_even, tallies, error));
    for (size_t form = 0; form < HAND_FORMS; form++) {
        numbers[SHARE + form].value = tallies[form].share;
        numbers[DEVIATION + form].value = tallies[form].deviation;
    }
    return ICL_OK;
}

/* Returns the share of right answers on words of these lengths. */
static icl_status measure_words(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, size_t shortest,
                                size_t longest, icl_number *accuracy, icl_error *error) {
    const trained_kind *kind = cell->data;

    return icl_reproduce_accuracy_as(study->run, trained, cell->complete,
                                     ICL_PHRASE("task.shortest=%zu task.longest=%zu task.labels=last "
                                                "eval.sequences=%zu eval.predictors=",
                                                shortest, longest, kind->sequences),
                                     &accuracy->value, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const trained_kind *kind = cell->data;

    if (cell->is_untrained)
        return measure_hand(study, cell->data, icl_trainer_task(trained), numbers, error);
    const size_t *lengths = kind->lengths, count = count_lengths(kind);
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(measure_words(study, cell, trained, lengths[i], lengths[i], &numbers[ACCURACY + i], error));
    return kind->published > 0
               ? measure_words(study, cell, trained, lengths[0], lengths[count - 1], &numbers[MIXED], error)
               : ICL_OK;
}

/* ---- Judging ---- */

static void judge_hand(icl_study *study, const hand_kind *hand, const icl_number *numbers) {
    static const char *const forms[] = {[HAND_WHOLE] = "as a whole", [HAND_STEPWISE] = "token by token"};
    const size_t writes = hand->points > 0 ? hand->points - 1 : 1;

    for (size_t form = 0; form < HAND_FORMS; form++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s by hand, %s, %d tokens", hand->rule, forms[form], HAND_TOKENS),
                  .quantity = "share of right classes", ICL_OURS(numbers[SHARE + form]), .target = 1,
                  .evidence = ICL_COMPUTED, .source = "product of reflections",
                  .note = ICL_PHRASE("%zu write%s for a token; states are off by %.2g at most", writes,
                                     writes == 1 ? "" : "s", numbers[DEVIATION + form].value));
}

static void judge_seeds(icl_study *study, const trained_kind *kind, const double *at_twice, size_t seeds) {
    const state_study *data = settings_of(study);
    const double accuracy = kind->learns ? data->right : data->above_chance;
    char note[160] = "";
    const size_t most = seeds / 2 + 1;
    size_t used = 0, above = 0;

    for (size_t i = 0; i < seeds; i++) {
        above += at_twice[i] >= accuracy;
        if (used < sizeof note)
            used += (size_t)icl_print(note + used, sizeof note - used, "%s%.4g", i > 0 ? ", " : "", at_twice[i]);
    }
    ICL_JUDGE(study, .what = kind->label,
              .quantity = ICL_PHRASE("of %zu seed%s, right on %.3g %% at %zu %s", seeds, seeds == 1 ? "" : "s",
                                     100 * accuracy, kind->lengths[TWICE], data->tokens),
              .ours = (double)above, .target = kind->learns ? (double)most : 0,
              .criterion = kind->learns ? ICL_AT_LEAST : ICL_AT_MOST,
              .evidence = kind->learns ? ICL_INFERRED : ICL_STATED, .source = kind->learns ? data->can : data->cannot,
              .note = note);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const state_study *data = settings_of(study);
    const trained_kind *kind = cell->data;
    double at_twice[8], best = 0;
    size_t seeds = 0;

    if (cell->is_untrained) {
        judge_hand(study, cell->data, cell->numbers);
        return;
    }
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->data == kind) {
            at_twice[seeds++] = study->cells[i]->numbers[ACCURACY + TWICE].value;
            best = fmax(best, study->cells[i]->numbers[MIXED].value);
        }
    judge_seeds(study, kind, at_twice, seeds);
    if (kind->published > 0)
        ICL_JUDGE(study, .what = kind->label,
                  .quantity = ICL_PHRASE("best scaled accuracy at %zu to %zu %s", kind->lengths[0],
                                         kind->lengths[count_lengths(kind) - 1], data->tokens),
                  .ours = (best - data->chance) / (1 - data->chance), .target = kind->published,
                  .evidence = ICL_RECALLED, .source = "their table of parity");
}

static void conclude(icl_study *study) {
    const state_study *data = settings_of(study);
    icl_curves curves = ICL_CURVES(.name = "accuracy-by-length", .title = data->title, .x_label = data->tokens,
                                   .y_label = "share of right answers", .log_x = true);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        const trained_kind *kind = cell->data;
        for (size_t k = 0; !cell->is_untrained && cell->is_measured && k < count_lengths(kind); k++) {
            icl_study_plot(study, &curves, kind->label, ICL_SERIES_OURS, (double)kind->lengths[k],
                           cell->numbers[ACCURACY + k].value);
            icl_study_plot(study, &curves, "chance", ICL_SERIES_REFERENCE, (double)kind->lengths[k], data->chance);
        }
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_state_parity = ICL_STUDY(
        .name = "state-parity", .source = "arXiv 2411.12537",
        .about =
            "parity by a delta layer: by hand at length 10,000, and trained with write strengths up to 1 and up to 2",
        .claim =
            "A linear recurrence tracks parity on words longer than those of its training if its eigenvalues can be "
            "negative, and not otherwise.",
        .scope = "A met table means that weights by hand track parity for 10,000 tokens, and that trained "
                 "layers of one size do or do not generalise beyond their training by the sign of their "
                 "eigenvalues; other words than bits are those of state-words.",
        .cost = {"3 s", "4 min", "12 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);

const icl_reproduction icl_state_words = ICL_STUDY(
        .name = "state-words", .source = "arXiv 2411.12537, 2502.10297",
        .about = "permutation words by products of reflections: by hand at length 10,000, and trained on S3",
        .claim =
            "A linear recurrence tracks words of permutations if it writes as often for each token as the permutation "
            "has reflections.",
        .scope = "A met table means that trained layers track permutations of three points where they "
                 "write often enough; with more points, only weights by hand are judged below scale full.",
        .cost = {"3 s", "3 min", "30 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
