#include "reproduce_lists.h"

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/json.h"
#include "papers/study_list.h"

/* ---- Reproductions ---- */

static icl_status print_reproduction(const icl_reproduction *reproduction, const char *paper, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "name", reproduction->name);
    icl_json_text(&json, "paper", paper);
    icl_json_text(&json, "source", reproduction->source);
    icl_json_text(&json, "about", reproduction->about);
    for (int scale = 0; scale < ICL_SCALES; scale++) {
        char member[32];
        snprintf(member, sizeof member, "cost_%s", icl_scale_name((icl_scale)scale));
        icl_json_text(&json, member, reproduction->cost[scale] ? reproduction->cost[scale] : "");
    }
    return print_json_line(&json, error);
}

icl_status list_reproductions(bool json, icl_error *error) {
    size_t count, width = 0;
    const icl_reproduction *const *table = icl_reproductions(&count);

    for (size_t i = 0; i < count; i++)
        width = strlen(table[i]->name) > width ? strlen(table[i]->name) : width;
    const int columns = (int)width;
    if (!json)
        printf("  %-*s %8s %8s %8s  %s\n", columns, "name", "ci", "short", "full", "what it shows");
    for (size_t i = 0; i < count; i++) {
        const icl_reproduction *r = table[i];
        const char *paper = icl_reproduction_paper(i);
        if (json) {
            ICL_CHECK(print_reproduction(r, paper, error));
            continue;
        }
        if (i == 0 || paper != icl_reproduction_paper(i - 1))
            printf("\n%s\n", paper);
        printf("  %-*s %8s %8s %8s  %s\n", columns, r->name, r->cost[ICL_SCALE_CI], r->cost[ICL_SCALE_SHORT],
               r->cost[ICL_SCALE_FULL] ? r->cost[ICL_SCALE_FULL] : "-", r->about);
    }
    if (!json)
        printf("\nTimes are of two cores. iclab reproduce NAME --scale ci|short|full; the name all runs "
               "every one.\n");
    return finish_output(error);
}

/* ---- Cells ---- */

typedef struct listing {
    const icl_reproduction *reproduction;
    const icl_reproduce_params *params;
    bool json;
    size_t count;
} listing;

static icl_json row_of(const listing *is, const char *member, const char *name) {
    icl_json json = {0};

    icl_json_text(&json, "reproduction", is->reproduction->name);
    icl_json_text(&json, "scale", icl_scale_name(is->params->scale));
    icl_json_text(&json, member, name);
    return json;
}

static icl_status print_cell(const listing *is, const char *cell, icl_error *error) {
    if (!is->json) {
        printf("%s\n", cell);
        return ICL_OK;
    }
    icl_json json = row_of(is, "cell", cell);
    return print_json_line(&json, error);
}

static icl_status find_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, icl_cells *cells,
                             icl_error *error) {
    size_t matched;

    ICL_CHECK(icl_cells_list(reproduction, params, cells, error));
    return params->only ? icl_cells_check(cells, reproduction, params->only, &matched, error) : ICL_OK;
}

icl_status list_cells(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                      icl_error *error) {
    const listing is = {reproduction, params, json, 0};
    icl_cells cells = {0};
    icl_status status = ICL_OK;

    ICL_TRY(find_cells(reproduction, params, &cells, error));
    for (size_t i = 0; i < cells.count; i++)
        if (!params->only || strstr(cells.names[i], params->only))
            ICL_TRY(print_cell(&is, cells.names[i], error));
    if (cells.count == 0 && !json)
        printf("%s runs as a whole: it has no cells to choose among\n", reproduction->name);
    status = finish_output(error);
done:
    icl_cells_release(&cells);
    return status;
}

/* ---- Trainings ---- */

static icl_status print_training(void *user, const char *name, const icl_recipe *recipe, icl_error *error) {
    listing *is = user;
    icl_text settings = {0};
    char file[128];
    icl_status status = ICL_OK;

    is->count++;
    ICL_TRY(icl_training_describe(recipe, file, sizeof file, &settings, error));
    const char *text = settings.bytes ? settings.bytes : "";
    if (is->json) {
        icl_json json = row_of(is, "training", name);
        icl_json_text(&json, "recipe", file);
        icl_json_text(&json, "settings", text);
        ICL_TRY(print_json_line(&json, error));
    } else
        printf("%s  %s  %s\n", name, file, text);
done:
    icl_text_release(&settings);
    return status;
}

icl_status list_trainings(const icl_reproduction *reproduction, const icl_reproduce_params *params, bool json,
                          icl_error *error) {
    listing is = {reproduction, params, json, 0};

    icl_cells cells = {0};
    icl_status status = ICL_OK;

    ICL_TRY(find_cells(reproduction, params, &cells, error));
    ICL_TRY(
        icl_study_list(reproduction, params, &(icl_study_listener){.training = print_training, .user = &is}, error));
    if (is.count == 0 && !json)
        printf("%s has no trainings in folders\n", reproduction->name);
    status = finish_output(error);
done:
    icl_cells_release(&cells);
    return status;
}
