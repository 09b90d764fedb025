/*
 * Reports: one HTML file that contains everything it shows. It opens without network and runs no script (its own policy
 * forbids both), follows the reader's light or dark scheme, prints, and shows any text literally.
 *
 * A report is filled from top to bottom; title and lead, which are known last, are arguments of icl_report_write. All
 * texts are UTF-8 and need only live during the call.
 */
#ifndef ICLAB_REPORT_REPORT_H
#define ICLAB_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/backend.h"
#include "iclab/run.h"
#include "iclab/run_report.h"
#include "iclab/status.h"
#include "iclab/text.h"
#include "iclab/train.h"
#include "run/evaluation_grid.h"
#include "run/sweep/sweep.h"

#define ICL_REPORT_MAX_COLUMNS 16

typedef struct icl_report icl_report;

icl_status icl_report_create(icl_report **report, icl_error *error);
void icl_report_destroy(icl_report **report);

icl_status icl_report_section(icl_report *report, const char *heading, icl_error *error);
icl_status icl_report_paragraph(icl_report *report, const char *text, icl_error *error);

/* Adds a paragraph for each line of a text, which ends with a line's end or is NULL. Each line's end becomes '\0'. */
icl_status icl_report_paragraphs(icl_report *report, char *text, icl_error *error);

/* A name and what it is. */
typedef struct icl_report_fact {
    const char *name, *value;
} icl_report_fact;

/* Where numbers come from: the caller's part (recipe, seed, command line, …), then the device with its driver, its way
 * of multiplying matrices and whether its arithmetic is relaxed, and this program's version, commit and compiler.
 * device: NULL if there was none. */
typedef struct icl_provenance {
    const icl_report_fact *facts;
    size_t count;
    const icl_capabilities *device;
} icl_provenance;

icl_status icl_report_provenance(icl_report *report, const icl_provenance *provenance, icl_error *error);

/* Adds text of a machine, unchanged, folded below its heading. */
icl_status icl_report_listing(icl_report *report, const char *heading, const char *text, icl_error *error);

/* ---- Text of a model ---- */

/* Adds text whose characters are shaded by what their bytes cost together: bits [count], NaN for a byte without one.
 * bits = NULL: without shades. A bent arrow stands at the end of a line that costs. */
icl_status icl_report_passage(icl_report *report, const char *bytes, const double *bits, size_t count,
                              icl_error *error);

/* ---- Tables: begin, rows, end ---- */

typedef struct icl_report_column {
    const char *heading;
    bool is_number; /* set flush right */
} icl_report_column;

/* The meaning of a row for the reader. Good and bad colour its cell below the heading "verdict", or "diverged". The
 * cells also say it in words. */
typedef enum icl_report_tone {
    ICL_TONE_PLAIN = 0,
    ICL_TONE_STRONG, /* the table's subject */
    ICL_TONE_GOOD,
    ICL_TONE_BAD,
} icl_report_tone;

/* Adds a table of up to ICL_REPORT_MAX_COLUMNS columns, for each of which every row has a cell. A table that is too
 * wide scrolls by itself; one with sentences in its cells becomes a list of cards in a narrow window. */
icl_status icl_report_table_begin(icl_report *report, const icl_report_column *columns, size_t count, icl_error *error);
icl_status icl_report_table_row(icl_report *report, icl_report_tone tone, const char *const *cells, icl_error *error);
/* As above, with links from cells to files: links[column] is a path from the report's folder, or NULL. */
icl_status icl_report_table_linked_row(icl_report *report, icl_report_tone tone, const char *const *cells,
                                       const char *const *links, icl_error *error);
icl_status icl_report_table_end(icl_report *report, icl_error *error);

/* ---- Pictures ---- */

/* Takes in NAME.svg of the folder, which a figure wrote (figure.h). If it is missing or incomplete, a line in its place
 * says so and how to draw it. The caption may be NULL. */
icl_status icl_report_picture(icl_report *report, const char *folder, const char *name, const char *caption,
                              icl_error *error);

/* ---- The file ---- */

/* Writes report.html in the folder, atomically. lead: the result in a sentence or two, or NULL. */
icl_status icl_report_write(const icl_report *report, const char *title, const char *lead, const char *folder,
                            icl_error *error);

/* ---- Text in HTML and in scripts of gnuplot ---- */

/* Adds text such that a browser shows it literally, in an element or in a quoted attribute: markup is escaped, and
 * bytes that no HTML file may hold become U+FFFD. */
icl_status icl_html_escape(icl_text *html, const char *content, icl_error *error);

/* Adds an SVG file's picture to an HTML page as an <img> with a data URI, so that a browser runs and fetches nothing
 * for it, whatever the picture holds. The label is read if the picture cannot be seen. The picture is as wide as the
 * page, within the limits that keep its text readable. Fails with ICL_ERROR_INPUT, and adds nothing, for a file that is
 * not a complete picture. */
icl_status icl_html_svg(icl_text *html, const char *svg, size_t size, const char *label, icl_error *error);

/* The height of letters in the pixels of a figure. A report shows a picture large enough to read them. */
enum { ICL_FIGURE_FONT = 14 };

/* Adds a gnuplot string, in double quotes, that means this text whatever it holds. Quotes are not doubled, because
 * gnuplot misreads that inside the braces of a loop, so that a column's name could end the script. */
icl_status icl_script_text(icl_text *script, const char *text, icl_error *error);

/* ---- A passage of held-out text with the cost of each byte, and text that the model writes (run_report.c) ---- */

/* Windows of the final table, in its order, and new text. Zero is none; the arrays go with icl_free. */
typedef struct icl_passages {
    size_t count, length; /* windows, and the bytes of each: task.length + 1 */
    char *bytes;          /* [count][length]; 0 behind the end of the text */
    double *bits;         /* [count][length], -log2 of the model's probability; NaN where the table scores nothing */
    char *written;        /* what the model writes; NULL: it does not decode */
} icl_passages;

/* Reads as many windows as have about `bytes` positions, one at least, for a trainer of a task on text; their bits are
 * those that icl_evaluate takes the mean of, to rounding. The model writes `count` bytes, those that `iclab generate
 * --bytes COUNT` has by default. The arrays are to be freed also after a failure. */
icl_status icl_passages_read(icl_trainer *trainer, size_t bytes, size_t count, icl_passages *passages,
                             icl_error *error);

/* ---- Reports of evaluation grids, of sweeps and of their cells (sweep_report.c) ---- */

/* Parameters of the report of an evaluation grid. */
typedef struct icl_grid_report {
    const char *folder;              /* takes the report and its pictures */
    const icl_evaluation_grid *grid; /* a grid that was run */
    const icl_run_facts *facts;      /* device, recipe's name, seed, command line */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* passed to the call above */
} icl_grid_report;

/* Writes figures and report.html into the folder. One key: the figures loss (every predictor's over its values) and, if
 * several positions are scored, positions (the model's at each). Two keys, the model's only: map (by both) and loss
 * (over the first, with a curve for each value of the second). */
icl_status icl_grid_report_write(const icl_grid_report *params, icl_error *error);

/* Parameters of the reports of a sweep. */
typedef struct icl_sweep_report {
    const char *folder;       /* the sweep's folder */
    const icl_sweep *sweep;   /* a sweep whose cells are all finished */
    const char *command_line; /* for the record; may be NULL */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* passed to the call above */
} icl_sweep_report;

/* Writes the figure errors, over the first key of the grid with a curve for each point of the others, and report.html:
 * means over seeds with the best row marked, and all cells with links to their reports. results [cells]. */
icl_status icl_sweep_report_write(const icl_sweep_report *params, const icl_sweep_result *results, icl_error *error);

/* Writes the report of one cell, which the backend finished in its own folder, and the figures of its training. Writes
 * nothing for a cell that diverged. */
icl_status icl_sweep_cell_report_write(const icl_sweep_report *params, const icl_backend *backend, size_t cell,
                                       const char *folder, const icl_sweep_result *result, icl_error *error);

#endif
