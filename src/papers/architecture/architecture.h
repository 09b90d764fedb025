/* What the reproductions of papers about architectures share: models of a recipe, trained with several seeds. */
#ifndef ICLAB_PAPERS_ARCHITECTURE_ARCHITECTURE_H
#define ICLAB_PAPERS_ARCHITECTURE_ARCHITECTURE_H

#include "papers/reproduce.h"

enum { ICL_ARCHITECTURE_NAME = 64 };

/* One training. */
typedef struct icl_architecture_cell {
    const char *name;      /* of the run folder, runs/NAME-seedN */
    const char *recipe;    /* by name */
    const char *overrides; /* "section.key=value", separated by blanks; or "" */
    size_t steps;          /* 0: the parameters stay as they begin, and there is no run folder */
    uint32_t seed;         /* of the training; sequences for evaluation are those of the run's seed for all cells */
    const float *initial;  /* icl_model_size parameters to begin with; NULL: the recipe's; not with 0 steps */
} icl_architecture_cell;

/* Trains the cell. *recipe receives what it was made of; both are the caller's, also after a failure, and NULL to begin
 * with. */
icl_status icl_architecture_train(icl_reproducing *run, const icl_architecture_cell *cell, icl_recipe **recipe,
                                  icl_trainer **trainer, icl_error *error);

/* Copies the parameters that both models have, by name, between vectors of icl_model_size numbers; the others stay as
 * they are. ICL_ERROR_INPUT where a name has two shapes. */
icl_status icl_architecture_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error);

#endif
