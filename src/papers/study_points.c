/* Studies as files: what plans and findings both ask of a study: texts of sections at its scale, cells that a section
 * is about, and where a cell comes from. */
#include "papers/study_file_parts.h"

#include <string.h>

/* ---- Sections ---- */

const icl_study_file *icl_study_file_of(const icl_study *study) {
    return study->run->reproduction->data;
}

const char *icl_study_text_of(const icl_study *study, const char *section, const char *key) {
    return icl_study_text(icl_study_file_of(study), study->scale, section, key);
}

const char *icl_study_place_of(const icl_study *study, const char *section, const char *key) {
    return icl_study_place(icl_study_file_of(study), study->scale, section, key);
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

/* ---- Cells ---- */

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
