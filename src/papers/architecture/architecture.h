/* What the reproductions of papers about architectures share: models that take over each other's parameters. */
#ifndef ICLAB_PAPERS_ARCHITECTURE_ARCHITECTURE_H
#define ICLAB_PAPERS_ARCHITECTURE_ARCHITECTURE_H

#include "iclab/model.h"
#include "iclab/status.h"

/* Copies the parameters that both models have, by name, between vectors of icl_model_size numbers; the others stay as
 * they are. ICL_ERROR_INPUT where a name has two shapes. */
icl_status icl_architecture_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error);

#endif
