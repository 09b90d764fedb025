/* Prose of the command's tables, for whoever lays it out in lines. */
#ifndef ICLAB_TOOLS_PROSE_H
#define ICLAB_TOOLS_PROSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What parts a word from the one before it. */
typedef enum prose_break { PROSE_SPACE = 0, PROSE_LINE, PROSE_PARAGRAPH } prose_break;

typedef struct prose_word {
    const char *start;
    size_t length;
    prose_break before;
    bool verbatim; /* a whole line that begins with a space, spaces included: it is not to be filled */
} prose_word;

/* Takes the next word off *text; false at its end. A newline is a space; an empty line ends a paragraph. */
bool next_word(const char **text, prose_word *word);

/* Prints prose in lines of at most `width` columns. The first line begins where the cursor stands, in column `indent`,
 * to which the others are indented. Ends with a newline. */
void print_prose(FILE *out, const char *text, size_t indent, size_t width);

#endif
