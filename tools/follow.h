/* Who follows a training while it runs: --metrics. */
#ifndef ICLAB_TOOLS_FOLLOW_H
#define ICLAB_TOOLS_FOLLOW_H

#include "iclab/metrics_stream.h"

typedef struct followers {
    const char *metrics; /* as the option names it; NULL: not asked for */
    icl_metrics_stream *stream;
    icl_session_follower follower; /* of a session */
} followers;

/* Opens what is asked for, and changes nothing that is there: before the run's folder is taken. A training that resumes
 * goes on behind `step`. */
icl_status followers_open(followers *all, bool resumes, uint64_t step, icl_error *error);

/* Closes it, and says on stderr what did not arrive: that is no failure of the training. */
void followers_end(followers *all);

#endif
