/*
 * Models of a program's own: what a family of models provides.
 *
 * A program fills in an icl_model_family and hands it to icl_model_create_with, or to icl_trainer_create_with, which
 * trains it. The families of the library are made in the same way.
 */
#ifndef ICLAB_MODEL_FAMILY_H
#define ICLAB_MODEL_FAMILY_H

#include "iclab/model.h"

ICL_C_BEGIN

/* A family of models: its name and its functions. */
typedef struct icl_model_family icl_model_family;

/* The state that earlier positions leave for the next one, while a model decodes. */
typedef struct icl_model_memory icl_model_memory;

/* A model, as its family's functions are given it. */
struct icl_model {
    const icl_model_family *family;             /* its family */
    icl_task_shape shape;                       /* shape of the task that the model answers */
    size_t dimension, context;                  /* d = p - 1 and n = T - 1, for families of in-context regression */
    size_t layers;                              /* see icl_model_layers */
    size_t loops;                               /* see icl_model_loops; 1 unless create says otherwise */
    unsigned abilities;                         /* one bit for each icl_model_ability; 0: the tape does everything */
    icl_parameter_info *parameters;             /* [parameter_count], added by icl_model_add_parameter */
    size_t parameter_count, parameter_capacity; /* likewise */
    size_t size;                                /* length of the flat parameter vector */
    void *state;                                /* the family's own */
    size_t redrawn; /* parameter that the family's redraw writes before each step, counted from 1; 0: none */

    /* Sequences that a host backend takes at a time on the tape, so that what they leave there stays in a core's cache;
     * 0: the whole batch. If it is set, each thread does all ops of its own sequences: icl_backend_share. */
    size_t sequences_at_once;
};

/* The functions of a family, which a program fills in; functions that are NULL are not called. */
struct icl_model_family {
    const char *name;     /* the value of model.family, and what messages call it */
    const void *settings; /* the program's own, if the recipe's keys do not say everything; NULL: none */

    /* The keys of the recipe's [model] that create reads, of a family that is registered (families.h); ends with NULL.
     * NULL: none. */
    const icl_recipe_group *const *keys;

    /* Refuses a shape that the family cannot answer (icl_model_refuse), names the parameters with
     * icl_model_add_parameter and sets model->state and, if they differ from 1 and 0, layers and abilities. On
     * return, also after a failure, model->state is what destroy can free. */
    icl_status (*create)(const icl_recipe *recipe, icl_model *model, icl_error *error);
    void (*destroy)(icl_model *model); /* NULL: there is nothing to free */

    /* See icl_model_initialize. */
    void (*initialize)(const icl_model *model, uint32_t seed, float *values);
    /* See icl_model_predict_at_depth. The outputs are [B, S, q]. */
    icl_variable (*predict)(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth);

    /* See icl_model_record_loops; for ICL_MODEL_LOOPS. */
    void (*predict_loops)(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                          icl_loop_window window, icl_variable *outputs);

    /* Computes the outputs [B, T, q] of the next T positions only, inputs [B, T, p] or [B, T], for ICL_MODEL_DECODES.
     * The memory holds what earlier positions left. See icl_decoder_step. */
    icl_variable (*step)(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                         icl_model_memory *memory);

    /* See icl_model_initialize_inserted; for ICL_MODEL_GROWS. */
    void (*initialize_inserted)(const icl_model *model, size_t layer, uint32_t seed, float *values);

    /* Writes new numbers for parameter model->redrawn before a step of training, `values` [its count]: a function of
     * only the seed and the step. No gradient may reach it. Predictions use the numbers of the last step. */
    void (*redraw)(const icl_model *model, uint32_t seed, uint64_t step, float *values);

    /* Predicts by the backend's ops for the whole model, for ICL_MODEL_FUSED. See icl_model_predict_fused. */
    icl_status (*predict_fused)(const icl_model *model, icl_backend *backend, size_t depth,
                                const icl_model_tensors *tensors, icl_error *error);
    /* Computes the gradient likewise. See icl_model_gradient_fused. */
    icl_status (*gradient_fused)(const icl_model *model, icl_backend *backend, size_t depth,
                                 const icl_model_tensors *tensors, icl_error *error);
};

/* Creates a model of this family, which must outlive it, for tasks of this shape. The recipe gives the family's keys,
 * if it reads any. */
ICL_API icl_status icl_model_create_with(const icl_model_family *family, const icl_recipe *recipe, icl_task_shape shape,
                                         icl_model **model, icl_error *error);

/* Fails with ICL_ERROR_INPUT; the message names the model's family, the task's shape and what was expected. */
ICL_API icl_status icl_model_refuse(const icl_model *model, const char *expected, icl_error *error);

/* Appends a named parameter to the flat vector. The name is printed from the format. */
ICL_API icl_status icl_model_add_parameter(icl_model *model, int rank, const size_t *shape, icl_error *error,
                                           const char *format, ...) ICL_PRINTF(5, 6);

/* Excludes the parameter added last from decay (train.weight_decay): a bias, a gain. Does nothing if there is none. */
ICL_API void icl_model_mark_without_decay(icl_model *model);

/* Has train.optimizer = muon orthogonalise the steps of the parameter added last, of rank 2: a map between hidden
 * vectors, and no table, filter or read-out. Does nothing if there is none, or if it has another rank. */
ICL_API void icl_model_mark_hidden_matrix(icl_model *model);

/* Returns element `index` of the flat vector's own standard normal numbers, for initialize: a function of only the seed
 * and the index. */
ICL_API float icl_model_noise(uint32_t seed, size_t index);

/* ---- What a step remembers, for families that decode ----
 *
 * A step asks for its parts in the same order every time. Failures are the tape's. */

/* Returns the number of positions before this step. */
ICL_API size_t icl_model_memory_position(const icl_model_memory *memory);

/* Returns the next part, of this shape: what icl_model_memory_keep stored under its number in the last step, or zeros
 * before the first step. *part receives the number. */
ICL_API icl_variable icl_model_memory_recall(icl_model_memory *memory, icl_tape *tape, int rank, const size_t *shape,
                                             size_t *part);
ICL_API void icl_model_memory_keep(icl_model_memory *memory, icl_tape *tape, size_t part, icl_variable value);

/* Returns another part, along time: `value`, whose `axis` counts the positions of this step, behind those of the steps
 * before it, but for at most the last `before` of these (SIZE_MAX: all). */
ICL_API icl_variable icl_model_memory_slide(icl_model_memory *memory, icl_tape *tape, int axis, size_t before,
                                            icl_variable value);

ICL_C_END

#endif
