/* The output of a reproduction: figures, curves over seeds, findings.csv, and the report that contains them. */
#include "papers/reproduce.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/run_report.h"
#include "numeric/statistics.h"
#include "papers/study_list.h"

#define FINDINGS "findings.csv"

void icl_reproduce_command(const icl_reproducing *run, char *text, size_t size) {
    const icl_reproduction *reproduction = run->reproduction;

    snprintf(text, size, "iclab reproduce %s --scale %s --seed %" PRIu32,
             reproduction->file ? reproduction->file : reproduction->name, icl_scale_name(run->params->scale),
             run->params->seed);
}

/* ---- Figures ---- */

static icl_drawing drawing_of(const icl_reproducing *run, char *command, size_t size) {
    icl_reproduce_command(run, command, size);
    return (icl_drawing){
        .folder = run->params->folder, .command = command, .draw = run->params->draw, .user = run->params->user};
}

/* Keeps the name for the report, once. */
static icl_status remember(icl_reproducing *run, const char *name, icl_error *error) {
    for (const char *line = run->pictures.bytes; line && *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") == strlen(name) && strncmp(line, name, strlen(name)) == 0)
            return ICL_OK;
    return icl_text_print(&run->pictures, error, "%s\n", name);
}

icl_status icl_reproduce_figure(icl_reproducing *run, const icl_figure *figure, icl_error *error) {
    char command[128];
    const icl_drawing drawing = drawing_of(run, command, sizeof command);

    if (run->listener && run->listener->figure)
        run->listener->figure(run->listener->user, figure);
    if (run->listener)
        return ICL_OK;
    ICL_CHECK(icl_figure_write(&drawing, figure, error));
    return remember(run, figure->name, error);
}

icl_status icl_reproduce_heat_maps(icl_reproducing *run, const icl_heat_figure *figure, icl_error *error) {
    char command[128];
    const icl_drawing drawing = drawing_of(run, command, sizeof command);

    if (run->listener && run->listener->heat_maps)
        run->listener->heat_maps(run->listener->user, figure);
    if (run->listener)
        return ICL_OK;
    ICL_CHECK(icl_heat_figure_write(&drawing, figure, error));
    return remember(run, figure->name, error);
}

/* ---- Curves: curves.csv, and a table of the report ---- */

#define CURVES "curves.csv"

static icl_status add_point(icl_reproducing *run, const icl_curve_row *row, icl_error *error) {
    ICL_CHECK(icl_grow(&run->curves, run->curve_count, &run->curve_capacity, sizeof *run->curves, "curves", error));
    run->curves[run->curve_count++] = *row;
    return ICL_OK;
}

static void forget(icl_reproducing *run, const char *figure) {
    size_t kept = 0;

    for (size_t i = 0; i < run->curve_count; i++)
        if (strcmp(run->curves[i].figure, figure) != 0)
            run->curves[kept++] = run->curves[i];
    run->curve_count = kept;
}

static icl_status add_line(icl_text *table, const icl_curve_row *row, icl_error *error) {
    ICL_CHECK(icl_text_field(table, row->figure, ",", error));
    ICL_CHECK(icl_text_field(table, row->curve, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->x, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->mean, ",", error));
    ICL_CHECK(icl_text_number_field(table, row->standard_error, ",", error));
    return icl_text_print(table, error, "%zu\n", row->seeds);
}

static icl_status write_points(const icl_reproducing *run, icl_error *error) {
    icl_text table = {0};
    icl_status status = ICL_OK;

    if (run->listener)
        return ICL_OK;
    ICL_TRY(icl_text_print(&table, error, "figure,curve,x,mean,standard_error,seeds\n"));
    for (size_t i = 0; i < run->curve_count; i++)
        ICL_TRY(add_line(&table, &run->curves[i], error));
    ICL_TRY(icl_file_write_in(run->params->folder, CURVES, table.bytes, table.length, error));
done:
    icl_text_release(&table);
    return status;
}

static icl_status add_row(const icl_reproducing *run, const icl_curve_row *row, icl_error *error) {
    char x[32], mean[32], spread[32], seeds[32];

    icl_finding_number(row->x, x);
    icl_finding_number(row->mean, mean);
    snprintf(seeds, sizeof seeds, "%zu", row->seeds);
    icl_finding_number(row->standard_error, spread);
    const char *const cells[] = {
        row->figure, row->curve, x, isnan(row->mean) ? "-" : mean, isnan(row->standard_error) ? "" : spread, seeds};
    return icl_report_table_row(run->report, ICL_TONE_PLAIN, cells, error);
}

static icl_status report_curves(const icl_reproducing *run, icl_error *error) {
    static const icl_report_column columns[] = {{"figure", false}, {"curve", false},         {"x", true},
                                                {"mean", true},    {"standard error", true}, {"seeds", true}};

    if (run->curve_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(run->report, "Curves", error));
    ICL_CHECK(icl_report_table_begin(run->report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < run->curve_count; i++)
        ICL_CHECK(add_row(run, &run->curves[i], error));
    return icl_report_table_end(run->report, error);
}

/* ---- Curves: figures ---- */

static icl_status add_points(icl_reproducing *run, const icl_curves *means, icl_error *error) {
    for (size_t i = 0; i < means->count; i++) {
        const icl_curve_value *point = &means->values[i];
        icl_curve_row row = {.x = point->x, .mean = point->y, .seeds = point->seeds};
        row.standard_error = point->standard_error > 0 || point->seeds > 1 ? point->standard_error : (double)NAN;
        snprintf(row.figure, sizeof row.figure, "%s", means->figure.name);
        snprintf(row.curve, sizeof row.curve, "%s", means->curves[point->curve].label);
        ICL_CHECK(add_point(run, &row, error));
    }
    return ICL_OK;
}

/* Returns whether there are values of ours and all of them are NaN. */
static bool lacks_ours(const icl_curves *curves) {
    bool has_ours = false;

    for (size_t i = 0; i < curves->count; i++) {
        const icl_series_style style = curves->curves[curves->values[i].curve].style;
        const bool is_ours = style != ICL_SERIES_PUBLISHED && style != ICL_SERIES_REFERENCE;
        if (is_ours && !isnan(curves->values[i].y))
            return false;
        has_ours = has_ours || is_ours;
    }
    return has_ours;
}

icl_status icl_curves_draw(icl_reproducing *run, const icl_curves *curves, icl_error *error) {
    icl_curves means = {.count = 0};
    icl_status status = ICL_OK;

    if (lacks_ours(curves))
        return ICL_OK;
    ICL_TRY(icl_curves_average(curves, &means, error));
    forget(run, means.figure.name);
    ICL_TRY(add_points(run, &means, error));
    ICL_TRY(write_points(run, error));
    ICL_TRY(icl_curves_fill(&means, error));
    ICL_TRY(icl_reproduce_figure(run, &means.figure, error));
done:
    icl_curves_release(&means);
    return status;
}

/* ---- Findings ---- */

icl_status icl_record_begin(icl_reproducing *run, icl_error *error) {
    static const icl_report_column columns[] = {{"what", false},  {"quantity", false}, {"ours", true},
                                                {"target", true}, {"verdict", false},  {"known", false},
                                                {"note", false}};

    ICL_CHECK(icl_text_print(
        &run->table, error,
        "what,quantity,ours,standard_error,target,tolerance,criterion,judgement,evidence,source,note\n"));
    ICL_CHECK(icl_report_create(&run->report, error));
    ICL_CHECK(icl_report_section(run->report, "Findings", error));
    return icl_report_table_begin(run->report, columns, sizeof columns / sizeof *columns, error);
}

/* Removes the folder's report, so that no report contradicts findings.csv if this run does not come to its end. */
static icl_status discard_report(const icl_reproducing *run, icl_error *error) {
    char *old = NULL;
    const icl_status status = icl_path_join(run->params->folder, ICL_REPORT_FILE, &old, error);

    if (status == ICL_OK)
        (void)remove(old);
    icl_free(&old);
    return status;
}

/* Writes findings.csv with one more row. */
static icl_status add_to_table(icl_reproducing *run, const icl_finding *finding, icl_error *error) {
    const bool has_target = finding->evidence != ICL_EVIDENCE_NONE;
    const double numbers[] = {finding->ours, finding->standard_error > 0 ? finding->standard_error : (double)NAN,
                              has_target ? finding->target : (double)NAN,
                              has_target ? finding->tolerance : (double)NAN};
    icl_text *table = &run->table;
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_field(table, finding->what, ",", error));
    ICL_TRY(icl_text_field(table, finding->quantity, ",", error));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ICL_TRY(icl_text_number_field(table, numbers[i], ",", error));
    ICL_TRY(icl_text_print(table, error, "%s,%s,%s,", has_target ? icl_criterion_name(finding->criterion) : "",
                           icl_judgement_name(icl_finding_judge(finding)), icl_evidence_name(finding->evidence)));
    ICL_TRY(icl_text_field(table, finding->source ? finding->source : "", ",", error));
    ICL_TRY(icl_text_field(table, finding->note ? finding->note : "", "\n", error));
    ICL_TRY(icl_file_write_in(run->params->folder, FINDINGS, table->bytes, table->length, error));
done:
    return status;
}

static icl_status add_to_report(icl_reproducing *run, const icl_finding *finding, icl_error *error) {
    static const char *const signs[] = {"", "\u2264 ", "\u2265 "};
    static const icl_report_tone tones[] = {ICL_TONE_PLAIN, ICL_TONE_GOOD, ICL_TONE_BAD};
    const icl_judgement judgement = icl_finding_judge(finding);
    const icl_finding_text text = icl_finding_write(finding, " \u00b1 ", signs);
    const char *evidence = icl_evidence_name(finding->evidence);
    const char *source = finding->source ? finding->source : "";
    char known[256], verdict[64], miss[32];

    snprintf(known, sizeof known, "%s%s%s", evidence, evidence[0] && source[0] ? ": " : "", source);
    if (judgement == ICL_MISSED)
        snprintf(verdict, sizeof verdict, "\u2717 missed by %s", icl_finding_number(icl_finding_miss(finding), miss));
    else
        snprintf(verdict, sizeof verdict, "%s", judgement == ICL_MET ? "\u2713 met" : "shown");
    const char *const cells[] = {
        finding->what, finding->quantity, text.ours, text.target, verdict, known, finding->note ? finding->note : ""};
    return icl_report_table_row(run->report, tones[judgement], cells, error);
}

icl_status icl_record_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error) {
    if (run->findings == 0)
        ICL_CHECK(discard_report(run, error));
    ICL_CHECK(add_to_table(run, finding, error));
    return add_to_report(run, finding, error);
}

/* ---- Trainings behind missed findings ---- */

static icl_status report_trainings(const icl_reproducing *run, icl_error *error) {
    static const icl_report_column columns[] = {
        {"training", false}, {"seed", true}, {"first loss", true}, {"last loss", true}};

    if (run->training_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(run->report, "Trainings behind what is missed", error));
    ICL_CHECK(icl_report_table_begin(run->report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < run->training_count; i++) {
        const icl_training_row *row = &run->trainings[i];
        char seed[16], first[32], last[32];
        snprintf(seed, sizeof seed, "%" PRIu32, row->seed);
        icl_finding_number(row->first, first);
        icl_finding_number(row->last, last);
        const char *const cells[] = {row->what, seed, isnan(row->first) ? "-" : first,
                                     row->has_diverged  ? "diverged"
                                     : isnan(row->last) ? "-"
                                                        : last};
        ICL_CHECK(icl_report_table_row(run->report, row->has_diverged ? ICL_TONE_BAD : ICL_TONE_PLAIN, cells, error));
    }
    ICL_CHECK(icl_report_table_end(run->report, error));
    return icl_report_paragraph(run->report,
                                "Losses are means over the batches of the first steps and of the last tenth. Where "
                                "they did not fall, the training failed, and the claim was not tested.",
                                error);
}

/* ---- The file ---- */

static icl_status add_pictures(icl_reproducing *run, icl_error *error) {
    icl_text name = {0}, caption = {0};
    icl_status status = ICL_OK;

    if (run->pictures.length > 0)
        ICL_TRY(icl_report_section(run->report, "Pictures", error));
    for (const char *line = run->pictures.bytes; line && *line; line += strcspn(line, "\n") + 1) {
        name.length = caption.length = 0;
        ICL_TRY(icl_text_append(&name, line, strcspn(line, "\n"), error));
        ICL_TRY(icl_text_print(&caption, error,
                               "%s: the data lie beside this report as CSV; gnuplot %s.gp draws it again.", name.bytes,
                               name.bytes));
        ICL_TRY(icl_report_picture(run->report, run->params->folder, name.bytes, caption.bytes, error));
    }
done:
    icl_text_release(&name);
    icl_text_release(&caption);
    return status;
}

static icl_status add_provenance(icl_reproducing *run, double seconds, icl_error *error) {
    const icl_reproduce_params *params = run->params;
    char command_line[256], seed[16], took[32];

    icl_reproduce_command(run, command_line, sizeof command_line);
    snprintf(seed, sizeof seed, "%" PRIu32, params->seed);
    icl_print(took, sizeof took, "%.3g s", seconds);
    const icl_report_fact facts[] = {
        {"command", params->command_line ? params->command_line : command_line},
        {"source", run->reproduction->source ? run->reproduction->source : ""},
        {"scale", icl_scale_name(params->scale)},
        {"first seed", seed},
        {"took", took},
    };
    return icl_report_provenance(
        run->report,
        &(icl_provenance){.facts = facts,
                          .count = sizeof facts / sizeof *facts,
                          .device = params->backend ? icl_backend_capabilities(params->backend) : NULL},
        error);
}

icl_status icl_record_end(icl_reproducing *run, double seconds, icl_error *error) {
    static const char explanation[] =
        "Each number of ours stands beside its target with the tolerance that was set beforehand. A target is known "
        "because it was read in the paper or its code, stated there in words or by a picture and given a number by us, "
        "computed in closed form or independently of training, inferred from what the paper says, or recalled, and "
        "then never judged. \u00b1 behind ours is one standard error.";
    icl_text lead = {0}, title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_table_end(run->report, error));
    if (run->reproduction->scope)
        ICL_TRY(icl_report_paragraph(run->report, run->reproduction->scope, error));
    ICL_TRY(report_trainings(run, error));
    ICL_TRY(icl_report_paragraph(run->report, explanation, error));
    ICL_TRY(report_curves(run, error));
    ICL_TRY(add_pictures(run, error));
    ICL_TRY(add_provenance(run, seconds, error));
    ICL_TRY(icl_text_print(&title, error, "iclab reproduce %s", run->reproduction->name));
    ICL_TRY(icl_text_print(&lead, error, "%s%s", run->reproduction->claim ? run->reproduction->claim : "",
                           run->reproduction->claim ? " " : ""));
    ICL_TRY(icl_reproduce_verdict(
        run->params->scale,
        &(icl_reproduce_summary){.missed = run->missed, .judged = run->judged, .of_claim = run->of_claim}, &lead,
        error));
    ICL_TRY(icl_report_write(run->report, title.bytes, lead.bytes, run->params->folder, error));
done:
    icl_text_release(&title);
    icl_text_release(&lead);
    return status;
}

void icl_record_release(icl_reproducing *run) {
    icl_report_destroy(&run->report);
    icl_text_release(&run->table);
    icl_text_release(&run->pictures);
    icl_free(&run->curves);
    icl_free(&run->trainings);
}
