/*
 * What the data decide: Reddy 2024 (arXiv 2312.03002), in-context beside in-weights learning of classification, by
 * burstiness, number of classes and skew of their frequencies, at a reduced size: contexts of 4 or 8 pairs, items of 16
 * numbers, 8 labels, up to 2,048 classes.
 *
 * One model, trained on one kind of sequences, is asked three things:
 *     in context  classes that it never saw, two items of each in the context
 *     in weights  known classes that the context lacks
 *     swapped     known classes whose labels are moved by one: who reads the context gives the new ones
 *
 * The paper's numbers are plots that were not at hand; judged is what its abstract says, that burstiness, large
 * dictionaries and skewed frequencies control the trade-off or simultaneous appearance of both.
 */
#include <inttypes.h>
#include <math.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"

enum { MOST_POINTS = 5, ASKED = 3 };

static const struct {
    const char *label, *overrides;
} questions[ASKED] = {
    {"in context", "task.fresh=1 task.burstiness=2"},
    {"in weights", "task.bursty=0 task.query=outside"},
    {"swapped labels", "task.bursty=1 task.burstiness=2 task.label_shift=1"},
};

enum { IN_CONTEXT, IN_WEIGHTS };

/* One quantity that varies. */
typedef struct sweep {
    const char *name, *title, *key, *others; /* others: overrides of the recipe beside the key's */
    double longer;                           /* than other sweeps' trainings */
    bool log_x;
    double points[MOST_POINTS]; /* up to the first below 0 */
} sweep;

static const sweep sweeps[] = {
    {"burstiness",
     "items of each class in a context of 8",
     "task.burstiness",
     "task.examples=8 task.classes=512",
     1.5,
     true,
     {1, 2, 4, -1}},
    {"classes", "known classes", "task.classes", "", 1, true, {16, 64, 256, 2048, -1}},
    {"frequencies",
     "exponent of the classes' frequencies",
     "task.frequency_exponent",
     "task.classes=1024",
     1,
     false,
     {0, .5, 1, 1.5, -1}},
};

/* Sequences of an evaluation; the ends of a sweep alone at ci. */
static const struct {
    size_t steps, seeds, sequences;
    bool ends;
    const char *overrides;
} budgets[ICL_SCALES] = {
    {1000, 1, 1024, true, ""},
    {2000, 3, 4096, false, ""},
    {75000, 3, 10000, false,
     "task.examples=8 task.item_size=63 task.label_count=32 task.places=65 model.width=128 model.positions=none "
     "train.batch=128"},
};

/* ---- One model ---- */

/* Trains a model and adds what it answers to the curves. */
static icl_status train(icl_reproducing *run, const sweep *of, double x, size_t number, icl_curves *curves,
                        icl_error *error) {
    const uint32_t seed = icl_reproduce_seed(run, number);
    char name[ICL_SEEDED_NAME], own[256];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = "classification",
                                  .overrides = {budgets[run->params->scale].overrides, of->others, own},
                                  .steps = (size_t)(of->longer * (double)budgets[run->params->scale].steps),
                                  .sequences = budgets[run->params->scale].sequences,
                                  .seed = seed};
    icl_seeded made = {NULL};
    double accuracy;
    icl_status status = ICL_OK;

    icl_print(name, sizeof name, "%s-%g", of->name, x);
    icl_print(own, sizeof own, "%s=%g eval.predictors= eval.seed=%" PRIu32 " task.class_seed=%" PRIu32, of->key, x,
              seed, seed);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &made, error));
    for (size_t i = 0; i < ASKED; i++) {
        ICL_TRY(icl_reproduce_accuracy_as(run, made.trainer, made.recipe, questions[i].overrides, &accuracy, error));
        ICL_TRY(icl_curves_add(curves, questions[i].label, ICL_SERIES_OURS, x, accuracy, error));
    }
done:
    icl_seeded_release(&made);
    return status;
}

/* ---- Verdicts ---- */

static icl_phrase name_point(const sweep *of, size_t question, double x) {
    return icl_phrase_print("%s, %s %g", questions[question].label, of->key, x);
}

/* The accuracy of a question at one point less that at another, over seeds, which must be above 0. */
static icl_status judge_change(icl_reproducing *run, const sweep *of, const icl_curves *curves, size_t question,
                               double from, double to, icl_error *error) {
    const icl_curve_point before = icl_curves_at(curves, questions[question].label, from);
    const icl_curve_point after = icl_curves_at(curves, questions[question].label, to);

    return ICL_FOUND(run, error, .what = name_point(of, question, to).text,
                     .quantity = ICL_PHRASE("accuracy above that at %g", from), .ours = after.mean - before.mean,
                     .standard_error = hypot(before.standard_error, after.standard_error), .target = 0,
                     .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                     .source = "abstract: the data control the trade-off",
                     .note = ICL_PHRASE("%.3f and %.3f, %zu seeds", after.mean, before.mean, after.seeds));
}

/* Skewed frequencies let both appear: the smaller of the two accuracies at a point above that without skew. */
static icl_status judge_both(icl_reproducing *run, const sweep *of, const icl_curves *curves, double from, double to,
                             icl_error *error) {
    icl_curve_point at[2][2]; /* [from, to][question] */
    char note[128];

    for (size_t question = 0; question < 2; question++) {
        at[0][question] = icl_curves_at(curves, questions[question].label, from);
        at[1][question] = icl_curves_at(curves, questions[question].label, to);
    }
    const icl_curve_point *before = &at[0][at[0][IN_CONTEXT].mean > at[0][IN_WEIGHTS].mean];
    const icl_curve_point *after = &at[1][at[1][IN_CONTEXT].mean > at[1][IN_WEIGHTS].mean];
    icl_print(note, sizeof note, "in context %.3f, in weights %.3f; at %g %.3f and %.3f", at[1][IN_CONTEXT].mean,
              at[1][IN_WEIGHTS].mean, from, at[0][IN_CONTEXT].mean, at[0][IN_WEIGHTS].mean);
    return ICL_FOUND(run, error, .what = ICL_PHRASE("lesser of both, %s %g", of->key, to),
                     .quantity = "accuracy above that without skew", .ours = after->mean - before->mean,
                     .standard_error = hypot(before->standard_error, after->standard_error), .target = 0,
                     .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                     .source = "abstract: skew allows their simultaneous appearance", .note = note);
}

static icl_status show_points(icl_reproducing *run, const sweep *of, const icl_curves *curves, double x,
                              icl_error *error) {
    for (size_t question = 0; question < ASKED; question++) {
        const icl_curve_point point = icl_curves_at(curves, questions[question].label, x);
        ICL_CHECK(ICL_FOUND_POINT(run, error, point, .what = name_point(of, question, x).text, .quantity = "accuracy"));
    }
    return ICL_OK;
}

/* ---- The sweeps ---- */

static size_t count_points(const sweep *of) {
    size_t count = 0;
    while (count < MOST_POINTS && of->points[count] >= 0)
        count++;
    return count;
}

static icl_status judge(icl_reproducing *run, const sweep *of, const icl_curves *curves, icl_error *error) {
    const double first = of->points[0], last = of->points[count_points(of) - 1];

    if (of == &sweeps[2])
        return judge_both(run, of, curves, first, 1, error);
    ICL_CHECK(judge_change(run, of, curves, IN_CONTEXT, first, last, error));
    return judge_change(run, of, curves, IN_WEIGHTS, last, first, error);
}

static icl_status reproduce_sweep(icl_reproducing *run, const sweep *of, icl_error *error) {
    icl_curves curves = {.figure = {.name = of->name,
                                    .title = "What two layers of attention learn, by the data",
                                    .x_label = of->title,
                                    .y_label = "share of right answers",
                                    .log_x = of->log_x}};
    const size_t count = count_points(of);
    icl_status status = ICL_OK;

    for (size_t i = 0; i < count; i++) {
        if (budgets[run->params->scale].ends && i > 0 && i + 1 < count)
            continue;
        for (size_t seed = 0; seed < budgets[run->params->scale].seeds; seed++)
            ICL_TRY(icl_reproduce_next(run, train(run, of, of->points[i], seed, &curves, error)));
        ICL_TRY(show_points(run, of, &curves, of->points[i], error));
    }
    ICL_TRY(judge(run, of, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;

    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        if ((!is_ci || i == 1) && icl_reproduce_wants(run, sweeps[i].name))
            ICL_CHECK(reproduce_sweep(run, &sweeps[i], error));
    return ICL_OK;
}

const icl_reproduction icl_classification_burstiness = {
    .name = "classification-burstiness",
    .source = "arXiv 2312.03002",
    .about = "in-context beside in-weights learning of classification, by burstiness, classes and their frequencies",
    .cost = {"5 s", "3 min", "3 d"},
    .is_shared = true,
    .run = reproduce,
};
