/* The numbers of the public enums that kernels switch on, and of tables; the host asserts that they agree. */
#ifndef ICL_KINDS_H
#define ICL_KINDS_H

#define KIND_NEGATE             0
#define KIND_ABSOLUTE           1
#define KIND_SQUARE             2
#define KIND_SQUARE_ROOT        3
#define KIND_RECIPROCAL         4
#define KIND_EXPONENTIAL        5
#define KIND_LOGARITHM          6
#define KIND_HYPERBOLIC_TANGENT 7
#define KIND_SIGMOID            8
#define KIND_RELU               9
#define KIND_SIGN               10

#define KIND_ADD      0
#define KIND_SUBTRACT 1
#define KIND_MULTIPLY 2
#define KIND_DIVIDE   3
#define KIND_MAXIMUM  4
#define KIND_MINIMUM  5
#define KIND_EQUAL    6

#define KIND_SUM            0
#define KIND_MEAN           1
#define KIND_MAX            2
#define KIND_ARGMAX         3
#define KIND_SUM_OF_SQUARES 4
#define KIND_NORM           5

#define KIND_UNIFORM 0
#define KIND_NORMAL  1
#define KIND_CHOICE  2

/* Extents of the table of gram_sample. */
#define CHI_PIECES 14
#define CHI_TERMS  8

#endif
