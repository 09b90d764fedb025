/*
 * Figures: NAME.csv with the data, NAME.gp with a gnuplot script and, if there is gnuplot, NAME.svg and NAME.png.
 *
 * Marks, dashes and, in heat maps, signs say what colours say, so that a figure can be read without colours: ours has
 * filled marks and full lines, published results have open marks, a reference predictor or a theory has dashes.
 */
#ifndef ICLAB_REPORT_FIGURE_H
#define ICLAB_REPORT_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

/* The folder of figures, and the function that draws them. */
typedef struct icl_drawing {
    const char *folder;  /* an existing folder */
    const char *command; /* the command that draws, for the script's head: "iclab reproduce versatile-table1" */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    void *user;                           /* passed to the calls above */
} icl_drawing;

/* ---- Curves ---- */

/* The meaning of a curve for the reader. */
typedef enum icl_series_style {
    ICL_SERIES_LINE = 0,  /* ours with many points: a line with a few marks */
    ICL_SERIES_OURS,      /* ours: filled marks, joined */
    ICL_SERIES_PUBLISHED, /* published: open marks, not joined */
    ICL_SERIES_REFERENCE, /* a reference predictor or theory: dashed */
    ICL_SERIES_CLOUD,     /* points without lines, with bars if they have errors */
    ICL_SERIES_BAND,      /* a pale area from y up to `error`, behind the curves; for quantiles */
} icl_series_style;

/* A curve. */
typedef struct icl_series {
    const char *label;      /* its text in the key */
    icl_series_style style; /* its marks and lines */
    size_t count;           /* points */
    const double *x, *y;    /* [count]; NaN: no such point */
    const double *error;    /* [count] standard errors, or NULL; a band's upper edge */
} icl_series;

/* Curves over one pair of axes. */
typedef struct icl_figure {
    const char *name;              /* file name without suffix */
    const char *title;             /* includes the paper's number of the figure */
    const char *x_label, *y_label; /* include units, if there are any */
    bool log_x, log_y;             /* logarithmic axes */
    double least_y, most_y;        /* smaller and larger values lie outside the picture; 0: no limit */
    size_t count;                  /* curves */
    const icl_series *series;      /* [count] */
    /* [x_name_count]: names at x = 0, 1, … instead of numbers; NULL: numbers */
    const char *const *x_names;
    size_t x_name_count; /* the length of x_names */
} icl_figure;

/* Axes hold every point with some room around it, and have whole numbers if all of x is whole. A figure without any
 * point that can be drawn says so in the picture.
 *
 * Writes the figure and draws it. Earlier pictures of that name are removed, whether or not it can be drawn, so that
 * none shows other data than the CSV beside it. */
icl_status icl_figure_write(const icl_drawing *drawing, const icl_figure *figure, icl_error *error);

/* Writes a picture made by gnuplot commands of the caller's, of data in the folder: NAME.gp gives it these pixels, and
 * runs twice, for SVG and PNG. */
icl_status icl_script_write(const icl_drawing *drawing, const char *name, size_t width, size_t height,
                            const char *commands, icl_error *error);

/* ---- Heat maps ---- */

/* A matrix. Small ones (up to 24 by 24) have a sign in every cell that is not nearly 0, and names at
 * their rows and columns. */
typedef struct icl_heat_map {
    const char *label;                                  /* above it */
    size_t rows, columns;                               /* extents */
    const double *values;                               /* [rows][columns]; NaN: no such cell */
    const char *const *row_names, *const *column_names; /* [rows], [columns]; or NULL */
} icl_heat_map;

/* Matrices side by side, on one scale that is symmetric about 0; or, for amounts, which are not negative, on one from
 * light to dark, which is logarithmic if they span more than a decade. Small matrices of amounts have the numbers in
 * their cells. The data are NAME-1.csv, NAME-2.csv, … */
typedef struct icl_heat_figure {
    const char *name, *title;                           /* as in icl_figure */
    const char *row_label, *column_label, *value_label; /* labels of the axes and the scale; or NULL */
    size_t count;                                       /* matrices */
    const icl_heat_map *maps;                           /* [count] */
    bool amounts;                                       /* the values are amounts: losses, shares */
} icl_heat_figure;

/* Writes the figure and draws it, as icl_figure_write does. */
icl_status icl_heat_figure_write(const icl_drawing *drawing, const icl_heat_figure *figure, icl_error *error);

#endif
