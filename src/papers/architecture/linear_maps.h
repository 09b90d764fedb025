/* Linearity scores (probe/linearity.h) of maps whose score is known: linear ones, and independent noise. */
#ifndef ICLAB_PAPERS_ARCHITECTURE_LINEAR_MAPS_H
#define ICLAB_PAPERS_ARCHITECTURE_LINEAR_MAPS_H

#include "papers/reproduce.h"

icl_status icl_linear_maps_judge(icl_reproducing *run, icl_error *error);

#endif
