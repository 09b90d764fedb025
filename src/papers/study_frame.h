/* Shared by the files of the frame: study.c, study_run.c and study_of_file.c. */
#ifndef ICLAB_PAPERS_STUDY_FRAME_H
#define ICLAB_PAPERS_STUDY_FRAME_H

#include "papers/study.h"

/* One object that a measure, a start or a watch holds until it returns; only one field is not zero. */
typedef struct icl_study_held {
    void *memory;
    icl_trainer *trainer;
    icl_evaluation *evaluation;
    icl_batch batch;
} icl_study_held;

typedef struct icl_study_frame {
    icl_status status; /* the first failure */
    icl_error error;
    icl_study_cell **cells; /* [capacity], each the first member of a kept_cell */
    size_t capacity;
    icl_number *nothing;  /* [numbers] of NaN, for cells that are not measured */
    double *scratch;      /* [cells] room for a number of each of a point's seeds */
    icl_study_held *held; /* [held_count] */
    size_t held_count, held_capacity;
    const icl_study_cell *judged; /* the point that findings without a name belong to */
    bool has_missed_across;       /* a finding that compares points is missed */
} icl_study_frame;

/* A cell together with what it owns. */
typedef struct kept_cell {
    icl_study_cell cell;
    char *name, *group, *curve, *folder;
    icl_recipe *recipe;
    icl_number *numbers; /* NULL before it is measured */
    struct kept_cell **needs;
    size_t need_count, need_capacity;
    bool is_chosen, is_trained; /* it is judged; it is trained, for itself or for other cells */
    bool has_missed;            /* a finding of its point, or of a point that needs it, is missed */
} kept_cell;

/* Returns whether the cell is trained or measured, for itself or for others. */
bool icl_study_trains(const icl_study *study, const kept_cell *kept);

/* The first judges the point of the cell with this number, if the cell is the point's last one; the second judges and
 * draws across points. */
void icl_study_judge_point(icl_study *study, size_t index);
void icl_study_conclude(icl_study *study);

/* Returns the first failure of a plan, a judge or a conclusion. */
icl_status icl_study_end(const icl_study *study, icl_error *error);

/* Plans the study of run->reproduction, and closes it, which is needed even after a failure. */
icl_status icl_study_open(icl_reproducing *run, icl_study_frame *frame, icl_study *study, icl_error *error);
void icl_study_close(icl_study *study);

#endif
