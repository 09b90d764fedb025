/*
 * The cells of a reproduction, by name: what `--cells` lists and what `--only` chooses among.
 *
 * No table has them. A list runs the reproduction's own function, in which icl_reproduce_wants notes each name that it
 * is asked for and wants none; nothing is trained, judged or written then.
 */
#ifndef ICLAB_PAPERS_CELLS_H
#define ICLAB_PAPERS_CELLS_H

#include "papers/reproduce.h"

/* Zero is an empty list. */
typedef struct icl_cells {
    char *
        *names; /* [count], each once, in the order in which they run; the caller's, as icl_cells_release frees them */
    size_t count, capacity;
    icl_status status; /* of noting: the first failure, with its line */
    icl_error error;
} icl_cells;

void icl_cells_release(icl_cells *cells);

/* For icl_reproduce_wants: adds a name that is not there yet. */
void icl_cells_note(icl_cells *cells, const char *name);

/* Those of the reproduction at params->scale. Opens a device of the host, and closes it. */
icl_status icl_cells_list(const icl_reproduction *reproduction, const icl_reproduce_params *params, icl_cells *cells,
                          icl_error *error);

/* How many of the names contain the text, as `--only` has it. ICL_ERROR_INPUT where none does: the line has the nearest
 * name. */
icl_status icl_cells_check(const icl_cells *cells, const icl_reproduction *reproduction, const char *only,
                           size_t *matched, icl_error *error);

#endif
