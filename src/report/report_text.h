/* HTML text, shared by the files of reports. */
#ifndef ICLAB_REPORT_REPORT_TEXT_H
#define ICLAB_REPORT_REPORT_TEXT_H

#include "iclab/text.h"

/* Adds text such that a browser shows it as it is, in an element or in a quoted attribute: markup is escaped, and bytes
 * that no HTML file may hold become U+FFFD. */
icl_status icl_html_escape(icl_text *html, const char *content, icl_error *error);

/* Adds an SVG file's picture as an element of an HTML page. Its ids get the number in front, so that those of several
 * pictures differ; the prolog, titles and namespaces, which HTML has no use for, and the size are left out:
 * it is as wide as the page, but no smaller and no larger than keeps its text readable.
 * ICL_ERROR_INPUT, and then nothing was added, for anything but a well-formed tree of shapes, text and embedded
 * pixels: no script, no link, nothing to fetch. */
icl_status icl_html_svg(icl_text *html, const char *svg, size_t size, unsigned number, const char *label,
                        icl_error *error);

#endif
