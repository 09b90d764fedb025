/* Tests reports: they are well-formed whatever they are given, show everything as text, and hold nothing that a browser
 * would fetch or run. */
#include "report/report.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

#include "../core/scratch.h"

static const char hostile[] = "<script>alert('1')</script> & \"quoted\" \x01\xff\xc3\xa9";

static const char picture[] =
    "<?xml version=\"1.0\"?>\n<svg width=\"9\" height=\"9\" viewBox=\"0 0 9 9\" "
    "xmlns=\"http://www.w3.org/2000/svg\"\n"
    " xmlns:xlink=\"http://www.w3.org/1999/xlink\"><title>a <b></title>\n<!-- <script> -->\n"
    "<defs><circle id='dot' r='1'/></defs>\n<g clip-path=\"url(#dot)\" ><use xlink:href = '#dot' />"
    "<text>1 &lt; 2 & 3</text><script>x</script></g>\n</svg>\n";

/* ---- Well-formedness ---- */

/* Says whether every tag is closed by its own, in order, except the elements that HTML never closes and those that
 * close themselves. */
static bool is_balanced(const char *html) {
    enum { MOST = 64, NAME = 32 };
    char open[MOST][NAME];
    int depth = 0;

    for (const char *at = strchr(html, '<'); at; at = strchr(at + 1, '<')) {
        char name[NAME] = "";
        const char *end = strchr(at, '>');
        const bool closes = at[1] == '/';
        if (!end)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1 + closes, " />\n"), at + 1 + closes);
        if (at[1] == '!' || strcmp(name, "meta") == 0 || strcmp(name, "img") == 0 || end[-1] == '/')
            continue;
        if (closes && (depth == 0 || strcmp(open[--depth], name) != 0))
            return false;
        if (!closes && depth < MOST)
            strcpy(open[depth++], name);
    }
    return depth == 0;
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

/* ---- A whole report ---- */

static icl_status fill(icl_report *report, const char *folder, icl_error *error) {
    static const icl_report_column columns[] = {{"what <b>", false}, {"loss", true}};
    static const char *const rows[][2] = {{hostile, "0.5"}, {"plain", "1"}};
    const icl_report_fact facts[] = {{"name <i>", hostile}, {"empty", ""}};
    const icl_provenance provenance = {.facts = facts, .count = 2};
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_section(report, hostile, error));
    ICL_TRY(icl_report_paragraph(report, hostile, error));
    ICL_TRY(icl_report_table_begin(report, columns, 2, error));
    ICL_TRY(icl_report_table_row(report, ICL_TONE_BAD, rows[0], error));
    ICL_TRY(icl_report_table_row(report, ICL_TONE_PLAIN, rows[1], error));
    ICL_TRY(icl_report_table_end(report, error));
    ICL_TRY(icl_report_picture(report, folder, "picture", hostile, error));
    ICL_TRY(icl_report_picture(report, folder, "picture", NULL, error));
    ICL_TRY(icl_report_picture(report, folder, "missing", hostile, error));
    ICL_TRY(icl_report_picture(report, folder, "half", NULL, error));
    ICL_TRY(icl_report_provenance(report, &provenance, error));
    ICL_TRY(icl_report_listing(report, hostile, hostile, error));
done:
    return status;
}

static icl_status write_report(scratch_folder *scratch, char **html, icl_error *error) {
    icl_report *report = NULL;
    size_t size;
    icl_status status = ICL_OK;

    scratch_write(scratch, "picture.svg", picture, sizeof picture - 1);
    scratch_write(scratch, "half.svg", "<svg><g>", 8);
    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(fill(report, scratch->folder, error));
    ICL_TRY(icl_report_write(report, hostile, hostile, scratch->folder, error));
    ICL_TRY(icl_file_read(scratch_path(scratch, "report.html"), 0, html, &size, error));
done:
    icl_report_destroy(&report);
    return status;
}

static void check_report(tap_run *tap, scratch_folder *scratch) {
    char *html = NULL;
    icl_error error = {0};

    if (!tap_status(tap, write_report(scratch, &html, &error), &error, "a report of hostile texts") || !html)
        return;
    tap_ok(tap, is_balanced(html), "every tag is closed, in order");
    tap_ok(tap, !strstr(html, "<script") && !strstr(html, "<i>") && !strstr(html, "<b>"), "no markup but its own");
    tap_ok(tap,
           !strstr(html, "http:") && !strstr(html, "https:") && !strstr(html, "@import") &&
               count_of(html, "src=") == count_of(html, "src=\"data:image/svg+xml;base64,"),
           "nothing to fetch");
    tap_ok(tap, strstr(html, "default-src 'none'") != NULL, "and a policy that forbids it");
    tap_ok(tap,
           count_of(html, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;quoted&quot; "
                          "\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9") == 12,
           "the hostile text is shown as it is, wherever it stands (%zu)",
           count_of(html, "&lt;script&gt;alert(&#39;1&#39;)"));
    tap_ok(tap, count_of(html, "<img alt=\"") == 2 && count_of(html, "style=\"min-width:6px;max-width:11px\"") == 2,
           "two pictures, as wide as keeps their letters readable");
    tap_ok(tap, count_of(html, "<table class=\"cards\"") == 1 && count_of(html, "<table ") == 1,
           "a table with a sentence becomes cards where it is narrow");
    tap_ok(tap, strstr(html, "gnuplot missing.gp draws missing.svg") != NULL,
           "a picture that was not drawn is spoken of");
    tap_ok(tap, strstr(html, "half.svg is not shown here: expected a whole") != NULL, "and so is half a picture");
    icl_free(&html);
}

/* ---- Text of a model ---- */

/* Each character has the shade and the tooltip of what its bytes cost together: é 1.25 bits, and the thresholds belong
 * to the shade above. */
static void check_passage(tap_run *tap, scratch_folder *scratch) {
    static const char bytes[] = "<\xc3\xa9\n\xff\0a xy\xc3\xa9\xc3";
    static const double bits[] = {0.99, 0.75, 0.5, 4, 9.5, 0.25, (double)NAN, 7.99, 1, 6, (double)NAN, 3, 2.5};
    static const char expected[] = "<pre class=\"text\">\n<span class=\"b0\" title=\"0.99 bits\">&lt;</span>"
                                   "<span class=\"b1\" title=\"1.25 bits\">\u00e9</span>"
                                   "<span class=\"b4\" title=\"4.00 bits\">\u21b5\n</span>"
                                   "<span class=\"b6\" title=\"9.50 bits\">\ufffd</span>"
                                   "<span class=\"b0\" title=\"0.25 bits\">\ufffd</span>a"
                                   "<span class=\"b5\" title=\"7.99 bits\"> </span>"
                                   "<span class=\"b1\" title=\"1.00 bits\">x</span>"
                                   "<span class=\"b5\" title=\"6.00 bits\">y</span>"
                                   "<span class=\"b3\" title=\"3.00 bits\">\u00e9</span>"
                                   "<span class=\"b2\" title=\"2.50 bits\">\ufffd</span></pre>\n";
    icl_report *report = NULL;
    char *html = NULL;
    size_t size;

    tap_need(icl_report_create(&report, tap_error()));
    tap_need(icl_report_passage(report, bytes, bits, sizeof bits / sizeof *bits, tap_error()));
    tap_need(icl_report_passage(report, "\n<b>\n", NULL, 5, tap_error()));
    tap_need(icl_report_write(report, "text", NULL, scratch->folder, tap_error()));
    tap_need(icl_file_read(scratch_path(scratch, "report.html"), 0, &html, &size, tap_error()));
    tap_ok(tap, strstr(html, expected), "characters with the shades of their bits");
    tap_ok(tap, strstr(html, "<pre class=\"text\">\n\n&lt;b&gt;\n</pre>\n"), "and without bits as they are");
    tap_ok(tap, is_balanced(html), "every tag of them is closed");
    for (int shade = 1; shade <= 6; shade++) {
        char rule[32];
        snprintf(rule, sizeof rule, ".b%d{background:", shade);
        tap_ok(tap, count_of(html, rule) == 1, "%s", rule);
    }
    icl_free(&html);
    icl_report_destroy(&report);
}

/* ---- Characters ---- */

/* Tests UTF-8 at the ends of the ranges that it allows, and just past them: each byte that is not UTF-8 becomes
 * U+FFFD. */
static void check_characters(tap_run *tap) {
    static const struct {
        const char *bytes;
        bool is_text;
    } cases[] = {{"\n", true},
                 {"\t", true},
                 {" ", true},
                 {"~", true},
                 {"\x1f", false},
                 {"\x7f", false},
                 {"\xc2\x80", true},
                 {"\xc1\xbf", false},
                 {"\xdf\xbf", true},
                 {"\xe0\xa0\x80", true},
                 {"\xe0\x9f\xbf", false},
                 {"\xed\x9f\xbf", true},
                 {"\xed\xa0\x80", false},
                 {"\xef\xbf\xbd", true},
                 {"\xf0\x90\x80\x80", true},
                 {"\xf0\x8f\xbf\xbf", false},
                 {"\xf4\x8f\xbf\xbf", true},
                 {"\xf4\x90\x80\x80", false},
                 {"\xf5\x80\x80\x80", false},
                 {"\xc3(", false},
                 {"\xe2\x82", false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *bytes = cases[i].bytes;
        char expected[16] = "";
        icl_text html = {0};
        icl_error error = {0};
        icl_status status = icl_html_escape(&html, bytes, &error);
        for (size_t k = 0; k < strlen(bytes); k++)
            strcat(expected, (unsigned char)bytes[k] == '(' ? "(" : "\xef\xbf\xbd");
        tap_ok(tap, status == ICL_OK && html.bytes && strcmp(html.bytes, cases[i].is_text ? bytes : expected) == 0,
               "character %zu, which begins with %#x, is %s", i, (unsigned)(unsigned char)bytes[0],
               cases[i].is_text ? "text" : "none");
        icl_text_release(&html);
    }
}

/* ---- Pictures ---- */

/* Tests pictures of every length modulo 3, with the bytes of `base64` from coreutils, and texts that are no picture. */
static void check_pictures(tap_run *tap) {
    static const char *const pictures[][2] = {
        {"<?xml?><svg> </svg>", "PHN2Zz4gPC9zdmc+"},
        {"<?xml?><svg></svg>", "PHN2Zz48L3N2Zz4="},
        {"<?xml?><svg>  </svg>", "PHN2Zz4gIDwvc3ZnPg=="},
    };
    static const char *const bad[] = {"", "no picture", "<svg>", "</svg>", "<svg></svg> more", "<sv></svg>"};

    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char expected[128];
        icl_text html = {0};
        icl_error error = {0};
        snprintf(expected, sizeof expected, "<img alt=\"a &amp; b\" src=\"data:image/svg+xml;base64,%s\">\n",
                 pictures[i][1]);
        icl_status status = icl_html_svg(&html, pictures[i][0], strlen(pictures[i][0]), "a & b", &error);
        tap_ok(tap, status == ICL_OK && html.bytes && strcmp(html.bytes, expected) == 0, "%s as %s", pictures[i][0],
               html.bytes ? html.bytes : error.message);
        icl_text_release(&html);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        icl_text html = {0};
        icl_error error = {0};
        icl_status status = icl_text_print(&html, &error, "before");
        if (status == ICL_OK)
            status = icl_html_svg(&html, bad[i], strlen(bad[i]), "x", &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && html.bytes && strcmp(html.bytes, "before") == 0, "refused: %s (%s)",
               bad[i], error.message);
        icl_text_release(&html);
    }
}

/* A picture that is cut off anywhere is refused. */
static void check_truncation(tap_run *tap) {
    const size_t whole = strlen(picture) - 1; /* without its newline */
    size_t accepted = 0;

    for (size_t size = 0; size <= whole; size++) {
        icl_text html = {0};
        accepted += icl_html_svg(&html, picture, size, "x", NULL) == ICL_OK;
        icl_text_release(&html);
    }
    tap_ok(tap, accepted == 1, "of all beginnings of a picture the whole one alone is taken (%zu)", accepted);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_report(&tap, &scratch);
    check_passage(&tap, &scratch);
    check_characters(&tap);
    check_pictures(&tap);
    check_truncation(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
