/* Printing with a decimal point, whatever the locale of the program that links the library. */
#ifndef ICLAB_CORE_PRINT_H
#define ICLAB_CORE_PRINT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "iclab/export.h"

/* snprintf and vsnprintf in the numeric locale "C". They print every text that holds a number with a fraction. */
int icl_print(char *text, size_t size, const char *format, ...) ICL_PRINTF(3, 4);
int icl_print_list(char *text, size_t size, const char *format, va_list arguments) ICL_PRINTF(3, 0);

/* ---- Text from elsewhere, made fit for one line of a message and for JSON ---- */

/* Copies the text into `out`: control characters become blanks and bytes that are not UTF-8 become '?'; what does not
 * fit in `capacity` bytes (at least 4) ends with "...". Returns `out`. */
const char *icl_printable(const char *text, char *out, size_t capacity);

/* ---- UTF-8, a byte at a time (RFC 3629: no overlong forms, no surrogates, nothing above 10FFFF) ---- */

/* Where a text stands after some bytes; zero: at its beginning. */
typedef struct icl_utf8_state {
    unsigned missing;        /* bytes that the character begun still needs */
    unsigned char low, high; /* the range of the next one, if any is missing */
} icl_utf8_state;

/* Returns the number of bytes of a character that begins with this byte; 0 if none does. */
static inline unsigned icl_utf8_length(unsigned char byte) {
    if (byte < 0x80)
        return 1;
    return byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0;
}

/* Returns whether the byte can stand next. */
static inline bool icl_utf8_allows(const icl_utf8_state *state, unsigned char byte) {
    return state->missing > 0 ? byte >= state->low && byte <= state->high : icl_utf8_length(byte) > 0;
}

/* Takes the next byte. Returns false, and changes nothing, if it cannot stand there. */
static inline bool icl_utf8_take(icl_utf8_state *state, unsigned char byte) {
    if (!icl_utf8_allows(state, byte))
        return false;
    if (state->missing > 0) {
        *state = (icl_utf8_state){state->missing - 1, 0x80, 0xbf};
        return true;
    }
    *state = (icl_utf8_state){icl_utf8_length(byte) - 1, 0x80, 0xbf};
    state->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    state->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
}

/* Returns the length of the character at the beginning of a text that ends with NUL; 0 if none is there. */
static inline size_t icl_utf8_sequence(const unsigned char *text) {
    icl_utf8_state state = {0};
    size_t length = 0;

    do {
        if (!icl_utf8_take(&state, text[length++]))
            return 0;
    } while (state.missing > 0);
    return length;
}

#endif
