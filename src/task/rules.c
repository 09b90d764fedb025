/*
 * Few-shot rules on words of symbols: each sequence has a rule of its own and shows words with their outputs; then a
 * word whose output is asked for. Recombination of operations on symbols as a source of in-context learning: Hahn and
 * Goyal 2023 (arXiv 2303.07971); lists that are turned, repeated and mirrored: Swaminathan et al. 2023 (2307.01201).
 *
 *     A = task.alphabet letters 0 … A - 1, the blank A, the arrow A + 1;  L = task.word letters of a word, which differ
 *     an example: L letters, the arrow, 2 L output symbols;  task.shots of them, then the one that is asked for
 *
 * A rule is a composition of an order, a form and a map of letters. An order puts the letters of the word in other
 * places: keep, reverse, left and right (turned by one place), first and last (the first or last two swapped). A form
 * makes the output of the word w in its new order:
 *
 *     once w and L blanks | twice w w | mirror w and w reversed | stutter each letter of w twice
 *
 * A map replaces each letter by its image under a permutation of the alphabet; without task.mapping letters are kept.
 * The map is one of task.pool maps, or the sequence's own, each permutation equally likely.
 *
 * Order o and form f are composed in no sequence for training if o + f, counted from 0, is H - 1 modulo H =
 * task.held_out: then every order and every form is trained, but not every composition. task.compositions says which
 * ones sequences of all purposes have: those that are trained, those that are held out, or all, each equally likely, or
 * with `plain` only keep and once, so that a map is all that there is to find.
 *
 * The class at an arrow and behind it is the next output symbol. Training asks for the outputs of all examples,
 * evaluation for that of the last one. Positions that are asked for have equal weights that sum to S over the S scored
 * positions.
 *
 * The host draws: sequence s owns the words s (2 + A + (K + 1) L) …, K = task.shots: one for the composition, one for
 * the map of a pool, A for a map of its own, L for each word (draws.h).
 *
 * Reference predictors: `uniform` over letters and blank; `nearest`, the output of the earlier example whose word has
 * the most letters at the same places as the word (the last one of these), held to be e times as likely as any other
 * symbol; `bayes`, the posterior over the rules that are trained, all equally likely; `any-rule`, that over all rules.
 * Where no rule fits what was shown, all symbols are equally likely.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

enum { ORDERS = 6, FORMS = 4, COMPOSITIONS = ORDERS * FORMS };
enum { LEAST_WORD = 3, MOST_WORD = 16, MOST_LETTERS = 128, MOST_MAPS = 1 << 16 };

/* A slot of an output that holds the blank, in place of the word's letter that it shows. */
enum { BLANK = MOST_WORD };

/* task.mapping and task.compositions. */
typedef enum mapping { MAPPING_NONE = 0, MAPPING_LETTERS } mapping;
typedef enum compositions {
    COMPOSITIONS_TRAINED = 0,
    COMPOSITIONS_HELD_OUT,
    COMPOSITIONS_ALL,
    COMPOSITIONS_PLAIN
} compositions;

/* The state of a task. */
typedef struct rules {
    size_t alphabet, word, shots; /* A, L, K */
    mapping mapping;
    size_t held_out; /* H; 0: nothing is held out */
    compositions compositions;
    bool is_fresh;                                     /* sequences have maps of their own */
    size_t maps;                                       /* M of the pool; 0: all permutations */
    uint32_t *images;                                  /* [M][A] */
    size_t count;                                      /* compositions that sequences have */
    unsigned char drawn[COMPOSITIONS];                 /* [count]: order * FORMS + form */
    unsigned char places[COMPOSITIONS][2 * MOST_WORD]; /* the place in the word of what a slot shows, or BLANK */
} rules;

/* ---- The recipe ---- */

#define KEY(field)  ICL_KEY("task", rules, field)
#define NAME(field) ICL_KEY_NAME("task", rules, field)

static const icl_recipe_group *const pool_groups[] = {&icl_law_pool_keys, NULL};
static const icl_choice mappings[] = {{"none", MAPPING_NONE}, {"letters", MAPPING_LETTERS, pool_groups}, {0}};
static const icl_choice shown[] = {{"trained", COMPOSITIONS_TRAINED},
                                   {"held-out", COMPOSITIONS_HELD_OUT},
                                   {"all", COMPOSITIONS_ALL},
                                   {"plain", COMPOSITIONS_PLAIN},
                                   {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(alphabet), "8", LEAST_WORD, MOST_LETTERS, .help = "letters of the alphabet"},
    {KEY(word), "3", LEAST_WORD, MOST_WORD, .help = "letters of a word, all different"},
    {KEY(shots), "5", 1, ICL_MAX_EXTENT, .help = "words that are shown with their outputs before one is asked for"},
    {KEY(mapping), "none", .choices = mappings,
     .help = "outputs show the letters themselves, or their images under a permutation of the alphabet"},
    {KEY(held_out), "3", 0, ORDERS + FORMS - 1,
     .help = "order o and form f are not trained together where o + f is "
             "H - 1 modulo H; 0: all are"},
    {KEY(compositions), "trained", .choices = shown,
     .help =
         "compositions that sequences have: those that are trained, those that are held out, all, or keep and once"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_rules_family_keys[] = {&own_keys, NULL};

/* ---- Rules ---- */

/* Returns the place in the word of letter i of the word in its new order. */
static size_t place_of(size_t order, size_t i, size_t L) {
    switch (order) {
    case 1: /* reverse */
        return L - 1 - i;
    case 2: /* left */
        return (i + 1) % L;
    case 3: /* right */
        return (i + L - 1) % L;
    case 4: /* first */
        return i < 2 ? 1 - i : i;
    case 5: /* last */
        return i + 2 < L ? i : 2 * L - 3 - i;
    default: /* keep */
        return i;
    }
}

/* Returns which letter of the word in its new order slot j shows, or BLANK. */
static size_t letter_of(size_t form, size_t j, size_t L) {
    switch (form) {
    case 1: /* twice */
        return j % L;
    case 2: /* mirror */
        return j < L ? j : 2 * L - 1 - j;
    case 3: /* stutter */
        return j / 2;
    default: /* once */
        return j < L ? j : BLANK;
    }
}

static bool is_held_out(const rules *state, size_t composition) {
    const size_t sum = composition / FORMS + composition % FORMS;
    return state->held_out > 0 && sum % state->held_out == state->held_out - 1;
}

/* Returns whether trainings have the composition. */
static bool is_trained(const rules *state, size_t composition) {
    return state->compositions == COMPOSITIONS_PLAIN ? composition == 0 : !is_held_out(state, composition);
}

static void list_compositions(rules *state) {
    for (size_t c = 0; c < COMPOSITIONS; c++) {
        for (size_t j = 0; j < 2 * state->word; j++) {
            const size_t i = letter_of(c % FORMS, j, state->word);
            state->places[c][j] = (unsigned char)(i == BLANK ? BLANK : place_of(c / FORMS, i, state->word));
        }
        if (state->compositions == COMPOSITIONS_ALL ||
            is_trained(state, c) != (state->compositions == COMPOSITIONS_HELD_OUT))
            state->drawn[state->count++] = (unsigned char)c;
    }
}

/* ---- The task ---- */

static icl_status draw_pool(const icl_law_pool *pool, rules *state, icl_error *error) {
    const icl_random_key key = {.seed = (uint32_t)pool->pool_seed, .stream = ICL_RULES_POOL_STREAM};
    const size_t A = state->alphabet;
    icl_lots lots = {0};
    icl_status status = ICL_OK;

    state->maps = (size_t)pool->pool;
    state->is_fresh = pool->pool == 0 || pool->fresh_functions;
    ICL_TRY(icl_allocate(state->maps, A * sizeof *state->images, "maps", &state->images, error));
    ICL_TRY(icl_lots_create(A, A, &lots, error));
    for (size_t m = 0; m < state->maps; m++)
        icl_lots_draw(&lots, key, m * A, A, state->images + m * A);
done:
    icl_lots_destroy(&lots);
    return status;
}

static icl_status read_state(const icl_recipe *recipe, rules *state, icl_error *error) {
    const icl_law_pool pool = icl_law_pool_read(recipe);

    icl_recipe_read(recipe, &own_keys, state);
    if (state->word > state->alphabet)
        return icl_recipe_reject(recipe, NAME(word), error,
                                 "at most the %zu letters of the alphabet: those of a word are all different",
                                 state->alphabet);
    if (state->held_out == 1)
        return icl_recipe_reject(recipe, NAME(held_out), error, "0, or at least 2: with 1 nothing would be trained");
    if (state->held_out == 0 && state->compositions == COMPOSITIONS_HELD_OUT)
        return icl_recipe_reject(recipe, NAME(compositions), error, "trained or all: task.held_out = 0");
    list_compositions(state);
    if (state->mapping == MAPPING_NONE)
        return ICL_OK;
    if (pool.pool > MOST_MAPS)
        return icl_recipe_reject(recipe, ICL_LAW_POOL_KEY(pool), error, "at most %d maps", MOST_MAPS);
    return draw_pool(&pool, state, error);
}

/* Returns the positions of one example. */
static size_t period_of(const rules *state) {
    return 3 * state->word + 1;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    rules *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "rules", &state, error));
    task->state = state;
    ICL_CHECK(read_state(recipe, state, error));
    const size_t positions = (state->shots + 1) * period_of(state) - 1;
    if (positions > (size_t)ICL_MAX_EXTENT)
        return icl_recipe_reject(recipe, NAME(shots), error,
                                 "at most %zu examples: a sequence has %.0f positions at most",
                                 (size_t)ICL_MAX_EXTENT / period_of(state) - 1, (double)ICL_MAX_EXTENT);
    task->shape = (icl_task_shape){.positions = positions,
                                   .symbols = state->alphabet + 2,
                                   .outputs = state->alphabet + 1,
                                   .first_scored = state->word,
                                   .scored = positions - state->word,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    rules *state = task->state;

    if (state)
        icl_free(&state->images);
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* The workspace of sampling: the draws of a sequence. */
typedef struct workspace {
    icl_lots lots;
    uint32_t word[MOST_WORD], map[MOST_LETTERS];
} workspace;

/* Draws the rule of the sequence that owns the words from `first` on. Returns the composition; the map goes into w. */
static size_t draw_rule(const rules *state, icl_random_key key, uint64_t first, workspace *w) {
    const size_t A = state->alphabet;

    if (state->mapping == MAPPING_NONE)
        for (size_t a = 0; a < A; a++)
            w->map[a] = (uint32_t)a;
    else if (state->is_fresh)
        icl_lots_draw(&w->lots, key, first + 2, A, w->map);
    else
        memcpy(w->map, state->images + icl_draw_below(key, first + 1, state->maps) * A, A * sizeof *w->map);
    return state->drawn[icl_draw_below(key, first, state->count)];
}

/* Writes sequence `number` over zeros. The last output symbol of the last example is a target, but no input. */
static void sample_sequence(const icl_task *task, icl_random_key key, bool evaluation, size_t number,
                            const icl_batch_values *to, workspace *w) {
    const rules *state = task->state;
    const size_t A = state->alphabet, L = state->word, period = period_of(state), scored = task->shape.scored;
    const uint64_t first = (uint64_t)number * (2 + A + (state->shots + 1) * L);
    const size_t composition = draw_rule(state, key, first, w), asked = evaluation ? 1 : state->shots + 1;
    float *inputs = to->inputs + number * task->shape.positions;

    for (size_t k = 0; k <= state->shots; k++) {
        const size_t start = k * period;
        const bool is_asked = k + asked > state->shots;
        icl_lots_draw(&w->lots, key, first + 2 + A + k * L, L, w->word);
        for (size_t i = 0; i < L; i++)
            inputs[start + i] = (float)w->word[i];
        inputs[start + L] = (float)(A + 1);
        for (size_t j = 0; j < 2 * L; j++) {
            const size_t place = state->places[composition][j], at = number * scored + start + j;
            const float symbol = (float)(place == BLANK ? A : w->map[w->word[place]]);
            if (start + L + 1 + j < task->shape.positions)
                inputs[start + L + 1 + j] = symbol;
            to->targets[at] = symbol;
            to->weights[at] = is_asked ? (float)((double)scored / (double)(2 * L * asked)) : 0;
        }
    }
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const rules *state = task->state;
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_RULES_STREAMS), step};
    workspace w = {.lots = {0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_lots_create(state->alphabet, state->alphabet, &w.lots, error));
    for (size_t i = 0; i < values->size; i++)
        sample_sequence(task, key, purpose == ICL_FOR_EVALUATION, i, values, &w);
done:
    icl_lots_destroy(&w.lots);
    return status;
}

/* ---- Reference predictors ---- */

/* Returns the tokens of example k. */
static const float *example_at(const rules *state, const float *inputs, size_t k) {
    return inputs + k * period_of(state);
}

/* Returns the logits [A + 1] of output symbol j of example k. */
static double *logits_at(const icl_task *task, double *outputs, size_t k, size_t j) {
    const rules *state = task->state;
    return outputs + (k * period_of(state) + j) * task->shape.outputs;
}

/* Returns the last example before k whose word has the most letters where the word of example k has them; k > 0. */
static size_t find_nearest(const rules *state, const float *inputs, size_t k) {
    const float *word = example_at(state, inputs, k);
    size_t nearest = 0, most = 0;

    for (size_t i = 0; i < k; i++) {
        const float *other = example_at(state, inputs, i);
        size_t same = 0;
        for (size_t j = 0; j < state->word; j++)
            same += word[j] == other[j];
        if (same >= most) {
            nearest = i;
            most = same;
        }
    }
    return nearest;
}

static void answer_as_nearest(const icl_task *task, const void *settings, size_t number, const float *inputs,
                              double *work, double *outputs) {
    const rules *state = task->state;

    (void)settings;
    (void)number;
    (void)work;
    for (size_t k = 0; k <= state->shots; k++)
        for (size_t j = 0; j < 2 * state->word; j++) {
            const float *nearest = example_at(state, inputs, k > 0 ? find_nearest(state, inputs, k) : 0);
            double *logits = logits_at(task, outputs, k, j);
            for (size_t a = 0; a <= state->alphabet; a++)
                logits[a] = k > 0 && (float)a == nearest[state->word + 1 + j] ? 1 : 0;
        }
}

static icl_status predict_nearest(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                  double *outputs, icl_error *error) {
    ICL_CHECK(icl_task_predict_zero(predictor, sequences, outputs, error));
    return icl_task_for_each(sequences->task, answer_as_nearest, NULL, 0, sequences->count, sequences->inputs, outputs,
                             error);
}

/*
 * The posterior over rules. A belief holds for each composition, with each of its maps, whether it agrees with all that
 * was shown. Where every permutation is possible, a composition stands for all permutations that agree: a known image
 * is certain, and an unknown one is any of the letters that are no image yet. The known images of a composition are the
 * symbols that were shown, because letters of a word are different and so are images; so all compositions that agree
 * leave equally many permutations, and count alike.
 */
typedef struct belief {
    const rules *state;
    bool any_composition, any_map; /* else: those that are trained, those that are listed */
    size_t maps;                   /* listed ones: M, or 1, the identity */
    double *weights;               /* [COMPOSITIONS][maps], 1 or 0 */
    double *images, *sources;      /* [COMPOSITIONS][A], of any map: the image of a letter and the letter of an image */
} belief;

#define UNKNOWN (-1.0)

/* Which rules a predictor holds possible. */
typedef struct prior {
    bool any;
} prior;

static belief belief_of(const rules *state, const prior *possible) {
    const bool lists = state->mapping == MAPPING_NONE || (state->maps > 0 && !possible->any);
    return (belief){.state = state,
                    .any_composition = possible->any,
                    .any_map = !lists,
                    .maps = state->mapping == MAPPING_NONE || !lists ? 1 : state->maps};
}

static size_t belief_size(const belief *all) {
    return COMPOSITIONS * (all->maps + 2 * all->state->alphabet);
}

static void begin_belief(belief *all, double *work) {
    const size_t A = all->state->alphabet;

    all->weights = work;
    all->images = work + COMPOSITIONS * all->maps;
    all->sources = all->images + COMPOSITIONS * A;
    for (size_t i = 0; i < COMPOSITIONS * all->maps; i++)
        all->weights[i] = all->any_composition || is_trained(all->state, i / all->maps) ? 1 : 0;
    for (size_t i = 0; i < 2 * COMPOSITIONS * A; i++)
        all->images[i] = UNKNOWN;
}

/* Returns what composition c and map m show for a letter, or for the blank. */
static size_t image_of(const belief *all, size_t m, size_t letter) {
    const rules *state = all->state;
    return letter == state->alphabet || state->mapping == MAPPING_NONE ? letter
                                                                       : state->images[m * state->alphabet + letter];
}

/* Returns the letter of the word that slot j of composition c shows, or the blank. */
static size_t source_of(const rules *state, const float *word, size_t c, size_t j) {
    const size_t place = state->places[c][j];
    return place == BLANK ? state->alphabet : (size_t)word[place];
}

/* Adds the weight of composition c to the symbols that its permutations show for a letter. */
static void add_any_map(const belief *all, size_t c, size_t letter, double *weights) {
    const size_t A = all->state->alphabet;
    const double *sources = all->sources + c * A, known = letter == A ? (double)A : all->images[c * A + letter];
    size_t left = 0;

    if (known >= 0) {
        weights[(size_t)known] += all->weights[c];
        return;
    }
    for (size_t a = 0; a < A; a++)
        left += sources[a] < 0;
    for (size_t a = 0; a < A; a++)
        weights[a] += sources[a] < 0 ? all->weights[c] / (double)left : 0;
}

/* Fills the logits [A + 1] of output symbol j of a word. */
static void predict_symbol(const belief *all, const float *word, size_t j, double *logits) {
    const size_t A = all->state->alphabet;
    double total = 0;

    memset(logits, 0, (A + 1) * sizeof *logits);
    for (size_t i = 0; i < COMPOSITIONS * all->maps; i++) {
        const size_t c = i / all->maps, letter = source_of(all->state, word, c, j);
        if (all->weights[i] > 0 && all->any_map)
            add_any_map(all, c, letter, logits);
        else if (all->weights[i] > 0)
            logits[image_of(all, i % all->maps, letter)] += all->weights[i];
        total += all->weights[i];
    }
    for (size_t a = 0; a <= A; a++)
        logits[a] = total > 0 ? log(logits[a]) : 0;
}

/* Takes from composition c the permutations that do not show this symbol for the letter. */
static void observe_any_map(const belief *all, size_t c, size_t letter, size_t symbol) {
    const size_t A = all->state->alphabet;
    double *images = all->images + c * A, *sources = all->sources + c * A;

    if (letter == A || symbol == A || images[letter] >= 0 || sources[symbol] >= 0) {
        const bool agrees = letter == A || symbol == A ? letter == symbol : images[letter] == (double)symbol;
        all->weights[c] = agrees ? all->weights[c] : 0;
        return;
    }
    images[letter] = (double)symbol;
    sources[symbol] = (double)letter;
}

static void observe_symbol(const belief *all, const float *word, size_t j, size_t symbol) {
    for (size_t i = 0; i < COMPOSITIONS * all->maps; i++) {
        const size_t letter = source_of(all->state, word, i / all->maps, j);
        if (all->any_map)
            observe_any_map(all, i, letter, symbol);
        else if (image_of(all, i % all->maps, letter) != symbol)
            all->weights[i] = 0;
    }
}

static void answer_by_belief(const icl_task *task, const void *settings, size_t number, const float *inputs,
                             double *work, double *outputs) {
    const rules *state = task->state;
    const size_t L = state->word, positions = task->shape.positions;
    belief all = belief_of(state, settings);

    (void)number;
    begin_belief(&all, work);
    for (size_t k = 0; k <= state->shots; k++)
        for (size_t j = 0; j < 2 * L; j++) {
            const float *example = example_at(state, inputs, k);
            const size_t at = L + 1 + j;
            predict_symbol(&all, example, j, logits_at(task, outputs, k, j));
            if (k * period_of(state) + at < positions)
                observe_symbol(&all, example, j, (size_t)example[at]);
        }
}

static icl_status predict_by_belief(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                    double *outputs, icl_error *error) {
    const belief all = belief_of(sequences->task->state, predictor->settings);

    ICL_CHECK(icl_task_predict_zero(predictor, sequences, outputs, error));
    return icl_task_for_each(sequences->task, answer_by_belief, predictor->settings, belief_size(&all),
                             sequences->count, sequences->inputs, outputs, error);
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const prior trained = {false}, any = {true};
    static const icl_reference_predictor all[] = {{.name = "uniform", .predict = icl_task_predict_zero},
                                                  {.name = "nearest", .predict = predict_nearest},
                                                  {.name = "bayes", .settings = &trained, .predict = predict_by_belief},
                                                  {.name = "any-rule", .settings = &any, .predict = predict_by_belief},
                                                  {0}};

    (void)task;
    return all;
}

const icl_task_family icl_rules_family = {
    .name = "rules",
    .create = create,
    .destroy = destroy,
    .batch_create = icl_symbols_batch_create,
    .draw = draw_batch,
    .references = references,
};
