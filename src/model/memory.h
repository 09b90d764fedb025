/* What a model that decodes remembers; its functions for families stand in iclab/model_family.h. */
#ifndef ICLAB_MODEL_MEMORY_H
#define ICLAB_MODEL_MEMORY_H

#include "iclab/model_family.h"

/* A tensor that a step leaves for the next one. */
typedef struct icl_model_memory_part {
    icl_tensor stored;
    bool is_stale; /* of sequences that are forgotten: zeros to the next step */
} icl_model_memory_part;

struct icl_model_memory {
    icl_backend *backend;
    size_t positions; /* that room is made for at first */
    size_t position;
    icl_model_memory_part *parts;
    size_t count, capacity;
    size_t next; /* the part that this step asks for next */
};

/* Before each step. */
void icl_model_memory_begin(icl_model_memory *memory);

/* After it. */
void icl_model_memory_advance(icl_model_memory *memory, size_t positions);

void icl_model_memory_forget(icl_model_memory *memory);
void icl_model_memory_release(icl_model_memory *memory);

#endif
