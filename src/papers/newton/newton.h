/* The parts of newton-descent that stand in files of their own. */
#ifndef ICLAB_PAPERS_NEWTON_NEWTON_H
#define ICLAB_PAPERS_NEWTON_NEWTON_H

#include "papers/reproduce.h"

/* Damped Newton steps on logistic regressions: one in full, and the worst of so many. */
icl_status icl_newton_judge_logistic(icl_reproducing *run, size_t problems, icl_error *error);

#endif
