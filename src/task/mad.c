/*
 * The tasks of "Mechanistic Design and Scaling of Hybrid Architectures" (MAD: Poli et al. 2024, arXiv 2403.17844), by
 * the authors' generators. L = task.length tokens out of V = task.vocabulary symbols:
 *
 * in-context-recall: pairs of a key and its value, which is drawn anew for each sequence; the last pair is one of those
 *     before it. Evaluation asks for the values of keys that were shown before
 * noisy-recall: the same, where a share of the pairs is two noise symbols instead
 * fuzzy-recall: the same, where keys and values are motifs of 1 to task.motif distinct symbols, behind padding; in
 *     evaluation all keys have task.motif of them
 * copying: C = task.copied symbols, blanks, the copy symbol, and C blanks, where the symbols are asked for
 * selective-copying: the same with the symbols at random places before the copy symbol
 * compression: L - 1 symbols and the compression symbol; asked for are all L - 1, for models that answer from the last
 *     position
 * memorisation: keys, each followed by the insert symbol, where the key's value is asked for, one for all sequences
 *
 * Symbols: keys come first, then values, noise, and last what is special: blank V - 2 and copy V - 1; padding,
 * compression and insert V - 1. Keys are half of what is left, rounded down.
 *
 * Recall predicts the next token: a model sees the first L - 1, and the class at a position is the token behind it.
 * With task.trained = all training asks for every token but the padding, values and keys that nobody can know among
 * them; evaluation asks for what stands above. Weights are equal where something is asked, and their sum over the S
 * scored positions is S, so that means are over sequences.
 *
 * What differs from the authors: here the last key is any of those shown, in fuzzy recall too; sets of places of
 * selective copying are equally likely; data are fresh for every step instead of 12,800 sequences.
 *
 * The host draws: sequence s owns the words s W …, W = L (2 + task.motif), and takes them one after the other; one of n
 * is number floor(w n / 2^32).
 *
 * Reference predictors: `uniform` over all symbols; `values`, those that can be asked for; `context`, these as often as
 * they stand in the sequence.
 */
#include "task/mad.h"

#include <math.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/symbols.h"
#include "task/task.h"

/* ---- The recipe ---- */

static const icl_recipe_key trained_rows[] = {
    {"task", "trained", ICL_KEY_WORD, "all", .choices = (const icl_choice[]){{"all", 0}, {"asked", 1}, {0}},
     .help = "what training asks for: every next token, or what evaluation asks for"},
};
static const icl_recipe_key noise_rows[] = {
    {"task", "noise_share", ICL_KEY_NUMBER, "0.2", 0, 0.999, .help = "share of the pairs that are noise"},
    {"task", "noise_symbols", ICL_KEY_COUNT, "16", 1, ICL_MAX_EXTENT, .help = "symbols that noise is made of"},
};
static const icl_recipe_key motif_rows[] = {
    {"task", "motif", ICL_KEY_COUNT, "3", 1, ICL_MAD_MOST_MOTIF, .help = "most symbols of a key and of a value"},
};
static const icl_recipe_key copied_rows[] = {
    {"task", "copied", ICL_KEY_COUNT, "16", 1, ICL_MAX_EXTENT, .help = "symbols to copy"},
};
static const icl_recipe_key facts_rows[] = {
    {"task", "facts_seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED, .help = "draws the values of the keys"},
};
static const icl_recipe_group trained_keys = ICL_RECIPE_GROUP(trained_rows), noise_keys = ICL_RECIPE_GROUP(noise_rows),
                              motif_keys = ICL_RECIPE_GROUP(motif_rows), copied_keys = ICL_RECIPE_GROUP(copied_rows),
                              facts_keys = ICL_RECIPE_GROUP(facts_rows);
static const icl_recipe_group *const recall_groups[] = {&trained_keys, NULL};
static const icl_recipe_group *const noisy_groups[] = {&trained_keys, &noise_keys, NULL};
static const icl_recipe_group *const fuzzy_groups[] = {&trained_keys, &motif_keys, NULL};
static const icl_recipe_group *const copying_groups[] = {&copied_keys, NULL};
static const icl_recipe_group *const facts_groups[] = {&facts_keys, NULL};

static const icl_choice skills[] = {{"in-context-recall", ICL_MAD_IN_CONTEXT_RECALL, recall_groups},
                                    {"noisy-recall", ICL_MAD_NOISY_RECALL, noisy_groups},
                                    {"fuzzy-recall", ICL_MAD_FUZZY_RECALL, fuzzy_groups},
                                    {"copying", ICL_MAD_COPYING, copying_groups},
                                    {"selective-copying", ICL_MAD_SELECTIVE_COPYING, copying_groups},
                                    {"compression", ICL_MAD_COMPRESSION},
                                    {"memorisation", ICL_MAD_MEMORISATION, facts_groups},
                                    {0}};

static const icl_recipe_key own_rows[] = {
    {"task", "skill", ICL_KEY_WORD, "in-context-recall", .choices = skills,
     .help = "what is trained: recall of pairs, copying, compression or memorisation"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_mad_family_keys[] = {&icl_vocabulary_keys, &own_keys, NULL};

/* ---- The task ---- */

static bool is_recall(const icl_mad *is) {
    return is->skill <= ICL_MAD_FUZZY_RECALL;
}

static bool is_copying(const icl_mad *is) {
    return is->skill == ICL_MAD_COPYING || is->skill == ICL_MAD_SELECTIVE_COPYING;
}

static icl_status refuse(const icl_recipe *recipe, const char *key, size_t least, const char *why, icl_error *error) {
    return icl_recipe_reject(recipe, "task", key, error, "at least %zu%s", least, why);
}

static icl_status read_recall(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    const bool noisy = is->skill == ICL_MAD_NOISY_RECALL, fuzzy = is->skill == ICL_MAD_FUZZY_RECALL;

    is->trains_on_all = icl_recipe_choice(recipe, "task", "trained") == 0;
    is->noise_symbols = noisy ? (size_t)icl_recipe_count(recipe, "task", "noise_symbols") : 0;
    is->noise_below = noisy ? (uint64_t)(icl_recipe_number(recipe, "task", "noise_share") * 0x1p32) : 0;
    is->motif = fuzzy ? (size_t)icl_recipe_count(recipe, "task", "motif") : 1;
    if (is->symbols < 2 * is->motif + is->noise_symbols + fuzzy)
        return refuse(recipe, "vocabulary", 2 * is->motif + is->noise_symbols + fuzzy,
                      ": keys, values, noise and padding", error);
    if (is->length < 4 * is->motif)
        return refuse(recipe, "length", 4 * is->motif, ": two of the longest pairs", error);
    if (!fuzzy && is->length % 2 != 0)
        return icl_recipe_reject(recipe, "task", "length", error, "an even number: pairs of a key and a value");
    const size_t left = is->symbols - is->noise_symbols - fuzzy;
    is->keys = is->first_asked = left / 2;
    is->asked = left - left / 2;
    return ICL_OK;
}

static icl_status read_copying(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    is->copied = (size_t)icl_recipe_count(recipe, "task", "copied");
    if (is->symbols < 3)
        return refuse(recipe, "vocabulary", 3, ": a blank, the copy symbol, and one to copy", error);
    if (is->length < 2 * is->copied + 1)
        return refuse(recipe, "length", 2 * is->copied + 1, ": twice task.copied and the copy symbol", error);
    is->asked = is->symbols - 2;
    return ICL_OK;
}

static icl_status read_compression(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    if (is->symbols < 2)
        return refuse(recipe, "vocabulary", 2, ": the compression symbol and another", error);
    if (is->length < 2)
        return refuse(recipe, "length", 2, ": a symbol and the compression symbol", error);
    is->asked = is->symbols - 1;
    return ICL_OK;
}

static icl_status draw_facts(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    const icl_random_key key = {(uint32_t)icl_recipe_count(recipe, "task", "facts_seed"), ICL_MAD_FACTS_STREAM, 0};
    icl_lots lots = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(is->keys, sizeof *is->facts, "facts", &is->facts, error));
    ICL_TRY(icl_lots_create(is->asked, is->keys, &lots, error));
    icl_lots_draw(&lots, key, 0, is->keys, is->facts);
done:
    icl_lots_destroy(&lots);
    return status;
}

static icl_status read_memorisation(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    if (is->symbols < 3)
        return refuse(recipe, "vocabulary", 3, ": a key, a value and the insert symbol", error);
    if (is->length % 2 != 0)
        return icl_recipe_reject(recipe, "task", "length", error, "an even number: keys, each before an insert symbol");
    is->keys = is->first_asked = (is->symbols - 1) / 2;
    is->asked = is->symbols - 1 - is->keys;
    return draw_facts(recipe, is, error);
}

static icl_status read_skill(const icl_recipe *recipe, icl_mad *is, icl_error *error) {
    if (is_recall(is))
        return read_recall(recipe, is, error);
    if (is_copying(is))
        return read_copying(recipe, is, error);
    return is->skill == ICL_MAD_COMPRESSION ? read_compression(recipe, is, error)
                                            : read_memorisation(recipe, is, error);
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_mad *is = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *is, "task", &is, error));
    task->state = is;
    *is = (icl_mad){.skill = (icl_mad_skill)icl_recipe_choice(recipe, "task", "skill"),
                    .length = (size_t)icl_recipe_count(recipe, "task", "length"),
                    .symbols = (size_t)icl_recipe_count(recipe, "task", "vocabulary"),
                    .motif = 1};
    ICL_CHECK(read_skill(recipe, is, error));
    task->shape = (icl_task_shape){.positions = is->length - is_recall(is),
                                   .symbols = is->symbols,
                                   .outputs = is->symbols,
                                   .first_scored = is_copying(is)                      ? is->length - is->copied
                                                   : is->skill == ICL_MAD_MEMORISATION ? 1
                                                                                       : 0,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    task->shape.scored = task->shape.positions - task->shape.first_scored - (is->skill == ICL_MAD_COMPRESSION);
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_mad *is = task->state;

    if (is)
        icl_free(&is->facts);
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* What sampling works on: a batch on the host, and the draws of a sequence. */
typedef struct workspace {
    icl_symbols batch;
    icl_mad_context context;
    uint32_t *places; /* [C] */
} workspace;

static icl_status workspace_create(const icl_task *task, size_t size, workspace *w, icl_error *error) {
    const icl_mad *is = task->state;

    ICL_CHECK(icl_symbols_create(task, size, &w->batch, error));
    ICL_CHECK(icl_allocate(is->length, sizeof *w->context.tokens, "tokens", &w->context.tokens, error));
    ICL_CHECK(icl_allocate(is->length, sizeof *w->context.asked, "tokens", &w->context.asked, error));
    ICL_CHECK(icl_allocate(is->length / 2 + 1, sizeof *w->context.shown, "pairs", &w->context.shown, error));
    return icl_allocate(is->copied, sizeof *w->places, "places", &w->places, error);
}

static void workspace_destroy(workspace *w) {
    icl_symbols_destroy(&w->batch);
    icl_free(&w->context.tokens);
    icl_free(&w->context.asked);
    icl_free(&w->context.shown);
    icl_free(&w->places);
}

/* One sequence of a batch: everything is 0 before. */
typedef struct sequence {
    float *inputs, *targets, *weights; /* [T], [S], [S] */
    size_t scored;                     /* S */
    bool evaluation;
} sequence;

static void write_recall(const icl_mad *is, icl_mad_words *words, icl_mad_context *context, const sequence *to) {
    const bool all = is->trains_on_all && !to->evaluation;
    const uint32_t padding = is->motif > 1 ? (uint32_t)is->symbols - 1 : UINT32_MAX;
    size_t count = 0;

    icl_mad_recall(is, to->evaluation, words, context);
    for (size_t t = 0; t < to->scored; t++) {
        const bool asked = all ? context->tokens[t + 1] != padding : context->asked[t + 1];
        to->inputs[t] = (float)context->tokens[t];
        to->targets[t] = (float)context->tokens[t + 1];
        to->weights[t] = asked;
        count += asked;
    }
    for (size_t t = 0; t < to->scored; t++)
        to->weights[t] *= (float)((double)to->scored / (double)count);
}

static void write_copying(const icl_mad *is, icl_mad_words *words, uint32_t *places, const sequence *to) {
    const size_t before = is->length - is->copied - 1;

    for (size_t t = 0; t < is->length; t++)
        to->inputs[t] = (float)(is->symbols - (t == before ? 1 : 2));
    if (is->skill == ICL_MAD_SELECTIVE_COPYING)
        icl_mad_places(words, before, is->copied, places);
    for (size_t j = 0; j < is->copied; j++) {
        const float symbol = (float)icl_mad_draw(words, is->asked);
        to->inputs[is->skill == ICL_MAD_SELECTIVE_COPYING ? places[j] : j] = symbol;
        to->targets[j] = symbol;
        to->weights[j] = 1;
    }
}

static void write_compression(const icl_mad *is, icl_mad_words *words, const sequence *to) {
    for (size_t t = 0; t + 1 < is->length; t++) {
        to->inputs[t] = to->targets[t] = (float)icl_mad_draw(words, is->asked);
        to->weights[t] = 1;
    }
    to->inputs[is->length - 1] = (float)(is->symbols - 1);
}

/* Scored is every position but the first: the insert symbols stand at the even ones of these. */
static void write_memorisation(const icl_mad *is, icl_mad_words *words, const sequence *to) {
    const size_t asked = is->length / 2;

    for (size_t t = 0; t < is->length; t += 2) {
        const size_t key = icl_mad_draw(words, is->keys);
        to->inputs[t] = (float)key;
        to->inputs[t + 1] = (float)(is->symbols - 1);
        to->targets[t] = (float)(is->first_asked + is->facts[key]);
        to->weights[t] = (float)((double)to->scored / (double)asked);
    }
}

static void sample_sequence(const icl_task *task, icl_mad_words words, size_t number, bool evaluation, workspace *w) {
    const icl_mad *is = task->state;
    const size_t scored = task->shape.scored;
    const sequence to = {w->batch.inputs + number * task->shape.positions, w->batch.targets + number * scored,
                         w->batch.weights + number * scored, scored, evaluation};

    words.next = (uint64_t)number * is->length * (2 + is->motif);
    if (is_recall(is))
        write_recall(is, &words, &w->context, &to);
    else if (is_copying(is))
        write_copying(is, &words, w->places, &to);
    else if (is->skill == ICL_MAD_COMPRESSION)
        write_compression(is, &words, &to);
    else
        write_memorisation(is, &words, &to);
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_mad_words words = {{seed, icl_stream_for(purpose, ICL_MAD_STREAMS), step}, 0};
    workspace w = {0};
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(workspace_create(task, batch->size, &w, error));
    for (size_t i = 0; i < batch->size; i++)
        sample_sequence(task, words, i, purpose == ICL_FOR_EVALUATION, &w);
    ICL_TRY(icl_symbols_write(&w.batch, batch, error));
done:
    workspace_destroy(&w);
    return status;
}

/* ---- Reference predictors ---- */

/* The classes that a predictor thinks possible. */
typedef enum possible { ANY_SYMBOL = 0, ANY_ASKED, ASKED_IN_CONTEXT } possible;

/* The logits of all positions of a sequence, [V]. A sequence without a symbol that can be asked for, as memorisation
 * has them, says nothing: all of these are as likely. */
static void write_logits(const icl_mad *is, possible which, const float *symbols, size_t positions, double *logits) {
    double seen = 0;

    for (size_t k = 0; k < is->symbols; k++)
        logits[k] = which == ANY_SYMBOL ? 1 : 0;
    for (size_t t = 0; t < positions && which == ASKED_IN_CONTEXT; t++) {
        const size_t symbol = (size_t)symbols[t];
        if (symbol < is->first_asked || symbol >= is->first_asked + is->asked)
            continue;
        logits[symbol]++;
        seen++;
    }
    for (size_t k = 0; k < is->asked && which != ANY_SYMBOL && seen == 0; k++)
        logits[is->first_asked + k] = 1;
    for (size_t k = 0; k < is->symbols; k++)
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
    .sample = sample,
    .draws_on_host = true,
    .references = references,
};
