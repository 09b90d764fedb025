/* Groups of permutations of a few points, element by element. */
#ifndef ICLAB_TASK_STATE_H
#define ICLAB_TASK_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum { ICL_MOST_POINTS = 5, ICL_MOST_PERMUTATIONS = 120 };

/* Element e takes point i to images[e][i]. Elements stand in the order of a dictionary, so that 0 is the identity. */
typedef struct icl_permutations {
    size_t points, count;
    unsigned char images[ICL_MOST_PERMUTATIONS][ICL_MOST_POINTS];
} icl_permutations;

/* Lists all permutations of up to ICL_MOST_POINTS points, S_n, or only the even ones, A_n. */
icl_permutations icl_permutations_list(size_t points, bool even);

#endif
