/* The record that a reproduction leaves: findings.csv, curves.csv and report.html. */
#ifndef ICLAB_PAPERS_RECORD_H
#define ICLAB_PAPERS_RECORD_H

#include "papers/reproduce.h"

/* Begins both; adds a finding to them and writes the table, the first in place of what the folder had; and writes the
 * report with the figures that were drawn and how it all came about. */
icl_status icl_record_begin(icl_reproducing *run, icl_error *error);
icl_status icl_record_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error);
icl_status icl_record_end(icl_reproducing *run, double seconds, icl_error *error);
void icl_record_release(icl_reproducing *run);

/* The points of curves: one more; none of that figure; all of them to curves.csv. The report has them as a table. */
icl_status icl_record_curve(icl_reproducing *run, const icl_curve_row *row, icl_error *error);
void icl_record_forget_curves(icl_reproducing *run, const char *figure);
icl_status icl_record_write_curves(const icl_reproducing *run, icl_error *error);
icl_status icl_record_report_curves(const icl_reproducing *run, icl_error *error);

#endif
