/* Pictures through gnuplot, where it is installed. */
#ifndef ICLAB_TOOLS_PICTURE_H
#define ICLAB_TOOLS_PICTURE_H

#include <stdbool.h>

#include "iclab/status.h"

/* Runs a gnuplot script that lies in the folder, with the folder as its working directory. *drawn = false, and no
 * error, when there is no gnuplot; ICL_ERROR_IO when it failed. */
icl_status draw_picture(const char *folder, const char *script, bool *drawn, icl_error *error);

/* The same for icl_drawing: `user` is a bool, which becomes true where there is no gnuplot. */
icl_status draw_figure(void *user, const char *folder, const char *script, icl_error *error);

/* The same for work that is done by then: a gnuplot that fails takes no more from it than its pictures,
 * which is said on stderr. */
icl_status draw_or_say(void *user, const char *folder, const char *script, icl_error *error);

#endif
