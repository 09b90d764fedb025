/* Internals of the model room: the families, and what those of in-context regression share. */
#ifndef ICLAB_MODEL_MODEL_H
#define ICLAB_MODEL_MODEL_H

#include "iclab/model.h"
#include "iclab/model_family.h"
#include "iclab/status.h"

/* The families: the word of model.family, and the constant in the family's file, which also defines CONSTANT_keys. */
#define ICL_MODEL_FAMILIES(FAMILY)                                                                                     \
    FAMILY("linear", icl_linear_transformer)                                                                           \
    FAMILY("softmax", icl_softmax_attention)                                                                           \
    FAMILY("sequence", icl_sequence_model)                                                                             \
    FAMILY("fast-weights", icl_fast_weights)                                                                           \
    FAMILY("graph", icl_graph_transformer)

#define ICL_DECLARE_FAMILY(word, family)                                                                               \
    extern const icl_model_family family;                                                                              \
    extern const icl_recipe_group *const family##_keys[];
ICL_MODEL_FAMILIES(ICL_DECLARE_FAMILY)
#undef ICL_DECLARE_FAMILY

/* The words of model.initialization. */
typedef enum icl_initialization { ICL_INITIALIZE_NORMAL = 0, ICL_INITIALIZE_DESCENT } icl_initialization;

/* The keys that several families read. */
typedef struct icl_model_settings {
    unsigned family; /* the row of ICL_MODEL_FAMILIES, from 0 */
    size_t layers, heads;
    icl_initialization initialization;
    double init_std;
} icl_model_settings;

/* The keys that every family reads, model.family and layers, and those that several families list: heads;
 * initialization and init_std. */
extern const icl_recipe_group icl_model_keys, icl_heads_keys, icl_start_keys;

icl_model_settings icl_model_read(const icl_recipe *recipe);

/* Takes d and n from the model's shape; ICL_ERROR_INPUT unless it is that of in-context regression. */
icl_status icl_model_read_pairs(icl_model *model, icl_error *error);

/* Creates one variable on the tape for each parameter, as icl_model_record does; freed with icl_free. */
icl_status icl_model_put_parameters(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                                    icl_variable **variables, icl_error *error);

/* The random stream of the model room: the upper 16 bits keep it apart from every other room's. */
#define ICL_MODEL_STREAM 0x6d6f0000u

/* Copies the named parameter, a matrix, from a model's flat vector. ICL_ERROR_INPUT if the model has none of that name,
 * or of another size than rows x columns. */
icl_status icl_matrix_of_model(const icl_model *model, const float *values, const char *name, size_t rows,
                               size_t columns, double *matrix, icl_error *error);

#endif
