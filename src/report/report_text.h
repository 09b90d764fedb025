/* HTML text, shared by the files of reports. */
#ifndef ICLAB_REPORT_REPORT_TEXT_H
#define ICLAB_REPORT_REPORT_TEXT_H

#include "iclab/text.h"

/* Adds text such that a browser shows it as it is, in an element or in a quoted attribute: markup is escaped, and bytes
 * that no HTML file may hold become U+FFFD. */
icl_status icl_html_escape(icl_text *html, const char *content, icl_error *error);

/* Adds an SVG file's picture to an HTML page as an <img> with a data URI: a browser runs and fetches nothing for it,
 * whatever the picture holds. The label is what is read where it cannot be seen. The picture is as wide as the page,
 * but no smaller and no larger than keeps its text readable. Fails with ICL_ERROR_INPUT, and adds nothing, for a file
 * that is not a whole picture. */
icl_status icl_html_svg(icl_text *html, const char *svg, size_t size, const char *label, icl_error *error);

#endif
