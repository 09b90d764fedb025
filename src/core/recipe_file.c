/* Recipes as INI text, read by inih. */
#include <assert.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/file.h"

/* Larger than any recipe that a person writes; a file of gigabytes, given by mistake, is not read to its end. */
#define MAX_FILE_BYTES ((size_t)1 << 20)

#define MAX_TEXT 8192

/* Written values are broken over lines of this width, because inih reads at most 200 bytes per line. */
#define WRITTEN_WIDTH 100

typedef struct ini_source {
    icl_recipe *recipe;
    const char *name, *at; /* the file's name; the text not yet read */
    size_t line;           /* the number of the line that inih is looking at */
    bool continues;        /* that line is indented: inih will call it a continuation of the value above */
    size_t *seen;          /* per key, the line that set it, or 0 */
    size_t pending;        /* the key whose value is being collected, or key_count */
    size_t pending_line;
    char value[MAX_TEXT];
    icl_status status; /* the first failure, after which nothing more is read */
    size_t failed_line;
    icl_error *error;
} ini_source;

static void fail_line(ini_source *source, const char *what, const char *expected) {
    if (source->status == ICL_OK)
        source->status = icl_fail(source->error, ICL_ERROR_INPUT, "%s:%zu: %s: expected %s", source->name, source->line,
                                  what, expected);
}

/* Returns whether nothing but a comment follows the ']' of a section: inih would ignore it. */
static bool is_alone(const char *section) {
    const char *after = section + strcspn(section, "]\r\n");

    after += *after == ']';
    after += strspn(after, " \t");
    return strchr("\r\n;#", *after) != NULL;
}

/* Stands in for fgets, for three reasons: inih takes the rest of a line that is too long for another line, it does not
 * tell its handler line numbers, and it does not end a line at a lone CR. */
static char *next_line(char *buffer, int capacity, void *user) {
    ini_source *source = user;
    const char *start = source->at, *first;
    size_t length;

    if (*start == '\0' || source->status != ICL_OK)
        return NULL;
    length = strcspn(start, "\r\n");
    source->at = start + length + (strncmp(start + length, "\r\n", 2) == 0 ? 2 : start[length] != '\0');
    source->line++;
    first = start + strspn(start, " \t");
    source->continues = first > start;

    if (*first == '[' && !is_alone(first)) {
        fail_line(source, "a section's line goes on behind its ']'", "nothing but a comment there");
        return NULL;
    }
    if (*first == ';' || *first == '#')
        length = 0; /* a comment may be of any length */
    if (length + 2 > (size_t)capacity) {
        char expected[64];
        snprintf(expected, sizeof expected, "at most %d bytes; indent what continues below", capacity - 2);
        fail_line(source, "line too long", expected);
        return NULL;
    }
    memcpy(buffer, start, length);
    memcpy(buffer + length, "\n", 2);
    return buffer;
}

/* Stores the value collected so far. */
static void finish_value(ini_source *source) {
    const size_t index = source->pending;
    char origin[512];

    source->pending = source->recipe->key_count;
    if (index == source->recipe->key_count || source->status != ICL_OK)
        return;
    snprintf(origin, sizeof origin, "%s:%zu", source->name, source->pending_line);
    source->status = icl_recipe_set(source->recipe, source->recipe->keys[index].section,
                                    source->recipe->keys[index].name, source->value, origin, source->error);
}

static void append_value(ini_source *source, const char *text) {
    const size_t used = strlen(source->value), length = strlen(text);
    if (used + length + 1 > sizeof source->value)
        fail_line(source, "value too long", "at most 8191 bytes");
    else
        memcpy(source->value + used, text, length + 1);
}

/* Returns whether a continuation line looks like a key of its section, '=' and a value. */
static bool is_key(const ini_source *source, const char *section, const char *text) {
    const size_t length = strcspn(text, " \t=");
    char name[64];

    if (length >= sizeof name || text[length + strspn(text + length, " \t")] != '=')
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    return icl_recipe_find(source->recipe, section, name) < source->recipe->key_count;
}

static bool take_pair(ini_source *source, const char *section, const char *name, const char *text) {
    const size_t index = icl_recipe_find(source->recipe, section, name);
    const bool continued = source->continues && index < source->recipe->key_count && index == source->pending;

    if (source->status != ICL_OK)
        return false;
    if (continued && is_key(source, section, text)) {
        fail_line(source, "a key on an indented line, which continues the value above",
                  "every key at the beginning of its line");
        return false;
    }
    if (continued) {
        if (source->recipe->keys[index].type == ICL_KEY_PROSE)
            append_value(source, " ");
        append_value(source, text);
        return source->status == ICL_OK;
    }
    finish_value(source);
    if (source->status != ICL_OK)
        return false;
    if (index == source->recipe->key_count) {
        char origin[512];
        snprintf(origin, sizeof origin, "%s:%zu", source->name, source->line);
        source->status = icl_recipe_set(source->recipe, section, name, text, origin, source->error);
        return false;
    }
    if (source->seen[index] != 0) {
        source->status =
            icl_fail(source->error, ICL_ERROR_INPUT, "%s:%zu: %s.%s again: expected it once; line %zu has set it",
                     source->name, source->line, section, name, source->seen[index]);
        return false;
    }
    source->seen[index] = source->pending_line = source->line;
    source->pending = index;
    source->value[0] = '\0';
    append_value(source, text);
    return source->status == ICL_OK;
}

/* The handler that inih calls; returns 0 if the line is bad. */
static int handle_pair(void *user, const char *section, const char *name, const char *text) {
    ini_source *source = user;
    const int good = take_pair(source, section, name, text);
    if (!good && source->failed_line == 0)
        source->failed_line = source->line;
    return good;
}

/* Exchanges the values of two recipes over the same table. */
static void swap(icl_recipe *a, icl_recipe *b) {
    recipe_value *values = a->values;
    assert(a->key_count == b->key_count);
    a->values = b->values;
    b->values = values;
}

icl_status icl_recipe_parse(icl_recipe *recipe, const char *text, const char *name, icl_error *error) {
    icl_status status = ICL_OK;
    ini_source *source = NULL;
    icl_recipe *changed = NULL;
    int bad_line;

    ICL_TRY(icl_recipe_clone(recipe, &changed, error));
    ICL_TRY(icl_allocate(1, sizeof *source, "recipe reader", &source, error));
    ICL_TRY(icl_allocate(recipe->key_count, sizeof *source->seen, "recipe reader", &source->seen, error));
    source->recipe = changed;
    source->name = name;
    source->at = text;
    source->pending = recipe->key_count;
    source->error = error;

    bad_line = ini_parse_stream(next_line, source, handle_pair, source);
    finish_value(source);
    /* inih goes on after a line that it cannot read, so its complaint may be about an earlier line than ours. */
    if (bad_line < 0 || (bad_line > 0 && (size_t)bad_line < source->failed_line) ||
        (bad_line > 0 && source->status == ICL_OK))
        source->status = icl_fail(error, bad_line > 0 ? ICL_ERROR_INPUT : ICL_ERROR_MEMORY,
                                  "%s:%d: not a line of a recipe: expected [section] or key = value", name, bad_line);
    ICL_TRY(source->status);
    swap(recipe, changed);
done:
    if (source)
        icl_free(&source->seen);
    icl_free(&source);
    icl_recipe_destroy(&changed);
    return status;
}

icl_status icl_recipe_load(icl_recipe *recipe, const char *path, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t size = 0;

    ICL_TRY(icl_file_read(path, MAX_FILE_BYTES, &text, &size, error));
    if (strlen(text) != size) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: holds a NUL byte: expected the text of a recipe", path);
        goto done;
    }
    ICL_TRY(icl_recipe_parse(recipe, text, path, error));
done:
    icl_free(&text);
    return status;
}

/* ---- Writing ---- */

/* Returns whether a value can be broken here: reading drops blanks on either side of a break. */
static bool can_break(const char *text, size_t part) {
    return text[part] != ' ' && text[part - 1] != ' ';
}

/* Returns how much of `text` goes on this line: all of it if it fits, else up to the last comma, else as much as
 * fits. */
static size_t line_part(const char *text) {
    const size_t length = strlen(text);
    size_t part = WRITTEN_WIDTH;

    if (length <= WRITTEN_WIDTH)
        return length;
    while (part > 0 && (text[part - 1] != ',' || !can_break(text, part)))
        part--;
    if (part > 0)
        return part;
    part = WRITTEN_WIDTH;
    while (part > 1 && !can_break(text, part))
        part--;
    while (part < length && !can_break(text, part))
        part++;
    return part;
}

static void write_key(FILE *stream, const icl_recipe_key *key, const char *text) {
    size_t part = line_part(text);

    if (key->help && key->help[0] != '\0')
        fprintf(stream, "; %s\n", key->help);
    fprintf(stream, "%s = %.*s\n", key->name, (int)part, text);
    for (text += part; *text != '\0'; text += part) {
        part = line_part(text);
        fprintf(stream, "    %.*s\n", (int)part, text);
    }
}

static const icl_recipe_own *find_own(const icl_recipe_own *family, size_t count, const char *section) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(family[i].section, section) == 0)
            return &family[i];
    return NULL;
}

/* Returns the text to write for a key; NULL if the key is not written. */
static const char *written_value(const icl_recipe *recipe, size_t index, const icl_recipe_own *family) {
    const icl_recipe_key *key = &recipe->keys[index];
    bool is_written = !icl_recipe_is_idle(recipe, index);

    if (family && strcmp(key->name, "family") == 0)
        return family->family;
    if (family)
        is_written = !recipe->values[index].is_default || icl_recipe_lists(family->keys, key);
    return is_written ? recipe->values[index].text : NULL;
}

icl_status icl_recipe_write(const icl_recipe *recipe, char **text, icl_error *error) {
    return icl_recipe_write_own(recipe, NULL, 0, text, error);
}

icl_status icl_recipe_write_own(const icl_recipe *recipe, const icl_recipe_own *family, size_t count, char **text,
                                icl_error *error) {
    icl_status status = ICL_OK;
    char *memory = NULL;
    size_t size = 0;
    const char *section = "";
    FILE *stream = open_memstream(&memory, &size);

    if (!stream)
        return icl_fail(error, ICL_ERROR_MEMORY, "recipe text: no memory");
    for (size_t i = 0; i < recipe->key_count; i++) {
        const icl_recipe_key *key = &recipe->keys[i];
        const char *value = written_value(recipe, i, find_own(family, count, key->section));
        if (!value)
            continue;
        if (strcmp(key->section, section) != 0)
            fprintf(stream, "%s[%s]\n", section[0] == '\0' ? "" : "\n", key->section);
        section = key->section;
        write_key(stream, key, value);
    }
    if (fclose(stream) != 0 || !memory)
        status = icl_fail(error, ICL_ERROR_MEMORY, "recipe text: no memory");
    else
        status = icl_duplicate(memory, text, error);
    free(memory);
    return status;
}
