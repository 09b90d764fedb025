/*
 * The kernels that nearly every run needs, the self-test's among them, as one program: the front end of a driver's
 * compiler takes longer to start and to read its own headers than to read these.
 */
#include "elementwise.cl"
#include "matmul.cl"
#include "matmul_panels.cl"
#include "random/random.cl"
#include "random/spherical.cl"
#include "reduce.cl"
#undef TILE
#undef DEPTH
#include "attention/attention_linear.cl"
#undef BLOCK
#include "attention/attention_softmax.cl"
#include "attention/attention_softmax_tiles.cl"
#include "linear_transformer/linear_transformer_sum.cl"
#include "optimizer.cl"
