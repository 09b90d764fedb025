/*
 * Figures: NAME.csv with the data, NAME.gp with a gnuplot script and, where gnuplot is, NAME.svg and NAME.png.
 *
 * Marks, dashes and, in heat maps, signs tell what colours tell, so that a figure can be read without them: ours has filled marks and full
 * lines, what is published open marks, a baseline or a theory dashes.
 */
#ifndef ICLAB_LAB_FIGURE_H
#define ICLAB_LAB_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Where figures go, and who makes pictures of them. */
typedef struct icl_drawing {
    const char *folder;  /* it exists */
    const char *command; /* what draws, for the record in the script: "iclab reproduce versatile-table1" */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    void *user;
} icl_drawing;

/* ---- Curves ---- */

typedef enum icl_series_style {
    ICL_SERIES_LINE = 0,  /* ours, many points: a line, and a mark here and there */
    ICL_SERIES_OURS,      /* ours: filled marks, joined */
    ICL_SERIES_PUBLISHED, /* theirs: open marks, not joined */
    ICL_SERIES_REFERENCE, /* a baseline or theory: dashed */
    ICL_SERIES_CLOUD,     /* points alone */
} icl_series_style;

typedef struct icl_series {
    const char *label;
    icl_series_style style;
    size_t count;
    const double *x, *y; /* [count]; NaN: no such point */
    const double *error; /* [count] standard errors, or NULL */
} icl_series;

typedef struct icl_figure {
    const char *name;              /* file name without suffix */
    const char *title;             /* with the paper's number of the figure */
    const char *x_label, *y_label; /* with units, where there are any */
    bool log_x, log_y;
    double least_y; /* smaller values lie below the picture; 0: none do */
    size_t count;
    const icl_series *series;
} icl_figure;

/* Writes the figure and draws it. Pictures of that name that lay there before are gone, drawn or not: none is left that shows other
 * data than the CSV beside it. */
icl_status icl_figure_write(const icl_drawing *drawing, const icl_figure *figure, icl_error *error);

/* ---- Heat maps ---- */

/* A matrix. Small ones (up to 24 by 24) have a sign in every cell that is not nearly 0, and names at their rows and columns. */
typedef struct icl_heat_map {
    const char *label;
    size_t rows, columns;
    const double *values;                               /* [rows][columns]; NaN: no such cell */
    const char *const *row_names, *const *column_names; /* [rows], [columns]; or NULL */
} icl_heat_map;

/* Matrices side by side, with one scale that is symmetric about 0. The data are NAME-1.csv, NAME-2.csv, … */
typedef struct icl_heat_figure {
    const char *name, *title;
    const char *row_label, *column_label, *value_label; /* of the axes and the scale; or NULL */
    size_t count;
    const icl_heat_map *maps;
} icl_heat_figure;

icl_status icl_heat_figure_write(const icl_drawing *drawing, const icl_heat_figure *figure, icl_error *error);

#endif
