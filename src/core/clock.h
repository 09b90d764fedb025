#ifndef ICLAB_CORE_CLOCK_H
#define ICLAB_CORE_CLOCK_H

/* Seconds since some moment in the past, by a clock that nobody sets. */
double icl_clock_seconds(void);

#endif
