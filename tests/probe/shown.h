/* Reads the output of an inspection back by heading and name. */
#ifndef ICLAB_TESTS_INSPECT_SHOWN_H
#define ICLAB_TESTS_INSPECT_SHOWN_H

#include "fixture.h"
#include "iclab/random.h"
#include "probe/inspection.h"
#include "shown_figure.h"

/* Its files. */
typedef struct shown_documents {
    char *markdown, *html, *csv;
    shown_table numbers; /* inspect.csv */
} shown_documents;

static inline shown_documents shown_documents_read(const fixture *f) {
    shown_documents read = {.markdown = shown_file(f->out.folder, "inspect.md"),
                            .html = shown_file(f->out.folder, "report.html"),
                            .csv = shown_file(f->out.folder, "inspect.csv")};

    read.numbers = shown_csv(read.csv);
    return read;
}

static inline void shown_documents_release(shown_documents *read) {
    shown_table_release(&read->numbers);
    free(read->markdown);
    free(read->html);
    free(read->csv);
}

/* ---- Numbers ---- */

static inline bool shown_same(double a, double b) {
    return isnan(a) ? isnan(b) : fabs(a - b) <= 1e-12 * fabs(b);
}

/* Checks a row of inspect.csv: its number, and its standard error (0: none). */
static inline void shown_found(tap_run *tap, const shown_documents *read, size_t layer, const char *what,
                               const char *quantity, double value, double standard_error) {
    char row[512];

    snprintf(row, sizeof row, "%zu|%s|%s", layer, what, quantity);
    const double seen = shown_number(&read->numbers, row, "value");
    const double spread = shown_number(&read->numbers, row, "standard_error");
    if (!tap_ok(tap, shown_same(seen, value) && shown_same(spread, standard_error > 0 ? standard_error : (double)NAN),
                "inspect.csv: %s", row))
        tap_note("%.17g +- %g, expected %.17g +- %g", seen, spread, value, standard_error);
}

/* The callback was given every row of inspect.csv, in its order. */
static inline void shown_report_is(tap_run *tap, const fixture *f, const shown_documents *read) {
    bool same = read->numbers.rows == f->count + 1;

    for (size_t i = 0; same && i < f->count; i++) {
        char *const *row = read->numbers.cells + (i + 1) * SHOWN_COLUMNS;
        const found *reported = &f->all[i];
        const double spread = reported->standard_error > 0 ? reported->standard_error : (double)NAN;
        same = strtoul(row[0], NULL, 10) == reported->layer &&
               strncmp(row[1], reported->what, sizeof reported->what - 1) == 0 &&
               strncmp(row[2], reported->quantity, sizeof reported->quantity - 1) == 0 &&
               shown_same(*row[3] ? strtod(row[3], NULL) : (double)NAN, reported->value) &&
               shown_same(*row[4] ? strtod(row[4], NULL) : (double)NAN, spread) &&
               strncmp(row[5], reported->note, sizeof reported->note - 1) == 0;
        if (!same)
            tap_note("row %zu: %s, %s", i + 1, reported->what, reported->quantity);
    }
    tap_ok(tap, same, "%zu numbers are reported as inspect.csv has them", f->count);
}

/* ---- Tables ---- */

/* Reads the table with that column in a section of report.html; inspect.md has the same. */
static inline shown_table shown_section(tap_run *tap, const shown_documents *read, const char *section,
                                        const char *column) {
    shown_table html = shown_html(read->html, section, column);
    shown_table markdown = shown_markdown(read->markdown, section, column);
    bool same = html.rows > 1 && markdown.rows == html.rows && markdown.columns + 2 == html.columns;

    for (size_t i = 0; same && i < markdown.rows * SHOWN_COLUMNS; i++)
        same = i % SHOWN_COLUMNS >= markdown.columns || strcmp(html.cells[i], markdown.cells[i]) == 0;
    tap_ok(tap, same, "%s: inspect.md has the report's table", section);
    shown_table_release(&markdown);
    return html;
}

/* ---- The truth ---- */

/* Sets parameters that are all different, and matrices [width][width] none of which is symmetric: normal numbers times
 * a scale, with a constant added on the diagonal. */
static inline void set_parameters(fixture *f, float scale, float diagonal, size_t width) {
    const icl_random_params normal = {.key = {61, 67, 0}, .distribution = ICL_NORMAL};

    for (size_t i = 0; i < icl_model_size(icl_trainer_model(f->trainer)); i++)
        f->values[i] = scale * icl_random_value(&normal, i) + (i % (width * width) % (width + 1) == 0 ? diagonal : 0);
}

/* Returns the inspection that its parts are given: with it a test measures by the same functions of the lower rooms. */
static inline icl_inspection shown_truth(fixture *f, const icl_inspect_params *params) {
    const icl_task *task = icl_trainer_task(f->trainer);

    return (icl_inspection){.params = params,
                            .recipe = f->recipe,
                            .trainer = f->trainer,
                            .task = task,
                            .model = icl_trainer_model(f->trainer),
                            .d = icl_task_dimension(task),
                            .n = icl_task_context(task),
                            .seed = (uint32_t)icl_recipe_count(f->recipe, "eval", "seed"),
                            .values = f->values};
}

#endif
