/*
 * Reproductions: published tables and figures by name, computed afresh and judged.
 *
 * Each reproduction is a study (study.h), whose name is listed in papers.h, or a file (study_file.h); study_list.h has
 * them all. The frame trains what it needs, prints and judges its findings, each a number of ours next to a published
 * one, and writes them and its figures. Settings are kept in recipes (tools/recipes), published numbers next to the
 * code that uses them, with their source.
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
#include "report/curves.h"
#include "report/figure.h"
#include "report/report.h"

typedef enum icl_scale {
    ICL_SCALE_CI = 0, /* seconds: the same code and verdicts on smaller problems, part of the tests */
    ICL_SCALE_SHORT,  /* minutes on two cores */
    ICL_SCALE_FULL,   /* all that the paper shows */
    ICL_SCALES
} icl_scale;

/* How a target is known. */
typedef enum icl_evidence {
    ICL_EVIDENCE_NONE = 0, /* there is no target: the number is only shown */
    ICL_READ,              /* a number or an order of numbers printed in the paper, its reviews or its authors' code */
    ICL_STATED,            /* the paper says it in words or by a picture; the number that judges it is ours */
    ICL_COMPUTED,          /* a closed form, or computed independently of training */
    ICL_INFERRED,          /* follows from what the paper says */
    ICL_RECALLED,          /* recalled from memory: shown as such, and never judged */
} icl_evidence;

typedef enum icl_criterion {
    ICL_WITHIN = 0, /* |ours - target| <= tolerance */
    ICL_AT_MOST,    /* ours <= target + tolerance: as good, or better */
    ICL_AT_LEAST,   /* ours >= target - tolerance */
} icl_criterion;

/* One of our numbers and the published one. Texts need only live during the call. */
typedef struct icl_finding {
    const char *what;      /* "3 layers, diag, sigma in {1, 3}" */
    const char *quantity;  /* "half adjusted loss" */
    double ours;           /* NaN: nothing came out, for the reason in `note`; a target is then missed */
    double standard_error; /* of ours; 0 if there is none */
    double target, tolerance;
    icl_criterion criterion;
    icl_evidence evidence;
    const char *source; /* "table 1"; may be NULL */
    const char *note;   /* "seed 2 of 3; median .021"; may be NULL */
} icl_finding;

typedef enum icl_judgement { ICL_SHOWN = 0, ICL_MET, ICL_MISSED } icl_judgement;

/* Returns met or missed by the criterion; shown if there is no target or a recalled one. */
icl_judgement icl_finding_judge(const icl_finding *finding);

/* "within", "at most", "at least"; "shown", "met", "missed"; "", "read", "stated", "computed", "inferred", "recalled";
 * "ci", "short", "full". */
const char *icl_criterion_name(icl_criterion criterion);
const char *icl_judgement_name(icl_judgement judgement);
const char *icl_evidence_name(icl_evidence evidence);
const char *icl_scale_name(icl_scale scale);

/* A finding as text: ours, "0.1105 +- 0.0003", and the target, "<= 0.118 +- 0.006"; "-" if there is none. `plus_minus`
 * and `signs` (for the criteria in their order) depend on the medium: ASCII for a terminal. */
typedef struct icl_finding_text {
    char ours[96], target[96];
} icl_finding_text;

icl_finding_text icl_finding_write(const icl_finding *finding, const char *plus_minus, const char *const signs[3]);

/* Adds the finding's name, its quantity, ours and the target to a row of a terminal's table, in aligned columns: a name
 * longer than its column ends the line, and the row continues on the next. */
icl_status icl_finding_row(const icl_finding *finding, icl_text *row, icl_error *error);

/* Prints a number with four significant digits, which tell it from zero and from its neighbours. */
const char *icl_finding_number(double value, char text[32]);

/* Returns by how much ours misses: the distance beyond the tolerance; 0 if it is not missed; NaN if nothing came
 * out. */
double icl_finding_miss(const icl_finding *finding);

/* ---- Texts of findings ---- */

/* A phrase is printed in the arguments of a call:
 *     ICL_JUDGE(study, .what = ICL_PHRASE("%s, keys of %zu", name, width), .ours = accuracy)
 * It lives to the end of the statement that prints it, C's lifetime of what a function returns (C11 6.2.4). */
typedef struct icl_phrase {
    char text[256];
} icl_phrase;

/* Prints a phrase; one that is too long is cut. */
icl_phrase icl_phrase_print(const char *format, ...) ICL_PRINTF(1, 2);

#define ICL_PHRASE(...) (icl_phrase_print(__VA_ARGS__).text)

/* ---- One run of a reproduction ---- */

typedef struct icl_reproduction icl_reproduction;
typedef struct icl_study icl_study;
typedef struct icl_study_cell icl_study_cell;
typedef struct icl_number icl_number;

/* Where a training began and ended. These rows tell a training that failed from a claim that is refuted. */
typedef struct icl_training_row {
    char what[128];     /* the point that it belongs to */
    uint32_t seed;      /* of the training */
    double first, last; /* mean losses of its first batches and of the last tenth; NaN: there are none */
    bool has_diverged;  /* or its last losses are no numbers */
} icl_training_row;

typedef struct icl_reproduce_params {
    icl_backend *backend;
    icl_scale scale;
    uint32_t seed; /* seed of evaluation, and the first of training (icl_reproduce_seed); 0 means 1 */
    /* The folder of the reproduction, created if it is missing: runs, findings.csv, figures, report.html; the first
     * finding replaces the old ones of the last three. Finished runs in it are evaluated anew but not trained again;
     * unfinished ones continue from their checkpoint. */
    const char *folder;
    const char *only;                  /* only the cells whose name contains this; NULL: all */
    double seconds_before;             /* seconds that workers took for its trainings: they are added to its own */
    const char *command_line;          /* for the record; NULL: a command made of name, scale and seed */
    const volatile sig_atomic_t *stop; /* set to non-zero to stop; may be NULL */
    void (*report)(void *user, const icl_reproduction *reproduction, const icl_finding *finding); /* may be NULL */
    void (*say)(void *user, const char *text); /* gets the present activity, one line; may be NULL */
    void (*progress)(void *user, const icl_session_progress *progress); /* of each training; may be NULL */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* makes pictures of a gnuplot script in the folder; may be NULL */
    /* Gets each training behind a missed finding, after the last finding; may be NULL. */
    void (*trained)(void *user, const icl_reproduction *reproduction, const icl_training_row *training);
    void *user;
} icl_reproduce_params;

/* A point of a curve over seeds (icl_curves_draw), for curves.csv and the report. */
typedef struct icl_curve_row {
    char figure[64], curve[128];
    double x, mean, standard_error; /* NaN: it has none */
    size_t seeds;
} icl_curve_row;

/* The argument of a reproduction's functions: one run of it. */
typedef struct icl_reproducing {
    const icl_reproduce_params *params;
    const icl_reproduction *reproduction;
    size_t findings, missed, judged, of_claim; /* see icl_reproduce_summary */
    icl_text table;                            /* findings.csv so far */
    icl_report *report;                        /* report.html so far: the table of findings, not yet closed */
    icl_text pictures;                         /* names of the figures, one a line */
    icl_curve_row *curves;                     /* points of the figures drawn by icl_curves_draw */
    size_t curve_count, curve_capacity;
    icl_training_row *trainings; /* those behind missed findings */
    size_t training_count, training_capacity;
    const struct icl_study_listener *listener; /* set if it is only listed (study_list.h): gets all findings */
} icl_reproducing;

struct icl_reproduction {
    const char *name;             /* "versatile-table1" */
    const char *file;             /* the file of a study of one's own (study_file.h); NULL: it is shipped */
    const char *source;           /* "arXiv 2402.14180, table 1" */
    const char *about;            /* one line */
    const char *cost[ICL_SCALES]; /* "4 s", on two cores; NULL if the scale equals the one below it */

    /* ---- What it does (study.h); all but `plan` may be NULL ---- */
    const char *claim; /* the paper's claim, in one plain sentence */
    const char *scope; /* one sentence: what a table whose targets are all met means, and what was not tested */
    size_t numbers;    /* the number of numbers measured of each cell */
    void (*plan)(icl_study *study);
    /* Fills `values` [icl_model_size], which holds the parameters of the cell's own recipe on entry; `from` holds the
     * trained parameters of begins_with, or is NULL. */
    icl_status (*begin)(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error);
    /* Returns whether the cell is not needed, given the numbers of the cells that it needs: for example a learning rate
     * that lost a search. Called once these are measured, and before that, for lists and workers, with NaN. Such a cell
     * is not trained, measured or judged. */
    bool (*leaves_out)(const icl_study *study, const icl_study_cell *cell);
    /* Writes the value that is watched along the training of a cell with is_watched: smaller is better. */
    icl_status (*watch)(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, double *value,
                        icl_error *error);
    /* Fills as many of numbers [numbers], which are NaN on entry, as it can. */
    icl_status (*measure)(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error);
    void (*judge)(icl_study *study, const icl_study_cell *cell);
    void (*conclude)(icl_study *study);
    const struct icl_study_check_row *checks; /* [check_count], applied to every point, before `judge` */
    size_t check_count;
    const struct icl_study_figure_row *figures; /* [figure_count], drawn before `conclude` */
    size_t figure_count;
    const void *data; /* data of a study that is not built in */
};

typedef struct icl_reproduce_summary {
    size_t findings, missed;
    double seconds; /* seconds since its trainings began */
    size_t judged;  /* findings that were met or missed */
    /* Those that judge what the paper says: their targets are read, stated or inferred. A computed one is then a
     * self-check, that a predictor has its closed form, for example; of a study without others at any scale, whose
     * claim is thus judged by what is computed, all count. 0: the claim was not judged. */
    size_t of_claim;
} icl_reproduce_summary;

/* Writes whether the claim holds, in one sentence: "The claim holds at scale ci: 12 of 12 targets are met.", or "The
 * claim is not judged at scale ci: 2 of 2 self-checks are met." */
icl_status icl_reproduce_verdict(icl_scale scale, const icl_reproduce_summary *summary, icl_text *text,
                                 icl_error *error);

/* Runs a reproduction. ICL_OK even if targets are missed: the summary counts them. ICL_ERROR_INPUT if params->only left
 * nothing to judge. ICL_ERROR_INTERRUPTED if stopped: finished work is kept. */
icl_status icl_reproduce(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                         icl_reproduce_summary *summary, icl_error *error);

/* ---- For the frame, and for what studies measure ---- */

/* Returns the seed of training `number`, from 0: params->seed itself for number 0, then words of a random stream of
 * that seed, so that runs with neighbouring seeds share no training. */
uint32_t icl_reproduce_seed(const icl_reproducing *run, size_t number);

/* Writes the command that repeats the run, with scale and seed. */
void icl_reproduce_command(const icl_reproducing *run, char *text, size_t size);

/* Returns ICL_ERROR_INTERRUPTED once a stop was asked for; loops that do not train call it about every second. */
icl_status icl_reproduce_poll(const icl_reproducing *run, icl_error *error);

/* Reports what is being done. */
void icl_reproduce_say(icl_reproducing *run, const char *format, ...) ICL_PRINTF(2, 3);

/* Reads a recipe of tools/recipes by name; freed by the caller. */
icl_status icl_reproduce_recipe(const char *name, icl_recipe **recipe, icl_error *error);

/* Overrides values by a list, "section.key=value" separated by blanks; an empty one changes nothing. */
icl_status icl_reproduce_override_all(icl_recipe *recipe, const char *list, icl_error *error);

/* ---- Figures: see figure.h. They go to params->folder and into the report ---- */

icl_status icl_reproduce_figure(icl_reproducing *run, const icl_figure *figure, icl_error *error);

icl_status icl_reproduce_heat_maps(icl_reproducing *run, const icl_heat_figure *figure, icl_error *error);

/* Draws the curves of a quantity over seeds, each point their mean with its standard error. Adds their points to
 * curves.csv and to the report, in place of the points of an earlier figure of that name in this run. Draws nothing if
 * all our values are NaN, because then its cells were not asked for. */
icl_status icl_curves_draw(icl_reproducing *run, const icl_curves *curves, icl_error *error);

/* ---- The record that a reproduction leaves: findings.csv, curves.csv and report.html ---- */

/* Three steps of the record. The first begins findings.csv and the report; the second adds a finding to them and writes
 * the table, the first time in place of the folder's old one; the third writes the report with the figures that were
 * drawn and the origin of it all. */
icl_status icl_record_begin(icl_reproducing *run, icl_error *error);
icl_status icl_record_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error);
icl_status icl_record_end(icl_reproducing *run, double seconds, icl_error *error);
void icl_record_release(icl_reproducing *run);

#endif
