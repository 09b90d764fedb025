/* The record that a reproduction leaves for people: report.html. */
#ifndef ICLAB_PAPERS_RECORD_H
#define ICLAB_PAPERS_RECORD_H

#include "papers/reproduce.h"

/* Removes the report that the folder has, so that no report contradicts findings.csv if this run does not come to its
 * end. */
icl_status icl_record_discard(const icl_reproducing *run, icl_error *error);

/* Begins the report, adds a finding to it, and writes it with the figures that were drawn and how it all came about. */
icl_status icl_record_begin(icl_reproducing *run, icl_error *error);
icl_status icl_record_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error);
icl_status icl_record_end(icl_reproducing *run, double seconds, icl_error *error);
void icl_record_release(icl_reproducing *run);

#endif
