/* What the scripts of curves and of heat maps share. */
#ifndef ICLAB_REPORT_FIGURE_SCRIPT_H
#define ICLAB_REPORT_FIGURE_SCRIPT_H

#include "iclab/figure.h"
#include "iclab/text.h"

/* A string of gnuplot's, in double quotes, that stands for this text whatever it holds. gnuplot misreads quotes that
 * are doubled inside the braces of a loop, so that a column's name could end the script. */
icl_status icl_script_text(icl_text *script, const char *text, icl_error *error);

/* Text in pixels of a picture. A report shows a picture no smaller than keeps it readable. */
enum { ICL_SCRIPT_FONT = 14, ICL_SCRIPT_LETTER = 8, ICL_SCRIPT_LINE = 18 };

/* The same on two lines where it has more than `most` bytes, 4 or more, and cut off where these are too few: gnuplot
 * breaks none. */
icl_status icl_script_lines(icl_text *script, const char *text, size_t most, icl_error *error);

/* What every script begins with: gnuplot runs the rest twice, once for each kind of picture, of so many pixels. */
icl_status icl_script_begin(icl_text *script, const icl_drawing *drawing, const char *name, const char *title,
                            size_t width, size_t height, icl_error *error);

/* "set xlabel \"…\""; nothing where the label is NULL. `most` as above. */
icl_status icl_script_label(icl_text *script, const char *axis, const char *label, size_t most, icl_error *error);

/* "set xtics (…)": names at 0, 1, … */
icl_status icl_script_names(icl_text *script, const char *axis, const char *const *names, size_t count,
                            icl_error *error);

/* Ends the script, writes it as NAME.gp, and draws. */
icl_status icl_script_finish(icl_text *script, const icl_drawing *drawing, const char *name, icl_error *error);

/* Writes a file of the figure: its name, then the suffix. */
icl_status icl_figure_file(const icl_drawing *drawing, const char *name, const char *suffix, const icl_text *content,
                           icl_error *error);

#endif
