/* Tests the frame of reproductions: targets that are met or missed, and that a failing function ends a run (record.c
 * tests what a run leaves). */
#include "papers/study.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "papers/study_list.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

/* ---- Judging ---- */

static void test_judging(tap_run *tap) {
    const double nan = (double)NAN;
    const struct {
        icl_finding finding;
        icl_judgement judgement;
        double miss;
        const char *name;
    } cases[] = {
        {{.ours = 1, .target = 2, .tolerance = 1, .evidence = ICL_READ}, ICL_MET, 0, "at the edge below"},
        {{.ours = 3, .target = 2, .tolerance = 1, .evidence = ICL_READ}, ICL_MET, 0, "at the edge above"},
        {{.ours = 3.5, .target = 2, .tolerance = 1, .evidence = ICL_READ}, ICL_MISSED, .5, "too large"},
        {{.ours = .75, .target = 2, .tolerance = 1, .evidence = ICL_READ}, ICL_MISSED, .25, "too small"},
        {{.ours = -9, .target = 2, .tolerance = 1, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED},
         ICL_MET,
         0,
         "at most: better"},
        {{.ours = 4, .target = 2, .tolerance = 1, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED},
         ICL_MISSED,
         1,
         "at most: worse"},
        {{.ours = 9, .target = 2, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED}, ICL_MET, 0, "at least: more"},
        {{.ours = 1, .target = 2, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED},
         ICL_MISSED,
         1,
         "at least: less"},
        {{.ours = 99, .target = 2, .evidence = ICL_RECALLED}, ICL_SHOWN, 0, "a recalled target never fails"},
        {{.ours = nan}, ICL_SHOWN, 0, "no target"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tap_ok(tap,
               icl_finding_judge(&cases[i].finding) == cases[i].judgement &&
                   icl_finding_miss(&cases[i].finding) == cases[i].miss,
               "%s: %s", cases[i].name, icl_judgement_name(cases[i].judgement));
    for (int criterion = ICL_WITHIN; criterion <= ICL_AT_LEAST; criterion++) {
        const icl_finding nothing = {.ours = nan, .criterion = (icl_criterion)criterion, .evidence = ICL_READ};
        tap_ok(tap, icl_finding_judge(&nothing) == ICL_MISSED && isnan(icl_finding_miss(&nothing)),
               "nothing came out: missed, whatever the criterion (%d)", criterion);
    }
}

static void test_verdicts(tap_run *tap) {
    static const struct {
        icl_reproduce_summary summary;
        const char *text;
    } cases[] = {
        {{.judged = 0}, "Nothing was judged at scale short: no finding has a target."},
        {{.judged = 7, .of_claim = 1}, "The claim holds at scale short: 7 of 7 targets are met."},
        {{.judged = 7, .missed = 1, .of_claim = 1},
         "The claim does not hold at scale short: 1 of 7 targets are missed."},
        {{.judged = 7}, "The claim is not judged at scale short: 7 of 7 self-checks are met."},
        {{.judged = 7, .missed = 1}, "The claim is not judged at scale short: 1 of 7 self-checks are missed."}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_text text = {0};
        tap_ok(tap,
               icl_reproduce_verdict(ICL_SCALE_SHORT, &cases[i].summary, &text, NULL) == ICL_OK && text.bytes &&
                   strcmp(text.bytes, cases[i].text) == 0,
               "%s", cases[i].text);
        icl_text_release(&text);
    }
}

/* ---- What judges the claim ---- */

/* One finding of this study is computed, and the larger scales have another, by the evidence in its data. */
static void judge_larger(icl_study *study) {
    const icl_evidence *evidence = study->run->reproduction->data;

    ICL_JUDGE(study, .what = "predictor", .quantity = "loss", .ours = 1, .target = 1, .evidence = ICL_COMPUTED);
    if (study->scale > ICL_SCALE_CI)
        ICL_JUDGE(study, .what = "model", .quantity = "loss", .ours = 1, .target = 1, .evidence = *evidence);
}

static void plan_one(icl_study *study) {
    ICL_ADD_CELL(study, .name = "cell-one");
}

/* A finding with a computed target is a self-check where some scale judges the claim by what the paper says, and judges
 * the claim where none does. The summary and the report say the same. */
static void test_of_claim(tap_run *tap, const char *folder) {
    static const struct {
        icl_evidence evidence;
        icl_scale scale;
        size_t of_claim;
        const char *verdict;
    } cases[] = {
        {ICL_READ, ICL_SCALE_CI, 0, "The claim is not judged at scale ci: 1 of 1 self-checks are met."},
        {ICL_READ, ICL_SCALE_FULL, 1, "The claim holds at scale full: 2 of 2 targets are met."},
        {ICL_STATED, ICL_SCALE_CI, 0, "The claim is not judged at scale ci: 1 of 1 self-checks are met."},
        {ICL_STATED, ICL_SCALE_SHORT, 1, "The claim holds at scale short: 2 of 2 targets are met."},
        {ICL_INFERRED, ICL_SCALE_CI, 0, "The claim is not judged at scale ci: 1 of 1 self-checks are met."},
        {ICL_INFERRED, ICL_SCALE_SHORT, 1, "The claim holds at scale short: 2 of 2 targets are met."},
        {ICL_COMPUTED, ICL_SCALE_CI, 1, "The claim holds at scale ci: 1 of 1 targets are met."},
        {ICL_RECALLED, ICL_SCALE_SHORT, 1, "The claim holds at scale short: 1 of 1 targets are met."},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const icl_reproduction reproduction = {
            .name = "claim", .plan = plan_one, .conclude = judge_larger, .data = &cases[i].evidence};
        const icl_reproduce_params params = {.folder = folder, .scale = cases[i].scale};
        icl_reproduce_summary summary = {0};
        icl_error error = {0};
        tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
        char *html = shown_file(folder, "report.html");
        tap_ok(tap, summary.of_claim == cases[i].of_claim && html && strstr(html, cases[i].verdict), "%s: %zu: %s",
               icl_evidence_name(cases[i].evidence), summary.of_claim, cases[i].verdict);
        free(html);
    }
}

/* ---- Rows ---- */

/* The columns have 28, 28, 23 and 26 characters: a text that fills its column leaves the next column in place, and a
 * longer one ends its line. */
static void test_rows(tap_run *tap) {
    const char *const fits = "twenty-eight characters long", *const wide = "twenty-nine characters longer";
    static const char *const numbers = "         0.25 +- 0.0625                     <= 0.5";
    const struct {
        const char *what, *quantity, *between[2];
    } cases[] = {{fits, fits, {" ", " "}},
                 {wide, fits, {"\n                             ", " "}},
                 {fits, wide, {" ", "\n                                                          "}},
                 {wide,
                  wide,
                  {"\n                             ", "\n                                                          "}}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const icl_finding finding = {.what = cases[i].what,
                                     .quantity = cases[i].quantity,
                                     .ours = .25,
                                     .standard_error = .0625,
                                     .target = .5,
                                     .criterion = ICL_AT_MOST,
                                     .evidence = ICL_READ};
        char expected[256];
        icl_text row = {0};
        snprintf(expected, sizeof expected, "%s%s%s%s%s", cases[i].what, cases[i].between[0], cases[i].quantity,
                 cases[i].between[1], numbers);
        tap_ok(tap, icl_finding_row(&finding, &row, NULL) == ICL_OK && strcmp(row.bytes, expected) == 0,
               "names of %zu and %zu characters", strlen(cases[i].what), strlen(cases[i].quantity));
        if (strcmp(row.bytes, expected) != 0)
            tap_note("%s", row.bytes);
        icl_text_release(&row);
    }
}

/* ---- A run ---- */

static void plan_two(icl_study *study) {
    ICL_ADD_CELL(study, .name = "cell-one");
    ICL_ADD_CELL(study, .name = "cell-two");
}

static void judge_two(icl_study *study, const icl_study_cell *cell) {
    if (strcmp(cell->name, "cell-one") == 0)
        ICL_JUDGE(study, .what = "one", .quantity = "loss", .ours = .25, .target = .125, .tolerance = .0625,
                  .evidence = ICL_READ);
    else
        ICL_JUDGE(study, .what = "two", .quantity = "loss", .ours = 2);
}

static void fail(icl_study *study, icl_status status, const char *message) {
    icl_error error = {0};

    icl_study_check(study, icl_fail(&error, status, "%s", message), &error);
}

static void fail_at_once(icl_study *study) {
    fail(study, ICL_ERROR_MEMORY, "nothing left");
}

static void test_run(tap_run *tap, const char *folder) {
    const icl_reproduction reproduction = {.name = "example", .plan = plan_two, .judge = judge_two};
    const icl_reproduce_params params = {.folder = folder};
    icl_reproduce_summary summary;
    icl_error error = {0};

    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    tap_ok(tap, summary.findings == 2 && summary.missed == 1, "two findings, one of them missed");
}

static void test_choice(tap_run *tap, const char *folder) {
    const icl_reproduction reproduction = {.name = "example", .plan = plan_two, .judge = judge_two};
    icl_reproduce_params params = {.folder = folder, .only = "two"};
    icl_reproduce_summary summary;
    icl_error error = {0};

    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "the cells with two");
    tap_ok(tap, summary.findings == 1 && summary.missed == 0, "one finding is left");
    tap_ok(tap, summary.seconds < 500, "in %.3g s", summary.seconds);
    params.seconds_before = 1000;
    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "again, behind workers");
    tap_ok(tap, summary.seconds > 1000, "the workers' 1000 s count: %.4g s", summary.seconds);
    params.only = "three";
    tap_ok(tap,
           icl_reproduce(&reproduction, &params, &summary, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "example: three: no cell"),
           "a choice that leaves nothing: %s", error.message);
}

static void find_and_fail(icl_study *study, const icl_study_cell *cell) {
    (void)cell;
    ICL_JUDGE(study, .what = "one", .quantity = "new", .ours = 1);
    fail(study, ICL_ERROR_DEVICE, "the second cell fails");
}

/* A report never lies beside findings that it lacks: an old one is removed with the first new finding, and not
 * before. */
static void test_old_report(tap_run *tap, const char *folder) {
    const icl_reproduction at_once = {.name = "failing", .plan = fail_at_once},
                           later = {.name = "failing", .plan = plan_two, .judge = find_and_fail};
    const icl_reproduce_params params = {.folder = folder};
    icl_reproduce_summary summary;
    char *report = NULL;
    icl_error error = {0};

    if (!tap_status(tap, icl_path_join(folder, "report.html", &report, &error), &error, "a path"))
        return;
    (void)icl_reproduce(&at_once, &params, &summary, &error);
    tap_ok(tap, icl_path_exists(report), "a run without findings leaves the old ones their report");
    tap_ok(tap,
           icl_reproduce(&later, &params, &summary, &error) == ICL_ERROR_DEVICE && summary.findings == 1 &&
               !icl_path_exists(report),
           "one that ends behind its first finding has none");
    icl_free(&report);
}

static void test_failures(tap_run *tap, const char *folder) {
    const icl_reproduction failing = {.name = "failing", .plan = fail_at_once};
    const volatile sig_atomic_t stop = SIGINT;
    const icl_reproduce_params params = {.folder = folder, .stop = &stop};
    const icl_reproducing run = {.params = &params, .reproduction = &failing};
    const icl_reproduction *found = NULL;
    icl_catalogue all = {0};
    icl_reproduce_summary summary;
    icl_error error = {0};

    tap_status(tap, icl_catalogue_open(&all, &error), &error, "the catalogue");
    tap_ok(tap, icl_reproduce(&failing, &params, &summary, &error) == ICL_ERROR_MEMORY, "a failure is passed on");
    tap_ok(tap, icl_reproduce_poll(&run, &error) == ICL_ERROR_INTERRUPTED, "a request to stop: %s", error.message);
    tap_ok(tap,
           icl_catalogue_find(&all, "versatile-tabel1", &found, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "versatile-table1"),
           "an unknown name: %s", error.message);
    tap_ok(tap, icl_catalogue_find(&all, "versatile-table1", &found, &error) == ICL_OK && found->plan, "a known one");
    icl_catalogue_close(&all);
}

/* ---- Seeds ---- */

/* Twelve runs of neighbouring seeds have four trainings each: no two trainings share a seed, and each run's first one
 * has the run's seed. */
static void test_seeds(tap_run *tap) {
    enum { RUNS = 12, OF_EACH = 4, ALL = RUNS * OF_EACH };
    uint32_t seeds[ALL];
    size_t same = 0, own = 0;

    for (size_t i = 0; i < ALL; i++) {
        const icl_reproduce_params params = {.seed = (uint32_t)(1 + i / OF_EACH)};
        seeds[i] = icl_reproduce_seed(&(icl_reproducing){.params = &params}, i % OF_EACH);
        own += i % OF_EACH == 0 && seeds[i] == params.seed;
        for (size_t k = 0; k < i; k++)
            same += seeds[k] == seeds[i];
    }
    tap_ok(tap, same == 0 && own == RUNS, "runs of seeds 1 to 12 share no training: %zu pairs are equal", same);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;
    char folder[512];

    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "run"));
    test_judging(&tap);
    test_verdicts(&tap);
    test_rows(&tap);
    test_of_claim(&tap, folder);
    test_run(&tap, folder);
    test_choice(&tap, folder);
    test_failures(&tap, folder);
    test_old_report(&tap, folder);
    scratch_close(&scratch);
    test_seeds(&tap);
    return tap_done(&tap);
}
