/* What the parts of the reproduction "momentum-recurrence" share. */
#ifndef ICLAB_PAPERS_ARCHITECTURE_MOMENTUM_H
#define ICLAB_PAPERS_ARCHITECTURE_MOMENTUM_H

#include "papers/reproduce.h"

enum { ICL_MOMENTUM_MIXER = 64 };

/* The override of the mixer: momentum b, below 0 linear attention itself, behind the mixers `before`, as "conv,". */
void icl_momentum_mixer(const char *before, double momentum, char text[ICL_MOMENTUM_MIXER]);

/* Judges that b = 0 is linear attention, the factors of equal tokens, and states beside whole sequences. */
icl_status icl_momentum_judge_exact(icl_reproducing *run, icl_error *error);

#endif
