/*
 * Studies: a reproduction as a table of cells, a measure of each, and a judge.
 *
 *     plan      adds cells: a name, a recipe with settings, a seed. It trains nothing and reads no file but recipes, so
 *               that cells, trainings and targets can be listed.
 *     measure   turns one trained cell into numbers. It is all that takes long, beside training.
 *     judge     turns the numbers of a point, which is a cell with all its seeds, into findings.
 *     conclude  turns the numbers of all points into findings that compare them, and into figures.
 *
 * The last two are functions of numbers alone: the frame calls them with planted numbers where targets are listed. The
 * frame trains, shares trainings with other processes, chooses by --only, and records. Errors stick in the study, so
 * that plan, judge and conclude return nothing and call on.
 */
#ifndef ICLAB_PAPERS_STUDY_H
#define ICLAB_PAPERS_STUDY_H

#include "papers/curves.h"
#include "papers/reproduce.h"

enum { ICL_CELL_SETTINGS = 4, ICL_CELL_PLACES = 4 };

/* A number that was measured. NaN: nothing came out. */
struct icl_number {
    double value, standard_error; /* 0: it has none */
};

/* One training, or something that is measured without one. Plans set the first part; the frame copies its texts. */
struct icl_study_cell {
    const char *name;       /* cells that differ in their seed alone share it, and are one point */
    const char *group;      /* what --only reads and --cells lists; NULL: the name */
    const char *recipe;     /* by name; NULL: there is no training, and `measure` is given no trainer */
    const icl_recipe *base; /* in place of `recipe`, with settings of its own; copied */
    const char *settings[ICL_CELL_SETTINGS]; /* lists of "section.key=value", separated by blanks; later ones win */
    /* The seed of the training, whose folder is then runs/NAME-seedN. 0: the study's own, and the folder is runs/NAME.
     * Sequences of evaluations are those of the study's seed for all cells. */
    uint32_t seed;
    const char *folder; /* another name of the run folder below runs/; NULL: as above */
    bool is_outside;    /* the run folder stands beside runs/, not below it */
    bool is_untrained;  /* `measure` is given the model as it begins, and there is no run folder */
    bool may_diverge;   /* a training that diverges is not an error: its numbers stay NaN */
    bool is_helper;     /* others need it: --only does not choose it, and it is not judged */
    /* A cell of this study that is trained before: `begin` makes this one's initial parameters of it. */
    const icl_study_cell *begins_with;
    bool has_start;             /* `begin` makes initial parameters of nothing else */
    bool is_watched;            /* eval.every, train.stop_at and train.stop_after go by the study's `watch` */
    size_t at[ICL_CELL_PLACES]; /* where it stands in the study's grid, as the study numbers it */
    const char *curve;          /* the curve of figures that it belongs to; NULL: none */
    double x;                   /* its place on that curve */
    const void *data;           /* constants of the study's own, which outlive it */

    /* ---- Set by the frame ---- */
    const icl_recipe *complete; /* the recipe with all settings; NULL without one */
    const icl_number *numbers;  /* [icl_reproduction.numbers]; all NaN before it is measured */
    bool is_wanted;             /* --only leaves it, or what it leaves needs this one */
    bool is_measured;           /* its numbers are there; false for one that diverged */
    bool has_diverged;
};

/* A study that runs. */
struct icl_study {
    icl_reproducing *run; /* for functions of measures.h, figures, and icl_reproduce_poll */
    icl_scale scale;
    icl_study_cell *const *cells; /* [count], in the order in which they were added */
    size_t count;
    struct icl_study_frame *frame;
};

/* ---- For plans ---- */

/* Adds a cell. Returns the frame's copy of it, which lives as long as the study; NULL once something failed. */
const icl_study_cell *icl_study_add(icl_study *study, const icl_study_cell *cell);

/* The same with these fields: ICL_ADD_CELL(study, .name = "n20", .recipe = "versatile"). */
#define ICL_ADD_CELL(study, ...) icl_study_add(study, &(icl_study_cell){__VA_ARGS__})

/* The cell is measured only after the other one, which it needs; the other one is measured wherever it is wanted. */
void icl_study_need(icl_study *study, const icl_study_cell *cell, const icl_study_cell *other);

/* The seed of training `number`, from 0: see icl_reproduce_seed. */
uint32_t icl_study_seed(const icl_study *study, size_t number);

/* ---- For measures and starts ---- */

/* The study owns what these six give until the measure, start or watch that asked returns. They give room for elements,
 * which are zero; the parameters of a trainer's model; the numbers of a tensor. */
icl_status icl_study_room(const icl_study *study, size_t count, size_t element_size, void *pointer_to_pointer,
                          icl_error *error);
icl_status icl_study_parameters(const icl_study *study, icl_trainer *trainer, float **values, icl_error *error);
icl_status icl_study_read(const icl_study *study, icl_tensor tensor, float **values, icl_error *error);

/* Batch number `step` of so many evaluation sequences; seed 0: the study's. */
icl_status icl_study_batch(const icl_study *study, const icl_task *task, size_t sequences, uint32_t seed, uint64_t step,
                           icl_batch *batch, icl_error *error);

/* A training of this study: the trainer has the parameters of the last step. The training is that of a cell that is
 * needed, and finished. ICL_ERROR_DIVERGED as icl_cell_train. */
icl_status icl_study_trained(icl_study *study, const icl_study_cell *cell, icl_trainer **trainer, icl_error *error);

/* Evaluates what was trained: on the cell's task, or on another, by `settings` beside its own that leave the model's
 * shape as it is, "section.key=value" separated by blanks. NULL: none. */
icl_status icl_study_evaluate(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                              const char *settings, icl_evaluation **evaluation, icl_error *error);

/* Gives the trainer the parameters after `step` steps of a cell with train.snapshot_every, which divides them. */
icl_status icl_study_go_to_step(const icl_study *study, const icl_study_cell *cell, uint64_t step, icl_trainer *trainer,
                                icl_error *error);

/* The path of the cell's run folder, freed by the caller. */
icl_status icl_study_folder(const icl_study *study, const icl_study_cell *cell, char **path, icl_error *error);

/* ---- For judges ---- */

/* A number of a point: the mean over its seeds and the standard error of that; of one seed its own. NaN where a seed is
 * NaN or not measured. */
icl_number icl_over_seeds(const icl_study *study, const icl_study_cell *cell, size_t number);

/* The first cell of that name; NULL where there is none. */
const icl_study_cell *icl_study_find(const icl_study *study, const char *name);

/* Judges, reports and records a finding. Without `what` it is about the point that is judged, by its name. */
void icl_study_found(icl_study *study, const icl_finding *finding);

/* The same for a finding with these fields: ICL_JUDGE(study, .quantity = "step", .ours = step). */
#define ICL_JUDGE(study, ...) icl_study_found(study, &(icl_finding){__VA_ARGS__})

/* A finding's fields that are those of a number. */
#define ICL_OURS(number) .ours = (number).value, .standard_error = (number).standard_error

/* Keeps a failure of judge or conclude, such as that of a figure; the first one ends the study. */
void icl_study_check(const icl_study *study, icl_status status, const icl_error *error);
bool icl_study_has_failed(const icl_study *study);

/* Calls a function that returns a status and takes an icl_error last: ICL_STUDY_CALL(study, icl_curves_draw, run, &c).
 * Does nothing once something failed. */
#define ICL_STUDY_CALL(study, function, ...)                                                                           \
    do {                                                                                                               \
        icl_error study_error = {0};                                                                                   \
        if (!icl_study_has_failed(study))                                                                              \
            icl_study_check(study, function(__VA_ARGS__, &study_error), &study_error);                                 \
    } while (0)

/* Adds a value to a curve, as icl_curves_add; of theory and of what is published the first at a place. */
void icl_study_plot(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                    double y);

/* Adds a number with its own standard error, the one value of its point. */
void icl_study_plot_number(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                           icl_number number);

/* Adds numbers that lie side by side in a cell: `count` of them, at x [count], or at 0, 1, 2, ... where x is NULL. */
void icl_study_plot_numbers(icl_study *study, icl_curves *curves, const char *label, icl_series_style style,
                            const double *x, const icl_number *numbers, size_t count);

/* Draws the curves unless they are empty, as icl_curves_draw, and releases them. */
void icl_study_draw(icl_study *study, icl_curves *curves);

/* Draws a figure, or heat maps, with these fields: ICL_STUDY_MAPS(study, .name = "weights", .maps = maps). */
#define ICL_STUDY_FIGURE(study, ...)                                                                                   \
    ICL_STUDY_CALL(study, icl_reproduce_figure, (study)->run, &(icl_figure){__VA_ARGS__})
#define ICL_STUDY_MAPS(study, ...)                                                                                     \
    ICL_STUDY_CALL(study, icl_reproduce_heat_maps, (study)->run, &(icl_heat_figure){__VA_ARGS__})

/* ---- Rows: checks and figures that need no function, as ICL_ROW(.quantity = "step", .number = STEP) ---- */

#define ICL_ROW(...)                                                                                                   \
    { __VA_ARGS__ }

/* A check of every point in whose name `only` stands. Its tolerance is
 * absolute + relative |target| + errors standard errors of ours. */
typedef struct icl_study_check_row {
    const char *quantity;
    const char *only; /* NULL: all */
    size_t number;    /* of a point: ours */
    double target;
    double (*expected)(const icl_study *study, const icl_study_cell *cell); /* the target of a point; may be NULL */
    double absolute[ICL_SCALES], relative[ICL_SCALES], errors;
    icl_criterion criterion;
    icl_evidence evidence;
    const char *source, *note; /* each {} of the note is the next number of `beside`, to four digits */
    size_t beside[5];
} icl_study_check_row;

/* A figure of a number against the cells' places: a curve for each name of a curve, each point the mean over seeds with
 * its standard error, and beside each curve what is expected. */
typedef struct icl_study_figure_row {
    icl_figure figure; /* without series */
    const char *only;  /* names of cells in which this stands; NULL: all with a curve */
    const char *curve; /* names of curves in which this stands; NULL: all */
    size_t number;
    double (*expected)(const icl_study *study, const icl_study_cell *cell); /* may be NULL */
    const char *expected_label;                                             /* behind the curve's name */
} icl_study_figure_row;

/* ---- Definitions: const icl_reproduction icl_NAME = ICL_STUDY(.name = "NAME", .plan = plan, ICL_CHECKS(rows)) ---- */

#define ICL_STUDY(...)    ICL_ROW(__VA_ARGS__)
#define ICL_CHECKS(rows)  .checks = (rows), .check_count = sizeof(rows) / sizeof *(rows)
#define ICL_FIGURES(rows) .figures = (rows), .figure_count = sizeof(rows) / sizeof *(rows)

#endif
