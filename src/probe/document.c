/* Documents of an inspection (sections, tables and pictures, both as Markdown and as HTML, and every number as CSV),
 * and the sequences that it measures on. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/number.h"
#include "probe/inspection.h"
#include "run/evaluation.h"

/* ---- Documents ---- */

void icl_inspect_progress(const icl_inspection *run, const char *doing, double share) {
    if (run->params->progress)
        run->params->progress(run->params->user, doing, share);
}

icl_status icl_inspect_poll(const icl_inspection *run, icl_error *error) {
    if (!run->params->stop || !*run->params->stop)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INTERRUPTED, "inspect: stopped before its report was written");
}

icl_status icl_inspect_found(icl_inspection *run, const icl_inspected *found, icl_error *error) {
    const double standard_error = found->standard_error > 0 ? found->standard_error : (double)NAN;

    if (run->params->report)
        run->params->report(run->params->user, found);
    ICL_CHECK(icl_text_print(&run->table, error, "%zu,", found->layer));
    ICL_CHECK(icl_text_field(&run->table, found->what, ",", error));
    ICL_CHECK(icl_text_field(&run->table, found->quantity, ",", error));
    ICL_CHECK(icl_text_number_field(&run->table, found->value, ",", error));
    ICL_CHECK(icl_text_number_field(&run->table, standard_error, ",", error));
    return icl_text_field(&run->table, found->note ? found->note : "", "\n", error);
}

const char *icl_inspect_head(const icl_inspection *run, size_t loop, size_t head, char text[ICL_INSPECT_CELL]) {
    if (icl_model_loops(run->model) > 1)
        snprintf(text, ICL_INSPECT_CELL, "loop %zu, head %zu", loop + 1, head + 1);
    else
        snprintf(text, ICL_INSPECT_CELL, "head %zu", head + 1);
    return text;
}

const char *icl_inspect_number(double value, char text[ICL_INSPECT_CELL]) {
    icl_print(text, ICL_INSPECT_CELL, isnan(value) ? "-" : "%.4g", value);
    return text;
}

const char *icl_inspect_measured(double value, double standard_error, char text[ICL_INSPECT_CELL]) {
    if (standard_error > 0 && isfinite(value))
        icl_print(text, ICL_INSPECT_CELL, "%.4g +- %.2g", value, standard_error);
    else
        icl_inspect_number(value, text);
    return text;
}

icl_status icl_inspect_section(icl_inspection *run, const char *heading, icl_error *error) {
    ICL_CHECK(icl_text_print(&run->markdown, error, "## %s\n\n", heading));
    return icl_report_section(run->report, heading, error);
}

icl_status icl_inspect_paragraph(icl_inspection *run, icl_error *error, const char *format, ...) {
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    ICL_CHECK(icl_text_print(&run->markdown, error, "%s\n\n", text));
    return icl_report_paragraph(run->report, text, error);
}

static icl_status add_picture(icl_inspection *run, const char *name, const char *title, icl_error *error) {
    ICL_CHECK(icl_text_print(&run->markdown, error, "![%s](%s.svg)\n\n", title, name));
    return icl_report_picture(run->report, run->params->folder, name, title, error);
}

icl_status icl_inspect_figure(icl_inspection *run, const icl_figure *figure, icl_error *error) {
    ICL_CHECK(icl_figure_write(&run->drawing, figure, error));
    return add_picture(run, figure->name, figure->title, error);
}

icl_status icl_inspect_curves(icl_inspection *run, icl_curves *curves, icl_error *error) {
    ICL_CHECK(icl_curves_fill(curves, error));
    return icl_inspect_figure(run, &curves->figure, error);
}

icl_status icl_inspect_heat_maps(icl_inspection *run, const icl_heat_figure *figure, icl_error *error) {
    ICL_CHECK(icl_heat_figure_write(&run->drawing, figure, error));
    return add_picture(run, figure->name, figure->title, error);
}

icl_status icl_inspect_table_begin(icl_inspection *run, const icl_report_column *columns, size_t count,
                                   icl_error *error) {
    run->columns = count;
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_text_print(&run->markdown, error, "| %s %s", columns[i].heading, i + 1 < count ? "" : "|\n"));
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_text_print(&run->markdown, error, "| %s %s", columns[i].is_number ? "---:" : "---",
                                 i + 1 < count ? "" : "|\n"));
    return icl_report_table_begin(run->report, columns, count, error);
}

icl_status icl_inspect_table_row(icl_inspection *run, icl_report_tone tone, const char *const *cells,
                                 icl_error *error) {
    const char *mark = tone == ICL_TONE_STRONG ? "**" : "";

    for (size_t i = 0; i < run->columns; i++) {
        const char *around = cells[i][0] != '\0' ? mark : "";
        ICL_CHECK(icl_text_print(&run->markdown, error, "| %s%s%s %s", around, cells[i], around,
                                 i + 1 < run->columns ? "" : "|\n"));
    }
    return icl_report_table_row(run->report, tone, cells, error);
}

icl_status icl_inspect_table_end(icl_inspection *run, icl_error *error) {
    ICL_CHECK(icl_text_print(&run->markdown, error, "\n"));
    return icl_report_table_end(run->report, error);
}

/* ---- Sequences that an inspection measures on ---- */

/* Chunk numbers reserved for each sample, more than any sample has. */
#define CHUNKS_OF_SAMPLE ((uint64_t)1 << 36)

/* The most floats of a sample's tokens: 512 MiB. */
#define MAX_SAMPLE_ELEMENTS ((size_t)1 << 27)

static size_t tokens_of_sequence(const icl_inspection *run) {
    return (run->n + 1) * (run->d + 1);
}

static void copy_chunk(const icl_inspection *run, const icl_sequences *drawn, size_t first,
                       icl_inspect_sample *sample) {
    const size_t left = sample->count - first, size = tokens_of_sequence(run);
    const size_t count = left < drawn->chunk ? left : drawn->chunk;

    memcpy(sample->tokens + first * size, drawn->inputs, count * size * sizeof(float));
    memcpy(sample->noise + first, drawn->noise, count * sizeof(float));
    memcpy(sample->targets + first, drawn->targets, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        sample->predictions[first + i] = (double)drawn->model[i];
}

icl_status icl_inspect_draw(icl_inspection *run, icl_inspect_purpose purpose, size_t count, icl_inspect_sample *sample,
                            icl_error *error) {
    const size_t size = tokens_of_sequence(run), most = MAX_SAMPLE_ELEMENTS / size;
    icl_sequences drawn = {0};
    icl_status status = ICL_OK;

    *sample = (icl_inspect_sample){.count = count < most ? count : most > 2 ? most : 2};
    ICL_TRY(icl_allocate(sample->count, size * sizeof(float), "sequences", &sample->tokens, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(float), "noise levels", &sample->noise, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(float), "targets", &sample->targets, error));
    ICL_TRY(icl_allocate(sample->count, sizeof(double), "predictions", &sample->predictions, error));
    ICL_TRY(icl_sequences_create(run->params->backend, run->task, run->seed, &drawn, error));
    for (size_t first = 0; first < sample->count; first += drawn.chunk) {
        ICL_TRY(icl_inspect_poll(run, error));
        ICL_TRY(icl_sequences_sample(&drawn, purpose * CHUNKS_OF_SAMPLE + first / drawn.chunk, error));
        ICL_TRY(icl_sequences_predict(&drawn, run->trainer, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, 0, NULL, error));
        copy_chunk(run, &drawn, first, sample);
    }
done:
    icl_sequences_release(&drawn);
    return status;
}

void icl_inspect_sample_release(icl_inspect_sample *sample) {
    icl_free(&sample->tokens);
    icl_free(&sample->noise);
    icl_free(&sample->targets);
    icl_free(&sample->predictions);
    icl_free(&sample->weights);
}

const float *icl_inspect_query(const icl_inspection *run, const icl_inspect_sample *sample, size_t sequence) {
    return sample->tokens + sequence * tokens_of_sequence(run) + run->n * (run->d + 1);
}

double icl_inspect_product(const double *weights, const float *query, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += weights[i] * (double)query[i];
    return sum;
}
