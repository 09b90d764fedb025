/* The keys of model.family = sequence, and what does not fit together. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "model/sequence/sequence.h"

/* ---- Keys that another one brings into use ---- */

static const icl_recipe_key base_keys[] = {
    {"model", "position_base", ICL_KEY_NUMBER, "10000", 1, 1e12, .help = "longest period of positions, over 2 pi"},
};
static const icl_recipe_key place_keys[] = {
    {"model", "norm_place", ICL_KEY_WORD, "before", .choices = (const icl_choice[]){{"before", 0}, {"after", 1}, {0}},
     .help = "norms before the mixer and the feed-forward part, or after their residual sums"},
};
static const icl_recipe_key factor_keys[] = {
    {"model", "feed_forward_factor", ICL_KEY_NUMBER, "4", 0.001, 1024,
     .help = "hidden numbers of the feed-forward part over the width"},
};
static const icl_recipe_group base_group = ICL_RECIPE_GROUP(base_keys);
static const icl_recipe_group place_group = ICL_RECIPE_GROUP(place_keys);
static const icl_recipe_group factor_group = ICL_RECIPE_GROUP(factor_keys);
static const icl_recipe_group *const base_groups[] = {&base_group, NULL};
static const icl_recipe_group *const place_groups[] = {&place_group, NULL};
static const icl_recipe_group *const factor_groups[] = {&factor_group, NULL};

/* ---- Words ---- */

static const icl_choice positions[] = {{"none", ICL_POSITIONS_NONE},
                                       {"learned", ICL_POSITIONS_LEARNED},
                                       {"sinusoidal", ICL_POSITIONS_SINUSOIDAL, base_groups},
                                       {"rotary", ICL_POSITIONS_ROTARY, base_groups},
                                       {0}};
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
static const icl_choice readouts[] = {{"position", 0}, {"pooled", 1}, {"last", 2}, {0}};
static const icl_choice key_norms[] = {
    {"auto", ICL_KEYS_AUTO}, {"none", ICL_KEYS_AS_THEY_ARE}, {"unit", ICL_KEYS_UNIT}, {"sum", ICL_KEYS_SUM}, {0}};

/* ---- What every sequence model reads ---- */

static const icl_recipe_key feature_rows[] = {
    {"model", "width", ICL_KEY_COUNT, "64", 1, ICL_MAX_EXTENT, .help = "numbers of a position between blocks"},
    {"model", "key_width", ICL_KEY_COUNT, "0", 0, ICL_MAX_EXTENT,
     .help = "numbers of a key, for each head; 0: width over heads"},
    {"model", "feature_map", ICL_KEY_TEXT, "identity",
     .help = "of queries and keys: identity, elu+1, relu, tanh, dpfp:NU, favor:M or learned:M"},
};
const icl_recipe_group icl_sequence_feature_keys = ICL_RECIPE_GROUP(feature_rows);

static const icl_recipe_key keys[] = {
    {"model", "mixer", ICL_KEY_TEXT, "softmax",
     .help =
         "how positions see each other: softmax, linear, delta, mesa, ...; a word, or a list for the layers in turn"},
    {"model", "causal", ICL_KEY_FLAG, "true", .help = "positions see those before them alone"},
    {"model", "loops", ICL_KEY_COUNT, "1", 1, 1024,
     .help = "the blocks are applied so often, each time to their last output plus the embedding"},
    {"model", "injection", ICL_KEY_FLAG, "true", .help = "every loop adds the embedding; false: the first one alone"},
    {"model", "loop_norm", ICL_KEY_FLAG, "false", .help = "the norm before the readout ends every loop"},
    {"model", "positions", ICL_KEY_WORD, "none", .choices = positions, .help = "what tells positions apart"},
    {"model", "embedding_bias", ICL_KEY_FLAG, "true",
     .help = "a bias beside the embedding of coordinates; without any, linear mixers see no constant"},
    {"model", "norm", ICL_KEY_WORD, "rms", .choices = norms, .help = "norms of blocks, and before the readout"},
    {"model", "feed_forward", ICL_KEY_WORD, "gelu", .choices = feed_forwards,
     .help = "what each position computes by itself"},
    {"model", "activation_clip", ICL_KEY_NUMBER, "0", 0, 1e6,
     .help = "numbers behind each block are cut to this size; 0: they are not"},
    {"model", "readout", ICL_KEY_WORD, "position", .choices = readouts,
     .help = "outputs from each scored position, from the mean over all, or from the last one alone"},
    {"model", "init", ICL_KEY_NUMBER, "0", 0, 100,
     .help = "standard deviation of matrices at the start; 0: the root of one over their inputs"},

    /* Read by some mixers alone: see readers. */
    {"model", "value_width", ICL_KEY_COUNT, "0", 0, ICL_MAX_EXTENT,
     .help = "numbers of a value, for each head; 0: width over heads"},
    {"model", "normalize_keys", ICL_KEY_WORD, "auto", .choices = key_norms,
     .help = "queries and keys of length 1, or of sum 1; auto: of length 1 for delta rules and mesa"},
    {"model", "convolution", ICL_KEY_COUNT, "0", 0, 1024,
     .help = "width of short causal convolutions of queries, keys and values, or of the mixer conv; 0: none"},
    {"model", "write_strength", ICL_KEY_NUMBER, "1", 0.001, 2, .help = "largest step of delta rules, up to 2"},
    {"model", "delta_steps", ICL_KEY_COUNT, "2", 1, 64, .help = "steps of delta-product for each token"},
    {"model", "iterations", ICL_KEY_COUNT, "30", 0, 1024, .help = "conjugate gradient steps of mesa; 0: no solver"},
    {"model", "ridge", ICL_KEY_NUMBER, "1", 1e-6, 1e6, .help = "ridge of mesa at the start"},
    {"model", "momentum", ICL_KEY_NUMBER, "0.5", 0, 0.999, .help = "share of the last write that is repeated"},
    {"model", "normalizer", ICL_KEY_FLAG, "false", .help = "linear attention over the sum of its weights"},
    {"model", "gate_limit", ICL_KEY_NUMBER, "1", 0.001, 1, .help = "what gates stay below"},
    {"model", "gate_root", ICL_KEY_NUMBER, "16", 0.001, 1e6, .help = "root that gla takes of its gates"},
    {"model", "output_norm", ICL_KEY_WORD, "rms", .choices = output_norms, .help = "norm of each head's output"},
    {"model", "output_gate", ICL_KEY_FLAG, "false", .help = "outputs times silu of a projection"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_sequence_model_keys[] = {&icl_heads_keys, &icl_sequence_feature_keys, &own_keys,
                                                           NULL};

/* ---- What no layer reads ---- */

static const struct {
    const char *name;
    unsigned reads; /* by mixers with any of these */
} readers[] = {
    {"heads", ICL_READS_VALUES},
    {"key_width", ICL_READS_KEYS},
    {"value_width", ICL_READS_VALUES},
    {"feature_map", ICL_READS_FEATURES},
    {"normalize_keys", ICL_READS_FEATURES},
    {"convolution", ICL_READS_CONVOLUTION},
    {"write_strength", ICL_READS_WRITES},
    {"delta_steps", ICL_READS_STEPS},
    {"iterations", ICL_READS_SOLVER},
    {"ridge", ICL_READS_SOLVER},
    {"momentum", ICL_READS_MOMENTUM},
    {"normalizer", ICL_READS_NORMALIZER},
    {"gate_limit", ICL_READS_GATE_LIMIT},
    {"gate_root", ICL_READS_GATE_ROOT},
    {"output_norm", ICL_READS_OUTPUT},
    {"output_gate", ICL_READS_OUTPUT},
};

static unsigned reads_of(const icl_model *model, const icl_sequence *is) {
    unsigned reads = 0;
    for (size_t i = 0; i < model->layers; i++)
        reads |= is->layers[i].mixer->reads;
    return reads;
}

static bool is_default(const icl_recipe *recipe, const char *name, const char **expected) {
    size_t count;
    const icl_recipe_key *all = icl_recipe_keys(recipe, &count);
    const char *value = icl_recipe_value(recipe, "model", name);
    double a, b;

    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].section, "model") == 0 && strcmp(all[i].name, name) == 0)
            *expected = all[i].default_value;
    return strcmp(value, *expected) == 0 ||
           (icl_parse_number(value, strlen(value), &a) && icl_parse_number(*expected, strlen(*expected), &b) && a == b);
}

static icl_status check_readers(const icl_recipe *recipe, const icl_model *model, const icl_sequence *is,
                                icl_error *error) {
    const unsigned reads = reads_of(model, is);
    const char *expected = "";
    char words[256];

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if ((readers[i].reads & reads) == 0 && !is_default(recipe, readers[i].name, &expected))
            return icl_recipe_reject(recipe, "model", readers[i].name, error,
                                     "%s, its default: no layer reads it, only the mixers %s do", expected,
                                     icl_sequence_mixer_words(readers[i].reads, words, sizeof words));
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

static icl_status read_feature_map(const icl_recipe *recipe, icl_sequence *is, icl_error *error) {
    const char *text = icl_recipe_text(recipe, "model", "feature_map"), *colon = strchr(text, ':');
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
        is->feature_map = feature_maps[i].kind;
        is->feature_count = (size_t)count;
        return ICL_OK;
    }
    return icl_recipe_reject(
        recipe, "model", "feature_map", error,
        "identity, elu+1, relu, tanh, dpfp:NU, favor:M, learned or learned:M, NU and M from 1 to %d; "
        "the nearest is %s",
        MOST_FEATURES, icl_nearest(text, words, FEATURE_MAPS));
}

/* ---- Reading ---- */

static void read_values(const icl_recipe *recipe, icl_sequence *is) {
    is->width = (size_t)icl_recipe_count(recipe, "model", "width");
    is->heads = (size_t)icl_recipe_count(recipe, "model", "heads");
    is->value_width = (size_t)icl_recipe_count(recipe, "model", "value_width");
    is->causal = icl_recipe_flag(recipe, "model", "causal");
    is->injection = icl_recipe_flag(recipe, "model", "injection");
    is->loop_norm = icl_recipe_flag(recipe, "model", "loop_norm");
    is->has_embedding_bias = icl_recipe_flag(recipe, "model", "embedding_bias");
    is->positions = (icl_positions)icl_recipe_choice(recipe, "model", "positions");
    is->position_base = icl_recipe_number(recipe, "model", "position_base");
    is->norm = (icl_sequence_norm_kind)icl_recipe_choice(recipe, "model", "norm");
    is->norm_after = icl_recipe_choice(recipe, "model", "norm_place") == 1;
    is->feed_forward = (icl_feed_forward)icl_recipe_choice(recipe, "model", "feed_forward");
    is->hidden = (size_t)fmax(1, round((double)is->width * icl_recipe_number(recipe, "model", "feed_forward_factor")));
    is->pooled = icl_recipe_choice(recipe, "model", "readout") == 1;
    is->from_last = icl_recipe_choice(recipe, "model", "readout") == 2;
    is->activation_clip = icl_recipe_number(recipe, "model", "activation_clip");
    is->init = icl_recipe_number(recipe, "model", "init");
    is->key_norm = (icl_key_norm)icl_recipe_choice(recipe, "model", "normalize_keys");
    is->convolution = (size_t)icl_recipe_count(recipe, "model", "convolution");
    is->write_strength = icl_recipe_number(recipe, "model", "write_strength");
    is->delta_steps = (size_t)icl_recipe_count(recipe, "model", "delta_steps");
    is->iterations = (size_t)icl_recipe_count(recipe, "model", "iterations");
    is->ridge = icl_recipe_number(recipe, "model", "ridge");
    is->momentum = icl_recipe_number(recipe, "model", "momentum");
    is->normalizer = icl_recipe_flag(recipe, "model", "normalizer");
    is->gate_limit = icl_recipe_number(recipe, "model", "gate_limit");
    is->gate_root = icl_recipe_number(recipe, "model", "gate_root");
    is->output_norm = (icl_sequence_norm_kind)icl_recipe_choice(recipe, "model", "output_norm");
    is->output_gate = icl_recipe_flag(recipe, "model", "output_gate");
}

static icl_status share_width(const icl_recipe *recipe, icl_sequence *is, size_t *own, const char *name,
                              icl_error *error) {
    if (*own > 0)
        return ICL_OK;
    if (is->width % is->heads != 0)
        return icl_recipe_reject(recipe, "model", "heads", error, "a divisor of model.width = %zu, or another model.%s",
                                 is->width, name);
    *own = is->width / is->heads;
    return ICL_OK;
}

icl_status icl_sequence_read_features(const icl_recipe *recipe, icl_sequence *is, icl_error *error) {
    is->width = (size_t)icl_recipe_count(recipe, "model", "width");
    is->key_width = (size_t)icl_recipe_count(recipe, "model", "key_width");
    ICL_CHECK(read_feature_map(recipe, is, error));
    ICL_CHECK(share_width(recipe, is, &is->key_width, "key_width", error));
    is->feature_width = icl_sequence_feature_width(is);
    return ICL_OK;
}

static icl_status check_positions(const icl_recipe *recipe, const icl_sequence *is, unsigned reads, icl_error *error) {
    if (is->positions == ICL_POSITIONS_SINUSOIDAL && is->width % 2 != 0)
        return icl_recipe_reject(recipe, "model", "width", error, "an even number beside model.positions = sinusoidal");
    if (is->positions != ICL_POSITIONS_ROTARY)
        return ICL_OK;
    if ((reads & ICL_READS_KEYS) == 0)
        return icl_recipe_reject(recipe, "model", "positions", error,
                                 "another word: rotary positions turn queries and keys, and no layer has any");
    if (is->key_width % 2 != 0)
        return icl_recipe_reject(recipe, "model", "positions", error,
                                 "another word, or keys of an even width: here they have %zu numbers", is->key_width);
    return ICL_OK;
}

static icl_status check_mixers(const icl_recipe *recipe, const icl_model *model, const icl_sequence *is,
                               icl_error *error) {
    const bool negative = is->feature_map == ICL_FEATURES_IDENTITY || is->feature_map == ICL_FEATURES_TANH;

    for (size_t i = 0; i < model->layers; i++) {
        const icl_sequence_mixer *mixer = is->layers[i].mixer;
        if (!is->causal && !mixer->is_two_sided)
            return icl_recipe_reject(recipe, "model", "causal", error,
                                     "true: the mixer %s of layer %zu has no other form", mixer->word, i);
        if (mixer == &icl_mixer_convolution && is->convolution < 2)
            return icl_recipe_reject(recipe, "model", "convolution", error, "at least 2 for the mixer conv");
    }
    if (!is->causal && is->convolution > 0)
        return icl_recipe_reject(recipe, "model", "convolution", error, "0 beside model.causal = false");
    if (is->normalizer && negative)
        return icl_recipe_reject(recipe, "model", "normalizer", error,
                                 "false beside model.feature_map = %s: the sum of its weights may be 0",
                                 icl_recipe_value(recipe, "model", "feature_map"));
    if (is->key_norm == ICL_KEYS_SUM && negative)
        return icl_recipe_reject(recipe, "model", "normalize_keys", error,
                                 "another word beside model.feature_map = %s: the sum of a key may be 0",
                                 icl_recipe_value(recipe, "model", "feature_map"));
    return ICL_OK;
}

icl_status icl_sequence_read_keys(const icl_recipe *recipe, const icl_model *model, icl_sequence *is,
                                  icl_error *error) {
    const unsigned reads = reads_of(model, is);

    read_values(recipe, is);
    ICL_CHECK(check_readers(recipe, model, is, error));
    if (reads & ICL_READS_KEYS)
        ICL_CHECK(icl_sequence_read_features(recipe, is, error));
    if (reads & ICL_READS_VALUES)
        ICL_CHECK(share_width(recipe, is, &is->value_width, "value_width", error));
    ICL_CHECK(check_positions(recipe, is, reads, error));
    if (is->from_last && is->width % 2 != 0)
        return icl_recipe_reject(recipe, "model", "width", error, "an even number beside model.readout = last");
    if (is->loop_norm && (is->norm == ICL_NORMS_NONE || is->norm_after || is->from_last))
        return icl_recipe_reject(recipe, "model", "loop_norm", error,
                                 "false: only with norms before the parts of a block, and outputs from each position "
                                 "or from their mean, does the readout have a norm that a loop can end in");
    if (!is->has_embedding_bias && model->shape.symbols > 0)
        return icl_recipe_reject(recipe, "model", "embedding_bias", error,
                                 "true: the task has symbols, whose embedding is a table");
    if (is->pooled && model->shape.scored != 1)
        return icl_recipe_reject(recipe, "model", "readout", error,
                                 "position: the task scores %zu positions, and their mean gives one output",
                                 model->shape.scored);
    return check_mixers(recipe, model, is, error);
}
