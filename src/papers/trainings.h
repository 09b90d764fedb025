/*
 * The trainings of a reproduction and their settings: what `--trainings` lists.
 *
 * No table has them. A list runs the reproduction's own function, which hands every training to icl_reproduce_train;
 * nothing is trained, judged or written then. What begins with other trainings begins with fresh parameters.
 */
#ifndef ICLAB_PAPERS_TRAININGS_H
#define ICLAB_PAPERS_TRAININGS_H

#include "papers/reproduce.h"

/* Hears of each training, in the order in which they run: the name of its run folder, the name of the recipe file
 * ("versatile.ini"; "" where none was read), and what is set otherwise than there, "train.seed=2 model.layers=4". */
typedef struct icl_trainings {
    icl_status (*hear)(void *user, const char *name, const char *file, const char *settings, icl_error *error);
    void *user;
} icl_trainings;

/* Those of the reproduction at params->scale that params->only leaves. Opens a device of the host, and closes it. */
icl_status icl_trainings_list(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                              icl_trainings *trainings, icl_error *error);

/* For icl_reproduce_train. */
icl_status icl_trainings_note(const icl_trainings *trainings, const char *name, const icl_recipe *recipe,
                              icl_error *error);

#endif
