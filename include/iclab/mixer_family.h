/*
 * Mixers of a program's own, for model.family = sequence: what a mixer provides.
 *
 * A mixer is how the positions of a block see each other. A program fills in an icl_mixer_family and registers it
 * (families.h); its name is then a word of model.mixer, alone or in a list with other mixers. Around it the model keeps
 * what every block has: norms, the residual connection, and the feed-forward part.
 *
 * Activations are [B, T, width], weights [inputs, outputs], y = x W.
 */
#ifndef ICLAB_MIXER_FAMILY_H
#define ICLAB_MIXER_FAMILY_H

#include "iclab/model_family.h"

ICL_C_BEGIN

/* A block whose mixer is created or run. */
typedef struct icl_mixer_block {
    size_t layer;  /* number of the block, from 0 */
    size_t layers; /* blocks of the model */
    size_t width;  /* model.width */
    size_t heads;  /* model.heads, for a mixer that lists this key; otherwise 1 */
    bool causal;   /* model.causal */
    void *state;   /* the mixer's own: state_size bytes, which are 0 before create; NULL if that is 0 */
} icl_mixer_block;

/* A block's parameters while its mixer adds them. */
typedef struct icl_mixer_builder icl_mixer_builder;

/* One run through the mixer of a block. */
typedef struct icl_mixer_pass {
    const icl_mixer_block *block;   /* the block */
    icl_tape *tape;                 /* records the run */
    const icl_variable *parameters; /* those of this mixer, in the order in which create added them */
    icl_model_memory *memory;       /* what the positions before left, while the model decodes; NULL: none */
    size_t first_position;          /* number of this run's first position; 0 without a memory */
} icl_mixer_pass;

/* A mixer, which a program fills in. */
typedef struct icl_mixer_family {
    const char *name;     /* its word in model.mixer */
    const void *settings; /* the program's own; NULL: none */

    /* The keys of the recipe's [model] that create reads; ends with NULL. They apply while model.mixer has the word.
     * Keys that iclab's own mixers read, such as model.heads, may be among them. NULL: none. */
    const icl_recipe_group *const *keys;

    size_t state_size; /* bytes of icl_mixer_block.state */
    bool is_two_sided; /* model.causal = false is allowed */
    bool remembers;    /* mix uses the memory: only then does the model decode position by position */

    /* Adds the parameters of the block, and writes what mix needs to block->state. The model frees that, but nothing
     * that it points to. NULL: there are no parameters. */
    icl_status (*create)(const icl_recipe *recipe, icl_mixer_block *block, icl_mixer_builder *builder,
                         icl_error *error);

    /* Maps x [B, T, width] to [B, T, width] on the tape, which differentiates it. Failures are the tape's. */
    icl_variable (*mix)(const icl_mixer_pass *pass, icl_variable x);
} icl_mixer_family;

/* Adds a matrix [inputs, outputs] called block.LAYER.mixer.NAME, a name that the block does not have yet, which begins
 * as N(0, model.init^2), or N(0, 1/inputs) if that is 0. A hidden matrix for train.optimizer = muon. */
ICL_API icl_status icl_mixer_add_matrix(icl_mixer_builder *builder, const char *name, size_t inputs, size_t outputs,
                                        icl_error *error);

/* Adds the matrix at the end of the mixer, whose product is added to the residual stream: it begins smaller by the root
 * of 2 layers. */
ICL_API icl_status icl_mixer_add_output(icl_mixer_builder *builder, const char *name, size_t inputs, size_t outputs,
                                        icl_error *error);

/* Adds `count` numbers [count] that begin at `value` and do not decay: gains, biases, rates. */
ICL_API icl_status icl_mixer_add_constants(icl_mixer_builder *builder, const char *name, size_t count, double value,
                                           icl_error *error);

ICL_C_END

#endif
