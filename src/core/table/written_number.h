/*
 * Numbers as people write them: with a decimal point or comma, thousands apart, a unit in front or behind.
 *
 *   1,234.5   1.234,5   1'234.5   1 234,5   $5   -5 €   12 %   1.5e-3
 *
 * A cell alone does not always say which of its marks is the decimal one ("1,234"): icl_marks says what it does say,
 * and a table's other cells may tell.
 */
#ifndef ICLAB_CORE_TABLE_WRITTEN_NUMBER_H
#define ICLAB_CORE_TABLE_WRITTEN_NUMBER_H

#include "iclab/table.h"

/* Bytes of a longer number are no number's. */
#define ICL_WRITTEN_CAPACITY 128

/* What the marks of a number say about the decimal mark. */
typedef enum icl_marks {
    ICL_MARKS_NONE = 0,     /* there are none */
    ICL_MARKS_POINT,        /* it is a point: "1.5", "1,234,567" */
    ICL_MARKS_COMMA,        /* it is a comma: "1,5", "1.234.567" */
    ICL_MARKS_EITHER_POINT, /* "1.234" */
    ICL_MARKS_EITHER_COMMA, /* "1,234" */
} icl_marks;

typedef struct icl_written_number {
    char text[ICL_WRITTEN_CAPACITY]; /* sign, digits and marks, ' for blanks and apostrophes between digits, exponent */
    const char *unit;                /* "%", "$", …; "" for none */
    icl_marks marks;
} icl_written_number;

/* False: the cell is no number under either decimal mark. */
bool icl_read_written_number(const char *cell, icl_written_number *number);

/* Its value when the decimal mark is a point, or a comma. *grouped becomes true where thousands were apart. False: it
 * is no number under this mark, or too large for a double. */
bool icl_written_number_value(const icl_written_number *number, icl_decimal decimal, double *value, bool *grouped);

#endif
