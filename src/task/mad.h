/* Inside the family mad: what its tasks share, and what writes their sequences. */
#ifndef ICLAB_TASK_MAD_H
#define ICLAB_TASK_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/random.h"

enum { ICL_MAD_MOST_MOTIF = 8 };

/* task.skill. */
typedef enum icl_mad_skill {
    ICL_MAD_IN_CONTEXT_RECALL = 0,
    ICL_MAD_NOISY_RECALL,
    ICL_MAD_FUZZY_RECALL,
    ICL_MAD_COPYING,
    ICL_MAD_SELECTIVE_COPYING,
    ICL_MAD_COMPRESSION,
    ICL_MAD_MEMORISATION
} icl_mad_skill;

/* A task of the family. The symbols first_asked … first_asked + asked - 1 are those that evaluation can ask for. */
typedef struct icl_mad {
    icl_mad_skill skill;
    size_t length, symbols;    /* L, V */
    size_t keys;               /* K: symbols 0 … K - 1; 0 where a task has none */
    size_t first_asked, asked; /* values, or what is copied */
    size_t noise_symbols;      /* behind the values; 0: none */
    uint64_t noise_below;      /* a word below it makes a pair noise: 2^32 task.noise_share */
    size_t motif;              /* most symbols of a key and of a value; 1 but for fuzzy recall */
    size_t copied;
    bool trains_on_all;
    uint32_t *facts; /* of memorisation, [K]: the value of each key, counted from first_asked */
} icl_mad;

/* The words of one sequence, one after the other. */
typedef struct icl_mad_words {
    icl_random_key key;
    uint64_t next;
} icl_mad_words;

/* One of `count`: number floor(w count / 2^32) by the next word w. */
size_t icl_mad_draw(icl_mad_words *words, size_t count);

/* A key and its value. */
typedef struct icl_mad_pair {
    size_t key_size, value_size;
    uint32_t key[ICL_MAD_MOST_MOTIF], value[ICL_MAD_MOST_MOTIF];
} icl_mad_pair;

/* What the recall of pairs works on: the tokens of a sequence, and the pairs that it has shown. */
typedef struct icl_mad_context {
    uint32_t *tokens;    /* [L] */
    bool *asked;         /* [L]: part of the value of a key that was shown before */
    icl_mad_pair *shown; /* [L / 2 + 1] */
    size_t used, pairs;
} icl_mad_context;

/* Draws the tokens of a sequence of a task of recall. In evaluation keys have the longest motif. */
void icl_mad_recall(const icl_mad *task, bool evaluation, icl_mad_words *words, icl_mad_context *context);

/* Draws `count` distinct places below `of` in ascending order: all sets are equally likely. */
void icl_mad_places(icl_mad_words *words, size_t of, size_t count, uint32_t *places);

#endif
