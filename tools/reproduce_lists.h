/* What `iclab reproduce` lists without running it. */
#ifndef ICLAB_TOOLS_REPRODUCE_LISTS_H
#define ICLAB_TOOLS_REPRODUCE_LISTS_H

#include <stdbool.h>

#include "papers/reproduce.h"

/* All of them, with what they cost. */
icl_status list_reproductions(bool json, icl_error *error);

/* The cells of params->scale whose names contain params->only. ICL_ERROR_INPUT where none does. */
icl_status list_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                      icl_error *error);

/* The trainings of these cells: name, recipe and settings, one a line. */
icl_status list_trainings(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                          icl_error *error);

#endif
