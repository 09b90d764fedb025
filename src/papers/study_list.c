#include "papers/study_list.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "papers/record.h"
#include "papers/study_frame.h"

static icl_status list_cell(const icl_study *study, size_t index, const icl_study_listener *listener,
                            icl_error *error) {
    const kept_cell *kept = (const kept_cell *)study->cells[index];
    bool is_first = !kept->cell.is_helper;

    for (size_t i = 0; i < index; i++)
        is_first = is_first && (study->cells[i]->is_helper || strcmp(study->cells[i]->group, kept->group) != 0);
    if (listener->cell && is_first)
        ICL_CHECK(listener->cell(listener->user, kept->group, error));
    if (listener->training && icl_study_trains(study, kept) && kept->recipe && !kept->cell.is_untrained)
        ICL_CHECK(listener->training(listener->user, kept->folder, kept->recipe, error));
    return ICL_OK;
}

static icl_status plant(icl_study *study, kept_cell *kept, icl_error *error) {
    const icl_study_listener *listener = study->run->listener;
    const size_t count = study->run->reproduction->numbers;

    if (!kept->cell.is_wanted || count == 0)
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, sizeof *kept->numbers, "numbers", &kept->numbers, error));
    for (size_t i = 0; i < count; i++)
        kept->numbers[i] = listener->plant(listener->user, &kept->cell, i);
    kept->cell.numbers = kept->numbers;
    kept->cell.is_measured = true;
    return ICL_OK;
}

icl_status icl_study_list(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                          const icl_study_listener *listener, icl_error *error) {
    icl_reproduce_params own = *params;
    icl_reproducing run = {.params = &own, .reproduction = reproduction, .listener = listener};
    icl_study_frame frame;
    icl_study study;
    icl_status status = ICL_OK;

    own.seed = own.seed == 0 ? 1 : own.seed;
    ICL_TRY(icl_study_open(&run, &frame, &study, error));
    for (size_t i = 0; i < study.count; i++)
        ICL_TRY(list_cell(&study, i, listener, error));
    for (size_t i = 0; listener->plant && i < study.count; i++)
        ICL_TRY(plant(&study, (kept_cell *)study.cells[i], error));
    if (listener->plant)
        status = icl_study_judge_all(&study, error);
done:
    icl_record_release(&run);
    icl_study_close(&study);
    return status;
}

/* ---- Cells ---- */

void icl_cells_release(icl_cells *cells) {
    for (size_t i = 0; i < cells->count; i++)
        icl_free(&cells->names[i]);
    icl_free(&cells->names);
    *cells = (icl_cells){0};
}

static icl_status hear_cell(void *user, const char *group, icl_error *error) {
    icl_cells *cells = user;

    ICL_CHECK(icl_grow(&cells->names, cells->count, &cells->capacity, sizeof *cells->names, "names of cells", error));
    ICL_CHECK(icl_duplicate(group, &cells->names[cells->count], error));
    cells->count++;
    return ICL_OK;
}

icl_status icl_cells_list(const icl_reproduction *reproduction, const icl_reproduce_params *params, icl_cells *cells,
                          icl_error *error) {
    return icl_study_list(reproduction, params, &(icl_study_listener){.cell = hear_cell, .user = cells}, error);
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

/* ---- Trainings ---- */

/* Values of a file come from "FOLDERS/NAME:LINE". */
static void file_of(const icl_recipe *recipe, char *name, size_t size) {
    name[0] = '\0';
    for (size_t i = 0; i < recipe->key_count && name[0] == '\0'; i++) {
        const char *file = icl_path_name(recipe->values[i].origin), *line = strrchr(file, ':');
        if (line)
            snprintf(name, size, "%.*s", (int)(line - file), file);
    }
}

icl_status icl_training_describe(const icl_recipe *recipe, char *file, size_t size, icl_text *settings,
                                 icl_error *error) {
    file_of(recipe, file, size);
    return icl_recipe_print_overrides(recipe, settings, error);
}
