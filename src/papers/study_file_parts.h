/* Shared by the files that handle studies as files: study_file.c reads them, study_of_file.c plans and judges,
 * study_numbers.c finds and measures numbers. */
#ifndef ICLAB_PAPERS_STUDY_FILE_PARTS_H
#define ICLAB_PAPERS_STUDY_FILE_PARTS_H

#include "iclab/evaluate.h"
#include "papers/study.h"
#include "papers/study_file.h"
#include "run/sweep/grid.h"

/* ---- Numbers by their names: "mse", "ols.half_adjusted", "shifted/accuracy@5"; targets and tolerances ---- */

/* The distinct numbers that a study names; each is measured in every cell. Zero is an empty table. */
typedef struct icl_study_numbers {
    struct icl_study_number *rows; /* [count] */
    size_t count, capacity;
} icl_study_numbers;

/* Adds the number [EVALUATION/][PREDICTOR.]QUANTITY[@POSITION] unless it is already present. ICL_ERROR_INPUT, whose
 * message is only what was expected, if there is no such quantity. Release the table in any case. */
icl_status icl_study_numbers_add(icl_study_numbers *numbers, const char *name, icl_error *error);
void icl_study_numbers_release(icl_study_numbers *numbers);

/* Returns the index of a number that was added. */
size_t icl_study_numbers_find(const icl_study_numbers *numbers, const char *name);

/* Returns the name of the number's evaluation; empty: that of its cell's own recipe. */
const char *icl_study_numbers_evaluation(const icl_study_numbers *numbers, size_t number);

/* Checks that the evaluation, by its recipe, gives the number. ICL_ERROR_INPUT, whose message is only what was
 * expected, if it does not. */
icl_status icl_study_numbers_check(const icl_study_numbers *numbers, size_t number, const icl_task *task,
                                   const icl_recipe *recipe, icl_error *error);

/* Evaluates a trained model with the recipe of an evaluation, and fills the numbers of that evaluation. */
icl_status icl_study_numbers_measure(const icl_study_numbers *numbers, const char *evaluation, const icl_recipe *recipe,
                                     icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     icl_number *values, icl_error *error);

/* ---- Targets ---- */

typedef enum icl_target_kind {
    ICL_TARGET_NONE = 0,
    ICL_TARGET_NUMBER, /* "0.118" */
    ICL_TARGET_OWN,    /* "ols.mse": a number of the same point */
    ICL_TARGET_OTHER,  /* "n-10: mse": a number of another point */
    ICL_TARGET_TABLE,  /* "n-10: 0.118, n-20: 0.08": a number for each point named, and for no other */
} icl_target_kind;

typedef struct icl_study_target {
    icl_target_kind kind;
    double value;
    char cell[128];
    const char *number; /* points into the text; NULL if it has none */
} icl_study_target;

icl_study_target icl_study_target_read(const char *text);

/* Reads one row of a table: the cell's name, and its value. Continues from *rest, which is the text at first and NULL
 * after the last row. False if the text is not NAME: NUMBER. */
bool icl_study_target_row(const char **rest, char cell[128], double *value);

/* Finds the table's value for a cell; false if it has none. */
bool icl_study_target_of(const char *table, const char *cell, double *value);

/* A sum of terms: "5 % + 0.001 + 4 se". */
typedef struct icl_study_tolerance {
    double relative, absolute, errors;
} icl_study_tolerance;

/* Reads a tolerance; an empty text is 0. False unless every term is 0 or more. */
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
    icl_study_section *sections; /* [count], each once, in the order of the file */
    size_t count, capacity;
    icl_grid_keys keys;
    icl_recipe *values;
    icl_study_numbers numbers; /* numbers that checks and figures name */
};

/* Returns "loss" for "check loss"; NULL for a section that begins with another word. */
const char *icl_study_name_in(const char *section, const char *word);

/* The functions of a study from a file; the file is its data. */
extern const icl_reproduction icl_study_of_file;

#endif
