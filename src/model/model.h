/* Inside of the model room: what a family of models provides, and what every model holds. */
#ifndef ICLAB_MODEL_MODEL_H
#define ICLAB_MODEL_MODEL_H

#include "core/status.h"
#include "iclab/model.h"

/* One family: a row in the table of model.c, a constant in the family's file. */
typedef struct icl_model_family {
    const char *name; /* as in model.family */

    /* Reads the recipe, names the parameters with icl_model_add_parameter and sets model->layers and
     * model->state. dimension and context are set already. */
    icl_status (*create)(const icl_recipe *recipe, icl_model *model, icl_error *error);
    void (*destroy)(icl_model *model);

    /* See icl_model_initialize, icl_model_initialize_inserted and icl_model_predict_at_depth. */
    void (*initialize)(const icl_model *model, uint32_t seed, float *values);
    void (*initialize_inserted)(const icl_model *model, size_t layer, uint32_t seed, float *values);
    icl_variable (*predict)(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                            icl_variable tokens, size_t depth);

    /* Optional, both or none: the same by the backend's ops for the whole model. See icl_model_gradient_fused. */
    icl_status (*predict_fused)(const icl_model *model, icl_backend *backend, size_t depth,
                                const icl_model_tensors *with, icl_error *error);
    icl_status (*gradient_fused)(const icl_model *model, icl_backend *backend, size_t depth,
                                 const icl_model_tensors *with, icl_error *error);
} icl_model_family;

struct icl_model {
    const icl_model_family *family;
    size_t dimension, context, layers;
    icl_parameter_info *parameters;
    size_t parameter_count, parameter_capacity;
    size_t size;
    bool composed; /* on the tape, although the family has ops for the whole model */
    void *state;   /* the family's own */
};

extern const icl_model_family icl_linear_transformer, icl_softmax_attention;

/* Appends a named parameter to the flat vector. The name is printed from the format. */
icl_status icl_model_add_parameter(icl_model *model, int rank, const size_t *shape, icl_error *error,
                                   const char *format, ...) ICL_PRINTF(5, 6);

/* Random numbers of the model room: the upper 16 bits keep them apart from every other room's. */
#define ICL_MODEL_STREAM 0x6d6f0000u

/* Element `index` of the flat vector's own standard normal numbers. */
float icl_model_noise(uint32_t seed, size_t index);

#endif
