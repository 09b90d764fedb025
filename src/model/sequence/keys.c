/* The keys of model.family = sequence, and the combinations of them that are refused. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "model/sequence/sequence.h"

/* ---- Mixers ---- */

/* model.mixer is one word, or a list of them that the layers take in turn. */

#define COUNT(name) AT_##name,
enum { ICL_SEQUENCE_MIXERS(COUNT) MIXERS };

#define POINT_TO(name) &icl_mixer_##name,
static const icl_sequence_mixer *const mixers[MIXERS] = {ICL_SEQUENCE_MIXERS(POINT_TO)};

enum { WORD_CAPACITY = 64, WORDS_CAPACITY = 512, MOST_NAMED = MIXERS + 64 };

const char *icl_sequence_mixer_words(unsigned reads, char *text, size_t capacity) {
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < MIXERS && length < capacity; i++)
        if (reads == 0 || (mixers[i]->reads & reads) != 0) {
            const int printed =
                snprintf(text + length, capacity - length, "%s%s", length > 0 ? ", " : "", mixers[i]->word);
            length += printed > 0 ? (size_t)printed : 0;
        }
    return text;
}

typedef struct mixer_settings {
    const char *mixer;
} mixer_settings;

#define MIXER_NAME(field) ICL_KEY_NAME("model", mixer_settings, field)

static const icl_recipe_key mixer_rows[] = {
    {ICL_KEY("model", mixer_settings, mixer), "softmax",
     .help =
         "how positions see each other: softmax, linear, delta, mesa, ...; a word, or a list for the layers in turn"},
};
static const icl_recipe_group mixer_group = ICL_RECIPE_GROUP(mixer_rows);

static const icl_sequence_mixer *find_mixer(const char *word) {
    for (size_t i = 0; i < MIXERS; i++)
        if (strcmp(mixers[i]->word, word) == 0)
            return mixers[i];
    return NULL;
}

static icl_status refuse(const icl_recipe *recipe, const char *word, icl_error *error) {
    const char *words[MOST_NAMED];
    char text[WORDS_CAPACITY];
    size_t count = 0;

    for (; count < MIXERS; count++)
        words[count] = mixers[count]->word;
    icl_sequence_mixer_words(0, text, sizeof text);
    for (const icl_choice *own = icl_recipe_choices(recipe, MIXER_NAME(mixer)); own->word && count < MOST_NAMED;
         own++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, ", %s", own->word);
        words[count++] = own->word;
    }
    return icl_recipe_reject(recipe, MIXER_NAME(mixer), error,
                             "words of %s, with commas between them: \"%s\" is none; did you mean \"%s\"?", text, word,
                             icl_nearest(word, words, count));
}

/* Copies the word before the next comma, without blanks around it. Returns what follows the comma, NULL at the end. */
static const char *next_word(const char *list, char word[WORD_CAPACITY]) {
    const char *comma = strchr(list, ',');
    const char *end = comma ? comma : list + strlen(list);

    while (list < end && isspace((unsigned char)*list))
        list++;
    while (end > list && isspace((unsigned char)end[-1]))
        end--;
    snprintf(word, WORD_CAPACITY, "%.*s", (int)(end - list < WORD_CAPACITY ? end - list : WORD_CAPACITY), list);
    return comma ? comma + 1 : NULL;
}

/* Finds the mixer of every layer. */
static icl_status read_mixers(const icl_recipe *recipe, const icl_model *model, icl_sequence_layer *layers,
                              icl_error *error) {
    mixer_settings settings;
    char word[WORD_CAPACITY];
    size_t count = 0;

    icl_recipe_read(recipe, &mixer_group, &settings);
    for (const char *rest = settings.mixer; rest; count++) {
        rest = next_word(rest, word);
        const icl_mixer_family *own = icl_recipe_object(recipe, MIXER_NAME(mixer), word);
        const icl_sequence_mixer *mixer = own ? &icl_mixer_own : find_mixer(word);
        if (!mixer)
            return refuse(recipe, word, error);
        if (count == model->layers)
            return icl_recipe_reject(recipe, MIXER_NAME(mixer), error, "at most %zu words, one for each layer",
                                     model->layers);
        layers[count] = (icl_sequence_layer){.mixer = mixer, .own = own, .index = count};
    }
    for (size_t i = count; i < model->layers; i++)
        layers[i] = (icl_sequence_layer){.mixer = layers[i - count].mixer, .own = layers[i - count].own, .index = i};
    return ICL_OK;
}

/* ---- Settings ---- */

#define KEY(field)  ICL_KEY("model", icl_sequence, field)
#define NAME(field) ICL_KEY_NAME("model", icl_sequence, field)

/* ---- Keys that another key brings into use ---- */

static const icl_recipe_key base_keys[] = {
    {KEY(position_base), "10000", 1, 1e12, .help = "longest period of positions, over 2 pi"},
};
static const icl_recipe_key place_keys[] = {
    {KEY(norm_place), "before",
     .choices = (const icl_choice[]){{"before", ICL_NORMS_BEFORE}, {"after", ICL_NORMS_AFTER}, {0}},
     .help = "norms before the mixer and the feed-forward part, or after their residual sums"},
};
static const icl_recipe_key factor_keys[] = {
    {KEY(feed_forward_factor), "4", 0.001, 1024, .help = "hidden numbers of the feed-forward part over the width"},
};
static const icl_recipe_key cell_keys[] = {
    {KEY(label_inputs), "2", 1, ICL_MAX_EXTENT,
     .help = "last inputs of a row that share the label's cell; each other one has a cell"},
};
static const icl_recipe_group base_group = ICL_RECIPE_GROUP(base_keys);
static const icl_recipe_group place_group = ICL_RECIPE_GROUP(place_keys);
static const icl_recipe_group factor_group = ICL_RECIPE_GROUP(factor_keys);
static const icl_recipe_group cell_group = ICL_RECIPE_GROUP(cell_keys);
static const icl_recipe_group *const base_groups[] = {&base_group, NULL};
static const icl_recipe_group *const place_groups[] = {&place_group, NULL};
static const icl_recipe_group *const factor_groups[] = {&factor_group, NULL};
static const icl_recipe_group *const cell_groups[] = {&cell_group, NULL};

/* ---- Words ---- */

static const icl_choice positions[] = {{"none", ICL_POSITIONS_NONE},
                                       {"learned", ICL_POSITIONS_LEARNED},
                                       {"sinusoidal", ICL_POSITIONS_SINUSOIDAL, base_groups},
                                       {"rotary", ICL_POSITIONS_ROTARY, base_groups},
                                       {0}};
static const icl_choice token_words[] = {
    {"positions", ICL_TOKENS_POSITIONS}, {"cells", ICL_TOKENS_CELLS, cell_groups}, {0}};
static const icl_choice norms[] = {
    {"none", ICL_NORMS_NONE}, {"layer", ICL_NORMS_LAYER, place_groups}, {"rms", ICL_NORMS_RMS, place_groups}, {0}};
static const icl_choice output_norms[] = {
    {"none", ICL_NORMS_NONE}, {"layer", ICL_NORMS_LAYER}, {"rms", ICL_NORMS_RMS}, {0}};
static const icl_choice feed_forwards[] = {{"none", ICL_FEED_FORWARD_NONE},
                                           {"relu", ICL_FEED_FORWARD_RELU, factor_groups},
                                           {"gelu", ICL_FEED_FORWARD_GELU, factor_groups},
                                           {"swiglu", ICL_FEED_FORWARD_SWIGLU, factor_groups},
                                           {"quadratic", ICL_FEED_FORWARD_QUADRATIC, factor_groups},
                                           {0}};
static const icl_choice readouts[] = {
    {"position", ICL_READOUT_POSITION}, {"pooled", ICL_READOUT_POOLED}, {"last", ICL_READOUT_LAST}, {0}};
static const icl_choice key_norms[] = {
    {"auto", ICL_KEYS_AUTO}, {"none", ICL_KEYS_AS_THEY_ARE}, {"unit", ICL_KEYS_UNIT}, {"sum", ICL_KEYS_SUM}, {0}};

/* ---- Keys that every sequence model reads ---- */

typedef struct feature_settings {
    size_t width, key_width;
    const char *feature_map;
} feature_settings;

#define FEATURE_KEY(field) ICL_KEY("model", feature_settings, field)

static const icl_recipe_key feature_rows[] = {
    {FEATURE_KEY(width), "64", 1, ICL_MAX_EXTENT, .help = "numbers of a position between blocks"},
    {FEATURE_KEY(key_width), "0", 0, ICL_MAX_EXTENT, .help = "numbers of a key, for each head; 0: width over heads"},
    {FEATURE_KEY(feature_map), "identity",
     .help = "of queries and keys: identity, elu+1, relu, tanh, dpfp:NU, favor:M or learned:M"},
};
const icl_recipe_group icl_sequence_feature_keys = ICL_RECIPE_GROUP(feature_rows);

static const icl_recipe_key keys[] = {
    {KEY(causal), "true", .help = "positions see those before them alone"},
    {KEY(loops), "1", 1, 1024,
     .help = "the blocks are applied so often, each time to their last output plus the embedding"},
    {KEY(injection), "true", .help = "every loop adds the embedding; false: the first one alone"},
    {KEY(loop_norm), "false", .help = "the norm before the readout ends every loop"},
    {KEY(tokens), "positions", .choices = token_words,
     .help = "what has a vector: each position, or each cell of a table's row"},
    {KEY(positions), "none", .choices = positions, .help = "what tells positions apart"},
    {KEY(embedding_bias), "true",
     .help = "a bias beside the embedding of coordinates; without any, linear mixers see no constant"},
    {KEY(tied_embedding), "false",
     .help = "the readout's matrix is the table of symbols, which the embedding takes times the root of the width"},
    {KEY(norm), "rms", .choices = norms, .help = "norms of blocks, and before the readout"},
    {KEY(feed_forward), "gelu", .choices = feed_forwards, .help = "what each position computes by itself"},
    {KEY(activation_clip), "0", 0, 1e6, .help = "numbers behind each block are cut to this size; 0: they are not"},
    {KEY(dropout), "0", 0, 0.99,
     .help = "share of the numbers that training sets to 0: of the embedding, and of what each part of a block adds"},
    {KEY(readout), "position", .choices = readouts,
     .help = "outputs from each scored position, from the mean over all, or from the last one alone"},
    {KEY(init), "0", 0, 100,
     .help = "standard deviation of matrices at the start; 0: the root of one over their inputs"},

    /* Only some mixers read these: see readers. */
    {KEY(value_width), "0", 0, ICL_MAX_EXTENT, .help = "numbers of a value, for each head; 0: width over heads"},
    {KEY(normalize_keys), "auto", .choices = key_norms,
     .help = "queries and keys of length 1, or of sum 1; auto: of length 1 for most delta rules and mesa"},
    {KEY(convolution), "0", 0, 1024,
     .help = "width of short causal convolutions of queries, keys and values, or of the mixer conv; 0: none"},
    {KEY(window), "0", 0, ICL_MAX_EXTENT,
     .help = "positions that each query of softmax sees, the last ones up to its own; 0: all of them"},
    {KEY(write_strength), "1", 0.001, 2, .help = "largest step of delta rules, or share taken out, up to 2"},
    {KEY(delta_steps), "2", 1, 64, .help = "steps of delta-product for each token"},
    {KEY(iterations), "30", 0, 1024, .help = "conjugate gradient steps of mesa; 0: no solver"},
    {KEY(ridge), "1", 1e-6, 1e6, .help = "ridge of mesa at the start"},
    {KEY(momentum), "0.5", 0, 0.999, .help = "share of the last write that is repeated"},
    {KEY(normalizer), "false", .help = "linear attention over the sum of its weights"},
    {KEY(gate_limit), "1", 0.001, 1, .help = "what gates stay below"},
    {KEY(gate_root), "16", 0.001, 1e6, .help = "root that gla, gsa and oja take of their gates"},
    {KEY(slots), "0", 0, ICL_MAX_EXTENT, .help = "slots of gsa, for each head; 0: as many as a key has numbers"},
    {KEY(mimo_rank), "1", 1, ICL_MAX_EXTENT, .help = "queries and keys of mamba3 for each token, which share a state"},
    {KEY(output_norm), "rms", .choices = output_norms, .help = "norm of each head's output"},
    {KEY(output_gate), "false", .help = "outputs times silu, or sigmoid, of a projection"},
    {KEY(sinks), "false", .help = "a logit for each head of softmax that takes weight from all keys"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_sequence_model_keys[] = {&icl_heads_keys, &icl_sequence_feature_keys, &mixer_group,
                                                           &own_keys, NULL};

/* ---- Keys that no layer reads ---- */

static const struct {
    const char *section, *name;
    unsigned reads; /* mixers with any of these bits read the key */
} readers[] = {
    {NAME(heads), ICL_READS_VALUES},
    {NAME(key_width), ICL_READS_KEYS},
    {NAME(value_width), ICL_READS_VALUES},
    {NAME(feature_map), ICL_READS_FEATURES},
    {NAME(normalize_keys), ICL_READS_FEATURES},
    {NAME(convolution), ICL_READS_CONVOLUTION},
    {NAME(window), ICL_READS_WINDOW},
    {NAME(write_strength), ICL_READS_WRITES},
    {NAME(delta_steps), ICL_READS_STEPS},
    {NAME(iterations), ICL_READS_SOLVER},
    {NAME(ridge), ICL_READS_SOLVER},
    {NAME(momentum), ICL_READS_MOMENTUM},
    {NAME(normalizer), ICL_READS_NORMALIZER},
    {NAME(gate_limit), ICL_READS_GATE_LIMIT},
    {NAME(gate_root), ICL_READS_GATE_ROOT},
    {NAME(slots), ICL_READS_SLOTS},
    {NAME(mimo_rank), ICL_READS_RANK},
    {NAME(output_norm), ICL_READS_OUTPUT},
    {NAME(output_gate), ICL_READS_OUTPUT | ICL_READS_OUTPUT_GATE},
    {NAME(sinks), ICL_READS_SINKS},
};

static unsigned reads_of(const icl_model *model, const icl_sequence *sequence) {
    unsigned reads = 0;
    for (size_t i = 0; i < model->layers; i++)
        reads |= sequence->layers[i].mixer->reads;
    return reads;
}

/* Returns whether a mixer of a program's own lists the key. */
static bool is_listed(const icl_model *model, const icl_sequence *sequence, const char *section, const char *name) {
    const icl_recipe_key key = {.section = section, .name = name};

    for (size_t i = 0; i < model->layers; i++)
        if (sequence->layers[i].own && icl_recipe_lists(sequence->layers[i].own->keys, &key))
            return true;
    return false;
}

static icl_status check_readers(const icl_recipe *recipe, const icl_model *model, const icl_sequence *sequence,
                                icl_error *error) {
    const unsigned reads = reads_of(model, sequence);
    char words[512];

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const char *expected = icl_recipe_left_default(recipe, readers[i].section, readers[i].name);
        if ((readers[i].reads & reads) == 0 && expected &&
            !is_listed(model, sequence, readers[i].section, readers[i].name))
            return icl_recipe_reject(recipe, readers[i].section, readers[i].name, error,
                                     "%s, its default: no layer reads it, only the mixers %s do", expected,
                                     icl_sequence_mixer_words(readers[i].reads, words, sizeof words));
    }
    return ICL_OK;
}

/* ---- Feature maps ---- */

static const struct {
    const char *word;
    icl_feature_map kind;
    bool has_count, needs_count;
} feature_maps[] = {
    {"identity", ICL_FEATURES_IDENTITY, false, false}, {"elu+1", ICL_FEATURES_ELU, false, false},
    {"relu", ICL_FEATURES_RELU, false, false},         {"tanh", ICL_FEATURES_TANH, false, false},
    {"dpfp", ICL_FEATURES_DPFP, true, true},           {"favor", ICL_FEATURES_FAVOR, true, true},
    {"learned", ICL_FEATURES_LEARNED, true, false},
};

enum { FEATURE_MAPS = sizeof feature_maps / sizeof *feature_maps, MOST_FEATURES = 65536 };

static icl_status read_feature_map(const icl_recipe *recipe, const char *text, icl_sequence *sequence,
                                   icl_error *error) {
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    const char *words[FEATURE_MAPS];
    uint64_t count = 0;

    for (size_t i = 0; i < FEATURE_MAPS; i++) {
        const bool is_it = strlen(feature_maps[i].word) == length && strncmp(feature_maps[i].word, text, length) == 0;
        const bool counts =
            colon && icl_parse_count(colon + 1, strlen(colon + 1), &count) && count > 0 && count <= MOST_FEATURES;
        words[i] = feature_maps[i].word;
        const bool fits = colon ? feature_maps[i].has_count && counts : !feature_maps[i].needs_count;
        if (!is_it || !fits)
            continue;
        sequence->feature_map = feature_maps[i].kind;
        sequence->feature_count = (size_t)count;
        return ICL_OK;
    }
    return icl_recipe_reject(
        recipe, NAME(feature_map), error,
        "identity, elu+1, relu, tanh, dpfp:NU, favor:M, learned or learned:M, NU and M from 1 to %d; "
        "the nearest is %s",
        MOST_FEATURES, icl_nearest(text, words, FEATURE_MAPS));
}

/* ---- Reading ---- */

static feature_settings read_features(const icl_recipe *recipe) {
    feature_settings settings;

    icl_recipe_read(recipe, &icl_sequence_feature_keys, &settings);
    return settings;
}

static void read_values(const icl_recipe *recipe, icl_sequence *sequence) {
    icl_recipe_read(recipe, &base_group, sequence);
    icl_recipe_read(recipe, &place_group, sequence);
    icl_recipe_read(recipe, &factor_group, sequence);
    icl_recipe_read(recipe, &cell_group, sequence);
    icl_recipe_read(recipe, &own_keys, sequence);
    sequence->heads = icl_model_read(recipe).heads;
    sequence->width = read_features(recipe).width;
    sequence->hidden = (size_t)fmax(1, round((double)sequence->width * sequence->feed_forward_factor));
}

static icl_status share_width(const icl_recipe *recipe, icl_sequence *sequence, size_t *own, const char *name,
                              icl_error *error) {
    if (*own > 0)
        return ICL_OK;
    if (sequence->width % sequence->heads != 0)
        return icl_recipe_reject(recipe, NAME(heads), error, "a divisor of model.width = %zu, or another model.%s",
                                 sequence->width, name);
    *own = sequence->width / sequence->heads;
    return ICL_OK;
}

/* Returns how many numbers phi(x) has. */
static size_t feature_width_of(const icl_sequence *sequence) {
    switch (sequence->feature_map) {
    case ICL_FEATURES_DPFP:
        return 2 * sequence->key_width * sequence->feature_count;
    case ICL_FEATURES_FAVOR:
        return 2 * sequence->feature_count;
    case ICL_FEATURES_LEARNED:
        return sequence->feature_count > 0 ? sequence->feature_count : sequence->key_width;
    case ICL_FEATURES_IDENTITY:
    case ICL_FEATURES_ELU:
    case ICL_FEATURES_RELU:
    case ICL_FEATURES_TANH:
        break;
    }
    return sequence->key_width;
}

icl_status icl_sequence_read_features(const icl_recipe *recipe, icl_sequence *sequence, icl_error *error) {
    const feature_settings settings = read_features(recipe);

    sequence->width = settings.width;
    sequence->key_width = settings.key_width;
    ICL_CHECK(read_feature_map(recipe, settings.feature_map, sequence, error));
    ICL_CHECK(share_width(recipe, sequence, &sequence->key_width, "key_width", error));
    sequence->feature_width = feature_width_of(sequence);
    return ICL_OK;
}

static icl_status check_positions(const icl_recipe *recipe, const icl_sequence *sequence, unsigned reads,
                                  icl_error *error) {
    if (sequence->positions == ICL_POSITIONS_SINUSOIDAL && sequence->width % 2 != 0)
        return icl_recipe_reject(recipe, NAME(width), error, "an even number beside model.positions = sinusoidal");
    if (sequence->positions != ICL_POSITIONS_ROTARY)
        return ICL_OK;
    if ((reads & ICL_READS_KEYS) == 0)
        return icl_recipe_reject(recipe, NAME(positions), error,
                                 "another word: rotary positions turn queries and keys, and no layer has any");
    if (sequence->key_width % 2 != 0)
        return icl_recipe_reject(recipe, NAME(positions), error,
                                 "another word, or keys of an even width: here they have %zu numbers",
                                 sequence->key_width);
    return ICL_OK;
}

/* Sets how many vectors a position has. */
static icl_status read_tokens(const icl_recipe *recipe, const icl_model *model, icl_sequence *sequence,
                              icl_error *error) {
    sequence->cells = 1;
    if (sequence->tokens == ICL_TOKENS_POSITIONS)
        return ICL_OK;
    if (model->shape.symbols > 0)
        return icl_recipe_reject(recipe, NAME(tokens), error, "positions: the task has symbols and no table");
    for (size_t i = 0; i < model->layers; i++)
        if (sequence->layers[i].mixer != &icl_mixer_labelled)
            return icl_recipe_reject(recipe, NAME(tokens), error,
                                     "positions: the mixer %s of layer %zu does not know columns, only labelled does",
                                     icl_sequence_word(&sequence->layers[i]), i);
    if (sequence->causal || sequence->positions != ICL_POSITIONS_NONE || sequence->readout != ICL_READOUT_POSITION)
        return icl_recipe_reject(recipe, NAME(tokens), error,
                                 "positions: only with model.causal = false, model.positions = none and "
                                 "model.readout = position do rows have cells");
    if (sequence->label_inputs >= model->shape.inputs)
        return icl_recipe_reject(recipe, NAME(label_inputs), error,
                                 "less than %zu, the inputs of a row, so that one is left for a cell",
                                 model->shape.inputs);
    sequence->cells = model->shape.inputs - sequence->label_inputs + 1;
    return ICL_OK;
}

/* A write of more than m or n products adds nothing to a state [m, n]. */
static icl_status check_rank(const icl_recipe *recipe, const icl_sequence *sequence, icl_error *error) {
    const size_t m = sequence->key_width, n = sequence->value_width;

    if (m % 2 != 0)
        return icl_recipe_reject(recipe, NAME(key_width), error,
                                 "an even number for the mixer mamba3, whose keys turn in pairs: here they have %zu",
                                 m);
    if (sequence->mimo_rank > m || sequence->mimo_rank > n)
        return icl_recipe_reject(recipe, NAME(mimo_rank), error, "at most %zu, the numbers of a %s", m < n ? m : n,
                                 m < n ? "key" : "value");
    return ICL_OK;
}

static icl_status check_mixers(const icl_recipe *recipe, const icl_model *model, const icl_sequence *sequence,
                               icl_error *error) {
    const bool negative = sequence->feature_map == ICL_FEATURES_IDENTITY || sequence->feature_map == ICL_FEATURES_TANH;

    for (size_t i = 0; i < model->layers; i++) {
        const icl_sequence_layer *layer = &sequence->layers[i];
        const icl_sequence_mixer *mixer = layer->mixer;
        const bool is_two_sided = layer->own ? layer->own->is_two_sided : mixer->is_two_sided;
        if (!sequence->causal && !is_two_sided)
            return icl_recipe_reject(recipe, NAME(causal), error, "true: the mixer %s of layer %zu has no other form",
                                     icl_sequence_word(layer), i);
        if (mixer == &icl_mixer_convolution && sequence->convolution < 2)
            return icl_recipe_reject(recipe, NAME(convolution), error, "at least 2 for the mixer conv");
    }
    if (!sequence->causal && sequence->convolution > 0)
        return icl_recipe_reject(recipe, NAME(convolution), error, "0 beside model.causal = false");
    if (!sequence->causal && sequence->window > 0)
        return icl_recipe_reject(recipe, NAME(window), error, "0 beside model.causal = false");
    if (sequence->sinks && sequence->window > 0)
        return icl_recipe_reject(recipe, NAME(window), error, "0 beside model.sinks = true");
    if (sequence->normalizer && negative)
        return icl_recipe_reject(recipe, NAME(normalizer), error,
                                 "false beside model.feature_map = %s: the sum of its weights may be 0",
                                 icl_recipe_value(recipe, NAME(feature_map)));
    if (sequence->normalize_keys == ICL_KEYS_SUM && negative)
        return icl_recipe_reject(recipe, NAME(normalize_keys), error,
                                 "another word beside model.feature_map = %s: the sum of a key may be 0",
                                 icl_recipe_value(recipe, NAME(feature_map)));
    return ICL_OK;
}

icl_status icl_sequence_read_keys(const icl_recipe *recipe, const icl_model *model, icl_sequence *sequence,
                                  icl_error *error) {
    unsigned reads;

    ICL_CHECK(read_mixers(recipe, model, sequence->layers, error));
    reads = reads_of(model, sequence);
    read_values(recipe, sequence);
    ICL_CHECK(check_readers(recipe, model, sequence, error));
    if (reads & ICL_READS_KEYS)
        ICL_CHECK(icl_sequence_read_features(recipe, sequence, error));
    if (reads & ICL_READS_SLOTS && sequence->slots == 0)
        sequence->slots = sequence->feature_width;
    if (reads & ICL_READS_VALUES)
        ICL_CHECK(share_width(recipe, sequence, &sequence->value_width, "value_width", error));
    ICL_CHECK(check_positions(recipe, sequence, reads, error));
    if (sequence->readout == ICL_READOUT_LAST && sequence->width % 2 != 0)
        return icl_recipe_reject(recipe, NAME(width), error, "an even number beside model.readout = last");
    if (sequence->loop_norm && (sequence->norm == ICL_NORMS_NONE || sequence->norm_place == ICL_NORMS_AFTER ||
                                sequence->readout == ICL_READOUT_LAST))
        return icl_recipe_reject(recipe, NAME(loop_norm), error,
                                 "false: only with norms before the parts of a block, and outputs from each position "
                                 "or from their mean, does the readout have a norm that a loop can end in");
    if (!sequence->embedding_bias && model->shape.symbols > 0)
        return icl_recipe_reject(recipe, NAME(embedding_bias), error,
                                 "true: the task has symbols, whose embedding is a table");
    if (sequence->tied_embedding && (model->shape.symbols == 0 || model->shape.symbols != model->shape.outputs))
        return icl_recipe_reject(recipe, NAME(tied_embedding), error,
                                 "false: the task has %zu symbols and %zu outputs, which one table cannot serve",
                                 model->shape.symbols, model->shape.outputs);
    if (sequence->readout == ICL_READOUT_POOLED && model->shape.scored != 1)
        return icl_recipe_reject(recipe, NAME(readout), error,
                                 "position: the task scores %zu positions, and their mean gives one output",
                                 model->shape.scored);
    ICL_CHECK(check_mixers(recipe, model, sequence, error));
    ICL_CHECK(read_tokens(recipe, model, sequence, error));
    return reads & ICL_READS_RANK ? check_rank(recipe, sequence, error) : ICL_OK;
}
