/*
 * Studies: a reproduction as a table of cells, a measure of each, and a judge.
 *
 *     plan      adds cells: a name, a recipe with settings, a seed. It trains nothing and reads no file but recipes, so
 *               that cells, trainings and targets can be listed.
 *     measure   turns one trained cell into numbers. Only this and training take long.
 *     judge     turns the numbers of a point, which is a cell with all its seeds, into findings.
 *     conclude  turns the numbers of all points into findings that compare them, and into figures.
 *
 * The last two are functions of numbers only: the frame calls them with planted numbers when targets are listed. The
 * frame trains, shares trainings with other processes, chooses by --only, and records. Errors are kept in the study, so
 * that plan, judge and conclude return nothing and need not check their calls.
 */
#ifndef ICLAB_PAPERS_STUDY_H
#define ICLAB_PAPERS_STUDY_H

#include "papers/reproduce.h"

enum { ICL_CELL_SETTINGS = 4, ICL_CELL_PLACES = 4 };

/* A number that was measured. NaN: nothing came out. */
struct icl_number {
    double value, standard_error; /* 0: it has none */
};

/* One training, or something that is measured without a training. Plans set the first part; the frame copies its
 * texts. */
struct icl_study_cell {
    const char *name;                        /* cells that differ only in their seed share it, and form one point */
    const char *group;                       /* text that --only reads and --cells lists; NULL: the name */
    const char *recipe;                      /* its name; NULL: there is no training, and `measure` gets no trainer */
    const icl_recipe *base;                  /* in place of `recipe`, with its own settings; copied */
    const char *settings[ICL_CELL_SETTINGS]; /* lists of "section.key=value", separated by blanks; later ones win */
    /* The seed of the training, whose folder is then runs/NAME-seedN. 0: the study's own seed, and the folder is
     * runs/NAME. For all cells the sequences of evaluations come from the study's seed. */
    uint32_t seed;
    const char *folder; /* another name for the run folder in runs/; NULL: as above */
    bool is_outside;    /* the run folder is a sibling of runs/, not inside it */
    bool is_untrained;  /* `measure` gets the model at its start, and there is no run folder */
    bool may_diverge;   /* a training that diverges is not an error: its numbers stay NaN */
    bool is_helper;     /* other cells need it: --only does not choose it, and it is not judged */
    /* A cell of this study that is trained first: `begin` makes this cell's initial parameters from it. */
    const icl_study_cell *begins_with;
    bool has_start;             /* `begin` makes the initial parameters, without another cell */
    bool is_watched;            /* eval.every, train.stop_at and train.stop_after use the study's `watch` */
    size_t at[ICL_CELL_PLACES]; /* its place in the study's grid, in the study's own numbering */
    const char *curve;          /* the curve of figures that it belongs to; NULL: none */
    double x;                   /* its x on that curve */
    const void *data;           /* the study's own constants, which outlive the cell */

    /* ---- Set by the frame ---- */
    const icl_recipe *complete; /* the recipe with all settings; NULL if there is none */
    const icl_number *numbers;  /* [icl_reproduction.numbers]; all NaN before it is measured */
    bool is_wanted;             /* --only selects it, or a selected cell needs it */
    bool is_measured;           /* its numbers are present; false for one that diverged */
    bool has_diverged;
};

/* A study that runs. */
struct icl_study {
    icl_reproducing *run; /* used by measures.h, figures and icl_reproduce_poll */
    icl_scale scale;
    icl_study_cell *const *cells; /* [count], in the order in which they were added */
    size_t count;
    struct icl_study_frame *frame;
};

/* ---- For plans ---- */

/* Adds a cell. Returns the frame's copy of it, which lives as long as the study; NULL after a failure. */
const icl_study_cell *icl_study_add(icl_study *study, const icl_study_cell *cell);

/* As above, with these fields: ICL_ADD_CELL(study, .name = "n20", .recipe = "versatile"). */
#define ICL_ADD_CELL(study, ...) icl_study_add(study, &(icl_study_cell){__VA_ARGS__})

/* Makes a cell need another one, which is then measured before it and whenever it is wanted. */
void icl_study_need(icl_study *study, const icl_study_cell *cell, const icl_study_cell *other);

/* Returns the seed of training `number`, from 0: see icl_reproduce_seed. */
uint32_t icl_study_seed(const icl_study *study, size_t number);

/* ---- For measures and starts ---- */

/* The study owns what the next six functions give until the measure, start or watch that called them returns. The first
 * three allocate zeroed elements, read the parameters of a trainer's model, and read the numbers of a tensor. */
icl_status icl_study_room(const icl_study *study, size_t count, size_t element_size, void *pointer_to_pointer,
                          icl_error *error);
icl_status icl_study_parameters(const icl_study *study, icl_trainer *trainer, float **values, icl_error *error);
icl_status icl_study_read(const icl_study *study, icl_tensor tensor, float **values, icl_error *error);

/* Draws batch number `step` of evaluation sequences; seed 0: the study's. */
icl_status icl_study_batch(const icl_study *study, const icl_task *task, size_t sequences, uint32_t seed, uint64_t step,
                           icl_batch *batch, icl_error *error);

/* Gives a trainer with the last parameters of a training of this study: that of a cell that is needed and finished.
 * ICL_ERROR_DIVERGED as for icl_cell_train. */
icl_status icl_study_trained(icl_study *study, const icl_study_cell *cell, icl_trainer **trainer, icl_error *error);

/* Evaluates a trained model on the cell's task, or on another one: `settings`, "section.key=value" separated by blanks,
 * are added to the cell's own and may not change the model's shape. NULL: none. */
icl_status icl_study_evaluate(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                              const char *settings, icl_evaluation **evaluation, icl_error *error);

/* Gives the trainer the parameters after `step` steps of a cell with train.snapshot_every, which divides them. */
icl_status icl_study_go_to_step(const icl_study *study, const icl_study_cell *cell, uint64_t step, icl_trainer *trainer,
                                icl_error *error);

/* Returns the path of the cell's run folder, freed by the caller. */
icl_status icl_study_folder(const icl_study *study, const icl_study_cell *cell, char **path, icl_error *error);

/* ---- For judges ---- */

/* Returns a number of a point: the mean over seeds with its standard error, or one seed's own. NaN if a seed's is. */
icl_number icl_over_seeds(const icl_study *study, const icl_study_cell *cell, size_t number);

/* Returns the first cell of that name; NULL if there is none. */
const icl_study_cell *icl_study_find(const icl_study *study, const char *name);

/* Judges, reports and records a finding. Without `what` it takes the name of the point that is being judged. */
void icl_study_found(icl_study *study, const icl_finding *finding);

/* As above, for a finding with these fields: ICL_JUDGE(study, .quantity = "step", .ours = step). */
#define ICL_JUDGE(study, ...) icl_study_found(study, &(icl_finding){__VA_ARGS__})

/* The fields of a finding that come from an icl_number. */
#define ICL_OURS(number) .ours = (number).value, .standard_error = (number).standard_error

/* Records a failure of judge or conclude, such as that of a figure; the first one ends the study. */
void icl_study_check(const icl_study *study, icl_status status, const icl_error *error);
bool icl_study_has_failed(const icl_study *study);

/* Calls a function that returns a status and takes an icl_error as its last argument: ICL_STUDY_CALL(study,
 * icl_curves_draw, run, &c). Does nothing after a failure. */
#define ICL_STUDY_CALL(study, function, ...)                                                                           \
    do {                                                                                                               \
        icl_error study_error = {0};                                                                                   \
        if (!icl_study_has_failed(study))                                                                              \
            icl_study_check(study, function(__VA_ARGS__, &study_error), &study_error);                                 \
    } while (0)

/* Adds a value to a curve, as icl_curves_add; only the first theoretical or published value at each place is kept. */
void icl_study_plot(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                    double y);

/* Adds a number with its own standard error, as the only value of its point. */
void icl_study_plot_number(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                           icl_number number);

/* Adds `count` adjacent numbers of a cell, at x [count], or at 0, 1, 2, ... if x is NULL. */
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

/* A check of every point whose name contains `only`. Its tolerance is absolute + relative |target| + errors standard
 * errors of ours. */
typedef struct icl_study_check_row {
    const char *quantity;
    const char *only; /* NULL: all */
    size_t number;    /* index of the point's number that is ours */
    double target;
    double (*expected)(const icl_study *study, const icl_study_cell *cell); /* the target of a point; may be NULL */
    double absolute[ICL_SCALES], relative[ICL_SCALES], errors;
    icl_criterion criterion;
    icl_evidence evidence;
    const char *source, *note; /* each {} of the note is the next number of `beside`, to four digits */
    size_t beside[5];
} icl_study_check_row;

/* A figure of a number against the cells' places: one curve for each curve name, each point the mean over seeds with
 * its standard error, and next to each curve the expected values. */
typedef struct icl_study_figure_row {
    icl_figure figure; /* without series */
    const char *only;  /* text that names of cells must contain; NULL: all cells with a curve */
    const char *curve; /* text that names of curves must contain; NULL: all */
    size_t number;
    double (*expected)(const icl_study *study, const icl_study_cell *cell); /* may be NULL */
    const char *expected_label;                                             /* label, after the curve's name */
} icl_study_figure_row;

/* ---- Definitions: const icl_reproduction icl_NAME = ICL_STUDY(.name = "NAME", .plan = plan, ICL_CHECKS(rows)) ---- */

#define ICL_STUDY(...)    ICL_ROW(__VA_ARGS__)
#define ICL_CHECKS(rows)  .checks = (rows), .check_count = sizeof(rows) / sizeof *(rows)
#define ICL_FIGURES(rows) .figures = (rows), .figure_count = sizeof(rows) / sizeof *(rows)

#endif
