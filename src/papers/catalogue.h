/* The catalogue of reproductions: those that are built in, and the studies that are files of the folder tools/studies,
 * beside that of the recipes. */
#ifndef ICLAB_PAPERS_CATALOGUE_H
#define ICLAB_PAPERS_CATALOGUE_H

#include "papers/reproduce.h"

typedef struct icl_catalogue_row {
    const icl_reproduction *reproduction;
    const char *paper; /* "Zhang, Frei, Bartlett 2023, \"Trained transformers ...\" (arXiv ...)" */
} icl_catalogue_row;

/* Zero is an empty catalogue. */
typedef struct icl_catalogue {
    icl_catalogue_row *rows; /* [count], paper by paper; a file stands behind the others of its paper */
    size_t count, capacity;
    struct icl_study_file **files; /* [file_count] */
    size_t file_count, file_capacity;
} icl_catalogue;

/* Reads the catalogue. ICL_ERROR_INPUT names file and line of an error in a study's file. Close it in any case. */
icl_status icl_catalogue_open(icl_catalogue *catalogue, icl_error *error);
void icl_catalogue_close(icl_catalogue *catalogue);

/* Finds a reproduction by its name; it lives as long as the catalogue. ICL_ERROR_INPUT names the nearest known name. */
icl_status icl_catalogue_find(const icl_catalogue *catalogue, const char *name, const icl_reproduction **reproduction,
                              icl_error *error);

#endif
