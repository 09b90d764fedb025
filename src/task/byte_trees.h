/* Internals of the task room: Bayes over trees of contexts of bytes, which learn while they predict. */
#ifndef ICLAB_TASK_BYTE_TREES_H
#define ICLAB_TASK_BYTE_TREES_H

#include "task/text.h"

/* The most contexts that are kept, and the bytes of memory that they take. */
#define ICL_MOST_CONTEXTS      ((size_t)1 << 22)
#define ICL_BYTES_OF_A_CONTEXT ((size_t)32)

typedef struct icl_tree_node icl_tree_node;

/*
 * Context-tree weighting of bytes (Willems, Shtarkov, Tjalkens 1995; of text as bits, Tjalkens, Volf, Willems 1997). A
 * byte is eight binary decisions, the highest bit first; each of the 255 decisions, named by the bits before it, has a
 * tree of contexts of its own, whose node of d bytes stands for the d bytes before. A node is a leaf with probability
 * 1/2, and at depth D always; a leaf's decisions have one probability ~ Beta(1/2, 1/2), so that after a zeros and b
 * ones the next is 1 with probability (b + 1/2) / (a + b + 1). With P_e(s) the probability of what came behind s if s
 * is a leaf,
 *
 *     P_w(s) = 1/2 P_e(s) + 1/2 prod_c P_w(c s),   P_w = P_e at depth D
 *
 * Behind a context that reaches before the beginning, or for which there is no room, both decisions are equally likely.
 */
typedef struct icl_byte_trees {
    size_t depth, most;   /* D, and the most contexts */
    size_t contexts;      /* those that are kept; the roots are the first 255 */
    icl_tree_node *nodes; /* [room], number 0 is none; the rest is private */
    uint32_t *table;      /* [slots], the number of a node; 0: free */
    size_t room, slots;   /* slots, a power of two, are twice as many */
} icl_byte_trees;

/* The calls that build trees and ask them. */
typedef struct icl_byte_trees_functions {
    /* Creates trees that know nothing. `most` contexts at most are kept, from 256 to ICL_MOST_CONTEXTS; the depth is
     * ICL_MOST_ORDER or less. */
    icl_status (*create)(size_t depth, size_t most, icl_byte_trees **trees, icl_error *error);
    void (*destroy)(icl_byte_trees **trees);

    /* Forgets everything. */
    void (*clear)(icl_byte_trees *trees);

    /* Takes in the byte behind a context of `length` bytes, of which the last D count. ICL_ERROR_MEMORY. */
    icl_status (*add)(icl_byte_trees *trees, const unsigned char *context, size_t length, unsigned char byte,
                      icl_error *error);

    /* Writes p [256], the probabilities of the byte behind a context of `length` bytes. */
    void (*predict)(const icl_byte_trees *trees, const unsigned char *context, size_t length, double p[ICL_BYTES]);
} icl_byte_trees_functions;

extern const icl_byte_trees_functions icl_trees;

#endif
