/* Shared by the files of the frame: study.c and study_findings.c. */
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

#endif
