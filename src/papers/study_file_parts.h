/* The parts of studies as files share these: study_file.c reads, study_file_plan.c plans, study_file_judge.c judges. */
#ifndef ICLAB_PAPERS_STUDY_FILE_PARTS_H
#define ICLAB_PAPERS_STUDY_FILE_PARTS_H

#include "papers/study_file.h"
#include "papers/study_numbers.h"
#include "run/sweep/grid.h"

typedef struct icl_study_section {
    char *name; /* "check loss" */
    size_t line;
} icl_study_section;

struct icl_study_file {
    icl_reproduction reproduction;
    char *path, *name;
    icl_text about;
    icl_study_section *sections; /* [count], each once, as they stand in the file */
    size_t count, capacity;
    icl_grid_keys keys;
    icl_recipe *values;
    icl_study_numbers numbers; /* that checks and figures name */
};

/* "loss" of "check loss"; NULL for a section of another word. */
const char *icl_study_name_in(const char *section, const char *word);

/* ---- Of a study that runs, whose reproduction is such a file ---- */

const icl_study_file *icl_study_file_of(const icl_study *study);
const char *icl_study_text_of(const icl_study *study, const char *section, const char *key);

/* Whether a section with a list of scales is for the study's; and whether a check or a figure is about cells of that
 * name, too. */
bool icl_study_is_at(const icl_study *study, const char *section);
bool icl_study_is_about(const icl_study *study, const char *section, const char *cell);

/* A cell's recipe with the settings of [eval NAME]. */
icl_status icl_study_evaluation_recipe(const icl_study *study, const char *name, const icl_recipe *recipe,
                                       icl_recipe **changed, icl_error *error);

/* The value of a known key, "task.noise"; and the number that it is: the last one of "fixed:0.5". */
const char *icl_study_value(const icl_recipe *recipe, const char *key);
bool icl_study_find_place(const icl_recipe *recipe, const char *key, double *place);

/* The training of that number, from 0, of a point; NULL where it has fewer. */
const icl_study_cell *icl_study_find_training(const icl_study *study, const char *name, size_t number);

void icl_study_file_plan(icl_study *study);

/* The functions of such a reproduction; its data is the file. */
extern const icl_reproduction icl_study_of_file;

#endif
