/* The small kernels of sequence models as one program: the front end of a driver's compiler takes longer to start and
 * to read its own headers than to read these. */
#include "convolve.cl"
#include "look_up.cl"
#include "rotate.cl"
