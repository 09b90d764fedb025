/*
 * Markov chains in context: Edelman, Edelman, Goel, Malach, Tsilivis 2024, "The Evolution of Statistical Induction
 * Heads: In-Context Learning Markov Chains" (arXiv 2402.11004), and its n-grams.
 *
 *     x_1 … x_m uniform on k = task.symbols,  x_(t+1) ~ P(. | x_(t-m+1) … x_t) up to x_T, m = task.order,
 *     T = task.length; each of the k^m rows of P ~ Dirichlet(alpha, …, alpha), alpha = task.alpha
 *
 * With H = task.states > 0 states z_t, z_1 uniform, are a chain of order 1 and hidden; x_t ~ E(. | z_t), and the rows
 * of E have the same Dirichlet law.
 *
 * task.pool = M: the chain is one of M, drawn uniformly; with task.fresh_functions it is none of them. task.chain names
 * a file with the pool's chains. Otherwise every sequence has a chain of its own.
 *
 * Position t holds x_t, t = 1 … T - 1, and has the class x_(t+1). Scored are the positions from m on, whose classes the
 * chain gives; all of them for order 1 and for hidden chains. A model that is not causal sees the answers.
 *
 * The host draws: the chain of sequence s owns the words s C … of its stream, C the numbers of a chain, in which row c
 * is words c k …; sequence s owns the words s (1 + 2 T) … of another: one for the choice of the pool's
 * chain, T for its symbols, T for its states. Everything is made of them in double precision by +, -, *, / alone.
 */
#include "task/markov/family.h"

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/task_family.h"
#include "numeric/parallel.h"
#include "task/draws.h"
#include "task/quantiles.h"
#include "task/streams.h"
#include "task/task.h"

#define MOST_SYMBOLS 65536
#define MOST_STATES  4096
#define MOST_ORDER   24
#define MOST_NUMBERS ((size_t)1 << 24) /* of a pool, in doubles: 128 MiB */

/* ---- The recipe ---- */

typedef struct markov_keys {
    size_t symbols, order, states;
    double alpha;
    const char *chain;
} markov_keys;

#define KEY(field)  ICL_KEY("task", markov_keys, field)
#define NAME(field) ICL_KEY_NAME("task", markov_keys, field)

static const icl_recipe_key own_rows[] = {
    {KEY(symbols), "3", 2, MOST_SYMBOLS, .help = "symbols k of a Markov chain"},
    {KEY(order), "1", 1, MOST_ORDER, .help = "symbols m that the next one depends on"},
    {KEY(alpha), "1", ICL_SMALLEST_SHAPE, ICL_LARGEST_SHAPE, .help = "Dirichlet parameter of a chain's rows"},
    {KEY(states), "0", 0, MOST_STATES, .help = "hidden states H; 0: the symbols are the chain"},
    {KEY(chain), "", .help = "a text file with rows of probabilities: the chains of the pool; empty: they are drawn"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_markov_family_keys[] = {&own_keys, &icl_length_keys, &icl_law_pool_keys, NULL};

/* Sets contexts and size, if the tables of all chains of a pool have few enough numbers. */
static icl_status measure_chains(const icl_recipe *recipe, const icl_law_pool *pool, icl_chain_law *law,
                                 icl_error *error) {
    const size_t k = law->symbols, states = law->states;

    law->contexts = 1;
    for (size_t i = 0; i < law->order && states == 0; i++) {
        if (law->contexts > MOST_NUMBERS / k / k)
            return icl_recipe_reject(recipe, NAME(order), error,
                                     "an order m with k^m rows of k = %zu probabilities, %zu in all at most", k,
                                     MOST_NUMBERS);
        law->contexts *= k;
    }
    law->size = states > 0 ? states * (states + k) : law->contexts * k;
    if (law->size > MOST_NUMBERS)
        return icl_recipe_reject(recipe, NAME(states), error,
                                 "states H with H (H + k) probabilities, k = %zu, %zu in all at most", k, MOST_NUMBERS);
    if (pool->pool > MOST_NUMBERS / law->size)
        return icl_recipe_reject(recipe, ICL_LAW_POOL_KEY(pool), error,
                                 "at most %zu chains of %zu probabilities, %zu in all", MOST_NUMBERS / law->size,
                                 law->size, MOST_NUMBERS);
    return ICL_OK;
}

/* ---- Chains ---- */

#define TWICE_LN_2 1.38629436111989061883 /* 2 log 2 */

/* Returns a draw from Gamma(alpha, 1): the square of a radius, by its table of log2 (ops_gram.h states the pieces). */
static double draw_gamma(const icl_markov *state, uint32_t word) {
    const double z = (double)icl_normal_from_word(word);
    const int piece = (int)(z + (double)ICL_CHI_PIECES / 2);
    const double t = z - (piece - (ICL_CHI_PIECES - 1) / 2.0);
    const double *row = state->radii + (size_t)piece * ICL_CHI_TERMS;
    double logarithm = row[ICL_CHI_TERMS - 1];

    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        logarithm = logarithm * t + row[term];
    return icl_exponential(TWICE_LN_2 * logarithm);
}

/* Draws numbers [first, first + count) of chain `number` of the key, whole rows, to out [count]: number i is made from
 * word number C + i of the stream. */
static void draw_chain(const icl_markov *state, icl_random_key key, uint64_t number, size_t first, size_t count,
                       double *out) {
    const icl_chain_law *law = &state->law;
    const uint64_t words = number * law->size + first;

    for (size_t at = 0; at < count;) { /* gamma draws over their sum have a Dirichlet distribution */
        const size_t row = first + at < law->states * law->states ? law->states : law->symbols;
        double sum = 0;
        for (size_t i = 0; i < row; i++)
            sum += out[at + i] = draw_gamma(state, icl_random_word(key, words + at + i));
        for (size_t i = 0; i < row; i++)
            out[at + i] /= sum;
        at += row;
    }
}

/* Returns the outcome a of a row, p_0 + … + p_(a-1) <= w / 2^32 < p_0 + … + p_a, for a random word w. */
static uint32_t choose(const double *row, size_t count, uint32_t word) {
    const double share = (double)word * 0x1p-32;
    double sum = 0;

    for (size_t i = 0; i + 1 < count; i++)
        if (share < (sum += row[i]))
            return (uint32_t)i;
    return (uint32_t)(count - 1);
}

/* ---- The task ---- */

static icl_status draw_pool(const icl_law_pool *pool, icl_markov *state, icl_error *error) {
    const icl_random_key key = {.seed = (uint32_t)pool->pool_seed, .stream = ICL_MARKOV_POOL_STREAM};

    state->pool = (size_t)pool->pool;
    state->is_fresh = pool->pool == 0 || pool->fresh_functions;
    ICL_CHECK(
        icl_allocate(state->pool, state->law.size * sizeof *state->chains, "pool of chains", &state->chains, error));
    for (size_t i = 0; i < state->pool; i++)
        draw_chain(state, key, i, 0, state->law.size, state->chains + i * state->law.size);
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_law_pool pool = icl_law_pool_read(recipe);
    icl_vocabulary size;
    markov_keys keys;
    icl_markov *state = NULL;

    icl_recipe_read(recipe, &own_keys, &keys);
    icl_recipe_read(recipe, &icl_length_keys, &size);
    if (keys.states > 0 && keys.order > 1)
        return icl_recipe_reject(recipe, NAME(order), error, "1, because task.states = %zu are hidden", keys.states);
    if (size.length < keys.order + 2)
        return icl_recipe_reject(recipe, ICL_VOCABULARY_KEY(length), error,
                                 "at least %zu: two symbols behind the first %zu", keys.order + 2, keys.order);
    ICL_CHECK(icl_allocate(1, sizeof *state, "Markov chains", &state, error));
    task->state = state;
    state->law = (icl_chain_law){.symbols = keys.symbols, .order = keys.order, .states = keys.states};
    state->alpha = keys.alpha;
    ICL_CHECK(measure_chains(recipe, &pool, &state->law, error));
    icl_radius_table(keys.alpha, 1, state->radii);
    if (keys.chain[0] && pool.pool > 0)
        return icl_recipe_reject(recipe, ICL_LAW_POOL_KEY(pool), error, "0: the chains of task.chain are the pool");
    ICL_CHECK(keys.chain[0] ? icl_markov_read_chains(keys.chain, state, MOST_NUMBERS, error)
                            : draw_pool(&pool, state, error));
    icl_markov_list_references(state);
    task->shape = (icl_task_shape){.positions = size.length - 1,
                                   .symbols = keys.symbols,
                                   .outputs = keys.symbols,
                                   .first_scored = keys.order - 1,
                                   .scored = size.length - keys.order,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_markov *state = task->state;

    if (state)
        icl_free(&state->chains);
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0 /* [B, S, 1] */, SOURCE /* [B, S, k] */ };

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const size_t scored = task->shape.scored;

    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, task->shape.positions}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, scored, 1}, &batch->scratch[TARGETS], error));
    batch->targets = batch->scratch[TARGETS];
    if (purpose == ICL_FOR_TRAINING)
        return ICL_OK;
    ICL_CHECK(
        icl_tensor_create(backend, 3, (size_t[]){size, scored, task->shape.outputs}, &batch->scratch[SOURCE], error));
    return icl_batch_add_side(batch, ICL_SIDE_SOURCE, batch->scratch[SOURCE], error);
}

/* A batch, its streams, and for each thread [room] doubles: a table or a row, and then k and H numbers to work in. */
typedef struct drawing {
    const icl_task *task;
    icl_random_key symbols, chains;
    icl_batch_values out;
    double *rooms;
    size_t room;
} drawing;

/* Returns whether a sequence's own chain is drawn as a whole: if it has fewer rows than the sequence has symbols.
 * Otherwise each row is drawn where it is needed, as often as it is needed. */
static bool draws_whole(const icl_task *task) {
    const icl_markov *state = task->state;
    return state->law.states > 0 || state->law.contexts <= task->shape.scored;
}

/* Writes symbol t of the sequence, from 0, and the probabilities that the chain gave it. */
static void write_symbol(const drawing *picture, size_t index, size_t t, uint32_t symbol, const double *p) {
    const icl_task_shape *shape = &picture->task->shape;
    const size_t place = index * shape->scored + t - 1 - shape->first_scored;

    if (t < shape->positions)
        picture->out.inputs[index * shape->positions + t] = (float)symbol;
    if (t <= shape->first_scored)
        return;
    picture->out.targets[place] = (float)symbol;
    if (picture->out.sides[0])
        icl_narrow(p, shape->outputs, picture->out.sides[0] + place * shape->outputs);
}

/* Draws a sequence whose symbols are the chain. table: NULL if its rows are drawn where they are needed. */
static void draw_visible(const drawing *picture, size_t index, const double *table, uint64_t words, double *room) {
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const size_t length = picture->task->shape.positions + 1, k = law->symbols;
    size_t context = 0;

    for (size_t t = 0; t < length; t++) {
        const uint32_t word = icl_random_word(picture->symbols, words + t);
        const double *row = table ? table + context * k : room;
        uint32_t symbol;
        if (t < law->order) {
            symbol = (uint32_t)((uint64_t)word * k >> 32);
        } else {
            if (!table)
                draw_chain(state, picture->chains, index, context * k, k, room);
            symbol = choose(row, k, word);
        }
        write_symbol(picture, index, t, symbol, row);
        context = (context * k + symbol) % law->contexts;
    }
}

/* Draws a sequence of hidden states. The source knows the chain, and the states only by their symbols. */
static void draw_hidden(const drawing *picture, size_t index, const double *table, uint64_t words, double *room) {
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const size_t length = picture->task->shape.positions + 1, k = law->symbols, states = law->states;
    const icl_chain_mixture known = {law, table, 1, room + k};
    size_t z = 0;

    icl_chain_mixture_start(&known);
    for (size_t t = 0; t < length; t++) {
        const uint32_t word = icl_random_word(picture->symbols, words + t),
                       moving = icl_random_word(picture->symbols, words + length + t);
        z = t > 0 ? choose(table + z * states, states, moving) : (size_t)((uint64_t)moving * states >> 32);
        const uint32_t symbol = choose(table + states * states + z * k, k, word);
        if (picture->out.sides[0])
            icl_chain_mixture_predict(&known, 0, room);
        write_symbol(picture, index, t, symbol, room);
        if (picture->out.sides[0])
            icl_chain_mixture_observe(&known, 0, symbol);
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const uint64_t words = (uint64_t)index * (1 + 2 * (picture->task->shape.positions + 1));
    double *room = picture->rooms + thread * picture->room;
    const double *table = NULL;

    if (!state->is_fresh) {
        table = state->chains + icl_draw_below(picture->symbols, words, state->pool) * law->size;
    } else if (draws_whole(picture->task)) {
        draw_chain(state, picture->chains, index, 0, law->size, room);
        table = room;
        room += law->size;
    }
    if (law->states > 0)
        draw_hidden(picture, index, table, words + 1, room);
    else
        draw_visible(picture, index, table, words + 1, room);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_markov *state = task->state;
    const size_t threads = icl_parallel_threads(), table = draws_whole(task) ? state->law.size : 0;
    drawing all = {.task = task,
                   .symbols = {seed, icl_stream_for(purpose, ICL_MARKOV_STREAMS), step},
                   .chains = {seed, icl_stream_for(purpose, ICL_MARKOV_CHAIN_STREAMS), step},
                   .out = *values,
                   .room = table + state->law.symbols + icl_chain_mixture_size(&state->law, 1)};

    ICL_CHECK(icl_allocate(threads, all.room * sizeof *all.rooms, "chains", &all.rooms, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
    icl_free(&all.rooms);
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    const icl_markov *state = task->state;
    return state->references;
}

const icl_task_family icl_markov_family = {
    .name = "markov",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
