/* Pictures through gnuplot, where it is installed. */
#ifndef ICLAB_TOOLS_PICTURE_H
#define ICLAB_TOOLS_PICTURE_H

#include <stdbool.h>

#include "iclab/status.h"

/* For icl_drawing: runs a gnuplot script that lies in the folder, with the folder as its working directory. `user` is a
 * bool, which becomes true where there is no gnuplot. One that fails, or leaves half of a picture, takes no more from
 * the work than its pictures, which is said on stderr; its warnings are not shown. */
icl_status draw_figure(void *user, const char *folder, const char *script, icl_error *error);

#endif
