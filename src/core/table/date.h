/* Dates and times of day, which are no numbers. */
#ifndef ICLAB_CORE_TABLE_DATE_H
#define ICLAB_CORE_TABLE_DATE_H

#include <stdbool.h>

/* 2024-01-31, 31.1.2024, 1/31/24, 2024-01, 12:30, 12:30:05, a date and a time, 31 Jan 2024, January 2024. */
bool icl_is_date(const char *cell);

#endif
