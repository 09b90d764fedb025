/* Text and pictures as parts of an HTML page. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "iclab/number.h"
#include "report/figure_script.h"
#include "report/report_text.h"

/* ---- Text ---- */

/* Length of the UTF-8 character at `text`, or 0 where there is none that HTML allows. */
static size_t character_length(const unsigned char *text) {
    const size_t length = text[0] < 0x80   ? 1
                          : text[0] < 0xc2 ? 0
                          : text[0] < 0xe0 ? 2
                          : text[0] < 0xf0 ? 3
                          : text[0] < 0xf5 ? 4
                                           : 0;

    if (length == 1)
        return (text[0] >= ' ' && text[0] != 127) || text[0] == '\n' || text[0] == '\t' ? 1 : 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90))
        return 0;
    return length;
}

static const char *entity_of(char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

icl_status icl_html_escape(icl_text *html, const char *content, icl_error *error) {
    while (*content) {
        const size_t length = character_length((const unsigned char *)content);
        const char *shown = length == 0 ? "\xef\xbf\xbd" : entity_of(*content);
        ICL_CHECK(shown ? icl_text_append(html, shown, strlen(shown), error)
                        : icl_text_append(html, content, length, error));
        content += length > 0 ? length : 1;
    }
    return ICL_OK;
}

/* ---- Pictures ---- */

/* Letters of a picture as wide as the page, in pixels; at the limits the picture is narrower, or the page scrolls. */
#define LEAST_LETTER   9.2
#define LARGEST_LETTER 17.5
#define MOST_WIDTH     1e5

/* The width of the picture as drawn, from viewBox="0 0 WIDTH HEIGHT" of its opening tag; 0 where that is not said. */
static double drawn_width(const char *svg, size_t size) {
    static const char key[] = " viewBox=\"0 0 ";
    double width = 0;

    for (size_t i = 0; i + sizeof key < size && svg[i] != '>'; i++)
        if (memcmp(svg + i, key, sizeof key - 1) == 0) {
            const char *number = svg + i + sizeof key - 1, *end = memchr(number, ' ', size - i - (sizeof key - 1));
            if (end && icl_parse_number(number, (size_t)(end - number), &width) && width > 0 && width < MOST_WIDTH)
                return width;
        }
    return 0;
}

static icl_status add_width(icl_text *html, double width, icl_error *error) {
    const double scale = width / ICL_SCRIPT_FONT;
    if (width == 0)
        return ICL_OK;
    return icl_text_print(html, error, " style=\"min-width:%.0fpx;max-width:%.0fpx\"", LEAST_LETTER * scale,
                          LARGEST_LETTER * scale);
}

static icl_status add_base64(icl_text *html, const char *bytes, size_t size, icl_error *error) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        unsigned word = 0;
        for (size_t k = 0; k < 3; k++)
            word = word << 8 | (k < left ? (unsigned char)bytes[i + k] : 0);
        const char quad[] = {digits[word >> 18], digits[word >> 12 & 63], left > 1 ? digits[word >> 6 & 63] : '=',
                             left > 2 ? digits[word & 63] : '='};
        ICL_CHECK(icl_text_append(html, quad, sizeof quad, error));
    }
    return ICL_OK;
}

/* The root element, without what stands before it; NULL where there is no whole one. */
static const char *find_root(const char *svg, size_t size) {
    static const char opening[] = "<svg", closing[] = "</svg>";

    while (size > 0 && strchr(" \t\r\n", svg[size - 1]))
        size--;
    if (size < sizeof closing - 1 || memcmp(svg + size - (sizeof closing - 1), closing, sizeof closing - 1) != 0)
        return NULL;
    for (size_t i = 0; i + sizeof opening <= size; i++)
        if (memcmp(svg + i, opening, sizeof opening - 1) == 0)
            return svg + i;
    return NULL;
}

icl_status icl_html_svg(icl_text *html, const char *svg, size_t size, const char *label, icl_error *error) {
    const char *root = find_root(svg, size);

    if (!root)
        return icl_fail(error, ICL_ERROR_INPUT, "expected a whole <svg> element");
    ICL_CHECK(icl_text_print(html, error, "<img alt=\""));
    ICL_CHECK(icl_html_escape(html, label, error));
    ICL_CHECK(icl_text_print(html, error, "\""));
    ICL_CHECK(add_width(html, drawn_width(root, size - (size_t)(root - svg)), error));
    ICL_CHECK(icl_text_print(html, error, " src=\"data:image/svg+xml;base64,"));
    ICL_CHECK(add_base64(html, root, size - (size_t)(root - svg), error));
    return icl_text_print(html, error, "\">\n");
}
