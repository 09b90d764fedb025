/*
 * Linear-quadratic regulators of small plants: x' = A x + B u + p e, e ~ N(0, I), with the cost E(x^T x + u^T u) of a
 * step. The controller u = -K x of the least mean cost follows from the solution V of Riccati's equation
 *
 *     V = I + A^T V A - A^T V B (I + B^T V B)^-1 B^T V A,   K = (I + B^T V B)^-1 B^T V A,
 *
 * and its mean cost is p^2 tr V. That of any other K is p^2 tr V_K, V_K = I + K^T K + (A - B K)^T V_K (A - B K). All
 * matrices are row-major, in double.
 */
#ifndef ICLAB_PAPERS_PLANT_REGULATOR_H
#define ICLAB_PAPERS_PLANT_REGULATOR_H

#include <stdbool.h>

enum { ICL_PLANT_STATES = 4, ICL_PLANT_INPUTS = 2, ICL_PLANT_SEEN = ICL_PLANT_STATES + ICL_PLANT_INPUTS };

/* (A B), [states][states + inputs]. */
typedef struct icl_plant {
    double matrix[ICL_PLANT_STATES * ICL_PLANT_SEEN];
} icl_plant;

typedef struct icl_regulator {
    double gain[ICL_PLANT_INPUTS * ICL_PLANT_STATES];  /* K */
    double value[ICL_PLANT_STATES * ICL_PLANT_STATES]; /* V */
} icl_regulator;

/* Solves Riccati's equation by doubling (Chu, Fan, Lin, Wang 2004): after k steps V is that of the best controller for
 * 2^k steps. Returns false if nothing finite comes out, as for a plant that no controller makes stable. */
bool icl_plant_regulate(const icl_plant *plant, icl_regulator *best);

/* Returns tr V_K of u = -K x on the plant; infinity if the loop A - B K is not stable. */
double icl_plant_cost(const icl_plant *plant, const double *gain);

#endif
