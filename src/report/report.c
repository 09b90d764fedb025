/* Text and pictures as parts of an HTML page. */
#include "report/report.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run_report.h"

/* ---- Text and pictures as parts of an HTML page ---- */

/* Returns the length of the UTF-8 character at `text`, or 0 if there is none that HTML allows. */
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

/* Height in pixels of the letters of a picture as wide as the page; beyond these limits the picture is narrower, or the
 * page scrolls. */
#define LEAST_LETTER   9.2
#define LARGEST_LETTER 17.5
#define MOST_WIDTH     1e5

/* Returns the width of the picture as drawn, from viewBox="0 0 WIDTH HEIGHT" of its opening tag; 0 if that is
 * missing. */
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
    const double scale = width / ICL_FIGURE_FONT;
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

/* Finds the root element, without the text before it; NULL if there is no complete one. */
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

/* ---- Reports ---- */

/* The most bytes of a plain cell: a longer one is a sentence, which may take several lines. */
#define SENTENCE 36

/* The classes of tables. They are equally long, because a table's class is filled in at its end. */
#define PLAIN_TABLE "plain"
#define CARDS_TABLE "cards"
#define UNDER_TABLE "under"

/* A table with sentences and at least this many columns has the sentences below its rows. */
#define MANY_COLUMNS 8

enum { MOST_HEADING = 96 };

#define PLAIN_IN_PATHS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./"

struct icl_report {
    icl_text body;
    size_t columns; /* columns of the open table */
    bool is_number[ICL_REPORT_MAX_COLUMNS];
    char headings[ICL_REPORT_MAX_COLUMNS][MOST_HEADING];
    size_t table;   /* the place of its class in the body */
    bool has_notes; /* it has a cell that is a sentence */
};

/* Figures have a light background of their own: the dark scheme inverts them and keeps hues. */
static const char style[] =
    ":root{--ink:#1a1d21;--soft:#5a626c;--line:#d9dde2;--paper:#fff;--band:#f5f7f9;--mark:#0b5cad;"
    "--shade:#0003;--good:#0a6b3d;--bad:#a8281c}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#9aa4af;--line:#363d45;--paper:#15181c;"
    "--band:#1d2126;--mark:#7db8f0;--shade:#000c;--good:#6fcf97;--bad:#ff8f80}figure img{filter:invert(.92) "
    "hue-rotate(180deg)}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}\n"
    "main{max-width:72rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:0 0 .75rem;overflow-wrap:anywhere}\n"
    "h2{font-size:1.2rem;margin:2.5rem 0 .75rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}\n"
    "p{margin:.6rem 0;max-width:48rem;overflow-wrap:anywhere}\n"
    ".lead{font-size:1.1rem;border-left:.25rem solid var(--mark);padding-left:.9rem}\n"
    /* A table that scrolls has a shade at the side where it continues: two covers move with the content and hide the
     * shades at its ends. */
    ".scroll{overflow-x:auto;margin:1rem 0;background:linear-gradient(to right,var(--paper) 30%,transparent) 0 0/3rem "
    "100% no-repeat local,linear-gradient(to left,var(--paper) 30%,transparent) 100% 0/3rem 100% no-repeat local,"
    "linear-gradient(to right,var(--shade),transparent) 0 0/.8rem 100% no-repeat scroll,"
    "linear-gradient(to left,var(--shade),transparent) 100% 0/.8rem 100% no-repeat scroll}\n"
    "table{border-collapse:collapse;font-size:.9rem}\n"
    "th,td{padding:.35rem .7rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}\n"
    "th{color:var(--soft);font-weight:600;vertical-align:bottom;border-bottom:2px solid var(--line)}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}\n"
    "td:not(.note){white-space:nowrap}.note{min-width:11rem}.plain th{white-space:nowrap}\n"
    ".strong td{font-weight:700;background:var(--band)}\n"
    ".good [data-label=verdict]{color:var(--good)}\n"
    ".bad td{background:var(--band)}"
    ".bad :is([data-label=verdict],[data-label=diverged]){color:var(--bad);font-weight:700}\n"
    /* In a wide table a sentence stands below its row, across all columns. In a narrow window rows with a sentence
     * become cards, because a sentence out of sight would make its row tall. */
    "@media (min-width:68.01rem){.under{display:grid;grid-template-columns:repeat(var(--n),auto)}"
    ".under :is(thead,tbody){display:contents}.under tr{display:grid;grid-template-columns:subgrid;grid-column:1/-1;"
    "border-bottom:1px solid var(--line)}.under td{border:0}.under th:last-child{display:none}"
    ".under td:last-child{grid-column:1/-1;white-space:normal;color:var(--soft);padding-top:0}}\n"
    "@media (max-width:68rem){:is(.cards,.under) thead{display:none}:is(.cards,.under),:is(.cards,.under) tbody"
    "{display:block}:is(.cards,.under) tr{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;padding:.5rem 0;"
    "border-bottom:1px solid var(--line)}:is(.cards,.under) td:nth-child(n){border:0;padding:0;text-align:left;"
    "white-space:normal;overflow-wrap:anywhere}:is(.cards,.under) td:first-child{flex-basis:100%;font-weight:600}"
    ":is(.cards,.under) td:empty{display:none}:is(.cards,.under) .note{flex-basis:100%;min-width:0}"
    ":is(.cards,.under) td::before{content:attr(data-label) \" \";color:var(--soft);font-weight:400}"
    ".cards td:first-child::before{content:none}}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:1rem 0;font-size:.9rem}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    "figure{margin:1.5rem 0}figure img{display:block;width:100%;height:auto;border-radius:.4rem}\n"
    "figcaption{max-width:44rem;margin-top:.5rem;color:var(--soft);font-size:.85rem}\n"
    "summary{cursor:pointer;color:var(--mark)}a{color:var(--mark)}\n"
    "pre{overflow-x:auto;padding:1rem;background:var(--band);border-radius:.4rem;font-size:.8rem;"
    "line-height:1.45}\n"
    /* Shades lie thinly over either scheme's paper, so that letters keep their contrast. */
    ".text{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".b1{background:#d948141a}.b2{background:#d9481433}.b3{background:#d948144d}.b4{background:#d9481466}"
    ".b5{background:#d9481480}.b6{background:#d9481499}\n"
    "footer{margin-top:3rem;color:var(--soft);font-size:.8rem}\n"
    "@media (max-width:40rem){main{padding:1.5rem 1rem 3rem}dl{display:block}dd{margin:0 0 .4rem}"
    "th,td{padding:.35rem .5rem}}\n"
    "@media "
    "print{body{font-size:10pt}.text span,.shades "
    "span{print-color-adjust:exact}main{max-width:none;padding:0}h2{break-after:avoid}"
    "tr,figure{break-inside:avoid}figure img{filter:none}.scroll,pre{overflow:visible;background:none}}\n";

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta name=\"generator\" content=\"iclab " ICL_VERSION "\">\n";

icl_status icl_report_create(icl_report **report, icl_error *error) {
    return icl_allocate(1, sizeof **report, "report", report, error);
}

void icl_report_destroy(icl_report **report) {
    if (*report)
        icl_text_release(&(*report)->body);
    icl_free(report);
}

/* Adds <tag>text</tag> and a new line. */
static icl_status add_element(icl_text *html, const char *tag, const char *content, icl_error *error) {
    ICL_CHECK(icl_text_print(html, error, "<%s>", tag));
    ICL_CHECK(icl_html_escape(html, content, error));
    return icl_text_print(html, error, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

icl_status icl_report_section(icl_report *report, const char *heading, icl_error *error) {
    return add_element(&report->body, "h2", heading, error);
}

icl_status icl_report_paragraph(icl_report *report, const char *text, icl_error *error) {
    return add_element(&report->body, "p", text, error);
}

icl_status icl_report_paragraphs(icl_report *report, char *text, icl_error *error) {
    for (char *line = text, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        ICL_CHECK(icl_report_paragraph(report, line, error));
    }
    return ICL_OK;
}

static icl_status add_facts(icl_text *html, const icl_report_fact *facts, size_t count, icl_error *error) {
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(add_element(html, "dt", facts[i].name, error));
        ICL_CHECK(add_element(html, "dd", facts[i].value, error));
    }
    return ICL_OK;
}

static icl_status add_device(icl_text *html, const icl_provenance *provenance, icl_error *error) {
    const icl_capabilities *device = provenance->device;
    char name[2 * ICL_NAME_CAPACITY + 8];

    if (!device)
        return ICL_OK;
    snprintf(name, sizeof name, "%s (%s)", device->name, device->spec);
    const icl_report_fact facts[] = {
        {"device", name},
        {"platform", device->platform},
        {"driver", device->driver},
        {"matrix products", icl_gemm_name(device->gemm)},
        {"arithmetic", device->fast_math ? "relaxed: error bounds do not hold" : "strict"},
        {"operands of matrix products", icl_precision_name(device->precision)},
    };
    return add_facts(html, facts, sizeof facts / sizeof *facts, error);
}

icl_status icl_report_provenance(icl_report *report, const icl_provenance *provenance, icl_error *error) {
    const icl_report_fact program[] = {
        {"iclab", ICL_VERSION " (" ICL_COMMIT ")"},
        {"compiler", ICL_COMPILER},
    };

    ICL_CHECK(icl_report_section(report, "Where these numbers come from", error));
    ICL_CHECK(icl_text_print(&report->body, error, "<dl>\n"));
    ICL_CHECK(add_facts(&report->body, provenance->facts, provenance->count, error));
    ICL_CHECK(add_device(&report->body, provenance, error));
    ICL_CHECK(add_facts(&report->body, program, sizeof program / sizeof *program, error));
    return icl_text_print(&report->body, error, "</dl>\n");
}

icl_status icl_report_listing(icl_report *report, const char *heading, const char *text, icl_error *error) {
    ICL_CHECK(icl_text_print(&report->body, error, "<details>\n"));
    ICL_CHECK(add_element(&report->body, "summary", heading, error));
    ICL_CHECK(add_element(&report->body, "pre", text, error));
    return icl_text_print(&report->body, error, "</details>\n");
}

/* ---- Text of a model ---- */

/* The bits from which on a character has shade 1, 2, … */
static const double shades[] = {1, 2, 3, 4, 6, 8};

enum { SHADES = sizeof shades / sizeof *shades, MOST_CHARACTER = 4 };

static size_t shade_of(double bits) {
    size_t shade = 0;

    while (shade < SHADES && bits >= shades[shade])
        shade++;
    return shade;
}

/* Adds a character; a byte 0 is one that no HTML file may hold. */
static icl_status add_character(icl_text *html, const char *character, bool is_priced, icl_error *error) {
    if (is_priced && *character == '\n')
        return icl_text_print(html, error, "\u21b5\n");
    return icl_html_escape(html, *character ? character : "\x01", error);
}

static icl_status add_priced(icl_text *html, const char *character, double bits, icl_error *error) {
    if (isnan(bits))
        return add_character(html, character, false, error);
    ICL_CHECK(icl_text_print(html, error, "<span class=\"b%zu\" title=\"%.2f bits\">", shade_of(bits), bits));
    ICL_CHECK(add_character(html, character, true, error));
    return icl_text_print(html, error, "</span>");
}

icl_status icl_report_passage(icl_report *report, const char *bytes, const double *bits, size_t count,
                              icl_error *error) {
    icl_text *html = &report->body;
    size_t length;

    /* A browser drops the line feed behind the tag, and would drop one of the text. */
    ICL_CHECK(icl_text_print(html, error, "<pre class=\"text\">\n"));
    for (size_t i = 0; i < count; i += length) {
        char character[MOST_CHARACTER + 1] = "";
        double sum = (double)NAN;
        memcpy(character, bytes + i, count - i < MOST_CHARACTER ? count - i : MOST_CHARACTER);
        length = character_length((const unsigned char *)character);
        length = length > 0 ? length : 1;
        character[length] = '\0';
        for (size_t k = i; bits && k < i + length; k++)
            if (!isnan(bits[k]))
                sum = isnan(sum) ? bits[k] : sum + bits[k];
        ICL_CHECK(add_priced(html, character, sum, error));
    }
    return icl_text_print(html, error, "</pre>\n");
}

/* ---- Tables ---- */

icl_status icl_report_table_begin(icl_report *report, const icl_report_column *columns, size_t count,
                                  icl_error *error) {
    assert(count <= ICL_REPORT_MAX_COLUMNS);
    report->columns = count;
    report->has_notes = false;
    ICL_CHECK(icl_text_print(&report->body, error, "<div class=\"scroll\">\n<table class=\""));
    report->table = report->body.length;
    ICL_CHECK(icl_text_print(&report->body, error, PLAIN_TABLE "\" style=\"--n:%zu\">\n<thead>\n<tr>\n", count - 1));
    for (size_t i = 0; i < count; i++) {
        report->is_number[i] = columns[i].is_number;
        snprintf(report->headings[i], MOST_HEADING, "%s", columns[i].heading);
        ICL_CHECK(
            add_element(&report->body, columns[i].is_number ? "th class=\"n\"" : "th", columns[i].heading, error));
    }
    return icl_text_print(&report->body, error, "</tr>\n</thead>\n<tbody>\n");
}

/* Adds a link to a path from the report's folder: "./" keeps a name from being read as an address's scheme. */
static icl_status add_link(icl_text *html, const char *path, const char *content, icl_error *error) {
    ICL_CHECK(icl_text_print(html, error, "<a href=\"./"));
    for (const char *c = path; *c; c++)
        ICL_CHECK(icl_text_print(html, error, strchr(PLAIN_IN_PATHS, *c) ? "%c" : "%%%02X", (unsigned char)*c));
    ICL_CHECK(icl_text_print(html, error, "\">"));
    ICL_CHECK(icl_html_escape(html, content, error));
    return icl_text_print(html, error, "</a>");
}

/* Adds a cell with its heading, which is shown if the table's layout has no headings. */
static icl_status add_cell(icl_report *report, size_t column, const char *content, const char *link, icl_error *error) {
    const bool is_note = !report->is_number[column] && strlen(content) > SENTENCE;
    icl_text *html = &report->body;

    report->has_notes = report->has_notes || is_note;
    ICL_CHECK(icl_text_print(html, error, "<td%s data-label=\"",
                             report->is_number[column] ? " class=\"n\""
                             : is_note                 ? " class=\"note\""
                                                       : ""));
    ICL_CHECK(icl_html_escape(html, report->headings[column], error));
    ICL_CHECK(icl_text_print(html, error, "\">"));
    ICL_CHECK(link ? add_link(html, link, content, error) : icl_html_escape(html, content, error));
    return icl_text_print(html, error, "</td>\n");
}

icl_status icl_report_table_row(icl_report *report, icl_report_tone tone, const char *const *cells, icl_error *error) {
    static const char *const none[ICL_REPORT_MAX_COLUMNS] = {NULL};
    return icl_report_table_linked_row(report, tone, cells, none, error);
}

icl_status icl_report_table_linked_row(icl_report *report, icl_report_tone tone, const char *const *cells,
                                       const char *const *links, icl_error *error) {
    static const char *const openings[] = {"<tr>\n", "<tr class=\"strong\">\n", "<tr class=\"good\">\n",
                                           "<tr class=\"bad\">\n"};

    ICL_CHECK(icl_text_append(&report->body, openings[tone], strlen(openings[tone]), error));
    for (size_t i = 0; i < report->columns; i++)
        ICL_CHECK(add_cell(report, i, cells[i], links[i], error));
    return icl_text_print(&report->body, error, "</tr>\n");
}

icl_status icl_report_table_end(icl_report *report, icl_error *error) {
    if (report->has_notes)
        memcpy(report->body.bytes + report->table, report->columns < MANY_COLUMNS ? CARDS_TABLE : UNDER_TABLE,
               sizeof CARDS_TABLE - 1);
    return icl_text_print(&report->body, error, "</tbody>\n</table>\n</div>\n");
}

/* ---- Pictures ---- */

/* Reads a picture; *svg stays NULL if there is none. */
static icl_status read_picture(const char *folder, const char *name, char **svg, size_t *size, icl_error *error) {
    icl_text file = {0};
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&file, error, "%s.svg", name));
    ICL_TRY(icl_path_join(folder, file.bytes, &path, error));
    if (icl_path_exists(path))
        ICL_TRY(icl_file_read(path, 0, svg, size, error));
done:
    icl_free(&path);
    icl_text_release(&file);
    return status;
}

/* Says in the place of a picture that it is missing, or why it is not taken in. */
static icl_status add_absence(icl_report *report, const char *name, const char *reason, icl_error *error) {
    icl_text line = {0};
    icl_status status = ICL_OK;

    if (reason)
        ICL_TRY(icl_text_print(&line, error, "%s.svg is not shown here: %s", name, reason));
    else
        ICL_TRY(icl_text_print(&line, error,
                               "%s was not drawn, because there is no gnuplot here: in this report's folder, "
                               "gnuplot %s.gp draws "
                               "%s.svg and %s.png.",
                               name, name, name, name));
    ICL_TRY(icl_report_paragraph(report, line.bytes, error));
done:
    icl_text_release(&line);
    return status;
}

icl_status icl_report_picture(icl_report *report, const char *folder, const char *name, const char *caption,
                              icl_error *error) {
    icl_error refusal = {0};
    char *svg = NULL;
    size_t size = 0;
    icl_status status = ICL_OK;

    ICL_TRY(read_picture(folder, name, &svg, &size, error));
    ICL_TRY(icl_text_print(&report->body, error, "<figure>\n<div class=\"scroll\">\n"));
    if (svg)
        status = icl_html_svg(&report->body, svg, size, caption ? caption : name, &refusal);
    if (!svg || status == ICL_ERROR_INPUT)
        ICL_TRY(add_absence(report, name, svg ? refusal.message : NULL, error));
    else if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, "%s", refusal.message));
    ICL_TRY(icl_text_print(&report->body, error, "</div>\n"));
    if (caption)
        ICL_TRY(add_element(&report->body, "figcaption", caption, error));
    ICL_TRY(icl_text_print(&report->body, error, "</figure>\n"));
done:
    icl_free(&svg);
    return status;
}

/* ---- The file ---- */

icl_status icl_report_write(const icl_report *report, const char *title, const char *lead, const char *folder,
                            icl_error *error) {
    icl_text page = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_append(&page, head, sizeof head - 1, error));
    ICL_TRY(add_element(&page, "title", title, error));
    ICL_TRY(icl_text_print(&page, error, "<style>\n%s</style>\n</head>\n<body>\n<main>\n", style));
    ICL_TRY(add_element(&page, "h1", title, error));
    if (lead)
        ICL_TRY(add_element(&page, "p class=\"lead\"", lead, error));
    ICL_TRY(icl_text_append(&page, report->body.bytes, report->body.length, error));
    ICL_TRY(icl_text_print(&page, error,
                           "<footer>Written by iclab " ICL_VERSION " (" ICL_COMMIT
                           "). This file holds all that it shows.</footer>\n"
                           "</main>\n</body>\n</html>\n"));
    ICL_TRY(icl_file_write_in(folder, ICL_REPORT_FILE, page.bytes, page.length, error));
done:
    icl_text_release(&page);
    return status;
}
