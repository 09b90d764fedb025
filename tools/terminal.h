/* What may be written to a terminal that may not be written to a pipe: colours, and lines that are written again. */
#ifndef ICLAB_TOOLS_TERMINAL_H
#define ICLAB_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Columns that are assumed where the terminal does not say. */
#define DEFAULT_COLUMNS 80

/* Whether the stream is a terminal that understands escape sequences: TERM is set, and not to "dumb". */
bool is_smart_terminal(FILE *stream);

/* Columns of the terminal behind the stream. */
size_t terminal_columns(FILE *stream);

/* A verdict as it is to be printed to stdout: green for good and red for bad on a smart terminal, unless the
 * environment variable NO_COLOR is set and not empty (no-color.org); as it stands anywhere else.
 * Valid until `text` goes. */
const char *paint_verdict(const char *verdict, bool good, char text[64]);

#endif
