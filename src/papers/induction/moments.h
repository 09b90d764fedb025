/* What a training with a plateau and a drop went through: the loss, and what the heads look at (heads.h), behind some
 * of its steps. */
#ifndef ICLAB_PAPERS_INDUCTION_MOMENTS_H
#define ICLAB_PAPERS_INDUCTION_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>

enum { ICL_MOST_MOMENTS = 512 };

/* What is measured behind so many steps. */
typedef struct icl_moment {
    double step, loss, previous, induction;
} icl_moment;

typedef struct icl_moments {
    icl_moment all[ICL_MOST_MOMENTS];
    size_t count;
} icl_moments;

/* The level of the longest stretch of moments whose losses lie within the band of each other, after the start and
 * before the drop, which is over at half of log 2; NaN where there is none. *length receives its steps. */
#define ICL_MOMENTS_BAND 0.15

double icl_moments_plateau(const icl_moments *moments, double *length);

/* The first step with a loss below; NaN for never. */
double icl_moments_below(const icl_moments *moments, double loss);

/* The first step at which a pattern, that of layer 2 or of layer 1, stands this far above the least it was before; NaN
 * for never. It tells when a pattern sets in, and not how long it goes on to grow: that of layer 1 does so long after
 * the drop. */
#define ICL_MOMENTS_RISE 0.1

double icl_moments_onset(const icl_moments *moments, bool induction);

#endif
