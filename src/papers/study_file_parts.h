/* Shared by the files that handle studies as files: study_file.c reads them, study_of_file.c plans, study_findings.c
 * judges and draws, and study_numbers.c finds and measures numbers, and reads expressions of them. */
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

/* Adds the number [EVALUATION/][PREDICTOR.]QUANTITY[@POSITION|@FIRST..[LAST]] unless it is already present.
 * ICL_ERROR_INPUT, whose message is only what was expected, if there is no such quantity. Release the table in any
 * case. */
icl_status icl_study_numbers_add(icl_study_numbers *numbers, const char *name, icl_error *error);
void icl_study_numbers_release(icl_study_numbers *numbers);

/* Returns the index of a number that was added. */
size_t icl_study_numbers_find(const icl_study_numbers *numbers, const char *name);

/* Returns the name of the number's evaluation, "shifted" or "shifted@3"; empty: that of its cell's own recipe. */
const char *icl_study_numbers_evaluation(const icl_study_numbers *numbers, size_t number);

/* Checks that the evaluation, by its recipe, gives the number. ICL_ERROR_INPUT, whose message is only what was
 * expected, if it does not. */
icl_status icl_study_numbers_check(const icl_study_numbers *numbers, size_t number, const icl_task *task,
                                   const icl_recipe *recipe, icl_error *error);

/* Evaluates a trained model with the recipe of an evaluation, and fills those numbers of that evaluation that are
 * needed [count]. */
icl_status icl_study_numbers_measure(const icl_study_numbers *numbers, const char *evaluation, const bool *needed,
                                     const icl_recipe *recipe, icl_study *study, const icl_study_cell *cell,
                                     icl_trainer *trained, icl_number *values, icl_error *error);

/* ---- Values: expressions of numbers ---- */

/* The room for a number's or a cell's name, and for an expression. */
enum { ICL_STUDY_NAME = 128, ICL_STUDY_TEXT = 1024 };

/* Gives a number by its name: one of the present point, or, if `cell` is not NULL, of the point of that name.
 * ICL_ERROR_INPUT, whose message is only what was expected. */
typedef icl_status icl_study_term(void *user, const char *cell, const char *name, icl_number *number, icl_error *error);

/* Computes an expression: numbers, [CELL: ]NAME, functions as study_file.h has them of expressions without functions,
 * and + - * / with blanks on both sides, of which * and / bind more. Standard errors are those of independent numbers.
 * ICL_ERROR_INPUT, whose message is only what was expected, if it is not an expression. */
icl_status icl_study_value_read(const char *expression, icl_study_term *take, void *user, icl_number *value,
                                icl_error *error);

/* A key of recipes that is written as "task.n". */
typedef struct icl_study_key {
    char section[ICL_AXIS_NAME];
    const char *name;
} icl_study_key;

icl_study_key icl_study_key_read(const char *dotted);

/* Returns whether a recipe with all keys has this one. */
bool icl_study_is_key(const icl_recipe *recipe, const char *dotted);

/* Reads the number that the recipe has under a key, behind a law's colon if there is one; false if it is none. */
bool icl_study_key_number(const icl_recipe *recipe, const char *dotted, double *number);

/* Reads the next expression of a list with commas; false after the last. */
bool icl_study_next_value(const char **rest, char value[ICL_STUDY_TEXT]);

/* Reads a text up to the next expression in braces, and that; false, with the rest of the text, if there is none. */
bool icl_study_next_braced(const char **rest, char before[ICL_STUDY_TEXT], char value[ICL_STUDY_TEXT]);

/* Writes an expression with a position in the place of the k of each @k, and twice the position for @2k. */
void icl_study_put_position(const char *expression, const char *position, char value[ICL_STUDY_TEXT]);

/* ---- Targets ---- */

typedef enum icl_target_kind {
    ICL_TARGET_NONE = 0,
    ICL_TARGET_NUMBER, /* "0.118" */
    ICL_TARGET_VALUE,  /* "ols.mse", "n-10: mse": an expression */
    ICL_TARGET_TABLE,  /* "n-10: 0.118, @5: 0.08": a number for each point or position named, and for no other */
} icl_target_kind;

typedef struct icl_study_target {
    icl_target_kind kind;
    double value; /* of a number */
} icl_study_target;

icl_study_target icl_study_target_read(const char *text);

/* Reads one row of a table: the cell's name, and its value. Continues from *rest, which is the text at first and NULL
 * after the last row. False if the text is not NAME: NUMBER. */
bool icl_study_target_row(const char **rest, char cell[ICL_STUDY_NAME], double *value);

/* A sum of terms: "5 % + 0.001 + 4 se + 3 % of VALUE". */
typedef struct icl_study_tolerance {
    double relative, absolute, errors, of_share;
    char of[ICL_STUDY_NAME]; /* the value that of_share is of; empty: none */
} icl_study_tolerance;

/* Reads a tolerance; an empty text is 0. False unless every term is 0 or more. */
bool icl_study_tolerance_read(const char *text, icl_study_tolerance *tolerance);

/* ---- A file ---- */

/* A check judges the mean of a point's seeds, each of them, the first, or the best; a figure shows the mean or the
 * best. */
typedef enum icl_study_seeds { ICL_STUDY_MEAN = 0, ICL_STUDY_EACH, ICL_STUDY_FIRST, ICL_STUDY_BEST } icl_study_seeds;

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
    icl_recipe *known; /* has every key of recipes */
    icl_grid_keys keys;
    icl_recipe *values;
    icl_study_numbers numbers; /* numbers that checks and figures name */
};

/* Returns "loss" for "check loss"; NULL for a section that begins with another word, and for that of a scale, "check
 * loss ci". */
const char *icl_study_name_in(const char *section, const char *word);

/* Returns the section of that name; NULL if the file has none. */
const icl_study_section *icl_study_section_find(const icl_study_file *file, const char *name);

/* Reads the positions of a check or a figure, or those of the table that a check has as its target; none for one
 * without. Clear them in any case. */
icl_status icl_study_positions(const icl_study_file *file, icl_scale scale, const char *section, icl_list *positions,
                               icl_error *error);

/* Calls `hear` with every expression of a check or a figure at a scale, at all of its positions, and its key. */
typedef icl_status icl_study_hear(void *user, const char *key, const char *expression, icl_error *error);
icl_status icl_study_each_value(const icl_study_file *file, icl_scale scale, const char *section, icl_study_hear *hear,
                                void *user, icl_error *error);

/* ---- A study of a file, which is its data ---- */

const icl_study_file *icl_study_file_of(const icl_study *study);

/* Returns the value of a key at the scale of the study, and the section that has it. */
const char *icl_study_text_of(const icl_study *study, const char *section, const char *key);
const char *icl_study_place_of(const icl_study *study, const char *section, const char *key);

/* Returns whether a section's list of scales under that key is empty or has the study's, and whether the section is
 * about a cell at this scale. */
bool icl_study_is_at(const icl_study *study, const char *section, const char *key);
bool icl_study_is_about(const icl_study *study, const char *section, const char *cell);

/* Returns training `number` of a point, from 0; NULL if there is none. */
const icl_study_cell *icl_study_find_training(const icl_study *study, const char *name, size_t number);

/* Returns the name of the section [settings NAME]; NULL if there is none. */
const char *icl_study_shared(const icl_study *study, const char *name);

/* The sections that a cell comes from: [cell NAME]; or two [settings A] and [settings B] whose cell is A-B; NULL for a
 * cell of the grid. */
typedef struct icl_study_origin {
    const char *sections[2];
} icl_study_origin;

icl_study_origin icl_study_origin_of(const icl_study *study, const char *name);

/* Returns what the sections of a cell say under a key, joined by commas. */
icl_phrase icl_study_join_texts(const icl_study *study, const char *name, const char *key);

/* The functions of a study from a file: those that plan and measure, and those that judge. */
extern const icl_reproduction icl_study_plans, icl_study_judges;

#endif
