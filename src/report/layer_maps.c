#include "report/layer_maps.h"

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"

const char *const icl_layer_numbers[ICL_NUMBERED_LAYERS] = {"1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",
                                                            "9",  "10", "11", "12", "13", "14", "15", "16",
                                                            "17", "18", "19", "20", "21", "22", "23", "24"};

static void add_map(const icl_linear_layers *layers, size_t layer, size_t head, size_t heads, icl_model_part part,
                    size_t d, icl_layer_maps *maps) {
    char *label = maps->labels[maps->count];
    const char *name = part == ICL_MODEL_P ? "P" : "Q";

    if (heads > 1)
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu, head %zu", name, layer + 1, head + 1);
    else
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu", name, layer + 1);
    maps->maps[maps->count++] = (icl_heat_map){
        .label = label, .rows = d + 1, .columns = d + 1, .values = icl_linear_layers_matrix(layers, layer, head, part)};
}

icl_status icl_layer_maps_create(const icl_model *model, size_t d, const icl_linear_layers *layers,
                                 icl_layer_maps *maps, icl_error *error) {
    const size_t depth = icl_model_layers(model), heads = icl_model_heads(model);

    *maps = (icl_layer_maps){0};
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->maps, "heat maps", &maps->maps, error));
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->labels, "labels", &maps->labels, error));
    for (size_t layer = 0; layer < depth; layer++)
        for (size_t head = 0; head < heads; head++) {
            add_map(layers, layer, head, heads, ICL_MODEL_P, d, maps);
            add_map(layers, layer, head, heads, ICL_MODEL_Q, d, maps);
        }
    return ICL_OK;
}

void icl_layer_maps_release(icl_layer_maps *maps) {
    icl_free(&maps->maps);
    icl_free(&maps->labels);
}

double icl_ablation_power(double share) {
    if (!isfinite(share))
        return ICL_ABLATION_POWERS;
    return share > 0 ? fmax(-ICL_ABLATION_POWERS, fmin(ICL_ABLATION_POWERS, log10(share))) : -ICL_ABLATION_POWERS;
}
