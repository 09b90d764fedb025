/*
 * This program prints what each study shows at each scale, from planted numbers: nothing is trained or measured.
 *
 *     finding   study, scale, what, quantity, target, tolerance, criterion, evidence and source of a finding that is
 *               judged; what depends on measured numbers differs between two plantings and is "~"
 *     findings  study, scale, and how many there are, those that are only shown included
 *     shown     study, quantity, number and note of each finding of scale short, those that are only shown included
 *     figure    study, name, title, axes, and each curve or map with the number of its points and sums that tell its
 *               values and their order, of scale short
 *     broken    a finding that breaks a law: a judged finding has words, a finite target, a tolerance of 0 or more and
 *               a source, is told from all others by its names, is met by measurements within its bounds, and missed
 *               by those beyond, by as much as they are; or a study whose claim or scope is not one sentence
 *
 * Arguments: names of studies; none: all.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "papers/study_list.h"

enum {
    PLANTINGS = 2,
    MOST_FINDINGS = 4000,
};

/* The words and the numbers of a finding. */
typedef struct row {
    char what[160], quantity[160], criterion[16], evidence[16], source[160], note[256];
    double target, tolerance;
} row;

typedef struct listing {
    const char *study;
    uint64_t planting;
    bool draws;
    size_t found; /* findings, including those that are only shown */
    size_t count; /* rows, that is, judged findings */
    row rows[MOST_FINDINGS];
} listing;

/* Returns a number that differs from cell to cell, from number to number and from planting to planting. */
static icl_number plant(void *user, const icl_study_cell *cell, size_t number) {
    const listing *all = user;
    char words[256];
    const int length =
        snprintf(words, sizeof words, "%s %" PRIu32 " %zu %" PRIu64, cell->name, cell->seed, number, all->planting);
    const double share = (double)(icl_hash(words, (size_t)length) >> 11) * 0x1p-53;

    return (icl_number){.5 + .25 * share, .01 + .01 * share};
}

/* ---- Laws ---- */

/* Says whether a measurement that is `above` above the target is judged rightly: missed by `miss`, or met if that is
 * 0. */
static bool is_judged(const icl_finding *finding, double above, double miss) {
    icl_finding planted = *finding;

    planted.ours = finding->target + above;
    const double size = fabs(finding->target) + fabs(above);
    return icl_finding_judge(&planted) == (miss > 0 ? ICL_MISSED : ICL_MET) &&
           fabs(icl_finding_miss(&planted) - miss) <= 1e-12 * size;
}

/* Checks verdicts on both sides of each bound, and far away. */
static bool has_bounds(const icl_finding *finding) {
    const double tolerance = finding->tolerance, size = fabs(finding->target) + tolerance + 1e-9;
    const double within = .9 * tolerance, step = 1e-3 * size, far = 1e3 * size;
    const bool high = finding->criterion != ICL_AT_LEAST, low = finding->criterion != ICL_AT_MOST;

    return is_judged(finding, within, 0) && is_judged(finding, -within, 0) &&
           is_judged(finding, tolerance + step, high ? step : 0) &&
           is_judged(finding, tolerance + far, high ? far : 0) &&
           is_judged(finding, -tolerance - step, low ? step : 0) && is_judged(finding, -tolerance - far, low ? far : 0);
}

static bool has_words(const char *text) {
    return text && text[0] != '\0' && !strpbrk(text, "\t\n");
}

static const char *find_flaw(const icl_finding *finding, const listing *all) {
    if (!has_words(finding->what) || !has_words(finding->quantity))
        return "expected one line of words";
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->rows[i].what, finding->what) == 0 && strcmp(all->rows[i].quantity, finding->quantity) == 0 &&
            strcmp(all->rows[i].note, finding->note ? finding->note : "") == 0)
            return "expected words that no other finding has";
    if (!isfinite(finding->target) || !(finding->tolerance >= 0 && isfinite(finding->tolerance)))
        return "expected a finite target and a tolerance of 0 or more";
    if (!has_words(finding->source))
        return "expected a source";
    return has_bounds(finding) ? NULL : "expected a verdict on both sides of its bounds";
}

/* ---- Findings ---- */

static void hear(void *user, const icl_finding *finding) {
    listing *all = user;
    const char *flaw;

    all->found++;
    if (all->draws)
        printf("shown\t%s\t%s\t%.6g\t%s\n", all->study, finding->quantity, finding->ours,
               finding->note ? finding->note : "");
    if (finding->evidence == ICL_EVIDENCE_NONE || finding->evidence == ICL_RECALLED)
        return;
    flaw = find_flaw(finding, all);
    if (flaw)
        printf("broken\t%s: %s, %s: %s\n", all->study, finding->what, finding->quantity, flaw);
    if (all->count == MOST_FINDINGS)
        return;
    row *to = &all->rows[all->count++];
    *to = (row){.target = finding->target, .tolerance = finding->tolerance};
    snprintf(to->what, sizeof to->what, "%s", finding->what);
    snprintf(to->quantity, sizeof to->quantity, "%s", finding->quantity);
    snprintf(to->criterion, sizeof to->criterion, "%s", icl_criterion_name(finding->criterion));
    snprintf(to->evidence, sizeof to->evidence, "%s", icl_evidence_name(finding->evidence));
    snprintf(to->source, sizeof to->source, "%s", finding->source ? finding->source : "");
    snprintf(to->note, sizeof to->note, "%s", finding->note ? finding->note : "");
}

/* Returns this finding in the other planting: the one with the same words, or else the one at the same place. */
static const row *twin_of(const listing *other, const row *line, size_t index) {
    for (size_t i = 0; i < other->count; i++)
        if (strcmp(other->rows[i].what, line->what) == 0 && strcmp(other->rows[i].quantity, line->quantity) == 0)
            return &other->rows[i];
    return index < other->count ? &other->rows[index] : line;
}

static void print_word(const char *one, const char *other) {
    printf("\t%s", strcmp(one, other) == 0 ? one : "~");
}

static void print_number(double one, double other) {
    if (one == other)
        printf("\t%.6g", one);
    else
        printf("\t~");
}

static void print_rows(const listing *both, const char *scale) {
    for (size_t i = 0; i < both[0].count; i++) {
        const row *line = &both[0].rows[i], *other = twin_of(&both[1], line, i);
        printf("finding\t%s\t%s", both[0].study, scale);
        print_word(line->what, other->what);
        print_word(line->quantity, other->quantity);
        print_number(line->target, other->target);
        print_number(line->tolerance, other->tolerance);
        print_word(line->criterion, other->criterion);
        print_word(line->evidence, other->evidence);
        print_word(line->source, other->source);
        printf("\n");
    }
}

/* ---- Sentences ---- */

static bool is_sentence(const char *text) {
    return has_words(text) && text[0] >= 'A' && text[0] <= 'Z' && !strstr(text, ". ") && !strstr(text, "  ") &&
           text[strlen(text) - 1] == '.';
}

static void check_sentences(const icl_reproduction *study) {
    if (!is_sentence(study->claim))
        printf("broken\t%s: claim: expected one sentence\n", study->name);
    if (!is_sentence(study->scope))
        printf("broken\t%s: scope: expected one sentence\n", study->name);
}

/* ---- Figures ---- */

/* Returns the sum of finite values, each weighted by its place, so that another order has another sum. */
static double sum_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; values && i < count; i++)
        sum += isfinite(values[i]) ? values[i] * (1 + (double)(i % 7)) : 0;
    return sum;
}

static void hear_figure(void *user, const icl_figure *figure) {
    const listing *all = user;

    if (!all->draws)
        return;
    printf("figure\t%s\t%s\t%s\t%s%s\t%s%s", all->study, figure->name, figure->title, figure->x_label,
           figure->log_x ? " (log)" : "", figure->y_label, figure->log_y ? " (log)" : "");
    for (size_t i = 0; i < figure->count; i++) {
        const icl_series *series = &figure->series[i];
        printf("\t%s, %d: %zu, %.5g, %.5g", series->label, (int)series->style, series->count,
               sum_of(series->x, series->count), sum_of(series->y, series->count));
    }
    printf("\n");
}

static void hear_heat_maps(void *user, const icl_heat_figure *figure) {
    const listing *all = user;

    if (!all->draws)
        return;
    printf("figure\t%s\t%s\t%s\t%s\t%s", all->study, figure->name, figure->title,
           figure->column_label ? figure->column_label : "", figure->row_label ? figure->row_label : "");
    for (size_t i = 0; i < figure->count; i++) {
        const icl_heat_map *map = &figure->maps[i];
        printf("\t%s: %zu x %zu, %.5g", map->label, map->rows, map->columns,
               sum_of(map->values, map->rows * map->columns));
    }
    printf("\n");
}

static icl_status list_study(const icl_reproduction *study, listing *both, icl_error *error) {
    check_sentences(study);
    for (icl_scale scale = ICL_SCALE_CI; scale < ICL_SCALES; scale++) {
        for (uint64_t planting = 0; planting < PLANTINGS; planting++) {
            listing *all = &both[planting];
            const icl_study_listener listener = {
                .plant = plant, .finding = hear, .figure = hear_figure, .heat_maps = hear_heat_maps, .user = all};
            all->study = study->name;
            all->planting = planting;
            all->draws = scale == ICL_SCALE_SHORT && planting == 0;
            all->count = all->found = 0;
            ICL_CHECK(icl_study_list(study, &(icl_reproduce_params){.scale = scale}, &listener, error));
        }
        print_rows(both, icl_scale_name(scale));
        printf("findings\t%s\t%s\t%zu\n", study->name, icl_scale_name(scale), both[0].found);
    }
    return ICL_OK;
}

static bool is_asked(const char *name, int count, char **names) {
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count < 2;
}

int main(int count, char **arguments) {
    static listing both[PLANTINGS];
    icl_catalogue all = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_catalogue_open(&all, &error));
    for (size_t i = 0; i < all.count; i++)
        if (is_asked(all.rows[i].reproduction->name, count, arguments))
            ICL_TRY(list_study(all.rows[i].reproduction, both, &error));
done:
    icl_catalogue_close(&all);
    if (status != ICL_OK)
        fprintf(stderr, "%s: %s\n", both->study ? both->study : "targets", error.message);
    return status != ICL_OK;
}
