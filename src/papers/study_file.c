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

static const icl_choice criteria[] = {
    {"within", ICL_WITHIN}, {"at most", ICL_AT_MOST}, {"at least", ICL_AT_LEAST}, {0}};
static const icl_choice kinds_of_evidence[] = {{"none", ICL_EVIDENCE_NONE},
                                               {"read", ICL_READ},
                                               {"stated", ICL_STATED},
                                               {"computed", ICL_COMPUTED},
                                               {"inferred", ICL_INFERRED},
                                               {"recalled", ICL_RECALLED},
                                               {0}};

#define TEXT_KEY(name)                                                                                                 \
    { NULL, name, ICL_KEY_TEXT, "", 0, 0, NULL, NULL }

static const icl_recipe_key study_keys[] = {TEXT_KEY("claim"),
                                            TEXT_KEY("source"),
                                            TEXT_KEY("recipe"),
                                            {NULL, "seeds", ICL_KEY_COUNT, "0", 0, 1000, NULL, NULL},
                                            {0}};
static const icl_recipe_key scale_keys[] = {{NULL, "seeds", ICL_KEY_COUNT, "0", 0, 1000, NULL, NULL}, {0}};
static const icl_recipe_key cell_keys[] = {
    TEXT_KEY("what"), TEXT_KEY("recipe"), TEXT_KEY("begins_with"), TEXT_KEY("scales"), {0}};
static const icl_recipe_key eval_keys[] = {{0}};
static const icl_recipe_key check_keys[] = {TEXT_KEY("number"),
                                            TEXT_KEY("quantity"),
                                            TEXT_KEY("cells"),
                                            TEXT_KEY("scales"),
                                            TEXT_KEY("target"),
                                            TEXT_KEY("tolerance"),
                                            {NULL, "criterion", ICL_KEY_WORD, "within", 0, 0, criteria, NULL},
                                            {NULL, "evidence", ICL_KEY_WORD, "none", 0, 0, kinds_of_evidence, NULL},
                                            TEXT_KEY("source"),
                                            TEXT_KEY("note"),
                                            {0}};
static const icl_recipe_key figure_keys[] = {TEXT_KEY("number"),
                                             TEXT_KEY("x"),
                                             TEXT_KEY("curves"),
                                             TEXT_KEY("expected"),
                                             TEXT_KEY("cells"),
                                             TEXT_KEY("scales"),
                                             TEXT_KEY("title"),
                                             TEXT_KEY("x_label"),
                                             TEXT_KEY("y_label"),
                                             {NULL, "log_x", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL},
                                             {NULL, "log_y", ICL_KEY_FLAG, "false", 0, 0, NULL, NULL},
                                             {0}};

/* Sections with a name, and their keys besides settings. */
static const struct {
    const char *word;
    const icl_recipe_key *keys;
    bool has_settings;
} kinds[] = {
    {"cell", cell_keys, true}, {"eval", eval_keys, true}, {"check", check_keys, false}, {"figure", figure_keys, false}};

static icl_status add_keys(icl_grid_keys *keys, const char *section_name, const icl_recipe_key *rows,
                           icl_error *error) {
    for (; rows->name; rows++) {
        icl_recipe_key key = *rows;
        key.section = section_name;
        ICL_CHECK(icl_grid_keys_add(keys, &key, error));
    }
    return ICL_OK;
}

static icl_status add_all_keys(icl_study_file *file, const icl_recipe *known, icl_error *error) {
    for (size_t i = 0; i <= ICL_SCALES; i++) {
        ICL_CHECK(add_keys(&file->keys, study_sections[i], i == 0 ? study_keys : scale_keys, error));
        ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, set_sections[i], error));
        ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, grid_sections[i], error));
    }
    for (size_t i = 0; i < file->count; i++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            if (!icl_study_name_in(file->sections[i].name, kinds[kind].word))
                continue;
            ICL_CHECK(add_keys(&file->keys, file->sections[i].name, kinds[kind].keys, error));
            if (kinds[kind].has_settings)
                ICL_CHECK(icl_grid_keys_add_recipe(&file->keys, known, file->sections[i].name, error));
        }
    return ICL_OK;
}

/* ---- Sections of the text ---- */

static bool is_harmless(const char *name) {
    for (; *name; name++)
        if (*name != '_' && icl_axis_harmless(*name) != *name)
            return false;
    return true;
}

static icl_status check_section(const icl_study_file *file, const char *name, size_t line, icl_error *error) {
    static const char *const words[] = {"study", "set", "grid", "cell", "eval", "check", "figure"};
    enum { MOST = 49 }; /* inih cuts the rest off */
    char word[MOST + 1];

    for (size_t i = 0; i <= ICL_SCALES; i++)
        if (strcmp(name, study_sections[i]) == 0 || strcmp(name, set_sections[i]) == 0 ||
            strcmp(name, grid_sections[i]) == 0)
            return ICL_OK;
    if (strlen(name) > MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected at most %d bytes", file->path, line, name,
                        MOST);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const char *own = icl_study_name_in(name, kinds[kind].word);
        if (own && own[0] && is_harmless(own))
            return ICL_OK;
        if (own || strcmp(name, kinds[kind].word) == 0)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: [%s]: expected [%s NAME], NAME of letters, digits and . + - _", file->path, line,
                            name, kinds[kind].word);
    }
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, " "), name);
    const char *nearest = icl_nearest(word, words, sizeof words / sizeof *words);
    const char *after = strcmp(nearest, word) == 0 ? " ci|short|full" : strchr("cef", nearest[0]) ? " NAME" : "";
    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: unknown section; the nearest known one is [%s%s]",
                    file->path, line, name, nearest, after);
}

static icl_status add_section(icl_study_file *file, const char *text, size_t length, size_t line, icl_error *error) {
    icl_status status = ICL_OK;
    char *name = NULL;

    ICL_TRY(icl_allocate(length + 1, 1, "section", &name, error));
    memcpy(name, text, length);
    ICL_TRY(check_section(file, name, line, error));
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->sections[i].name, name) == 0)
            goto done;
    ICL_TRY(icl_grow(&file->sections, file->count, &file->capacity, sizeof *file->sections, "sections", error));
    file->sections[file->count++] = (icl_study_section){name, line};
    name = NULL;
done:
    icl_free(&name);
    return status;
}

/* Reads only the names of sections: the reader of recipes reads the rest, with a table of keys made from these
 * names. */
static icl_status read_sections(icl_study_file *file, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t size, line = 1;

    ICL_TRY(icl_file_read(file->path, 0, &text, &size, error));
    for (const char *at = text; *at; line++) {
        const size_t length = strcspn(at, "\r\n");
        if (*at == '[')
            ICL_TRY(add_section(file, at + 1, strcspn(at + 1, "]\r\n"), line, error));
        at += length;
        at += strncmp(at, "\r\n", 2) == 0 ? 2 : *at != '\0';
    }
done:
    icl_free(&text);
    return status;
}

/* ---- Values ---- */

/* Returns a value of a section that every file has, perhaps empty: [study], [set], [grid]. */
static const char *text_in(const icl_study_file *file, const char *section_name, const char *key) {
    return icl_recipe_text(file->values, section_name, key);
}

static icl_status check_scales(const icl_study_file *file, const char *section_name, icl_error *error) {
    const char *list = text_in(file, section_name, "scales");

    for (const char *word = list; *word;) {
        const size_t length = strcspn(word, ", ");
        bool found = false;
        for (icl_scale scale = 0; scale < ICL_SCALES; scale++)
            found = found || (strlen(icl_scale_name(scale)) == length && !strncmp(word, icl_scale_name(scale), length));
        if (!found)
            return icl_recipe_reject(file->values, section_name, "scales", error, "some of ci, short, full");
        word += length;
        word += strspn(word, ", ");
    }
    return ICL_OK;
}

static icl_status require(const icl_study_file *file, const icl_study_section *in, const char *key, const char *example,
                          icl_error *error) {
    if (text_in(file, in->name, key)[0] != '\0')
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a line %s = %s", file->path, in->line, in->name,
                    key, example);
}

/* Returns whether a number in use belongs to [eval NAME]. */
static bool is_evaluated(const icl_study_file *file, const char *name) {
    for (size_t i = 0; i < file->numbers.count; i++)
        if (strcmp(icl_study_numbers_evaluation(&file->numbers, i), name) == 0)
            return true;
    return false;
}

static icl_status add_number(icl_study_file *file, const char *section_name, const char *key, const char *name,
                             icl_error *error) {
    icl_error reason = {0};
    const icl_status status = icl_study_numbers_add(&file->numbers, name, &reason);

    if (status == ICL_ERROR_INPUT)
        return icl_recipe_reject(file->values, section_name, key, error, "%s", reason.message);
    if (status != ICL_OK)
        return icl_fail(error, status, "%s", reason.message);
    const size_t number = icl_study_numbers_find(&file->numbers, name);
    const char *evaluation = icl_study_numbers_evaluation(&file->numbers, number);
    for (size_t i = 0; i < file->count; i++) {
        const char *own = icl_study_name_in(file->sections[i].name, "eval");
        if (own && strcmp(own, evaluation) == 0)
            return ICL_OK;
    }
    return evaluation[0] == '\0' ? ICL_OK
                                 : icl_recipe_reject(file->values, section_name, key, error,
                                                     "a section [eval %s] with its settings", evaluation);
}

/* Reads a key whose value has the form of a target. */
static icl_status read_target(icl_study_file *file, const char *section_name, const char *key, icl_error *error) {
    const char *text = text_in(file, section_name, key);
    const icl_study_target target = icl_study_target_read(text);
    char cell[128];
    double value;

    for (const char *rest = target.kind == ICL_TARGET_TABLE ? text : NULL; rest;)
        if (!icl_study_target_row(&rest, cell, &value))
            return icl_recipe_reject(file->values, section_name, key, error, "rows CELL: NUMBER between commas");
    return target.number ? add_number(file, section_name, key, target.number, error) : ICL_OK;
}

static icl_status read_check(icl_study_file *file, const icl_study_section *in, icl_error *error) {
    const icl_study_target target = icl_study_target_read(text_in(file, in->name, "target"));
    const bool has_evidence = icl_recipe_choice(file->values, in->name, "evidence") != ICL_EVIDENCE_NONE;
    icl_study_tolerance tolerance;

    ICL_CHECK(require(file, in, "number", "mse", error));
    ICL_CHECK(add_number(file, in->name, "number", text_in(file, in->name, "number"), error));
    ICL_CHECK(read_target(file, in->name, "target", error));
    if (!icl_study_tolerance_read(text_in(file, in->name, "tolerance"), &tolerance))
        return icl_recipe_reject(file->values, in->name, "tolerance", error,
                                 "terms such as 5 %% + 0.001 + 4 se, none below 0");
    if ((target.kind == ICL_TARGET_NUMBER || target.kind == ICL_TARGET_TABLE) &&
        text_in(file, in->name, "source")[0] == '\0')
        return icl_recipe_reject(file->values, in->name, "target", error,
                                 "a line source = ... beside it, which says where that stands");
    if (target.kind != ICL_TARGET_NONE && !has_evidence)
        return icl_recipe_reject(file->values, in->name, "target", error,
                                 "a line evidence = read, stated, computed, inferred or recalled beside it");
    if (target.kind == ICL_TARGET_NONE && has_evidence)
        return icl_recipe_reject(file->values, in->name, "evidence", error, "a line target = ... beside it, or none");
    return check_scales(file, in->name, error);
}

static const icl_recipe_key *find_key(const char *dotted) {
    const icl_recipe_key *known;
    char name[ICL_AXIS_NAME];

    for (size_t i = 0; (known = icl_recipe_known_key(i)); i++) {
        snprintf(name, sizeof name, "%s.%s", known->section, known->name);
        if (strcmp(name, dotted) == 0)
            return known;
    }
    return NULL;
}

static icl_status read_figure(icl_study_file *file, const icl_study_section *in, icl_error *error) {
    static const char *const axes[] = {"x", "curves"};

    ICL_CHECK(require(file, in, "number", "mse", error));
    ICL_CHECK(require(file, in, "x", "task.n", error));
    ICL_CHECK(add_number(file, in->name, "number", text_in(file, in->name, "number"), error));
    ICL_CHECK(read_target(file, in->name, "expected", error));
    for (size_t i = 0; i < 2; i++)
        if (text_in(file, in->name, axes[i])[0] != '\0' && !find_key(text_in(file, in->name, axes[i])))
            return icl_recipe_reject(file->values, in->name, axes[i], error, "a key of recipes, such as task.n");
    return check_scales(file, in->name, error);
}

static icl_status read_study(icl_study_file *file, icl_error *error) {
    const icl_study_section *study = NULL;

    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->sections[i].name, "study") == 0)
            study = &file->sections[i];
    if (!study)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no section [study]: expected it, with claim and recipe",
                        file->path);
    ICL_CHECK(require(file, study, "claim", "one plain sentence, which the study tests", error));
    ICL_CHECK(require(file, study, "recipe", "NAME, which iclab train finds, or a file beside this one", error));
    for (size_t i = 0; i < file->count; i++) {
        const icl_study_section *in = &file->sections[i];
        if (icl_study_name_in(in->name, "cell"))
            ICL_CHECK(check_scales(file, in->name, error));
        if (icl_study_name_in(in->name, "figure"))
            ICL_CHECK(read_figure(file, in, error));
        if (icl_study_name_in(in->name, "check"))
            ICL_CHECK(read_check(file, in, error));
    }
    for (size_t i = 0; i < file->count; i++) {
        const char *name = icl_study_name_in(file->sections[i].name, "eval");
        if (name && !is_evaluated(file, name))
            return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a check or a figure of a number %s/mse",
                            file->path, file->sections[i].line, file->sections[i].name, name);
    }
    return ICL_OK;
}

/* ---- Life ---- */

/* Makes the table of the file's keys, and reads it. */
static icl_status read_values(icl_study_file *file, icl_error *error) {
    icl_recipe *known = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&known, error));
    ICL_TRY(add_all_keys(file, known, error));
    ICL_TRY(icl_recipe_create(file->keys.rows, file->keys.count, &file->values, error));
    ICL_TRY(icl_recipe_load(file->values, file->path, error));
done:
    icl_recipe_destroy(&known);
    return status;
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

icl_status icl_study_file_load(const char *path, icl_study_file **file, icl_error *error) {
    icl_study_file *loaded = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *loaded, "study", &loaded, error));
    ICL_TRY(icl_duplicate(path, &loaded->path, error));
    ICL_TRY(read_file(loaded, error));
    loaded->reproduction = icl_study_of_file;
    loaded->reproduction.name = loaded->name;
    loaded->reproduction.file = loaded->path;
    ICL_TRY(icl_text_print(&loaded->about, error, "a study of the recipe %s", text_in(loaded, "study", "recipe")));
    loaded->reproduction.about = loaded->about.bytes;
    loaded->reproduction.claim = text_in(loaded, "study", "claim");
    loaded->reproduction.source = text_in(loaded, "study", "source");
    if (loaded->reproduction.source[0] == '\0')
        loaded->reproduction.source = icl_path_name(loaded->path);
    loaded->reproduction.numbers = loaded->numbers.count;
    loaded->reproduction.data = loaded;
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
    icl_grid_keys_release(&old->keys);
    icl_text_release(&old->about);
    icl_free(&old->name);
    icl_free(&old->path);
    icl_free(file);
}

const icl_reproduction *icl_study_file_reproduction(const icl_study_file *file) {
    return &file->reproduction;
}
