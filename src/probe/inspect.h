/*
 * Inspections of a trained model: its weights, what each part of a layer does and costs, and the classical algorithm
 * nearest to it; for a sequence model, what its mixers write, keep and forget, and its losses by position.
 *
 * Every number is a finding, which is reported and written to inspect.csv; inspect.md says it in words and formulas,
 * with pictures.
 */
#ifndef ICLAB_PROBE_INSPECT_H
#define ICLAB_PROBE_INSPECT_H

#include <signal.h>
#include <stddef.h>

#include "iclab/backend.h"
#include "iclab/families.h"
#include "iclab/status.h"

/* One number. Its texts need only live during the call. */
typedef struct icl_inspected {
    size_t layer;          /* from 1; 0 for the whole model */
    const char *what;      /* "w_yx", "tunedrr" */
    const char *quantity;  /* "loss without it" */
    double value;          /* NaN: it is not finite */
    double standard_error; /* 0 if it has none */
    const char *note;      /* in words; may be NULL */
} icl_inspected;

/* The number of fresh sequences to measure on if icl_inspect_params.sequences is 0 and the model is small. */
#define ICL_INSPECT_SEQUENCES 8192

/* Parameters of an inspection. */
typedef struct icl_inspect_params {
    icl_backend *backend;         /* runs the model */
    const char *run;              /* folder of a training run */
    const icl_families *families; /* of a program, with which the run was trained; NULL: none */
    const char *folder;           /* of inspect.md, inspect.csv and pictures; made if it is missing */
    /* Fresh sequences on which everything is measured, for sequence models only the losses; 0: ICL_INSPECT_SEQUENCES,
     * fewer for large models, 2048 for sequence models. */
    size_t sequences;
    const volatile sig_atomic_t *stop;                             /* set to non-zero to stop; may be NULL */
    void (*report)(void *user, const icl_inspected *found);        /* may be NULL */
    void (*progress)(void *user, const char *doing, double share); /* share in [0, 1] of `doing`; may be NULL */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    void *user;                           /* passed to the calls above */
} icl_inspect_params;

/* Inspects a run. ICL_ERROR_INPUT if the folder holds no run or no trained model; ICL_ERROR_INTERRUPTED when stopped.
 * *summary, freed with icl_text_free, is the beginning of inspect.md. */
icl_status icl_inspect(const icl_inspect_params *params, char **summary, icl_error *error);

#endif
