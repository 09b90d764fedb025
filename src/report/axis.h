/* Axes of figures: a range that holds every point with room about it, and where numbers stand on it. We choose both,
 * because gnuplot's own ranges end in a point or cut its mark, and it warns of a range that is empty. */
#ifndef ICLAB_REPORT_AXIS_H
#define ICLAB_REPORT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/text.h"

typedef struct icl_figure_axis {
    double low, high; /* of the values so far; low > high: none */
    bool is_log;      /* takes values above 0 alone */
    bool is_whole;    /* all values are whole numbers */
} icl_figure_axis;

icl_figure_axis icl_figure_axis_create(bool is_log);

/* Takes values in; those that are not finite, or not above 0 on a logarithmic axis, are none. */
void icl_figure_axis_add(icl_figure_axis *axis, const double *values, size_t count);

/* Adds the commands for the axis "x" or "y": its range, with room at either end, and its numbers. Whole values get
 * whole numbers where `wants_whole`. An axis without values goes from 0 to 1. */
icl_status icl_figure_axis_write(const icl_figure_axis *axis, const char *name, bool wants_whole, icl_text *script,
                                 icl_error *error);

#endif
