/* Findings: their judgement and their text. */
#include "papers/reproduce.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"

/* ---- Judging findings ---- */

/* Returns how far ours lies beyond what the criterion allows; 0 or less if it does not. */
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

icl_status icl_reproduce_verdict(icl_scale scale, const icl_reproduce_summary *summary, icl_text *text,
                                 icl_error *error) {
    const char *name = icl_scale_name(scale);
    const bool is_missed = summary->missed > 0, is_claim = summary->of_claim > 0;

    if (summary->judged == 0)
        return icl_text_print(text, error, "Nothing was judged at scale %s: no finding has a target.", name);
    return icl_text_print(text, error, "The claim %s at scale %s: %zu of %zu %s are %s.",
                          !is_claim   ? "is not judged"
                          : is_missed ? "does not hold"
                                      : "holds",
                          name, is_missed ? summary->missed : summary->judged, summary->judged,
                          is_claim ? "targets" : "self-checks", is_missed ? "missed" : "met");
}

const char *icl_criterion_name(icl_criterion criterion) {
    static const char *const names[] = {"within", "at most", "at least"};
    return names[criterion];
}

const char *icl_judgement_name(icl_judgement judgement) {
    static const char *const names[] = {"shown", "met", "missed"};
    return names[judgement];
}

const char *icl_evidence_name(icl_evidence evidence) {
    static const char *const names[] = {"", "read", "stated", "computed", "inferred", "recalled"};
    return names[evidence];
}

const char *icl_scale_name(icl_scale scale) {
    static const char *const names[ICL_SCALES] = {"ci", "short", "full"};
    return names[scale];
}

/* ---- Findings as text ---- */

icl_phrase icl_phrase_print(const char *format, ...) {
    icl_phrase phrase;
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(phrase.text, sizeof phrase.text, format, arguments);
    va_end(arguments);
    return phrase;
}

const char *icl_finding_number(double value, char text[32]) {
    icl_print(text, 32, fabs(value) < 1e-3 && value != 0 ? "%.3g" : "%.4g", value);
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

/* ---- Findings as rows of the terminal's table ---- */

/* Widths for the longest texts of icl_finding_write: -1.234e-05 +- 1.234e-05, and ">= " before it. */
enum { NAME_WIDTH = 28, OURS_WIDTH = 23, TARGET_WIDTH = 26 };

/* Adds a name; one that is too long for its column ends the line, and the next column continues on the next line. */
static icl_status add_name(icl_text *row, const char *name, int column, icl_error *error) {
    const int after = column + NAME_WIDTH + 1;

    if (strlen(name) <= NAME_WIDTH)
        return icl_text_print(row, error, "%-*s ", NAME_WIDTH, name);
    return icl_text_print(row, error, "%s\n%*s", name, after, "");
}

icl_status icl_finding_row(const icl_finding *finding, icl_text *row, icl_error *error) {
    static const char *const signs[] = {"", "<= ", ">= "};
    const icl_finding_text text = icl_finding_write(finding, " +- ", signs);

    ICL_CHECK(add_name(row, finding->what, 0, error));
    ICL_CHECK(add_name(row, finding->quantity, NAME_WIDTH + 1, error));
    return icl_text_print(row, error, "%*s %*s", OURS_WIDTH, text.ours, TARGET_WIDTH, text.target);
}
