#include "papers/cells.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/nearest.h"
#include "papers/share.h"
#include "papers/study.h"

void icl_cells_release(icl_cells *cells) {
    for (size_t i = 0; i < cells->count; i++)
        icl_free(&cells->names[i]);
    icl_free(&cells->names);
    *cells = (icl_cells){0};
}

static icl_status add(icl_cells *cells, const char *name, icl_error *error) {
    ICL_CHECK(icl_grow(&cells->names, cells->count, &cells->capacity, sizeof *cells->names, "names of cells", error));
    ICL_CHECK(icl_duplicate(name, &cells->names[cells->count], error));
    cells->count++;
    return ICL_OK;
}

void icl_cells_note(icl_cells *cells, const char *name) {
    for (size_t i = 0; i < cells->count; i++)
        if (strcmp(cells->names[i], name) == 0)
            return;
    if (cells->status == ICL_OK)
        cells->status = add(cells, name, &cells->error);
}

static icl_status hear_cell(void *user, const char *group, icl_error *error) {
    return add(user, group, error);
}

icl_status icl_cells_list(const icl_reproduction *reproduction, const icl_reproduce_params *params, icl_cells *cells,
                          icl_error *error) {
    icl_training_share share = {.counts = true};

    if (reproduction->plan)
        return icl_study_list(reproduction, params, &(icl_study_listener){.cell = hear_cell, .user = cells}, error);
    ICL_CHECK(icl_reproduce_look(&(icl_reproducing){params, reproduction, .share = &share, .cells = cells}, error));
    return cells->status == ICL_OK ? ICL_OK : icl_fail(error, cells->status, "%s", cells->error.message);
}

icl_status icl_cells_check(const icl_cells *cells, const icl_reproduction *reproduction, const char *only,
                           size_t *matched, icl_error *error) {
    *matched = 0;
    for (size_t i = 0; i < cells->count; i++)
        *matched += strstr(cells->names[i], only) != NULL;
    if (*matched > 0)
        return ICL_OK;
    if (cells->count == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --only %s: %s has no cells to choose among", only,
                        reproduction->name);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "reproduce: --only %s: no cell's name contains that; the nearest known one is %s "
                    "(iclab reproduce %s --cells lists them)",
                    only, icl_nearest(only, (const char *const *)cells->names, cells->count),
                    reproduction->file ? reproduction->file : reproduction->name);
}
