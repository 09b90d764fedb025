/*
 * Reproductions: published tables and figures by name, computed afresh and judged.
 *
 * One reproduction is a study (study.h), whose name stands in papers.h. The frame trains what it needs, prints and
 * judges its findings, each a number of ours beside a published one, and writes them and its figures. Settings stand in
 * recipes (tools/recipes), published numbers beside the code that uses them, with their source.
 */
#ifndef ICLAB_PAPERS_REPRODUCE_H
#define ICLAB_PAPERS_REPRODUCE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"
#include "iclab/evaluate.h"
#include "iclab/recipe.h"
#include "iclab/session.h"
#include "iclab/status.h"
#include "iclab/text.h"
#include "report/figure.h"
#include "report/report.h"

typedef enum icl_scale {
    ICL_SCALE_CI = 0, /* seconds: the same code and verdicts on less, part of the tests */
    ICL_SCALE_SHORT,  /* minutes on two cores */
    ICL_SCALE_FULL,   /* all that the paper shows */
    ICL_SCALES
} icl_scale;

/* How a target is known. */
typedef enum icl_evidence {
    ICL_EVIDENCE_NONE = 0, /* there is no target: the number is shown */
    ICL_READ,              /* printed in the paper, its reviews or its authors' code */
    ICL_COMPUTED,          /* a closed form, or computed independently of training */
    ICL_INFERRED,          /* follows from what the paper says */
    ICL_RECALLED,          /* from memory: shown as such, and never judged */
} icl_evidence;

typedef enum icl_criterion {
    ICL_WITHIN = 0, /* |ours - target| <= tolerance */
    ICL_AT_MOST,    /* ours <= target + tolerance: as good, or better */
    ICL_AT_LEAST,   /* ours >= target - tolerance */
} icl_criterion;

/* One number of ours beside a published one. Texts need only live during the call. */
typedef struct icl_finding {
    const char *what;      /* "3 layers, diag, sigma in {1, 3}" */
    const char *quantity;  /* "half adjusted loss" */
    double ours;           /* NaN: nothing came out, for which `note` has the reason; that misses a target */
    double standard_error; /* of ours; 0 where it has none */
    double target, tolerance;
    icl_criterion criterion;
    icl_evidence evidence;
    const char *source; /* "table 1"; may be NULL */
    const char *note;   /* "seed 2 of 3; median .021"; may be NULL */
} icl_finding;

typedef enum icl_judgement { ICL_SHOWN = 0, ICL_MET, ICL_MISSED } icl_judgement;

/* Met or missed by the criterion; shown without a target or for a recalled one. */
icl_judgement icl_finding_judge(const icl_finding *finding);

/* "within", "at most", "at least"; "shown", "met", "missed"; "", "read", "computed", "inferred", "recalled"; "ci",
 * "short", "full". */
const char *icl_criterion_name(icl_criterion criterion);
const char *icl_judgement_name(icl_judgement judgement);
const char *icl_evidence_name(icl_evidence evidence);
const char *icl_scale_name(icl_scale scale);

/* How the finding reads: ours, "0.1105 +- 0.0003", and the target, "<= 0.118 +- 0.006"; with "-" where there is none.
 * `plus_minus` and `signs` for the criteria in their order are texts of the medium: ASCII for a terminal. */
typedef struct icl_finding_text {
    char ours[96], target[96];
} icl_finding_text;

icl_finding_text icl_finding_write(const icl_finding *finding, const char *plus_minus, const char *const signs[3]);

/* Adds what the finding is about, its quantity, ours and the target to a row of a terminal's table, in columns that
 * stand below each other: a name that is longer than its column ends the line, and the row goes on in the next. */
icl_status icl_finding_row(const icl_finding *finding, icl_text *row, icl_error *error);

/* As many digits as tell it from zero and from its neighbours: four significant ones. */
const char *icl_finding_number(double value, char text[32]);

/* By how much ours misses: the distance beyond the tolerance; 0 for anything that is not missed; NaN
 * if nothing came out. */
double icl_finding_miss(const icl_finding *finding);

/* ---- Texts of findings ---- */

/* A phrase is printed where it is used, for the arguments of a call:
 *     ICL_JUDGE(study, .what = ICL_PHRASE("%s, keys of %zu", name, width), .ours = accuracy)
 * It lives to the end of the statement that prints it, C's lifetime of what a function returns (C11 6.2.4). */
typedef struct icl_phrase {
    char text[256];
} icl_phrase;

/* Cut where it is longer. */
icl_phrase icl_phrase_print(const char *format, ...) ICL_PRINTF(1, 2);

#define ICL_PHRASE(...) (icl_phrase_print(__VA_ARGS__).text)

/* ---- One run of a reproduction ---- */

typedef struct icl_reproduction icl_reproduction;
typedef struct icl_study icl_study;
typedef struct icl_study_cell icl_study_cell;
typedef struct icl_number icl_number;

typedef struct icl_reproduce_params {
    icl_backend *backend;
    icl_scale scale;
    uint32_t seed; /* of evaluation, and the first of training (icl_reproduce_seed); 0 means 1 */
    /* Made where it is missing: runs, findings.csv, figures, report.html; the first finding replaces the old ones of
     * the last three. Finished runs that it holds are evaluated anew but not trained again; unfinished ones go on from
     * their checkpoint. */
    const char *folder;
    const char *only;                  /* only the cells whose name contains this; NULL: all */
    double seconds_before;             /* that workers took for its trainings: they count among its seconds */
    const char *command_line;          /* for the record; NULL: one that says name, scale and seed */
    const volatile sig_atomic_t *stop; /* set to non-zero to stop; may be NULL */
    void (*report)(void *user, const icl_reproduction *reproduction, const icl_finding *finding); /* may be NULL */
    void (*say)(void *user, const char *text);                          /* what is being done, one line; may be NULL */
    void (*progress)(void *user, const icl_session_progress *progress); /* of each training; may be NULL */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    void *user;
} icl_reproduce_params;

/* A point of a curve over seeds (curves.h), as curves.csv and the report have it. */
typedef struct icl_curve_row {
    char figure[64], curve[128];
    double x, mean, standard_error; /* NaN: it has none */
    size_t seeds;
} icl_curve_row;

/* What a reproduction's function is given. */
typedef struct icl_reproducing {
    const icl_reproduce_params *params;
    const icl_reproduction *reproduction;
    size_t findings, missed, judged;
    icl_text table;        /* findings.csv so far */
    icl_report *report;    /* report.html so far: the table of findings, open at its end */
    icl_text pictures;     /* names of the figures, one a line */
    icl_curve_row *curves; /* of the figures drawn by icl_curves_draw */
    size_t curve_count, curve_capacity;
    const struct icl_study_listener *listener; /* where it is only listed (study_list.h): who hears of all it finds */
} icl_reproducing;

struct icl_reproduction {
    const char *name;             /* "versatile-table1" */
    const char *file;             /* that holds it (study_file.h); NULL: it is built in */
    const char *source;           /* "arXiv 2402.14180, table 1" */
    const char *about;            /* one line */
    const char *cost[ICL_SCALES]; /* "4 s", on two cores; NULL where a scale is the one below it */

    /* ---- What it does (study.h); all but `plan` may be NULL ---- */
    const char *claim; /* what the paper says, in one plain sentence */
    size_t numbers;    /* that are measured of each cell */
    void (*plan)(icl_study *study);
    /* Fills `values` [icl_model_size], which holds the parameters of the cell's own recipe; `from` holds what
     * begins_with was trained to, or is NULL. */
    icl_status (*begin)(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error);
    /* Whether the numbers of what the cell needs say that it is not needed, as that of a learning rate that lost a
     * search. Asked once these are measured, and before that, for lists and workers, with NaN. Such a cell is not
     * trained, measured or judged. */
    bool (*leaves_out)(const icl_study *study, const icl_study_cell *cell);
    /* A number along the training of a cell with is_watched: smaller is better. */
    icl_status (*watch)(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, double *value,
                        icl_error *error);
    /* Fills what it can of numbers [numbers], which are NaN. */
    icl_status (*measure)(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error);
    void (*judge)(icl_study *study, const icl_study_cell *cell);
    void (*conclude)(icl_study *study);
    const struct icl_study_check_row *checks; /* [check_count], of every point, before `judge` */
    size_t check_count;
    const struct icl_study_figure_row *figures; /* [figure_count], before `conclude` */
    size_t figure_count;
    const void *data; /* of a study that is not built in */
};

/* All of them, paper by paper. */
const icl_reproduction *const *icl_reproductions(size_t *count);

/* The paper of reproduction `index` of them: "Zhang, Frei, Bartlett 2023, \"Trained transformers ...\" (arXiv ...)". */
const char *icl_reproduction_paper(size_t index);

/* One by its name. ICL_ERROR_INPUT names the nearest known. */
icl_status icl_reproduction_find(const char *name, const icl_reproduction **reproduction, icl_error *error);

typedef struct icl_reproduce_summary {
    size_t findings, missed;
    double seconds; /* since its trainings began */
    size_t judged;  /* findings that were met or missed */
} icl_reproduce_summary;

/* Whether the claim holds, in one sentence: "The claim holds at scale ci: 12 of 12 targets are met." */
icl_status icl_reproduce_verdict(icl_scale scale, size_t judged, size_t missed, icl_text *text, icl_error *error);

/* Runs one. ICL_OK also when targets are missed: the summary counts these. ICL_ERROR_INPUT where params->only left
 * nothing to judge (icl_cells_check of study_list.h says so before anything is trained). ICL_ERROR_INTERRUPTED when
 * stopped: what is finished stands. */
icl_status icl_reproduce(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                         icl_reproduce_summary *summary, icl_error *error);

/* ---- For the frame, and for what studies measure ---- */

/* Judges, reports and records one finding. */
icl_status icl_reproduce_found(icl_reproducing *run, const icl_finding *finding, icl_error *error);

/* The seed of training `number`, from 0, of several: params->seed itself, then words of a stream of it, so that runs of
 * neighbouring seeds share no training. */
uint32_t icl_reproduce_seed(const icl_reproducing *run, size_t number);

/* The command that does it again, with scale and seed. */
void icl_reproduce_command(const icl_reproducing *run, char *text, size_t size);

/* ICL_ERROR_INTERRUPTED once a stop was asked for; loops that do not train call it every second or so. */
icl_status icl_reproduce_poll(const icl_reproducing *run, icl_error *error);

/* Says what is being done. */
void icl_reproduce_say(icl_reproducing *run, const char *format, ...) ICL_PRINTF(2, 3);

/* A recipe of tools/recipes by name, freed by the caller. */
icl_status icl_reproduce_recipe(const char *name, icl_recipe **recipe, icl_error *error);

/* Overrides values by a list, "section.key=value" separated by blanks; an empty one changes nothing. */
icl_status icl_reproduce_override_all(icl_recipe *recipe, const char *list, icl_error *error);

/* ---- Figures: see figure.h. They go to params->folder and into the report ---- */

icl_status icl_reproduce_figure(icl_reproducing *run, const icl_figure *figure, icl_error *error);

icl_status icl_reproduce_heat_maps(icl_reproducing *run, const icl_heat_figure *figure, icl_error *error);

/* ---- The record that a reproduction leaves: findings.csv, curves.csv and report.html ---- */

/* Begins findings.csv and the report; adds a finding to them and writes the table, the first in place of what the
 * folder had; and writes the report with the figures that were drawn and how it all came about. */
icl_status icl_record_begin(icl_reproducing *run, icl_error *error);
icl_status icl_record_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error);
icl_status icl_record_end(icl_reproducing *run, double seconds, icl_error *error);
void icl_record_release(icl_reproducing *run);

#endif
