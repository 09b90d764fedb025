/* The table of mixers, and model.mixer: one word, or a list of them that the layers take in turn. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "iclab/nearest.h"
#include "model/sequence/sequence.h"

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

#define NAME(field) ICL_KEY_NAME("model", mixer_settings, field)

static const icl_recipe_key keys[] = {
    {ICL_KEY("model", mixer_settings, mixer), "softmax",
     .help =
         "how positions see each other: softmax, linear, delta, mesa, ...; a word, or a list for the layers in turn"},
};
const icl_recipe_group icl_sequence_mixer_keys = ICL_RECIPE_GROUP(keys);

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
    for (const icl_choice *own = icl_recipe_choices(recipe, NAME(mixer)); own->word && count < MOST_NAMED; own++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, ", %s", own->word);
        words[count++] = own->word;
    }
    return icl_recipe_reject(recipe, NAME(mixer), error,
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

icl_status icl_sequence_read_mixers(const icl_recipe *recipe, const icl_model *model, icl_sequence_layer *layers,
                                    icl_error *error) {
    mixer_settings settings;
    char word[WORD_CAPACITY];
    size_t count = 0;

    icl_recipe_read(recipe, &icl_sequence_mixer_keys, &settings);
    for (const char *rest = settings.mixer; rest; count++) {
        rest = next_word(rest, word);
        const icl_mixer_family *own = icl_recipe_object(recipe, NAME(mixer), word);
        const icl_sequence_mixer *mixer = own ? &icl_mixer_own : find_mixer(word);
        if (!mixer)
            return refuse(recipe, word, error);
        if (count == model->layers)
            return icl_recipe_reject(recipe, NAME(mixer), error, "at most %zu words, one for each layer",
                                     model->layers);
        layers[count] = (icl_sequence_layer){.mixer = mixer, .own = own, .index = count};
    }
    for (size_t i = count; i < model->layers; i++)
        layers[i] = (icl_sequence_layer){.mixer = layers[i - count].mixer, .own = layers[i - count].own, .index = i};
    return ICL_OK;
}
