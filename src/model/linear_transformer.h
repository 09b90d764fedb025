/* The parts of a linear transformer's layer, shared by its files. */
#ifndef ICLAB_MODEL_LINEAR_TRANSFORMER_H
#define ICLAB_MODEL_LINEAR_TRANSFORMER_H

#include "iclab/ops_linear_transformer.h"
#include "model/model.h"

/* How the D x D matrix of a part is made from its parameter. */
typedef enum icl_linear_part_kind {
    ICL_PART_MATRIX,                /* [D, D]: itself */
    ICL_PART_DIAGONAL,              /* [2] = (x, y): diag(x … x, y) */
    ICL_PART_INPUT_DIAGONAL,        /* [1] = (x): diag(x … x, 0) */
    ICL_PART_LABEL_ONE,             /* no parameter: diag(0 … 0, 1) */
    ICL_PART_INPUT_BLOCK,           /* [d, d] = A: [A 0; 0 0] */
    ICL_PART_INPUT_BLOCK_LABEL_ONE, /* [d, d] = B: [B 0; 0 1] */
    ICL_PART_DIAGONAL_LOW_RANK,     /* [1 + 2r, D] = (p; u_1 … u_r; v_1 … v_r): diag(p) + sum of u_k v_k^T */
} icl_linear_part_kind;

typedef struct icl_linear_part {
    const char *name; /* the last part of the parameter's name; NULL if nothing is trained */
    icl_linear_part_kind kind;
} icl_linear_part;

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

/* P and Q of a form. */
typedef struct icl_linear_pair {
    icl_linear_part parts[ICL_LINEAR_PARTS];
} icl_linear_pair;

typedef struct icl_linear_transformer_state {
    /* model.parameterization as the backend's ops know it: full for diag+lowrank. */
    icl_parameterization parameterization;
    size_t rank; /* r of diag+lowrank; 0 for all others */
    const icl_linear_pair *pair;
    size_t heads;
    icl_linear_space space; /* model.space, unless the model is composed on the tape */
    bool is_tied;           /* every layer is the first one */
    bool is_mean;           /* attention has the factor 1/n */
    bool is_softmax;        /* attention weights are a softmax over the context */
    bool is_composed;       /* recorded on the tape from general ops, not run by the family's fused ones */
    bool from_descent;      /* starts near gradient descent instead of near zero */
    double init_std, coupling_std;
} icl_linear_transformer_state;

/* Returns the number of layers that have parameters of their own. */
size_t icl_linear_own_layers(const icl_model *model);

/* Returns the number of parameters of one head. */
size_t icl_linear_trained_parts(const icl_linear_pair *pair);

icl_status icl_linear_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *with, icl_error *error);
icl_status icl_linear_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                     const icl_model_tensors *with, icl_error *error);
void icl_linear_initialize(const icl_model *model, uint32_t seed, float *values);
void icl_linear_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values);

/* A layer with P = diag(p_x ... p_x, p_y) and Q = diag(q_x ... q_x, q_y); in the sparse forms B = p_x I and A = q_x I.
 * Numbers are in units of the scaling by 1/n. */
typedef struct icl_linear_layer {
    double p_x, p_y, q_x, q_y;
} icl_linear_layer;

/* Writes these layers [icl_linear_own_layers], plus the noise of the family's own start, into a model of any form.
 * Several heads share the product equally. */
void icl_linear_initialize_at(const icl_model *model, const icl_linear_layer *layers, uint32_t seed, float *values);

#endif
