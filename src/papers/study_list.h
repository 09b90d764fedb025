/* Studies as the command sees them: their catalogue, trainings together with other processes, and lists of a study
 * without running it: its cells, its trainings, and its findings from planted numbers. */
#ifndef ICLAB_PAPERS_STUDY_LIST_H
#define ICLAB_PAPERS_STUDY_LIST_H

#include "papers/reproduce.h"
#include "papers/study.h"

/* ---- The catalogue (catalogue.c) ---- */

typedef struct icl_catalogue_row {
    const icl_reproduction *reproduction;
    const char *paper; /* "Zhang, Frei, Bartlett 2023, \"Trained transformers ...\" (arXiv ...)" */
} icl_catalogue_row;

/* Those that are built in, and the studies that are files of the folder tools/studies, beside that of the recipes. Zero
 * is an empty catalogue. */
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

/* ---- Trainings and findings ---- */

/* The reproductions of one command. */
typedef struct icl_reproduce_shared {
    const icl_reproduction *const *reproductions; /* [count] */
    const icl_reproduce_params *params;           /* [count]: one each; backend, report, progress and draw are unused */
    size_t count;
} icl_reproduce_shared;

/* Counts the trainings that are not finished. */
icl_status icl_study_count_unfinished(const icl_reproduce_shared *all, size_t *unfinished, icl_error *error);

/* Trains as a worker until all trainings are finished, including those of other workers. parent: see icl_work_list.
 * ICL_ERROR_INTERRUPTED if stopped. */
icl_status icl_study_train_all(const icl_reproduce_shared *all, icl_backend *backend, long parent, icl_error *error);

/* ---- Lists: a study can be listed without running it ---- */

/* Callbacks for the contents of a plan; each may be NULL. */
typedef struct icl_study_listener {
    icl_status (*cell)(void *user, const char *group, icl_error *error); /* each once */
    icl_status (*training)(void *user, const char *folder, const icl_recipe *recipe, icl_error *error);
    /* Findings from planted numbers: `plant` makes those of a cell. */
    icl_number (*plant)(void *user, const icl_study_cell *cell, size_t number);
    void (*finding)(void *user, const icl_finding *finding);
    void (*figure)(void *user, const icl_figure *figure);
    void (*heat_maps)(void *user, const icl_heat_figure *figure);
    void *user;
} icl_study_listener;

/* Lists what params->only selects; trains, measures and writes nothing. */
icl_status icl_study_list(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                          const icl_study_listener *listener, icl_error *error);

#endif
