/* Models: architectures written once against the tape, so that they need no backward pass of their own. */
#ifndef ICLAB_MODEL_H
#define ICLAB_MODEL_H

#include "iclab/recipe.h"
#include "iclab/tape.h"

/* An architecture with its sizes; it holds no parameters. */
typedef struct icl_model icl_model;

/* One named matrix (or vector) of parameters inside the flat parameter vector. */
typedef struct icl_parameter_info {
    char name[64];              /* "layer.0.head.0.P" */
    int rank;                   /* axes in use of shape */
    size_t shape[ICL_MAX_RANK]; /* row-major */
    size_t offset;              /* elements from the start of the flat vector */
    size_t count;               /* elements */
} icl_parameter_info;

/* Reads the [model] section for tokens of d + 1 coordinates and a context of n. */
ICL_API icl_status icl_model_create(const icl_recipe *recipe, size_t dimension, size_t context,
                                    icl_model **model, icl_error *error);
ICL_API void icl_model_destroy(icl_model **model);

/* Length of the flat parameter vector, and its named parts in order. */
ICL_API size_t icl_model_size(const icl_model *model);
ICL_API size_t icl_model_parameter_count(const icl_model *model);
ICL_API const icl_parameter_info *icl_model_parameter(const icl_model *model, size_t index);

/* Number of layers. */
ICL_API size_t icl_model_layers(const icl_model *model);

/* Writes initial parameters: a function of the seed alone, the same on every machine. values holds
 * icl_model_size floats. */
ICL_API void icl_model_initialize(const icl_model *model, uint32_t seed, float *values);

/* Writes, over the parameters of one layer, those of a layer that changes nothing (but for a little
 * noise), from which it can learn after it was inserted into a trained model. */
ICL_API void icl_model_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed,
                                           float *values);

/* ---- What the parameters of a linear transformer stand for ---- */

/* The two matrices of a head of a linear transformer. */
typedef enum icl_model_part { ICL_MODEL_P = 0, ICL_MODEL_Q } icl_model_part;

/* Heads of each layer; 1 for families without. */
ICL_API size_t icl_model_heads(const icl_model *model);

/* The factor of a linear transformer's attention sum over the context: 1, or 1/n (model.scale). 1 for other families. */
ICL_API double icl_model_attention_factor(const icl_model *model);

/* P or Q of one head as a matrix [d + 1][d + 1], row-major, whatever the parameterization. The layer is
 * e <- e + factor * sum over heads of P G Q e, with factor 1 or 1/n as model.scale says; with model.scale = softmax the weights of
 * the context, e_j^T Q e, pass through their softmax first. ICL_ERROR_INPUT for other families. */
ICL_API icl_status icl_model_dense(const icl_model *model, const float *values, size_t layer, size_t head,
                                   icl_model_part part, float *matrix, icl_error *error);

/* Writes the layers of `from`, of any parameterization, over those of a full linear transformer: its last one over the last, the others
 * over the first. Layers between them keep their values. With as many layers `to` then predicts the same as `from`. ICL_ERROR_INPUT
 * where heads or dimension differ, `to` has fewer layers or is not full. */
ICL_API icl_status icl_model_embed(const icl_model *from, const float *from_values, const icl_model *to,
                                   float *to_values, icl_error *error);

/* Predictions [B, 1, 1] for tokens [B, n + 1, d + 1], recorded on the tape. `parameters` holds one
 * variable per named parameter, in order. */
ICL_API icl_variable icl_model_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                       icl_variable tokens);

/* The same with a shallower model of `depth` layers (1 to icl_model_layers): the first depth - 1 layers,
 * then the last one. A model that grows inserts each new layer before the last. */
ICL_API icl_variable icl_model_predict_at_depth(const icl_model *model, icl_tape *tape,
                                                const icl_variable *parameters, icl_variable tokens,
                                                size_t depth);

/* ---- By the backend's ops for a whole model, without the tape ---- */

/* What such a call takes and gives. The sequences come as tokens, or as gram and query; the others of these are absent. */
typedef struct icl_model_tensors {
    icl_tensor tokens;      /* [B, n + 1, d + 1] */
    icl_tensor gram;        /* [B, d + 1, d + 1]: the sum of e e^T over the context */
    icl_tensor query;       /* [B, d + 1] */
    icl_tensor parameters;  /* [N], N = icl_model_size */
    icl_tensor predictions; /* [B], out */

    /* For icl_model_gradient alone. */
    icl_tensor targets;   /* [B] */
    icl_tensor threshold; /* [1] or absent: the largest norm of one sequence's gradient */
    icl_tensor gradient;  /* [N], out: of the mean over sequences of (prediction - target)^2, each clipped */
    icl_tensor norms;     /* [B], out, or absent: of each sequence's gradient, before it is clipped */
} icl_model_tensors;

/* Whether this model has them: its family does, and model.space does not ask for the tape (composed). */
ICL_API bool icl_model_is_fused(const icl_model *model);

/* Predictions, or predictions and gradient, of the model at `depth` layers; for fused models only. See
 * icl_linear_transformer_gradient for what clipping and norms mean. */
ICL_API icl_status icl_model_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                           const icl_model_tensors *with, icl_error *error);
ICL_API icl_status icl_model_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                            const icl_model_tensors *with, icl_error *error);

#endif
