/* Models: architectures written once against the tape, so that they need no backward pass of their own. */
#ifndef ICLAB_MODEL_H
#define ICLAB_MODEL_H

#include <stdbool.h>

#include "iclab/recipe.h"
#include "iclab/shape.h"
#include "iclab/tape.h"

ICL_C_BEGIN

/* An architecture with its sizes; it holds no parameters. */
typedef struct icl_model icl_model;

/* One named matrix (or vector) of parameters inside the flat parameter vector. */
typedef struct icl_parameter_info {
    char name[64];              /* "layer.0.head.0.P" */
    int rank;                   /* axes in use of shape */
    size_t shape[ICL_MAX_RANK]; /* row-major */
    size_t offset;              /* elements from the start of the flat vector */
    size_t count;               /* elements */
    bool without_decay;         /* train.weight_decay leaves it out: biases, gains */
    bool is_hidden_matrix;      /* train.optimizer = muon orthogonalises its steps: a map between hidden vectors */
} icl_parameter_info;

/* Reads the [model] section, for tasks of this shape. ICL_ERROR_INPUT, naming both, if the family cannot answer it. */
ICL_API icl_status icl_model_create(const icl_recipe *recipe, icl_task_shape shape, icl_model **model,
                                    icl_error *error);
ICL_API void icl_model_destroy(icl_model **model);

/* Return the length of the flat parameter vector, and its named parts in order. */
ICL_API size_t icl_model_size(const icl_model *model);
ICL_API size_t icl_model_parameter_count(const icl_model *model);
ICL_API const icl_parameter_info *icl_model_parameter(const icl_model *model, size_t index);

/* What a model can do besides predicting on the tape. */
typedef enum icl_model_ability {
    ICL_MODEL_FUSED = 1,          /* icl_model_predict_fused and icl_model_gradient_fused, for the squared error */
    ICL_MODEL_READS_GRAM = 2,     /* these two take the side tensors gram and query in place of inputs */
    ICL_MODEL_CUTS_SEQUENCES = 4, /* these have the gradients of single sequences: norms, and a threshold */
    ICL_MODEL_GROWS = 8,          /* icl_model_initialize_inserted, and predictions at less than its full depth */
    ICL_MODEL_DECODES = 16,       /* icl_decoder_create (decode.h) */
    ICL_MODEL_LOOPS = 32,         /* icl_model_record_loops */
} icl_model_ability;

/* Whether this one can. */
ICL_API bool icl_model_can(const icl_model *model, icl_model_ability ability);

/* Number of layers. */
ICL_API size_t icl_model_layers(const icl_model *model);

/* Writes initial parameters: a function of the seed alone, the same on every machine. values holds
 * icl_model_size floats. */
ICL_API void icl_model_initialize(const icl_model *model, uint32_t seed, float *values);

/* Overwrites the parameters of one layer with those of a layer that changes nothing (except for a little noise), so
 * that it can learn after it was inserted into a trained model. */
ICL_API void icl_model_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values);

/* ---- What the parameters of a linear transformer stand for ---- */

/* The two matrices of a head of a linear transformer. */
typedef enum icl_model_part { ICL_MODEL_P = 0, ICL_MODEL_Q } icl_model_part;

/* The number of heads of each layer; 1 for families without heads. */
ICL_API size_t icl_model_heads(const icl_model *model);

/* Returns the factor of a linear transformer's attention sum over the context: 1, or 1/n (model.scale). 1 for other
 * families. */
ICL_API double icl_model_attention_factor(const icl_model *model);

/* Writes P or Q of one head as a matrix [d + 1][d + 1], row-major, whatever the parameterization. The layer is e <-
 * e + factor * sum over heads of P G Q e, with factor 1 or 1/n as model.scale says; with model.scale = softmax the
 * weights of the context, e_j^T Q e, pass through their softmax first. ICL_ERROR_INPUT for other families, and for a
 * layer or a head that the model does not have. */
ICL_API icl_status icl_model_dense(const icl_model *model, const float *values, size_t layer, size_t head,
                                   icl_model_part part, float *matrix, icl_error *error);

/* Copies the layers of `from`, of any parameterization, into a full linear transformer: its last layer over the last
 * one of `to`, the others over the first. Layers between them keep their values. If both have the same number of
 * layers, `to` then predicts the same as `from`. ICL_ERROR_INPUT if heads or dimension differ, or if `to` has fewer
 * layers or is not full. */
ICL_API icl_status icl_model_embed(const icl_model *from, const float *from_values, const icl_model *to,
                                   float *to_values, icl_error *error);

/* Outputs [B, S, q] at the scored positions for inputs [B, T, p], or symbols [B, T], recorded on the tape.
 * `parameters` holds one variable per named parameter, in order. */
ICL_API icl_variable icl_model_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                       icl_variable inputs);

/* As above, with a shallower model of `depth` layers (1 to icl_model_layers): the first depth - 1 layers, then the last
 * one. A model that grows inserts each new layer before the last. Another depth fails the tape. */
ICL_API icl_variable icl_model_predict_at_depth(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                                icl_variable inputs, size_t depth);

/* Puts the parameters of the flat vector [N], N = icl_model_size, on the tape and records the predictions of a model of
 * `depth` layers. gradient [N] receives their gradient from icl_tape_backward; if it is absent, they are constants.
 * Failures are the tape's. */
ICL_API icl_variable icl_model_record(const icl_model *model, icl_tape *tape, icl_tensor parameters,
                                      icl_tensor gradient, icl_tensor inputs, size_t depth);

/* For a model that applies its layers several times: outputs are wanted after each of the last `count` of `loops`
 * loops, from 1 to all of them. */
typedef struct icl_loop_window {
    size_t loops; /* the number of loops, which replaces the model's own */
    size_t count; /* how many of the last loops have outputs */
} icl_loop_window;

/* Returns how often the model applies its layers; 1 for families without loops. */
ICL_API size_t icl_model_loops(const icl_model *model);

/* As icl_model_record, with outputs after each loop of the window, those of the last loop last; for ICL_MODEL_LOOPS.
 * The state that enters the window is a constant: gradients reach back only through the window's loops (Yang, Lee,
 * Nowak, Papailiopoulos 2024, arXiv 2311.12424). outputs holds window.count variables. */
ICL_API void icl_model_record_loops(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                                    icl_tensor inputs, icl_loop_window window, icl_variable *outputs);

/* ---- By the backend's ops for a whole model, without the tape ---- */

/* The arguments of these calls. Sequences come as tokens, or as gram and query; the unused ones are absent. */
typedef struct icl_model_tensors {
    icl_tensor tokens;      /* [B, n + 1, d + 1] */
    icl_tensor gram;        /* [B, d + 1, d + 1]: the sum of e e^T over the context */
    icl_tensor query;       /* [B, d + 1] */
    icl_tensor parameters;  /* [N], N = icl_model_size */
    icl_tensor predictions; /* [B], written; only for icl_model_predict_fused */

    /* Only for icl_model_gradient_fused. */
    icl_tensor losses;    /* [B], written: (prediction - target)^2 */
    icl_tensor targets;   /* [B] */
    icl_tensor threshold; /* [1] or absent: the largest norm of one sequence's gradient */
    icl_tensor gradient;  /* [N], out: of the mean of the losses, each clipped */
    icl_tensor norms;     /* [B], written, or absent: the norm of each sequence's gradient, before it is clipped */
} icl_model_tensors;

/* Predictions, or losses and their gradient, of the model at `depth` layers; for ICL_MODEL_FUSED. See
 * icl_linear_transformer_gradient for what clipping and norms mean. ICL_ERROR_INPUT for another depth than 1 to
 * icl_model_layers. */
ICL_API icl_status icl_model_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                           const icl_model_tensors *tensors, icl_error *error);
ICL_API icl_status icl_model_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                            const icl_model_tensors *tensors, icl_error *error);

ICL_C_END

#endif
