/*
 *     S <- S - beta k (S^T k)^T + beta k v        n_h times for each symbol;    o_h = S^T q_h
 *
 * With one value S is a vector [m], and a write with v = 0, beta = 2 and a unit key reflects it: S <- (I - 2 k k^T) S.
 *
 * Parity: S is one number. The start symbol writes 1; a bit 1 writes v = 0 with beta = 2 under k = 1, S <- -S; a bit 0
 * writes nothing. No rounding at all, at any length.
 *
 * Permutations: S is a vector of n numbers, the things on n places; the start symbol writes (1, …, n). A swap of the
 * places i and j is the reflection S <- (I - 2 k k^T) S with k = (e_i - e_j) / sqrt 2: one write with beta = 2 and
 * v = 0. A permutation with c cycles is a product of n - c swaps, so n - 1 writes a token are enough for any.
 */
#include "papers/state/hand.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/ops.h"
#include "iclab/ops_recurrence.h"
#include "iclab/ops_sequence.h"
#include "iclab/task.h"
#include "task/permutations.h"

/* ---- Layers ---- */

enum { MOST_SYMBOLS = 121, MOST_WRITES = 4, MOST_WIDTH = 5 };

/* One write: beta, v, and k [m]. */
typedef struct hand_write {
    double strength, value, key[MOST_WIDTH];
} hand_write;

typedef struct hand_layer {
    size_t symbols, writes, width; /* V, n_h, m */
    hand_write table[MOST_SYMBOLS][MOST_WRITES];
    icl_permutations group; /* without points for parity */
} hand_layer;

static const hand_layer parity = {
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

/* Each cycle (p_0 p_1 … p_k) as the swaps of p_0 with p_1, then with p_2, and so on. The writes left over stay 0. */
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

/* The class of a state, whose numbers are rounded to whole ones: its sign, or the element that took the things 1 … n,
 * in order, to the places where they are. SIZE_MAX where it is that of no class. */
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

/* ---- What the layer writes and reads ---- */

/* On the device, for P positions: keys [B, 1, P n_h, m], values and strengths [B, 1, P n_h, 1], and queries [m, 1, m],
 * one for each number of the state; then the outputs [B, m, P n_h, 1] and two states [B, m, m, 1]. */
typedef struct operands {
    icl_tensor keys, values, strengths, queries, outputs, states[2];
} operands;

/* The entries of the table for each symbol, [V, n_h width]. */
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

static icl_status look_up_all(icl_backend *backend, const hand_layer *layer, icl_tensor symbols, operands *all,
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
    ICL_CHECK(look_up(backend, keys, layer->width, layer, symbols, &all->keys, error));
    ICL_CHECK(look_up(backend, values, 1, layer, symbols, &all->values, error));
    return look_up(backend, strengths, 1, layer, symbols, &all->strengths, error);
}

static icl_status operands_create(icl_backend *backend, const hand_layer *layer, icl_tensor symbols, operands *all,
                                  icl_error *error) {
    const size_t sequences = symbols.shape[0], width = layer->width, tokens = symbols.shape[1] * layer->writes;
    float identity[MOST_WIDTH * MOST_WIDTH] = {0};

    for (size_t i = 0; i < width; i++)
        identity[i * width + i] = 1;
    ICL_CHECK(look_up_all(backend, layer, symbols, all, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){width, 1, width}, &all->queries, error));
    ICL_CHECK(icl_tensor_write(all->queries, identity, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){sequences, width, tokens, 1}, &all->outputs, error));
    for (int i = 0; i < 2; i++)
        ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){sequences, width, width, 1}, &all->states[i], error));
    return ICL_OK;
}

static void operands_release(operands *all) {
    icl_tensor_release(&all->keys);
    icl_tensor_release(&all->values);
    icl_tensor_release(&all->strengths);
    icl_tensor_release(&all->queries);
    icl_tensor_release(&all->outputs);
    icl_tensor_release(&all->states[0]);
    icl_tensor_release(&all->states[1]);
}

/* ---- Both forms ---- */

static const icl_recurrence_params delta_rule = {.delta = true, .scale = 1};

static icl_status run_whole(icl_backend *backend, const operands *all, icl_error *error) {
    return icl_recurrence_forward(
        backend, &delta_rule, all->outputs, all->states[0], NULL,
        &(icl_recurrence_inputs){.q = all->queries, .k = all->keys, .v = all->values, .beta = all->strengths}, error);
}

/* The tokens of one position at a time, from the state that the one before left. */
static icl_status run_stepwise(const icl_reproducing *run, const operands *all, size_t writes, icl_error *error) {
    const size_t tokens = all->outputs.shape[2];

    for (size_t first = 0; first < tokens; first += writes) {
        const size_t position = first / writes;
        const icl_recurrence_inputs inputs = {.q = all->queries,
                                              .k = icl_tensor_slice(all->keys, 2, first, writes),
                                              .v = icl_tensor_slice(all->values, 2, first, writes),
                                              .beta = icl_tensor_slice(all->strengths, 2, first, writes),
                                              .state = position > 0 ? all->states[position % 2] : (icl_tensor){0}};
        if (position % 1000 == 0)
            ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_recurrence_forward(run->params->backend, &delta_rule,
                                         icl_tensor_slice(all->outputs, 2, first, writes),
                                         all->states[(position + 1) % 2], NULL, &inputs, error));
    }
    return ICL_OK;
}

/* ---- Against the classes ---- */

/* The state behind the last write of each position but the first, against the class [B, P - 1] there. */
static icl_hand_tally count_right(const hand_layer *layer, const float *outputs, const float *classes, size_t sequences,
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
    return (icl_hand_tally){(double)right / (double)(sequences * (positions - 1)), deviation};
}

/* Both forms on one batch; `outputs` has room for what the layer gives. */
static icl_status run_batch(const icl_reproducing *run, const hand_layer *layer, const icl_batch *batch, float *classes,
                            float *outputs, icl_hand_tally tallies[ICL_HAND_FORMS], icl_error *error) {
    icl_backend *backend = run->params->backend;
    const size_t sequences = batch->inputs.shape[0], positions = batch->inputs.shape[1];
    operands all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(operands_create(backend, layer, batch->inputs, &all, error));
    ICL_TRY(icl_tensor_read(batch->targets, classes, error));
    for (int form = 0; form < ICL_HAND_FORMS; form++) {
        ICL_TRY(icl_fill(backend, all.outputs, 0, error));
        ICL_TRY(form == ICL_HAND_WHOLE ? run_whole(backend, &all, error)
                                       : run_stepwise(run, &all, layer->writes, error));
        ICL_TRY(icl_tensor_read(all.outputs, outputs, error));
        tallies[form] = count_right(layer, outputs, classes, sequences, positions);
    }
done:
    operands_release(&all);
    return status;
}

icl_status icl_hand_run(const icl_reproducing *run, const icl_task *words, size_t points, bool is_even,
                        icl_hand_tally tallies[ICL_HAND_FORMS], icl_error *error) {
    const hand_layer layer = points > 0 ? make_layer(points, is_even) : parity;
    const size_t sequences = points > 0 ? 4 : 8, positions = words->shape.positions;
    icl_backend *backend = run->params->backend;
    icl_batch batch = {0};
    float *classes = NULL, *outputs = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(words, backend, ICL_FOR_EVALUATION, sequences, &batch, error));
    ICL_TRY(icl_task_sample(words, backend, ICL_FOR_EVALUATION, run->params->seed, 0, &batch, error));
    ICL_TRY(icl_allocate(sequences * positions, sizeof *classes, "classes", &classes, error));
    ICL_TRY(
        icl_allocate(sequences * positions * layer.writes * layer.width, sizeof *outputs, "outputs", &outputs, error));
    ICL_TRY(run_batch(run, &layer, &batch, classes, outputs, tallies, error));
done:
    icl_free(&classes);
    icl_free(&outputs);
    icl_batch_release(&batch);
    return status;
}
