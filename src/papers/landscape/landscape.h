/*
 * Shared by the studies of "Linear attention is (maybe) all you need (to understand transformer optimization)" (Ahn,
 * Cheng, Song, Yun, Jadbabaie, Sra 2023, arXiv 2310.01082): settings, trainings, and losses in double precision. The
 * model is that of the authors' code: P = (B 0; 0 1), Q = (A 0; 0 0) in every layer.
 */
#ifndef ICLAB_PAPERS_LANDSCAPE_LANDSCAPE_H
#define ICLAB_PAPERS_LANDSCAPE_LANDSCAPE_H

#include "iclab/model.h"
#include "papers/study.h"
#include "train/objective.h"

typedef enum icl_landscape_optimizer {
    ICL_LANDSCAPE_ADAM = 0, /* beta1 = beta2 = .9 */
    ICL_LANDSCAPE_SGD,      /* with momentum .9 */
    ICL_LANDSCAPE_OPTIMIZERS
} icl_landscape_optimizer;

/* "adam", "sgd"; and their names in figures. */
extern const char *const icl_landscape_optimizers[ICL_LANDSCAPE_OPTIMIZERS];
extern const char *const icl_landscape_labels[ICL_LANDSCAPE_OPTIMIZERS];

enum { ICL_LANDSCAPE_S1 = 0, ICL_LANDSCAPE_S2, ICL_LANDSCAPE_S3, ICL_LANDSCAPE_SPHERE, ICL_LANDSCAPE_SETTINGS };

typedef struct icl_landscape_setting {
    const char *name;   /* "S1" */
    const char *about;  /* "normal inputs, n = 20" */
    const char *inputs; /* task.inputs */
    size_t context;
    double rates[ICL_LANDSCAPE_OPTIMIZERS], clip; /* from the authors' code */
} icl_landscape_setting;

extern const icl_landscape_setting icl_landscape_settings[ICL_LANDSCAPE_SETTINGS];

/* The most seeds of a point; and the steps between the models that a run keeps. */
enum { ICL_LANDSCAPE_SEEDS = 6, ICL_LANDSCAPE_EVERY = 250 };

/* d of the recipe. */
enum { ICL_LANDSCAPE_DIMENSION = 5 };

/* A training without its seed. */
typedef struct icl_landscape_cell {
    size_t setting;
    icl_landscape_optimizer optimizer;
    size_t layers; /* 3 in most */
    size_t steps;  /* a multiple of ICL_LANDSCAPE_EVERY if models are kept */
    double rate;   /* 0: the setting's */
    bool softmax;  /* softmax attention instead of linear */
} icl_landscape_cell;

/* Returns "S1-adam-L3-steps1500", with the rate if it differs from the setting's, and softmax. */
icl_phrase icl_landscape_name(const icl_landscape_cell *cell);

/* Returns the settings that the cell changes in the recipe "landscape". */
icl_phrase icl_landscape_changes(const icl_landscape_cell *cell);

/* Returns the study's cell with these places in at[]; NULL if there is none. */
const icl_study_cell *icl_landscape_find(const icl_study *study, size_t first, size_t second, size_t third,
                                         size_t fourth);

/* A trainer's loss on fixed sequences, which depend only on the study's seed and on no training. */
typedef struct icl_landscape_view {
    icl_trainer *trainer; /* borrowed */
    icl_objective *objective;
    size_t size; /* N */
    float *held; /* [N] scratch */
    double *at;  /* [N] the parameters at which the loss is viewed */
} icl_landscape_view;

/* Opens a view on `sequences` sequences, batch number 0, at the trainer's parameters. Close it in any case. */
icl_status icl_landscape_view_open(const icl_study *study, icl_trainer *trainer, size_t sequences,
                                   icl_landscape_view *view, icl_error *error);
void icl_landscape_view_close(icl_landscape_view *view);

/* Moves the view to the trainer's parameters; or to those after `step` steps of the cell, a multiple of
 * ICL_LANDSCAPE_EVERY, which the trainer then holds. */
icl_status icl_landscape_view_look(icl_landscape_view *view, icl_error *error);
icl_status icl_landscape_view_go(const icl_study *study, const icl_study_cell *cell, uint64_t step,
                                 icl_landscape_view *view, icl_error *error);

/* ---- Spikes (spikes.c, which says what they are) ---- */

enum { ICL_SPIKE_MEMORY = 100, ICL_SPIKE_FACTOR = 10 };

/* Writes what is usual at each step, usual [count], the median of the ICL_SPIKE_MEMORY losses before it, NaN for the
 * first of them; and the steps whose loss is above `factor` times that, or no number, steps [count], ascending. Returns
 * how many these are. */
size_t icl_landscape_find_spikes(const double *losses, size_t count, double factor, double *usual, size_t *steps);

/* The loss of a spike comes with the parameters, the batch, both or neither. */
typedef enum icl_spike_kind {
    ICL_SPIKE_OF_BATCH = 0,
    ICL_SPIKE_OF_PARAMETERS,
    ICL_SPIKE_OF_BOTH,
    ICL_SPIKE_OF_NEITHER, /* of both together */
    ICL_SPIKE_KINDS
} icl_spike_kind;

/* Tells it from the loss of the spike's batch with other parameters, and from that of another batch with the spike's
 * parameters, each over what is usual there. */
icl_spike_kind icl_landscape_spike_kind(double batch_elsewhere, double others_here);

/* Computes how far the layers of a linear transformer (values, of its parameters) reach in a context (tokens [context +
 * 1][d + 1], d = ICL_LANDSCAPE_DIMENSION): the largest eigenvalue of S_l^(1/2) (-A_l) S_l^(1/2) over the layers, at
 * least 0, with the symmetric part of A_l and the covariance S_l of the context's inputs before layer l. It is a_l
 * lambda_max(S_l) if A_l = -a_l I. */
icl_status icl_landscape_reach(const icl_model *model, const float *values, const float *tokens, size_t context,
                               double *reach, icl_error *error);

/* Computes the largest eigenvalue of W^(1/2) H W^(1/2) at `at` [N], W the diagonal of weights [N] >= 0: of W H, too.
 * Its 24 steps of Lanczos's iteration (Golub and Van Loan, Matrix Computations, 4th edition, 10.1) with full
 * orthogonalisation give a lower bound, which is nearly equal if the eigenvalue is apart from the next ones. The result
 * is infinity if H is not finite. */
icl_status icl_landscape_sharpness(icl_objective *objective, const double *at, const double *weights, double *largest,
                                   icl_error *error);

/* ---- Pictures of digits (digits.c) ---- */

/* Reads lines of 64 numbers from 0 to 16 and a digit, between commas: rows [most][65], the numbers / 8 - 1. Writes how
 * many lines there are. ICL_ERROR_INPUT, with line and field, if there is something else. */
icl_status icl_digits_parse(const char *text, size_t most, float *rows, size_t *count, icl_error *error);

#endif
