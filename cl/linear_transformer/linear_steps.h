/*
 * The steps of which the host composes a linear transformer (src/backend/opencl/linear_transformer/program.c) and that
 * cl/linear_transformer/linear_transformer.cl runs: one step is STEP_WORDS numbers. Included from both languages.
 *
 * A place is counted in elements of the team's memory, or in floats of the shared parameters (S), or in elements of the
 * gradient (G). `to`, `a` and `b` are matrices: place, stride of rows, stride of columns.
 */
#ifndef ICL_LINEAR_STEPS_H
#define ICL_LINEAR_STEPS_H

#define STEP_WORDS 16

#define WORD_KIND    0
#define WORD_MODE    1
#define WORD_TO      2
#define WORD_A       5
#define WORD_B       8
#define WORD_START   11 /* a place */
#define WORD_ROWS    12
#define WORD_COLUMNS 13
#define WORD_DEPTH   14
#define WORD_EXTRA   15

/* Reading. */
#define STEP_TAKE                                                                                                      \
    0 /* to [rows, columns] = the sequences' elements; MODE_QUERY: of the query, else of the data from this row on */
#define STEP_MORE_ROWS 1 /* goes back to the first step while rows of tokens are left, `rows` further */
#define STEP_SCALE     2 /* to [rows, columns] *= factor */

/* Products. */
#define STEP_MULTIPLY                                                                                                  \
    3 /* to = start + a b, or factor times that; to [rows, rows], a [rows, depth], b's columns are neighbours */
#define STEP_MULTIPLY_SHARED                                                                                           \
    4                       /* to = start + a b with a from S; MODE_TWICE: also, transposed, to the matrix at `extra` */
#define STEP_GRADIENT     5 /* the gradient G `to` [rows, rows] is a b; b's columns are neighbours */
#define STEP_APPLY        6 /* to [rows, columns] = start + a b: a few rows, thin; start has the strides of to */
#define STEP_APPLY_SHARED 7 /* the same with b from S */

/* Elementwise on [rows, columns]. */
#define STEP_COPY      8  /* to = a; MODE_SLOPE: + slope in the last column */
#define STEP_SLOPE     9  /* to = slope a */
#define STEP_BROADCAST 10 /* to = a from S */
#define STEP_PAIR      11 /* to = start + (x ... x, y) o a, with (x, y) from S `b` */
#define STEP_LABEL     12 /* to = (0 ... 0, y), with y from S `b` */
#define STEP_WEIGH     13 /* to = W o a, + I with MODE_IDENTITY; W from the pairs S `b` of `depth` heads */

/* Sums. */
#define STEP_VALUE                                                                                                     \
    14 /* minus the prediction: start + sum of a o b over [rows, columns]; and the slope with respect to it */
#define STEP_COLUMN_DOTS  15 /* to [1, columns] = sum over k < depth of a[k] o b[k] */
#define STEP_ROW_SUMS     16 /* to [2, rows]: sums of the rows of a o b without the last column, and the last column */
#define STEP_GRADIENT_ROW 17 /* the gradient G `to` [1, columns] is a */
#define STEP_GRADIENT_PAIR                                                                                             \
    18 /* gradient G `to` of a pair: the sum of the first columns - 1 of a, and the last; MODE_SHORT: not the last */
#define STEP_GRADIENT_WEIGHTS 19 /* those of the pairs of `depth` heads, from row sums a; MODE_SHORT as above */

/* Modes: first what a product is added to, then others. */
#define MODE_START      7u
#define START_NONE      0u
#define START_SELF      1u
#define START_IDENTITY  2u
#define START_TWO_SIDED 3u /* the matrix at `start` and its transpose, strides of b */
#define START_OUTER     4u /* the column at `start` times the row at `extra` */
#define START_LATER     5u /* itself, but nothing for the first rows of tokens */
#define START_GIVEN     6u /* the rows at `start` */
#define MODE_SYMMETRIC  8u /* on and above the diagonal are computed, the rest is mirrored */
#define MODE_TWICE      16u
#define MODE_IDENTITY   32u
#define MODE_QUERY      64u
#define MODE_SLOPE      128u
#define MODE_SHORT      256u
#define MODE_SCALED     512u

#endif
