/* The settings and the starts of linear transformers. */
#ifndef ICLAB_MODEL_LINEAR_TRANSFORMER_H
#define ICLAB_MODEL_LINEAR_TRANSFORMER_H

#include "iclab/ops_linear_transformer.h"
#include "model/model.h"

/* The parts of a layer. */
enum { ICL_LINEAR_P, ICL_LINEAR_Q, ICL_LINEAR_PARTS };

/* The values of model.parameterization, model.space and model.scale: those of the backend's ops, and one more each. */
enum { ICL_LINEAR_DIAGONAL_LOW_RANK = ICL_PARAMETERIZATION_COUNT, ICL_SPACE_COMPOSED = ICL_SPACE_TOKENS + 1 };
typedef enum icl_linear_scale { ICL_SCALE_RAW = 0, ICL_SCALE_MEAN, ICL_SCALE_SOFTMAX } icl_linear_scale;

/* The recipe keys of model.family = linear; members have the keys' names. */
typedef struct icl_linear_settings {
    double coupling_std;
    size_t rank;
    bool tied;
    unsigned parameterization; /* an icl_parameterization, or ICL_LINEAR_DIAGONAL_LOW_RANK */
    icl_linear_scale scale;
    unsigned space; /* an icl_linear_space, or ICL_SPACE_COMPOSED */
} icl_linear_settings;

icl_linear_settings icl_linear_read(const icl_recipe *recipe);

/* Returns the number of layers that have parameters of their own. */
size_t icl_linear_own_layers(const icl_model *model);

/* A layer with P = diag(p_x ... p_x, p_y) and Q = diag(q_x ... q_x, q_y); in the sparse forms B = p_x I and A = q_x I.
 * Numbers are in units of the scaling by 1/n. */
typedef struct icl_linear_layer {
    double p_x, p_y, q_x, q_y;
} icl_linear_layer;

/* Writes these layers [icl_linear_own_layers], plus the noise of the family's own start, into a model of any form.
 * Several heads share the product equally. */
void icl_linear_initialize_at(const icl_model *model, const icl_linear_layer *layers, uint32_t seed, float *values);

#endif
