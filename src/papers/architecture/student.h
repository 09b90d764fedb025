/* A model with linear attention that takes over a softmax transformer's parameters, with maps that begin at random or
 * that are distilled before (distillation.h), of the recipe "recall". */
#ifndef ICLAB_PAPERS_ARCHITECTURE_STUDENT_H
#define ICLAB_PAPERS_ARCHITECTURE_STUDENT_H

#include "papers/seeds.h"

enum { ICL_STUDENT_MIXER = 192 };

/* The overrides that make a model linear, with so many learned features. */
void icl_student_mixer(size_t features, char text[ICL_STUDENT_MIXER]);

typedef struct icl_student_params {
    icl_trainer *teacher;
    size_t trained;  /* its steps */
    size_t features; /* of each map */
    size_t steps;    /* of the distillation */
    uint32_t seed;   /* of the random maps, and of the sequences that they are distilled on */
} icl_student_params;

/* Zero to begin with, and closed also after a failure. */
typedef struct icl_student {
    icl_student_params params;
    icl_seeded made;            /* the linear model, with the recipe's parameters */
    float *swapped, *distilled; /* the teacher's parameters with random maps, and with distilled ones */
    double losses[2];           /* that the maps miss, random and distilled */
} icl_student;

/* `distilled` holds the random maps, too. */
icl_status icl_student_open(icl_reproducing *run, const icl_student_params *params, icl_student *student,
                            icl_error *error);
void icl_student_close(icl_student *student);

/* Distils the maps, or takes what was distilled before (kept.h). */
icl_status icl_student_distil(icl_reproducing *run, icl_student *student, icl_error *error);

#endif
