/*
 * The tasks of "Mechanistic Design and Scaling of Hybrid Architectures" (MAD: Poli et al. 2024, arXiv 2403.17844), by
 * the authors' generators. L = task.length tokens out of V = task.vocabulary symbols:
 *
 * in-context-recall: pairs of a key and its value, which is drawn anew for each sequence; the last pair is one of those
 *     before it. Evaluation asks for the values of keys that were shown before
 * noisy-recall: as above, but a share of the pairs is replaced by two noise symbols each
 * fuzzy-recall: as in-context-recall, but keys and values are motifs of 1 to task.motif distinct symbols, after
 *     padding; in evaluation all keys have task.motif symbols
 * copying: C = task.copied symbols, blanks, the copy symbol, and C blanks, at which the symbols are asked for
 * selective-copying: as copying, but with the symbols at random places before the copy symbol
 * compression: L - 1 symbols and the compression symbol; all L - 1 are asked for, of models that answer from the last
 *     position
 * memorisation: keys, each followed by the insert symbol, at which the key's value is asked for; a key has the same
 *     value in all sequences
 *
 * Symbols: keys come first, then values, noise, and last the special ones: blank V - 2 and copy V - 1; padding,
 * compression and insert V - 1. Keys are half of the other symbols, rounded down.
 *
 * Recall predicts the next token: a model sees the first L - 1, and the class at a position is the token after it. With
 * task.trained = all training asks for every token but the padding, also for values and keys that nobody can know;
 * evaluation asks for the tokens named above. The weights of positions that are asked for are equal and sum to S over
 * the S scored positions, so that means are over sequences.
 *
 * Differences from the authors' tasks: here the last key is any of those shown, in fuzzy recall too; sets of places of
 * selective copying are equally likely; data are fresh for every step instead of 12,800 sequences.
 *
 * The host draws: sequence s owns the words s W …, W = L (2 + task.motif), and takes them one after the other; one of n
 * is number floor(w n / 2^32).
 *
 * Reference predictors: `uniform` over all symbols; `values`, uniform over those that can be asked for; `context`,
 * these as often as the sequence shows them.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

enum { MOST_MOTIF = 8 };

/* task.skill. */
typedef enum mad_skill {
    IN_CONTEXT_RECALL = 0,
    NOISY_RECALL,
    FUZZY_RECALL,
    COPYING,
    SELECTIVE_COPYING,
    COMPRESSION,
    MEMORISATION
} mad_skill;

/* task.trained: the tokens that training asks for, in recall. */
typedef enum mad_trained { TRAINS_ON_ALL = 0, TRAINS_ON_ASKED } mad_trained;

/* The state of a task. Evaluation can ask for the symbols first_asked … first_asked + asked - 1. */
typedef struct mad {
    mad_skill skill;
    icl_vocabulary size;       /* L, V */
    size_t keys;               /* K: symbols 0 … K - 1; 0 if a task has none */
    size_t first_asked, asked; /* the values, or the symbols that are copied */
    size_t noise_symbols;      /* they follow the values; 0 except in noisy recall */
    double noise_share;        /* of the pairs */
    uint64_t noise_below;      /* a smaller word makes a pair noise: 2^32 task.noise_share */
    size_t motif;              /* the most symbols of a key or value; 1 except in fuzzy recall */
    size_t copied;
    mad_trained trained;
    uint64_t facts_seed;
    uint32_t *facts; /* for memorisation, [K]: the value of each key, counted from first_asked */
} mad;

/* A reader of the words of one sequence. */
typedef struct mad_words {
    icl_random_key key;
    uint64_t next;
} mad_words;

/* A key and its value. */
typedef struct mad_pair {
    size_t key_size, value_size;
    uint32_t key[MOST_MOTIF], value[MOST_MOTIF];
} mad_pair;

/* The state of recall: the tokens of a sequence, and the pairs that it has shown. */
typedef struct mad_context {
    uint32_t *tokens; /* [L] */
    bool *asked;      /* [L]: part of the value of a key that was shown before */
    mad_pair *shown;  /* [L / 2 + 1] */
    size_t used, pairs;
} mad_context;

/* ---- The recipe ---- */

#define KEY(field)  ICL_KEY("task", mad, field)
#define NAME(field) ICL_KEY_NAME("task", mad, field)

static const icl_recipe_key trained_rows[] = {
    {KEY(trained), "all", .choices = (const icl_choice[]){{"all", TRAINS_ON_ALL}, {"asked", TRAINS_ON_ASKED}, {0}},
     .help = "what training asks for: every next token, or what evaluation asks for"},
};
static const icl_recipe_key noise_rows[] = {
    {KEY(noise_share), "0.2", 0, 0.999, .help = "share of the pairs that are noise"},
    {KEY(noise_symbols), "16", 1, ICL_MAX_EXTENT, .help = "symbols that noise is made of"},
};
static const icl_recipe_key motif_rows[] = {
    {KEY(motif), "3", 1, MOST_MOTIF, .help = "most symbols of a key and of a value"},
};
static const icl_recipe_key copied_rows[] = {
    {KEY(copied), "16", 1, ICL_MAX_EXTENT, .help = "symbols to copy"},
};
static const icl_recipe_key facts_rows[] = {
    {KEY(facts_seed), "1", 0, ICL_MAX_SEED, .help = "draws the values of the keys"},
};
static const icl_recipe_group trained_keys = ICL_RECIPE_GROUP(trained_rows), noise_keys = ICL_RECIPE_GROUP(noise_rows),
                              motif_keys = ICL_RECIPE_GROUP(motif_rows), copied_keys = ICL_RECIPE_GROUP(copied_rows),
                              facts_keys = ICL_RECIPE_GROUP(facts_rows);
static const icl_recipe_group *const recall_groups[] = {&trained_keys, NULL};
static const icl_recipe_group *const noisy_groups[] = {&trained_keys, &noise_keys, NULL};
static const icl_recipe_group *const fuzzy_groups[] = {&trained_keys, &motif_keys, NULL};
static const icl_recipe_group *const copying_groups[] = {&copied_keys, NULL};
static const icl_recipe_group *const facts_groups[] = {&facts_keys, NULL};

static const icl_choice skills[] = {{"in-context-recall", IN_CONTEXT_RECALL, recall_groups},
                                    {"noisy-recall", NOISY_RECALL, noisy_groups},
                                    {"fuzzy-recall", FUZZY_RECALL, fuzzy_groups},
                                    {"copying", COPYING, copying_groups},
                                    {"selective-copying", SELECTIVE_COPYING, copying_groups},
                                    {"compression", COMPRESSION},
                                    {"memorisation", MEMORISATION, facts_groups},
                                    {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(skill), "in-context-recall", .choices = skills,
     .help = "what is trained: recall of pairs, copying, compression or memorisation"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_mad_family_keys[] = {&icl_vocabulary_keys, &icl_length_keys, &own_keys, NULL};

/* ---- The task ---- */

static bool is_recall(const mad *state) {
    return state->skill <= FUZZY_RECALL;
}

static bool is_copying(const mad *state) {
    return state->skill == COPYING || state->skill == SELECTIVE_COPYING;
}

static icl_status refuse(const icl_recipe *recipe, const char *section, const char *key, size_t least, const char *why,
                         icl_error *error) {
    return icl_recipe_reject(recipe, section, key, error, "at least %zu%s", least, why);
}

static icl_status read_recall(const icl_recipe *recipe, mad *state, icl_error *error) {
    const bool noisy = state->skill == NOISY_RECALL, fuzzy = state->skill == FUZZY_RECALL;

    icl_recipe_read(recipe, &trained_keys, state);
    if (noisy)
        icl_recipe_read(recipe, &noise_keys, state);
    state->noise_below = (uint64_t)(state->noise_share * 0x1p32);
    if (fuzzy)
        icl_recipe_read(recipe, &motif_keys, state);
    if (state->size.vocabulary < 2 * state->motif + state->noise_symbols + fuzzy)
        return refuse(recipe, ICL_VOCABULARY_KEY(vocabulary), 2 * state->motif + state->noise_symbols + fuzzy,
                      ": keys, values, noise and padding", error);
    if (state->size.length < 4 * state->motif)
        return refuse(recipe, ICL_VOCABULARY_KEY(length), 4 * state->motif, ": two of the longest pairs", error);
    if (!fuzzy && state->size.length % 2 != 0)
        return icl_recipe_reject(recipe, ICL_VOCABULARY_KEY(length), error,
                                 "an even number: pairs of a key and a value");
    const size_t left = state->size.vocabulary - state->noise_symbols - fuzzy;
    state->keys = state->first_asked = left / 2;
    state->asked = left - left / 2;
    return ICL_OK;
}

static icl_status read_copying(const icl_recipe *recipe, mad *state, icl_error *error) {
    icl_recipe_read(recipe, &copied_keys, state);
    if (state->size.vocabulary < 3)
        return refuse(recipe, ICL_VOCABULARY_KEY(vocabulary), 3, ": a blank, the copy symbol, and one to copy", error);
    if (state->size.length < 2 * state->copied + 1)
        return refuse(recipe, ICL_VOCABULARY_KEY(length), 2 * state->copied + 1,
                      ": twice task.copied and the copy symbol", error);
    state->asked = state->size.vocabulary - 2;
    return ICL_OK;
}

static icl_status read_compression(const icl_recipe *recipe, mad *state, icl_error *error) {
    if (state->size.vocabulary < 2)
        return refuse(recipe, ICL_VOCABULARY_KEY(vocabulary), 2, ": the compression symbol and another", error);
    if (state->size.length < 2)
        return refuse(recipe, ICL_VOCABULARY_KEY(length), 2, ": a symbol and the compression symbol", error);
    state->asked = state->size.vocabulary - 1;
    return ICL_OK;
}

static icl_status draw_facts(mad *state, icl_error *error) {
    const icl_random_key key = {(uint32_t)state->facts_seed, ICL_MAD_FACTS_STREAM, 0};
    icl_lots lots = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(state->keys, sizeof *state->facts, "facts", &state->facts, error));
    ICL_TRY(icl_lots_create(state->asked, state->keys, &lots, error));
    icl_lots_draw(&lots, key, 0, state->keys, state->facts);
done:
    icl_lots_destroy(&lots);
    return status;
}

static icl_status read_memorisation(const icl_recipe *recipe, mad *state, icl_error *error) {
    if (state->size.vocabulary < 3)
        return refuse(recipe, ICL_VOCABULARY_KEY(vocabulary), 3, ": a key, a value and the insert symbol", error);
    if (state->size.length % 2 != 0)
        return icl_recipe_reject(recipe, ICL_VOCABULARY_KEY(length), error,
                                 "an even number: keys, each before an insert symbol");
    state->keys = state->first_asked = (state->size.vocabulary - 1) / 2;
    state->asked = state->size.vocabulary - 1 - state->keys;
    icl_recipe_read(recipe, &facts_keys, state);
    return draw_facts(state, error);
}

static icl_status read_skill(const icl_recipe *recipe, mad *state, icl_error *error) {
    if (is_recall(state))
        return read_recall(recipe, state, error);
    if (is_copying(state))
        return read_copying(recipe, state, error);
    return state->skill == COMPRESSION ? read_compression(recipe, state, error)
                                       : read_memorisation(recipe, state, error);
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    mad *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "task", &state, error));
    task->state = state;
    state->motif = 1;
    icl_recipe_read(recipe, &own_keys, state);
    state->size = icl_vocabulary_read(recipe);
    ICL_CHECK(read_skill(recipe, state, error));
    task->shape = (icl_task_shape){.positions = state->size.length - is_recall(state),
                                   .symbols = state->size.vocabulary,
                                   .outputs = state->size.vocabulary,
                                   .first_scored = is_copying(state)              ? state->size.length - state->copied
                                                   : state->skill == MEMORISATION ? 1
                                                                                  : 0,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    task->shape.scored = task->shape.positions - task->shape.first_scored - (state->skill == COMPRESSION);
    return ICL_OK;
}

static void destroy(icl_task *task) {
    mad *state = task->state;

    if (state)
        icl_free(&state->facts);
    icl_free(&task->state);
}

/* ---- Pairs ---- */

/* Draws one of `count` numbers, floor(w count / 2^32) for the next word w. */
static size_t draw_number(mad_words *words, size_t count) {
    return icl_draw_below(words->key, words->next++, count);
}

/* Draws one of the numbers below `limit` that are not among the `count` of `sorted`, which are in ascending order, and
 * inserts it there. Number r of those that are left is r, and one more for each of `sorted` below it. */
static uint32_t draw_other(mad_words *words, size_t limit, size_t count, uint32_t *sorted) {
    uint32_t number = (uint32_t)draw_number(words, limit - count);
    size_t at = 0;

    for (; at < count && sorted[at] <= number; at++)
        number++;
    memmove(sorted + at + 1, sorted + at, (count - at) * sizeof *sorted);
    return sorted[at] = number;
}

/* Draws `count` distinct places below `limit` in ascending order: all sets are equally likely. */
static void draw_places(mad_words *words, size_t limit, size_t count, uint32_t *places) {
    for (size_t j = 0; j < count; j++)
        (void)draw_other(words, limit, j, places);
}

/* Draws `size` distinct numbers below `count` in random order. */
static void draw_motif(mad_words *words, size_t count, size_t size, uint32_t *motif) {
    uint32_t sorted[MOST_MOTIF];

    for (size_t j = 0; j < size; j++)
        motif[j] = draw_other(words, count, j, sorted);
}

static void put(mad_context *context, const uint32_t *numbers, size_t first_symbol, size_t count, bool asked) {
    for (size_t i = 0; i < count; i++) {
        context->tokens[context->used] = (uint32_t)(first_symbol + numbers[i]);
        context->asked[context->used++] = asked;
    }
}

static void put_pair(const mad *task, const mad_pair *pair, bool known, mad_context *context) {
    put(context, pair->key, 0, pair->key_size, false);
    put(context, pair->value, task->first_asked, pair->value_size, known);
}

static size_t find(const mad_context *context, const mad_pair *pair) {
    size_t i = 0;
    while (i < context->pairs && (context->shown[i].key_size != pair->key_size ||
                                  memcmp(context->shown[i].key, pair->key, pair->key_size * sizeof *pair->key) != 0))
        i++;
    return i;
}

/* Draws a key, with a new value if the key is new, and puts the pair. */
static void draw_pair(const mad *task, size_t key_size, size_t value_size, mad_words *words, mad_context *context) {
    mad_pair pair = {.key_size = key_size, .value_size = value_size};

    draw_motif(words, task->keys, key_size, pair.key);
    const size_t place = find(context, &pair);
    const bool known = place < context->pairs;
    if (!known) {
        draw_motif(words, task->asked, value_size, pair.value);
        context->shown[context->pairs++] = pair;
    }
    put_pair(task, &context->shown[place], known, context);
}

/* Moves the tokens to the end, after padding. */
static void pad(const mad *task, mad_context *context) {
    const size_t padding = task->size.length - context->used;

    memmove(context->tokens + padding, context->tokens, context->used * sizeof *context->tokens);
    memmove(context->asked + padding, context->asked, context->used * sizeof *context->asked);
    for (size_t t = 0; t < padding; t++) {
        context->tokens[t] = (uint32_t)task->size.vocabulary - 1;
        context->asked[t] = false;
    }
}

/* Draws the tokens of a sequence of a recall task. In evaluation keys have the longest motif. */
static void draw_recall(const mad *task, bool evaluation, mad_words *words, mad_context *context) {
    const size_t pair = 2 * task->motif, noise = task->first_asked + task->asked;

    context->used = context->pairs = 0;
    while (context->used + 2 * pair <= task->size.length) {
        const bool is_last = context->used + 3 * pair > task->size.length;
        const bool must_show = is_last && context->pairs == 0;
        const bool is_noise = icl_random_word(words->key, words->next++) < task->noise_below && !must_show;
        const size_t key_size = evaluation ? task->motif : 1 + draw_number(words, task->motif);
        const size_t value_size = 1 + draw_number(words, task->motif);
        if (!is_noise)
            draw_pair(task, key_size, value_size, words, context);
        for (size_t i = 0; is_noise && i < key_size + value_size; i++) {
            const uint32_t symbol = (uint32_t)draw_number(words, task->noise_symbols);
            put(context, &symbol, noise, 1, false);
        }
    }
    put_pair(task, &context->shown[draw_number(words, context->pairs)], true, context);
    pad(task, context);
}

/* ---- Batches ---- */

/* The workspace of sampling: a batch on the host, and the draws of a sequence. */
typedef struct workspace {
    icl_batch_values batch;
    mad_context context;
    uint32_t *places; /* [C] */
} workspace;

static icl_status workspace_create(const icl_task *task, workspace *w, icl_error *error) {
    const mad *state = task->state;

    ICL_CHECK(icl_allocate(state->size.length, sizeof *w->context.tokens, "tokens", &w->context.tokens, error));
    ICL_CHECK(icl_allocate(state->size.length, sizeof *w->context.asked, "tokens", &w->context.asked, error));
    ICL_CHECK(icl_allocate(state->size.length / 2 + 1, sizeof *w->context.shown, "pairs", &w->context.shown, error));
    return icl_allocate(state->copied, sizeof *w->places, "places", &w->places, error);
}

static void workspace_destroy(workspace *w) {
    icl_free(&w->context.tokens);
    icl_free(&w->context.asked);
    icl_free(&w->context.shown);
    icl_free(&w->places);
}

/* One sequence of a batch, to be written over zeros. */
typedef struct sequence {
    float *inputs, *targets, *weights; /* [T], [S], [S] */
    size_t scored;                     /* S */
    bool evaluation;
} sequence;

static void write_recall(const mad *state, mad_words *words, mad_context *context, const sequence *out) {
    const bool all = state->trained == TRAINS_ON_ALL && !out->evaluation;
    const uint32_t padding = state->motif > 1 ? (uint32_t)state->size.vocabulary - 1 : UINT32_MAX;
    size_t count = 0;

    draw_recall(state, out->evaluation, words, context);
    for (size_t t = 0; t < out->scored; t++) {
        const bool asked = all ? context->tokens[t + 1] != padding : context->asked[t + 1];
        out->inputs[t] = (float)context->tokens[t];
        out->targets[t] = (float)context->tokens[t + 1];
        out->weights[t] = asked;
        count += asked;
    }
    for (size_t t = 0; t < out->scored; t++)
        out->weights[t] *= (float)((double)out->scored / (double)count);
}

static void write_copying(const mad *state, mad_words *words, uint32_t *places, const sequence *out) {
    const size_t before = state->size.length - state->copied - 1;

    for (size_t t = 0; t < state->size.length; t++)
        out->inputs[t] = (float)(state->size.vocabulary - (t == before ? 1 : 2));
    if (state->skill == SELECTIVE_COPYING)
        draw_places(words, before, state->copied, places);
    for (size_t j = 0; j < state->copied; j++) {
        const float symbol = (float)draw_number(words, state->asked);
        out->inputs[state->skill == SELECTIVE_COPYING ? places[j] : j] = symbol;
        out->targets[j] = symbol;
        out->weights[j] = 1;
    }
}

static void write_compression(const mad *state, mad_words *words, const sequence *out) {
    for (size_t t = 0; t + 1 < state->size.length; t++) {
        out->inputs[t] = out->targets[t] = (float)draw_number(words, state->asked);
        out->weights[t] = 1;
    }
    out->inputs[state->size.length - 1] = (float)(state->size.vocabulary - 1);
}

/* Writes a sequence of memorisation. Every position but the first is scored; the insert symbols stand at the even ones
 * of these. */
static void write_memorisation(const mad *state, mad_words *words, const sequence *out) {
    const size_t asked = state->size.length / 2;

    for (size_t t = 0; t < state->size.length; t += 2) {
        const size_t key = draw_number(words, state->keys);
        out->inputs[t] = (float)key;
        out->inputs[t + 1] = (float)(state->size.vocabulary - 1);
        out->targets[t] = (float)(state->first_asked + state->facts[key]);
        out->weights[t] = (float)((double)out->scored / (double)asked);
    }
}

static void sample_sequence(const icl_task *task, mad_words words, size_t number, bool evaluation, workspace *w) {
    const mad *state = task->state;
    const size_t scored = task->shape.scored;
    const sequence out = {w->batch.inputs + number * task->shape.positions, w->batch.targets + number * scored,
                          w->batch.weights + number * scored, scored, evaluation};

    words.next = (uint64_t)number * state->size.length * (2 + state->motif);
    if (is_recall(state))
        write_recall(state, &words, &w->context, &out);
    else if (is_copying(state))
        write_copying(state, &words, w->places, &out);
    else if (state->skill == COMPRESSION)
        write_compression(state, &words, &out);
    else
        write_memorisation(state, &words, &out);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const mad_words words = {{seed, icl_stream_for(purpose, ICL_MAD_STREAMS), step}, 0};
    workspace w = {.batch = *values};
    icl_status status = ICL_OK;

    ICL_TRY(workspace_create(task, &w, error));
    for (size_t i = 0; i < values->size; i++)
        sample_sequence(task, words, i, purpose == ICL_FOR_EVALUATION, &w);
done:
    workspace_destroy(&w);
    return status;
}

/* ---- Reference predictors ---- */

/* The classes that a predictor thinks possible. */
typedef enum possible { ANY_SYMBOL = 0, ANY_ASKED, ASKED_IN_CONTEXT } possible;

/* Writes the logits [V], which are those of all positions of a sequence. In a sequence without a symbol that can be
 * asked for, as in memorisation, all these symbols are equally likely. */
static void write_logits(const mad *state, possible which, const float *symbols, size_t positions, double *logits) {
    double seen = 0;

    for (size_t k = 0; k < state->size.vocabulary; k++)
        logits[k] = which == ANY_SYMBOL ? 1 : 0;
    for (size_t t = 0; t < positions && which == ASKED_IN_CONTEXT; t++) {
        const size_t symbol = (size_t)symbols[t];
        if (symbol < state->first_asked || symbol >= state->first_asked + state->asked)
            continue;
        logits[symbol]++;
        seen++;
    }
    for (size_t k = 0; k < state->asked && which != ANY_SYMBOL && seen == 0; k++)
        logits[state->first_asked + k] = 1;
    for (size_t k = 0; k < state->size.vocabulary; k++)
        logits[k] = logits[k] > 0 ? log(logits[k]) : -(double)INFINITY;
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const icl_task_shape *shape = &shown->task->shape;
    const size_t classes = shape->outputs;

    (void)error;
    for (size_t i = 0; i < shown->count; i++) {
        double *first = outputs + i * shape->scored * classes;
        write_logits(shown->task->state, *(const possible *)predictor->settings, shown->inputs + i * shape->positions,
                     shape->positions, first);
        for (size_t j = classes; j < shape->scored * classes; j++)
            first[j] = first[j - classes];
    }
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const possible any_symbol = ANY_SYMBOL, any_asked = ANY_ASKED, in_context = ASKED_IN_CONTEXT;
    static const icl_reference_predictor chance[] = {{.name = "uniform", .settings = &any_symbol, .predict = predict},
                                                     {.name = "values", .settings = &any_asked, .predict = predict},
                                                     {.name = "context", .settings = &in_context, .predict = predict},
                                                     {0}};

    (void)task;
    return chance;
}

const icl_task_family icl_mad_family = {
    .name = "mad",
    .create = create,
    .destroy = destroy,
    .batch_create = icl_symbols_batch_create,
    .draw = draw_batch,
    .references = references,
};
