/* What belongs to heat maps of linear transformers: the matrices of their layers, and how far
 * predictions move without a part. */
#ifndef ICLAB_REPORT_LAYER_MAPS_H
#define ICLAB_REPORT_LAYER_MAPS_H

#include "iclab/figure.h"
#include "probe/linear_layers.h"

typedef struct icl_layer_maps {
    size_t count;
    icl_heat_map *maps; /* [count]: P and Q of each head, layer by layer */
    char (*labels)[64]; /* as long as its longest */
} icl_layer_maps;

/* `layers` is borrowed, and of a model with d inputs. Released in any case. */
icl_status icl_layer_maps_create(const icl_model *model, size_t d, const icl_linear_layers *layers,
                                 icl_layer_maps *maps, icl_error *error);
void icl_layer_maps_release(icl_layer_maps *maps);

/* "1" and so on: names of as many layers as a heat map names. */
enum { ICL_NUMBERED_LAYERS = 24 };
extern const char *const icl_layer_numbers[ICL_NUMBERED_LAYERS];

/* Without a term of the first layers the prediction may move by any number of its sizes, and by none before the term
 * shows: powers of ten of that share, up to ICL_ABLATION_POWERS either way. Of what is not finite: the largest. */
#define ICL_ABLATION_POWERS 3.0
double icl_ablation_power(double share);

#endif
