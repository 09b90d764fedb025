/* Inside the task room: lists of numbers in recipe values. */
#ifndef ICLAB_TASK_NUMBERS_H
#define ICLAB_TASK_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

/* Reads "A,B,…" (blanks around a number are allowed): finite decimal numbers, at least one. Keeps the first `capacity`,
 * sets *count to how many there are. False when the text is anything else. */
bool icl_parse_numbers(const char *text, size_t capacity, double *values, size_t *count);

#endif
