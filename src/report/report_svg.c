/* Text and pictures as parts of an HTML page. Nothing in a picture is believed before it is checked. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

#define MAX_DEPTH 64

/* A part of the file. */
typedef struct span {
    const char *start;
    size_t length;
} span;

typedef struct svg_reader {
    const char *at, *end;
    icl_text *html;
    unsigned number;
    const char *label;
    span open[MAX_DEPTH]; /* names of the elements that are open */
    size_t depth;
    bool done; /* the root was closed */
    icl_error *error;
} svg_reader;

static icl_status refuse(const svg_reader *reader, const char *what) {
    return icl_fail(reader->error, ICL_ERROR_INPUT, "it holds %s: expected a well-formed picture of shapes and text",
                    what);
}

static bool equals(span name, const char *text) {
    return name.length == strlen(text) && memcmp(name.start, text, name.length) == 0;
}

static bool starts(span value, const char *text) {
    return value.length >= strlen(text) && memcmp(value.start, text, strlen(text)) == 0;
}

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* The same of a text in small letters, as browsers compare the names of attributes and functions in HTML. */
static bool starts_in_any_case(span value, const char *text) {
    for (size_t i = 0; text[i] != '\0'; i++)
        if (i == value.length || lower(value.start[i]) != text[i])
            return false;
    return true;
}

static bool equals_in_any_case(span name, const char *text) {
    return name.length == strlen(text) && starts_in_any_case(name, text);
}

static bool is_among(span name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (equals(name, names[i]))
            return true;
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_spaces(svg_reader *reader) {
    while (reader->at < reader->end && is_space(*reader->at))
        reader->at++;
}

static bool is_name_part(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':' ||
           c == '_';
}

static span read_name(svg_reader *reader) {
    span name = {reader->at, 0};
    while (reader->at < reader->end && is_name_part(*reader->at))
        reader->at++;
    name.length = (size_t)(reader->at - name.start);
    return name;
}

/* Moves behind the next such text; false if there is none. */
static bool skip_past(svg_reader *reader, const char *text) {
    const size_t length = strlen(text);
    for (; (size_t)(reader->end - reader->at) >= length; reader->at++)
        if (memcmp(reader->at, text, length) == 0) {
            reader->at += length;
            return true;
        }
    return false;
}

static icl_status append(const svg_reader *reader, const char *bytes, size_t length) {
    return icl_text_append(reader->html, bytes, length, reader->error);
}

/* Text or an attribute's value, in which every '&' begins an entity already or becomes one. */
static icl_status append_value(const svg_reader *reader, span value) {
    for (size_t i = 0; i < value.length; i++) {
        const char c = value.start[i];
        if (c == '&') {
            size_t stop = i + 1;
            while (stop < value.length && (is_name_part(value.start[stop]) || value.start[stop] == '#'))
                stop++;
            ICL_CHECK(stop > i + 1 && stop < value.length && value.start[stop] == ';' ? append(reader, "&", 1)
                                                                                      : append(reader, "&amp;", 5));
        } else if (c == '"' || c == '<' || c == '>') {
            ICL_CHECK(append(reader, entity_of(c), strlen(entity_of(c))));
        } else {
            ICL_CHECK(append(reader, &value.start[i], 1));
        }
    }
    return ICL_OK;
}

/* A value in which references to ids, "#x" and "url(#x)", get the picture's prefix. */
static icl_status append_reference(const svg_reader *reader, span value) {
    const char *hash = memchr(value.start, '#', value.length);

    if (!hash)
        return append_value(reader, value);
    const span before = {value.start, (size_t)(hash + 1 - value.start)};
    const span after = {hash + 1, value.length - before.length};
    ICL_CHECK(append_value(reader, before));
    ICL_CHECK(icl_text_print(reader->html, reader->error, "p%u-", reader->number));
    return append_value(reader, after);
}

static bool holds(span value, const char *text) {
    for (size_t i = 0; i < value.length; i++)
        if (starts_in_any_case((span){value.start + i, value.length - i}, text))
            return true;
    return false;
}

/* How small and how large a picture may be shown: its letters between these pixels. */
#define LEAST_LETTER   9.2
#define LARGEST_LETTER 17.5
#define MOST_WIDTH     1e5

/* viewBox="0 0 WIDTH HEIGHT" says how large it was drawn. */
static icl_status bound_size(const svg_reader *reader, span view) {
    char text[64], *at = text;
    double width = 0, scale;

    snprintf(text, sizeof text, "%.*s", (int)(view.length < sizeof text ? view.length : sizeof text - 1), view.start);
    for (int number = 0; number < 3; number++) {
        const size_t length = strcspn(at, " ");
        if (!icl_parse_number(at, length, &width))
            return ICL_OK;
        at += length + strspn(at + length, " ");
    }
    if (!(width > 0 && width < MOST_WIDTH))
        return ICL_OK;
    scale = width / ICL_SCRIPT_FONT;
    return icl_text_print(reader->html, reader->error, " style=\"min-width:%.0fpx;max-width:%.0fpx\"",
                          LEAST_LETTER * scale, LARGEST_LETTER * scale);
}

/* Whether a value fetches something: every url() is to name a part of this picture. */
static bool fetches(span value) {
    for (size_t i = 0; i < value.length; i++) {
        const span rest = {value.start + i, value.length - i};
        if (starts_in_any_case(rest, "image-set(") || starts_in_any_case(rest, "image("))
            return true;
        if (starts_in_any_case(rest, "url(") && !starts_in_any_case(rest, "url(#") &&
            !starts_in_any_case(rest, "url('#"))
            return true;
    }
    return false;
}

/* Attributes that HTML has no use for, or that the page decides. */
static bool is_left_out(span element, span name) {
    return equals(name, "xmlns") || starts(name, "xmlns:") ||
           (equals(element, "svg") && (equals(name, "width") || equals(name, "height") || equals(name, "style")));
}

static icl_status copy_attribute(const svg_reader *reader, span element, span name, span value) {
    const bool is_link = equals_in_any_case(name, "href") || equals_in_any_case(name, "xlink:href");
    const bool refers = holds(value, "url(");
    const bool is_id = equals_in_any_case(name, "id");

    if (is_left_out(element, name))
        return ICL_OK;
    if (starts_in_any_case(name, "on") || equals_in_any_case(name, "src") || memchr(value.start, '\\', value.length) ||
        memchr(value.start, '&', value.length))
        return refuse(reader, "a script or a style of another kind");
    if ((is_link && !starts(value, "#") && !starts(value, "data:image/png;base64,")) || fetches(value))
        return refuse(reader, "a link");
    ICL_CHECK(append(reader, " ", 1));
    ICL_CHECK(append(reader, name.start, name.length));
    ICL_CHECK(append(reader, "=\"", 2));
    if (is_id)
        ICL_CHECK(icl_text_print(reader->html, reader->error, "p%u-", reader->number));
    ICL_CHECK(refers || (is_link && starts(value, "#")) ? append_reference(reader, value)
                                                        : append_value(reader, value));
    ICL_CHECK(append(reader, "\"", 1));
    return equals(element, "svg") && equals(name, "viewBox") ? bound_size(reader, value) : ICL_OK;
}

/* = "value" behind an attribute's name; false where there is none. */
static bool read_value(svg_reader *reader, span *value) {
    char quote;

    skip_spaces(reader);
    if (reader->at == reader->end || *reader->at++ != '=')
        return false;
    skip_spaces(reader);
    if (reader->at == reader->end || (*reader->at != '"' && *reader->at != '\''))
        return false;
    quote = *reader->at++;
    value->start = reader->at;
    while (reader->at < reader->end && *reader->at != quote)
        reader->at++;
    value->length = (size_t)(reader->at - value->start);
    if (reader->at == reader->end)
        return false;
    reader->at++;
    return true;
}

static icl_status copy_attributes(svg_reader *reader, span element) {
    for (skip_spaces(reader); reader->at < reader->end && *reader->at != '>' && *reader->at != '/';
         skip_spaces(reader)) {
        const span name = read_name(reader);
        span value;
        if (name.length == 0 || !read_value(reader, &value))
            return refuse(reader, "a broken tag");
        ICL_CHECK(copy_attribute(reader, element, name, value));
    }
    return ICL_OK;
}

/* Behind "<" and a name. */
static icl_status copy_opening(svg_reader *reader, span name) {
    static const char *const known[] = {"svg",     "g",           "defs",     "rect",          "circle", "ellipse",
                                        "path",    "polygon",     "polyline", "line",          "text",   "tspan",
                                        "use",     "clipPath",    "mask",     "pattern",       "image",  "filter",
                                        "feFlood", "feComposite", "stop",     "linearGradient"};
    bool is_closed;

    if (!is_among(name, known, sizeof known / sizeof *known) || equals(name, "svg") != (reader->depth == 0))
        return refuse(reader, "an element of another kind");
    ICL_CHECK(append(reader, "<", 1));
    ICL_CHECK(append(reader, name.start, name.length));
    if (reader->depth == 0) {
        ICL_CHECK(append(reader, " role=\"img\" aria-label=\"", 24));
        ICL_CHECK(icl_html_escape(reader->html, reader->label, reader->error));
        ICL_CHECK(append(reader, "\"", 1));
    }
    ICL_CHECK(copy_attributes(reader, name));
    is_closed = reader->at < reader->end && *reader->at == '/';
    reader->at += is_closed;
    if (reader->at == reader->end || *reader->at != '>' || (!is_closed && reader->depth == MAX_DEPTH))
        return refuse(reader, "a broken tag");
    reader->at++;
    ICL_CHECK(is_closed ? append(reader, "/>", 2) : append(reader, ">", 1));
    if (!is_closed)
        reader->open[reader->depth++] = name;
    reader->done = reader->depth == 0;
    return ICL_OK;
}

/* Behind "</". */
static icl_status copy_closing(svg_reader *reader) {
    const span name = read_name(reader);

    skip_spaces(reader);
    if (reader->depth == 0 || reader->at == reader->end || *reader->at != '>' ||
        name.length != reader->open[reader->depth - 1].length ||
        memcmp(name.start, reader->open[reader->depth - 1].start, name.length) != 0)
        return refuse(reader, "a closing tag without its opening one");
    reader->at++;
    reader->depth--;
    reader->done = reader->depth == 0;
    ICL_CHECK(append(reader, "</", 2));
    ICL_CHECK(append(reader, name.start, name.length));
    return append(reader, ">", 1);
}

/* Behind "<". Titles are gnuplot's names of its parts, which a browser would show as hints. */
static icl_status copy_tag(svg_reader *reader) {
    const span rest = {reader->at, (size_t)(reader->end - reader->at)};
    span name;

    if (starts(rest, "!--"))
        return skip_past(reader, "-->") ? ICL_OK : refuse(reader, "a comment without end");
    if (starts(rest, "/")) {
        reader->at++;
        return copy_closing(reader);
    }
    name = read_name(reader);
    if (equals(name, "title"))
        return skip_past(reader, "</title>") ? ICL_OK : refuse(reader, "a title without end");
    if (equals(name, "desc"))
        return skip_past(reader, "</desc>") ? ICL_OK : refuse(reader, "a description without end");
    return copy_opening(reader, name);
}

/* From the root's tag to its end. */
static icl_status copy_tree(svg_reader *reader) {
    while (!reader->done && reader->at < reader->end) {
        const char *tag = memchr(reader->at, '<', (size_t)(reader->end - reader->at));
        const span content = {reader->at, (size_t)((tag ? tag : reader->end) - reader->at)};
        ICL_CHECK(append_value(reader, content));
        reader->at = tag ? tag + 1 : reader->end;
        if (tag)
            ICL_CHECK(copy_tag(reader));
    }
    if (!reader->done)
        return refuse(reader, "no end");
    skip_spaces(reader);
    if (reader->at < reader->end)
        return refuse(reader, "something behind its end");
    return append(reader, "\n", 1);
}

icl_status icl_html_svg(icl_text *html, const char *svg, size_t size, unsigned number, const char *label,
                        icl_error *error) {
    const size_t before = html->length;
    svg_reader reader = {.at = svg, .end = svg + size, .html = html, .number = number, .label = label, .error = error};
    icl_status status;

    if (!skip_past(&reader, "<svg"))
        return refuse(&reader, "no svg element");
    reader.at -= 4;
    status = copy_tree(&reader);
    if (status != ICL_OK && html->bytes) {
        html->length = before;
        html->bytes[before] = '\0';
    }
    return status;
}
