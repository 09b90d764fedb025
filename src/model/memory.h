/* The memory of a model that decodes; its functions for families are in iclab/model_family.h. */
#ifndef ICLAB_MODEL_MEMORY_H
#define ICLAB_MODEL_MEMORY_H

#include "iclab/model_family.h"

/* A tensor that a step leaves for the next one. */
typedef struct icl_model_memory_part {
    icl_tensor stored;
    bool is_stale; /* left by forgotten sequences: the next step sees zeros */
} icl_model_memory_part;

struct icl_model_memory {
    icl_backend *backend;
    size_t positions; /* the number that room is made for at first */
    size_t position;
    icl_model_memory_part *parts;
    size_t count, capacity;
    size_t next; /* the number of the part that this step asks for next */
};

/* Begins a step. */
void icl_model_memory_begin(icl_model_memory *memory);

/* Ends a step, which ran this many positions. */
void icl_model_memory_advance(icl_model_memory *memory, size_t positions);

void icl_model_memory_forget(icl_model_memory *memory);
void icl_model_memory_release(icl_model_memory *memory);

#endif
