/*
 * The random streams that tasks draw from (random.h: the second word of the key).
 *
 * One stream per purpose and role, so that training, evaluation and fitting never share a number, nor do the inputs
 * and the noise of one sequence. The upper 16 bits are the room's own, which keeps other rooms' streams apart.
 */
#ifndef ICLAB_TASK_STREAMS_H
#define ICLAB_TASK_STREAMS_H

#include "iclab/task.h"

#define ICL_TASK_STREAMS 0x74610000u

typedef enum icl_task_role {
    ICL_ROLE_INPUTS = 0,  /* numbers that x_1 … x_n and the query x_t are made from, [B, n + 1, d] */
    ICL_ROLE_LABEL_NOISE, /* normals eps_i, [B, n, 1] */
    ICL_ROLE_WEIGHTS,     /* normals that w is made from, [B, d, 1] */
    ICL_ROLE_NOISE_LEVEL, /* sigma, [B, 1, 1] */
    ICL_ROLE_COUNT
} icl_task_role;

/* The first streams of draws without a role, one for each purpose. As roles they would move the streams of others. */
enum icl_streams {
    ICL_RECALL_STREAMS = ICL_TASK_STREAMS + 0x1000u, /* task.family = recall */
    ICL_RECALL_FILLER_STREAMS = ICL_TASK_STREAMS + 0x1080u,
    ICL_STATE_STREAMS = ICL_TASK_STREAMS + 0x1100u,
    ICL_ASSOCIATIVE_STREAMS = ICL_TASK_STREAMS + 0x1200u,
    ICL_DYNAMICAL_STREAMS = ICL_TASK_STREAMS + 0x1400u,
    /* task.family = classification: kinds, classes, labels, order, query and offset; normals of items, [B, N + 1, D];
     * normals that fresh centres are made from, [B, N, D]. Its classes belong to the run, by task.class_seed. */
    ICL_CLASSIFICATION_STREAMS = ICL_TASK_STREAMS + 0x1500u,
    ICL_CLASSIFICATION_NOISE_STREAMS = ICL_TASK_STREAMS + 0x1510u,
    ICL_CLASSIFICATION_FRESH_STREAMS = ICL_TASK_STREAMS + 0x1520u,
    ICL_CLASSIFICATION_CENTRES = ICL_TASK_STREAMS + 0x15f0u,
    ICL_CLASSIFICATION_LABELS = ICL_TASK_STREAMS + 0x15f1u,
    ICL_MAD_STREAMS = ICL_TASK_STREAMS + 0x1600u, /* task.family = mad; its memorised values belong to the run */
    ICL_MAD_FACTS_STREAM = ICL_TASK_STREAMS + 0x16ffu,
    /* task.family = function-classes; its pool belongs to the run, by task.pool_seed. */
    ICL_CLASSES_STREAMS = ICL_TASK_STREAMS + 0x1700u,
    ICL_CLASSES_INPUT_STREAMS = ICL_TASK_STREAMS + 0x1710u,
    ICL_CLASSES_NOISE_STREAMS = ICL_TASK_STREAMS + 0x1720u,
    ICL_CLASSES_CHOICE_STREAMS = ICL_TASK_STREAMS + 0x1730u,
    ICL_CLASSES_RARE_STREAMS = ICL_TASK_STREAMS + 0x1740u,   /* heavy tails and outliers */
    ICL_CLASSES_NETWORK_STREAM = ICL_TASK_STREAMS + 0x17feu, /* start of the predictor network */
    ICL_CLASSES_POOL_STREAM = ICL_TASK_STREAMS + 0x17ffu,
    ICL_GRAPH_STREAMS = ICL_TASK_STREAMS + 0x1800u,          /* task.family = graphs */
    ICL_TABLE_STREAMS = ICL_TASK_STREAMS + 0x1a00u,          /* task.family = tables */
    ICL_AUTOREGRESSION_STREAMS = ICL_TASK_STREAMS + 0x1b00u, /* task.family = autoregression */
    ICL_TEXT_STREAMS = ICL_TASK_STREAMS + 0x1c00u,           /* task.family = text */
    ICL_RULES_STREAMS = ICL_TASK_STREAMS + 0x1d00u, /* task.family = rules; its pool of maps belongs to the run */
    ICL_RULES_POOL_STREAM = ICL_TASK_STREAMS + 0x1dffu,
    /* task.family = markov: symbols and states; chains of sequences. Its pool belongs to the run, by task.pool_seed. */
    ICL_MARKOV_STREAMS = ICL_TASK_STREAMS + 0x1900u,
    ICL_MARKOV_CHAIN_STREAMS = ICL_TASK_STREAMS + 0x1910u,
    ICL_MARKOV_POOL_STREAM = ICL_TASK_STREAMS + 0x19ffu,
    /* The slopes and the offset of task.family = functions, which has every role above as well. */
    ICL_COEFFICIENT_STREAMS = ICL_TASK_STREAMS + 0x2000u,
    ICL_RADIUS_STREAMS = ICL_TASK_STREAMS + 0x4000u, /* normals that radii of inputs are made from, [B, n + 1, 1] */
    /* With task.sampler = gram a sequence's numbers are neighbours in one stream, because one op draws them:
     * icl_gram_sample, which states their order. A context of such a batch shares no numbers with the tokens of the
     * same step. */
    ICL_GRAM_STREAMS = ICL_TASK_STREAMS + 0x8000u,
    /* The rotation of the covariance belongs to the run, not to a batch; its seed is task.rotation_seed. */
    ICL_ROTATION_STREAM = ICL_TASK_STREAMS + 0xffffu
};

static inline uint32_t icl_stream_for(icl_task_purpose purpose, enum icl_streams first) {
    return (uint32_t)first + (uint32_t)purpose;
}

static inline uint32_t icl_task_stream(icl_task_purpose purpose, icl_task_role role) {
    return ICL_TASK_STREAMS + (uint32_t)purpose * ICL_ROLE_COUNT + (uint32_t)role;
}

#endif
