/*
 * Curves of studies over seeds: a quantity against a swept setting, each point the mean over seeds with its standard
 * error.
 *
 * A study adds the value of each seed as it comes, and draws at the end: a figure with error bars, its rows in
 * curves.csv, and a table in the report.
 */
#ifndef ICLAB_PAPERS_CURVES_H
#define ICLAB_PAPERS_CURVES_H

#include "papers/reproduce.h"
#include "report/curves.h"

/* Draws the figure, and adds its points to curves.csv and to the report, in place of the points of an earlier figure of
 * that name in this run. Draws nothing if all our values are NaN, because then its cells were not asked for. */
icl_status icl_curves_draw(icl_reproducing *run, const icl_curves *curves, icl_error *error);

#endif
