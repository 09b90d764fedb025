#include "prose.h"

#include <string.h>

bool next_word(const char **text, prose_word *word) {
    const char *at = *text + strspn(*text, " ");
    size_t newlines = 0, spaces = 0; /* of the new line's start */

    for (; *at == '\n'; at++)
        newlines++;
    spaces = newlines > 0 ? strspn(at, " ") : 0;
    if (at[spaces] == '\0')
        return false;
    word->verbatim = newlines > 0 && spaces > 0;
    word->start = at;
    word->length = word->verbatim ? strcspn(at, "\n") : strcspn(at, " \n");
    word->before = newlines > 1 ? PROSE_PARAGRAPH : word->verbatim ? PROSE_LINE : PROSE_SPACE;
    *text = at + word->length;
    return true;
}

void print_prose(FILE *out, const char *text, size_t indent, size_t width) {
    size_t column = indent;
    prose_word word;
    bool after_verbatim = false;

    for (bool first = true; next_word(&text, &word); first = false) {
        const bool breaks = word.before != PROSE_SPACE || after_verbatim;
        if (!first && (breaks || column + 1 + word.length > width)) {
            fprintf(out, "%s\n%*s", word.before == PROSE_PARAGRAPH ? "\n" : "", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word.length, word.start);
        column += word.length;
        after_verbatim = word.verbatim;
    }
    fputc('\n', out);
}
