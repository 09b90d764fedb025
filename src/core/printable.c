#include "core/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_continuation(unsigned char byte) {
    return (byte & 0xC0) == 0x80;
}

/* Bytes of the UTF-8 sequence at `text` (RFC 3629: no overlong forms, surrogates or values above 10FFFF);
 * 0 where there is none. */
static size_t sequence_length(const unsigned char *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = text[0];
    const size_t length = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t value = first & (0x7Fu >> length);

    if (length == 1 || length == 0)
        return length;
    if (first >= 0xF8)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i]))
            return 0;
        value = value << 6 | (text[i] & 0x3Fu);
    }
    if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
        return 0;
    return length;
}

/* C0, DEL and C1. */
static bool is_control(const unsigned char *text, size_t length) {
    return text[0] < 0x20 || text[0] == 0x7F || (length == 2 && text[0] == 0xC2 && text[1] < 0xA0);
}

void icl_make_printable(char *text, const char *kept) {
    unsigned char *at = (unsigned char *)text;

    while (*at != '\0') {
        const size_t sequence = sequence_length(at), length = sequence > 0 ? sequence : 1;
        if ((sequence == 0 || is_control(at, sequence)) && !strchr(kept, *at))
            memset(at, '?', length);
        at += length;
    }
}

void icl_make_utf8(char *text) {
    unsigned char *at = (unsigned char *)text;

    while (*at != '\0') {
        const size_t length = sequence_length(at);
        if (length == 0)
            *at = '?';
        at += length > 0 ? length : 1;
    }
}

const char *icl_printable(const char *text, char *out, size_t capacity) {
    const unsigned char *from = (const unsigned char *)text;
    size_t used = 0, kept = 0; /* kept: what "..." can stand behind */

    while (*from != '\0') {
        const size_t sequence = sequence_length(from), length = sequence > 0 ? sequence : 1;
        const bool as_it_is = sequence > 0 && !is_control(from, sequence);
        const size_t width = as_it_is ? length : 1;
        if (used + width + 1 > capacity) {
            memcpy(out + kept, "...", 4);
            return out;
        }
        if (as_it_is)
            memcpy(out + used, from, length);
        else
            out[used] = sequence > 0 ? ' ' : '?';
        used += width;
        from += length;
        if (used + 4 <= capacity)
            kept = used;
    }
    out[used] = '\0';
    return out;
}
