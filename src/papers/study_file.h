/*
 * Studies as files: what `iclab reproduce my-study.ini` runs, for everything that needs no C. Those of tools/studies
 * are shipped, and have names.
 *
 *     [study]
 *     claim = One plain sentence.           ; what the study tests
 *     source = arXiv 2208.01066, figure 2   ; of the whole study; may be left out
 *     recipe = garg                         ; a recipe's name, or a file beside this one
 *     seeds = 3                             ; trainings of each point, whose mean is judged; or train.seed in a grid
 *     seeded = task.pool_seed               ; keys that have the seed of the training, too
 *     best = half_adjusted                  ; the number whose least value makes a training the best of its seeds
 *     paper = Garg et al. 2022, "What ..."  ; of studies that are shipped, with about, cost_ci, cost_short, cost_full
 *     [set]                                 ; the same for all cells, as in sweeps (sweep.h)
 *     train.steps = 2000 | ci: 60           ; 60 at scale ci; "| full: 9000" is of scale full alone
 *     [grid]                                ; cells, named by their values as in sweeps
 *     task.n = 10, 20, 40
 *     [cell delta]                          ; a cell beside or in place of the grid: its settings and, if need be, its
 *     model.mixer = delta                   ; recipe, what = TEXT (how findings call it), scales = short, full,
 *     begins_with = OTHER                   ; a cell above it, whose trained parameters it begins with,
 *     settings = noisy, small               ; sections whose settings it has, too, before its own,
 *     untrained = true                      ; that it is measured as it begins,
 *     curve = delta rules                   ; and the label of its curve in figures
 *     [settings noisy]                      ; settings that cells name; perhaps what, curve and untrained
 *     task.noise = fixed:1
 *     [cells]                               ; cells noisy-small, noisy-large, ...: each of one list by each of the
 *     settings = noisy, exact               ; other, all of which are sections [settings NAME]
 *     by = small, large
 *     [eval shifted]                        ; trained models are evaluated with these settings, too: shifted/mse
 *     task.noise = fixed:3
 *     settings = noisy                      ; as in a cell
 *     [eval noise]                          ; noise@fixed:3/mse is the model's at fixed:3, of the key
 *     at = task.noise                       ; that stands here
 *     [check loss]                          ; a finding for every point in whose name `cells` stands, or one of them
 *     number = mse                          ; a value, see below
 *     target = 0.118                        ; a number, or a value: ols.mse of the same point, or CELL: mse,
 *                                           ; or a table, CELL: 0.118, CELL: 0.08, or @5: 0.7, @9: 0.3 by position
 *     tolerance = 5 % + 0.001 + 4 se        ; of the target, absolute, and standard errors of ours (and the target's);
 *                                           ; once also 3 % of VALUE
 *     criterion = at most                   ; within (default), at most, at least
 *     evidence = read                       ; of a target: read, stated, computed, inferred, recalled
 *     source = table 1                      ; of a target that is a number
 *     what = {what}, seed {seed}            ; its name; default: {what}, the point's
 *     note = least squares {ols.mse}        ; values in braces have four digits, whole ones all; {seeds}: how many
 *     seeds = each                          ; a finding for each seed, or for the first or the best; default: mean
 *     judged = short, full                  ; scales at which there is a verdict, or none; default: all
 *     positions = 1..3                      ; a finding for each position k of a list, at which k stands for it in
 *                                           ; mse@k, mse@2k for twice as much, and `position` is its number;
 *     position = largest                    ; or one finding, where the number is the largest
 *     like = error                          ; another check, which has what this one leaves out
 *     [figure error]                        ; error.svg
 *     number = mse, ols.mse                 ; values, each with a curve
 *     labels = ours, least squares          ; of these
 *     x = task.n                            ; a key whose values are numbers, or a value of such keys: task.n + 1,
 *                                           ; or a table, CELL: 1, CELL: 2
 *     seeds = best                          ; only the best of a point's seeds; default: mean
 *     curves = task.noise                   ; a curve for each value; none: one for each label of cells
 *     expected = ols.mse                    ; drawn next to each curve; written as a target
 *     published = CELL: 0.118, CELL: 0.08   ; the same, for numbers
 *     [figure positions]                    ; number = mse@k, at the positions k of a list, and x = position
 *     positions = 0..49
 *
 * A value is QUANTITY of the model, or PREDICTOR.QUANTITY (PREDICTOR:* has any argument), perhaps @K: only at position
 * K, or @K..L or @K..: the mean from K on; or a key whose values are numbers, task.d. CELL: before it takes that of
 * another point; +, -, * and / stand between blanks. Functions take values without functions: ln(V), exact(V), which is
 * V without its standard error, least(V, W), largest(V, W), and errors(V, W), how many of its standard errors V is from
 * W, or, if
 * W is 0 or less, |V| in units of 1e-6, what rounding leaves. Values of one point are computed for each seed and
 * averaged, others are of the points' means, or of their best seeds.
 *
 * Every section may be followed by ci, short or full, which wins at that scale: [set ci], [check loss ci]; so does a
 * value in a line, as with train.steps above. [check] and [figure] hold what checks and figures leave out. A line that
 * is indented continues the text above it as a new word. Checks also have quantity (default: their name), cells and
 * scales; figures title, x_label, y_label, log_x, log_y, least_y, expected_label, like, cells, scales.
 */
#ifndef ICLAB_PAPERS_STUDY_FILE_H
#define ICLAB_PAPERS_STUDY_FILE_H

#include "papers/reproduce.h"

typedef struct icl_study_file icl_study_file;

/* Reads a study. ICL_ERROR_INPUT names file and line for every error that the text shows; errors that depend on its
 * recipe, such as keys that nothing reads, are found by the plan, before anything is trained. With `paper` the study is
 * one of those that are shipped: it must say what --list shows, and *paper, which lives as long as the file, is set. */
icl_status icl_study_file_load(const char *path, const char **paper, icl_study_file **file, icl_error *error);
void icl_study_file_destroy(icl_study_file **file);

/* Returns the file's reproduction, named as the file without its suffix; it lives as long as the file. */
const icl_reproduction *icl_study_file_reproduction(const icl_study_file *file);

#endif
