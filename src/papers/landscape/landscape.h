/*
 * What the reproductions of "Linear attention is (maybe) all you need (to understand transformer optimization)" (Ahn,
 * Cheng, Song, Yun, Jadbabaie, Sra 2023, arXiv 2310.01082) share: settings and training runs. The model is the one of
 * the authors' code: P = (B 0; 0 1), Q = (A 0; 0 0) in every layer.
 */
#ifndef ICLAB_PAPERS_LANDSCAPE_LANDSCAPE_H
#define ICLAB_PAPERS_LANDSCAPE_LANDSCAPE_H

#include "papers/reproduce.h"
#include "train/objective.h"

typedef enum icl_landscape_optimizer {
    ICL_LANDSCAPE_ADAM = 0, /* beta1 = beta2 = .9 */
    ICL_LANDSCAPE_SGD,      /* with momentum .9 */
    ICL_LANDSCAPE_OPTIMIZERS
} icl_landscape_optimizer;

extern const char *const icl_landscape_optimizers[ICL_LANDSCAPE_OPTIMIZERS]; /* "adam", "sgd" */

enum { ICL_LANDSCAPE_S1 = 0, ICL_LANDSCAPE_S2, ICL_LANDSCAPE_S3, ICL_LANDSCAPE_SPHERE, ICL_LANDSCAPE_SETTINGS };

typedef struct icl_landscape_setting {
    const char *name;   /* "S1" */
    const char *about;  /* "normal inputs, n = 20" */
    const char *inputs; /* task.inputs */
    size_t context;
    double rates[ICL_LANDSCAPE_OPTIMIZERS], clip; /* of the authors' code */
} icl_landscape_setting;

extern const icl_landscape_setting icl_landscape_settings[ICL_LANDSCAPE_SETTINGS];

/* Steps between the models that a run keeps. */
#define ICL_LANDSCAPE_EVERY 250

/* One training run. */
typedef struct icl_landscape_cell {
    size_t setting;
    icl_landscape_optimizer optimizer;
    size_t layers; /* 3 in most */
    uint32_t seed;
    size_t steps; /* a multiple of ICL_LANDSCAPE_EVERY where models are kept */
    double rate;  /* 0: the setting's */
    bool softmax; /* attention, in place of linear */
} icl_landscape_cell;

enum { ICL_LANDSCAPE_NAME = 64 };

/* "S1-adam-L3-steps1500-seed1", with the rate where it is not the setting's, and softmax. */
void icl_landscape_name(const icl_landscape_cell *cell, char name[ICL_LANDSCAPE_NAME]);

/* The cell's recipe, freed by the caller; keeps models along the way or not. */
icl_status icl_landscape_recipe(const icl_landscape_cell *cell, bool keeps_models, icl_recipe **recipe,
                                icl_error *error);

/* Trains it in runs/NAME; ICL_ERROR_DIVERGED as icl_reproduce_train has it. */
icl_status icl_landscape_train(icl_reproducing *run, const icl_landscape_cell *cell, icl_error *error);

/* The parameters after `step` steps, a multiple of ICL_LANDSCAPE_EVERY: values holds icl_model_size doubles. */
icl_status icl_landscape_model_at(const icl_reproducing *run, const icl_landscape_cell *cell, const icl_model *model,
                                  uint64_t step, double *values, icl_error *error);

/* A cell's loss on fixed sequences, which belong to the run's seed and to no training. */
typedef struct icl_landscape_view {
    icl_task *task;
    icl_model *model;
    icl_objective *objective;
    size_t size; /* N */
    double *at;  /* [N] the parameters looked at */
} icl_landscape_view;

/* With `sequences` sequences drawn, number 0. Close it in any case. */
icl_status icl_landscape_view_open(const icl_reproducing *run, const icl_landscape_cell *cell, size_t sequences,
                                   icl_landscape_view *view, icl_error *error);
/* Looks at a cell's initial parameters. */
icl_status icl_landscape_view_initial(icl_landscape_view *view, uint32_t seed, icl_error *error);
void icl_landscape_view_close(icl_landscape_view *view);

#endif
