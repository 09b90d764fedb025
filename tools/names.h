/* Names of folders that are made of what a user typed. */
#ifndef ICLAB_TOOLS_NAMES_H
#define ICLAB_TOOLS_NAMES_H

#include "iclab/text.h"
#include "options.h"

/* Adds letters, digits, '.', '_' and '+' as they are and every run of other characters as one '-'. */
icl_status add_plain_name(icl_text *name, const char *text, icl_error *error);

/* RUN/WHAT, or below it a folder for these --set: RUN/eval/noise-fixed-1_sequences-200. Freed with icl_free. */
icl_status folder_of_overrides(const char *run, const char *what, const option_list *overrides, char **folder,
                               icl_error *error);

#endif
