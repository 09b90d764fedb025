/* The parts of studies as files share these: study_file.c reads, study_of_file.c plans and judges, study_numbers.c
 * finds and measures numbers. */
#ifndef ICLAB_PAPERS_STUDY_FILE_PARTS_H
#define ICLAB_PAPERS_STUDY_FILE_PARTS_H

#include "iclab/evaluate.h"
#include "papers/study.h"
#include "papers/study_file.h"
#include "run/sweep/grid.h"

/* ---- Numbers by their names: "mse", "ols.half_adjusted", "shifted/accuracy@5"; targets and tolerances ---- */

/* The distinct numbers that a study names; each is measured of every cell. Zero is an empty table. */
typedef struct icl_study_numbers {
    struct icl_study_number *rows; /* [count] */
    size_t count, capacity;
} icl_study_numbers;

/* Adds the number [EVALUATION/][PREDICTOR.]QUANTITY[@POSITION] unless it is there. ICL_ERROR_INPUT, with what was
 * expected alone, where there is no such quantity. Release the table in any case. */
icl_status icl_study_numbers_add(icl_study_numbers *numbers, const char *name, icl_error *error);
void icl_study_numbers_release(icl_study_numbers *numbers);

/* The place of a number that was added. */
size_t icl_study_numbers_find(const icl_study_numbers *numbers, const char *name);

/* The evaluation that a number is of; empty: that of its cell's own recipe. */
const char *icl_study_numbers_evaluation(const icl_study_numbers *numbers, size_t number);

/* Whether the evaluation, by its recipe, gives the number. ICL_ERROR_INPUT, with what was expected alone, where it does
 * not. */
icl_status icl_study_numbers_check(const icl_study_numbers *numbers, size_t number, const icl_task *task,
                                   const icl_recipe *recipe, icl_error *error);

/* Evaluates what was trained by the recipe of an evaluation, and fills the numbers of that. */
icl_status icl_study_numbers_measure(const icl_study_numbers *numbers, const char *evaluation, const icl_recipe *recipe,
                                     icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     icl_number *values, icl_error *error);

/* ---- Targets ---- */

typedef enum icl_target_kind {
    ICL_TARGET_NONE = 0,
    ICL_TARGET_NUMBER, /* "0.118" */
    ICL_TARGET_OWN,    /* "ols.mse": of the same point */
    ICL_TARGET_OTHER,  /* "n-10: mse": of another point */
    ICL_TARGET_TABLE,  /* "n-10: 0.118, n-20: 0.08": numbers of points by their names, and of no others */
} icl_target_kind;

typedef struct icl_study_target {
    icl_target_kind kind;
    double value;
    char cell[128];
    const char *number; /* within the text; NULL where it has none */
} icl_study_target;

icl_study_target icl_study_target_read(const char *text);

/* One row of a table: the cell's name, and its value. Goes on from *rest, which begins as the text and is NULL behind
 * the last row. False for other text than NAME: NUMBER. */
bool icl_study_target_row(const char **rest, char cell[128], double *value);

/* The table's value of a cell; false where it has none. */
bool icl_study_target_of(const char *table, const char *cell, double *value);

/* A sum of terms: "5 % + 0.001 + 4 se". */
typedef struct icl_study_tolerance {
    double relative, absolute, errors;
} icl_study_tolerance;

/* An empty text is 0. False for other text than terms of 0 or more. */
bool icl_study_tolerance_read(const char *text, icl_study_tolerance *tolerance);

/* ---- A file ---- */

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

/* The functions of a study from a file, which is its data. */
extern const icl_reproduction icl_study_of_file;

#endif
