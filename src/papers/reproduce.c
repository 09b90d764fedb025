/* The frame of reproductions: judging, recording and running them. */
#include "papers/reproduce.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "papers/record.h"

#define FINDINGS "findings.csv"

/* ---- Judging ---- */

/* How far ours lies beyond what the criterion allows; 0 or less: it does not. */
static double excess(const icl_finding *finding) {
    const double above = finding->ours - finding->target;

    switch (finding->criterion) {
    case ICL_AT_MOST:
        return above - finding->tolerance;
    case ICL_AT_LEAST:
        return -above - finding->tolerance;
    case ICL_WITHIN:
    default:
        return fabs(above) - finding->tolerance;
    }
}

icl_judgement icl_finding_judge(const icl_finding *finding) {
    if (finding->evidence == ICL_EVIDENCE_NONE || finding->evidence == ICL_RECALLED)
        return ICL_SHOWN;
    return excess(finding) <= 0 ? ICL_MET : ICL_MISSED; /* NaN is missed */
}

double icl_finding_miss(const icl_finding *finding) {
    return icl_finding_judge(finding) == ICL_MISSED ? excess(finding) : 0;
}

const char *icl_judgement_name(icl_judgement judgement) {
    static const char *const names[] = {"shown", "met", "missed"};
    return names[judgement];
}

const char *icl_evidence_name(icl_evidence evidence) {
    static const char *const names[] = {"", "read", "computed", "inferred", "recalled"};
    return names[evidence];
}

const char *icl_scale_name(icl_scale scale) {
    static const char *const names[ICL_SCALES] = {"ci", "short", "full"};
    return names[scale];
}

/* ---- As text ---- */

const char *icl_finding_number(double value, char text[32]) {
    snprintf(text, 32, fabs(value) < 1e-3 && value != 0 ? "%.3g" : "%.4g", value);
    return text;
}

icl_finding_text icl_finding_write(const icl_finding *finding, const char *plus_minus, const char *const signs[3]) {
    icl_finding_text text;
    char value[32], spread[32];

    snprintf(text.ours, sizeof text.ours, "%s%s%s", icl_finding_number(finding->ours, value),
             finding->standard_error > 0 ? plus_minus : "",
             finding->standard_error > 0 ? icl_finding_number(finding->standard_error, spread) : "");
    snprintf(text.target, sizeof text.target, "-");
    if (finding->evidence != ICL_EVIDENCE_NONE)
        snprintf(text.target, sizeof text.target, "%s%s%s%s", signs[finding->criterion],
                 icl_finding_number(finding->target, value), finding->tolerance == 0 ? "" : plus_minus,
                 finding->tolerance == 0 ? "" : icl_finding_number(finding->tolerance, spread));
    return text;
}

/* ---- Recording ---- */

/* A text as a field of a CSV file: in quotes, with quotes doubled. */
static size_t quote(char *to, size_t size, const char *text) {
    size_t used = 0;

    if (used + 1 < size)
        to[used++] = '"';
    for (const char *c = text ? text : ""; *c && used + 3 < size; c++) {
        if (*c == '"')
            to[used++] = '"';
        to[used++] = *c;
    }
    to[used++] = '"';
    to[used] = '\0';
    return used;
}

/* One row of findings.csv, of which `row` holds `size` bytes. */
static void format_row(const icl_finding *finding, char *row, size_t size) {
    const bool has_target = finding->evidence != ICL_EVIDENCE_NONE;
    const struct {
        bool present;
        double value;
    } numbers[] = {{!isnan(finding->ours), finding->ours},
                   {finding->standard_error > 0, finding->standard_error},
                   {has_target, finding->target},
                   {has_target, finding->tolerance}};
    size_t used = 0;

    used += quote(row + used, size - used, finding->what);
    row[used++] = ',';
    used += quote(row + used, size - used, finding->quantity);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[ICL_NUMBER_CAPACITY] = "";
        used += (size_t)snprintf(row + used, size - used, ",%s",
                                 numbers[i].present ? icl_format_number(numbers[i].value, text) : text);
    }
    used += (size_t)snprintf(row + used, size - used, ",%s,%s,", icl_judgement_name(icl_finding_judge(finding)),
                             icl_evidence_name(finding->evidence));
    used += quote(row + used, size - used, finding->source);
    row[used++] = ',';
    used += quote(row + used, size - used, finding->note);
    snprintf(row + used, size - used, "\n");
}

static icl_status write_table(icl_reproducing *run, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(icl_path_join(run->params->folder, FINDINGS, &path, error));
    ICL_TRY(icl_file_write(path, run->table, strlen(run->table), error));
done:
    icl_free(&path);
    return status;
}

static icl_status append(char **table, const char *row, icl_error *error) {
    const size_t used = *table ? strlen(*table) : 0, more = strlen(row);
    char *longer = NULL;
    const icl_status status = icl_allocate(used + more + 1, 1, "table of findings", &longer, error);

    if (status != ICL_OK)
        return status;
    snprintf(longer, used + more + 1, "%s%s", *table ? *table : "", row);
    icl_free(table);
    *table = longer;
    return ICL_OK;
}

icl_status icl_reproduce_found(icl_reproducing *run, const icl_finding *finding, icl_error *error) {
    enum { TEXTS = 500, ROW = 16 * TEXTS }; /* room for four texts of quotes alone */
    icl_status status = ICL_OK;
    char row[ROW];
    /* Texts are short; whatever is not is cut rather than lost with the row. */
    char what[TEXTS], quantity[TEXTS], source[TEXTS], note[TEXTS];
    icl_finding cut = *finding;

    snprintf(what, sizeof what, "%s", finding->what);
    snprintf(quantity, sizeof quantity, "%s", finding->quantity);
    snprintf(source, sizeof source, "%s", finding->source ? finding->source : "");
    snprintf(note, sizeof note, "%s", finding->note ? finding->note : "");
    cut.what = what, cut.quantity = quantity, cut.source = source, cut.note = note;
    format_row(&cut, row, sizeof row);
    if (run->findings == 0)
        ICL_TRY(icl_record_discard(run, error));
    ICL_TRY(append(&run->table, row, error));
    ICL_TRY(write_table(run, error));
    ICL_TRY(icl_record_finding(run, finding, error));
    run->findings++;
    run->missed += icl_finding_judge(finding) == ICL_MISSED;
    if (run->params->report)
        run->params->report(run->params->user, run->reproduction, finding);
done:
    return status;
}

/* ---- Running ---- */

bool icl_reproduce_wants(const icl_reproducing *run, const char *cell) {
    return !run->params->only || strstr(cell, run->params->only);
}

void icl_reproduce_command(const icl_reproducing *run, char *text, size_t size) {
    snprintf(text, size, "iclab reproduce %s --scale %s --seed %" PRIu32, run->reproduction->name,
             icl_scale_name(run->params->scale), run->params->seed);
}

icl_status icl_reproduce_poll(const icl_reproducing *run, icl_error *error) {
    if (run->params->stop && *run->params->stop)
        return icl_fail(error, ICL_ERROR_INTERRUPTED, "%s: stopped", run->reproduction->name);
    return ICL_OK;
}

void icl_reproduce_say(icl_reproducing *run, const char *format, ...) {
    char text[512];
    va_list arguments;

    if (!run->params->say)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run->params->say(run->params->user, text);
}

icl_status icl_reproduce(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                         icl_reproduce_summary *summary, icl_error *error) {
    icl_reproduce_params own = *params;
    icl_reproducing run = {.params = &own, .reproduction = reproduction};
    const double start = icl_clock_seconds();
    icl_status status = ICL_OK;

    if (own.seed == 0)
        own.seed = 1;
    ICL_TRY(icl_folder_create(own.folder, error));
    ICL_TRY(append(&run.table, "what,quantity,ours,standard_error,target,tolerance,judgement,evidence,source,note\n",
                   error));
    ICL_TRY(icl_record_begin(&run, error));
    ICL_TRY(reproduction->run(&run, error));
    if (run.findings == 0)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: --only %s: no cell's name contains that; without --only every cell runs",
                         reproduction->name, own.only ? own.only : ""));
    ICL_TRY(icl_record_end(&run, icl_clock_seconds() - start, error));
done:
    *summary = (icl_reproduce_summary){run.findings, run.missed, icl_clock_seconds() - start};
    icl_record_release(&run);
    icl_free(&run.table);
    return status;
}
