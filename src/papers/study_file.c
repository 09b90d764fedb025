/* Studies as files: what sections may hold, and the errors that their text shows. */
#include "papers/study_file.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "papers/study_file_parts.h"

/* ---- What sections may hold ---- */

static const char *const study_sections[] = {"study", "study ci", "study short", "study full"};
static const char *const set_sections[] = {"set", "set ci", "set short", "set full"};
static const char *const grid_sections[] = {"grid", "grid ci", "grid short", "grid full"};
static const char *const cells_sections[] = {"cells", "cells ci", "cells short", "cells full"};

static const icl_choice criteria[] = {
    {"within", ICL_WITHIN}, {"at most", ICL_AT_MOST}, {"at least", ICL_AT_LEAST}, {0}};
static const icl_choice kinds_of_evidence[] = {{"none", ICL_EVIDENCE_NONE},
                                               {"read", ICL_READ},
                                               {"stated", ICL_STATED},
                                               {"computed", ICL_COMPUTED},
                                               {"inferred", ICL_INFERRED},
                                               {"recalled", ICL_RECALLED},
                                               {0}};

static const icl_choice ways_of_seeds[] = {
    {"mean", ICL_STUDY_MEAN}, {"each", ICL_STUDY_EACH}, {"first", ICL_STUDY_FIRST}, {"best", ICL_STUDY_BEST}, {0}};
static const icl_choice drawn_seeds[] = {{"mean", ICL_STUDY_MEAN}, {"best", ICL_STUDY_BEST}, {0}};
static const icl_choice judged_positions[] = {{"each", false}, {"largest", true}, {0}};

#define PROSE_KEY(name)                                                                                                \
    { NULL, name, ICL_KEY_PROSE, "", 0, 0, NULL, NULL }

static const icl_recipe_key study_keys[] = {PROSE_KEY("claim"),
                                            PROSE_KEY("scope"),
                                            PROSE_KEY("source"),
                                            PROSE_KEY("recipe"),
                                            {NULL, "seeds", ICL_KEY_COUNT, "0", 0, 1000, NULL, NULL},
                                            PROSE_KEY("seeded"),
                                            PROSE_KEY("best"),
                                            PROSE_KEY("paper"),
                                            PROSE_KEY("about"),
                                            PROSE_KEY("cost_ci"),
                                            PROSE_KEY("cost_short"),
                                            PROSE_KEY("cost_full"),
                                            {0}};
static const icl_recipe_key scale_keys[] = {{NULL, "seeds", ICL_KEY_COUNT, "0", 0, 1000, NULL, NULL}, {0}};
static const icl_recipe_key cell_keys[] = {PROSE_KEY("what"),
                                           PROSE_KEY("recipe"),
                                           PROSE_KEY("settings"),
                                           PROSE_KEY("begins_with"),
                                           PROSE_KEY("scales"),
                                           PROSE_KEY("curve"),
                                           {NULL, "untrained", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL},
                                           {0}};
static const icl_recipe_key cells_keys[] = {PROSE_KEY("settings"), PROSE_KEY("by"), {0}};
static const icl_recipe_key settings_keys[] = {
    PROSE_KEY("what"), PROSE_KEY("curve"), {NULL, "untrained", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL}, {0}};
static const icl_recipe_key eval_keys[] = {PROSE_KEY("settings"), PROSE_KEY("at"), {0}};
static const icl_recipe_key check_keys[] = {PROSE_KEY("like"),
                                            PROSE_KEY("number"),
                                            PROSE_KEY("what"),
                                            {NULL, "seeds", ICL_KEY_WORD, "mean", 0, 0, ways_of_seeds, NULL},
                                            PROSE_KEY("positions"),
                                            {NULL, "position", ICL_KEY_WORD, "each", 0, 0, judged_positions, NULL},
                                            PROSE_KEY("judged"),
                                            PROSE_KEY("quantity"),
                                            PROSE_KEY("cells"),
                                            PROSE_KEY("scales"),
                                            PROSE_KEY("target"),
                                            PROSE_KEY("tolerance"),
                                            {NULL, "criterion", ICL_KEY_WORD, "within", 0, 0, criteria, NULL},
                                            {NULL, "evidence", ICL_KEY_WORD, "none", 0, 0, kinds_of_evidence, NULL},
                                            PROSE_KEY("source"),
                                            PROSE_KEY("note"),
                                            {0}};
static const icl_recipe_key figure_keys[] = {PROSE_KEY("like"),
                                             PROSE_KEY("number"),
                                             PROSE_KEY("x"),
                                             PROSE_KEY("curves"),
                                             PROSE_KEY("labels"),
                                             PROSE_KEY("positions"),
                                             {NULL, "seeds", ICL_KEY_WORD, "mean", 0, 0, drawn_seeds, NULL},
                                             PROSE_KEY("expected"),
                                             PROSE_KEY("expected_label"),
                                             PROSE_KEY("published"),
                                             PROSE_KEY("cells"),
                                             PROSE_KEY("scales"),
                                             PROSE_KEY("title"),
                                             PROSE_KEY("x_label"),
                                             PROSE_KEY("y_label"),
                                             {NULL, "log_x", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL},
                                             {NULL, "log_y", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL},
                                             {NULL, "least_y", ICL_KEY_NUMBER, "0", 0, 0, NULL, NULL},
                                             {0}};

/* Sections with a name, and their keys besides settings. */
typedef struct section_kind {
    const char *word;
    const icl_recipe_key *keys;
    bool has_settings;
    bool has_defaults; /* a section without a name holds what those with one leave out */
} section_kind;

static const section_kind kinds[] = {{"settings", settings_keys, true, false},
                                     {"cell", cell_keys, true, false},
                                     {"eval", eval_keys, true, false},
                                     {"check", check_keys, false, true},
                                     {"figure", figure_keys, false, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns "loss ci" for "check loss ci"; NULL for a section that begins with another word. */
static const char *name_after(const char *section, const char *word) {
    const size_t length = strlen(word);
    return strncmp(section, word, length) == 0 && section[length] == ' ' ? section + length + 1 : NULL;
}

static bool is_scale(const char *word, size_t length) {
    for (icl_scale scale = 0; scale < ICL_SCALES; scale++)
        if (strlen(icl_scale_name(scale)) == length && strncmp(word, icl_scale_name(scale), length) == 0)
            return true;
    return false;
}

/* Returns whether a section holds what those of its kind leave out: [check], [check ci]. */
static bool holds_defaults(const section_kind *kind, const char *section) {
    const char *name = name_after(section, kind->word);
    return kind->has_defaults && (strcmp(section, kind->word) == 0 || (name && is_scale(name, strlen(name))));
}

const char *icl_study_name_in(const char *section, const char *word) {
    const char *name = name_after(section, word);

    for (size_t i = 0; name && i < KINDS; i++)
        if (strcmp(kinds[i].word, word) == 0 && holds_defaults(&kinds[i], section))
            return NULL;
    return name && !strchr(name, ' ') ? name : NULL;
}

const icl_study_section *icl_study_section_find(const icl_study_file *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->sections[i].name, name) == 0)
            return &file->sections[i];
    return NULL;
}

/* Returns the name of the section for a scale, "check loss ci"; NULL if the file has none. */
static const char *section_at(const icl_study_file *file, icl_scale scale, const char *section) {
    const icl_study_section *found = icl_study_section_find(file, ICL_PHRASE("%s %s", section, icl_scale_name(scale)));
    return found ? found->name : NULL;
}

static bool sets(const icl_study_file *file, const char *section, const char *key) {
    const size_t index = section ? icl_recipe_find(file->values, section, key) : file->values->key_count;
    return index < file->values->key_count && strcmp(file->values->values[index].origin, "default") != 0;
}

/* Returns the section that sets the key: that for the scale, or the section itself; NULL if neither does. */
static const char *place_in(const icl_study_file *file, icl_scale scale, const char *section, const char *key) {
    const char *at = section_at(file, scale, section);
    return sets(file, at, key) ? at : sets(file, section, key) ? section : NULL;
}

/* Returns the section whose value of a key counts for a section at a scale: that for the scale, the section itself, or
 * [check] or [figure], which hold what the sections of their kind leave out. The section itself if none has it. */
static const char *deciding_section(const icl_study_file *file, icl_scale scale, const char *section, const char *key) {
    const char *place = place_in(file, scale, section, key);

    for (size_t i = 0; i < KINDS && !place; i++) {
        if (!kinds[i].has_defaults || !icl_study_name_in(section, kinds[i].word))
            continue;
        const char *like = icl_recipe_text(file->values, section, "like");
        const icl_study_section *other =
            like[0] ? icl_study_section_find(file, ICL_PHRASE("%s %s", kinds[i].word, like)) : NULL;
        place = other ? place_in(file, scale, other->name, key) : NULL;
        if (!place)
            place = place_in(file, scale, kinds[i].word, key);
    }
    return place ? place : section;
}

static const char *deciding_text(const icl_study_file *file, icl_scale scale, const char *section, const char *key) {
    return icl_recipe_text(file->values, deciding_section(file, scale, section, key), key);
}

static icl_status add_keys(icl_grid_keys *keys, const char *section_name, const icl_recipe_key *rows,
                           icl_error *error) {
    for (; rows->name; rows++) {
        icl_recipe_key key = *rows;
        key.section = section_name;
        ICL_CHECK(icl_grid_keys_add(keys, &key, error));
    }
    return ICL_OK;
}

/* Adds the keys of the sections with names. Those without settings come first, where they are found soonest. */
static icl_status add_named_keys(icl_study_file *file, const icl_recipe *known, bool has_settings, icl_error *error) {
    for (size_t kind = 0; kind < KINDS; kind++) {
        if (kinds[kind].has_settings != has_settings)
            continue;
        if (kinds[kind].has_defaults)
            ICL_CHECK(add_keys(&file->keys, kinds[kind].word, kinds[kind].keys, error));
        for (size_t i = 0; i < file->count; i++) {
            const char *section = file->sections[i].name;
            if (!name_after(section, kinds[kind].word))
                continue;
            if (!has_settings || icl_study_name_in(section, kinds[kind].word)) /* cells have one recipe at all scales */
                ICL_CHECK(add_keys(&file->keys, section, kinds[kind].keys, error));
            if (has_settings)
                ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, section, error));
        }
    }
    return ICL_OK;
}

static icl_status add_all_keys(icl_study_file *file, const icl_recipe *known, icl_error *error) {
    for (size_t i = 0; i <= ICL_SCALES; i++) {
        ICL_CHECK(add_keys(&file->keys, study_sections[i], i == 0 ? study_keys : scale_keys, error));
        ICL_CHECK(add_keys(&file->keys, cells_sections[i], cells_keys, error));
    }
    ICL_CHECK(add_named_keys(file, known, false, error));
    for (size_t i = 0; i <= ICL_SCALES; i++) {
        ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, set_sections[i], error));
        ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, grid_sections[i], error));
    }
    return add_named_keys(file, known, true, error);
}

/* ---- The expressions of a check or a figure ---- */

/* Writes the positions that a table has: "@5: 0.1, @9: 0.2" gives "5, 9". */
static void list_positions(const char *table, char list[ICL_STUDY_TEXT]) {
    char name[ICL_STUDY_NAME];
    double value;

    list[0] = '\0';
    for (const char *rest = table; rest && icl_study_target_row(&rest, name, &value);) {
        const size_t used = strlen(list);
        snprintf(list + used, ICL_STUDY_TEXT - used, "%s%s", used > 0 ? ", " : "", name + 1);
    }
}

icl_status icl_study_positions(const icl_study_file *file, icl_scale scale, const char *section, icl_list *positions,
                               icl_error *error) {
    const bool is_figure = icl_study_name_in(section, "figure") != NULL;
    const char *text = deciding_text(file, scale, section, "positions"), *key = "positions";
    const char *target = is_figure ? "" : deciding_text(file, scale, section, "target");
    char list[ICL_STUDY_TEXT];
    icl_error reason = {0};

    if (target[0] == '@') {
        key = "target";
        list_positions(target, list);
        text = list;
    }
    const icl_status status = text[0] == '\0' ? ICL_OK : icl_list_parse(text, positions, &reason);
    if (status != ICL_ERROR_INPUT)
        return status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s", reason.message);
    return icl_recipe_reject(file->values, deciding_section(file, scale, section, key), key, error, "%s",
                             reason.message);
}

/* Returns whether the best of a point's seeds is meant. */
static bool chooses_best(const icl_study_file *file, icl_scale scale, const char *section) {
    const char *place = deciding_section(file, scale, section, "seeds");
    return icl_recipe_choice(file->values, place, "seeds") == ICL_STUDY_BEST;
}

/* A listener to the expressions of a check or a figure. */
typedef struct hearing {
    const icl_study_file *file;
    icl_scale scale;
    const char *section;
    icl_study_hear *hear;
    void *user;
} hearing;

static const char *text_heard(const hearing *all, const char *key) {
    return deciding_text(all->file, all->scale, all->section, key);
}

/* Hears an expression at a position, or, if that is NULL, as it is. */
static icl_status hear_at(const hearing *all, const char *key, const char *expression, const char *position,
                          icl_error *error) {
    char value[ICL_STUDY_TEXT];

    if (!position)
        return all->hear(all->user, key, expression, error);
    icl_study_put_position(expression, position, value);
    return all->hear(all->user, key, value, error);
}

/* Hears the expressions in braces of a text. */
static icl_status hear_braced(const hearing *all, const char *key, const char *position, icl_error *error) {
    const char *rest = text_heard(all, key);
    char before[ICL_STUDY_TEXT], value[ICL_STUDY_TEXT];

    while (icl_study_next_braced(&rest, before, value))
        if (strcmp(value, "seed") != 0 && strcmp(value, "seeds") != 0 && strcmp(value, "what") != 0)
            ICL_CHECK(hear_at(all, key, value, position, error));
    return ICL_OK;
}

static icl_status hear_check(const hearing *all, const char *position, icl_error *error) {
    const char *target = text_heard(all, "target");
    icl_study_tolerance tolerance;

    ICL_CHECK(hear_at(all, "number", text_heard(all, "number"), position, error));
    if (icl_study_target_read(target).kind == ICL_TARGET_VALUE)
        ICL_CHECK(hear_at(all, "target", target, position, error));
    if (icl_study_tolerance_read(text_heard(all, "tolerance"), &tolerance) && tolerance.of[0])
        ICL_CHECK(hear_at(all, "tolerance", tolerance.of, position, error));
    ICL_CHECK(hear_braced(all, "what", position, error));
    return hear_braced(all, "note", position, error);
}

static icl_status hear_figure(const hearing *all, const char *position, icl_error *error) {
    const char *rest = text_heard(all, "number"), *expected = text_heard(all, "expected");
    char one[ICL_STUDY_TEXT];

    while (icl_study_next_value(&rest, one))
        ICL_CHECK(hear_at(all, "number", one, position, error));
    return icl_study_target_read(expected).kind == ICL_TARGET_VALUE ? hear_at(all, "expected", expected, NULL, error)
                                                                    : ICL_OK;
}

icl_status icl_study_each_value(const icl_study_file *file, icl_scale scale, const char *section, icl_study_hear *hear,
                                void *user, icl_error *error) {
    const hearing all = {file, scale, section, hear, user};
    const bool is_figure = icl_study_name_in(section, "figure") != NULL;
    icl_list positions = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_positions(file, scale, section, &positions, error));
    if (chooses_best(file, scale, section))
        ICL_TRY(hear(user, "seeds", icl_recipe_text(file->values, "study", "best"), error));
    for (size_t i = 0; i < positions.count || i == 0; i++)
        ICL_TRY((is_figure ? hear_figure : hear_check)(&all, positions.count > 0 ? positions.values[i] : NULL, error));
done:
    icl_list_clear(&positions);
    return status;
}

/* ---- Sections of the text ---- */

static bool is_harmless(const char *name) {
    for (; *name; name++)
        if (*name != '_' && icl_axis_harmless(*name) != *name)
            return false;
    return true;
}

/* Checks a section with a name, or with a name and a scale, whose section for all scales stands above it. */
static icl_status check_named(const icl_study_file *file, const section_kind *kind, const char *section, size_t line,
                              icl_error *error) {
    const char *own = name_after(section, kind->word), *scale = own ? strchr(own, ' ') : NULL;
    char base[ICL_STUDY_NAME];

    if (own && holds_defaults(kind, section))
        scale = own - 1;
    else if (holds_defaults(kind, section))
        return ICL_OK;
    snprintf(base, sizeof base, "%.*s", (int)(scale ? (size_t)(scale - section) : strlen(section)), section);
    own = !own ? "" : scale == own - 1 ? base : base + (own - section);
    if (own[0] == '\0' || !is_harmless(own) || (scale && !is_scale(scale + 1, strlen(scale + 1))))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: [%s]: expected [%s NAME] or [%s NAME ci|short|full], NAME of letters, digits and . + "
                        "- _",
                        file->path, line, section, kind->word, kind->word);
    if (scale && !icl_study_section_find(file, base))
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a section [%s] above it", file->path, line,
                        section, base);
    return ICL_OK;
}

static icl_status check_section(const icl_study_file *file, const char *name, size_t line, icl_error *error) {
    static const char *const words[] = {"study", "set", "grid", "cells", "settings", "cell", "eval", "check", "figure"};
    enum { MOST = 49 }; /* inih cuts the rest off */
    char word[MOST + 1];

    for (size_t i = 0; i <= ICL_SCALES; i++)
        if (strcmp(name, study_sections[i]) == 0 || strcmp(name, set_sections[i]) == 0 ||
            strcmp(name, grid_sections[i]) == 0 || strcmp(name, cells_sections[i]) == 0)
            return ICL_OK;
    if (strlen(name) > MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected at most %d bytes", file->path, line, name,
                        MOST);
    for (size_t kind = 0; kind < KINDS; kind++)
        if (name_after(name, kinds[kind].word) || strcmp(name, kinds[kind].word) == 0)
            return check_named(file, &kinds[kind], name, line, error);
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, " "), name);
    const char *nearest = icl_nearest(word, words, sizeof words / sizeof *words);
    const char *after = strcmp(nearest, word) == 0                                      ? " ci|short|full"
                        : strcmp(nearest, "cells") == 0                                 ? ""
                        : strchr("cef", nearest[0]) || strcmp(nearest, "settings") == 0 ? " NAME"
                                                                                        : "";
    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: unknown section; the nearest known one is [%s%s]",
                    file->path, line, name, nearest, after);
}

static icl_status add_section(icl_study_file *file, const char *text, size_t length, size_t line, icl_error *error) {
    icl_status status = ICL_OK;
    char *name = NULL;

    ICL_TRY(icl_allocate(length + 1, 1, "section", &name, error));
    memcpy(name, text, length);
    ICL_TRY(check_section(file, name, line, error));
    if (icl_study_section_find(file, name))
        goto done;
    ICL_TRY(icl_grow(&file->sections, file->count, &file->capacity, sizeof *file->sections, "sections", error));
    file->sections[file->count++] = (icl_study_section){name, line};
    name = NULL;
done:
    icl_free(&name);
    return status;
}

/* Returns where a value for a scale begins in a text, at " | ci: ", and what it is; NULL if there is none. */
static const char *find_value_at(const char *text, icl_scale *scale, const char **value) {
    for (const char *at = strstr(text, "| "); at; at = strstr(at + 1, "| "))
        for (*scale = ICL_SCALE_CI; *scale < ICL_SCALES; ++*scale) {
            const char *name = icl_scale_name(*scale);
            *value = at + 2 + strlen(name) + 1;
            if (strncmp(at + 2, name, strlen(name)) == 0 && (*value)[-1] == ':')
                return at;
        }
    return NULL;
}

/* Adds the sections for the scales that values of this line are for, [set ci] for one in [set]. */
static icl_status add_sections_at(icl_study_file *file, const char *line, size_t length, const char *in, size_t number,
                                  icl_error *error) {
    const char *value;
    icl_scale scale;

    for (const char *at = find_value_at(line, &scale, &value); at && at < line + length;
         at = find_value_at(value, &scale, &value)) {
        const icl_phrase name = icl_phrase_print("%s %s", in, icl_scale_name(scale));
        ICL_CHECK(add_section(file, name.text, strlen(name.text), number, error));
    }
    return ICL_OK;
}

/* Reads only the names of sections: the reader of recipes reads the rest, with a table of keys made from these
 * names. */
static icl_status read_sections(icl_study_file *file, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    char section[ICL_STUDY_NAME] = "";
    size_t size, line = 1;

    ICL_TRY(icl_file_read(file->path, 0, &text, &size, error));
    for (const char *at = text; *at; line++) {
        const size_t length = strcspn(at, "\r\n");
        if (*at == '[') {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(at + 1, "]\r\n"), at + 1);
            ICL_TRY(add_section(file, at + 1, strcspn(at + 1, "]\r\n"), line, error));
        } else if (*at != ';' && *at != '#') {
            ICL_TRY(add_sections_at(file, at, length, section, line, error));
        }
        at += length;
        at += strncmp(at, "\r\n", 2) == 0 ? 2 : *at != '\0';
    }
done:
    icl_free(&text);
    return status;
}

/* ---- Values ---- */

/* Returns a value of a section that does not depend on the scale. */
static const char *text_in(const icl_study_file *file, const char *section_name, const char *key) {
    return icl_recipe_text(file->values, section_name, key);
}

static icl_status check_scales(const icl_study_file *file, const char *section_name, const char *key,
                               icl_error *error) {
    const char *place = deciding_section(file, ICL_SCALE_CI, section_name, key);

    for (const char *word = text_in(file, place, key); *word;) {
        const size_t length = strcspn(word, ", ");
        if (!is_scale(word, length) && (strcmp(key, "judged") != 0 || strcmp(word, "none") != 0))
            return icl_recipe_reject(file->values, place, key, error, "some of ci, short, full");
        word += length;
        word += strspn(word, ", ");
    }
    return ICL_OK;
}

static icl_status missing(const icl_study_file *file, const icl_study_section *in, const char *key, const char *example,
                          icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a line %s = %s", file->path, in->line, in->name,
                    key, example);
}

/* Returns whether a number in use belongs to [eval NAME]. */
static bool is_evaluated(const icl_study_file *file, const char *name) {
    for (size_t i = 0; i < file->numbers.count; i++) {
        const char *evaluation = icl_study_numbers_evaluation(&file->numbers, i);
        if (strlen(name) == strcspn(evaluation, "@") && strncmp(evaluation, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* A check or a figure that is read, at one scale. */
typedef struct reading {
    icl_study_file *file;
    const icl_study_section *in;
    icl_scale scale;
} reading;

static const char *text_at(const reading *at, const char *key) {
    return deciding_text(at->file, at->scale, at->in->name, key);
}

static const char *place_at(const reading *at, const char *key) {
    return deciding_section(at->file, at->scale, at->in->name, key);
}

/* Checks that an evaluation, "shifted" or "shifted@3", has a section, which tells of a key if there is a value. */
static icl_status check_evaluation(const icl_study_file *file, const char *evaluation, icl_error *error) {
    const int length = (int)strcspn(evaluation, "@");
    const icl_study_section *in = icl_study_section_find(file, ICL_PHRASE("eval %.*s", length, evaluation));

    if (evaluation[0] == '\0')
        return ICL_OK;
    if (!in)
        return icl_fail(error, ICL_ERROR_INPUT, "a section [eval %.*s] with its settings", length, evaluation);
    const char *key = icl_recipe_text(file->values, in->name, "at");
    if (evaluation[length] == '\0' && key[0] != '\0')
        return icl_fail(error, ICL_ERROR_INPUT, "%s@VALUE/, a value of %s, as [%s] is made at", evaluation, key,
                        in->name);
    if (evaluation[length] != '\0' && (key[0] == '\0' || evaluation[length + 1] == '\0'))
        return icl_fail(error, ICL_ERROR_INPUT, "a line at = KEY in [%s], whose value stands behind @", in->name);
    return ICL_OK;
}

/* Returns whether the check or the figure has positions. */
static bool has_positions(const reading *at) {
    return text_at(at, "positions")[0] != '\0' ||
           (icl_study_name_in(at->in->name, "check") && text_at(at, "target")[0] == '@');
}

/* Takes a number, a key of recipes, or the position. */
static icl_status add_number(void *user, const char *cell, const char *name, icl_number *number, icl_error *error) {
    const reading *at = user;
    icl_study_numbers *numbers = &at->file->numbers;

    *number = (icl_number){0, 0};
    if (icl_study_is_key(at->file->known, name) || (!cell && strcmp(name, "position") == 0 && has_positions(at)))
        return ICL_OK;
    ICL_CHECK(icl_study_numbers_add(numbers, name, error));
    return check_evaluation(at->file, icl_study_numbers_evaluation(numbers, icl_study_numbers_find(numbers, name)),
                            error);
}

/* Fails as a read value has, with its place. */
static icl_status refuse(const reading *at, const char *key, icl_status status, const icl_error *reason,
                         icl_error *error) {
    if (status == ICL_ERROR_INPUT)
        return icl_recipe_reject(at->file->values, place_at(at, key), key, error, "%s", reason->message);
    return status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s", reason->message);
}

static icl_status add_value(void *user, const char *key, const char *expression, icl_error *error) {
    icl_error reason = {0};
    icl_number ignored;
    const icl_status status = icl_study_value_read(expression, add_number, user, &ignored, &reason);

    return refuse(user, key, status, &reason, error);
}

/* Checks the rows of a table. */
static icl_status read_table(const reading *at, const char *key, icl_error *error) {
    const char *text = text_at(at, key);
    char cell[ICL_STUDY_NAME];
    double value;

    for (const char *rest = icl_study_target_read(text).kind == ICL_TARGET_TABLE ? text : NULL; rest;)
        if (!icl_study_target_row(&rest, cell, &value))
            return icl_recipe_reject(at->file->values, place_at(at, key), key, error,
                                     "rows CELL: NUMBER or @POSITION: NUMBER between commas");
    return ICL_OK;
}

static icl_status reject_at(const reading *at, const char *key, const char *expected, icl_error *error) {
    return icl_recipe_reject(at->file->values, place_at(at, key), key, error, "%s", expected);
}

static icl_status read_check(reading *at, icl_error *error) {
    const icl_study_file *file = at->file;
    icl_study_tolerance tolerance;

    if (text_at(at, "number")[0] == '\0')
        return missing(file, at->in, "number", "mse", error);
    ICL_CHECK(icl_study_each_value(file, at->scale, at->in->name, add_value, at, error));
    ICL_CHECK(read_table(at, "target", error));
    const icl_target_kind kind = icl_study_target_read(text_at(at, "target")).kind;
    const bool has_evidence =
        icl_recipe_choice(file->values, place_at(at, "evidence"), "evidence") != ICL_EVIDENCE_NONE;
    if (!icl_study_tolerance_read(text_at(at, "tolerance"), &tolerance))
        return reject_at(at, "tolerance", "terms such as 5 % + 0.001 + 4 se, none below 0", error);
    if ((kind == ICL_TARGET_NUMBER || kind == ICL_TARGET_TABLE) && text_at(at, "source")[0] == '\0')
        return reject_at(at, "target", "a line source = ... beside it, which says where that stands", error);
    if (kind != ICL_TARGET_NONE && !has_evidence)
        return reject_at(at, "target", "a line evidence = read, stated, computed, inferred or recalled beside it",
                         error);
    if (kind == ICL_TARGET_NONE && has_evidence)
        return reject_at(at, "evidence", "a line target = ... beside it, or none", error);
    ICL_CHECK(check_scales(file, at->in->name, "judged", error));
    return check_scales(file, at->in->name, "scales", error);
}

static icl_status find_axis(void *user, const char *cell, const char *name, icl_number *number, icl_error *error) {
    const reading *at = user;

    *number = (icl_number){0, 0};
    if (!cell && (strcmp(name, "position") == 0 ? has_positions(at) : icl_study_is_key(at->file->known, name)))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "a key of recipes, such as task.n; or position, beside positions = 0..9");
}

static icl_status read_figure(reading *at, icl_error *error) {
    const char *curves = text_at(at, "curves");
    icl_error reason = {0};
    icl_number ignored;

    if (text_at(at, "number")[0] == '\0')
        return missing(at->file, at->in, "number", "mse", error);
    if (text_at(at, "x")[0] == '\0')
        return missing(at->file, at->in, "x", "task.n", error);
    ICL_CHECK(icl_study_each_value(at->file, at->scale, at->in->name, add_value, at, error));
    ICL_CHECK(read_table(at, "expected", error));
    ICL_CHECK(read_table(at, "published", error));
    ICL_CHECK(read_table(at, "x", error));
    if (icl_study_target_read(text_at(at, "published")).kind == ICL_TARGET_VALUE)
        return reject_at(at, "published", "a number, or rows CELL: NUMBER between commas", error);
    if (icl_study_target_read(text_at(at, "x")).kind != ICL_TARGET_TABLE)
        ICL_CHECK(
            refuse(at, "x", icl_study_value_read(text_at(at, "x"), find_axis, at, &ignored, &reason), &reason, error));
    if (curves[0] != '\0' && !icl_study_is_key(at->file->known, curves))
        return reject_at(at, "curves", "a key of recipes, such as task.n", error);
    return check_scales(at->file, at->in->name, "scales", error);
}

/* Reads a check or a figure as each scale has it. */
static icl_status read_section(icl_study_file *file, const icl_study_section *in, icl_error *error) {
    const bool is_check = icl_study_name_in(in->name, "check"), is_figure = icl_study_name_in(in->name, "figure");

    const char *like = is_check || is_figure ? text_in(file, in->name, "like") : "";

    if (like[0] != '\0' && !icl_study_section_find(file, ICL_PHRASE("%s %s", is_check ? "check" : "figure", like)))
        return icl_recipe_reject(file->values, in->name, "like", error, "the name of a section [%s NAME]",
                                 is_check ? "check" : "figure");
    for (icl_scale scale = ICL_SCALE_CI; (is_check || is_figure) && scale < ICL_SCALES; scale++) {
        reading at = {file, in, scale};
        if (chooses_best(file, scale, in->name) && text_in(file, "study", "best")[0] == '\0')
            return reject_at(&at, "seeds", "a line best = half_adjusted, or another number, in [study]", error);
        ICL_CHECK(is_check ? read_check(&at, error) : read_figure(&at, error));
    }
    const char *key = icl_study_name_in(in->name, "eval") ? text_in(file, in->name, "at") : "";
    if (key[0] != '\0' && !icl_study_is_key(file->known, key))
        return icl_recipe_reject(file->values, in->name, "at", error, "a key of recipes, such as task.n");
    return icl_study_name_in(in->name, "cell") ? check_scales(file, in->name, "scales", error) : ICL_OK;
}

/* Checks that the keys of `seeded` are keys of recipes. */
static icl_status check_seeded(const icl_study_file *file, icl_error *error) {
    const char *rest = text_in(file, "study", "seeded");
    char key[ICL_STUDY_TEXT];

    while (icl_study_next_value(&rest, key))
        if (!icl_study_is_key(file->known, key))
            return icl_recipe_reject(file->values, "study", "seeded", error, "keys of recipes, such as task.pool_seed");
    return ICL_OK;
}

static icl_status read_study(icl_study_file *file, icl_error *error) {
    const icl_study_section *study = icl_study_section_find(file, "study");

    if (!study)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no section [study]: expected it, with claim and recipe",
                        file->path);
    if (text_in(file, "study", "claim")[0] == '\0')
        return missing(file, study, "claim", "one plain sentence, which the study tests", error);
    if (text_in(file, "study", "recipe")[0] == '\0')
        return missing(file, study, "recipe", "NAME, which iclab train finds, or a file beside this one", error);
    ICL_CHECK(check_seeded(file, error));
    for (size_t i = 0; i < file->count; i++)
        ICL_CHECK(read_section(file, &file->sections[i], error));
    for (size_t i = 0; i < file->count; i++) {
        const char *name = icl_study_name_in(file->sections[i].name, "eval");
        if (name && !is_evaluated(file, name))
            return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a check or a figure of a number %s/mse",
                            file->path, file->sections[i].line, file->sections[i].name, name);
    }
    return ICL_OK;
}

/* ---- Life ---- */

/* Sets a value of so many bytes, without blanks around it. */
static icl_status set_part(icl_recipe *values, const char *section, const char *key, const char *text, size_t length,
                           const char *origin, icl_error *error) {
    icl_status status = ICL_OK;
    char *part = NULL;

    while (length > 0 && *text == ' ')
        text++, length--;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    ICL_TRY(icl_duplicate(text, &part, error));
    part[length] = '\0';
    ICL_TRY(icl_recipe_set(values, section, key, part, origin, error));
done:
    icl_free(&part);
    return status;
}

/* Gives values for scales to the sections of these: "3 | ci: 1" is 3 in [set], and 1 in [set ci]; "| ci: 1" is nothing
 * in [set]. */
static icl_status divide_value(icl_recipe *values, size_t index, icl_error *error) {
    const char *section = values->keys[index].section, *key = values->keys[index].name;
    const char *value = NULL, *next_value = NULL;
    icl_status status = ICL_OK;
    char *text = NULL, *origin = NULL;
    icl_scale scale, next_scale;

    if (!find_value_at(values->values[index].text, &scale, &value))
        return ICL_OK;
    ICL_TRY(icl_duplicate(values->values[index].text, &text, error));
    ICL_TRY(icl_duplicate(values->values[index].origin, &origin, error));
    const char *at = find_value_at(text, &scale, &value), *next;
    ICL_TRY(set_part(values, section, key, text, (size_t)(at - text), at > text ? origin : "default", error));
    for (; at; at = next, scale = next_scale, value = next_value) {
        next = find_value_at(value, &next_scale, &next_value);
        ICL_TRY(set_part(values, ICL_PHRASE("%s %s", section, icl_scale_name(scale)), key, value,
                         next ? (size_t)(next - value) : strlen(value), origin, error));
    }
done:
    icl_free(&text);
    icl_free(&origin);
    return status;
}

/* Makes the table of the file's keys, and reads it. */
static icl_status read_values(icl_study_file *file, icl_error *error) {
    ICL_CHECK(icl_recipe_create_complete(&file->known, error));
    ICL_CHECK(add_all_keys(file, file->known, error));
    ICL_CHECK(icl_recipe_create(file->keys.rows, file->keys.count, &file->values, error));
    ICL_CHECK(icl_recipe_load(file->values, file->path, error));
    for (size_t i = 0; i < file->keys.count; i++)
        ICL_CHECK(divide_value(file->values, i, error));
    return ICL_OK;
}

static icl_status read_file(icl_study_file *file, icl_error *error) {
    const char *name = icl_path_name(file->path), *suffix = strrchr(name, '.');

    ICL_CHECK(icl_duplicate(name, &file->name, error));
    if (suffix && suffix > name)
        file->name[suffix - name] = '\0';
    ICL_CHECK(read_sections(file, error));
    ICL_CHECK(read_values(file, error));
    return read_study(file, error);
}

/* Makes the study one of those that are shipped, and gives its paper. */
static icl_status ship(icl_study_file *file, const char **paper, icl_error *error) {
    static const char *const listed[] = {"paper", "about", "source", "cost_ci", "cost_short", "scope"};

    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        if (text_in(file, "study", listed[i])[0] == '\0')
            return missing(file, icl_study_section_find(file, "study"), listed[i], "..., as shipped studies have",
                           error);
    file->reproduction.file = NULL;
    *paper = text_in(file, "study", "paper");
    return ICL_OK;
}

icl_status icl_study_file_load(const char *path, const char **paper, icl_study_file **file, icl_error *error) {
    icl_study_file *loaded = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *loaded, "study", &loaded, error));
    ICL_TRY(icl_duplicate(path, &loaded->path, error));
    ICL_TRY(read_file(loaded, error));
    loaded->reproduction = icl_study_plans;
    loaded->reproduction.judge = icl_study_judges.judge;
    loaded->reproduction.conclude = icl_study_judges.conclude;
    loaded->reproduction.name = loaded->name;
    loaded->reproduction.file = loaded->path;
    ICL_TRY(icl_text_print(&loaded->about, error, "a study of the recipe %s", text_in(loaded, "study", "recipe")));
    const char *about = text_in(loaded, "study", "about");
    loaded->reproduction.about = about[0] ? about : loaded->about.bytes;
    for (icl_scale scale = ICL_SCALE_CI; scale < ICL_SCALES; scale++) {
        const char *cost = text_in(loaded, "study", ICL_PHRASE("cost_%s", icl_scale_name(scale)));
        loaded->reproduction.cost[scale] = cost[0] ? cost : NULL;
    }
    loaded->reproduction.claim = text_in(loaded, "study", "claim");
    const char *scope = text_in(loaded, "study", "scope");
    loaded->reproduction.scope = scope[0] ? scope : NULL;
    loaded->reproduction.source = text_in(loaded, "study", "source");
    if (loaded->reproduction.source[0] == '\0')
        loaded->reproduction.source = icl_path_name(loaded->path);
    loaded->reproduction.numbers = loaded->numbers.count;
    loaded->reproduction.data = loaded;
    if (paper)
        ICL_TRY(ship(loaded, paper, error));
    *file = loaded;
    loaded = NULL;
done:
    icl_study_file_destroy(&loaded);
    return status;
}

void icl_study_file_destroy(icl_study_file **file) {
    icl_study_file *old = *file;

    if (!old)
        return;
    for (size_t i = 0; i < old->count; i++)
        icl_free(&old->sections[i].name);
    icl_free(&old->sections);
    icl_study_numbers_release(&old->numbers);
    icl_recipe_destroy(&old->values);
    icl_recipe_destroy(&old->known);
    icl_grid_keys_release(&old->keys);
    icl_text_release(&old->about);
    icl_free(&old->name);
    icl_free(&old->path);
    icl_free(file);
}

const icl_reproduction *icl_study_file_reproduction(const icl_study_file *file) {
    return &file->reproduction;
}

/* ---- Asked by plans and findings: texts of sections at the study's scale ---- */

const icl_study_file *icl_study_file_of(const icl_study *study) {
    return study->run->reproduction->data;
}

const char *icl_study_text_of(const icl_study *study, const char *section, const char *key) {
    return deciding_text(icl_study_file_of(study), study->scale, section, key);
}

const char *icl_study_place_of(const icl_study *study, const char *section, const char *key) {
    return deciding_section(icl_study_file_of(study), study->scale, section, key);
}

bool icl_study_is_at(const icl_study *study, const char *section, const char *key) {
    const char *list = icl_study_text_of(study, section, key);
    return list[0] == '\0' || strstr(list, icl_scale_name(study->scale));
}

bool icl_study_is_about(const icl_study *study, const char *section, const char *cell) {
    const char *parts = icl_study_text_of(study, section, "cells");
    char part[ICL_STUDY_TEXT];
    bool is_named = parts[0] == '\0';

    while (!is_named && icl_study_next_value(&parts, part))
        is_named = strstr(cell, part) != NULL;
    return is_named && icl_study_is_at(study, section, "scales");
}

/* ---- Where a cell comes from ---- */

const icl_study_cell *icl_study_find_training(const icl_study *study, const char *name, size_t number) {
    for (size_t i = 0; i < study->count; i++)
        if (strcmp(study->cells[i]->name, name) == 0 && number-- == 0)
            return study->cells[i];
    return NULL;
}

const char *icl_study_shared(const icl_study *study, const char *name) {
    const icl_study_section *shared = icl_study_section_find(icl_study_file_of(study), ICL_PHRASE("settings %s", name));
    return shared ? shared->name : NULL;
}

icl_study_origin icl_study_origin_of(const icl_study *study, const char *name) {
    const icl_study_section *own = icl_study_section_find(icl_study_file_of(study), ICL_PHRASE("cell %s", name));
    icl_study_origin origin = {{own ? own->name : NULL, NULL}};

    for (const char *dash = strchr(name, '-'); !origin.sections[1] && dash; dash = strchr(dash + 1, '-')) {
        const char *one = icl_study_shared(study, ICL_PHRASE("%.*s", (int)(dash - name), name));
        const char *other = icl_study_shared(study, dash + 1);
        if (!own && one && other)
            origin = (icl_study_origin){{one, other}};
    }
    return origin;
}

icl_phrase icl_study_join_texts(const icl_study *study, const char *name, const char *key) {
    const icl_study_origin origin = icl_study_origin_of(study, name);
    icl_phrase joined = {""};

    for (size_t i = 0; i < 2 && origin.sections[i]; i++) {
        const char *text = icl_study_text_of(study, origin.sections[i], key);
        joined = icl_phrase_print("%s%s%s", joined.text, joined.text[0] && text[0] ? ", " : "", text);
    }
    return joined;
}
