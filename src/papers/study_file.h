/*
 * Studies as files: what `iclab reproduce my-study.ini` runs, for everything that needs no C.
 *
 *     [study]
 *     claim = One plain sentence.           ; what the study tests
 *     source = arXiv 2208.01066, figure 2   ; of the whole study; may be left out
 *     recipe = garg                         ; a recipe's name, or a file beside this one
 *     seeds = 3                             ; trainings of each point, whose mean is judged; or train.seed in a grid
 *     [set]                                 ; the same for all cells, as in sweeps (sweep.h)
 *     train.steps = 2000
 *     [grid]                                ; cells, named by their values as in sweeps
 *     task.n = 10, 20, 40
 *     [cell delta]                          ; a cell beside or in place of the grid: its settings and, if need be, its
 *     model.mixer = delta                   ; recipe, what = TEXT (how findings call it), scales = short, full, and
 *     begins_with = OTHER                   ; a cell above it, whose trained parameters it begins with
 *     [eval shifted]                        ; trained models are evaluated with these settings, too: shifted/mse
 *     task.noise = fixed:3
 *     [check loss]                          ; a finding for every point in whose name `cells` stands
 *     number = mse                          ; QUANTITY of the model, or PREDICTOR.QUANTITY; @K: only at position K
 *     target = 0.118                        ; a number, or ols.mse of the same point, or CELL: mse,
 *                                           ; or a table, CELL: 0.118, CELL: 0.08
 *     tolerance = 5 % + 0.001 + 4 se        ; of the target, absolute, and standard errors of ours (and the target's)
 *     criterion = at most                   ; within (default), at most, at least
 *     evidence = read                       ; of a target: read, stated, computed, inferred, recalled
 *     source = table 1                      ; of a target that is a number
 *     [figure error]                        ; error.svg
 *     number = mse
 *     x = task.n                            ; a key whose values are numbers
 *     curves = task.noise                   ; a curve for each value; none: one curve
 *     expected = ols.mse                    ; drawn next to each curve; written as a target
 *
 * [study], [set] and [grid] may be followed by ci, short or full, which win at that scale: [set ci]. Checks also have
 * quantity (default: their name), note, cells and scales; figures title, x_label, y_label, log_x, log_y, cells, scales.
 */
#ifndef ICLAB_PAPERS_STUDY_FILE_H
#define ICLAB_PAPERS_STUDY_FILE_H

#include "papers/reproduce.h"

typedef struct icl_study_file icl_study_file;

/* Reads a study. ICL_ERROR_INPUT names file and line for every error that the text shows; errors that depend on its
 * recipe, such as keys that nothing reads, are found by the plan, before anything is trained. */
icl_status icl_study_file_load(const char *path, icl_study_file **file, icl_error *error);
void icl_study_file_destroy(icl_study_file **file);

/* Returns the file's reproduction, named as the file without its suffix; it lives as long as the file. */
const icl_reproduction *icl_study_file_reproduction(const icl_study_file *file);

#endif
