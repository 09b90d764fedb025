/*
 * State tracking: the product so far of a word's tokens in a group (Grazzi et al. 2024, arXiv 2411.12537; Siems et al.
 * 2025).
 *
 *     g_0 = e,   g_t = a_t g_(t-1)            a_t drawn from the tokens, each equally likely
 *     position 0 holds the start symbol 0, position t the symbol 1 + (number of a_t); the class at t is that of g_t
 *
 * | task.rule | group | generators, after the neutral element |
 * | --- | --- | --- |
 * | parity | bits under exclusive or | 1 |
 * | modular | 0 … M - 1 under addition modulo task.modulus | 1 |
 * | s3, s4, s5 | all permutations of 3, 4, 5 points | swaps of neighbours |
 * | a5 | even permutations of 5 points | (0 1 2), (0 1 3), (0 1 4) |
 *
 * With task.tokens = elements every element is a token, in its class's order. With generators the neutral element is
 * one of them: otherwise the parity of the position would give away that of the permutation.
 *
 * A word has task.shortest to task.longest tokens, each length equally likely; the start symbol pads shorter ones after
 * their end. All positions of a word, or only its last one, are scored, with weights whose sum over the S scored
 * positions is S in every sequence, so that losses and accuracies are means over sequences.
 *
 * The host draws: sequence s owns the words s (longest + 1) … of the stream, one for the length, then one for each
 * token; one of n is number floor(word n / 2^32).
 *
 * Reference predictors: `uniform`, all classes alike; `last`, which takes the last token for the whole word, and holds
 * its element to be e times as likely as any other; `exact`, the product.
 */
#include "task/parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

typedef enum rule { RULE_PARITY = 0, RULE_MODULAR, RULE_S3, RULE_S4, RULE_A5, RULE_S5 } rule;

typedef struct state_tracking {
    size_t classes, tokens; /* elements of the group; what words are made of */
    size_t shortest, longest;
    bool last_only;
    uint32_t *next; /* [tokens][classes]: a_t g_(t-1) */
} state_tracking;

/* ---- Permutations ---- */

static bool is_permutation(const unsigned char *images, size_t points) {
    unsigned seen = 0;
    for (size_t i = 0; i < points; i++)
        seen |= 1u << images[i];
    return seen == (1u << points) - 1;
}

static bool is_even(const unsigned char *images, size_t points) {
    bool even = true;
    for (size_t i = 0; i < points; i++)
        for (size_t j = i + 1; j < points; j++)
            even ^= images[i] > images[j];
    return even;
}

icl_permutations icl_permutations_list(size_t points, bool even) {
    icl_permutations list = {.points = points};
    size_t codes = 1;

    assert(points <= ICL_MOST_POINTS);
    for (size_t i = 0; i < points; i++)
        codes *= points;
    for (size_t code = 0; code < codes; code++) {
        unsigned char images[ICL_MOST_POINTS];
        for (size_t i = points, rest = code; i-- > 0; rest /= points)
            images[i] = (unsigned char)(rest % points);
        if (is_permutation(images, points) && (!even || is_even(images, points)))
            memcpy(list.images[list.count++], images, points);
    }
    return list;
}

static size_t find_element(const icl_permutations *group, const unsigned char *images) {
    size_t element = 0;
    while (element < group->count && memcmp(group->images[element], images, group->points) != 0)
        element++;
    assert(element < group->count);
    return element;
}

/* Returns the number of `later` after `first`, i -> later(first(i)). */
static size_t compose(const icl_permutations *group, size_t later, size_t first) {
    unsigned char images[ICL_MOST_POINTS];

    for (size_t i = 0; i < group->points; i++)
        images[i] = group->images[later][group->images[first][i]];
    return find_element(group, images);
}

/* Returns the number of the element first -> second -> third -> first; if third is first, it swaps first and second.
 * The element must be in the group. */
static size_t find_cycle(const icl_permutations *group, size_t first, size_t second, size_t third) {
    unsigned char images[ICL_MOST_POINTS];

    for (size_t i = 0; i < group->points; i++)
        images[i] = (unsigned char)i;
    images[first] = (unsigned char)second;
    images[second] = (unsigned char)third;
    if (third != first)
        images[third] = (unsigned char)first;
    return find_element(group, images);
}

/* ---- The recipe ---- */

typedef enum word_tokens { TOKENS_ELEMENTS = 0, TOKENS_GENERATORS } word_tokens;
typedef enum word_labels { LABELS_ALL = 0, LABELS_LAST } word_labels;

typedef struct state_keys {
    rule rule;
    word_tokens tokens;
    word_labels labels;
    size_t modulus, shortest, longest;
} state_keys;

#define KEY(field)  ICL_KEY("task", state_keys, field)
#define NAME(field) ICL_KEY_NAME("task", state_keys, field)

static const icl_recipe_key modulus_rows[] = {
    {KEY(modulus), "3", 2, 1024, .help = "what the rule modular counts by"},
};
static const icl_recipe_group modulus_keys = ICL_RECIPE_GROUP(modulus_rows);
static const icl_recipe_group *const modulus_groups[] = {&modulus_keys, NULL};

static const icl_choice rules[] = {{"parity", RULE_PARITY},
                                   {"modular", RULE_MODULAR, modulus_groups},
                                   {"s3", RULE_S3},
                                   {"s4", RULE_S4},
                                   {"a5", RULE_A5},
                                   {"s5", RULE_S5},
                                   {0}};
static const icl_choice tokens[] = {{"elements", TOKENS_ELEMENTS}, {"generators", TOKENS_GENERATORS}, {0}};
static const icl_choice labels[] = {{"all", LABELS_ALL}, {"last", LABELS_LAST}, {0}};

static const icl_recipe_key own_rows[] = {
    {KEY(rule), "parity", .choices = rules,
     .help = "what a state counts: parity, modular sums, or products of permutations"},
    {KEY(tokens), "elements", .choices = tokens,
     .help = "what words are made of: all elements of the group, or generators and the neutral one"},
    {KEY(labels), "all", .choices = labels,
     .help = "the product so far is asked for at all positions, or at the last of each word"},
    {KEY(shortest), "3", 1, ICL_MAX_EXTENT, .help = "tokens of the shortest word"},
    {KEY(longest), "20", 1, ICL_MAX_EXTENT, .help = "tokens of the longest word"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_state_keys[] = {&own_keys, NULL};

/* ---- Groups ---- */

/* Makes the group of numbers modulo `classes`. Its tokens are all of them, or 0 and 1. */
static icl_status count_modulo(size_t classes, bool generators, state_tracking *state, icl_error *error) {
    state->classes = classes;
    state->tokens = generators ? 2 : classes;
    ICL_CHECK(icl_allocate(state->tokens * classes, sizeof *state->next, "sums", &state->next, error));
    for (size_t token = 0; token < state->tokens; token++)
        for (size_t element = 0; element < classes; element++)
            state->next[token * classes + element] = (uint32_t)((token + element) % classes);
    return ICL_OK;
}

/* Lists the elements that are tokens; returns how many there are. */
static size_t choose_elements(const icl_permutations *group, bool even, bool generators,
                              size_t elements[ICL_MOST_PERMUTATIONS]) {
    const size_t first = even ? 2 : 1;

    if (!generators) {
        for (size_t i = 0; i < group->count; i++)
            elements[i] = i;
        return group->count;
    }
    elements[0] = 0;
    for (size_t i = first; i < group->points; i++)
        elements[i - first + 1] = even ? find_cycle(group, 0, 1, i) : find_cycle(group, i - 1, i, i - 1);
    return group->points - first + 1;
}

static icl_status multiply_permutations(size_t points, bool even, bool generators, state_tracking *state,
                                        icl_error *error) {
    const icl_permutations group = icl_permutations_list(points, even);
    size_t elements[ICL_MOST_PERMUTATIONS] = {0};

    state->classes = group.count;
    state->tokens = choose_elements(&group, even, generators, elements);
    ICL_CHECK(icl_allocate(state->tokens * group.count, sizeof *state->next, "products", &state->next, error));
    for (size_t token = 0; token < state->tokens; token++)
        for (size_t element = 0; element < group.count; element++)
            state->next[token * group.count + element] = (uint32_t)compose(&group, elements[token], element);
    return ICL_OK;
}

static icl_status make_group(const state_keys *settings, state_tracking *state, icl_error *error) {
    const bool generators = settings->tokens == TOKENS_GENERATORS;

    switch (settings->rule) {
    case RULE_MODULAR:
        return count_modulo(settings->modulus, generators, state, error);
    case RULE_S3:
        return multiply_permutations(3, false, generators, state, error);
    case RULE_S4:
        return multiply_permutations(4, false, generators, state, error);
    case RULE_A5:
        return multiply_permutations(5, true, generators, state, error);
    case RULE_S5:
        return multiply_permutations(5, false, generators, state, error);
    case RULE_PARITY:
        break;
    }
    return count_modulo(2, generators, state, error);
}

/* ---- The task ---- */

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    state_tracking *state = NULL;
    state_keys settings;

    icl_recipe_read(recipe, &own_keys, &settings);
    icl_recipe_read(recipe, &modulus_keys, &settings);
    const size_t shortest = settings.shortest, longest = settings.longest;
    if (shortest > longest)
        return icl_recipe_reject(recipe, NAME(shortest), error, "at most the %zu tokens of task.longest", longest);
    ICL_CHECK(icl_allocate(1, sizeof *state, "state tracking", &state, error));
    task->state = state;
    *state = (state_tracking){.shortest = shortest, .longest = longest, .last_only = settings.labels == LABELS_LAST};
    ICL_CHECK(make_group(&settings, state, error));
    task->shape = (icl_task_shape){.positions = longest + 1,
                                   .symbols = state->tokens + 1,
                                   .outputs = state->classes,
                                   .first_scored = state->last_only ? shortest : 1,
                                   .scored = state->last_only ? longest - shortest + 1 : longest,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    state_tracking *state = task->state;

    if (state)
        icl_free(&state->next);
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* Writes sequence `number` over zeros. */
static void sample_sequence(const icl_task *task, icl_random_key key, size_t number, const icl_batch_values *to) {
    const state_tracking *state = task->state;
    const size_t scored = task->shape.scored, first_scored = task->shape.first_scored;
    const uint64_t first_word = (uint64_t)number * task->shape.positions;
    const size_t length = state->shortest + icl_draw_below(key, first_word, state->longest - state->shortest + 1);
    float *inputs = to->inputs + number * task->shape.positions;
    size_t element = 0;

    for (size_t t = 1; t <= length; t++) {
        const uint32_t token = icl_draw_below(key, first_word + t, state->tokens);
        element = state->next[token * state->classes + element];
        inputs[t] = (float)(1 + token);
        if (state->last_only && t < length)
            continue;
        to->targets[number * scored + t - first_scored] = (float)element;
        to->weights[number * scored + t - first_scored] =
            (float)((double)scored / (state->last_only ? 1.0 : (double)length));
    }
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_STATE_STREAMS), step};

    (void)error;
    for (size_t i = 0; i < values->size; i++)
        sample_sequence(task, key, i, values);
    return ICL_OK;
}

/* ---- Reference predictors ---- */

static icl_status predict_uniform(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                  double *outputs, icl_error *error) {
    const icl_task_shape *shape = &sequences->task->shape;

    (void)predictor;
    (void)error;
    for (size_t i = 0; i < sequences->count * shape->scored * shape->outputs; i++)
        outputs[i] = 0;
    return ICL_OK;
}

/* The logits of a prediction: `right` for the class of the tokens seen, `wrong` for all others. */
typedef struct sureness {
    bool whole; /* it sees all tokens so far, or the last */
    double right, wrong;
} sureness;

static icl_status predict_product(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                                  double *outputs, icl_error *error) {
    const icl_task_shape *shape = &sequences->task->shape;
    const state_tracking *state = sequences->task->state;
    const sureness *sure = predictor->settings;

    (void)error;
    for (size_t i = 0; i < sequences->count; i++) {
        const float *inputs = sequences->inputs + i * shape->positions;
        size_t element = 0;
        for (size_t t = 1; t < shape->positions; t++) {
            const size_t token = inputs[t] > 0 ? (size_t)inputs[t] - 1 : 0; /* padding, which weighs nothing */
            element = state->next[token * state->classes + (sure->whole ? element : 0)];
            for (size_t k = 0; t >= shape->first_scored && k < shape->outputs; k++)
                *outputs++ = k == element ? sure->right : sure->wrong;
        }
    }
    return ICL_OK;
}

static const icl_reference_predictor *list_references(const icl_task *task) {
    static const sureness last = {false, 1, 0}, exact = {true, 0, -(double)INFINITY};
    static const icl_reference_predictor all[] = {
        {"uniform", NULL, predict_uniform}, {"last", &last, predict_product}, {"exact", &exact, predict_product}, {0}};

    (void)task;
    return all;
}

const icl_task_family icl_state = {
    .name = "state",
    .create = create,
    .destroy = destroy,
    .batch_create = icl_symbols_batch_create,
    .draw = draw_batch,
    .references = list_references,
};
