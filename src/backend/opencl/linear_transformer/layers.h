/* The layers of a linear transformer, and their reverses: full.c, tokens.c, pass.c and head.c write their steps, and
 * program.c puts them in order. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LAYERS_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LAYERS_H

#include "backend/opencl/linear_transformer/composer.h"

/* Makes A of a layer, and where parts are dense R^T of each head. */
void icl_compose_form(composer *c, cl_uint layer);

/* Composes the step from d_A in the place c->x to the gradients of a layer's diagonal parts, and to M in c->m where
 * layers come before. */
void icl_compose_weight_gradients(composer *c, cl_uint layer);

/* Carries a layer on: G and q to those after it. */
void icl_compose_full_layer(composer *c, cl_uint layer);

/* Its reverse: S in the place of gram(c), d_q from `d_query`, to `d_before` where there are layers before. */
void icl_compose_full_layer_backwards(composer *c, cl_uint layer, cl_uint d_query, cl_uint d_before);

/* In token space (tokens.c): reads the tokens; a layer that is carried on; where the query stands after all of
 * them; and the way back through them, from S in the place of gram(c) and c->d_query. */
void icl_compose_token_input(composer *c);
void icl_compose_token_layer(composer *c, cl_uint layer);
cl_uint icl_compose_token_query(const composer *c);
void icl_compose_token_layers_backwards(composer *c);

/* The layer passed on to vectors (pass.c): `count` rows from pairs' row `row` on, times the Gram matrix behind
 * it; the query to c->passed_query; and the way back, from and to c->d_query, with S. */
void icl_compose_pass(composer *c, cl_uint to, cl_uint row, cl_uint count);
void icl_compose_pass_query(composer *c, cl_uint query);
void icl_compose_pass_backwards(composer *c);

/* The last two layers, from the query before them: the value, and all that is left in the backward
 * pass before full layers. */
void icl_compose_last_layers(composer *c, cl_uint query);
void icl_compose_last_layers_backwards(composer *c, cl_uint query);

#endif
