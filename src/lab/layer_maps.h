/* The matrices of a linear transformer's layers as heat maps. */
#ifndef ICLAB_LAB_LAYER_MAPS_H
#define ICLAB_LAB_LAYER_MAPS_H

#include "lab/figure.h"
#include "probe/linear_layers.h"

typedef struct icl_layer_maps {
    size_t count;
    icl_heat_map *maps; /* [count]: P and Q of each head, layer by layer */
    char (*labels)[48];
} icl_layer_maps;

/* `layers` is borrowed, and of a model with d inputs. Released in any case. */
icl_status icl_layer_maps_create(const icl_model *model, size_t d, const icl_linear_layers *layers,
                                 icl_layer_maps *maps, icl_error *error);
void icl_layer_maps_release(icl_layer_maps *maps);

#endif
