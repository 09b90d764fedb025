/* UTF-8, a byte at a time (RFC 3629: no overlong forms, no surrogates, nothing above 10FFFF). */
#ifndef ICLAB_CORE_UTF8_H
#define ICLAB_CORE_UTF8_H

#include <stdbool.h>

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

#endif
